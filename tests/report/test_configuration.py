"""A report shows how a trace was made, where the trace says it, and is silent where it does not."""

from __future__ import annotations

import json
from pathlib import Path

from tests.report.test_terminal import drawn, report
from tests.tracefile import GEMM, TraceFile
from weftrace.render.configuration import CONFIGURATION
from weftrace.report import Report, analyze, render_html

TOLD = {
    "capture.dropped_steps": "3", "capture.torch": "2.10.0+cu128", "profile.overlap": "two-micro-batches",
    "profile.kind": "prefill", "profile.ep": "32", "profile.new": "\x1b[31m</script> " + "long " * 60,
}  # fmt: skip


def report_of(folder: Path, summary: dict[str, str]) -> Report:
    file = TraceFile(rank=0)
    file.kernel(GEMM, 10, 5)
    path = folder / "rank0.json"
    path.write_text(json.dumps({**file.facts, "weftrace": summary, "traceEvents": file.events}))
    return analyze(path)


def test_a_report_holds_the_configuration_as_the_trace_tells_it(tmp_path: Path) -> None:
    (rank,) = report_of(tmp_path, TOLD).document["ranks"]
    assert list(rank["configuration"].items()) == list(TOLD.items())


def test_the_terminal_says_it_in_a_block(tmp_path: Path) -> None:
    document = report_of(tmp_path, TOLD).document
    for width in (60, 80, 140):
        text = drawn(report, document, width=width)
        assert "Configuration" in text and "\x1b" not in text
        for key in ("profile.kind", "profile.ep", "capture.torch"):
            term = CONFIGURATION[key][0]
            (line,) = [line for line in text.splitlines() if line.startswith(term + "  ")]
            assert line.split(term)[1].strip() == TOLD[key]
        assert max(map(len, text.splitlines())) <= width


def test_a_trace_that_says_nothing_has_no_block(tmp_path: Path) -> None:
    made = report_of(tmp_path, {})
    assert "configuration" not in made.document["ranks"][0]
    assert "Configuration" not in drawn(report, made.document, width=80)
    assert '"profile.kind"' not in render_html(made.document, made.timelines)


def test_the_page_defines_the_terms_that_it_shows(tmp_path: Path) -> None:
    made = report_of(tmp_path, TOLD)
    page = render_html(made.document, made.timelines)
    terms = json.loads(page.split('id="weftrace-terms">')[1].split("</script>")[0])
    assert terms["profile.ep"] == list(CONFIGURATION["profile.ep"])
    assert "profile.comm" not in terms and "profile.new" not in terms
