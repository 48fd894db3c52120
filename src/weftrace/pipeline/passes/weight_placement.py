"""Where do weight gradients go, so that they fill the gaps and no rank holds more than it may?

A rank waits for I's of the next stage and for F's of the one before; nobody waits for W. So a W is best run where its
rank would idle. It holds its activations until then, which is what the cap is for.
"""

from __future__ import annotations

from collections import defaultdict, deque
from heapq import heapify, heappop, heappush

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs, durations_ns, need_costs, transfer_ns
from weftrace.pipeline.dependencies import chunk_rows, messages
from weftrace.pipeline.generators.one_stage import zb1p
from weftrace.pipeline.passes.splitting import split_backward
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule, need_schedule, needed_count
from weftrace.pipeline.simulation import simulate


def place_weights(schedule: Schedule, costs: Costs, most_activations: int | None = None) -> Schedule:
    """Split each B, keep the order of F and I, and move each W to where its rank would wait.

    most_activations: chunks whose activations a rank may hold at once, from the start of F to the end of W; None for
        the most that a rank holds in the schedule given.

    A W runs when the next F or I of its rank is not ready, or when an F would hold one chunk too many. That is greedy:
    a rank that begins a W does not know that its input comes a moment later, and on some costs the result is some
    percent slower than ZB1P. So the quickest of three is returned, all within the cap: what was found, the schedule
    given and, where each rank has one stage, ZB1P. The backward of an F&B stays whole.

    Raises `ScheduleError` where the schedule is wrong or has no backward to split, and where the cap is below what its
    order of F and I needs with every W right after its I.
    """
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
    found = split.with_actions(_placed(split, costs, cap), name=f"{schedule.name}, W placed")
    others = [schedule, *_zb1p_instead(schedule)]
    within = [found, *(other for other in others if most_held(other) <= cap)]
    return min(within, key=lambda each: simulate(each, costs).makespan_ns)


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


def _placed(split: Schedule, costs: Costs, cap: int) -> pl.DataFrame:
    """The actions with their W moved: all ranks run, in time, and each chooses when it is free."""
    times = durations_ns(split, costs).tolist()
    weight_of = _weight_rows(split)
    kinds, rank_of_row = split.actions["kind"].to_list(), split.actions["rank"].to_list()
    needs = _needs(split, costs)
    to_run: list[deque[int]] = [deque() for _ in range(split.num_ranks)]  # F, I, B and F&B of each rank
    for row, kind in enumerate(kinds):
        if kind != "W":
            to_run[rank_of_row[row]].append(row)
    waiting: list[deque[int]] = [deque() for _ in to_run]  # W's whose I has run
    held = [0] * len(to_run)
    end: dict[int, int] = {}
    orders: list[list[int]] = [[] for _ in to_run]
    sleepers: defaultdict[int, list[int]] = defaultdict(list)  # row -> ranks that wait for it to start
    free = [(0, rank) for rank in range(len(to_run))]  # when a rank chooses next
    heapify(free)
    while free:
        now, rank = heappop(free)
        row, ready = to_run[rank][0] if to_run[rank] else -1, None
        if row >= 0 and not (kinds[row] in ("F", "F&B") and held[rank] == cap):
            unknown = next((on for on, _ in needs[row] if on not in end), None)
            if unknown is None:
                ready = max((end[on] + lag for on, lag in needs[row]), default=0)
            elif not waiting[rank]:
                sleepers[unknown].append(rank)
                continue
        if ready is not None and ready <= now:
            to_run[rank].popleft()
        elif waiting[rank]:
            row = waiting[rank].popleft()
        elif ready is not None:
            heappush(free, (ready, rank))
            continue
        else:
            continue  # all done
        orders[rank].append(row)
        end[row] = now + times[row]
        held[rank] += (kinds[row] == "F") - (kinds[row] in ("B", "W"))
        if kinds[row] == "I":
            waiting[rank].append(weight_of[row])
        heappush(free, (end[row], rank))
        for sleeper in sleepers.pop(row, ()):
            heappush(free, (now, sleeper))
    assert len(end) == len(split), (len(end), len(split))
    return split.actions[[row for order in orders for row in order]]


def _needs(split: Schedule, costs: Costs) -> defaultdict[int, list[tuple[int, int]]]:
    """Row -> the rows whose results it needs, with how long each is on its way."""
    rank = split.actions["rank"].to_numpy()
    op, on = (messages(split)[name].to_numpy() for name in ("op", "on"))
    lag_ns: NDArray[np.int64] = np.where(rank[op] == rank[on], 0, _message_ns(costs))
    needs: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, needed, lag in zip(op.tolist(), on.tolist(), lag_ns.tolist(), strict=True):
        needs[row].append((needed, lag))
    return needs


def _message_ns(costs: Costs) -> int:
    """How long a message is on its way: an estimate, the largest of all stages'; the simulation judges exactly."""
    largest = np.array([np.max(costs.message_bytes)])
    return costs.latency_ns + int(transfer_ns(largest, costs, "bytes_per_s")[0])
