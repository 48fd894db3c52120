"""A schedule as tokens, and back.

All micro-batches of a pipeline cost the same, so a stage may take them in one order: give the k-th of its forwards, and
of its backwards, the k-th micro-batch. Then the k-th input is there when the k-th is needed, no later than before; so
for every schedule there is one of this kind that is as fast and holds as much. What is left to search is which stage,
and which kind of work, comes when on a rank: a row of tokens per rank, whose numbers are in `loops`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.costs import Costs, of_stages, transfer_ns
from weftrace.pipeline.dependencies import chunk_rows
from weftrace.pipeline.schedule import ACTION_SCHEMA, KINDS, Schedule, code_of
from weftrace.pipeline.search.loops import State, Tables

_F, _B, _I, _W, _FB = (code_of(kind) for kind in ("F", "B", "I", "W", "F&B"))


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that a rank has limited room for: what a chunk takes by stage from F on, what of it from I to W, and
    the room of each rank."""

    size_S: NDArray[np.int64]
    pending_S: NDArray[np.int64]
    room_R: NDArray[np.int64]


class Times(NamedTuple):
    """How long each kind of work takes, by stage, in the order of the tokens; of F&B by the forward's stage and the
    backward's."""

    forward_S: NDArray[np.int64]
    backward_S: NDArray[np.int64]
    input_S: NDArray[np.int64]
    weight_S: NDArray[np.int64]
    pair_SS: NDArray[np.int64]

    def at(self, stages: NDArray[np.int64]) -> Times:
        """Those of some of the stages."""
        forward_S, backward_S, input_S, weight_S = (time_S[stages] for time_S in self[:4])
        return Times(forward_S, backward_S, input_S, weight_S, self.pair_SS[stages[:, None], stages])


def times_of(costs: Costs, num_stages: int) -> Times:
    """The times of costs of so many stages."""
    names = ("forward_ns", "backward_ns", "input_ns", "weight_ns")
    forward_S, backward_S, input_S, weight_S = (of_stages(costs, name, num_stages) for name in names)
    pair: Any = np.add.outer(forward_S, backward_S) if costs.overlapped_ns is None else costs.overlapped_ns
    pair_SS = np.broadcast_to(np.array(pair, np.int64), (num_stages, num_stages))
    return Times(forward_S, backward_S, input_S, weight_S, pair_SS)


def state_of(schedule: Schedule) -> State:
    """The order of a schedule without slices or offloaded chunks as tokens."""
    rank, kind = schedule.rank_N, schedule.kind_N
    place_RS = _places(schedule)
    V = int(place_RS.max()) + 1
    back_stage = schedule.actions["back_stage"].fill_null(0).to_numpy()
    place, back = place_RS[rank, schedule.stage_N], place_RS[rank, back_stage]
    by_kind = np.zeros(len(KINDS), np.int64)
    by_kind[[_F, _B, _I, _W]] = np.arange(4) * V
    token = np.where(kind == _FB, 4 * V + V * place + back, by_kind[kind] + place)
    R = schedule.num_ranks
    length_R = np.bincount(rank, minlength=R)
    stages, many = schedule.num_replicas * schedule.num_stages, schedule.num_micro_batches
    order_RN = np.zeros((R, 3 * many * V + 1), np.int16)
    order_RN[rank, np.arange(len(rank)) - np.searchsorted(rank, rank)] = token
    return State(
        order_RN=order_RN,
        length_R=length_R,
        out_HGM=np.zeros((2, stages, many), np.int64),
        at_HGM=np.zeros((2, stages, many), np.int64),
        cause_RN=np.zeros(order_RN.shape, np.int64),
        done_HG=np.zeros((2, stages), np.int64),
        **{name: np.zeros(R, np.int64) for name in ("head_R", "free_R", "left_R", "waits_R", "awake_R")},
        path_P=np.zeros(order_RN.size, np.int64),
        last_0=np.zeros(2, np.int64),
        ahead_V=np.zeros(V, np.int64),
        pending_V=np.zeros(V, np.int64),
        held_C=np.zeros(2, np.int64),
    )


def tables_of(schedule: Schedule, times: Times, costs: Costs, memories: Sequence[Memory]) -> Tables:
    """What the loops need of a schedule's placement and of costs. times: of its stages. costs: for what else they say;
    messages' sizes count as if each had its link for itself."""
    replica_RS, place_RS = schedule.replica_of_rank_stage, _places(schedule)
    R, S, V = schedule.num_ranks, schedule.num_stages, int(place_RS.max()) + 1
    home_G = np.array(schedule.rank_of).reshape(-1)
    stage_RV = np.full((R, V), -1)
    ranks, stages = np.nonzero(place_RS >= 0)
    stage_RV[ranks, place_RS[ranks, stages]] = replica_RS[ranks, stages] * S + stages
    G = np.arange(len(home_G))
    before_G, after_G = np.where(G % S > 0, G - 1, -1), np.where(G % S < S - 1, G + 1, -1)
    lag_ns = costs.latency_ns + transfer_ns(of_stages(costs, "message_bytes", S), costs, "bytes_per_s")
    lag_G = np.where((before_G >= 0) & (home_G != home_G[before_G]), np.tile(np.roll(lag_ns, 1), len(home_G) // S), 0)
    duration_RT = _durations(times, stage_RV, np.broadcast_to(np.array(costs.rank_factor, np.float64), R))
    is_pair_T = np.arange(duration_RT.shape[1]) >= 4 * V
    reads_HRT, makes_HRT = (
        np.stack([np.where(is_pair_T, np.rint(part * duration_RT), other).astype(np.int64) for part in parts])
        for parts, other in ((costs.input_needed, 0), (costs.output_ready, duration_RT))
    )
    replicas = schedule.num_replicas
    return Tables(
        duration_RT=duration_RT, reads_HRT=reads_HRT, makes_HRT=makes_HRT, home_G=home_G, stage_RV=stage_RV,
        before_G=before_G, after_G=after_G, lag_G=lag_G, tail_HG=np.zeros((2, len(home_G)), np.int64),
        size_CG=np.tile(np.array([each.size_S for each in memories]).reshape(-1, S), replicas),
        pending_CG=np.tile(np.array([each.pending_S for each in memories]).reshape(-1, S), replicas),
        room_CR=np.array([each.room_R for each in memories], np.int64).reshape(-1, R),
    )  # fmt: skip


def schedule_of(schedule: Schedule, state: State, name: str) -> Schedule:
    """An order of tokens as a schedule on the ranks of the one that it came from."""
    place_RS, replica_RS = _places(schedule), schedule.replica_of_rank_stage
    V = int(place_RS.max()) + 1
    numbers = _micro_batches(schedule)
    rows: list[tuple[int, str, int, int, int | None, int | None]] = []
    for rank in range(schedule.num_ranks):
        stage_of = {int(place_RS[rank, stage]): int(stage) for stage in np.flatnonzero(place_RS[rank] >= 0)}
        forward, backward, pending = ({place: deque[int]() for place in stage_of} for _ in range(3))
        for place, stage in stage_of.items():
            forward[place] += numbers[replica_RS[rank, stage]]
            backward[place] += numbers[replica_RS[rank, stage]]
        for token in state.order_RN[rank, : state.length_R[rank]].tolist():
            if token >= 4 * V:
                f, b = divmod(token - 4 * V, V)
                halves = stage_of[f], forward[f].popleft(), stage_of[b], backward[b].popleft()
                rows.append((rank, "F&B", *halves))
                continue
            kind, place = "FBIW"[token // V], token % V
            taken = (forward, backward, backward, pending)[token // V][place].popleft()
            if kind == "I":
                pending[place].append(taken)
            rows.append((rank, kind, stage_of[place], taken, None, None))
    names = ("rank", "kind", "stage", "micro_batch", "back_stage", "back_micro_batch")
    schema = {name: ACTION_SCHEMA[name] for name in names}
    return schedule.with_actions(pl.DataFrame(rows, schema=schema, orient="row"), name=name)


def _places(schedule: Schedule) -> NDArray[np.int64]:
    """Which place on its rank a stage has, [ranks, stages]; -1 where it is not there."""
    there = schedule.replica_of_rank_stage >= 0
    return np.where(there, np.cumsum(there, axis=1) - 1, -1)


def _micro_batches(schedule: Schedule) -> list[list[int]]:
    """Of each replica, as its first stage takes them."""
    row = chunk_rows(schedule, "F")[0][0]
    replica = schedule.replica_of_rank_stage[schedule.rank_N[row], 0]
    order = np.argsort(row)
    return [[int(each) for each in order if replica[each] == of] for of in range(schedule.num_replicas)]


def _durations(times: Times, stage_RV: NDArray[np.int64], factor_R: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of each token on each rank, as `durations_ns` has them; 0 where the rank has no such stage."""
    there_RV, stage = stage_RV >= 0, stage_RV % len(times.forward_S)
    alone = [np.where(there_RV, time_S[stage], 0) for time_S in times[:4]]
    pairs = times.pair_SS[stage[:, :, None], stage[:, None, :]] * (there_RV[:, :, None] & there_RV[:, None, :])
    both = np.concatenate([*alone, pairs.reshape(len(stage_RV), -1)], axis=1)
    return np.rint(both * factor_R[:, None]).astype(np.int64)


def tails_of(t: Tables) -> NDArray[np.int64]:
    """`Tables.tail_HG`: the least time from the start of a half of a stage to the end of the step, [halves, stages]."""
    V = t.stage_RV.shape[1]
    token = np.arange(t.duration_RT.shape[1])
    pair_f, pair_b = np.divmod(token - 4 * V, V)
    tail_HG = np.zeros((2, len(t.home_G)), np.int64)
    place_G = np.zeros(len(t.home_G), np.int64)
    for rank, place in np.argwhere(t.stage_RV >= 0):
        place_G[t.stage_RV[rank, place]] = place
    for half, order in ((1, range(len(t.home_G))), (0, reversed(range(len(t.home_G))))):
        for g in order:
            alone = token == place_G[g] if half == 0 else (token >= V) & (token < 3 * V) & (token % V == place_G[g])
            has = alone | ((token >= 4 * V) & ((pair_b if half else pair_f) == place_G[g]))
            rank = t.home_G[g]
            least = t.makes_HRT[half, rank, has].min()
            near = t.before_G[g] if half else t.after_G[g]
            if near < 0:
                tail_HG[half, g] = least + (0 if half else tail_HG[1, g])
                continue
            lag = t.lag_G[g] if half else t.lag_G[near]
            tail_HG[half, g] = least + lag - t.reads_HRT[half, t.home_G[near]].max() + tail_HG[half, near]
    return tail_HG
