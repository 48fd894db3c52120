"""The value in the middle: what a profile found. Every table, picture, document and comparison is made of it.

torch is not needed to hold, read, compare or draw one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weftrace.flops.cost import Cost, Phase
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

    path: str
    name: str
    class_name: str
    parent: int | None
    depth: int
    detail: str = ""
    own_params: int = 0
    own_trainable_params: int = 0
    own_global_params: int = 0
    own_param_bytes: int = 0
    own_active_params: int = 0
    aliases: tuple[str, ...] = ()
    calls: int = 0


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

    source: str = "none"
    steps: int = 0
    warm_up: int = 0
    step_ns: tuple[int, ...] = ()
    while_counting: bool = False
    counted_step_ns: int | None = None
    own_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel(InNotebook):
    """How many ranks share the work: sizes of the axes; their product is the world, but for ep, which lies inside dp.

    data: data-parallel replicas (DDP, FSDP). tensor, pipeline, expert, context: as everywhere.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FlopsReport(InNotebook):
    """What a model costs on one rank, in one step.

    name: the model's. modules: the tree in depth-first order, parents before children, then "(outside)" if anything ran
        there. ops: local work, what this rank executes. global_ops: the work of all ranks of a sharded (DTensor)
        model, counted on global shapes; empty where nothing is a DTensor (then global work is local work x
        `parallel.data`).
    times: exclusive times; empty where nothing was timed (a meta device). clock: how they were taken.
    device: "cpu", "cuda: NVIDIA H200", "meta"... hardware: a name that `weftrace.facts.hardware` knows, or "".
    tf32: whether FP32 matrix work may use TF32. samples, tokens: of one step on this rank, None where not known;
        micro_batches: forward calls of the root in the counted step. ranks: ranks merged into this report. rank: this
        rank.
    global_partial: why global_ops hold less than the work of all ranks, "" where they hold it all.
    notes: what is missing, assumed or odd, one sentence each.
    """

    name: str
    modules: tuple[Module, ...]
    ops: tuple[OpCount, ...]
    global_ops: tuple[OpCount, ...] = ()
    times: tuple[Timing, ...] = ()
    clock: Clock = field(default_factory=Clock)
    device: str = ""
    hardware: str = ""
    tf32: bool = False
    samples: int | None = None
    tokens: int | None = None
    micro_batches: int = 1
    parallel: Parallel = field(default_factory=Parallel)
    rank: int = 0
    ranks: int = 1
    torch_version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    global_partial: str = ""
    notes: tuple[str, ...] = ()
