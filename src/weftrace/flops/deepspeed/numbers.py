"""Which numbers stand in DeepSpeed's text? From a `FlopsReport`, the summary of a step and a line for each module.

FLOPs are matrix work with attention over all pairs (`full_flops`), as DeepSpeed counts it; MACs are half of them. All
are of one GPU: of merged ranks the mean, rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weftrace.costs.cost import Phase, Tally
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.columns import with_children
from weftrace.flops.derived.module_time import spread
from weftrace.flops.derived.tally import Key, tallies
from weftrace.flops.values import OUTSIDE, FlopsReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How the work is spread, as an engine, a configuration or the process group tells.

    world, data, model: GPUs, replicas, and GPUs that share one copy of the model. batch: samples of a micro-batch on
    one GPU. model_params: of the whole model; None: params per GPU x model. expert_params: those of them in experts
    that expert parallelism spreads. expert_tensor: whether experts are tensor-parallel; None where there are none.
    bwd_s, step_s: seconds by the engine's own timers, None where there are none.
    """

    world: int = 1
    data: int = 1
    model: int = 1
    batch: int | None = None
    model_params: int | None = None
    expert_params: int = 0
    expert_tensor: bool | None = None
    bwd_s: float | None = None
    step_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleLine:
    """A module with all below it: parameters, MACs and FLOPs of the forward, and its seconds (None: not timed)."""

    params: int
    macs: int
    flops: int
    seconds: float | None

    @property
    def rate(self) -> float:
        """FLOPs in each second; 0 where no time was measured."""
        return self.flops / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """The summary: sums over the micro-batches of the step, on one GPU.

    flops: forward, the model's. model_flops: of all GPUs that share the model. causal_flops: with causal attention
    exact. bwd_flops: the backward's, of the model's operators; None where no backward ran. outside_flops: forward and
    backward outside the model (a loss function, another network); in no other number. vector_flops: forward, off the
    matrix units; in no other number. fwd_s, bwd_s, step_s: seconds, None where not measured; bwd_s has recomputation
    in it. iter_s: their sum; None where bwd_s or step_s is missing. samples: of the iteration, on all GPUs.
    """

    params: int
    macs: int
    flops: int
    model_flops: int
    causal_flops: int
    outside_flops: int
    vector_flops: int
    bwd_flops: int | None
    fwd_s: float | None
    bwd_s: float | None
    step_s: float | None
    micro_batches: int
    batch: int | None
    samples: int | None

    @property
    def iter_s(self) -> float | None:
        if self.fwd_s is None or self.bwd_s is None or self.step_s is None:
            return None
        return self.fwd_s + self.bwd_s + self.step_s


def module_lines(report: FlopsReport | Account) -> list[ModuleLine]:
    """A line for each of `report.modules`."""
    account = account_of(report)
    report = account.report
    tallies = _of_one(report, account.inclusive)
    times = account.times.inclusive_samples
    lines = []
    for index, own in enumerate(account.module_params):
        tally = tallies.get((index, Phase.FORWARD))
        flops = 0 if tally is None else tally.full_flops
        seconds = _seconds(report, times.get((index, Phase.FORWARD), ())) if times else None
        lines.append(ModuleLine(params=own.total, macs=flops // 2, flops=flops, seconds=seconds))
    return lines


def step_line(report: FlopsReport | Account, sizes: Sizes, *, recomputation: bool = False) -> StepLine:
    """The summary. recomputation: count in bwd_flops what a checkpoint ran again."""
    account = account_of(report)
    report = account.report
    own, below = _of_one(report, account.exclusive), _of_one(report, account.inclusive)
    root = below.get((0, Phase.FORWARD))
    flops = root.full_flops if root else 0
    outside = {index for index, module in enumerate(report.modules) if module.path.startswith(OUTSIDE)}
    wanted = (Phase.BACKWARD, Phase.RECOMPUTE) if recomputation else (Phase.BACKWARD,)
    ran = {phase for _, phase in own}
    bwd = sum(
        tally.executed_flops if phase is Phase.RECOMPUTE else tally.full_flops
        for (index, phase), tally in own.items()
        if phase in wanted and index not in outside
    )
    times = account.times.exclusive_samples
    spent = {phase: _seconds(report, samples) for phase, samples in account.times.phase_samples.items()}
    forward = _seconds(report, account.times.inclusive_samples.get((0, Phase.FORWARD), ()))
    micro = report.micro_batches
    batch = sizes.batch
    if batch is None and report.samples is not None:
        batch = report.samples // micro if report.samples % micro == 0 else None
    per_gpu = sizes.batch * micro if sizes.batch is not None else report.samples
    return StepLine(
        params=account.params.total,
        macs=flops // 2,
        flops=flops,
        model_flops=_model_flops(account, sizes, flops),
        causal_flops=root.flops if root else 0,
        outside_flops=sum(t.full_flops for (m, _), t in own.items() if m in outside),
        vector_flops=root.vector_flops if root else 0,
        bwd_flops=bwd if Phase.BACKWARD in ran else None,
        fwd_s=forward if times else None,
        bwd_s=_backward_seconds(report, times) if times and Phase.BACKWARD in ran else sizes.bwd_s,
        step_s=spent.get(Phase.OPTIMIZER) if times and Phase.OPTIMIZER in ran else sizes.step_s,
        micro_batches=micro,
        batch=batch,
        samples=None if per_gpu is None else per_gpu * sizes.data,
    )


def _of_one(report: FlopsReport, sums: Mapping[Key, Tally]) -> Mapping[Key, Tally]:
    """What one of the merged ranks does."""
    return sums if report.ranks == 1 else {key: tally.over(report.ranks) for key, tally in sums.items()}


def _backward_seconds(report: FlopsReport, times: Mapping[tuple[int, Phase], tuple[int, ...]]) -> float:
    """Backward and recomputation together, step by step, in seconds."""
    wanted = [ns for (_, phase), ns in times.items() if phase in (Phase.BACKWARD, Phase.RECOMPUTE)]
    return _seconds(report, [sum(step) for step in zip(*wanted, strict=True)])


def _seconds(report: FlopsReport, samples: Sequence[int]) -> float:
    """Of a step. Where what was timed is what was counted, the samples are parts of it and add up; else their
    median.
    """
    if not samples:
        return 0.0
    return (sum(samples) if report.clock.while_counting else spread(samples).median) / 1e9


def _model_flops(account: Account, sizes: Sizes, flops: int) -> int:
    """DTensor models are counted on global shapes, for every rank of the world; a replica's part is what is asked."""
    if account.global_own is None:
        return flops * sizes.model
    root = tallies(with_children(account.report, account.global_own)).get((0, Phase.FORWARD))
    return root.full_flops // account.report.parallel.data if root else 0


def fold(report: FlopsReport, paths: frozenset[str]) -> FlopsReport:
    """The report with the work of these modules given to the nearest module above that is not one of them."""
    to: list[int] = []
    for index, module in enumerate(report.modules):
        folded = module.parent is not None and module.path in paths
        to.append(to[module.parent] if folded and module.parent is not None else index)
    return replace(
        report,
        ops=tuple(replace(op, module=to[op.module]) for op in report.ops),
        global_ops=tuple(replace(op, module=to[op.module]) for op in report.global_ops),
        times=tuple(replace(time, module=to[time.module]) for time in report.times),
    )
