"""What stands in the document of a FLOPs report (`weftrace.flops/1`): its JSON Schema is made of this.

The document holds the report itself (`SavedReport`), and beside it what tools would otherwise compute again. Columns
are an object of lists of one length: entry i of each belongs together. FLOPs can pass 2^63 and stay whole numbers; a
reader in a language without big integers takes them as floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypedDict

from msgspec import UNSET, Meta, UnsetType

from weftrace.costs.cost import Cost, Phase
from weftrace.files.schemas import Count
from weftrace.flops.derived.coverage import Coverage
from weftrace.flops.derived.params import Params
from weftrace.flops.derived.predict import Prediction
from weftrace.flops.derived.roofline import Roofline
from weftrace.flops.derived.tally import Totals
from weftrace.flops.derived.throughput import Throughput
from weftrace.flops.derived.utilization import Utilization
from weftrace.flops.values import RunFacts

SCHEMA: Final = "weftrace.flops/1"
TITLE = "What a model costs in one step: FLOPs, bytes, parameters and time by module"

ModuleIndex = Annotated[Count, Meta(description="Index into modules.")]


def _check_columns(value: CallColumns | TimeColumns) -> None:
    lengths = {name: len(getattr(value, name)) for name in value.__dataclass_fields__}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of different lengths: {', '.join(f'{n} of {name}' for name, n in lengths.items())}")


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator with the shapes of a call."""

    op: str
    signature: str
    cost: Annotated[Count, Meta(description="Index into costs.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallColumns:
    """Calls, as columns."""

    module: list[ModuleIndex]
    phase: list[Phase]
    signature: Annotated[list[Count], Meta(description="Indices into signatures.")]
    calls: list[Count]

    def __post_init__(self) -> None:
        _check_columns(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumns:
    """Exclusive times, as columns."""

    module: list[ModuleIndex]
    phase: list[Phase]
    samples_ns: Annotated[list[list[Count]], Meta(description="One a timed step.")]

    def __post_init__(self) -> None:
        _check_columns(self)
        if len({len(samples) for samples in self.samples_ns}) > 1:
            raise ValueError("samples_ns has different numbers of timed steps")


BothTotals = TypedDict(
    "BothTotals",
    {
        "local": Annotated[Totals, Meta(description="What this rank (the merged ranks together) executes.")],
        "global": Annotated[Totals | None, Meta(description="All ranks; null if merged ranks lack it.")],
    },
)


class TallyColumns(TypedDict):
    """Tallies, as columns."""

    flops: list[Count]
    full_flops: list[Count]
    executed_flops: list[Count]
    vector_flops: list[Count]
    read_bytes: list[Count]
    written_bytes: list[Count]
    calls: list[Count]
    unknown_calls: list[Count]


class SpreadColumns(TypedDict):
    """Times over the timed steps, as columns. samples: how many steps."""

    median: list[Count]
    lowest: list[Count]
    highest: list[Count]
    samples: Count


class PlaceColumns(TypedDict):
    """A module and phase each, as columns. Times: null where nothing was timed, 0 at a place that was not."""

    module: list[ModuleIndex]
    phase: list[Phase]
    params: list[Count]
    inclusive: TallyColumns
    exclusive: TallyColumns
    inclusive_ns: SpreadColumns | None
    exclusive_ns: SpreadColumns | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SavedReport(RunFacts):
    """A `FlopsReport` as its document has it: operators as columns over distinct signatures and costs."""

    global_partial: (
        Annotated[str, Meta(description="Why global_ops and totals.global are less than the work of all ranks.")]
        | UnsetType
    ) = UNSET
    costs: Annotated[list[Cost], Meta(description="Distinct costs.")]
    signatures: Annotated[list[Signature], Meta(description="Distinct operators with shapes.")]
    ops: Annotated[CallColumns, Meta(description="Local work.")]
    global_ops: Annotated[CallColumns, Meta(description="Work of all ranks, where anything is sharded.")]
    times: TimeColumns

    def __post_init__(self) -> None:
        """Indices that point nowhere, and trees whose parents do not come first, would give wrong sums later."""
        for index, module in enumerate(self.modules):
            if module.parent is not None and module.parent >= index:
                raise ValueError(f"module {index} ({module.path!r}) has the parent {module.parent}, not an earlier one")
        for name, columns in (("ops", self.ops), ("global_ops", self.global_ops), ("times", self.times)):
            _check_indices(f"{name}.module", columns.module, "modules", len(self.modules))
        for name, calls in (("ops", self.ops), ("global_ops", self.global_ops)):
            _check_indices(f"{name}.signature", calls.signature, "signatures", len(self.signatures))
        _check_indices("signatures.cost", [each.cost for each in self.signatures], "costs", len(self.costs))


def _check_indices(name: str, indices: list[int], of: str, length: int) -> None:
    if indices and max(indices) >= length:
        raise ValueError(f"{name} names {max(indices)}, and there are {length} {of}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FlopsDocument(SavedReport):
    """A report, and what follows from it."""

    totals: BothTotals
    params: Params
    coverage: Coverage
    by_module: PlaceColumns
    throughput: Throughput | None
    throughput_note: Annotated[
        str,
        Meta(description="Why a timed report has no throughput; empty where it has one, or nothing was timed."),
    ]
    roofline: Annotated[Roofline | None, Meta(description="null without an accelerator.")]
    utilization: Annotated[Utilization | None, Meta(description="null without an accelerator or a timed step.")]
    prediction: Annotated[Prediction | None, Meta(description="null without an accelerator.")]
    findings: Annotated[tuple[str, ...], Meta(description="What someone should look at, in sentences.")]
