"""The alphabet of steps: what F, I, W, B and F&B mean, everywhere: in plans, in traces' phases, on every picture."""

from __future__ import annotations

from typing import Final, Literal

#: The alphabet's version: raised when a letter is added or its meaning changes.
VERSION: Final = 1

#: A direction of work: forward; input gradient; weight gradient; full backward, which is I and W together; and a
#: forward overlapped with a backward of another micro-batch.
Direction = Literal["F", "I", "W", "B", "F&B"]

#: Direction -> what it is called.
DIRECTIONS: Final[dict[str, str]] = {
    "F": "forward",
    "I": "input gradient",
    "W": "weight gradient",
    "B": "backward",
    "F&B": "forward and backward",
}
