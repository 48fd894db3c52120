"""Do the tables hold what the analyses say? By pencil, and on random traces in sums that are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings

from tests.analysis.random_traces import few_rules, random_work, traces
from tests.fuzz import examples, few
from tests.trace.plain.pipeline_job import artefact, simulate, slow, write
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown, idle_account, queueing, steps
from weftrace.analysis.waiting.gap_parts import PARTS
from weftrace.questions.building import build
from weftrace.questions.columns import TABLES
from weftrace.trace import Trace, open_trace
from weftrace.trace.named_steps import with_steps
from weftrace.units import US

COPY = "Memcpy DtoD (Device -> Device)"
EVERYTHING = {name: tuple(table.schema) for name, table in TABLES.items()}


#: What NCCL records of it: 3 million elements of 2 bytes.
OF_6_MB: dict[str, Any] = {
    "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 3_000_000, "Out msg nelems": 3_000_000,
    "Group size": 4, "Process Group Name": "dp",
}  # fmt: skip


def pencil(folder: Path, *, rank: int | None = 0) -> Trace:
    """One step; two gemms, an all-reduce half behind them, a copy, a gap that the host makes. In µs:

    host    ProfilerStep#3 [5 ......................................................... 1200]
            attn(F) [8 - 14] with aten::mm [9.5 - 10.8]     mlp(F) [890 - 910] with aten::mm [895 - 905]
            launches at 10 11 12 13 ..................................... 900
    7       [gemm 100-200]                                                [gemm 1000-1100]
    20            [gemm 150-260]
    30            [all-reduce 150-300]
    40                         [copy 280-340]
    """
    return (
        TraceFile(rank=rank, world_size=4)
        .host("ProfilerStep#3", 5, 1195).host("attn(F)", 8, 6).host("mlp(F)", 890, 20)
        .host("aten::mm", 9.5, 1.3, cat="cpu_op").host("aten::mm", 895, 10, cat="cpu_op")
        .kernel(GEMM, 100, 100, launch=10, blocks=200).kernel(GEMM, 150, 110, launch=11, stream=20)
        .kernel(ALL_REDUCE, 150, 150, launch=12, stream=30, **OF_6_MB)
        .kernel(COPY, 280, 60, launch=13, stream=40, cat="gpu_memcpy")
        .kernel(GEMM, 1000, 100, launch=900)
    ).trace(folder)  # fmt: skip


def rows(trace: Trace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """A table's rows; times in µs."""
    frame = build(trace, {table: columns})[table].select(columns)
    in_us = [name for name in columns if name.endswith("_ns")]
    return frame.with_columns(pl.col(in_us) // US).rows()


def total(frame: pl.DataFrame, column: str) -> int:
    return int(frame.get_column(column).sum())


def test_whose_time_it_is_by_pencil(tmp_path: Path) -> None:
    found = rows(pencil(tmp_path), "work", "part", "own_ns", "exposed_ns", "hidden_ns", "gap_before_ns", "gap_cause")
    assert found == [
        ("compute", 100, 0, 0, 0, None),
        ("compute", 60, 0, 0, 0, None),
        ("exposed communication", 40, 40, 110, 0, None),
        ("exposed memory", 40, 40, 20, 0, None),
        ("compute", 100, 0, 0, 660, "python"),
    ]


def test_what_launched_work_by_pencil(tmp_path: Path) -> None:
    trace = pencil(tmp_path)
    columns = ("rank", "device", "step", "launched_step", "phase", "operator", "launch_delay_ns", "at_ns", "sms")
    found = rows(trace, "work", *columns)
    assert found == [
        (0, 0, 3, 3, "attn(F)", "aten::mm", 90, 95, 132),
        (0, 0, 3, 3, "attn(F)", None, 139, 145, None),
        (0, 0, 3, 3, "attn(F)", None, 138, 145, None),
        (0, 0, 3, 3, "attn(F)", None, 267, 275, None),
        (0, 0, 3, 3, "mlp(F)", "aten::mm", 100, 995, None),
    ]
    events, work = (build(trace, {name: EVERYTHING[name]})[name] for name in ("events", "work"))
    named = events.select("event", "name", "start_ns", "end_ns").rename({"event": "operator_event"})
    called = work.drop_nulls("operator_event").join(named, on="operator_event")
    assert called["name_right"].to_list() == ["aten::mm"] * 2
    assert (called["launch_ns"] >= called["start_ns_right"]).all() and (
        called["launch_ns"] <= called["end_ns_right"]
    ).all()


def test_gaps_by_pencil(tmp_path: Path) -> None:
    columns = (
        "at_ns",
        "dur_ns",
        "step",
        "cause",
        "prev_name",
        "next_name",
        "next_operator",
        "next_phase",
        "next_stream",
    )
    assert rows(pencil(tmp_path), "gaps", *columns) == [(335, 660, 3, "python", COPY, GEMM, "aten::mm", "mlp(F)", 7)]


def test_pieces_of_a_gap_by_pencil(tmp_path: Path) -> None:
    """The gap lasts from 340 to 1000; mlp(F) begins at 890, aten::mm in it at 895, the call at 900: 1 µs."""
    columns = ("gap", "at_ns", "dur_ns", "step", "part", "cause", "name", "name_kind", "within", "call")
    call = "cudaLaunchKernel"
    assert rows(pencil(tmp_path), "idle", *columns) == [
        (0, 335, 550, 3, "host", "python", None, None, None, call),
        (0, 885, 5, 3, "host", "python", "mlp(F)", "annotation", "mlp(F)", call),
        (0, 890, 5, 3, "host", "operators", "aten::mm", "operator", "mlp(F)", call),
        (0, 895, 1, 3, "call", "operators", call, "call", "mlp(F)", call),
        (0, 896, 99, 3, "launch_latency", "launch_latency", None, None, None, call),
    ]
    around = ("prev_event", "prev_name", "next_event", "next_name")
    assert set(rows(pencil(tmp_path), "idle", *around)) == set(rows(pencil(tmp_path), "gaps", *around))


def test_steps_phases_and_ranks_by_pencil(tmp_path: Path) -> None:
    trace = pencil(tmp_path)
    parts = ("span_ns", "compute_ns", "communication_ns", "hidden_communication_ns", "exposed_communication_ns",
             "memory_ns", "exposed_memory_ns", "idle_ns", "idle_host_ns", "idle_call_ns", "idle_held_ns",
             "num_events")  # fmt: skip
    whole = (1000, 260, 150, 110, 40, 60, 40, 660, 560, 1, 0, 5)
    assert rows(trace, "steps", "step", "num_gaps", *parts) == [(3, 1, *whole)]
    assert rows(trace, "ranks", "rank", "world_size", "num_steps", "device_name", *parts) == [
        (0, 4, 1, "NVIDIA H800", *whole)
    ]
    columns = ("name", "step", "dur_ns", "busy_ns", "compute_ns", "communication_ns", "exposed_ns", "host_dur_ns")
    assert rows(trace, "phases", *columns) == [
        ("attn(F)", 3, 240, 240, 160, 150, 40, 6),
        ("mlp(F)", 3, 100, 100, 100, 0, 0, 20),
    ]


def test_collectives_kernels_and_the_queue_by_pencil(tmp_path: Path) -> None:
    """6 MB in 150 µs are 40 GB/s; an all-reduce over 4 ranks moves 2 x 3/4 of that."""
    trace = pencil(tmp_path)
    columns = ("collective", "process_group", "group_size", "payload_bytes", "algbw_GBps", "busbw_GBps", "hidden_ns")
    assert rows(trace, "collectives", *columns) == [("all_reduce", "dp", 4, 6_000_000, 40.0, 60.0, 110)]
    kernels = rows(trace, "kernels", "name", "num_events", "total_ns", "own_ns", "min_ns", "max_ns")
    assert kernels[0] == (GEMM, 3, 310, 260, 100, 110)
    queue = rows(trace, "queue", "at_ns", "dur_ns", "queue_length")
    assert queue == [
        (5, 1, 1), (6, 1, 2), (7, 1, 3), (8, 87, 4), (95, 50, 3), (145, 130, 1), (275, 620, 0), (895, 100, 1),
        (995, 100, 0),
    ]  # fmt: skip


@settings(max_examples=examples(25), deadline=None)
@given(trace=traces())
def test_tables_add_up_to_the_analyses(trace: Trace) -> None:
    built = build(trace, EVERYTHING, rules=few_rules())
    work = random_work(trace)
    summary, account = breakdown(work), idle_account(work)
    rank = built["ranks"].row(0, named=True)
    for name in ("span_ns", "compute_ns", "communication_ns", "hidden_communication_ns", "exposed_communication_ns",
                 "memory_ns", "exposed_memory_ns", "idle_ns"):  # fmt: skip
        assert rank[name] == getattr(summary, name), name
    for part in (*PARTS, "unrecorded"):
        assert rank[f"idle_{part}_ns"] == getattr(account, f"{part}_ns") >= total(built["steps"], f"idle_{part}_ns"), (
            part
        )
    pieces = built["idle"].group_by("cause").agg(pl.col("dur_ns").sum()).sort("cause")
    assert pieces.rows() == account.causes.select("cause", "ns").sort("cause").rows()
    by_gap = built["idle"].group_by("gap").agg(pl.col("dur_ns").sum()).sort("gap")
    assert by_gap.rows() == built["gaps"].select("gap", "dur_ns").rows()
    each = built["work"]
    assert total(each, "own_ns") + total(built["gaps"], "dur_ns") == summary.span_ns
    moved, copied = (each.filter(pl.col("kind") == kind) for kind in ("communication", "memory"))
    assert moved["exposed_ns"].sum() == summary.exposed_communication_ns
    assert moved["hidden_ns"].sum() == summary.hidden_communication_ns
    assert total(copied, "exposed_ns") + total(copied, "hidden_ns") == summary.memory_ns
    assert each["gap_before_ns"].sum() == summary.idle_ns == built["gaps"]["dur_ns"].sum()
    assert built["kernels"]["own_ns"].sum() == each["own_ns"].sum()
    assert built["kernels"]["num_events"].sum() == each.height == rank["num_events"]
    queued = built["queue"].filter(pl.col("dur_ns") > 0)
    assert max([0, *built["queue"]["queue_length"]]) == queueing(work).queue_max
    assert queued["at_ns"].is_sorted()


@settings(max_examples=examples(25), deadline=None)
@given(trace=traces())
def test_steps_are_those_of_the_analysis(trace: Trace) -> None:
    frame = build(trace, {"steps": EVERYTHING["steps"], "work": EVERYTHING["work"]}, rules=few_rules())
    summary = steps(random_work(with_steps(trace)[0]))
    names = ("span_ns", "compute_ns", "communication_ns", "exposed_communication_ns", "memory_ns", "exposed_memory_ns",
             "idle_ns")  # fmt: skip
    expected = [(each.step, *(getattr(each.breakdown, name) for name in names)) for each in summary]
    found = frame["steps"].select("step", *names).rows()
    assert (found if summary else [(None, *found[0][1:])]) == (expected or found)
    counted = frame["work"].group_by("step").len().sort("step").rows()
    assert {row[0]: row[1] for row in counted if row[0] is not None} == {
        step: num for step, num in frame["steps"].select("step", "num_events").rows() if num and step is not None
    }


def test_a_plain_trace_gives_a_row_a_piece_and_a_rank_each(tmp_path: Path) -> None:
    """Its ranges are cut where their own thread communicates: several pieces are of one event."""
    path = write(tmp_path / "t.json", artefact(simulate(2, 3, cost=slow(0, 0, 1.6), steps=(1, 2), transfers_only=True)))
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    built = build(trace, EVERYTHING)
    assert sorted(built["ranks"]["rank"].to_list()) == list(range(6))
    summed = built["work"].group_by("rank").agg(pl.col("own_ns").sum()).sort("rank")["own_ns"]
    idle_ns = built["ranks"].sort("rank").select(pl.col("span_ns") - pl.col("idle_ns")).to_series()
    assert summed.to_list() == idle_ns.to_list()
    assert built["events"]["rank"].n_unique() == 6


def test_a_column_alone_is_what_it_is_among_all(tmp_path: Path) -> None:
    """What is built depends on what is asked for; what it holds does not."""
    trace = pencil(tmp_path)
    for name, everything in build(trace, EVERYTHING, rules=few_rules()).items():
        assert dict(everything.schema) == TABLES[name].schema
        if name not in ("work", "gaps", "collectives", "kernels"):
            continue
        for column in few(everything.columns, 5):
            assert build(trace, {name: (column,)}, rules=few_rules())[name].equals(everything.select(column)), (
                name,
                column,
            )


def test_iterations_that_an_engine_names_are_steps(tmp_path: Path) -> None:
    """Their names are kept: they tell how large each was."""
    file = TraceFile()
    for number, size in enumerate((16, 8, 4)):
        start = 1000 * number
        file.host(f"execute_context_0(0)_generation_{size}({size})", start, 200)
        file.kernel(GEMM, start + 100, 10 * size, launch=start + 50).kernel(COPY, start + 400, 20, launch=start + 90,
                                                                            cat="gpu_memcpy")  # fmt: skip
    trace = file.trace(tmp_path)
    assert rows(trace, "steps", "step", "span_ns", "compute_ns", "num_events") == [
        (0, 1000, 160, 2), (1, 1000, 80, 2), (2, 320, 40, 2),
    ]  # fmt: skip
    assert rows(trace, "phases", "step", "name", "compute_ns") == [
        (number, f"execute_context_0(0)_generation_{size}({size})", 10 * size)
        for number, size in enumerate((16, 8, 4))
    ]  # fmt: skip
    assert {row[0] for row in rows(trace, "work", "step", "phase")} == {0, 1, 2}
    assert build(trace, {"events": ("name",)})["events"].height == trace.events.height


def test_each_device_of_a_process_has_rows_of_its_own(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 50).kernel(GEMM, 200, 100).kernel(GEMM, 120, 30, device=1, stream=9)
    trace = file.trace(tmp_path)
    assert rows(trace, "ranks", "device", "span_ns", "idle_ns", "num_events") == [(0, 200, 50, 2), (1, 30, 0, 1)]
    assert rows(trace, "gaps", "device", "at_ns", "dur_ns") == [(0, 60, 50)]
    assert sorted(rows(trace, "work", "device", "dur_ns", "stream")) == [(0, 50, 7), (0, 100, 7), (1, 30, 9)]


def test_a_trace_without_work_has_empty_tables(tmp_path: Path) -> None:
    trace = TraceFile(rank=None).host("a range", 0, 10).trace(tmp_path)
    built = build(trace, EVERYTHING)
    assert {name: frame.height for name, frame in built.items() if frame.height} == {"events": 1}
    assert {name: dict(frame.schema) for name, frame in built.items()} == {n: t.schema for n, t in TABLES.items()}
