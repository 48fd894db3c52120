"""The few doors: whatever wing a value is of, `show`, `save`, `load` and `figure` take it, or say what they would."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from rich.console import Console

import weftrace as wt
from tests.flops.small_reports import TINY
from weftrace.errors import DocumentError, OutputError, TraceError
from weftrace.outputs import writers
from weftrace.plan import deepseek_training_layers
from weftrace.report.build import OwnOptions, ReportOptions
from weftrace.wings import outputs


@pytest.fixture(scope="module")
def trace() -> wt.Trace:
    return wt.simulate(deepseek_training_layers(2))


@pytest.fixture(scope="module")
def report(trace: wt.Trace) -> wt.Report:
    return wt.analyze(trace)


def shown(value: object) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    wt.show(value, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_few_names_stand_at_the_top() -> None:
    assert len(wt.__all__) <= 24, wt.__all__
    assert {"open", "load", "show", "save", "figure", "analyze", "simulate", "balance", "replan"} <= set(wt.__all__)
    assert {"Trace", "Job", "Plan", "Placement", "FlopsReport", "Report", "WeftraceError"} <= set(wt.__all__)


def test_the_rest_is_found_by_wing(trace: wt.Trace) -> None:
    assert wt.analysis.overlap(trace).communication_ns > 0
    assert callable(wt.experts.certify) and callable(wt.flops.roofline) and callable(wt.plan.check)


@pytest.mark.advised
def test_a_trace_a_job_and_a_report_show_the_same(trace: wt.Trace, report: wt.Report, tmp_path: Path) -> None:
    wt.save(trace, tmp_path / "rank0.json.gz")
    summary = shown(report)
    assert report.document["headline"] in re.sub(r"\s+", " ", summary)
    assert shown(trace) == summary
    job = wt.open(tmp_path, ranks=[0])
    assert report.document["headline"] in re.sub(r"\s+", " ", shown(job))


def test_a_trace_is_saved_as_a_trace_and_as_a_page(trace: wt.Trace, tmp_path: Path) -> None:
    wt.save(trace, tmp_path / "t.json.gz", tmp_path / "t.parquet", tmp_path / "t.html")
    for name in ("t.json.gz", "t.parquet"):
        assert wt.open(tmp_path / name) == trace
    assert "weftrace-timeline-0" in (tmp_path / "t.html").read_text()


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst"])
def test_a_report_comes_back_from_its_document(report: wt.Report, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    wt.save(report, path)
    again = wt.load(path)
    assert isinstance(again, wt.Report)
    assert again.document == json.loads(json.dumps(report.document))
    assert shown(again) == shown(report)


def test_a_plan_comes_back_from_its_document(tmp_path: Path) -> None:
    plan = deepseek_training_layers(2)
    for name in ("plan.json.gz", "plan.parquet"):
        wt.save(plan, tmp_path / name)
        assert wt.load(tmp_path / name) == plan


def test_an_ending_that_says_nothing_is_refused_with_those_that_do(report: wt.Report, tmp_path: Path) -> None:
    with pytest.raises(
        OutputError, match=r"report\.xlsx: its ending .* \.html, \.md, \.csv, \.json, \.json\.gz, \.json\.zst"
    ):
        wt.save(report, tmp_path / "report.xlsx")
    with pytest.raises(OutputError, match="ending"):
        wt.save(object(), tmp_path / "x.json")


def test_an_input_is_never_overwritten(trace: wt.Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    wt.save(trace, path)
    before = path.read_bytes()
    (tmp_path / "link.json.gz").symlink_to(path)
    again = wt.open(path)
    for value in (again, wt.analyze(again), wt.analyze(wt.open(tmp_path, ranks=[0]))):
        for same in (path, tmp_path / "link.json.gz"):
            with pytest.raises(OutputError, match="never overwritten"):
                wt.save(value, same)
    assert path.read_bytes() == before


def test_what_is_no_document_of_ours_is_told_apart(trace: wt.Trace, tmp_path: Path) -> None:
    wt.save(trace, tmp_path / "t.json")
    with pytest.raises(DocumentError, match=r"t\.json: .*weftrace\.open"):
        wt.load(tmp_path / "t.json")
    texts = {
        "list.json": ("[1]", "array"),
        "other.json": ('{"schema": "x/1"}', "'x/1'"),
        "cut.json": ('{"a', "cut off"),
    }
    for name, (text, summary) in texts.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(DocumentError, match=f"{name}: .*{summary}"):
            wt.load(tmp_path / name)
    (tmp_path / "cut.json.gz").write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(DocumentError, match=r"cut\.json\.gz: a compressed file"):
        wt.load(tmp_path / "cut.json.gz")
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        wt.load(tmp_path / "absent.json")


def test_what_has_no_summary_is_told_as_in_a_notebook(trace: wt.Trace) -> None:
    summary = shown(wt.plan.deepseek_training_layers(2))
    assert (summary.startswith("Plan\n") and "112 ops" in summary.replace(",", "")) or "ops" in summary
    assert "hidden" in shown(wt.analysis.overlap(trace))


def test_a_value_is_told_in_a_line_at_the_prompt(report: wt.Report) -> None:
    assert repr(report) == f"<Report: {report.document['headline']}>"


def test_what_follows_from_a_value_is_worked_out_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []
    home = sys.modules["weftrace.flops.derived.account"]
    columns = home.columns

    def counted(*given: object) -> object:
        calls.append(given)
        return columns(*given)

    monkeypatch.setattr(home, "columns", counted)
    wt.save(TINY, tmp_path / "a.html", tmp_path / "a.json", tmp_path / "a.csv", tmp_path / "a.md")
    assert len(calls) == 1


def test_what_cannot_be_shown_or_drawn_says_so(report: wt.Report) -> None:
    with pytest.raises(wt.WeftraceError, match="a set is not a value"):
        wt.show(set())
    with pytest.raises(wt.WeftraceError, match="a set has no figures"):
        wt.figure(set())
    with pytest.raises(wt.WeftraceError, match="no figure 'pie'; choose from lanes, breakdown, overlap"):
        wt.figure(report, "pie")


def test_figures_are_found_by_name(trace: wt.Trace, report: wt.Report) -> None:
    pytest.importorskip("plotly")
    assert wt.figure(report).layout == wt.figure(report, "lanes").layout == wt.figure(trace, "lanes").layout
    for name in ("breakdown", "overlap", "kernels", "idle", "ranks"):
        assert wt.figure(report, name).data


def test_every_kind_can_leave_the_house() -> None:
    """Each kind shows itself, is saved as something or drawn; each that has a schema can be loaded."""
    for kind in outputs():
        assert kind.show is not None or kind.save or kind.document or kind.figures, kind.value
        assert not kind.schema or kind.load is not None, kind.value
        assert all("." in suffix for suffix in writers(kind))  # or the end of a name, as annotated.json


def test_several_files_are_one_job(trace: wt.Trace, tmp_path: Path) -> None:
    for rank in (1, 0):
        wt.save(trace, tmp_path / f"rank{rank}.json.gz")
    job = wt.open(tmp_path / "rank1.json.gz", tmp_path / "rank0.json.gz", tmp_path / "rank*.json.gz")
    assert isinstance(job, wt.Job)
    assert [Path(path).name for path in job.paths] == ["rank0.json.gz", "rank1.json.gz"]
    with pytest.raises(TraceError, match="no trace is named"):
        wt.open()


def test_a_report_shows_itself_in_a_notebook(report: wt.Report) -> None:
    table, picture = report._repr_html_().split("<img")
    assert report.document["headline"] in table and len(table) < 4_000 and len(picture) < 400_000


def test_what_a_report_is_made_of_is_told_by_a_value_or_by_keywords(trace: wt.Trace) -> None:
    """Keywords have the types that the value's fields have; one that is none is an error."""
    kinds = {name: kind.__forward_arg__ for name, kind in OwnOptions.__annotations__.items()}
    assert kinds == {field.name: field.type for field in fields(ReportOptions)}
    by_value, by_name = wt.analyze(trace, ReportOptions(timelines=False)), wt.analyze(trace, timelines=False)
    assert by_value.document == by_name.document and by_value.timelines == by_name.timelines
    with pytest.raises(TypeError, match="timeline"):
        wt.analyze(trace, timeline=False)  # type: ignore[call-arg]
