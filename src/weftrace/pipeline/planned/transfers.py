"""Messages between ranks: what an action waits for, and the ops on links that bring it.

Legend: N actions, S stages, E messages.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.costs import Costs, of_stages, transfer_ns
from weftrace.pipeline.dependencies import Messages, messages, messages_between_ranks
from weftrace.pipeline.planned.frames import Rows, all_of, named, stacked, wait_frame
from weftrace.pipeline.planned.streams import link
from weftrace.pipeline.schedule import Schedule, code_of
from weftrace.plan import Timetable

_FB = code_of("F&B")


def arrivals(schedule: Schedule, costs: Costs, times: Timetable) -> pl.DataFrame:
    """`messages(schedule)` with `arrived_ns`: from when on its reader may start as far as the message is concerned.

    times: of `plan_of(schedule, costs)`. Within a rank, the end of the action that makes it.
    """
    sent = messages_between_ranks(schedule)
    num, start, end = len(schedule), times.start_ns, times.end_ns
    times_ns = end[:num] - start[:num]
    ready_ns, needed_ns = _inside_ns(schedule, costs, sent, times_ns)
    if costs.blocking:
        order = np.argsort(sent.op, kind="stable")
        arrived = np.empty(len(order), np.int64)
        arrived[order] = end[num + len(order) : num + 2 * len(order)]
    elif costs.bytes_per_s is not None:
        order = _as_made(sent, ready_ns)
        arrived = np.empty(len(order), np.int64)
        arrived[order] = end[num : num + len(order)]
        arrived += costs.latency_ns - needed_ns
    else:
        arrived = start[sent.on] + ready_ns + costs.latency_ns - needed_ns
    found = messages(schedule)
    whole: NDArray[np.int64] = end[found.get_column("on").to_numpy()]
    whole[sent.place] = arrived
    return found.with_columns(arrived_ns=whole)


def _as_made(sent: Messages, ready_ns: NDArray[np.int64]) -> NDArray[np.intp]:
    """The order in which links take them: by maker, then by when it has them."""
    return np.lexsort((sent.is_gradient, ready_ns, sent.on))


def _inside_ns(
    schedule: Schedule, costs: Costs, sent: Messages, times_ns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each message, how long after its start its maker has it, and how long after its start its reader reads it."""
    code, half = schedule.kind_N, sent.is_gradient.astype(np.intp)
    ready_ns, needed_ns = times_ns[sent.on], np.zeros(len(sent.op), np.int64)
    for of, part, into in ((sent.on, costs.output_ready, ready_ns), (sent.op, costs.input_needed, needed_ns)):
        pairs = np.flatnonzero(code[of] == _FB)
        into[pairs] = np.rint(np.array(part)[half[pairs]] * times_ns[of[pairs]])
    return ready_ns, needed_ns


def with_messages(
    schedule: Schedule, costs: Costs, ops: pl.DataFrame, sent: Messages
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The actions with what they wait for, and with the messages as ops where they take time of a link or a rank."""
    if costs.blocking:
        return _with_blocking(schedule, costs, ops, sent)
    times_ns = ops.get_column("duration_ns").to_numpy()
    if costs.bytes_per_s is None:
        return ops, _waits_for_lags(schedule, costs, sent, times_ns)
    ready_ns, _ = _inside_ns(schedule, costs, sent, times_ns)
    sent = _ordered(sent, _as_made(sent, ready_ns))
    ready_ns, needed_ns = _inside_ns(schedule, costs, sent, times_ns)
    row = len(ops) + np.arange(len(sent.op))
    rank = schedule.rank_N
    stream = link(rank[sent.op], receives=False)
    sends = _transfers(schedule, sent, "send", rank[sent.on], stream, _link_ns(schedule, costs, sent))
    waits = [_departures(row, sent.on, ready_ns, times_ns), wait_frame(sent.op, row, costs.latency_ns - needed_ns)]
    return stacked(ops, sends), pl.concat(waits)


def _with_blocking(
    schedule: Schedule, costs: Costs, ops: pl.DataFrame, sent: Messages
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A send and a receive for each message, between two actions of each rank, which wait for them."""
    rank = schedule.rank_N
    received = _ordered(sent, by_reader := np.argsort(sent.op, kind="stable"))
    row = np.empty(len(by_reader), np.int64)
    sent = _ordered(sent, by_maker := np.argsort(sent.on, kind="stable"))
    row[by_maker] = len(ops) + np.arange(len(row))
    send_row, receive_row = row[by_reader], len(ops) + len(row) + np.arange(len(row))  # of each message received
    parts = []
    for what, each, here, there in (("send", sent, sent.on, sent.op), ("receive", received, received.op, received.on)):
        stream = link(rank[there], receives=what == "receive", apart=each.is_gradient)  # all pass at once
        took_ns = _link_ns(schedule, costs, each) + costs.latency_ns
        parts.append(_transfers(schedule, each, what, rank[here], stream, took_ns))
    before, after = np.maximum(received.op, 1) - 1, np.minimum(received.on + 1, len(rank) - 1)
    has_before = (before < received.op) & (rank[before] == rank[received.op])
    has_after = (after > received.on) & (rank[after] == rank[received.on])
    waits = [
        wait_frame(send_row, received.on),
        wait_frame(after[has_after], send_row[has_after]),
        wait_frame(receive_row, send_row, since="start"),
        wait_frame(receive_row[has_before], before[has_before]),
        wait_frame(received.op, receive_row),
    ]
    return stacked(ops, *parts), pl.concat(waits)


def _ordered(sent: Messages, order: NDArray[np.intp]) -> Messages:
    return Messages(sent.op[order], sent.on[order], sent.is_gradient[order], sent.place[order])


def _transfers(
    schedule: Schedule, sent: Messages, what: str, rank: NDArray[np.int32], stream: NDArray[np.int32],
    duration_ns: NDArray[np.int64],
) -> pl.DataFrame:  # fmt: skip
    """Ops of messages, on this stream of this rank."""
    return pl.DataFrame(
        {
            "name": named((f"{what}(F)", f"{what}(B)"), sent.is_gradient),
            "kind": all_of("communication", len(rank)),
            "rank": rank,
            "stream": stream,
            "duration_ns": duration_ns,
            "micro_batch": _part_of(schedule, "micro_batch", sent.on, sent.is_gradient),
        }
    )


def _waits_for_lags(schedule: Schedule, costs: Costs, sent: Messages, times_ns: NDArray[np.int64]) -> pl.DataFrame:
    """Waits of readers on makers, where all messages pass beside each other."""
    if (costs.input_needed, costs.output_ready) == ((0, 0), (1, 1)):  # constant columns take no memory
        frame = pl.DataFrame({"op": sent.op, "on": sent.on})
        return frame.with_columns(lag_ns=pl.lit(costs.latency_ns, pl.Int64))
    ready_ns, needed_ns = _inside_ns(schedule, costs, sent, times_ns)
    departures = _departures(sent.op, sent.on, ready_ns, times_ns)
    return departures.with_columns(pl.col("lag_ns") + pl.Series(costs.latency_ns - needed_ns))


def _departures(row: Rows, on: Rows, ready_ns: NDArray[np.int64], times_ns: NDArray[np.int64]) -> pl.DataFrame:
    """Waits for outputs: for the end of the action that makes it, or for so much after its start."""
    is_early = ready_ns < times_ns[on]
    frame = wait_frame(row, on, np.where(is_early, ready_ns, 0))
    return frame.with_columns(since=named(("end", "start"), is_early))


def _link_ns(schedule: Schedule, costs: Costs, sent: Messages) -> NDArray[np.int64]:
    """How long each message holds its link: its bytes by the rate. A gradient is as large as its activation."""
    size_S = of_stages(costs, "message_bytes", schedule.num_stages)
    needs = np.where(sent.is_gradient, sent.op, sent.on)  # the action on the lower of both stages
    return transfer_ns(size_S[_part_of(schedule, "stage", needs, sent.is_gradient)], costs, "bytes_per_s")


def _part_of(schedule: Schedule, name: str, rows: Rows, of_backward: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Stage or micro-batch of actions: of an F&B, its forward's or its backward's."""
    found = schedule.actions.select(name, back=f"back_{name}")[rows]
    both = pl.Series("of_backward", of_backward)
    back = pl.when(both).then(pl.coalesce("back", name)).otherwise(name)
    part: NDArray[np.int32] = found.select(back).to_series().to_numpy()
    return part
