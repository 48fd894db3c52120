"""The alphabet of steps: what F, I, W, B and F&B mean, everywhere: in plans, in traces' phases, on every picture.

A phase is called by what it does and its direction: "attn(F)", "mlp(B)". Names of measured runs are read generously.
"""

from __future__ import annotations

import re
from typing import Final, Literal

#: The alphabet's version: raised when a letter is added or its meaning changes.
VERSION: Final = 1

#: A direction of work: forward; full backward, which is I and W together, or what a model's author calls backward;
#: input gradient; weight gradient; and a forward overlapped with a backward of another micro-batch.
Direction = Literal["F", "B", "I", "W", "F&B"]

#: Direction -> what it is called, in the order of legends.
DIRECTIONS: Final[dict[str, str]] = {
    "F": "forward",
    "B": "backward",
    "I": "input gradient",
    "W": "weight gradient",
    "F&B": "forward and backward",
}

#: Direction -> the one as which the lane picture draws it, with a colour and a fill of its own. An input gradient is
#: drawn as a backward, for many authors call it so; F&B is drawn as what it consists of.
DRAWN_AS: Final[dict[str, str]] = {"F": "F", "B": "B", "I": "B", "W": "W"}
DRAWN: Final = tuple(direction for direction in DIRECTIONS if direction in DRAWN_AS.values())

_LETTER = re.compile(rf"[(\[_.\s:]([{''.join(DRAWN_AS)}])[)\]]?$")


def direction_of(name: str) -> str | None:
    """The direction, one of `DRAWN`, of a name such as "attn(F)", "dispatch (B)", "layer3.backward"; None without one.

    Two words are read where there is no letter: forward (fwd) and backward (bwd).
    """
    if match := _LETTER.search(name.strip()):
        return DRAWN_AS[match[1]]
    lowered = name.lower()
    backward = "backward" in lowered or re.search(r"(?:\b|_)bwd(?:\b|_)", lowered) is not None
    forward = "forward" in lowered or re.search(r"(?:\b|_)fwd(?:\b|_)", lowered) is not None
    return None if backward == forward else "B" if backward else "F"


def stem_of(name: str) -> tuple[str, str]:
    """`attn(F)` as (`attn`, `F`); a name with no direction as (name, ``)."""
    match = re.fullmatch(r"(.+)\(([A-Z])\)", name)
    return (match[1], match[2]) if match else (name, "")
