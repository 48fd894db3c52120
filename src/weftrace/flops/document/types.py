"""What stands in the document of a FLOPs report: its JSON Schema is made of this.

"As columns" is an object of lists of one length: entry i of each belongs together. FLOPs can pass 2^63 and stay whole
numbers; a reader in a language without big integers takes them as floats.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypedDict, get_args

from msgspec import Meta

from weftrace.files.schemas import DocumentSchema

SCHEMA: Final = "weftrace.flops/1"

Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=1)]
PhaseName = Literal["forward", "backward", "recompute", "optimizer"]
KindName = Literal["matmul", "conv", "attention", "vector", "move", "free", "communication", "unknown"]
StatusName = Literal["exact", "estimate", "upper bound", "unknown"]
BoundName = Literal["compute", "memory"]
#: Of an object whose keys are phases: JSON Schemas say it apart from the keys' type.
OF_PHASES = Meta(extra_json_schema={"propertyNames": {"enum": list(get_args(PhaseName))}})
Version = Annotated[str, Meta(description="Version of weftrace that wrote it.")]
ModuleIndex = Annotated[Count, Meta(description="Index into modules.")]


# --- the report itself


class ParallelAxes(TypedDict):
    """How many ranks share the work: sizes of the axes; expert lies inside data."""

    data: Size
    tensor: Size
    pipeline: Size
    context: Size
    expert: Size


class ClockTold(TypedDict):
    """How times were taken."""

    source: Annotated[str, Meta(description='"cpu clock", "cuda events" or "none".')]
    steps: Annotated[Count, Meta(description="Timed steps.")]
    warm_up: Annotated[Count, Meta(description="Steps before them that were not timed.")]
    step_ns: Annotated[list[Count], Meta(description="Wall time of each timed step.")]
    while_counting: Annotated[bool, Meta(description="Whether the timed step was also the counted one.")]
    counted_step_ns: Annotated[Count | None, Meta(description="Wall time of the counted step; null: not measured.")]
    own_ns: Annotated[Count, Meta(description="weftrace's own work beside a step, the median.")]


class ModuleTold(TypedDict):
    """One module instance at one place of the model's tree."""

    path: Annotated[str, Meta(description='As named_modules has it; "" is the root, "(outside)" what ran outside it.')]
    name: Annotated[str, Meta(description="The last part of path.")]
    class_name: str
    parent: Annotated[Count | None, Meta(description="Index of an earlier module.")]
    depth: Annotated[Count, Meta(description="0 for the root.")]
    detail: Annotated[str, Meta(description="What the module prints of itself.")]
    own_params: Annotated[Count, Meta(description="Elements registered here and nowhere earlier, on this rank.")]
    own_trainable_params: Count
    own_global_params: Annotated[Count, Meta(description="Elements before sharding.")]
    own_param_bytes: Count
    own_active_params: Annotated[Count, Meta(description="Those that one token uses.")]
    aliases: Annotated[list[str], Meta(description="Other paths of the same instance.")]
    calls: Annotated[Count, Meta(description="Forward calls in the counted step.")]


class CostTold(TypedDict):
    """Of one call."""

    flops: Annotated[Count, Meta(description="On matrix units, for the model's sake; causal attention exact.")]
    full_flops: Annotated[Count, Meta(description="The same, attention over all pairs (PaLM's convention).")]
    executed_flops: Annotated[Count, Meta(description="On matrix units, a kernel's own recomputation included.")]
    vector_flops: Annotated[Count, Meta(description="Off the matrix units; never added to the others.")]
    read_bytes: Count
    written_bytes: Count
    dtype: Annotated[str, Meta(description="Of the matrix inputs.")]
    kind: KindName
    status: StatusName
    note: Annotated[str, Meta(description="What was assumed or could not be known.")]


class SignatureTold(TypedDict):
    """An operator with the shapes of a call."""

    op: str
    signature: str
    cost: Annotated[Count, Meta(description="Index into costs.")]


class CallColumns(TypedDict):
    """Calls, as columns."""

    module: list[ModuleIndex]
    phase: list[PhaseName]
    signature: Annotated[list[Count], Meta(description="Indices into signatures.")]
    calls: list[Count]


class TimeColumns(TypedDict):
    """Exclusive times, as columns."""

    module: list[ModuleIndex]
    phase: list[PhaseName]
    samples_ns: Annotated[list[list[Count]], Meta(description="One a timed step.")]


# --- what follows from it


class TallyTold(TypedDict):
    """Sums of costs over calls."""

    flops: Count
    full_flops: Count
    executed_flops: Count
    vector_flops: Count
    read_bytes: Count
    written_bytes: Count
    calls: Annotated[Count, Meta(description="Of operators that do something.")]
    unknown_calls: Annotated[Count, Meta(description="Those of them without a formula.")]
    intensity: Annotated[
        float | None, Meta(description="Executed matrix and vector FLOPs a byte; null where none moves.")
    ]


class TotalsTold(TypedDict):
    """The four FLOP totals and the bytes of one step."""

    flops: Annotated[Count, Meta(description="Model FLOPs, forward and backward; causal attention exact.")]
    full_flops: Annotated[Count, Meta(description="The same, attention over all pairs (PaLM's convention).")]
    executed_flops: Annotated[
        Count, Meta(description="Executed on matrix units in all phases, recomputation included.")
    ]
    vector_flops: Annotated[Count, Meta(description="Off the matrix units, all phases; never added to the others.")]
    macs: Annotated[Count, Meta(description="Half of flops.")]
    moved_bytes: Count
    by_phase: Annotated[dict[PhaseName, TallyTold], OF_PHASES]


BothTotals = TypedDict(
    "BothTotals",
    {
        "local": Annotated[TotalsTold, Meta(description="What this rank (the merged ranks together) executes.")],
        "global": Annotated[TotalsTold | None, Meta(description="All ranks; null where those merged do not tell it.")],
    },
)


class ParamsTold(TypedDict):
    """Parameters of the model; shared ones count once."""

    total: Annotated[Count, Meta(description="Elements on this rank.")]
    trainable: Count
    active: Annotated[Count, Meta(description="Those that one token uses.")]
    bytes: Count
    global_total: Annotated[Count, Meta(description="Elements before sharding.")]


class UnknownTold(TypedDict):
    """An operator without a formula."""

    op: str
    calls: Count
    moved_bytes: Count
    note: str


class CoverageTold(TypedDict):
    """The parts of calls, bytes and time that have a formula, 0 to 1; null where there is nothing to take a part of."""

    calls: float | None
    moved_bytes: float | None
    time: Annotated[float | None, Meta(description="An estimate: modules' times shared among operators by bytes.")]
    calls_of_status: dict[StatusName, Count]
    flops_of_status: Annotated[
        dict[StatusName, Count],
        Meta(description="Model FLOPs of each status: with any under 'upper bound', totals are at most what they say."),
    ]
    unattributed_ns: Annotated[Count, Meta(description="Time in which no operator was counted.")]
    unknown: list[UnknownTold]


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
    phase: list[PhaseName]
    params: list[Count]
    inclusive: TallyColumns
    exclusive: TallyColumns
    inclusive_ns: SpreadColumns | None
    exclusive_ns: SpreadColumns | None


class ThroughputTold(TypedDict):
    """Rates of the whole job and of one GPU of it."""

    step_ns: float
    world: Annotated[Count, Meta(description="GPUs.")]
    replicas: Count
    samples: Annotated[float | None, Meta(description="Of the job's step.")]
    tokens: float | None
    samples_per_s: float | None
    tokens_per_s: float | None
    samples_per_s_per_gpu: float | None
    tokens_per_s_per_gpu: float | None
    flops_per_gpu: float
    executed_flops_per_gpu: float
    flops_per_s_per_gpu: float
    executed_flops_per_s_per_gpu: float


class RoofColumns(TypedDict):
    """Rows of a roofline, as columns; bound_ns = compute_ns + memory_ns."""

    module: list[ModuleIndex]
    bound_ns: list[float]
    compute_ns: Annotated[list[float], Meta(description="Bounds of calls that arithmetic limits.")]
    memory_ns: Annotated[list[float], Meta(description="Bounds of calls that memory limits.")]
    matrix_ns: Annotated[list[float], Meta(description="Executed matrix FLOPs at their dtypes' peaks.")]
    executed_flops: list[float]
    vector_flops: list[float]
    moved_bytes: list[float]
    comm_bytes: Annotated[list[float], Meta(description="Bytes of collectives; in no bound.")]
    unknown_calls: list[Count]
    phase: list[PhaseName]
    bound: list[BoundName]
    measured_ns: Annotated[list[Count | None], Meta(description="Median.")]
    above_ns: Annotated[list[float | None], Meta(description="measured_ns - bound_ns.")]
    flops_per_s: list[float | None]


class RooflineTold(TypedDict):
    """The least time that the accelerator needs."""

    hardware: str
    bound_ns: float
    by_phase: Annotated[dict[PhaseName, float], OF_PHASES]
    exclusive: RoofColumns
    inclusive: RoofColumns
    flags: Annotated[list[str], Meta(description="Rates above the peak, in sentences.")]
    notes: list[str]


class SpreadTold(TypedDict):
    """A time over the timed steps, ns. samples: how many."""

    median: Count
    lowest: Count
    highest: Count
    samples: Count


class PhaseUtilizationTold(TypedDict):
    """Utilization over the time of one phase."""

    mfu: float
    mfu_full: float
    hfu: float
    flops_per_s: float
    executed_flops_per_s: float
    ns: SpreadTold


class UtilizationTold(TypedDict):
    """Parts of the accelerator's peak that the step reaches."""

    hardware: str
    mfu: Annotated[float, Meta(description="Time at peak of the model FLOPs / step_ns.")]
    mfu_full: Annotated[float, Meta(description="The same, attention over all pairs.")]
    hfu: Annotated[float, Meta(description="The same of executed FLOPs.")]
    step_ns: float
    flops_per_s: float
    executed_flops_per_s: float
    time_at_peak_ns: Annotated[dict[str, float], Meta(description="Executed FLOPs, by the dtype whose peak was used.")]
    by_phase: Annotated[dict[PhaseName, PhaseUtilizationTold], OF_PHASES]
    flags: list[str]
    notes: list[str]


class PhasePrediction(TypedDict):
    """Of one phase."""

    bound_ns: float
    predicted_ns: float


class PredictionTold(TypedDict):
    """The time of one step if its operators ran one after another."""

    hardware: str
    bound_ns: Annotated[float, Meta(description="What no implementation of the same operators beats.")]
    predicted_ns: Annotated[float, Meta(description="The bounds over the stated efficiencies: an estimate.")]
    by_phase: Annotated[dict[PhaseName, PhasePrediction], OF_PHASES]
    tokens_per_s: Annotated[float | None, Meta(description="Of the predicted step; null without tokens or work.")]
    param_bytes: Count
    fits: Annotated[bool, Meta(description="Whether the parameters alone fit the device's memory.")]
    assumptions: list[str]


class FlopsDocument(TypedDict):
    schema: Literal["weftrace.flops/1"]
    weftrace: Version
    name: Annotated[str, Meta(description="Of the model.")]
    device: Annotated[str, Meta(description='"cpu", "meta", "cuda: NVIDIA H200" ...')]
    hardware: Annotated[str, Meta(description='The accelerator as weftrace knows it, or "".')]
    tf32: Annotated[bool, Meta(description="Whether FP32 products may use TF32.")]
    samples: Annotated[Count | None, Meta(description="Of one step on this rank.")]
    tokens: Count | None
    micro_batches: Annotated[Count, Meta(description="Forward calls of the root in the counted step.")]
    rank: int
    ranks: Annotated[Count, Meta(description="Ranks merged into the report.")]
    torch_version: str
    global_partial: NotRequired[
        Annotated[str, Meta(description="Why global_ops and totals.global are less than the work of all ranks.")]
    ]
    parallel: ParallelAxes
    settings: dict[str, str]
    notes: Annotated[list[str], Meta(description="What is missing, assumed or odd, in sentences.")]
    clock: ClockTold
    modules: Annotated[list[ModuleTold], Meta(description="Depth first, parents before children.")]
    costs: Annotated[list[CostTold], Meta(description="Distinct costs.")]
    signatures: Annotated[list[SignatureTold], Meta(description="Distinct operators with shapes.")]
    ops: Annotated[CallColumns, Meta(description="Local work.")]
    global_ops: Annotated[CallColumns, Meta(description="Work of all ranks, where anything is sharded.")]
    times: TimeColumns
    totals: BothTotals
    params: ParamsTold
    coverage: CoverageTold
    by_module: PlaceColumns
    throughput: ThroughputTold | None
    throughput_note: Annotated[
        str,
        Meta(description="Why a timed report has no throughput; empty where it has one, or nothing was timed."),
    ]
    roofline: Annotated[RooflineTold | None, Meta(description="null without an accelerator.")]
    utilization: Annotated[
        UtilizationTold | None, Meta(description="null without an accelerator, and where no step was timed.")
    ]
    prediction: Annotated[PredictionTold | None, Meta(description="null without an accelerator.")]
    findings: Annotated[list[str], Meta(description="What someone should look at, in sentences.")]


FLOPS_SCHEMA = DocumentSchema(
    document=FlopsDocument,
    schema=SCHEMA,
    title="What a model costs in one step: FLOPs, bytes, parameters and time by module",
)
