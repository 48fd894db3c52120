"""For what part of its time does an op have certain others beside it, on its rank?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.analysis.intervals import covered, union


def concurrency_fraction(
    at: NDArray[Any], start_ns: NDArray[Any], end_ns: NDArray[Any], others: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Of each op, the part of its time during which at least one of the others (a mask) runs on its rank, [ops]: from 0
    to 1; of one that takes no time 0.

    at: of each op its rank, or that one's position.
    """
    part = np.zeros(len(at))
    for rank in np.unique(at):
        mine = at == rank
        start, end = start_ns[mine], end_ns[mine]
        cover = union(start_ns[mine & others], end_ns[mine & others])
        part[mine] = covered(cover, start, end) / np.maximum(end - start, 1)
    return part
