"""The page as text: one file, safe whatever a trace calls its kernels, and small."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import polars as pl
import pytest

import weftrace as wt
from tests.fuzz import few
from tests.pages import check_modules, page_blocks, rows_of
from tests.report import documents
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.efficiency import OperatorRateRow, ShapeRow
from weftrace.analysis.rank_tables import TABLES, tables_terms
from weftrace.errors import DocumentError
from weftrace.files.schemas import schemas
from weftrace.render.findings_parts import FINDING_TERMS
from weftrace.render.page import content_policy
from weftrace.report import Report, analyze, document_of, render_html
from weftrace.report.render import lanes_page
from weftrace.report.render.page import ENTRY, HOME, TimelineBlock
from weftrace.report.render.words import TERMS
from weftrace.trace import Trace
from weftrace.trace.model import Device, events_frame

MB = 1_000_000


def blocks(html: str) -> dict[str, Any]:
    """The page's JSON blocks by id, as they were."""
    return {name: rows_of(value) for name, value in page_blocks(html).items()}


def report_of(held: dict[str, Any]) -> dict[str, Any]:
    """The document of a page's blocks: ranks with what lies in blocks of their own."""
    report = {name: value for name, value in held["weftrace-report"].items() if name != "details"}
    ranks = []
    for number, rank in enumerate(report["ranks"]):
        own = held[f"weftrace-rank-{number}"]
        lanes = [{**lane, **later} for lane, later in zip(rank["lanes"], own["lane"], strict=True)]
        ranks.append({**rank, **own["rank"], "lanes": lanes})
        if "idle_account" in rank:
            ranks[-1]["idle_account"] = {**rank["idle_account"], **own["idle_account"]}
    return {**report, "ranks": ranks}


def timeline_of(report: Report) -> Any:
    timeline = report.timelines[0]
    assert timeline is not None
    return timeline


def test_page_holds_the_document_and_its_timeline(report: Report, html: str) -> None:
    held = blocks(html)
    told = {key: value for key, value in report.document.items() if key != "advice"}  # whose cards are a block
    ranks = [{key: value for key, value in rank.items() if key != "shares"} for rank in report.document["ranks"]]
    assert report_of(held) == {**told, "ranks": ranks}
    assert held["weftrace-advice"]["cards"]
    assert held["weftrace-timeline-0"] == {**timeline_of(report), "shift_ns": 0}
    msgspec.convert(held["weftrace-timeline-0"], TimelineBlock)
    assert set(held["weftrace-timeline-0"]) == set(TimelineBlock.__annotations__)
    tables = {name for rank in report.document["ranks"] for name in rank.get("tables", {})}
    terms = {**TERMS, **FINDING_TERMS, **tables_terms(tables)}
    assert held["weftrace-terms"] == {key: list(term) for key, term in terms.items()}


def test_page_is_one_file_that_reaches_nothing(html: str) -> None:
    tags = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href|action)="(?!#|data:)[^"]*"', tags)
    assert "@import" not in html
    assert "url(" not in html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]


def test_a_name_that_closes_the_script_stays_inside_it() -> None:
    html = render_html(documents.hostile(), [])
    assert "<img" not in html
    assert html.count("</script>") == 5  # blocks of the document, its rank, the terms, the columns; the page's script
    assert report_of(blocks(html))["ranks"][0]["kernels"][0]["name"] == documents.HOSTILE
    html.encode("utf-8")  # a lone surrogate in a name does not stop the page from being written


def test_timelines_may_be_missing(report: Report) -> None:
    document = report.document
    assert "weftrace-timeline-0" not in blocks(render_html(document, []))
    assert "weftrace-timeline-0" not in blocks(render_html(document, [None]))


def test_shift_joins_a_timeline_to_a_rank_that_starts_elsewhere(report: Report) -> None:
    timeline: Any = {**timeline_of(report), "start_ns": report.document["ranks"][0]["start_ns"] + 7}
    assert blocks(render_html(report.document, [timeline]))["weftrace-timeline-0"]["shift_ns"] == 7


def test_nan_is_refused() -> None:
    document = documents.document()
    document["ranks"][0]["hidden_fraction"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        render_html(document, [])


def test_modules_are_joined_after_what_they_import() -> None:
    check_modules(HOME, [ENTRY, lanes_page.ENTRY])


def test_policy_changes_with_the_script() -> None:
    assert content_policy("a", "style") != content_policy("b", "style")


@pytest.mark.parametrize(
    "name",
    few(
        [
            "document",
            "job",
            "many_layers",
            "no_communication",
            "cpu_only",
            "partial",
            "no_phases",
            "nothing",
            "hostile",
        ],
        5,
    ),
)
def test_documents_fit_the_schema(name: str) -> None:
    validator().validate(getattr(documents, name)())


def test_a_real_report_fits_the_schema(report: Report) -> None:
    validator().validate(json.loads(json.dumps(report.document)))


def test_a_document_that_was_read_is_checked_against_its_type(tmp_path: Path) -> None:
    """What is printed and drawn relies on every field: a file without one is refused with the field's place."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(documents.document()))
    assert wt.load(path).document == documents.document()
    breaks: dict[str, Callable[[Any], object]] = {
        "missing required field `lanes` - at `$.ranks[0]`": lambda rank: rank.pop("lanes"),
        "$.ranks[0].span_ns": lambda rank: rank.update(span_ns="long"),
        "missing required field `share` - at `$.ranks[0].kernels[0]`": lambda rank: rank["kernels"][0].pop("share"),
    }
    for place, change in breaks.items():
        broken = documents.document()
        change(broken["ranks"][0])
        path.write_text(json.dumps(broken))
        with pytest.raises(DocumentError) as summary:
            wt.load(path)
        assert f"{path}: not a weftrace.report/1 document" in str(summary.value) and place in str(summary.value)


def report_schema() -> dict[str, Any]:
    return next(each for each in schemas() if each.schema == "weftrace.report/1").json_schema()


def validator() -> jsonschema.Draft202012Validator:
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


#: Types of the block of advice, whose fields docs/advise.md explains.
ADVICE = ("AdviceReport", "Finding", "Gain", "Number", "Where", "Remedy", "NotFound")


def test_every_field_of_the_schema_is_explained() -> None:
    from tests.conftest import ROOT

    text = (ROOT / "docs" / "report-json.md").read_text("utf-8")
    names: set[str] = set()

    def collect(schema: Any) -> None:
        if isinstance(schema, dict):
            names.update(schema.get("properties", {}))
            for key, value in schema.items():
                if key not in ADVICE:
                    collect(value)
        elif isinstance(schema, list):
            for value in schema:
                collect(value)

    collect(report_schema())
    # Columns of `tables`, and of efficiency, are explained by the schema, and on the page; those of shapes in query.md.
    names -= {column for table in TABLES.values() for column in table.row.__annotations__}
    names -= {*ShapeRow.__annotations__, *OperatorRateRow.__annotations__}
    assert not [name for name in sorted(names) if f"`{name}`" not in text]


def test_200000_events_stay_under_15_mb() -> None:
    made = analyze(many_events(200_000))
    html = render_html(made.document, made.timelines)
    assert timeline_of(made)["num_events"] == 200_000
    assert not timeline_of(made)["left_out"]
    assert len(html.encode("utf-8")) < 15 * MB


def test_names_cannot_swell_the_page() -> None:
    """100,000 different names of 2,000 characters are 200 MB; the page says that it cut them."""
    trace = many_events(100_000, name_chars=2_000)
    made = analyze(trace)
    rank = made.document["ranks"][0] | {"kernels": [], "unnamed": []}
    html = render_html({**made.document, "ranks": [rank]}, made.timelines)
    assert timeline_of(made)["shortened_names"] > 0
    assert len(html.encode("utf-8")) < 15 * MB


def test_a_job_of_64_ranks_fits_a_page(tmp_path: Path) -> None:
    """Each rank of 10,000 phases: together they list no more than a page can hold, and what they list is as busy."""
    file = TraceFile()
    for number in range(10_000):
        file.host(f"layer{number % 40}(F)", 10 * number, 9)
        file.kernel(GEMM, 10 * number + 1, 5 + number % 4, launch=10 * number + 1)
    analysis = analyze(file.trace(tmp_path), timelines=False).analysis
    assert analysis is not None
    one = analysis.ranks[0]
    assert len(document_of(analysis)["ranks"][0]["phases"]) == 10_000
    ranks = tuple(replace(one, rank=rank) for rank in range(64))
    held = document_of(replace(analysis, ranks=ranks))["ranks"]
    lane = held[0]["lanes"][0]
    assert 1_000 < len(lane["boxes"]) <= 100_000 // 64 and 1_000 < len(held[0]["phases"]) <= 100_000 // 64
    assert held[0]["num_phases"] == 10_000
    assert sum(box["busy_ns"] for box in lane["boxes"]) == lane["busy_ns"] == one.lanes[0].busy_ns
    assert lane["boxes"][0]["name"].endswith("(F) and others")
    assert sum(len(json.dumps(rank, separators=(",", ":"))) for rank in held) < 64 * MB


def test_the_page_of_a_job_is_small_beside_its_document(tmp_path: Path) -> None:
    """And the same bytes every time. Blocks are compared: the script is the same for all."""
    file = TraceFile()
    for number in range(2_000):
        file.host(f"layer{number % 40}(F)", 10 * number, 9)
        file.kernel(GEMM, 10 * number + 1, 5 + number * 7919 % 4, launch=10 * number + 1)
    analysis = analyze(file.trace(tmp_path), timelines=False).analysis
    assert analysis is not None
    job = document_of(replace(analysis, ranks=tuple(replace(analysis.ranks[0], rank=rank) for rank in range(4))))
    html = render_html(job, [])
    assert html == render_html(job, [])
    assert len(html) - len(render_html(documents.nothing(), [])) < len(json.dumps(job)) / 8


def many_events(number: int, *, name_chars: int = 0) -> Trace:
    """A trace of half device events on three streams and half host operators on four threads, over 2 s.

    name_chars: 0 for 300 names; else every host operator has a name of its own, so long.
    """
    device, host = number // 2, number - number // 2
    random = np.random.default_rng(7)
    starts = np.concatenate([np.sort(random.integers(0, 2_000_000_000, size)) for size in (device, host)])
    number_of = np.arange(number)
    long = "x" * name_chars
    frame = pl.DataFrame(
        {
            "name": [
                f"void gemm_{i % 300}<float>(int)" if i % 5 else "ncclDevKernel_AllReduce_Sum()" for i in range(device)
            ]
            + [f"aten::op{i if name_chars else i % 300}{long}" for i in range(host)],
            "cat": ["kernel"] * device + ["cpu_op"] * host,
            "pid": ["0"] * device + ["1"] * host,
            "tid": [str(7 + i % 3) for i in range(device)] + [str(i % 4) for i in range(host)],
            "ts_ns": 1_740_000_000_000_000_000 + starts,
            "dur_ns": random.integers(500, 30_000, number),
            "device": [0] * device + [None] * host,
            "stream": [7 + i % 3 for i in range(device)] + [None] * host,
            "correlation": number_of + 1,
        }
    )
    columns = {name: frame.get_column(name) for name in frame.columns}
    return Trace(
        events=events_frame(columns, number), path="many.json", rank=0, world_size=1,
        devices=(Device(id=0, name="NVIDIA H800", num_sms=132),),
    )  # fmt: skip
