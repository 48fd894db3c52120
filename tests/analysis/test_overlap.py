"""Which communication hides behind which computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from tests.analysis.random_traces import bits, device_events, of_kind, random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.analysis import overlap
from weftrace.analysis.hidden_communication import NO_PHASE, OTHER
from weftrace.trace import Trace
from weftrace.units import US


def two_phases_behind_two() -> TraceFile:
    #  µs            100  110  120  130  140  150  160  170
    #  stream 7      [attn       ][mlp           ]
    #  stream 20          [dispatch           ]   [combine ]
    #                     |hidden 10+20       |   exposed 150-160
    return (
        TraceFile()
        .host("attn(F)", 0, 10).host("mlp(F)", 10, 10).host("dispatch(F)", 20, 10).host("combine(F)", 30, 10)
        .kernel(GEMM, 100, 20, launch=1).kernel(GEMM, 120, 25, launch=11)
        .kernel(NOTIFY, 110, 5, stream=20, launch=21).kernel(DISPATCH, 115, 30, stream=20, launch=22)
        .kernel(DISPATCH.replace("dispatch", "combine"), 150, 10, stream=20, launch=31)
    )  # fmt: skip


def test_matrix_by_pencil(tmp_path: Path) -> None:
    o = overlap(two_phases_behind_two().trace(tmp_path))
    assert o.matrix.communication == ("dispatch(F)", "combine(F)")
    assert o.matrix.compute == ("attn(F)", "mlp(F)")
    assert o.matrix.ns == ((10 * US, 25 * US), (0, 0))
    assert o.matrix.hidden_ns == (35 * US, 0)
    assert o.matrix.exposed_ns == (0, 10 * US)
    assert (o.communication_ns, o.hidden_ns, o.exposed_ns) == (45 * US, 35 * US, 10 * US)
    assert o.hidden_fraction == 35 / 45
    assert (o.data_ns, o.barrier_ns) == (40 * US, 5 * US)
    assert (o.exposed.ends - o.exposed.starts).tolist() == [10 * US]


def test_collectives_by_pencil(tmp_path: Path) -> None:
    table = overlap(two_phases_behind_two().trace(tmp_path)).collectives
    dispatch, combine = (
        table.row(by_predicate=pl.col("collective") == name, named=True) for name in ("dispatch", "combine")
    )
    notify = table.row(by_predicate=pl.col("collective") == "barrier", named=True)  # nothing tells what it notifies of
    assert dispatch["busy_ns"] == dispatch["hidden_ns"] == dispatch["data_ns"] == 30 * US
    assert (notify["data_ns"], notify["barrier_ns"], notify["num_events"]) == (0, 5 * US, 1)
    assert combine["exposed_ns"] == combine["busy_ns"] == 10 * US
    assert (
        dispatch["payload_bytes"] is dispatch["algbw_GBps"] is dispatch["busbw_GBps"] is None
    )  # sizes are not recorded


@pytest.mark.parametrize(
    ("name", "factor"),
    [("allreduce", 2 * 7 / 8), ("_allgather_base", 7 / 8), ("reduce_scatter", 7 / 8), ("all_to_all", 7 / 8),
     ("broadcast", 1), ("reduce", 1), ("send", 1)],
)  # fmt: skip
def test_bandwidth_by_pencil(tmp_path: Path, name: str, factor: float) -> None:
    # 8 ranks, 4,000,000 bf16 = 8 MB in 100 µs: 80 GB/s.
    nccl: dict[str, Any] = {"Collective name": name, "In msg nelems": 500_000, "Out msg nelems": 4_000_000,
                            "dtype": "BFloat16", "Group size": 8}  # fmt: skip
    row = overlap(TraceFile().kernel(ALL_REDUCE, 100, 100, **nccl).trace(tmp_path)).collectives.row(0, named=True)
    assert row["payload_bytes"] == 8_000_000
    assert row["algbw_GBps"] == 80
    assert row["busbw_GBps"] == pytest.approx(80 * factor)


def test_bandwidth_rests_on_what_records_its_size(tmp_path: Path) -> None:
    sized: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": 2}
    file = TraceFile().kernel(ALL_REDUCE, 100, 10, **sized).kernel(ALL_REDUCE, 200, 90)
    row = overlap(file.trace(tmp_path)).collectives.row(0, named=True)
    assert row["payload_bytes"] == 4000
    assert row["algbw_GBps"] == row["busbw_GBps"] == 0.4  # not 0.04: nobody knows what the other moved
    assert row["num_events"] == 2


def test_no_communication_leaves_everything_empty(tmp_path: Path) -> None:
    o = overlap(TraceFile().kernel(GEMM, 100, 20).trace(tmp_path))
    assert o.hidden_fraction is None
    assert o.collectives.is_empty()
    assert (len(o.matrix.communication), len(o.matrix.ns), len(o.matrix.hidden_ns)) == (0, 0, 0)
    assert o.exposed.total_ns == 0


def test_only_communication_has_an_empty_matrix_row(tmp_path: Path) -> None:
    o = overlap(TraceFile().kernel(ALL_REDUCE, 100, 20).trace(tmp_path))
    assert o.matrix.communication == ("all_reduce",)
    assert o.matrix.compute == ()
    assert o.matrix.ns == ((),)
    assert o.matrix.exposed_ns == (20 * US,)


def test_work_outside_phases_has_a_row_and_a_column_of_its_own(tmp_path: Path) -> None:
    file = TraceFile().host("attn(F)", 0, 10).kernel(GEMM, 100, 20, launch=1)
    file.kernel(GEMM, 120, 20, linked=False).kernel(ALL_REDUCE, 110, 40, stream=20, linked=False)
    m = overlap(file.trace(tmp_path)).matrix
    assert (m.communication, m.compute, m.ns) == ((NO_PHASE,), ("attn(F)", NO_PHASE), ((10 * US, 20 * US),))
    assert m.exposed_ns == (10 * US,)


def test_many_labels_are_gathered(tmp_path: Path) -> None:
    # 60 phases of 1 µs, one of 50: the large one keeps its name, the small ones come together
    file = TraceFile().kernel(ALL_REDUCE, 1000, 200, stream=20, launch=500)
    for number in range(60):
        file.host(f"block{number:02}", 10 * number, 5).kernel(GEMM, 1000 + number, 1, launch=10 * number + 1)
    file.host("large", 800, 5).kernel(GEMM, 1100, 50, launch=801).host("comm", 499, 3)
    m = overlap(file.trace(tmp_path)).matrix
    assert len(m.compute) == 40
    assert OTHER in m.compute and "large" in m.compute
    assert sum(m.ns[0]) == m.hidden_ns[0] == 110 * US
    assert m.compute[:38] == tuple(f"block{number:02}" for number in range(38))  # of equals, the first by name


@settings(max_examples=examples(30))
@given(traces())
def test_matrix_and_totals_agree_with_a_bitmap(trace: Trace) -> None:
    work = random_work(trace)
    events = device_events(trace)
    compute, communication = of_kind(events, "compute"), of_kind(events, "communication")
    o = overlap(work)
    assert o.communication_ns == communication.sum()
    assert o.hidden_ns == (communication & compute).sum()
    assert o.hidden_ns + o.exposed_ns == o.communication_ns
    assert o.exposed.total_ns == o.exposed_ns
    assert (o.collectives["hidden_ns"] + o.collectives["exposed_ns"]).to_list() == o.collectives["busy_ns"].to_list()
    for row in o.collectives.iter_rows(named=True):
        mine = bits(work.events.filter(pl.col("collective").cast(pl.String) == row["collective"]))
        assert (row["busy_ns"], row["hidden_ns"]) == (mine.sum(), (mine & compute).sum())

    m = o.matrix
    assert all(sum(row) >= hidden for row, hidden in zip(m.ns, m.hidden_ns, strict=True))
    assert len(m.ns) == len(m.communication) and all(len(row) == len(m.compute) for row in m.ns)
    named = work.events.join(work.phases.select("phase", "name"), on="phase", how="left", suffix="_phase")
    has_phases = named["phase"].null_count() < named.height
    label = (
        pl.col("name_phase").fill_null(NO_PHASE)
        if has_phases
        else pl.coalesce(pl.col("collective", "family").cast(pl.String))
    )
    named = named.with_columns(label.alias("label"))

    def ran(kind: str, label: str) -> np.ndarray:
        return bits(named.filter(pl.col("kind") == kind, pl.col("label") == label))

    for number, row_label in enumerate(m.communication):
        row_bits = ran("communication", row_label)
        assert m.hidden_ns[number] == (row_bits & compute).sum()
        assert m.exposed_ns[number] == (row_bits & ~compute).sum()
        for column, column_label in enumerate(m.compute):
            assert m.ns[number][column] == (row_bits & ran("compute", column_label)).sum()


def test_order_of_events_in_the_file_does_not_matter(tmp_path: Path) -> None:
    file = two_phases_behind_two()
    first = overlap(file.trace(tmp_path))
    file.events.reverse()
    second = overlap(file.trace(tmp_path))
    assert first.matrix == second.matrix or (first.matrix.ns, first.matrix.compute) == (
        second.matrix.ns,
        second.matrix.compute,
    )
    assert first.collectives.equals(second.collectives)
