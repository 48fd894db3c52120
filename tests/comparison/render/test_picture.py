"""What the lane pictures of a comparison are drawn from is what was measured in those steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.comparison.render.phased import changed, changed_job, phased
from tests.pages import numbers_of
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis import breakdown
from weftrace.comparison import diff
from weftrace.comparison.diffs import Diff
from weftrace.comparison.document import diff_report
from weftrace.comparison.render.picture import LabelRow, RunPicture, rank_pictures, shown_steps
from weftrace.comparison.saved_reports import run_of_report
from weftrace.plan import Op, Plan, Resource, simulate_ranks
from weftrace.report import analyze
from weftrace.trace import Job, load_rules


def numbers(column: Any) -> list[int]:
    return numbers_of(column).tolist()  # type: ignore[no-any-return]


def runs_of(found: Diff) -> list[RunPicture]:
    """Of the only rank, before and after."""
    (rank,) = rank_pictures(found)
    assert rank["before"] is not None and rank["after"] is not None
    return [rank["before"], rank["after"]]


def test_each_step_is_as_long_and_as_busy_as_measured(tmp_path: Path) -> None:
    found = changed(tmp_path)
    for side, run in zip((found.before, found.after), runs_of(found), strict=True):
        work = side.ranks[0].work
        assert work is not None and len(run["steps"]) == run["num_steps"] == len(side.steady.steps)
        for step in run["steps"]:
            assert step["step"] is not None
            summary, lanes = breakdown(work.of_step(step["step"])), step["lanes"]
            assert (
                lanes["span_ns"] == summary.span_ns
                and lanes["exposed_communication_ns"] == summary.exposed_communication_ns
            )
            assert sum(busy for _, _, busy in lanes["exposed"]) == summary.exposed_communication_ns
            assert sum(busy for _, _, busy in lanes["hidden"]) == summary.hidden_communication_ns
            assert [lane["busy_ns"] for lane in lanes["lanes"]] == [summary.compute_ns, summary.communication_ns]
            assert sum(busy for _, _, busy in lanes["busy"]) == summary.busy_ns
            assert all(
                0 <= box["start_ns"] <= box["end_ns"] <= summary.span_ns
                for lane in lanes["lanes"]
                for box in lane["boxes"]
            )


def test_the_first_step_shown_is_the_median_one(tmp_path: Path) -> None:
    found = changed(tmp_path)
    for side, run in zip((found.before, found.after), runs_of(found), strict=True):
        lengths = sorted(step["lanes"]["span_ns"] for step in run["steps"])
        assert run["steps"][run["shown"]]["lanes"]["span_ns"] == lengths[(len(lengths) - 1) // 2]
        assert shown_steps(side)[0] == list(side.steady.steps)


def test_of_many_steps_some_are_shown_from_the_shortest_to_the_longest(tmp_path: Path) -> None:
    trace = phased(tmp_path, "many", gemm_us=[50 + at % 7 for at in range(40)])
    side = diff(trace, trace).before
    steps, middle = shown_steps(side, 5)
    spans = dict(zip(side.steady.steps, side.spans_ns.tolist(), strict=True))
    assert 5 <= len(steps) <= 6 and min(spans.values()) in [spans[step] for step in steps]  # type: ignore[index]
    assert max(spans.values()) in [spans[step] for step in steps]  # type: ignore[index]
    assert spans[steps[middle]] == np.median(list(spans.values()))  # type: ignore[index]


def test_every_event_of_a_step_is_listed_with_all_its_names(tmp_path: Path) -> None:
    found = changed(tmp_path)
    (run, _) = runs_of(found)
    shares = found.before.ranks[0].shares
    for step in run["steps"]:
        labels = [run["labels"][at] for at in numbers(step["label"])]
        rows = pl.DataFrame(labels).with_columns(dur=pl.Series(numbers(step["dur"])))
        assert sum(row["count"] for row in step["rows"]) == rows.height and step["left_out"] == 0
        for level in ("family", "kernel", "operator", "phase"):
            summary = dict(rows.group_by(level).agg(pl.col("dur").sum()).iter_rows())
            measured = shares.filter(pl.col("step") == step["step"], pl.col("part") != "idle").group_by(level)
            assert summary == dict(measured.agg(pl.col("raw_ns").sum()).iter_rows())


def test_events_go_by_the_names_that_both_runs_are_aligned_by(tmp_path: Path) -> None:
    runs = []
    for name, kernels in (("one", ["gemm_a1b2c3d4e5f6", "old_norm"]), ("other", ["gemm_f6e5d4c3b2a1", "new_norm"])):
        file = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").host("aten::norm", 20, 10, cat="cpu_op")
        for at, kernel in enumerate(kernels):
            file.kernel(kernel, 100 + 100 * at, 50, launch=20 * at + 5)
        (tmp_path / name).mkdir()
        runs.append(file.trace(tmp_path / name))
    found = diff(*runs)
    one, other = runs_of(found)
    names = [{label["name"]: label for label in run["labels"]} for run in (one, other)]
    replacement = names[0]["old_norm"]["replacement"]
    assert replacement is not None and replacement == names[1]["new_norm"]["replacement"]
    for row in diff_report(found).movers["kernel"]:
        if row["status"] == "both":
            assert [label["kernel"] for of in names for label in of.values()].count(row["name"]) == 2
        else:
            assert row["status"] == "replaced"
            assert (row["before_name"], row["after_name"]) == ("old_norm", "new_norm")


def test_a_trace_without_steps_is_one_picture(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 0, 50).kernel(GEMM, 60, 50).trace(tmp_path)
    (rank,) = rank_pictures(diff(trace, trace))
    assert rank["before"] is not None and [step["step"] for step in rank["before"]["steps"]] == [None]
    assert rank["before"]["steps"][0]["lanes"]["span_ns"] == 110_000


def test_ranks_without_their_work_are_read_again_and_said_where_they_are_gone(tmp_path: Path) -> None:
    found = changed_job(tmp_path)
    pictures = rank_pictures(found)
    assert [rank["name"] for rank in pictures] == ["rank 2", "rank 1", "rank 0"]
    assert [rank["change_ns"] for rank in pictures] == sorted(found.by_rank()["change_ns"], reverse=True)
    assert all(rank["before"] and rank["after"] and not rank["missing"] for rank in pictures)
    Path(found.after.ranks[1].path).unlink()
    second = rank_pictures(found)[1]
    assert second["before"] is not None and second["after"] is None and "after" in second["missing"][0]


def test_ranks_are_read_again_by_the_rules_that_they_were_compared_by(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "mine"\nkind = "compute"\nfamily = "mine"\nmatch = "gemm"\nsource = "a test"\n')
    found = changed_job(tmp_path)
    jobs = [
        Job(source=side.run.source, paths=tuple(rank.path for rank in side.ranks))
        for side in (found.before, found.after)
    ]
    again = diff(*jobs, rules=load_rules(rules), workers=1)
    assert "mine" not in {label["family"] for label in _labels(found)}
    assert "mine" in {label["family"] for label in _labels(again)}


def test_a_job_in_memory_is_drawn() -> None:
    ops = [
        Op(name=name, duration_ns=1000, step=step, resource=Resource(rank=rank, stream=7))
        for rank in range(2) for step in range(3) for name in ("gemm", "norm")
    ]  # fmt: skip
    traces = simulate_ranks(Plan.of(ops, name="job"))
    pictures = rank_pictures(diff(traces, traces))
    assert all(rank["before"] and rank["after"] and not rank["missing"] for rank in pictures)


def _labels(found: Diff) -> list[LabelRow]:
    return [label for rank in rank_pictures(found) if rank["before"] for label in rank["before"]["labels"]]


def test_a_saved_report_shows_its_lanes_as_the_trace_does_and_says_what_it_does_not_hold(tmp_path: Path) -> None:
    found = changed(tmp_path)
    paths = [side.ranks[0].path for side in (found.before, found.after)]
    saved = run_of_report(analyze(paths[0], timelines=False).document, "report.json")
    (rank,) = rank_pictures(diff(saved, paths[1]))
    (drawn, _) = runs_of(found)
    assert rank["before"] is not None and rank["after"] is not None and rank["after"]["steps"][0]["rows"]
    assert len(rank["before"]["steps"]) == len(drawn["steps"]) and rank["before"]["shown"] == drawn["shown"]
    for one, other in zip(rank["before"]["steps"], drawn["steps"], strict=True):
        assert one["rows"] == [] and one["step"] == other["step"]
        for key in ("span_ns", "communication_ns", "exposed_communication_ns", "busy", "exposed", "hidden"):
            assert one["lanes"][key] == other["lanes"][key], key
        for lane, like in zip(one["lanes"]["lanes"], other["lanes"]["lanes"], strict=True):
            assert lane["busy"] == like["busy"] and lane["busy_ns"] == like["busy_ns"]
            summary = [(box["name"], box["start_ns"], box["end_ns"], box["busy_ns"]) for box in lane["boxes"]]
            assert summary == [(box["name"], box["start_ns"], box["end_ns"], box["busy_ns"]) for box in like["boxes"]]
    assert rank["missing"] == ["the streams of the run before: a saved report holds lanes and no events"]
