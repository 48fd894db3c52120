"""The value in the middle: what a profile found. Every table, picture, document and comparison is made of it.

torch is not needed to hold, read, compare or draw one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from weftrace.costs.cost import Cost, Phase
from weftrace.files.schemas import Count, Positive
from weftrace.notebook import InNotebook

OUTSIDE = "(outside)"
"""Path of the module that holds what ran outside the model's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module(InNotebook):
    """One module instance at one place of the model's tree.

    path: as `named_modules` has it, "" for the root. A module called from a place where it is not registered has the
        caller's path and its class, "encoder.(GELU)". The work outside the root stands in a module of path "(outside)".
    name: the last part of path. parent: index into `FlopsReport.modules`, None for the root and for "(outside)".
    depth: 0 for the root. detail: what the module prints of itself ("in_features=4, out_features=8, bias=True").
    own_params, own_trainable_params: elements of the parameters that are registered here and nowhere earlier in the
        tree: a parameter shared by two modules is counted once, at its first place. Elements of this rank's shard
        where sharded.
    own_global_params: the same before sharding (equal where nothing is sharded).
    own_param_bytes: bytes of own_params.
    own_active_params: parameters that one token uses: those of routed experts times top-k / experts; else own_params.
    aliases: other paths under which the same instance is registered. calls: forward calls in the counted step.
    """

    path: Annotated[str, Meta(description='As named_modules has it; "" is the root, "(outside)" what ran outside it.')]
    name: Annotated[str, Meta(description="The last part of path.")]
    class_name: str
    parent: Annotated[Count | None, Meta(description="Index of an earlier module.")]
    depth: Annotated[Count, Meta(description="0 for the root.")]
    detail: Annotated[str, Meta(description="What the module prints of itself.")] = ""
    own_params: Annotated[Count, Meta(description="Elements registered here and nowhere earlier, on this rank.")] = 0
    own_trainable_params: Count = 0
    own_global_params: Annotated[Count, Meta(description="Elements before sharding.")] = 0
    own_param_bytes: Count = 0
    own_active_params: Annotated[Count, Meta(description="Those that one token uses.")] = 0
    aliases: Annotated[tuple[str, ...], Meta(description="Other paths of the same instance.")] = ()
    calls: Annotated[Count, Meta(description="Forward calls in the counted step.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCount(InNotebook):
    """Calls of one operator with one signature in one module and phase.

    module: index into `FlopsReport.modules`. op: torch's name ("aten.addmm.default"). signature: shapes and dtypes,
    for a person ("[80, 1024] bf16, [1024, 4096] bf16 -> [80, 4096] bf16"). cost: of one call.
    """

    module: int
    phase: Phase
    op: str
    signature: str
    calls: int
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(InNotebook):
    """Time that a module spent in a phase outside its children, one sample a timed step, in integer nanoseconds.

    module: index into `FlopsReport.modules`. Sums over modules give inclusive times, exactly, sample by sample.
    """

    module: int
    phase: Phase
    samples_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(InNotebook):
    """How times were taken.

    source: "cpu clock", "cuda events", or "none". steps, warm_up: timed steps and the ones before them that were not.
    step_ns: wall time of each timed step, without the installation of hooks in its backwards. while_counting: True
    where the timed step is the one that was also counted, so that its times hold the cost of counting.
    counted_step_ns: wall time of the step that was counted (None: not measured).
    own_ns: weftrace's own time in a step, the median: marks x the cost of one (part of step_ns), plus that installation
    (part of nothing).
    """

    source: Annotated[str, Meta(description='"cpu clock", "cuda events" or "none".')] = "none"
    steps: Annotated[Count, Meta(description="Timed steps.")] = 0
    warm_up: Annotated[Count, Meta(description="Steps before them that were not timed.")] = 0
    step_ns: Annotated[tuple[Count, ...], Meta(description="Wall time of each timed step.")] = ()
    while_counting: Annotated[bool, Meta(description="Whether the timed step was also the counted one.")] = False
    counted_step_ns: Annotated[Count | None, Meta(description="Wall time of the counted step; null: not measured.")] = (
        None
    )
    own_ns: Annotated[Count, Meta(description="weftrace's own work beside a step, the median.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel(InNotebook):
    """How many ranks share the work: sizes of the axes; their product is the world, but for ep, which lies inside dp.

    data: data-parallel replicas (DDP, FSDP). tensor, pipeline, expert, context: as everywhere.
    """

    data: Positive = 1
    tensor: Positive = 1
    pipeline: Positive = 1
    context: Positive = 1
    expert: Positive = 1

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunFacts(InNotebook):
    """What a report says of a run beside its operators and times, as its document has it too.

    name: the model's. modules: the tree in depth-first order, parents before children, then "(outside)" if anything ran
        there. clock: how times were taken. device: "cpu", "cuda: NVIDIA H200", "meta"... hardware: a name that
        `weftrace.facts.hardware` knows, or "". tf32: whether FP32 matrix work may use TF32.
    samples, tokens: of one step on this rank, None where not known; micro_batches: forward calls of the root in the
        counted step. ranks: ranks merged into this report. rank: this rank.
    notes: what is missing, assumed or odd, one sentence each.
    """

    name: Annotated[str, Meta(description="Of the model.")]
    device: Annotated[str, Meta(description='"cpu", "meta", "cuda: NVIDIA H200" ...')] = ""
    hardware: Annotated[str, Meta(description='The accelerator as weftrace knows it, or "".')] = ""
    tf32: Annotated[bool, Meta(description="Whether FP32 products may use TF32.")] = False
    samples: Annotated[Count | None, Meta(description="Of one step on this rank.")] = None
    tokens: Count | None = None
    micro_batches: Annotated[Count, Meta(description="Forward calls of the root in the counted step.")] = 1
    rank: int = 0
    ranks: Annotated[Positive, Meta(description="Ranks merged into the report.")] = 1
    torch_version: str = ""
    parallel: Parallel = field(default_factory=Parallel)
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: Annotated[tuple[str, ...], Meta(description="What is missing, assumed or odd, in sentences.")] = ()
    clock: Clock = field(default_factory=Clock)
    modules: Annotated[tuple[Module, ...], Meta(description="Depth first, parents before children.")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FlopsReport(RunFacts):
    """What a model costs on one rank, in one step.

    ops: local work, what this rank executes. global_ops: the work of all ranks of a sharded (DTensor)
        model, counted on global shapes; empty where nothing is a DTensor (then global work is local work x
        `parallel.data`). global_partial: why these hold less than the work of all ranks, "" where they hold it all.
    times: exclusive times; empty where nothing was timed (a meta device).
    """

    ops: tuple[OpCount, ...]
    global_ops: tuple[OpCount, ...] = ()
    times: tuple[Timing, ...] = ()
    global_partial: str = ""
