"""A schedule with its costs as a `weftrace.plan.Plan`: actions on streams, messages and copies beside them.

What runs on a rank: its actions, in order, on stream `COMPUTE`; where size matters or messages block, what it sends,
on streams from `LINKS` on, one a rank that it sends to (where they block, each message on one that is free, and what it
receives too); copies of offloaded activations on `TO_HOST` and `FROM_HOST`. Messages that only take their time on the
way are lags.

Legend: N actions, S stages, E messages, C offloaded chunks.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs, code_of, durations_ns, kind_codes, of_stages
from weftrace.pipeline.dependencies import chunk_rows, messages
from weftrace.pipeline.range_names import chunk_name
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule, need_schedule
from weftrace.plan import Plan
from weftrace.plan.ops import OP_DEFAULTS, WAIT_DEFAULTS

COMPUTE: Final = 7
TO_HOST, FROM_HOST = 31, 32
LINKS: Final = 100

_F, _B, _I, _W, _FB = (code_of(kind) for kind in ("F", "B", "I", "W", "F&B"))
_KINDS: tuple[str, ...] = tuple(ACTION_SCHEMA["kind"].categories)  # type: ignore[attr-defined]
_Rows = NDArray[Any]  # row numbers, of any integers


class _Messages(NamedTuple):
    """What passes between two ranks: action `op` needs what action `on` makes, [E] each, as rows."""

    op: _Rows
    on: _Rows
    is_gradient: NDArray[np.bool_]


class _Copies(NamedTuple):
    """Offloaded chunks, [C] each, as rows of actions: the forward and the backward of each, and its stage."""

    forward: _Rows
    backward: _Rows
    stage: NDArray[np.int32]


def plan_of(schedule: Schedule, costs: Costs) -> Plan:
    """The plan of a schedule. Row i of its ops is action i of the schedule; messages and copies come after.

    An action's memory is taken at its start where it has a forward, and freed at its end (see `Costs`; where there is
    no backward at all, a forward frees its own); parameters are no part of it. An offloaded chunk's is freed once its
    copy to the host has ended, and taken when its copy back begins. That copy is begun so that it ends just before the
    backward if the rank computes without a pause from then on, and where several are on their way, so that all are in
    time; so it is late only where it would have to begin before its chunk has gone.

    Raises `ScheduleError` where costs are of another pipeline, and as `check` does where an action needs what no other
    makes; an order that cannot run is the engine's to find.
    """
    need_schedule(schedule)
    if not isinstance(costs, Costs):
        raise ScheduleError(f"Costs are wanted here, not a {type(costs).__name__}.")
    times_ns = durations_ns(schedule, costs)
    start_bytes, end_bytes = memory_changes(
        schedule, of_stages(costs, "activation_bytes", schedule.num_stages),
        of_stages(costs, "pending_bytes", schedule.num_stages),
    )  # fmt: skip
    copies = _copies(schedule)
    num_actions, num_copies = len(schedule), len(copies.forward)
    ops = pl.DataFrame(
        {
            "name": _named(_KINDS, kind_codes(schedule)),
            "phase": _phases(schedule),
            "rank": schedule.actions.get_column("rank"),
            "duration_ns": times_ns,
            "micro_batch": schedule.actions.get_column("micro_batch"),
            "start_bytes": start_bytes[:num_actions],
            "end_bytes": end_bytes[:num_actions],
        }
    ).with_columns(stream=pl.lit(COMPUTE, pl.Int32))
    ops, waits = _with_messages(schedule, costs, ops, _messages(schedule))
    if num_copies:
        changes = (start_bytes[num_actions:], end_bytes[num_actions:])
        ops, waits = _with_copies(schedule, costs, ops, waits, copies, times_ns, changes)
    return Plan(name=schedule.name, source=costs.source, notes=schedule.notes, ops=ops, waits=waits)


def memory_changes(
    schedule: Schedule, activation_S: NDArray[np.int64], pending_S: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What each op takes at its start and at its end (negative: frees), int64 [N + 2 C]: actions, then copies.

    activation_S: what a forward of a stage takes. pending_S: the part of it that is held from I to W.
    """
    actions, code = schedule.actions, kind_codes(schedule)
    stage = actions.get_column("stage").to_numpy()
    none = np.zeros_like(activation_S)
    start_KS, end_KS = np.stack([none] * len(_KINDS)), np.stack([none] * len(_KINDS))
    start_KS[[_F, _FB]] = activation_S
    if (code == _F).all():  # forward only: nothing waits for a backward
        end_KS[_F] = -activation_S
    end_KS[_B], end_KS[_I], end_KS[_W] = -activation_S, pending_S - activation_S, -pending_S
    start, end = start_KS[code, stage], end_KS[code, stage]
    if len(pairs := np.flatnonzero(code == _FB)):
        end[pairs] = -activation_S[actions.get_column("back_stage").gather(pairs).to_numpy()]
    if not actions.get_column("offload").any():
        return start, end
    copied = activation_S[_copies(schedule).stage]
    return np.concatenate([start, 0 * copied, copied]), np.concatenate([end, -copied, 0 * copied])


def _phases(schedule: Schedule) -> pl.Series:
    """What the ranges of a real run are called: stage3(F); those of an F&B, stage0(F)&stage7(B)."""
    num_stages, code = schedule.num_stages, kind_codes(schedule)
    names = [chunk_name(stage, kind) for kind in _KINDS for stage in range(num_stages)]
    phase = code.astype(np.int64) * num_stages + schedule.actions.get_column("stage").to_numpy()
    if len(pairs := np.flatnonzero(code == _FB)):
        stage, back = (schedule.actions.get_column(name).gather(pairs).to_numpy() for name in ("stage", "back_stage"))
        used, which = np.unique(np.stack([stage, back]), axis=1, return_inverse=True)
        phase[pairs] = len(names) + which.reshape(-1)
        names += [f"{chunk_name(forward, 'F')}&{chunk_name(backward, 'B')}" for forward, backward in used.T.tolist()]
    return _named(tuple(names), phase)


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(schedule: Schedule) -> _Messages:
    """Those between two ranks. Within one, its order is enough; where that is wrong, the wait stays and tells so."""
    found = messages(schedule)
    _check_complete(schedule, len(found))
    op, on = (found.get_column(name).to_numpy() for name in ("op", "on"))
    is_gradient = found.get_column("is_gradient").to_numpy()
    rank = schedule.actions.get_column("rank").to_numpy()
    passes = (rank[op] != rank[on]) | (on > op)
    if not passes.all():
        op, on, is_gradient = op[passes], on[passes], is_gradient[passes]
    return _Messages(op, on, is_gradient)


def _inside_ns(
    schedule: Schedule, costs: Costs, sent: _Messages, times_ns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each message, how long after its start its maker has it, and how long after its start its reader reads it."""
    code, half = kind_codes(schedule), sent.is_gradient.astype(np.intp)
    ready_ns, needed_ns = times_ns[sent.on], np.zeros(len(sent.op), np.int64)
    for of, part, into in ((sent.on, costs.output_ready, ready_ns), (sent.op, costs.input_needed, needed_ns)):
        pairs = np.flatnonzero(code[of] == _FB)
        into[pairs] = np.rint(np.array(part)[half[pairs]] * times_ns[of[pairs]])
    return ready_ns, needed_ns


def _check_complete(schedule: Schedule, num_messages: int) -> None:
    """Every forward but those of the first stage, and every backward but those of the last, needs one message."""
    code = kind_codes(schedule)
    stage = schedule.actions.get_column("stage").to_numpy()
    back = np.where(code == _FB, schedule.actions.get_column("back_stage").fill_null(0).to_numpy(), stage)
    needs = np.sum(((code == _F) | (code == _FB)) & (stage > 0))
    needs += np.sum(((code == _B) | (code == _I) | (code == _FB)) & (back < schedule.num_stages - 1))
    if needs != num_messages:
        check(schedule)
        raise AssertionError((schedule.name, needs, num_messages))


def _with_messages(
    schedule: Schedule, costs: Costs, ops: pl.DataFrame, sent: _Messages
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The actions with what they wait for, and with the messages as ops where they take time of a link or a rank."""
    if costs.blocking:
        return _with_blocking(schedule, costs, ops, sent)
    times_ns = ops.get_column("duration_ns").to_numpy()
    if costs.bytes_per_s is None:
        return ops, _waits_for_lags(schedule, costs, sent, times_ns)
    ready_ns, _ = _inside_ns(schedule, costs, sent, times_ns)
    sent = _ordered(
        sent, np.lexsort((sent.is_gradient, ready_ns, sent.on))
    )  # as a link passes them on: as they are made
    ready_ns, needed_ns = _inside_ns(schedule, costs, sent, times_ns)
    row = len(ops) + np.arange(len(sent.op))
    rank = schedule.actions.get_column("rank").to_numpy()
    sends = _transfers(schedule, sent, "send", rank[sent.on], LINKS + rank[sent.op], _link_ns(schedule, costs, sent))
    waits = [_departures(row, sent.on, ready_ns, times_ns), _wait_frame(sent.op, row, costs.latency_ns - needed_ns)]
    return _stacked(ops, sends), pl.concat(waits)


def _with_blocking(
    schedule: Schedule, costs: Costs, ops: pl.DataFrame, sent: _Messages
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A send and a receive for each message, between two actions of each rank, which wait for them."""
    rank = schedule.actions.get_column("rank").to_numpy()
    received = _ordered(sent, by_reader := np.argsort(sent.op, kind="stable"))
    row = np.empty(len(by_reader), np.int64)
    sent = _ordered(sent, by_maker := np.argsort(sent.on, kind="stable"))
    row[by_maker] = len(ops) + np.arange(len(row))
    send_row, receive_row = row[by_reader], len(ops) + len(row) + np.arange(len(row))  # of each message received
    parts = []
    for i, each, here, there in ((0, sent, sent.on, sent.op), (1, received, received.op, received.on)):
        what, stream = ("send", "receive")[i], LINKS + 4 * rank[there] + 2 * i + each.is_gradient  # all at once
        parts.append(
            _transfers(schedule, each, what, rank[here], stream, _link_ns(schedule, costs, each) + costs.latency_ns)
        )
    before, after = np.maximum(received.op, 1) - 1, np.minimum(received.on + 1, len(rank) - 1)
    has_before = (before < received.op) & (rank[before] == rank[received.op])
    has_after = (after > received.on) & (rank[after] == rank[received.on])
    waits = [
        _wait_frame(send_row, received.on),
        _wait_frame(after[has_after], send_row[has_after]),
        _wait_frame(receive_row, send_row, since="start"),
        _wait_frame(receive_row[has_before], before[has_before]),
        _wait_frame(received.op, receive_row),
    ]
    return _stacked(ops, *parts), pl.concat(waits)


def _ordered(sent: _Messages, order: NDArray[np.intp]) -> _Messages:
    return _Messages(sent.op[order], sent.on[order], sent.is_gradient[order])


def _transfers(
    schedule: Schedule, sent: _Messages, what: str, rank: NDArray[np.int32], stream: NDArray[np.int32],
    duration_ns: NDArray[np.int64],
) -> pl.DataFrame:  # fmt: skip
    """Ops of messages, on this stream of this rank."""
    return pl.DataFrame(
        {
            "name": _named((f"{what}(F)", f"{what}(B)"), sent.is_gradient),
            "kind": _all("communication", len(rank)),
            "rank": rank,
            "stream": stream,
            "duration_ns": duration_ns,
            "micro_batch": _part_of(schedule, "micro_batch", sent.on, sent.is_gradient),
        }
    )


def _waits_for_lags(schedule: Schedule, costs: Costs, sent: _Messages, times_ns: NDArray[np.int64]) -> pl.DataFrame:
    """Waits of readers on makers, where all messages pass beside each other."""
    if (costs.input_needed, costs.output_ready) == ((0, 0), (1, 1)):  # constant columns take no memory
        frame = pl.DataFrame({"op": sent.op, "on": sent.on})
        return frame.with_columns(lag_ns=pl.lit(costs.latency_ns, pl.Int64))
    ready_ns, needed_ns = _inside_ns(schedule, costs, sent, times_ns)
    departures = _departures(sent.op, sent.on, ready_ns, times_ns)
    return departures.with_columns(pl.col("lag_ns") + pl.Series(costs.latency_ns - needed_ns))


def _departures(row: _Rows, on: _Rows, ready_ns: NDArray[np.int64], times_ns: NDArray[np.int64]) -> pl.DataFrame:
    """Waits for outputs: for the end of the action that makes it, or for so much after its start."""
    is_early = ready_ns < times_ns[on]
    frame = _wait_frame(row, on, np.where(is_early, ready_ns, 0))
    return frame.with_columns(since=_named(("end", "start"), is_early))


def _link_ns(schedule: Schedule, costs: Costs, sent: _Messages) -> NDArray[np.int64]:
    """How long each message holds its link: its bytes by the rate. A gradient is as large as its activation."""
    if costs.bytes_per_s is None:
        return np.zeros(len(sent.op), np.int64)
    size_S = of_stages(costs, "message_bytes", schedule.num_stages)
    needs = np.where(sent.is_gradient, sent.op, sent.on)  # the action on the lower of both stages
    stage = _part_of(schedule, "stage", needs, sent.is_gradient)
    return np.rint(size_S[stage] / costs.bytes_per_s * 1e9).astype(np.int64)


def _part_of(schedule: Schedule, name: str, rows: _Rows, of_backward: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Stage or micro-batch of actions: of an F&B, its forward's or its backward's."""
    found = schedule.actions.select(name, back=f"back_{name}")[rows]
    both = pl.Series("of_backward", of_backward)
    back = pl.when(both).then(pl.coalesce("back", name)).otherwise(name)
    part: NDArray[np.int32] = found.select(back).to_series().to_numpy()
    return part


# --- offloaded activations --------------------------------------------------------------------------------------------


def _copies(schedule: Schedule) -> _Copies:
    """Offloaded chunks that a backward needs again, in the order of the rows of their forwards."""
    gone = schedule.actions.select("stage", "micro_batch", row=pl.int_range(pl.len()), offload="offload").filter(
        "offload"
    )
    stage, micro_batch, row = (gone.get_column(name).to_numpy() for name in ("stage", "micro_batch", "row"))
    if not len(gone):
        return _Copies(row, row, stage)
    backward = chunk_rows(schedule, "I")[0][stage, micro_batch]
    needed = backward >= 0
    return _Copies(row[needed], backward[needed], stage[needed])


def _with_copies(
    schedule: Schedule, costs: Costs, ops: pl.DataFrame, waits: pl.DataFrame, copies: _Copies,
    times_ns: NDArray[np.int64], changes: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """With a copy to the host after each offloaded forward, and one back before its backward.

    changes: what copies take at their start and end, those to the host first.
    """
    if costs.offload_bytes_per_s is None:
        raise ScheduleError(
            f"schedule {schedule.name!r} offloads activations: costs need offload_bytes_per_s, the rate of the copies."
        )
    num = len(copies.forward)
    size = of_stages(costs, "activation_bytes", schedule.num_stages)[copies.stage]
    copy_ns = np.rint(size / costs.offload_bytes_per_s * 1e9).astype(np.int64)
    rank = schedule.actions.get_column("rank").to_numpy()
    micro_batch = schedule.actions.get_column("micro_batch").to_numpy()
    back = np.argsort(copies.backward, kind="stable")  # copied back in the order in which they are needed
    there_row = len(ops) + np.arange(num)
    back_row = np.empty(num, np.int64)
    back_row[back] = len(ops) + num + np.arange(num)
    both = pl.DataFrame(
        {
            "name": _named(("offload(F)", "reload(B)"), np.repeat([0, 1], num)),
            "kind": _all("memory", 2 * num),
            "rank": np.tile(rank[copies.forward], 2),
            "stream": np.repeat(np.array([TO_HOST, FROM_HOST], np.int32), num),
            "duration_ns": np.tile(copy_ns, 2),
            "micro_batch": np.tile(micro_batch[copies.forward], 2),
            "start_bytes": changes[0],
            "end_bytes": changes[1],
        }
    )
    both = pl.concat([both[:num], both[num:][back]])
    after, lag_ns = _begun_after(rank, times_ns, copies.backward[back], copy_ns[back])
    begun = after >= 0
    more = [
        _wait_frame(there_row, copies.forward),
        _wait_frame(back_row, there_row),
        _wait_frame(back_row[back][begun], after[begun], lag_ns[begun], since="start"),
        _wait_frame(copies.backward, back_row),
    ]
    return _stacked(ops, both), _stacked(waits, *more)


def _begun_after(
    rank: NDArray[np.int32], times_ns: NDArray[np.int64], backward: _Rows, copy_ns: NDArray[np.int64]
) -> tuple[_Rows, NDArray[np.int64]]:
    """For each copy back: the action that it begins beside, as a row, and how long after that action's start.

    On a clock that counts only the time that a rank computes, action i begins at clock[i]. A copy has to have begun by
    (the earlier of its backward's time and of the time by which the next copy has to have begun) - its own time. The
    action is the last of the rank that begins until then; -1 where there is none. backward: ascending.
    """
    clock = np.cumsum(times_ns) - times_ns
    after, lag_ns = np.full(len(backward), -1, np.int64), np.zeros(len(backward), np.int64)
    firsts = np.flatnonzero(np.diff(rank[backward], prepend=-1))
    for first, end in zip(firsts, [*firsts[1:], len(backward)], strict=True):
        own = slice(first, end)
        rows = slice(*np.searchsorted(rank, [rank[backward[first]], rank[backward[first]] + 1]))
        left = np.cumsum(copy_ns[own][::-1])[::-1]  # this copy and all that follow it
        by = clock[backward[own]] - copy_ns[own] + left
        by = np.minimum.accumulate(by[::-1])[::-1] - left
        at = np.searchsorted(clock[rows], by, side="right") - 1
        after[own] = np.where(at >= 0, rows.start + at, -1)
        lag_ns[own] = np.where(at >= 0, by - clock[rows][at], 0)
    return after, lag_ns


# --- frames -----------------------------------------------------------------------------------------------------------


def _named(names: tuple[str, ...], code: NDArray[Any]) -> pl.Series:
    """A column of a few names, by their positions."""
    return pl.Series(names, dtype=pl.Categorical()).gather(pl.Series(code.astype(np.uint32)))


def _all(name: str, length: int) -> pl.Series:
    return _named((name,), np.zeros(length, np.uint32))


def _wait_frame(op: _Rows, on: _Rows, lag_ns: NDArray[np.int64] | int = 0, since: str = "end") -> pl.DataFrame:
    frame = pl.DataFrame({"op": op.astype(np.uint32), "on": on.astype(np.uint32), "since": _all(since, len(op))})
    return frame.with_columns(lag_ns=pl.lit(lag_ns, pl.Int64) if isinstance(lag_ns, int) else pl.Series(lag_ns))


def _stacked(*frames: pl.DataFrame) -> pl.DataFrame:
    """Frames below each other; a column that one lacks holds its default there."""
    defaults = OP_DEFAULTS | WAIT_DEFAULTS
    names = {name: dtype for frame in frames for name, dtype in frame.schema.items()}
    filled = [
        frame.with_columns(
            pl.lit(defaults.get(name), dtype).alias(name) for name, dtype in names.items() if name not in frame.columns
        ).select(*names)
        for frame in frames
    ]
    return pl.concat(filled)
