"""The view in the address, and the page's events as a Chrome trace and in Perfetto's tab."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import Open, wait_until
from weftrace.report import Report, analyze, render_html
from weftrace.trace import open_trace

if TYPE_CHECKING:
    from playwright.sync_api import Page

STATE = """() => ({
  rank: weftrace.rank(), view: [weftrace.timeline.view.start, weftrace.timeline.view.end],
  selected: weftrace.timeline.stats().selected, range: weftrace.timeline.stats().range,
  find: document.getElementById("search").value,
})"""


def settled(page: Page) -> str:
    """The fragment once the address has followed: 250 ms after the last change, by the same clock."""
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    return str(page.evaluate("location.hash"))


@pytest.fixture
def two_ranks(report: Report) -> str:
    document: Any = report.document
    ranks = [{**document["ranks"][0], "rank": rank} for rank in (0, 1)]
    return render_html(document | {"ranks": ranks, "num_ranks": 2}, [*report.timelines, *report.timelines])


def test_the_address_opens_the_same_view_again(open_html: Open, two_ranks: str) -> None:
    page = open_html(two_ranks)
    before = page.evaluate("history.length")
    assert settled(page) == ""  # nothing is said of a page as it opens
    page.locator("#rank-select").select_option("1")
    page.locator("#search").fill("deep_ep::internode & 100%")
    page.evaluate("weftrace.timeline.select(5)")
    page.evaluate("weftrace.timeline.range(2000000, 4800000, true)")
    page.evaluate("weftrace.timeline.view.set(1500000, 6000000)")
    fragment = settled(page)
    view = "rank=1&view=1500000..6000000&range=2000000..4800000&event=5"
    assert fragment == f"#{view}&find=deep_ep%3A%3Ainternode%20%26%20100%25"
    assert page.evaluate("history.length") == before  # one way back: to where the reader came from
    seen = page.evaluate(STATE)
    assert seen["rank"] == 1 and seen["range"] == [2_000_000, 4_800_000] and seen["selected"] == 5
    again = open_html(two_ranks)
    again.goto(again.url + fragment)
    again.reload()
    wait_until(again, "() => Boolean(window.weftrace)")
    assert again.evaluate(STATE) == seen
    assert again.locator("#range-panel").is_visible() and again.locator("#event-panel").is_visible()
    again.evaluate("location.hash = 'view=0..1000000'")  # as a reader who edits the address
    wait_until(again, "() => weftrace.timeline.view.end === 1000000")
    assert again.evaluate(STATE) == {**seen, "rank": 0, "view": [0, 1e6], "selected": -1, "range": None, "find": ""}


def test_anchors_stay_anchors(open_html: Open, two_ranks: str) -> None:
    page = open_html(two_ranks)
    page.locator('nav a[href="#kernels"]').click()
    assert settled(page) == "#kernels"
    page.evaluate("weftrace.timeline.view.set(1500000, 6000000)")
    assert settled(page) == "#view=1500000..6000000"
    page.locator("#timeline-fit").click()
    assert settled(page) == ""


def test_bad_fragments_are_ignored(open_html: Open, two_ranks: str) -> None:
    page = open_html(two_ranks)
    wanted = page.evaluate(STATE)
    for bad in ("rank=7", "rank=-1", "view=9..3", "view=a..b", "view=", "event=99999999", "find=%", "range=1", "=",
                "x=1&y=2", "rank=1e9&event=0.5"):  # fmt: skip
        page.evaluate("(bad) => { location.hash = bad; }", bad)
        page.evaluate("new Promise((done) => setTimeout(done, 50))")
        assert page.evaluate(STATE) == wanted, bad


# ---- as a Chrome trace


def test_the_saved_trace_is_read_back_to_the_same_numbers(open_html: Open, report: Report, tmp_path: Path) -> None:
    page = open_html(render_html(report.document, report.timelines))
    page.locator("#trace-menu summary").click()
    page.locator("#trace-said", has_text="nothing is uploaded").wait_for()  # said once the menu has opened
    with page.expect_download() as download:
        page.locator("#trace-save").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    timeline: Any = report.timelines[0]
    assert sum(event["ph"] == "X" for event in events) == timeline["num_events"]
    again = analyze(open_trace(path)).document["ranks"][0]
    rank = report.document["ranks"][0]
    for key in ("span_ns", "compute_ns", "communication_ns", "hidden_communication_ns", "exposed_memory_ns", "idle_ns"):
        assert again[key] == rank[key], key
    assert again["launch"]["num_linked"] == rank["launch"]["num_linked"]


def test_a_plain_trace_is_read_back_to_the_same_numbers_too(open_html: Open, tmp_path: Path) -> None:
    """Ranges that stand for work are saved as kernels of what they were taken for, whatever their names."""
    summary: list[dict[str, Any]] = [
        {"name": "forward", "ts": 0, "dur": 100, "args": {"rank": rank, "step": 1}} for rank in range(2)
    ]
    summary += [
        {"name": "grads_sync", "ts": 80, "dur": 50, "tid": 1, "args": {"rank": rank, "step": 1}} for rank in (0, 1)
    ]
    summary += [{"name": "all_reduce", "ts": 140, "dur": 30, "tid": 1, "args": {"rank": r, "step": 1}} for r in (0, 1)]
    (tmp_path / "job.json").write_text(
        json.dumps([{"ph": "X", "pid": e["args"]["rank"], "tid": 0, **e} for e in summary])
    )
    report = analyze(tmp_path / "job.json")
    rank = report.document["ranks"][0]
    assert rank["basis"] == "ranges" and rank["communication_ns"] > 0 and rank["idle_ns"] == 10_000
    page = open_html(render_html(report.document, report.timelines))
    page.locator("#trace-menu summary").click()
    with page.expect_download() as download:
        page.locator("#trace-save").click()
    download.value.save_as(tmp_path / "saved.json")
    again = analyze(tmp_path / "saved.json").document["ranks"][0]
    for key in ("span_ns", "compute_ns", "communication_ns", "hidden_communication_ns", "exposed_memory_ns", "idle_ns"):
        assert again[key] == rank[key], key


def test_the_document_names_each_part_of_the_address() -> None:
    root = Path(__file__).resolve().parents[2]
    written = (root / "src/weftrace/report/render/static/fragment.js").read_text("utf-8")
    table = (root / "docs/report.md").read_text("utf-8").split("## Send what you see")[1].split("\n## ")[0]
    parts = set(re.findall(r"`(\w+)=\$", written))
    assert parts >= {"all", "rank", "view"}
    assert parts == {
        part for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for part in re.findall(r"`(\w+)`", row)
    }


#: Perfetto's tab, played by an empty frame: it answers the second PING, as a page that is still starting does.
PERFETTO = """(answering) => {
  const frame = document.createElement("iframe");
  document.body.append(frame);
  const tab = frame.contentWindow;
  window.heard = [];
  tab.postMessage = (data, origin) => {
    window.heard.push([data, origin]);
    if (answering && window.heard.length === 2)
      window.dispatchEvent(new MessageEvent("message", { data: "PONG", source: tab }));
  };
  window.opened = [];
  window.open = (address) => { window.opened.push(address); return tab; };
  Object.defineProperty(navigator, "onLine", { value: true, configurable: true });
}"""


def test_perfetto_gets_the_events_after_it_answered(open_html: Open, html: str, report: Report) -> None:
    page = open_html(html)
    page.evaluate(PERFETTO, True)
    page.locator("#trace-menu summary").click()
    page.locator("#trace-perfetto").click()
    wait_until(page, "() => window.heard.some(([data]) => data.perfetto)")
    assert page.evaluate("window.opened") == ["https://ui.perfetto.dev"]
    heard = page.evaluate("""() => window.heard.map(([data, origin]) => [
      data.perfetto ? { ...data.perfetto, buffer: new TextDecoder().decode(data.perfetto.buffer) } : data, origin])""")
    assert {origin for _, origin in heard} == {"https://ui.perfetto.dev"}  # nobody else can read it
    assert [data for data, _ in heard[:-1]] == ["PING"] * (len(heard) - 1)
    handed = heard[-1][0]
    assert handed["fileName"].endswith(".json") and handed["title"].startswith(report.document["source"])
    num: Any = report.timelines[0]
    assert sum(event["ph"] == "X" for event in json.loads(handed["buffer"])["traceEvents"]) == num["num_events"]
    assert f"{num['num_events']:,} events" in page.locator("#trace-said").inner_text()


def test_without_a_network_or_with_pop_ups_blocked_the_page_says_what_to_do(open_html: Open, html: str) -> None:
    page = open_html(html)
    page.evaluate("Object.defineProperty(navigator, 'onLine', { value: false, configurable: true })")
    page.locator("#trace-menu summary").click()
    page.locator("#trace-perfetto").click()
    assert "There is no network" in page.locator("#trace-said").inner_text()
    page.evaluate(PERFETTO, False)
    page.evaluate("window.open = () => null")
    page.locator("#trace-perfetto").click()
    assert "allow pop-ups" in page.locator("#trace-said").inner_text()
