"""What runs where on a rank: the numbers of a simulated pipeline's streams, and what they are called."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Actions; copies of offloaded activations; from `LINKS` on, messages, four streams for each rank at the other end.
COMPUTE: Final = 7
TO_HOST: Final = 31
FROM_HOST: Final = 32
LINKS: Final = 100

_NAMES = {COMPUTE: "compute", TO_HOST: "copies to the host", FROM_HOST: "copies from the host"}


def link(peer: NDArray[np.int32], *, receives: bool, apart: NDArray[np.bool_] | bool = False) -> NDArray[np.int32]:
    """The streams of messages to, or from, each of these ranks. apart: those that pass beside the others."""
    streams: NDArray[np.int32] = LINKS + 4 * peer + 2 * receives + np.asarray(apart, np.int32)
    return streams


def stream_name(stream: int) -> str:
    """What a stream is called: "compute", "sends to 3"."""
    if stream < LINKS:
        return _NAMES[stream]
    peer, which = divmod(stream - LINKS, 4)
    return f"receives from {peer}" if which >= 2 else f"sends to {peer}"
