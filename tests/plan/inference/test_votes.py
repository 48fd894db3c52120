"""Waits between streams, voted on: runs small enough to vote by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from weftrace.plan.inference.confidence import BY_ELIMINATION
from weftrace.plan.inference.streams import pairs
from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.votes import voted_waits
from weftrace.units import US

COMPUTE, NETWORK, SIDE = 7, 27, 23


def launched(rows: list[tuple[str, int, int, int, int]]) -> Launched:
    """rows: name, stream, launch, start, end, in µs, in order of launch. Launches take no time, streams no gap."""
    names = sorted({name for name, *_ in rows})
    free: dict[int, int] = {}
    ready = []
    for _, stream, launch, _, end in rows:
        ready.append(max(launch, free.get(stream, 0)))
        free[stream] = end
    columns = np.array([row[1:] for row in rows], np.int64)
    nothing = np.zeros(len(rows), np.int64)
    return Launched(
        op=np.arange(len(rows)),
        stream=columns[:, 0],
        at_ns=columns[:, 1] * US,
        start_ns=columns[:, 2] * US,
        end_ns=columns[:, 3] * US,
        ready_ns=np.array(ready) * US,
        thread=nothing,
        name=np.array([names.index(name) for name, *_ in rows]),
        phase=nothing,
        blocks=nothing,
    )


def edges(ops: Launched, calls_us: list[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """(waiter, awaited) -> votes for and against."""
    voted = voted_waits(ops, np.array(calls_us, np.int64) * US)
    counted = voted.counted(ops, voted.waits.get_column("waiter").head(0))
    return {(op, on): (num_for, against) for op, on, num_for, against, *_ in counted.iter_rows()}


def test_the_wait_is_for_the_latest_op_that_never_ends_after_the_waiter_starts() -> None:
    """Layers of: mlp, norm on compute, send on the network after mlp alone. In the first layer norm ends after send has
    started, in the second before: so send does not wait for norm."""
    # compute: |mlp 10-50|norm 50-80|      |mlp 110-150|norm 150-152|
    # network:           |send 52-90|                    |send 154-190|
    ops = launched([
        ("mlp", COMPUTE, 1, 10, 50), ("norm", COMPUTE, 4, 50, 80), ("send", NETWORK, 6, 52, 90),
        ("mlp", COMPUTE, 101, 110, 150), ("norm", COMPUTE, 104, 150, 152), ("send", NETWORK, 106, 154, 190),
    ])  # fmt: skip
    assert edges(ops, [3, 103]) == {(2, 0): (2, 0), (5, 3): (2, 0)}


def test_a_repeat_in_which_the_wait_held_nothing_up_has_the_edge_without_a_vote() -> None:
    """In the second layer the network is busy until long after mlp has ended."""
    ops = launched([
        ("mlp", COMPUTE, 1, 10, 50), ("send", NETWORK, 6, 52, 290),
        ("mlp", COMPUTE, 101, 110, 150), ("send", NETWORK, 106, 290, 300),
    ])  # fmt: skip
    assert edges(ops, [5, 105]) == {(1, 0): (1, 0), (3, 2): (1, 0)}


def test_a_late_repeat_that_the_wait_does_not_explain_votes_against_it() -> None:
    ops = launched([
        ("mlp", COMPUTE, 1, 10, 50), ("send", NETWORK, 6, 52, 60),
        ("mlp", COMPUTE, 101, 110, 150), ("send", NETWORK, 106, 190, 200),
        ("mlp", COMPUTE, 201, 210, 250), ("send", NETWORK, 206, 251, 260),
    ])  # fmt: skip
    assert edges(ops, [5, 105, 205]) == {(1, 0): (2, 1), (3, 2): (2, 1), (5, 4): (2, 1)}


def test_a_call_without_votes_is_placed_where_one_pair_of_streams_is_left() -> None:
    """The network waits for compute (votes); compute waits for the network long after it is done: no vote, and yet of
    the two pairs of streams only compute for network is not ordered already."""
    # compute: |a 10-50|              |b 90-100| |c 150-160|
    # network:          |send 52-60|
    ops = launched([
        ("a", COMPUTE, 1, 10, 50), ("send", NETWORK, 6, 52, 60),
        ("b", COMPUTE, 90, 90, 100), ("c", COMPUTE, 150, 150, 160),
    ])  # fmt: skip
    voted = voted_waits(ops, np.array([5, 149]) * US)
    counted = voted.counted(ops, voted.waits.get_column("waiter").head(0))
    assert counted.select("op", "on", "votes_for").rows() == [(1, 0, 1), (3, 1, 0)]
    assert counted.get_column("confidence").to_list() == [0.5, BY_ELIMINATION]
    assert voted.num_open == 0


def test_of_several_pairs_that_are_left_the_one_with_the_main_stream_is_taken() -> None:
    """Nothing binds; compute does more than the side stream, and forks start from the stream that does most."""
    ops = launched([
        ("a", COMPUTE, 1, 10, 15), ("b", SIDE, 2, 10, 20), ("c", COMPUTE, 3, 15, 20), ("send", NETWORK, 106, 110, 120),
    ])  # fmt: skip
    voted = voted_waits(ops, np.array([105]) * US)
    counted = voted.counted(ops, voted.waits.get_column("waiter").head(0))
    assert counted.select("op", "on", "votes_for", "confidence").rows() == [(3, 2, 0, BY_ELIMINATION)]


def test_a_call_that_two_pairs_of_other_streams_could_explain_stays_open() -> None:
    """Compute, which does most, has done nothing yet."""
    ops = launched([
        ("a", 31, 1, 10, 20), ("b", SIDE, 2, 10, 20), ("send", NETWORK, 106, 110, 120),
        ("c", COMPUTE, 200, 201, 210), ("d", COMPUTE, 201, 210, 220),
    ])  # fmt: skip
    voted = voted_waits(ops, np.array([105]) * US)
    assert voted.waits.is_empty()
    assert voted.num_open == 1


def test_without_calls_late_starts_are_voted_on() -> None:
    ops = launched([
        ("mlp", COMPUTE, 1, 10, 50), ("send", NETWORK, 6, 52, 90),
        ("mlp", COMPUTE, 101, 110, 150), ("send", NETWORK, 106, 153, 190),
    ])  # fmt: skip
    assert edges(ops, []) == {(1, 0): (2, 0), (3, 2): (2, 0)}


def test_no_event_is_recorded_in_the_midst_of_a_burst_of_launches() -> None:
    """notify and send are launched one after the other on the network, and compute waits for the dispatch before them
    though in every repeat notify has ended too."""
    # network: |dispatch 10-50|notify 50-55|send 55-200|
    # compute:                                 |mlp 60-80|, ready at 60 as its launch comes late
    rows = []
    for t in (0, 300):
        rows += [
            ("dispatch", NETWORK, t + 1, t + 10, t + 50), ("attn", COMPUTE, t + 2, t + 10, t + 48),
            ("notify", NETWORK, t + 3, t + 50, t + 55), ("send", NETWORK, t + 4, t + 55, t + 200),
            ("mlp", COMPUTE, t + 70, t + 70, t + 80),
        ]  # fmt: skip
    found = edges(launched(rows), [69, 369])
    assert set(found) == {(4, 0), (9, 5)}


def test_an_event_in_the_midst_of_a_burst_is_waited_for_where_no_other_explains_the_start() -> None:
    """a and b are launched one after the other on compute; the event between them was recorded though no call shows."""
    # compute: |a 10-50|b 50-90|          |a 110-170|b 170-190|
    # network:         |send 52-60|                 |send 172-180|
    ops = launched([
        ("a", COMPUTE, 1, 10, 50), ("b", COMPUTE, 2, 50, 90), ("send", NETWORK, 6, 52, 60),
        ("a", COMPUTE, 101, 110, 170), ("b", COMPUTE, 102, 170, 190), ("send", NETWORK, 106, 172, 180),
    ])  # fmt: skip
    assert edges(ops, [5, 105]) == {(2, 0): (2, 0), (5, 3): (2, 0)}


def test_without_calls_an_op_may_have_waited_for_several_streams() -> None:
    """Compute joins the network and the side stream: now one ends last, now the other."""
    # network: |send 10-50|                  |send 110-120|
    # side:    |norm 10-30|                  |norm 110-150|
    # compute:            |mlp 52-60|                     |mlp 153-160|
    ops = launched([
        ("send", NETWORK, 1, 10, 50), ("norm", SIDE, 2, 10, 30), ("mlp", COMPUTE, 3, 52, 60),
        ("send", NETWORK, 101, 110, 120), ("norm", SIDE, 102, 110, 150), ("mlp", COMPUTE, 103, 153, 160),
    ])  # fmt: skip
    assert edges(ops, []) == {(2, 0): (1, 0), (2, 1): (1, 0), (5, 3): (1, 0), (5, 4): (1, 0)}


def test_of_whole_microseconds_a_launch_at_the_time_of_a_call_comes_after_it() -> None:
    """The second call took less than a microsecond: its launch has the same stamp. It is a repeat of the first."""
    ops = launched([
        ("mlp", COMPUTE, 1, 10, 50), ("send", NETWORK, 6, 52, 60),
        ("mlp", COMPUTE, 101, 110, 150), ("send", NETWORK, 105, 152, 160),
    ])  # fmt: skip
    assert edges(ops, [5, 105]) == {(1, 0): (2, 0), (3, 2): (2, 0)}


def test_without_calls_some_repeats_may_wait_and_others_not() -> None:
    """Compute waits for the network's send of the layer before; the first layer of the next step does not."""
    # compute: |a 10-20|   |a 52-60|   |a 92-100| |a 110-120|       |a 172-180|
    # network:    |send 20-50||send 60-90|  |send 100-170|    (each of the layer before)
    ops = launched([
        ("a", COMPUTE, 1, 10, 20), ("send", NETWORK, 2, 20, 50),
        ("a", COMPUTE, 3, 52, 60), ("send", NETWORK, 4, 60, 90),
        ("a", COMPUTE, 5, 92, 100), ("send", NETWORK, 6, 100, 170), ("a", COMPUTE, 7, 110, 120),
        ("b", COMPUTE, 8, 120, 125), ("send", NETWORK, 9, 170, 200), ("a", COMPUTE, 10, 202, 210),
    ])  # fmt: skip
    assert {(2, 1), (4, 3), (9, 8)} <= set(edges(ops, []))
    assert not any(waiter == 6 for waiter, _ in edges(ops, []))


def short_sends(late_us: list[int]) -> Launched:
    """Layers of: mlp on compute, a send of 3 µs after it, and the next layer's mlp after that: so many µs late."""
    rows, now = [("mlp", COMPUTE, 0, 10, 50)], 50
    for layer, late in enumerate(late_us):
        rows += [
            ("send", NETWORK, 2 * layer + 1, now + 2, now + 5),
            ("mlp", COMPUTE, 2 * layer + 2, now + late, now + 60),
        ]
        now += 60
    return launched(rows)


def test_without_calls_a_start_that_is_always_a_little_late_after_another_op_waits_for_it() -> None:
    assert {(2, 1), (4, 3), (6, 5)} <= set(edges(short_sends([7, 8, 6]), []))


def test_one_that_is_so_only_now_and_then_does_not() -> None:
    assert not {(2, 1), (4, 3), (6, 5)} & set(edges(short_sends([7, 1, 2]), []))


def test_of_many_streams_those_with_most_ops_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 streams of one op each, and two of many: pairs do not grow with the square of the streams."""
    tried: set[int] = set()
    looked_at: list[int] = []
    next_on, awaited = pairs._next_on, pairs._awaited

    def counted_next(ops: Launched, stream: int, at_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        tried.add(stream)
        return next_on(ops, stream, at_ns)

    def counted_awaited(ops: Launched, *others: Any) -> NDArray[np.int64]:
        looked_at.append(1)
        return awaited(ops, *others)

    monkeypatch.setattr(pairs, "_next_on", counted_next)
    monkeypatch.setattr(pairs, "_awaited", counted_awaited)
    rows = [("one", 1_000 + at, 10 * at, 10 * at + 1, 10 * at + 6) for at in range(300)]
    layers = [
        row
        for at in range(5_000, 5_400, 100)
        for row in (("mlp", COMPUTE, at, at + 1, at + 40), ("send", NETWORK, at + 2, at + 41, at + 60))
    ]
    voted = voted_waits(launched(rows + layers), np.array([at + 1 for at in range(5_000, 5_400, 100)], np.int64) * US)
    assert voted.waits.select("waiter", "awaited").rows() == [(301 + 2 * layer, 300 + 2 * layer) for layer in range(4)]
    assert len(tried) == pairs.MOST_STREAMS and {COMPUTE, NETWORK} <= tried
    assert len(looked_at) <= 10 * pairs.MOST_STREAMS**2
