"""A better order, and a better split of layers, near schedules that are known.

From each start, moves are tried at random (`loops.search`): a token of the path that decides the step goes elsewhere on
its rank, changes place with another, is merged into an F&B or taken apart. Then each swap of two tokens that could help
is tried, and each move of a layer from a stage to another, until none helps. The best starts get more moves, in rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.pipeline.comparing.comparison import chunk_costs
from weftrace.pipeline.costs import Costs, of_stages
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.search.loops import NEVER, Tables, search
from weftrace.pipeline.search.tokens import Memory, schedule_of, state_of, tables_of, tails_of, times_of

#: How many starts are searched in each round, of the fastest.
ROUNDS = (8, 3, 1)
#: Moves at random in a round, over all of its starts, if there is time.
NUM_MOVES = 60_000
_WARM, _COLD, _SOON = 0.03, 0.001, 1.0  # the first two in times of the longest token; see `loops.search`
_SAVES = 2_000  # a layer is moved if that saves one part in so many
_PROBE = 300  # moves by which the speed is measured
_SWAPS = 2_000  # tried at most before the clock is looked at
_AT_RANDOM = 0.6  # of the time of a round, for random moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A schedule to begin with.

    num_parts: stages that a share of the model is cut into. layers: of each stage; empty where all have as many.
    num_layers: of the model; None where layers are not to be moved. held: the most shares of a micro-batch's
    activations that a rank holds.
    """

    name: str
    schedule: Schedule
    num_parts: int
    held: Fraction
    layers: tuple[int, ...] = ()
    num_layers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search came to. start: where it began. layers: of each stage; empty where all have as many. step_ns: as
    the search counts. is_settled: whether no swap of two actions of a rank, and no move of a layer to another stage,
    saves 0.1 %."""

    start: Start
    schedule: Schedule
    layers: tuple[int, ...]
    step_ns: int
    is_settled: bool


def searched(
    starts: Sequence[Start],
    costs: Costs,
    *,
    memory_cap: float | None = None,
    cap_bytes: int | None = None,
    seconds: float | None = None,
    num_moves: int = NUM_MOVES,
    seed: int = 0,
    on_progress: Callable[[float], object] = lambda part: None,
) -> tuple[Found | None, int]:
    """The fastest order that is found near the starts, for steps that end with a barrier, or None where none is faster
    than all starts; and how many moves were tried at random. Costs have no messages that block.

    starts: fastest first. Left out are those that the caps do not allow, those with slices, offloaded chunks or no
    backward. costs: of a share of the model, as in `candidates`. memory_cap, cap_bytes: as in `Recommendation`; without
    both, a rank holds no more than a rank of the start. num_moves: at random, in each round. seconds: about how long at
    most; where that is enough, or None, the result is always the same. on_progress: called with the part that is
    done.
    """
    runs = [run for start in starts if (run := _begun(start, costs, memory_cap, cap_bytes)) is not None]
    if not runs:
        return None, 0
    at_first = min(run.step_ns for run in runs)
    began, total = time.perf_counter(), 0
    for number, most in enumerate(ROUNDS):
        runs = sorted(runs, key=lambda run: run.step_ns)[:most]
        for at, run in enumerate(runs):
            done = (number + at / len(runs)) / len(ROUNDS)
            on_progress(done)
            until = None if seconds is None else began + seconds * (done + 1 / len(runs) / len(ROUNDS))
            is_last = most == ROUNDS[-1]
            total += run.improve(num_moves // len(runs), seed + number, until, settles=is_last)
    best = min(runs, key=lambda run: run.step_ns)
    if best.step_ns >= at_first:
        return None, total
    schedule = schedule_of(best.start.schedule, best.state, f"searched from {best.start.name}")
    if best.layers:
        schedule = replace(schedule, notes=(f"layers by stage: {', '.join(map(str, best.layers))}",))
    found = Found(
        start=best.start, step_ns=best.step_ns, is_settled=best.is_settled, layers=best.layers, schedule=schedule
    )
    return found, total


def _begun(start: Start, costs: Costs, memory_cap: float | None, cap_bytes: int | None) -> _Run | None:
    schedule = start.schedule
    if schedule.num_slices > 1 or schedule.actions["offload"].any() or (schedule.actions["kind"] == "F").all():
        return None
    run = _Run(start, costs, start.held if memory_cap is None and cap_bytes is None else memory_cap, cap_bytes)
    return run if run.step_ns < NEVER else None


class _Run:
    """A start on its way: the best order so far, the layers of each stage, and how long a step takes.

    Values by stage are looked up in `sizes`: costs of stages of one layer, two, and so on where layers can be moved, of
    each stage where not.
    """

    def __init__(self, start: Start, costs: Costs, cap: Fraction | float | None, cap_bytes: int | None) -> None:
        schedule = start.schedule
        self.start, self.cap, self.cap_bytes = start, cap, cap_bytes
        self.state = state_of(schedule)
        self.of_chunk = self.sizes = chunk_costs(costs, schedule, start.layers, start.num_parts)
        S = self.num_sizes = schedule.num_stages
        self.layers_S: NDArray[np.int64] | None = None
        if start.num_layers is not None and not _by_stage(costs):
            self.layers_S = np.array(start.layers or (start.num_layers // S,) * S)
            counts = tuple(range(1, start.num_layers - S + 2))
            parts: Any = len(counts) * start.num_layers * start.num_parts / (S * sum(counts))
            self.sizes, self.num_sizes = chunk_costs(costs, schedule, counts, parts), len(counts)
        self.times = times_of(self.sizes, self.num_sizes)
        self.merges = bool((self.times.pair_SS < np.add.outer(self.times.forward_S, self.times.backward_S)).any())
        self.is_settled = False
        self.speed = 0.0
        self.step_ns = self.time_of(self.layers_S)

    @property
    def layers(self) -> tuple[int, ...]:
        """Of each stage, where they are not all as many."""
        found = () if self.layers_S is None else tuple(self.layers_S.tolist())
        return found if len(set(found)) > 1 else ()

    def tables(self, layers_S: NDArray[np.int64] | None) -> Tables:
        """What the loops need where stages have so many layers."""
        schedule = self.start.schedule
        R, S = schedule.num_ranks, schedule.num_stages
        row_S = np.arange(S) if layers_S is None else layers_S - 1
        memories = []
        pending_S, activation_S, weight_S = (
            of_stages(self.sizes, name, self.num_sizes)[row_S]
            for name in ("pending_bytes", "activation_bytes", "weight_bytes")
        )
        if self.cap is not None:
            size_S = np.ones(S, np.int64) if layers_S is None else layers_S
            share = Fraction(self.start.num_parts) if layers_S is None else Fraction(int(layers_S.sum()), R)
            is_pending = (pending_S > 0) | (self.sizes.pending_bytes is None)
            memories.append(Memory(size_S, size_S * is_pending, np.full(R, int(Fraction(self.cap) * share))))
        if self.cap_bytes is not None:
            room_R = np.full(R, self.cap_bytes)
            for ranks in schedule.rank_of:
                np.subtract.at(room_R, list(ranks), weight_S)
            memories.append(Memory(activation_S, pending_S, room_R))
        return tables_of(schedule, self.times.at(row_S), self.of_chunk, memories)

    def time_of(self, layers_S: NDArray[np.int64] | None) -> int:
        """The step of the order where stages have so many layers; `NEVER` where it does not fit."""
        return self.call(self.tables(layers_S), 0, 0)[0]

    def call(
        self, tables: Tables, num_moves: int, seed: int, num_swaps: int = 0, cursor: Any = None
    ) -> tuple[int, bool]:  # fmt: skip
        """Search from the order, which becomes the best that is found."""
        longest = max(1.0, float(tables.duration_RT.max()))
        order_RN, length_R = self.state.order_RN.copy(), self.state.length_R.copy()
        step_ns, all_tried = search(
            tables, self.state, order_RN, length_R, seed, num_moves, _WARM * longest, _COLD * longest, _SOON,
            self.merges, True, num_swaps, np.zeros(4, np.int64) if cursor is None else cursor,
        )  # fmt: skip
        self.state.order_RN[:], self.state.length_R[:] = order_RN, length_R
        return int(step_ns), bool(all_tried)

    def improve(self, num_moves: int, seed: int, until: float | None, *, settles: bool) -> int:
        """Try so many moves at random, fewer if there is no time; then moves of layers and, where it settles, swaps,
        until none helps or the time has passed. How many random moves were tried."""
        tables = self.tables(self.layers_S)
        tables = tables._replace(tail_HG=tails_of(tables))
        began = time.perf_counter()
        self.call(tables, _PROBE, seed)
        if until is not None:
            now = time.perf_counter()
            num_moves = min(num_moves, max(0, int((until - now) * _AT_RANDOM * _PROBE / max(now - began, 1e-6))))
        self.step_ns, _ = self.call(tables, num_moves, seed)
        self.move_layers(until)
        while settles and not self.is_settled and _in_time(until):
            tables, cursor, all_tried = self.tables(self.layers_S), np.zeros(4, np.int64), False
            tables = tables._replace(tail_HG=tails_of(tables))
            while not all_tried and _in_time(until):
                self.step_ns, all_tried = self.call(tables, 0, 0, _SWAPS, cursor)
            self.is_settled = not self.move_layers(until) and all_tried and _in_time(until)
        return num_moves

    def move_layers(self, until: float | None) -> bool:
        """Make the moves of a layer to another stage that shorten the step, one after the other."""
        moved = False
        if self.layers_S is None:
            return False
        for giver, taker in permutations(range(len(self.layers_S)), 2):
            if not _in_time(until):
                break
            if self.layers_S[giver] == 1:
                continue
            changed_S = self.layers_S.copy()
            changed_S[[giver, taker]] += -1, 1
            took = self.time_of(changed_S)
            if took < self.step_ns - self.step_ns // _SAVES:
                self.layers_S, self.step_ns, moved = changed_S, took, True
        return moved


def _in_time(until: float | None) -> bool:
    return until is None or time.perf_counter() < until


def _by_stage(costs: Costs) -> bool:
    """Whether costs differ by stage, so that nothing says what a layer costs."""
    names = ("forward_ns", "input_ns", "weight_ns", "backward_ns", "overlapped_ns", "activation_bytes", "weight_bytes")
    return any(isinstance(getattr(costs, name), tuple) for name in names)
