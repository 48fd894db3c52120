"""A saved report stands for its trace: what changed is the same to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.analysis.random_traces import traces
from tests.cli.test_cli import Run as RunCommand
from tests.cli.test_cli import run
from tests.comparison.test_named_steps import decode
from tests.comparison.test_straggler_attribution import check_parts, work_and_meet
from tests.fuzz import examples
from weftrace.analysis.step_shares import SUMS, step_shares
from weftrace.analysis.step_shares_document import shares_document, shares_from
from weftrace.comparison.diffs import Diff, diff
from weftrace.comparison.runs import Run, run_of
from weftrace.comparison.saved_reports import is_report, run_of_report
from weftrace.errors import DocumentError, TraceError
from weftrace.files.documents import write_document
from weftrace.report import analyze
from weftrace.trace import Job, Trace
from weftrace.units import US

__all__ = ["run"]  # the fixture


def saved(source: Path | Trace | Job) -> Run:
    """A report, to JSON and back."""
    document = analyze(source, timelines=False, workers=1).document
    return run_of_report(json.loads(json.dumps(document)), "report.json")


def check_same(one: Diff, other: Diff) -> None:
    assert_frame_equal(one.changes, other.changes)
    assert_frame_equal(one.by_rank(), other.by_rank())
    assert (one.spans, one.is_noise, one.change_ns) == (other.spans, other.is_noise, other.change_ns)
    assert one.verdict == other.verdict
    assert [side.steady for side in (one.before, one.after)] == [side.steady for side in (other.before, other.after)]


@settings(max_examples=examples(8), deadline=None)
@given(before=traces(), after=traces())
def test_a_report_and_a_trace_differ_as_the_traces_do(before: Trace, after: Trace) -> None:
    one, other = run_of(before), run_of(after)
    found = diff(one, other)
    check_same(diff(saved(before), other), found)
    check_same(diff(one, saved(after)), found)


def test_a_report_of_a_job_stands_for_its_ranks(tmp_path: Path) -> None:
    """With what they waited for late ranks, told on clocks that differ."""
    ahead = {1: 40_000 * US, 2: -7_000 * US, 3: 3_000 * US}
    before = work_and_meet(4, ahead=ahead, jitter=US).write(tmp_path / "before")
    after = work_and_meet(4, late=2, delay=500 * US, jitter=US).write(tmp_path / "after")
    report = tmp_path / "baseline.json"
    write_document(analyze(before, timelines=False, workers=1).document, report)
    found = diff(report, after, workers=1)
    check_same(found, diff(before, after, workers=1))
    check_parts(found.before)
    assert found.by("part", "cause").row(0, named=True)["cause"] == "rank 2"
    # and one rank of it for that rank's trace
    check_same(diff(report, after / "rank1.json", workers=1), diff(before, after / "rank1.json", workers=1))


@pytest.mark.parametrize("ending", [".json", ".json.gz", ".json.zst"])
def test_a_report_is_known_by_its_head(tmp_path: Path, ending: str) -> None:
    job = work_and_meet(2).write(tmp_path / "job")
    report = tmp_path / f"baseline{ending}"
    write_document(analyze(job, timelines=False, workers=1).document, report)
    assert is_report(report) and not is_report(job / "rank0.json") and not is_report(job)
    assert [rank.steps for rank in run_of(report).ranks] == [tuple(range(6))] * 2


def test_the_command_takes_a_report_on_either_side(run: RunCommand, tmp_path: Path) -> None:
    job = work_and_meet(3).write(tmp_path / "job")
    report = tmp_path / "baseline.json.gz"
    write_document(analyze(job, timelines=False, workers=1).document, report)
    for paths in ((report, job), (job, report), (report, report)):
        code, out, err = run("diff", *map(str, paths), "--workers", "1", "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert document["change_ns"] == 0 and not any(part["change_ns"] for part in document["parts"])
    _, out, _ = run("diff", str(report), str(job), "--ranks", "1", "--workers", "1", "--json")
    assert [rank["rank"] for rank in json.loads(out)["before"]["ranks"]] == [1]


def test_recorded_traces(shared_data: Path) -> None:
    h100, mi300 = (shared_data / f"tracelens-{name}-bert-small.json.gz" for name in ("h100", "mi300"))
    check_same(diff(saved(h100), mi300), diff(h100, mi300))


def test_ranges_that_stand_for_steps(tmp_path: Path) -> None:
    """And for none, where the other run has none of their name."""
    before, after = decode(tmp_path / "a", 4), decode(tmp_path / "b", 7, gemm_us=20)
    other = decode(tmp_path / "c", 5, named="forward_{0}")
    assert saved(before).ranks[0].steps == (0, 1, 2, 3)
    check_same(diff(saved(before), after), diff(before, after))
    check_same(diff(saved(before), other), diff(before, other))
    assert diff(saved(before), after).notes == diff(before, after).notes


@settings(max_examples=examples(25), deadline=None)
@given(trace=traces(), most=st.integers(1, 6))
def test_what_is_merged_still_adds_up(trace: Trace, most: int) -> None:
    from weftrace.trace import work_of

    shared = step_shares(work_of(trace))
    document = shares_document(shared, None, zero_ns=0, most_labels=most)
    few, _ = shares_from(document, zero_ns=0)
    by = ("step", "part", "cause", "kind")
    rows = shared.shares.filter(pl.col("step").is_not_null() | pl.lit(shared.windows.is_empty()))
    every, merged = (each.group_by(by).agg(pl.col(SUMS).sum()).sort(by) for each in (rows, few.shares))
    assert_frame_equal(every, merged)
    assert_frame_equal(few.windows, shared.windows)


def test_a_report_that_merged_rows_is_compared_with_the_same_rows_merged(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = shared_data / "tracelens-h100-bert-small.json.gz"
    monkeypatch.setattr("weftrace.report.document.MOST_LABELS", 9)
    monkeypatch.setattr("weftrace.report.document._LEAST_LABELS", 9)
    found = diff(saved(trace), trace)
    assert found.before.shares.filter(kernel="other").height
    assert not found.changes["change_ns"].abs().sum() and found.change_ns == 0
    assert 'before: a report, which names the largest kernels: 18 smaller rows are "other"' in found.notes


def test_pages_do_not_hold_it(tmp_path: Path) -> None:
    from weftrace.report.render.page import render_html

    report = analyze(work_and_meet(2).write(tmp_path), timelines=False, workers=1)
    page = render_html(report.document, ())
    assert '"hidden_ns":' in page and '"beside_ns":' not in page


def test_of_many_steps_some_are_kept(tmp_path: Path) -> None:
    shared = step_shares(_work(tmp_path))
    few, _ = shares_from(shares_document(shared, None, zero_ns=0, most_steps=3), zero_ns=0)
    assert few.windows["step"].to_list() == [0, 2, 5]
    assert few.shares["step"].unique(maintain_order=True).to_list() == [0, 2, 5]


def _work(folder: Path) -> Any:
    from weftrace.trace import read_chrome, work_of

    return work_of(read_chrome(work_and_meet(2).write(folder) / "rank0.json"))


def test_a_report_that_holds_too_little_says_what_to_do(tmp_path: Path) -> None:
    trace = work_and_meet(2).write(tmp_path / "job") / "rank0.json"
    document: dict[str, Any] = json.loads(json.dumps(analyze(trace, timelines=False).document))
    del document["ranks"][0]["shares"]
    report = tmp_path / "old.json"
    write_document(document, report)
    with pytest.raises(DocumentError, match=r"old.json.*report TRACE -o report.json"):
        run_of(report)
    report.write_text('{"schema": "weftrace.report/1"')
    with pytest.raises(DocumentError, match="cut off"):
        run_of(report)
    with pytest.raises(TraceError, match="no such file"):
        run_of(tmp_path / "none.json")


def test_a_report_that_holds_a_rank_twice_or_a_negative_span_is_refused(tmp_path: Path) -> None:
    job = work_and_meet(2).write(tmp_path / "job")
    document: Any = analyze(job, timelines=False, workers=1).document
    twice = {**document, "ranks": [*document["ranks"], document["ranks"][0]]}
    with pytest.raises(DocumentError, match=r"the same rank a second time - at `\$\.ranks\[2\]`"):
        run_of_report(twice, "r.json")
    shorter = {**document, "ranks": [{**document["ranks"][0], "span_ns": -5}]}
    with pytest.raises(DocumentError, match=r"\$\.ranks\[0\]\.span_ns"):
        run_of_report(shorter, "r.json")
