"""The report document as a type (`weftrace.report/1`): every field of it, from which its JSON Schema is made.

Fields may be added within a version; readers skip the ones that they do not
know. docs/report-json.md explains each field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from msgspec import Meta

from weftrace.analysis.call_paths import ToldBy
from weftrace.analysis.clocks import ClockOffset
from weftrace.analysis.data_quality import Quality
from weftrace.analysis.efficiency import Efficiency
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.headroom_bound import Headroom
from weftrace.analysis.hidden_communication import CollectiveRow, OverlapMatrix
from weftrace.analysis.idle_causes import IdleCauses
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.analysis.kernel_times import FamilyRow, KernelRow, StreamRow, UnnamedRow
from weftrace.analysis.launch_delays import Queueing
from weftrace.analysis.memory import MemoryUse
from weftrace.analysis.module_times import CodeNode
from weftrace.analysis.operator_times import OperatorRow
from weftrace.analysis.phase_times import PhaseMeanRow, PhaseRow
from weftrace.analysis.rank_tables import tables_type
from weftrace.analysis.slow_work import SlowWork
from weftrace.analysis.step_shares_document import SharesDocument
from weftrace.analysis.transfer_bandwidth import Bandwidth
from weftrace.analysis.waiting.idle_account import IdleAccount
from weftrace.files.columns import Shown
from weftrace.files.schemas import Count, Ns, Share
from weftrace.files.values import As
from weftrace.render.lane_types import BusyStretch, LaneDocument, SmUnit

SCHEMA: Final = "weftrace.report/1"
TITLE: Final = "What weftrace reports about a trace or a job"

if TYPE_CHECKING:
    TablesDocument = dict[str, list[dict[str, Any]]]
else:
    TablesDocument = tables_type()

Ratio = Annotated[float, Meta(ge=0)]
#: A value of the analysis as its document: `As` says which.
Block: TypeAlias = dict[str, Any]


class FailureDocument(TypedDict):
    """A file that could not be used."""

    path: str
    error: str


class LateRankDocument(TypedDict):
    """A rank's lateness, over its matched collectives."""

    rank: Annotated[Count | None, Meta(description="As in `ranks`; so are device and path.")]
    device: Count | None
    path: str
    name: Annotated[str, Meta(description="What it is called.")]
    caused_ns: Annotated[
        Ns,
        Meta(description="For collectives that this rank entered last: own start - second last start."),
        Shown("late by", term="caused"),
    ]
    origin_ns: Annotated[
        Ns,
        Meta(
            description="Waiting of all ranks that this rank caused. Where it was late because it "
            "had waited itself, that part counts for the rank that it waited for."
        ),
        Shown("caused", term="origin"),
    ]
    suffered_ns: Annotated[
        Ns,
        Meta(description="How long it waited in its collectives: last start - own start."),
        Shown("waited", term="suffered"),
    ]
    exposed_ns: Annotated[
        Ns,
        Meta(
            description="The part of suffered_ns during which the rank computed nothing: in exposed "
            "communication or, if events show only the transfer, in idle time. Beyond 20,000 intervals of "
            "waiting, neighbours count as one."
        ),
    ]
    transfer_ns: Annotated[
        Ns, Meta(description="The rest of its matched collectives: own end - last start."), Shown("transferred")
    ]
    num_last: Annotated[Count, Meta(description="Collectives that it entered last."), Shown("last")]
    num_matched: Count


LatePair = Annotated[
    list[int],
    Meta(
        min_length=4,
        max_length=4,
        description="[waiter, last, waiting_ns, count]: two positions in `lateness.ranks`, how long "
        "the first waited in collectives that the second entered last, and how often.",
    ),
]


class LateCollectiveDocument(TypedDict):
    """Matched collectives of one kind."""

    collective: str
    num: Annotated[Count, Shown("matched")]
    waiting_ns: Annotated[Ns, Meta(description="Sum over all ranks."), Shown(term="waiting")]
    transfer_ns: Annotated[Ns, Shown("transferring", term="transfer")]
    last: Annotated[Count, Meta(description="Position of the rank that was last most often."), Shown("most often last")]
    num_last: Annotated[Count, Meta(description="How often it was last.")]
    origin: NotRequired[
        Annotated[
            Count | None,
            Meta(
                description="Position of the rank that caused most of the waiting; null if that rank "
                "is in no sum. Like origin_ns, absent in reports of earlier versions."
            ),
            Shown("caused most by"),
        ]
    ]
    origin_ns: NotRequired[
        Annotated[
            Ns, Meta(description="How much of the waiting that rank caused."), Shown("caused by it", term="origin")
        ]
    ]


class WorstCollectiveDocument(TypedDict):
    """One matched collective."""

    collective: str
    group: str
    seq: int | None
    step: int | None
    start_ns: Annotated[int, Meta(description="Last start of any rank, from the job's zero."), Shown("last started at")]
    last: Annotated[Count, Meta(description="Position of the rank that entered last."), Shown("entered last")]
    caused_ns: Annotated[Ns, Shown("late by", term="caused")]
    origin: NotRequired[
        Annotated[
            Count | None,
            Meta(
                description="Position of the rank that caused most of the waiting. Like origin_ns, "
                "absent in reports of earlier versions."
            ),
            Shown("caused by", term="origin"),
        ]
    ]
    origin_ns: NotRequired[
        Annotated[
            Ns, Meta(description="How much of the waiting that rank caused."), Shown("caused by it", term="origin")
        ]
    ]
    waiting_ns: Annotated[Ns, Meta(description="Sum over all ranks."), Shown("waited, sum", term="waiting")]
    transfer_ns: Annotated[Ns, Shown("transferring, sum", term="transfer")]


class LateStepDocument(TypedDict):
    """Lateness in one step, per position."""

    step: int
    caused_ns: list[Ns]
    origin_ns: NotRequired[
        Annotated[
            list[Ns],
            Meta(description="Waiting of all ranks that each rank caused. Absent in reports of earlier versions."),
        ]
    ]
    suffered_ns: list[Ns]


class MatchedByDocument(TypedDict):
    """How collectives were matched."""

    sequence: Annotated[Count, Meta(description="By process group, sequence number and kind.")]
    order: Annotated[Count, Meta(description="By order among collectives of one kind, if their ends agree.")]


class LatenessDocument(TypedDict):
    """Who came late into matched collectives, and who waited. Positions are those in its `ranks`."""

    num_matched: Annotated[Count, Meta(description="Collectives found on two or more ranks.")]
    num_unmatched: Annotated[Count, Meta(description="Communication events that found no partner.")]
    by: MatchedByDocument
    not_the_same: Annotated[Count, Meta(description="Paired by order, but their ends disagree: left out.")]
    clocks_applied: Annotated[bool, Meta(description="Whether clock offsets were subtracted.")]
    uncertainty_ns: Annotated[
        Ns,
        Meta(
            description="Median distance of the ends of one collective on different ranks, or the uncertainty of the "
            "clocks if that is larger."
        ),
    ]
    late: Annotated[
        Count | None,
        Meta(
            description="Position of the rank with the most origin_ns; null if no rank stands out, "
            "or if the waiting is within uncertainty_ns."
        ),
    ]
    ranks: Annotated[
        list[LateRankDocument],
        Meta(description="The ranks that count in the sums of the job, in the order of `ranks`."),
    ]
    pairs: Annotated[list[LatePair], Meta(description="Who waited for whom, most first; at most 10,000.")]
    pairs_left_ns: Annotated[Ns, Meta(description="Waiting of the pairs that are not listed.")]
    collectives: Annotated[list[LateCollectiveDocument], Meta(description="Most waiting first.")]
    worst: Annotated[list[WorstCollectiveDocument], Meta(description="Most waiting first; at most 100.")]
    steps: Annotated[list[LateStepDocument], Meta(description="At most 100,000 values, of the first steps.")]
    notes: Annotated[list[str], Meta(description="What is unusual about how these numbers were found.")]


class WindowDocument(TypedDict):
    """An interval of the device's time, split by the work that ran in it."""

    span_ns: Annotated[Ns, Shown(term="span")]
    compute_ns: Annotated[Ns, Shown(term="compute")]
    exposed_communication_ns: Annotated[Ns, Shown("exposed", term="exposed")]
    exposed_memory_ns: Annotated[Ns, Shown(term="exposed_memory")]
    idle_ns: Annotated[Ns, Shown(term="idle")]
    hidden_fraction: Annotated[Share | None, Shown("hidden %", term="hidden")]


class StepDocument(WindowDocument):
    """One ProfilerStep: the window from the first device event that it launched to the next step's."""

    step: Annotated[int, Shown(term="step")]
    start_ns: Annotated[int, Meta(description="Start of the window, from the rank's start_ns.")]
    from_other_steps_ns: Annotated[
        Ns,
        Meta(description="Time in the window during which work ran that another step, or no step, launched."),
        Shown("launched by others", term="from_other_steps"),
    ]
    ran_ahead_ns: Annotated[
        Ns, Meta(description="Time before the window during which work of this step ran."), Shown(term="ran_ahead")
    ]
    spilled_ns: Annotated[
        Ns,
        Meta(description="Time after the window during which work of this step ran."),
        Shown("ran later", term="spilled"),
    ]


class OutsideStepsDocument(WindowDocument):
    """What lies before the first step's window, or after the last one's."""

    place: Literal["before", "after"]


class JoinedPhaseDocument(TypedDict):
    """FLOPs of one phase of the joined steps."""

    phase: Annotated[str, Meta(description="forward, backward (including what a checkpoint recomputed) or optimizer.")]
    flops: Annotated[Count, Meta(description="Model FLOPs on matrix units, of all joined steps.")]
    full_flops: Count
    executed_flops: Count
    vector_flops: Count
    moved_bytes: Count
    num_events: Count
    busy_ns: Ns
    elapsed_ns: Ns
    flops_per_s: Annotated[Ratio | None, Meta(description="executed_flops / elapsed_ns.")]
    mfu: Annotated[
        Ratio | None,
        Meta(description="Time that flops take at the device's peak / elapsed_ns; null if no peak is known."),
    ]
    mfu_full: Ratio | None
    hfu: Ratio | None
    traced_flops: NotRequired[
        Annotated[
            Count | None, Meta(description="Executed FLOPs by the shapes in the trace; null if it has no shapes.")
        ]
    ]


class JoinedRangeDocument(TypedDict):
    """FLOPs of a module's range in the trace."""

    path: str
    flops: Count
    busy_ns: Ns
    mfu: Ratio | None


class JoinedDocument(TypedDict):
    """FLOPs of a weftrace.flops report joined to this trace by phase; there with --flops only."""

    model: str
    hardware: Annotated[str | None, Meta(description="The accelerator that sets the peaks; null if unknown.")]
    basis: str
    steps: Annotated[Count, Meta(description="Steps of the report that the trace holds.")]
    span_ns: Ns
    flops_per_s: Annotated[
        float | None,
        Meta(description="Executed FLOPs on matrix units of all phases / the span; null if the span is 0."),
    ]
    mfu: Ratio | None
    mfu_full: Ratio | None
    hfu: Ratio | None
    phases: list[JoinedPhaseDocument]
    ranges: list[JoinedRangeDocument]
    no_phase_ns: Annotated[
        Ns,
        Meta(
            description="Elapsed time of events without a launch. With elapsed_ns of the phases it adds up to span_ns."
        ),
    ]
    num_no_phase: Count
    traced_flops: NotRequired[
        Annotated[
            Count | None, Meta(description="Executed FLOPs by the shapes in the trace; null if it has no shapes.")
        ]
    ]
    rated_share: NotRequired[
        Annotated[Share | None, Meta(description="Share of device time with FLOPs known from the shapes in the trace.")]
    ]
    notes: Annotated[list[str], Meta(description="What is assumed, estimated, or does not agree.")]


class CodeDocument(TypedDict):
    """Time by module, or by Python function. Own times of nodes and outside add up to serial_ns; idle_ns of roots and
    outside to the rank's.
    """

    told_by: Annotated[
        ToldBy,
        Meta(
            description="What the modules were read from: the profiler's frames, TorchScript's "
            "operators, ranges named like modules, or old call stacks."
        ),
    ]
    num_nodes: Annotated[
        Count, Meta(description="Nodes found; `nodes` holds at most 5,000 of them, or fewer in a job of many ranks.")
    ]
    nodes: list[CodeNode]
    folded: Annotated[
        list[CodeNode],
        Meta(description="By module: siblings of one class in one node. By function: each once, without parents."),
    ]
    outside: Annotated[CodeNode, Meta(description="Device work in no module or function, or with an unknown launch.")]
    graph_ns: Annotated[
        Ns,
        Meta(
            description="The part of outside's total_ns that one call launched together with other work (a CUDA graph)."
        ),
    ]


class RankDocument(WindowDocument):
    """One device of one rank. Starts and ends count from start_ns."""

    rank: Annotated[Count | None, Meta(description="Rank in the job; null if neither the file nor its name gives it.")]
    name: Annotated[str, Meta(description='What a plain Chrome trace calls it ("DP 0 PP 3"); empty elsewhere.')]
    device: Annotated[Count | None, Meta(description="Device number; null if the file holds no device work.")]
    device_name: str
    num_sms: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="SMs (NVIDIA) or compute units (AMD) of the device.")
    ]
    sm_unit: SmUnit
    path: Annotated[str, Meta(description="File name, without its folder.")]
    basis: Annotated[
        Literal["device", "host", "ranges", "none"],
        Meta(
            description="What the times are of: device events, host operators instead of them, "
            "ranges of a plain Chrome trace, or nothing."
        ),
    ]
    step: Annotated[int | None, Meta(description="The ProfilerStep that was selected; null for the whole trace.")]
    step_by: Annotated[
        Literal["window", "launch"] | None,
        Meta(
            description="How the step was selected: everything in its time window, or everything "
            "that it launched; null for the whole trace."
        ),
    ]
    simulated: bool
    apart: Annotated[
        Literal["host", "world", "duplicate"] | None,
        Meta(
            description="Why this rank is in no sum of the job: it has no device work although "
            "others have, it has another world size, or an earlier file has the same rank; null if it is in "
            "the sums."
        ),
    ]
    start_ns: Annotated[int, Meta(description="First device start, absolute nanoseconds; does not fit a float64.")]
    busy_ns: Ns
    fused_ns: Annotated[
        int,
        Meta(
            ge=0,
            description="The part of compute_ns in kernels that compute and communicate "
            "in one; it cannot be separated.",
        ),
    ]
    communication_ns: Ns
    hidden_communication_ns: Ns
    memory_ns: Ns
    serial_ns: Ns
    overlap_speedup: Ratio | None
    data_ns: Ns
    barrier_ns: Ns
    streams: list[StreamRow]
    families: list[FamilyRow]
    collectives: list[CollectiveRow]
    phases: list[PhaseRow]
    num_phases: Annotated[
        Count, Meta(description="Phases found; `phases` lists at most 20,000 of them, or fewer in a job of many ranks.")
    ]
    phase_means: list[PhaseMeanRow]
    overlap_matrix: Annotated[Block, As(OverlapMatrix)]
    busy: Annotated[
        list[BusyStretch],
        Meta(description="When the device ran anything, in order; between these intervals it was idle."),
    ]
    lanes: Annotated[list[LaneDocument], Meta(description="Bands of the lane picture, in the order of drawing.")]
    shift_ns: Annotated[
        int, Meta(description="start_ns from the job's zero, the first start of a rank, on the common clock.")
    ]
    waits: Annotated[
        list[BusyStretch],
        Meta(description="When it waited within communication for the last rank, in the form of `busy`."),
    ]
    exposed: Annotated[
        list[BusyStretch], Meta(description="When communication was exposed, in order, in the form of `busy`.")
    ]
    num_exposed: Annotated[
        Count, Meta(description="Intervals of exposed communication; `exposed` lists fewer if some are merged.")
    ]
    kernels: list[KernelRow]
    operators: Annotated[
        list[OperatorRow],
        Meta(description="Device time by the innermost operator that launched it, longest first, at most 500."),
    ]
    num_without_operator: Count
    without_operator_ns: Ns
    unnamed: list[UnnamedRow]
    unnamed_share: Annotated[Share, Meta(description="Share of compute time in kernels that no rule names.")]
    idle_causes: Annotated[Block, As(IdleCauses)]
    idle_account: NotRequired[
        Annotated[Annotated[Block, As(IdleAccount)], Meta(description="Absent in reports of earlier versions.")]
    ]
    efficiency: NotRequired[
        Annotated[
            Annotated[Block, As(Efficiency)],
            Meta(
                description="FLOP/s, bytes/s and share of the peak by operator and shape, at most "
                "500 rows per table, or fewer in a job of many ranks; absent if no operator has FLOPs or bytes, "
                "and in reports of earlier versions."
            ),
        ]
    ]
    launch: Annotated[Block, As(Queueing)]
    headroom: Annotated[Block, As(Headroom)]
    steps: Annotated[
        list[StepDocument],
        Meta(description="Windows of the profiler's steps. With outside_steps they add up to the whole trace."),
    ]
    outside_steps: list[OutsideStepsDocument]
    quality: Annotated[Block, As(Quality)]
    configuration: NotRequired[
        Annotated[
            dict[str, str],
            Meta(description="How the trace was made, if it records that: profile.* and capture.*"),
        ]
    ]
    shares: NotRequired[
        Annotated[
            SharesDocument,
            Meta(description="What `weftrace diff` compares; absent in pages and in reports of earlier versions."),
        ]
    ]
    tables: NotRequired[
        Annotated[
            TablesDocument, Meta(description="Analyses that are one table each, by name; only tables that have rows.")
        ]
    ]
    table_notes: NotRequired[Annotated[dict[str, str], Meta(description="By name of a table: its rows in a sentence.")]]
    memory: NotRequired[
        Annotated[
            list[Annotated[Block, As(MemoryUse)]],
            Meta(description="Memory of the device, then of the CPU; present if the file has memory events."),
        ]
    ]
    flops: NotRequired[JoinedDocument]
    modules: NotRequired[Annotated[CodeDocument, Meta(description="Time by module; present if it was requested.")]]
    lines: NotRequired[Annotated[CodeDocument, Meta(description="Time by function; present if it was requested.")]]


class ReportDocument(TypedDict):
    """What weftrace reports about a trace or a job. Times are integer nanoseconds. Fields may be added within a
    version; readers ignore what they do not know. docs/report-json.md explains each field.
    """

    schema: Literal["weftrace.report/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote the document.")]
    source: str
    headline: str
    world_size: Annotated[int, Meta(ge=1)] | None
    num_ranks: Count
    failures: list[FailureDocument]
    clocks: list[Annotated[Block, As(ClockOffset)]]
    lateness: Annotated[
        LatenessDocument | None,
        Meta(description="Lateness of the job's ranks; null for one rank, or if nothing could be matched."),
    ]
    slow_work: Annotated[
        Annotated[Block, As(SlowWork)] | None,
        Meta(description="Ranks of the job that compute longer than their peers; null for one rank."),
    ]
    slowdown: NotRequired[
        Annotated[
            Annotated[Block, As(JobSlowdown)] | None,
            Meta(
                description="Slowdown S of the job, by replay; null for one rank, and if the job was "
                "too large to be replayed."
            ),
        ]
    ]
    advice: NotRequired[
        Annotated[
            Annotated[Block, As(AdviceReport)],
            Meta(
                description="What to do, largest gain first; absent if weftrace did not look for it "
                "(for a single step, for example)."
            ),
        ]
    ]
    bandwidth: NotRequired[
        Annotated[
            Annotated[Block, As(Bandwidth)] | None,
            Meta(description="Bandwidth of collectives by kind, group and size; null if no rank communicates."),
        ]
    ]
    notes: Annotated[
        list[str], Meta(description="What is missing from the job: ranks without a file, ranks with several files.")
    ]
    ranks: list[RankDocument]
