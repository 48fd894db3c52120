"""What did all ranks do together? The reports of several ranks as one, and how far the ranks differ.

- Operators: summed over ranks. `ranks` says how many; rates and utilization divide by it.
- Global operators: each rank counted the work of all, so each module's are taken from the first rank that has any
  there.
- Times: in each timed step those of the rank whose step was the slowest, all modules of it, so that children and self
  still make up the parent and the whole makes up the step. Step times: the slowest rank's.
- Trees must be the same. Pipeline stages hold different parts of a model: with `parallel.pipeline` above 1 the merged
  tree is the union by path, a module's times come from the slowest rank that has it, and inclusive times are then those
  of one rank of each stage together, not of one GPU.
- Parameters: of the first rank that has the module. Own and global ones are not summed: replicas hold the same ones.
- Samples, tokens: of one rank, where all agree; else not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from weftrace.costs.cost import Cost, Phase
from weftrace.errors import FlopsError
from weftrace.flops.derived.columns import columns, sums
from weftrace.flops.derived.coverage import coverage_of
from weftrace.flops.derived.module_time import Times, times_of
from weftrace.flops.derived.tally import totals_of
from weftrace.flops.values import OUTSIDE, Clock, FlopsReport, Module, OpCount, Timing
from weftrace.units import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTotals:
    """One rank: its model and executed matrix FLOPs, its median step in ns (None: not timed), and the part of its calls
    that have a formula (None: no calls).
    """

    rank: int
    flops: int
    executed_flops: int
    step_ns: int | None
    coverage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpread:
    """Lowest, median and highest of a column over ranks, and the rank that has the highest."""

    lowest: float
    median: float
    highest: float
    highest_rank: int


def rank_rows(reports: Sequence[FlopsReport]) -> tuple[RankTotals, ...]:
    """A row for each rank's report, in order of rank."""
    ordered = sorted(reports, key=lambda report: report.rank)
    return tuple(_rank_row(report, times_of(report)) for report in ordered)


def _rank_row(report: FlopsReport, times: Times) -> RankTotals:
    cols = columns(report.ops)
    step = totals_of(sums(report, cols))
    return RankTotals(
        rank=report.rank,
        flops=step.flops,
        executed_flops=step.executed_flops,
        step_ns=None if times.step is None else times.step.median,
        coverage=coverage_of(report, cols, times).calls,
    )


def rank_spread(rows: Sequence[RankTotals], column: str) -> RankSpread | None:
    """How far a column of `RankTotals` ("flops", "step_ns" ...) differs; None where a rank does not have it."""
    values = [(getattr(row, column), row.rank) for row in rows]
    if not values or any(value is None for value, _ in values):
        return None
    highest, rank = max(values, key=lambda pair: (pair[0], -pair[1]))
    numbers = [value for value, _ in values]
    return RankSpread(lowest=min(numbers), median=median(numbers), highest=highest, highest_rank=rank)


def merge(reports: Sequence[FlopsReport]) -> FlopsReport:
    """The reports of several ranks as one; see the top of this file for what becomes of each part.

    Raises `FlopsError` where there is none, a rank comes twice, one is merged already, they are of different models,
    layouts or trees, or some were timed and others were not.
    """
    if not reports:
        raise FlopsError("no report to merge")
    ordered = sorted(reports, key=lambda report: report.rank)
    first = ordered[0]
    if len(ordered) == 1:
        return first
    _check(ordered)
    modules, places = _union(ordered)
    took = [times_of(report) for report in ordered]
    clock, slowest = _clock(ordered, took)
    return replace(
        first,
        modules=modules,
        ops=_summed(ordered, places),
        global_ops=_global_ops(ordered, places),
        times=_times(took, places, slowest),
        clock=clock,
        device=first.device if len({report.device for report in ordered}) == 1 else "several",
        hardware=first.hardware if len({report.hardware for report in ordered}) == 1 else "",
        samples=_agreed([report.samples for report in ordered]),
        tokens=_agreed([report.tokens for report in ordered]),
        rank=first.rank,
        ranks=len(ordered),
        notes=_notes(ordered, took),
    )


def _check(reports: Sequence[FlopsReport]) -> None:
    first = reports[0]
    seen: set[int] = set()
    for report in reports:
        who = f"rank {report.rank}"
        if report.ranks != 1:
            raise FlopsError(f"the report of {who} is of {report.ranks} ranks merged already; merge the single ones")
        if report.rank in seen:
            raise FlopsError(f"{who} comes twice; merge one report of each rank")
        seen.add(report.rank)
        for what in ("name", "parallel", "tf32", "micro_batches"):
            a, b = getattr(first, what), getattr(report, what)
            if a != b:
                raise FlopsError(f"{what} of rank {first.rank} is {a!r} and of {who} {b!r}: not reports of one job")
        if len(report.clock.step_ns) != len(first.clock.step_ns) or bool(report.times) != bool(first.times):
            raise FlopsError(
                f"rank {first.rank} timed {len(first.clock.step_ns)} steps and {who} {len(report.clock.step_ns)}; "
                "merge reports that timed the same steps"
            )


def _union(reports: Sequence[FlopsReport]) -> tuple[tuple[Module, ...], list[list[int]]]:
    """The merged modules, and for each report its modules' places among them. Parents stay before children."""
    first = reports[0]
    is_pipeline = first.parallel.pipeline > 1
    known: dict[str, Module] = {}
    parent_of: dict[str, str | None] = {}
    for report in reports:
        for module in report.modules:
            parent = None if module.parent is None else report.modules[module.parent].path
            before = known.get(module.path)
            if before is None:
                known[module.path], parent_of[module.path] = module, parent
            elif before.class_name != module.class_name or parent_of[module.path] != parent:
                raise FlopsError(
                    f"{module.path or 'the root'} is a {before.class_name} on rank {first.rank} and a "
                    f"{module.class_name} on rank {report.rank}: different models cannot be merged"
                )
    if not is_pipeline:
        for report in reports:
            missing = known.keys() - {module.path for module in report.modules} - {OUTSIDE}
            if missing:
                raise FlopsError(
                    f"rank {report.rank} has no module {min(missing)!r} and other ranks have one: different trees "
                    "are merged for pipeline stages alone, and this job's parallel.pipeline is 1"
                )
    children: dict[str | None, list[str]] = {}
    for path in known:
        if path != OUTSIDE:
            children.setdefault(parent_of[path], []).append(path)
    order: list[str] = []
    waiting = list(reversed(children.get(None, [])))
    while waiting:  # depth first, siblings in the order in which they were met
        path = waiting.pop()
        order.append(path)
        waiting.extend(reversed(children.get(path, [])))
    order += [OUTSIDE] * (OUTSIDE in known)
    place = {path: index for index, path in enumerate(order)}
    calls = dict.fromkeys(order, 0)
    for report in reports:
        for module in report.modules:
            calls[module.path] = max(calls[module.path], module.calls)
    modules = tuple(
        replace(known[path], parent=None if (above := parent_of[path]) is None else place[above], calls=calls[path])
        for path in order
    )
    return modules, [[place[module.path] for module in report.modules] for report in reports]


def _summed(reports: Sequence[FlopsReport], places: Sequence[Sequence[int]]) -> tuple[OpCount, ...]:
    calls: dict[tuple[int, Phase, str, str, Cost], int] = {}
    for report, place in zip(reports, places, strict=True):
        for op in report.ops:
            key = (place[op.module], op.phase, op.op, op.signature, op.cost)
            calls[key] = calls.get(key, 0) + op.calls
    merged = [
        OpCount(module=module, phase=phase, op=op, signature=signature, calls=number, cost=cost)
        for (module, phase, op, signature, cost), number in calls.items()
    ]
    return tuple(sorted(merged, key=lambda op: op.module))


def _global_ops(reports: Sequence[FlopsReport], places: Sequence[Sequence[int]]) -> tuple[OpCount, ...]:
    taken: dict[int, list[OpCount]] = {}
    for report, place in zip(reports, places, strict=True):
        here: dict[int, list[OpCount]] = {}
        for op in report.global_ops:
            here.setdefault(place[op.module], []).append(replace(op, module=place[op.module]))
        for module, ops in here.items():
            taken.setdefault(module, ops)
    return tuple(op for module in sorted(taken) for op in taken[module])


def _step_samples(report: FlopsReport, times: Times) -> tuple[int, ...]:
    """Wall time of each step; of reports that timed modules alone, what those add up to."""
    if report.clock.step_ns:
        return report.clock.step_ns
    return tuple(sum(samples) for samples in zip(*times.phase_samples.values(), strict=True))


def _clock(reports: Sequence[FlopsReport], took: Sequence[Times]) -> tuple[Clock, list[list[int]]]:
    """The merged clock, and for each step the reports' numbers, slowest first."""
    clocks = [report.clock for report in reports]
    samples = [_step_samples(report, times) for report, times in zip(reports, took, strict=True)]
    if len({len(each) for each in samples}) > 1:
        raise FlopsError("the ranks timed different numbers of steps; merge reports that timed the same steps")
    slowest = [sorted(range(len(reports)), key=lambda n: -samples[n][step]) for step in range(len(samples[0]))]
    counted = [clock.counted_step_ns for clock in clocks if clock.counted_step_ns is not None]
    merged = replace(
        clocks[0],
        step_ns=tuple(max(steps) for steps in zip(*(clock.step_ns for clock in clocks), strict=True)),
        while_counting=any(clock.while_counting for clock in clocks),
        counted_step_ns=max(counted, default=None),
        own_ns=max(clock.own_ns for clock in clocks),
    )
    return merged, slowest


def _times(
    took: Sequence[Times], places: Sequence[Sequence[int]], slowest: Sequence[Sequence[int]]
) -> tuple[Timing, ...]:
    """In each step the slowest rank that holds the module; a module that it did not time took 0 there."""
    by_rank = [
        {(place[module], phase): samples for (module, phase), samples in times.exclusive_samples.items()}
        for times, place in zip(took, places, strict=True)
    ]
    holds = [frozenset(place) for place in places]
    if any(len(samples) != len(slowest) for times in by_rank for samples in times.values()):
        raise FlopsError("the ranks timed different numbers of steps; merge reports that timed the same steps")
    keys = sorted({key for times in by_rank for key in times}, key=lambda key: (key[0], list(Phase).index(key[1])))
    result = []
    for key in keys:
        samples = []
        for step, ranks in enumerate(slowest):
            rank = next(rank for rank in ranks if key[0] in holds[rank])
            found = by_rank[rank].get(key)
            samples.append(0 if found is None else found[step])
        result.append(Timing(module=key[0], phase=key[1], samples_ns=tuple(samples)))
    return tuple(result)


def _agreed(values: Sequence[int | None]) -> int | None:
    return values[0] if len(set(values)) == 1 else None


def _notes(reports: Sequence[FlopsReport], took: Sequence[Times]) -> tuple[str, ...]:
    rows = tuple(map(_rank_row, reports, took))
    notes = list(dict.fromkeys(note for report in reports for note in report.notes))
    notes.append(f"{len(reports)} ranks merged: operators are summed, times are those of each step's slowest rank.")
    flops, times, covered = (rank_spread(rows, column) for column in ("executed_flops", "step_ns", "coverage"))
    if flops is not None and flops.lowest != flops.highest:
        notes.append(
            f"Executed FLOPs of a rank: lowest {flops.lowest:.4g}, median {flops.median:.4g}, highest "
            f"{flops.highest:.4g} (rank {flops.highest_rank})."
        )
    if times is not None:
        notes.append(
            f"Step of a rank: fastest {duration(times.lowest)}, median {duration(times.median)}, slowest "
            f"{duration(times.highest)} (rank {times.highest_rank})."
        )
    if covered is not None and covered.lowest < 1:
        notes.append(
            f"Calls with a formula on a rank: lowest {percent(covered.lowest)}, highest {percent(covered.highest)}."
        )
    for what in ("samples", "tokens"):
        values = [getattr(report, what) for report in reports]
        if len(set(values)) > 1:
            notes.append(f"The ranks have different {what} in a step: {', '.join(map(str, values[:8]))}; left unknown.")
    if reports[0].parallel.pipeline > 1:
        notes.append(
            "Pipeline stages: the tree is the union of the stages', times are of one rank of each stage together."
        )
    return tuple(notes)
