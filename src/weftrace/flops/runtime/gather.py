"""From what a profile counted to a `FlopsReport`: the tree of modules, its parameters, operators and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from weftrace.costs.cost import Phase
from weftrace.errors import FlopsError, WeftraceError
from weftrace.facts import hardware
from weftrace.flops.runtime.count.clock import StepClock
from weftrace.flops.runtime.count.frames import Frame
from weftrace.flops.runtime.count.math_attention import masked_costs, recomputed_scores
from weftrace.flops.runtime.count.signatures import Signatures
from weftrace.flops.runtime.count.tracker import Tracker
from weftrace.flops.values import OUTSIDE, Clock, FlopsReport, Module, OpCount, Parallel, Timing
from weftrace.units import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a profile has when it is done.

    tracker: frames of modules, whose counts name signatures by number. clock: None where nothing was timed. steps:
    ended by `step()`; 0: what was counted was timed too. active: as `Profile` has it. fused_attention: whether fused
    kernels stood in for attention on a meta device. The rest: as in `FlopsReport`; micro_batches may be 0.
    """

    name: str
    tracker: Tracker
    signatures: Signatures
    clock: StepClock | None
    device: torch.device
    steps: int
    warm_up: int
    active: Mapping[str, float]
    fused_attention: bool
    hardware: str
    samples: int | None
    tokens: int | None
    micro_batches: int
    parallel: Parallel

    @property
    def is_empty(self) -> bool:
        """Whether no operator ran."""
        return not any(map(ran, (self.tracker.outside, *self.tracker.frames.values())))


def gather_report(run: Counted) -> FlopsReport:
    """The report of what a profile counted. Raises `FlopsError` where nothing ran in its block."""
    frames = _tree(run.tracker)
    index = {frame.path: number for number, frame in enumerate(frames)}
    ops, global_ops = _operators(run, frames)
    if not ops and not any(frame.calls for frame in frames):
        raise FlopsError(
            f"nothing to report: no operator ran while {run.name} was profiled; run the model in the block"
        )
    device, clock = _device_name(run.device), run.clock
    return FlopsReport(
        name=run.name,
        modules=_modules(run, frames, index),
        ops=ops,
        global_ops=global_ops,
        global_partial=_partial(run, frames) if global_ops else "",
        times=() if clock is None else timings(clock, index),
        clock=Clock() if clock is None else clock_value(clock, while_counting=not run.steps, warm_up=run.warm_up),
        device=device,
        hardware=run.hardware or _known(device),
        tf32=_tf32(),
        samples=run.samples,
        tokens=run.tokens,
        micro_batches=max(1, run.micro_batches),
        parallel=run.parallel,
        rank=_rank(),
        torch_version=str(torch.__version__),
        notes=_notes(run),
    )


def _tree(tracker: Tracker) -> list[Frame]:
    """Frames in depth-first order: registered modules in the model's order, others after their callers' children."""
    wanted: dict[str, Frame] = {}
    seen: set[int] = set()
    for path, frame in list(tracker.frames.items()):
        first = frame.module is not None and id(frame.module) not in seen
        if frame.module is not None:
            seen.add(id(frame.module))
        if first or frame.calls or ran(frame):
            wanted[path] = frame
    if ran(tracker.outside) or any(path.startswith(f"{OUTSIDE}.") for path in wanted):
        wanted[OUTSIDE] = tracker.outside
    for path in list(wanted):  # an alias or a second call may stand below a place that was never entered
        while path and path != OUTSIDE:
            path = _parent(path)
            wanted.setdefault(path, tracker.frames.get(path) or Frame(path, "", None))
    order = {path: number for number, path in enumerate(wanted)}
    children: dict[str, list[str]] = {}
    for path in wanted:
        if path and path != OUTSIDE:
            children.setdefault(_parent(path), []).append(path)
    listed: list[Frame] = []
    waiting = [path for path in (OUTSIDE, "") if path in wanted]
    while waiting:
        path = waiting.pop()
        listed.append(wanted[path])
        waiting.extend(sorted(children.get(path, ()), key=order.__getitem__, reverse=True))
    return listed


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def ran(frame: Frame) -> bool:
    """Whether any operator was counted in a frame."""
    return any(counts for table in (frame.counts, frame.local_counts, frame.global_counts) for counts in table.values())


def _modules(run: Counted, frames: list[Frame], index: Mapping[str, int]) -> tuple[Module, ...]:
    counted: set[int] = set()
    described: list[Module] = []
    depths: list[int] = []
    placed: set[int] = set()
    for frame in frames:
        root = frame.path in ("", OUTSIDE)
        parent = None if root else index[_parent(frame.path)]
        depths.append(0 if parent is None else depths[parent] + 1)
        sizes = dict.fromkeys(("params", "trainable", "global", "bytes", "active"), 0)
        aliases: tuple[str, ...] = ()
        if frame.module is not None and id(frame.module) not in placed:
            placed.add(id(frame.module))
            aliases = tuple(path for path in run.tracker.paths.get(id(frame.module), ()) if path != frame.registered)
            _add_parameters(sizes, frame, run.active, counted)
        described.append(
            Module(
                path=frame.path,
                name=frame.path.rpartition(".")[2],
                class_name=frame.class_name,
                parent=parent,
                depth=depths[-1],
                detail=_detail(frame.module),
                own_params=sizes["params"],
                own_trainable_params=sizes["trainable"],
                own_global_params=sizes["global"],
                own_param_bytes=sizes["bytes"],
                own_active_params=sizes["active"],
                aliases=aliases,
                calls=1 if run.tracker.each_call and frame.calls else frame.calls,
            )
        )
    return tuple(described)


def _add_parameters(sizes: dict[str, int], frame: Frame, active: Mapping[str, float], counted: set[int]) -> None:
    assert frame.module is not None, frame.path
    for name, parameter in frame.module.named_parameters(recurse=False):
        if id(parameter) in counted:
            continue
        counted.add(id(parameter))
        local: torch.Tensor = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        path = f"{frame.registered}.{name}" if frame.registered else name
        sizes["params"] += local.numel()
        sizes["trainable"] += local.numel() if parameter.requires_grad else 0
        sizes["global"] += int(getattr(parameter, "ds_numel", parameter.numel()))  # ds_numel: DeepSpeed's ZeRO-3
        sizes["bytes"] += local.numel() * local.element_size()
        sizes["active"] += round(local.numel() * active.get(path, 1.0))


def _detail(module: nn.Module | None) -> str:
    if module is None:
        return ""
    try:
        return " ".join(module.extra_repr().split())
    except Exception:  # a module's own description may need what a meta device has not
        return ""


def _operators(run: Counted, frames: list[Frame]) -> tuple[tuple[OpCount, ...], tuple[OpCount, ...]]:
    """(local, global). Operators on plain tensors are in both, where the model computes on DTensors.

    Under FSDP only the optimizer does: the forward is each rank's own, and global work is local work x ranks.
    """
    signatures = run.signatures
    names = [str(op) for op in signatures.ops]
    sharded = any(frame.global_counts[Phase.FORWARD] for frame in frames)

    def listed(*tables: str) -> tuple[OpCount, ...]:
        again = {table: recomputed_scores(signatures, (getattr(frame, table) for frame in frames)) for table in tables}
        return tuple(
            OpCount(
                module=number,
                phase=phase,
                op=names[signature],
                signature=signatures.texts[signature],
                calls=calls,
                cost=cost,
            )
            for number, frame in enumerate(frames)
            for table in tables
            for phase, signature, calls, cost in masked_costs(
                signatures, getattr(frame, table), again[table] if frame is run.tracker.outside else {}
            )
        )

    return listed("counts", "local_counts"), listed("counts", "global_counts") if sharded else ()


def _partial(run: Counted, frames: list[Frame]) -> str:
    """What is said where operators on plain tensors ran between those on DTensors.

    Whether a plain tensor is a shard or the same on every rank, nothing tells: it is counted as this rank has it.
    """
    costs = run.signatures.costs

    def work(table: str) -> tuple[int, int]:
        calls = [
            (costs[signature], number)
            for frame in frames
            for phase in (Phase.FORWARD, Phase.BACKWARD)
            for signature, number in getattr(frame, table)[phase].items()
        ]
        return sum(n * cost.flops for cost, n in calls), sum(n * cost.vector_flops for cost, n in calls)

    plain, sharded = work("counts"), work("global_counts")
    shares = [
        f"{percent(here / (here + whole))} of {what}"
        for here, whole, what in zip(plain, sharded, ("the model FLOPs", "the vector FLOPs"), strict=True)
        if here
    ]
    if not shares:
        return ""
    return (
        f"The work of all ranks is partial: {' and '.join(shares)} in it are of operators on plain tensors, such as "
        "the local outputs of sharded layers, counted as this rank ran them. Where these were shards, the other ranks' "
        "are not in it."
    )


def timings(clock: StepClock, index: Mapping[str, int]) -> tuple[Timing, ...]:
    """The times that a clock took. index: path of a module -> its place in the report; times of others are left out."""
    return tuple(
        Timing(module=index[frame.path], phase=phase, samples_ns=tuple(samples))
        for (frame, phase), samples in clock.samples.items()
        if frame.path in index
    )


def clock_value(clock: StepClock, *, while_counting: bool, warm_up: int) -> Clock:
    """How a clock's times were taken."""
    counted_ns = clock.counted_ns
    if while_counting:
        counted_ns = clock.step_ns[-1] if clock.step_ns else None
    return Clock(
        source=clock.source,
        steps=len(clock.step_ns),
        warm_up=0 if while_counting else warm_up,
        step_ns=tuple(clock.step_ns),
        while_counting=while_counting,
        counted_step_ns=counted_ns,
        own_ns=clock.own_ns,
    )


def _notes(run: Counted) -> tuple[str, ...]:
    notes = [
        f"the formula of {op} failed, so it counts as unknown: {why}" for op, why in run.signatures.failures.items()
    ]
    notes += run.tracker.uncounted.sentences()
    if run.clock is not None and run.steps and not run.clock.step_ns:
        notes.append(
            f"nothing was timed: {run.steps} steps ran, the first is counted and {run.warm_up} warm up; run more steps"
        )
    if run.fused_attention:
        notes.append("on the meta device attention is counted as the fused kernel that an accelerator would run")
    if run.tracker.elsewhere:
        notes.append(
            f"calls of the model's modules in other threads ({run.tracker.elsewhere}) are not counted: "
            "only the thread that opened the block is"
        )
    elif run.tracker.frames[""].calls == 0:
        notes.append("the model's own forward was never called; only parts of it ran")
    return tuple(notes)


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    return device.type


def _known(device: str) -> str:
    """weftrace's name for an accelerator, "" where it is not known."""
    if not device.startswith("cuda: "):
        return ""
    try:
        return hardware(device.removeprefix("cuda: ")).name
    except WeftraceError:
        return ""


def _tf32() -> bool:
    return torch.get_float32_matmul_precision() != "highest" or bool(torch.backends.cuda.matmul.allow_tf32)


def _rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
