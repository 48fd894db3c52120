"""Which order of forwards, input gradients and weight gradients is quickest with these costs, in the memory that there
is?

Published orders are made for F = I = W. A list scheduler makes one for any costs: see `loops.choose`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, product
from operator import itemgetter

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs, durations_ns, need_costs, of_stages
from weftrace.pipeline.generators.columns import kinds_of
from weftrace.pipeline.passes.loops import NEVER, Pipeline, Rules, choose
from weftrace.pipeline.passes.weight_placement import is_exact, message_ns, most_held, patiences, placed, quickest
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule, need_schedule, needed_count
from weftrace.pipeline.simulation import Boundary

#: Forwards that a stage is ahead, as `Rules.ahead` has it: 1F1B's, ZB2P's, one between, and no limit.
_AHEAD = (2, 3, 4, 1_000_000)
_NUM_RULES = 3  # the best so many are tried with more patiences
_NUM_SEEDS = 64
#: Actions that are put in order, over all tries: some seconds.
_MOST_ACTIONS = 2_000_000


def fit_order(
    schedule: Schedule, costs: Costs, most_activations: int | None = None, boundary: Boundary = "barrier"
) -> Schedule:
    """The stages of a schedule where they are, in an order of F, I and W that is made for these costs.

    most_activations: chunks whose activations a rank may hold at once, as `place_weights` has it; None for the most
        that a rank holds in the schedule given, in bytes where stages differ.

    Ranks run side by side in time. A rank prefers an I to an F, the F of its latest stage to others, and W where it
    would wait, or where an F has no room. Several such rules are tried, among them the given order with its W placed;
    the one with the shortest step is returned, or the schedule given where none is shorter.

    Raises `ScheduleError` where the schedule is wrong, has several replicas, F&B, slices or offloaded activations, and
    where a rank may hold fewer chunks than it has stages.
    """
    need_schedule(schedule)
    need_costs(costs)
    if reason := why_not_fitted(schedule):
        raise ScheduleError(f"schedule {schedule.name!r} has {reason}, for which no order is made.")
    if most_activations is not None:
        needed_count("fit", "most_activations", most_activations)
    pipeline, cap = _pipeline(schedule, costs, most_activations, boundary)
    most = int((pipeline.size + pipeline.reserve).max())
    if cap < most:
        raise ScheduleError(
            f"schedule {schedule.name!r}: a rank may hold {cap:,} chunks of activations, but needs {most:,}, one for "
            "each of its stages. Allow more, or choose a schedule with fewer stages on a rank."
        )
    least = _least_ns(pipeline, schedule.num_micro_batches)
    over = most_activations is not None and most_held(schedule) > most_activations
    if over:
        check(schedule)
    given = [] if over else [placed(schedule, costs, None, boundary)]
    if given and given[0][0] <= least:
        return given[0][1]
    found = _chosen(schedule, pipeline, cap, least)
    if found is not None:
        given.append(found if is_exact(costs) else quickest([found[1]], costs, boundary))
    return min(given, key=itemgetter(0))[1]


def least_ns(schedule: Schedule, costs: Costs, boundary: Boundary = "barrier") -> int:
    """What no order of a schedule that can be fitted takes less than, on the same ranks: of each rank, the way of a
    first micro-batch to it, where steps end with a barrier, and all its work."""
    return _least_ns(_pipeline(schedule, costs, None, boundary)[0], schedule.num_micro_batches)


def why_not_fitted(schedule: Schedule) -> str:
    """What keeps `fit_order` from a schedule; empty where nothing does."""
    kinds = schedule.actions["kind"]
    reasons = {
        "several replicas": schedule.num_replicas > 1,
        "slices of sequences": schedule.num_slices > 1,
        "F&B": bool((kinds == "F&B").any()),
        "no backward": bool((kinds == "F").all()),
        "offloaded activations": bool(schedule.actions["offload"].any()),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _pipeline(
    schedule: Schedule, costs: Costs, most_activations: int | None, boundary: Boundary
) -> tuple[Pipeline, int]:
    """The stages for the loop, and the cap: in chunks, or in bytes where stages differ and the schedule sets it."""
    num_stages = schedule.num_stages
    rank = np.array(schedule.rank_of[0], np.int64)
    size = of_stages(costs, "activation_bytes", num_stages)
    if most_activations is not None or (size == size[0]).all():
        size = np.ones(num_stages, np.int64)
    size = size.copy()  # as all arrays of the loop, one that can be written
    freed_at_input = costs.pending_bytes is not None and not np.any(costs.pending_bytes)
    own = np.argsort(rank, kind="stable")
    after = np.array([size[stage + 1 :][rank[stage + 1 :] == rank[stage]].sum() for stage in range(num_stages)])
    sample = schedule.with_actions(_one_each(schedule))
    forward, gradient, weight = durations_ns(sample, costs).reshape(num_stages, 3)[np.argsort(own)].T
    pipeline = Pipeline(
        rank=rank,
        first_R=np.searchsorted(rank[own], np.arange(schedule.num_ranks + 1)),
        own=own,
        forward=np.ascontiguousarray(forward),
        gradient=np.ascontiguousarray(gradient),
        weight=np.ascontiguousarray(weight),
        lag=np.where(np.append(np.diff(rank), 0) == 0, 0, message_ns(costs)),
        size=size,
        reserve=after,
        freed_at_input=bool(freed_at_input),
        counts_start=boundary == "barrier",
    )
    return pipeline, most_activations or _most_held(schedule, size)


def _one_each(schedule: Schedule) -> pl.DataFrame:
    """F, I and W of the first micro-batch on each stage, by rank and stage."""
    stages = sorted(range(schedule.num_stages), key=lambda stage: (schedule.rank_of[0][stage], stage))
    rows = [(schedule.rank_of[0][stage], kind, stage, 0) for stage in stages for kind in ("F", "I", "W")]
    return pl.DataFrame(rows, schema=["rank", "kind", "stage", "micro_batch"], orient="row")


def _most_held(schedule: Schedule, size_S: NDArray[np.int64]) -> int:
    """The most that a rank holds from the start of F to the end of W or B, by the sizes of its stages' chunks."""
    kinds = schedule.actions["kind"]
    sizes = size_S[schedule.stage_N]
    takes, frees = kinds.eq("F").to_numpy() * sizes, kinds.is_in(["B", "W"]).to_numpy() * sizes
    held = np.cumsum(takes - frees)
    first = np.searchsorted(schedule.rank_N, schedule.rank_N)
    return int((held + frees - np.concatenate([[0], held])[first]).max(initial=0))


def _least_ns(pipeline: Pipeline, num_micro_batches: int) -> int:
    busy_R = np.bincount(pipeline.rank, pipeline.forward + pipeline.gradient + pipeline.weight) * num_micro_batches
    if pipeline.counts_start:
        first_R = pipeline.own[pipeline.first_R[:-1]]
        busy_R += np.append(0, np.cumsum(pipeline.forward + pipeline.lag))[first_R]
    return int(busy_R.max())


def _chosen(schedule: Schedule, pipeline: Pipeline, cap: int, least_ns: int) -> tuple[int, Schedule] | None:
    """The quickest order that the loop finds; None where it gets stuck with all rules."""
    place_KSM = np.zeros((3, schedule.num_stages, schedule.num_micro_batches), np.int64)

    def step_ns(rules: Rules) -> int:
        return choose(pipeline, rules, place_KSM)[0 if pipeline.counts_start else 1]

    best = (NEVER, Rules(cap, _AHEAD[-1], 0, False, False, False, 0))
    for rules in _tries(pipeline, cap, step_ns, _MOST_ACTIONS // place_KSM.size, least_ns):
        best = min(best, rules)
        if best[0] <= least_ns:
            break
    if best[0] >= NEVER:
        return None
    step_ns(best[1])
    return best[0], schedule.with_actions(_actions(schedule, place_KSM), name=f"{schedule.name}, fitted")


def _tries(
    pipeline: Pipeline, cap: int, step_ns: Callable[[Rules], int], num_tries: int, busy_ns: int
) -> Iterator[tuple[int, Rules]]:
    """Rules, and how long a step takes by them: plain ones, the best with several patiences, and the best of all with
    choices made by chance. busy_ns: what the busiest rank needs."""
    least = int((pipeline.size + pipeline.reserve).max())
    caps = sorted({max(least, part * cap // 4) for part in (3, 4)}, reverse=True)
    flags = product(caps, reversed(_AHEAD), (0, NEVER), (False, True), (False, True), (False, True))
    tried: list[tuple[int, Rules]] = []
    for each in islice(flags, max(8, num_tries // 2)):
        tried.append((step_ns(rules := Rules(*each, seed=0)), rules))
        yield tried[-1]
    plain = dict.fromkeys(rules._replace(patience=0) for _, rules in sorted(tried))
    for rules in list(plain)[:_NUM_RULES]:
        with_patience = partial(_with_patience, step_ns, rules)
        for step, patience in patiences(with_patience, busy_ns):
            tried.append((step, rules._replace(patience=patience)))
            yield tried[-1]
    best = min(tried)[1]
    for seed in range(1, 2 * min(_NUM_SEEDS, num_tries // 4), 2):
        yield step_ns(rules := best._replace(seed=seed)), rules


def _with_patience(step_ns: Callable[[Rules], int], rules: Rules, patience: int) -> int:
    return step_ns(rules._replace(patience=patience))


def _actions(schedule: Schedule, place_KSM: NDArray[np.int64]) -> pl.DataFrame:
    """The frame of actions whose positions on their ranks are these."""
    kind, stage, micro_batch = (each.ravel().astype(np.int32) for each in np.indices(place_KSM.shape))
    rank = np.array(schedule.rank_of[0], np.int32)[stage]
    order = np.lexsort((place_KSM.ravel(), rank))
    return pl.DataFrame(
        {
            "rank": rank[order],
            "kind": kinds_of(kind[order].astype(np.uint32), ("F", "I", "W")),
            "stage": stage[order],
            "micro_batch": micro_batch[order],
        }
    )
