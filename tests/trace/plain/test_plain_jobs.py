"""Chrome traces that no profiler of devices wrote: a job of ranks is found in them, and nothing else becomes one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.trace.plain.pipeline_job import artefact, converted, simulate, slow, write
from weftrace.analysis import breakdown
from weftrace.errors import TraceError
from weftrace.report import annotate_trace
from weftrace.trace import Job, Trace, load_parquet, open_trace, save_parquet, work_of, works_of, write_chrome
from weftrace.trace.plain.values import Plain


def plain_of(path: Path) -> Plain:
    trace = open_trace(path)
    assert isinstance(trace, Trace) and trace.plain is not None
    return trace.plain


def test_names_of_threads_and_processes_tell_the_ranks(tmp_path: Path) -> None:
    plain = plain_of(write(tmp_path / "t.json", artefact(simulate(2, 4))))
    assert [(w.rank, w.name) for w in plain.workers[:3]] == [(0, "DP 0 PP 0"), (1, "DP 1 PP 0"), (2, "DP 0 PP 1")]
    assert len(plain.workers) == 8
    assert plain.rows.get_column("worker").null_count() == 0


def test_a_bare_list_is_read_compressed_and_with_times_in_exponents(tmp_path: Path) -> None:
    events = artefact(simulate(1, 2, steps=(0,)), zero_us=0.0)
    text = json.dumps(events).replace('"ts": 1000.0', '"ts": 1.0e+03')
    assert "e+03" in text
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    work = works_of(open_trace(path))[0]
    assert work.events.filter(pl.col("start_ns") == 1_000_000).height


def test_a_range_is_a_phase_with_its_micro_batch_and_its_step(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.json", artefact(simulate(2, 2, num_micro_batches=3, steps=(7, 8)))))
    assert isinstance(trace, Trace)
    work = works_of(trace)[0]
    assert work.basis == "ranges" and work.steps == (7, 8)
    forwards = work.phases.filter(pl.col("name") == "forward-compute", pl.col("step") == 7)
    assert forwards.get_column("micro_batch").to_list() == [0, 1, 2]
    assert set(work.events.get_column("kind").cast(pl.String)) == {"compute", "communication"}
    assert work.events.get_column("launch_ts_ns").null_count() == work.events.height


def test_both_sides_of_a_transfer_have_one_group_and_number(tmp_path: Path) -> None:
    """The simulation ends both sides at one time: so do all that were paired, and all are."""
    plain = plain_of(write(tmp_path / "t.json", converted(simulate(2, 4, cost=slow(0, 1, 1.5), transfers_only=False))))
    trace = open_trace(tmp_path / "t.json")
    assert isinstance(trace, Trace)
    ends = trace.events.get_column("ts_ns") + trace.events.get_column("dur_ns")
    moved = plain.rows.with_columns(ends.alias("end_ns")).filter(pl.col("kind") == "communication")
    met = moved.group_by("group", "comm_seq").agg(
        pl.len(), pl.col("worker").n_unique(), (pl.col("end_ns").max() - pl.col("end_ns").min()).alias("apart")
    )
    assert moved.get_column("group").null_count() == 0
    assert met.get_column("len").to_list() == [2] * met.height == met.get_column("worker").to_list()
    assert all(apart <= 1 for apart in met.get_column("apart"))
    assert {"DP 0 PP 0-1 forward", "PP 3 grads_reduce_scatter"} <= set(met.get_column("group"))


def test_transfers_that_never_were_join_nothing(tmp_path: Path) -> None:
    """A first stage that records receives of its missing neighbour, and a send that was never launched."""
    events = artefact(simulate(1, 3, steps=(1,)))
    first = next(e for e in events if e["name"] == "forward-send" and e["tid"] == 1)
    events.append({**first, "ts": first["ts"] - 900, "dur": 1.0})  # before the first forward ended
    events += [{**first, "name": "forward-recv", "ts": first["ts"] - 950, "dur": 1.0}]
    plain = plain_of(write(tmp_path / "t.json", events))
    rows = plain.rows.filter(pl.col("kind") == "communication")
    assert rows.tail(2).get_column("group").to_list() == [None, None]
    sends = rows.filter(pl.col("group") == "PP 0-1 forward")
    assert sends.group_by("comm_seq").len().get_column("len").to_list() == [2] * 6


def test_steps_that_all_begin_at_zero_are_laid_one_after_another(tmp_path: Path) -> None:
    ops = simulate(2, 2, steps=(3, 4, 5))
    restarted = open_trace(write(tmp_path / "a.json", artefact(ops, restart=True)))
    recorded = open_trace(write(tmp_path / "b.json", artefact(ops, zero_us=0.0)))
    assert isinstance(restarted, Trace) and isinstance(recorded, Trace)
    assert restarted.plain is not None and restarted.plain.moved
    assert any("overlap" in note for note in restarted.plain.notes)
    for laid, as_it_was in zip(works_of(restarted), works_of(recorded), strict=True):
        apart = (laid.events.get_column("start_ns") - as_it_was.events.get_column("start_ns")).abs()
        assert all(ns <= 2 for ns in apart)
        assert laid.steps == (3, 4, 5)


def test_no_time_is_made_up_for_steps_that_are_not_in_the_file(tmp_path: Path) -> None:
    events = artefact(simulate(1, 2, steps=(3, 9)), zero_us=0.0)
    for event in events:
        if event.get("args", {}).get("step") == 9:
            event["ts"] += 60e6
    trace = open_trace(write(tmp_path / "t.json", events))
    assert isinstance(trace, Trace) and trace.plain is not None and trace.plain.moved
    assert works_of(trace)[0].end_ns - works_of(trace)[0].start_ns < 1_000_000_000
    assert any("missing" in note for note in trace.plain.notes)


def test_a_file_a_rank_agrees_on_groups_without_seeing_the_others(tmp_path: Path) -> None:
    ops = simulate(2, 2, steps=(1, 2), transfers_only=False)
    groups: dict[str, set[str]] = {}
    for dp in range(2):
        for pp in range(2):
            document = converted(ops, of=lambda op, place=(dp, pp): (op.dp, op.pp) == place)  # type: ignore[misc]
            plain = plain_of(write(tmp_path / f"rank{pp * 2 + dp}.json", document))
            assert [(w.rank, w.places) for w in plain.workers] == [(pp * 2 + dp, (("dp", dp), ("pp", pp)))]
            groups[f"{dp}{pp}"] = set(plain.rows.get_column("group").drop_nulls())
    assert groups["00"] == {"DP 0 PP 0-1 forward", "DP 0 PP 0-1 backward", "PP 0 grads_reduce_scatter"}
    assert groups["00"] & groups["01"] == {"DP 0 PP 0-1 forward", "DP 0 PP 0-1 backward"}
    assert groups["00"] & groups["10"] == {"PP 0 grads_reduce_scatter"}


def ranges(*rows: tuple[str, Any, Any, float, float, dict[str, Any]], **extra: Any) -> list[dict[str, Any]]:
    return [{"ph": "X", "name": n, "pid": p, "tid": t, "ts": ts, "dur": d, "args": a, **extra}
            for n, p, t, ts, d, a in rows]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "phase", "kind", "micro_batch", "stage"),
    [
        ("F0", "F", "compute", 0, None),
        ("B13", "B", "compute", 13, None),
        ("2F4", "F", "compute", 4, 2),
        ("forward mb 3 stage 2", "forward", "compute", 3, 2),
        ("Forward_microbatch_7", "Forward", "compute", 7, None),
        ("bwd (mb=5)", "bwd", "compute", 5, None),
        ("recv_forward mb1", "recv_forward", "communication", 1, None),
        ("SEND_B", "SEND_B", "communication", None, None),
        ("allreduce", "allreduce", "communication", None, None),
        ("all_reduce_12", "all_reduce", "communication", None, None),
        ("ReduceScatter", "ReduceScatter", "communication", None, None),
        ("layer3.attention", "layer3.attention", "compute", None, None),
        ("ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_AllGather_RING_LL", "communication", None, None),
        ("optimizer-clip-main-grad", "optimizer-clip-main-grad", "communication", None, None),
        ("embedding-grads-all-reduce", "embedding-grads-all-reduce", "communication", None, None),
        ("data-load", "data-load", "compute", None, None),
    ],
)
def test_what_a_name_says(
    tmp_path: Path, name: str, phase: str, kind: str, micro_batch: int | None, stage: int | None
) -> None:
    rows = plain_of(write(tmp_path / "t.json", ranges((name, 0, 0, 0, 10, {"step": 1})))).rows
    assert rows.select("phase", "kind", "micro_batch").row(0) == (phase, kind, micro_batch)
    assert plain_of(tmp_path / "t.json").workers[0].places == ((("pp", stage),) if stage is not None else ())


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        # one process, one thread, stages in the arguments: they run at one time, so each is a rank
        ([(f"F{m}", 0, 0, 10.0 * m + s, 9.0, {"stage": s}) for m in range(3) for s in range(2)], ["PP 0", "PP 1"]),
        # a process a rank, two stages each, one at a time: parts of the model of one rank
        ([(f"F{m}", r, 0, 10.0 * m + 20 * s, 9.0, {"virtual_stage": s, "stage": r + 2 * s}) for m in range(2)
          for r in range(2) for s in range(2)], ["process 0", "process 1"]),
        # a process a replica, threads called by their stage
        ([(f"F{m}", r, f"stage {s}", 10.0 * m, 9.0, {}) for m in range(2) for r in range(2) for s in range(2)],
         ["process 0 PP 0", "process 1 PP 0", "process 0 PP 1", "process 1 PP 1"]),
        # nothing but processes
        ([("forward", f"host{r}", 0, 0.0, 9.0, {}) for r in range(2)], ["process host0", "process host1"]),
        # nothing but threads that run the same schedule
        ([(f"F{m}", 0, r, 10.0 * m + r, 9.0, {}) for m in range(2) for r in range(3)],
         ["thread 0", "thread 1", "thread 2"]),
        # ranks in the arguments
        ([("forward", 1, 1, 0.0, 9.0, {"rank": f"rank {r}"}) for r in (4, 2)], ["", ""]),
    ],
)  # fmt: skip
def test_what_a_rank_is(tmp_path: Path, rows: list[Any], names: list[str]) -> None:
    plain = plain_of(write(tmp_path / "t.json", ranges(*rows)))
    assert [w.name for w in plain.workers] == names
    assert len(plain.notes) >= 2


def test_ranges_around_others_and_for_waiting_are_no_work(tmp_path: Path) -> None:
    rows = ranges(
        ("iteration 3", 0, 0, 0, 100, {"step": 3}),
        ("forward", 0, 0, 0, 40, {"step": 3}),
        ("attention", 0, 0, 5, 10, {"step": 3}),
        ("bubble", 0, 0, 40, 20, {"step": 3}),
        ("backward", 0, 0, 60, 40, {"step": 3}),
    )
    trace = open_trace(write(tmp_path / "t.json", rows))
    assert isinstance(trace, Trace) and trace.plain is not None
    work = work_of(trace)
    assert work.events.get_column("name").cast(pl.String).to_list() == ["forward", "backward"]
    summary = " ".join(trace.plain.notes)
    assert (
        "1 ranges around all of a step" in summary
        and "1 ranges for waiting" in summary
        and "1 ranges within" in summary
    )


def test_ranges_around_steps_tell_the_steps_of_what_is_inside(tmp_path: Path) -> None:
    rows: list[Any] = [(f"iteration {step}", r, 0, 100.0 * step, 90.0, {}) for r in range(2) for step in (1, 2)]
    rows += [("forward", r, 0, 100.0 * step + 5, 20.0, {}) for r in range(2) for step in (1, 2)]
    trace = open_trace(write(tmp_path / "t.json", ranges(*rows)))
    assert isinstance(trace, Trace)
    assert [work.steps for work in works_of(trace)] == [(1, 2), (1, 2)]
    assert [work.events.height for work in works_of(trace)] == [2, 2]


def test_tensors_of_a_timeline_of_collectives_are_no_ranks(tmp_path: Path) -> None:
    """Horovod's timeline: a process a tensor, begins and ends, and only communication."""
    rows: list[dict[str, Any]] = []
    for tensor in range(3):
        rows.append({"ph": "M", "name": "process_name", "pid": tensor, "args": {"name": f"grad_{tensor}"}})
        for name, start, end in (("NEGOTIATE_ALLREDUCE", 0, 20), ("ALLREDUCE", 20, 40)):
            rows.append({"ph": "B", "name": name, "pid": tensor, "ts": start + 50 * tensor})
            rows.append({"ph": "E", "pid": tensor, "ts": end + 50 * tensor})
    trace = open_trace(write(tmp_path / "t.json", rows))
    assert isinstance(trace, Trace)
    work = work_of(trace)
    assert work.events.select("role", "stream").unique().sort("stream", "role").height == 6
    assert set(work.events.get_column("kind").cast(pl.String)) == {"communication"}


def test_compute_ends_where_its_own_thread_communicates(tmp_path: Path) -> None:
    """forward 0-100 with all_reduce 30-50 in it: 0-30 and 50-100 compute; on another thread, 40-90 is hidden."""
    rows = ranges(
        ("forward", 0, 0, 0, 100, {"step": 1}),
        ("tp all_reduce", 0, 0, 30, 20, {"step": 1}),
        ("dp all_reduce", 0, 1, 40, 50, {"step": 1}),
    )
    trace = open_trace(write(tmp_path / "t.json", rows))
    assert isinstance(trace, Trace)
    found = breakdown(work_of(trace))
    assert (found.compute_ns, found.communication_ns, found.exposed_communication_ns) == (80_000, 60_000, 20_000)


def test_nan_for_nothing_is_nothing(tmp_path: Path) -> None:
    text = json.dumps(artefact(simulate(1, 2, steps=(1,)))).replace('"mb_id": null', '"mb_id": NaN')
    path = tmp_path / "t.json"
    path.write_text(text)
    assert len(plain_of(path).workers) == 2


def test_no_step_or_micro_batch_is_less_than_nothing(tmp_path: Path) -> None:
    """-1 and numbers beyond all counts stand for none."""
    rows = plain_of(
        write(tmp_path / "t.json", ranges(("forward", 0, 0, 0, 10, {"step": 1, "mb": -1, "rank": 2**40})))
    ).rows
    assert rows.select("step", "micro_batch").row(0) == (1, None)


def test_what_tells_more_ranks_than_there_can_be_tells_none(tmp_path: Path) -> None:
    rows = ranges(*[("forward", 0, 0, 10.0 * n, 9.0, {"rank": n}) for n in range(8_200)])
    trace = open_trace(write(tmp_path / "t.json", rows))
    assert isinstance(trace, Trace) and trace.plain is None


@pytest.mark.parametrize("category", ["kernel", "cpu_op", "user_annotation", "cuda_runtime", "python_function"])
def test_a_file_with_a_profilers_category_stays_what_it_is(tmp_path: Path, category: str) -> None:
    rows = ranges(*[(f"F{m}", 0, 0, 10.0 * m, 9.0, {"stage": 0, "step": 1}) for m in range(4)])
    rows += [{"ph": "X", "name": "k", "cat": category, "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {}}]
    trace = open_trace(write(tmp_path / "t.json", rows))
    assert isinstance(trace, Trace) and trace.plain is None
    assert work_of(trace).basis != "ranges"


def test_a_trace_of_something_else_is_no_job(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.json", ranges(*[("RunTask", 1, t, 0.0, 9.0, {"src": "x"}) for t in (1, 2)])))
    assert isinstance(trace, Trace) and trace.plain is None
    assert work_of(trace).basis == "none"


def test_a_trace_of_many_ranks_has_no_work_of_its_own(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.json", artefact(simulate(2, 2, steps=(1,)))))
    assert isinstance(trace, Trace) and trace.rank is None
    with pytest.raises(TraceError, match="holds 4 ranks"):
        work_of(trace)


def test_ranks_of_one_file_can_be_chosen(tmp_path: Path) -> None:
    job = open_trace(write(tmp_path / "t.json", artefact(simulate(2, 2, steps=(1,)))), ranks=[3, 1])
    assert isinstance(job, Job)
    names = job.map(lambda trace: [work.trace.rank for work in works_of(trace)], workers=1)
    assert [outcome.value for outcome in names] == [[1, 3]]
    assert [outcome.failure for outcome in names] == [None]
    assert [trace.rank for trace in open_trace(tmp_path / "t.json", ranks=[2]).traces()] == [2]


def test_a_rank_that_one_file_of_many_does_not_hold_is_told(tmp_path: Path) -> None:
    job = open_trace(write(tmp_path / "t.json", artefact(simulate(2, 2, steps=(1,)))), ranks=[3, 9])
    assert isinstance(job, Job)
    *_, last = job.map(lambda trace: trace.rank, workers=1)
    assert last.failure is not None and "no trace of rank 9" in last.failure.error


def test_parquet_keeps_what_was_inferred(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.json", artefact(simulate(2, 2, steps=(1, 4)))))
    assert isinstance(trace, Trace) and trace.plain is not None
    save_parquet(trace, tmp_path / "t.parquet")
    again = load_parquet(tmp_path / "t.parquet")
    assert again.plain is not None and again == trace
    assert (again.plain.workers, again.plain.notes) == (trace.plain.workers, trace.plain.notes)
    assert again.plain.rows.equals(trace.plain.rows)


def test_lanes_are_not_added_to_ranges(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.json", artefact(simulate(1, 2, steps=(1,)))))
    assert isinstance(trace, Trace)
    with pytest.raises(TraceError, match="plain Chrome trace"):
        annotate_trace(trace, tmp_path / "out.json")
    with pytest.raises(TraceError, match="plain Chrome trace"):  # it would lose what the events are, in silence
        write_chrome(trace, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()
