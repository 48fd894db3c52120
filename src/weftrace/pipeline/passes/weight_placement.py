"""Where do weight gradients go, so that they fill the gaps and no rank holds more than it may?

A rank waits for I's of the next stage and for F's of the one before; nobody waits for W. So a W is best run where its
rank would idle. It holds its activations until then, which is what the cap is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

import numpy as np
import polars as pl

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs, durations_ns, need_costs, transfer_ns
from weftrace.pipeline.dependencies import chunk_rows, messages
from weftrace.pipeline.generators.one_stage import zb1p
from weftrace.pipeline.passes.loops import NEVER, Rows, place
from weftrace.pipeline.passes.splitting import split_backward
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule, need_schedule, needed_count
from weftrace.pipeline.simulation import Boundary, simulate

#: Of what the quickest order idles: how long a rank may have been idle and still wait, instead of running a long W.
_PARTS = (0.2, 0.4, 0.6, 0.8, 1.0)


def place_weights(
    schedule: Schedule, costs: Costs, most_activations: int | None = None, boundary: Boundary = "barrier"
) -> Schedule:
    """Split each B, keep the order of F and I, and move each W to where its rank would wait.

    most_activations: chunks whose activations a rank may hold at once, from the start of F to the end of W; None for
        the most that a rank holds in the schedule given. boundary: which step is to be short, see `simulate`.

    A W runs when the next F or I of its rank is not ready, or when an F would hold one chunk too many. That is greedy:
    a rank that begins a W does not know that its input comes a moment later, and on some costs the result is some
    percent slower than ZB1P. So the quickest of several ways to wait for it is taken, and of three schedules, all
    within the cap: what was found, the schedule given and, where each rank has one stage, ZB1P. The backward of an F&B
    stays whole.

    Raises `ScheduleError` where the schedule is wrong or has no backward to split, and where the cap is below what its
    order of F and I needs with every W right after its I.
    """
    return placed(schedule, costs, most_activations, boundary)[1]


def placed(schedule: Schedule, costs: Costs, most_activations: int | None, boundary: Boundary) -> tuple[int, Schedule]:
    """What `place_weights` returns, and how long a step of it takes at most."""
    need_schedule(schedule)
    need_costs(costs)
    if most_activations is not None:
        needed_count("weights", "most_activations", most_activations)
    check(schedule)
    split = split_backward(schedule)
    if not (split.actions["kind"] == "W").any():
        raise ScheduleError(f"schedule {schedule.name!r} has no B that could be split, and no W to be placed.")
    cap = most_held(schedule) if most_activations is None else most_activations
    if cap < (least := most_held(_at_once(split))):
        raise ScheduleError(
            f"schedule {schedule.name!r}: a rank may hold {cap} chunks of activations, but its order of F and I needs "
            f"{least} even with every W right after its I. Choose a schedule that holds fewer, or offload activations."
        )
    others = [schedule, *_zb1p_instead(schedule)]
    within = [quickest([other], costs, boundary) for other in others if most_held(other) <= cap]
    return min([_placed(split, f"{schedule.name}, W placed", costs, cap, boundary), *within], key=itemgetter(0))


def quickest(schedules: Sequence[Schedule], costs: Costs, boundary: Boundary) -> tuple[int, Schedule]:
    """The step of the schedule that takes least time, and the schedule; of equal ones the first."""
    steps = [simulate(each, costs, boundary).step_ns for each in schedules]
    return min(zip(steps, schedules, strict=True), key=itemgetter(0))


def is_exact(costs: Costs) -> bool:
    """Whether the loops know how long all takes: where messages take a latency alone."""
    inside = (costs.input_needed, costs.output_ready) == ((0, 0), (1, 1))
    return inside and not costs.blocking and costs.bytes_per_s is None


def most_held(schedule: Schedule) -> int:
    """The most chunks whose activations a rank holds at once: from the start of F to the end of W or B."""
    need_schedule(schedule)
    actions = schedule.actions
    takes = actions["kind"].is_in(["F", "F&B"]).to_numpy().astype(np.int64)
    frees = actions["kind"].is_in(["B", "W", "F&B"]).to_numpy().astype(np.int64)
    held = np.cumsum(takes - frees) + frees  # while the action runs, since the first rank's first
    rank = actions["rank"].to_numpy()
    before = np.concatenate([[0], np.cumsum(takes - frees)])[np.searchsorted(rank, rank)]
    return int((held - before).max(initial=0))


def _zb1p_instead(schedule: Schedule) -> list[Schedule]:
    """ZB1P of the same size, where the schedule is of its kind: one stage a rank, nothing overlapped or offloaded."""
    in_a_row = schedule.rank_of == (tuple(range(schedule.num_stages)),)
    plain = not schedule.actions["offload"].any() and not (schedule.actions["kind"] == "F&B").any()
    return (
        [zb1p(schedule.num_stages, schedule.num_micro_batches)]
        if in_a_row and plain and schedule.num_slices == 1
        else []
    )


def _at_once(split: Schedule) -> Schedule:
    """Every W right after its I."""
    row = np.arange(len(split), dtype=np.float64)
    for of_input, of_weight in _weight_rows(split).items():
        row[of_weight] = of_input + 0.5
    return split.with_actions(split.actions[np.argsort(row)])


def _weight_rows(split: Schedule) -> dict[int, int]:
    """Row of an I -> row of its W."""
    of_input, of_weight = chunk_rows(split, "I")[0].reshape(-1), chunk_rows(split, "W")[0].reshape(-1)
    apart = of_input != of_weight
    return dict(zip(of_input[apart].tolist(), of_weight[apart].tolist(), strict=True))


def _placed(split: Schedule, name: str, costs: Costs, cap: int, boundary: Boundary) -> tuple[int, Schedule]:
    """The schedule with its W moved, in the quickest of the ways that are tried, and its step."""
    rows = _rows(split, costs)
    place_N = np.zeros(len(split), np.int64)

    def step_ns(patience: int) -> int:
        return int(place(rows, cap, patience, boundary == "barrier", place_N)[boundary == "span"])

    step = step_ns(min(patiences(step_ns, int(np.bincount(split.rank_N, rows.duration).max())))[1])
    found = split.with_actions(split.actions[np.lexsort((place_N, split.rank_N))], name=name)
    offloads = split.actions["offload"].any()
    return (step, found) if is_exact(costs) and not offloads else quickest([found], costs, boundary)


def patiences(step_ns: Callable[[int], int], busy_ns: int) -> Iterator[tuple[int, int]]:
    """Ways to wait that are tried, (step, patience): none, endless, and parts of what the better of both idles.

    busy_ns: what the busiest rank computes.
    """
    ends = [(step_ns(patience), patience) for patience in (0, NEVER)]
    yield from ends
    idle = min(ends)[0] - busy_ns
    if 0 < idle < NEVER // 2:
        for part in _PARTS:
            yield step_ns(patience := round(part * idle)), patience


def _rows(split: Schedule, costs: Costs) -> Rows:
    """What the loop needs to know of each action."""
    num, kinds = len(split), split.actions["kind"]
    needs = _needs(split, costs).sort("op")
    op, on, lag = (needs[name].to_numpy(writable=True) for name in ("op", "on", "lag"))
    by_user = np.argsort(on, kind="stable")
    weight = np.full(num, -1, np.int64)
    weight_rows = _weight_rows(split)
    weight[list(weight_rows)] = list(weight_rows.values())
    queue = np.flatnonzero((kinds != "W").to_numpy())
    edges = np.arange(num + 1)
    return Rows(
        first_R=np.searchsorted(split.rank_N[queue], np.arange(split.num_ranks + 1)),
        queue=queue,
        need_first=np.searchsorted(op, edges),
        need_on=on,
        need_lag=lag,
        user_first=np.searchsorted(on[by_user], edges),
        user_rank=split.rank_N.astype(np.int64)[op[by_user]],
        duration=durations_ns(split, costs),
        takes=kinds.is_in(["F", "F&B"]).to_numpy().astype(np.int64),
        frees=kinds.is_in(["B", "W", "F&B"]).to_numpy().astype(np.int64),
        weight=weight,
    )


def _needs(split: Schedule, costs: Costs) -> pl.DataFrame:
    """Which row needs the result of which, and how long that is on its way: op, on, lag, Int64."""
    rank = pl.Series(split.rank_N)
    found = messages(split).select(pl.col("op", "on").cast(pl.Int64))
    same = rank.gather(found["op"]) == rank.gather(found["on"])
    return found.with_columns(lag=pl.when(same).then(0).otherwise(message_ns(costs)).cast(pl.Int64))


def message_ns(costs: Costs) -> int:
    """How long a message is on its way: an estimate, the largest of all stages'; the simulation judges exactly."""
    largest = np.array([np.max(costs.message_bytes)])
    return costs.latency_ns + int(transfer_ns(largest, costs, "bytes_per_s")[0])
