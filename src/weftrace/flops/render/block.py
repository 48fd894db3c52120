"""What the page about a model's cost holds, as types: tsc checks the page's code by them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from weftrace.flops.derived.coverage import Coverage, UnknownOp
from weftrace.flops.render.facts import Card
from weftrace.flops.render.fold import Above

PhaseName = Literal["forward", "backward", "recompute", "optimizer"]


class PhaseTotal(TypedDict):
    """What a step does in a phase. time: in ns, None where nothing was timed."""

    phase: PhaseName
    flops: float
    executed: float
    vector: float
    bytes: float
    time: float | None


#: Modules as columns; class and detail are positions in `classes` and `details`, parent is -1 for a root, and modules
#: that are alike all the way down have one number in `same`.
ModuleColumns = TypedDict(
    "ModuleColumns",
    {
        "name": list[str],
        "class": list[int],
        "detail": list[int],
        "parent": list[int],
        "same": list[int],
        "calls": list[float],
        "params": list[float],
    },
)


class WorkColumns(TypedDict):
    """What each module does itself in a phase; zero columns are left out. kind: a letter a module: "c", "m" or "-"."""

    flops: list[float]
    executed: NotRequired[list[float]]
    vector: NotRequired[list[float]]
    bytes: NotRequired[list[float]]
    own_time: NotRequired[list[float]]
    bound: NotRequired[list[float]]
    kind: NotRequired[str]


class Roofs(TypedDict):
    """Memory's bandwidth, and (name, rate) of each peak that the work used, highest first."""

    name: str
    bytes_per_s: float
    compute: list[tuple[str, float]]


class KindTotal(TypedDict):
    """All operators of a kind. work: executed and vector FLOPs together."""

    kind: str
    calls: float
    work: float
    bytes: float
    bound_ns: float


class OperatorTotal(TypedDict):
    op: str
    phase: PhaseName
    kind: str
    calls: float
    executed: float
    vector: float
    bytes: float
    status: str
    note: str


class FlopsBlock(TypedDict):
    """The page's data. exact: the model FLOPs to the last one, and how far they can be trusted.

    Counts have few digits, times are in ns."""

    name: str
    ranks: int
    facts: list[str]
    warnings: list[str]
    cards: list[Card]
    timed: bool
    bounded: bool
    phases: list[PhaseTotal]
    modules: ModuleColumns
    classes: list[str]
    details: list[str]
    work: dict[PhaseName, WorkColumns]
    roofs: Roofs | None
    kinds: list[KindTotal]
    worst: list[Above]
    ops: list[OperatorTotal]
    unknown: tuple[UnknownOp, ...]
    exact: str
    coverage: Coverage
    remarks: list[tuple[str, list[str]]]
