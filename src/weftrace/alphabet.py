"""The alphabet of steps: what F, I, W, B and F&B mean, everywhere: in plans, in traces' phases, on every picture.

A phase is called by what it does and its direction: "attn(F)", "mlp(B)". Names of measured runs are read generously.

Which layer and micro-batch a phase is of stands beside its name. A simulated trace has them as arguments of the range;
of a range that a run recorded only the name survives in the JSON of every torch, so there the name has them too:
"attn(F) {layer=3, micro_batch=1}".
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

#: The name of a range with numbers beside its phase: group 1 the phase, group 2 "layer=3, micro_batch=1". Polars reads
#: it as Python does. The first number is one of the two: others' names in braces ("run {batch=32}") stay as they are.
NUMBERED: Final = r"^(.*\S) \{((?:layer|micro_batch)=\d{1,9}(?:, [a-z_]+=\d{1,9})*)\}$"
_NUMBERED = re.compile(NUMBERED.removesuffix("$") + r"\Z")


def phase_name(phase: str, *, layer: int | None = None, micro_batch: int | None = None, **more: int | None) -> str:
    """What the range of a phase is called in a run: `attn(F) {layer=3, micro_batch=1}`. What is None is not written.

    more: further numbers, such as a chunk's; they are read again where a layer or a micro-batch stands before them.
    """
    numbers = {"layer": layer, "micro_batch": micro_batch, **more}
    summary = ", ".join(f"{key}={number}" for key, number in numbers.items() if number is not None)
    return f"{phase} {{{summary}}}" if summary else phase


def numbers_in(name: str) -> tuple[str, dict[str, int]]:
    """`attn(F) {layer=3, micro_batch=1}` as (`attn(F)`, {"layer": 3, "micro_batch": 1}); another name as (name, {})."""
    if " {" not in name or (match := _NUMBERED.match(name)) is None:
        return name, {}
    pairs = (pair.split("=") for pair in match[2].split(", "))
    return match[1], {key: int(number) for key, number in pairs}


def direction_of(name: str) -> str | None:
    """The direction, one of `DRAWN`, of a name such as "attn(F)", "dispatch (B)", "layer3.backward"; None without one.

    Two words are read where there is no letter: forward (fwd) and backward (bwd).
    """
    name = numbers_in(name)[0]
    if match := _LETTER.search(name.strip()):
        return DRAWN_AS[match[1]]
    lowered = name.lower()
    backward = "backward" in lowered or re.search(r"(?:\b|_)bwd(?:\b|_)", lowered) is not None
    forward = "forward" in lowered or re.search(r"(?:\b|_)fwd(?:\b|_)", lowered) is not None
    return None if backward == forward else "B" if backward else "F"


def stem_of(name: str) -> tuple[str, str]:
    """`attn(F)` as (`attn`, `F`); a name with no direction as (name, ``)."""
    name = numbers_in(name)[0]
    match = re.fullmatch(r"(.+)\(([A-Z])\)", name)
    return (match[1], match[2]) if match else (name, "")
