"""What a file may ask for: each limit of `weftrace.trace.limits`, and what happens beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import ROOT
from tests.trace.chrome.files import event, names, read_text, text_of
from weftrace.errors import TraceError
from weftrace.report import analyze, build
from weftrace.report.timeline import MAX_TRACKS
from weftrace.trace import limits
from weftrace.trace.chrome import cut as chrome_cut
from weftrace.trace.chrome.facts import MANY_FACTS
from weftrace.trace.chrome.gather import CUT_NAME
from weftrace.trace.limits import FACTS, NAME_CHARS
from weftrace.units import MIB


def test_each_limit_is_documented() -> None:
    text = (ROOT / "docs/reading.md").read_text()
    table = text[text.index("## Limits") : text.index("Memory beyond the result")]
    for name, value in vars(limits).items():
        if name.isupper() and name not in ("DAMAGE_BYTES", "MIB"):
            assert (f"{value // MIB} MiB" if name.endswith("BYTES") else f"{value:,}") in table, name
    assert f"{MAX_TRACKS:,}" in table


def test_names_that_are_too_long_are_cut_and_counted() -> None:
    long = "a" * (NAME_CHARS + 1)
    calls = event("op", cat="cpu_op", tid=long, pid=long)
    trace = read_text(text_of(event(long), event(long + "b"), event("k"), event("c", cat=long), calls, calls))
    cut = "a" * (NAME_CHARS - 1) + "…"
    assert names(trace) == [cut, cut, "k", "c", "op", "op"]
    assert trace.events["cat"].to_list()[3] == cut
    assert trace.events.select("pid", "tid").row(5) == (cut, cut)
    assert trace.quality.repaired == {CUT_NAME: 7}
    whole = read_text(text_of(event("a" * NAME_CHARS)))
    assert names(whole) == ["a" * NAME_CHARS] and not whole.quality.repaired


def test_names_of_processes_and_facts_are_bounded() -> None:
    long = "p" * (NAME_CHARS + 1)
    named = {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": long}}
    facts: dict[str, Any] = {"long": long, **{f"fact{n}": n for n in range(FACTS + 5)}}
    trace = read_text(text_of(named, event(), **facts))
    assert trace.tracks[0].name == "p" * (NAME_CHARS - 1) + "…"
    assert len(trace.info) == FACTS and "long" not in trace.info
    assert trace.quality.repaired == {CUT_NAME: 1, MANY_FACTS: 6}


def test_a_file_of_many_lists_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_cut, "EVENT_LISTS", 3)
    lists = [text_of(event(f"k{n}")).strip("{}") for n in range(5)]
    trace = read_text("{" + ", ".join(lists) + "}")
    assert names(trace) == ["k0", "k1", "k2"]
    assert trace.quality.truncated == "what follows 3 lists of events was not read"


def test_arrows_at_one_place_are_joined_once() -> None:
    """1,000 kernels without a correlation, all at one time, and as many arrows to that place."""
    args = {"device": 0, "stream": 7, "correlation": 0}
    arrows = [
        {"ph": ph, "id": n, "pid": 0, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g"}
        for n in range(1, 1001)
        for ph, tid, ts in (("s", 1, 1), ("f", 7, 5))
    ]
    launch = event("cudaLaunchKernel", cat="cuda_runtime", tid=1, ts=1, args={"correlation": 0})
    trace = read_text(text_of(*(event(ts=5, args=args) for _ in range(1000)), launch, *arrows))
    assert trace.events["flow_id"].to_list() == [1] * 1001


def test_a_timeline_draws_the_busiest_threads() -> None:
    number = MAX_TRACKS + 20
    calls = [event("op", cat="cpu_op", tid=100 + n, ts=n) for n in range(number)]
    text = text_of(event("k"), *calls, event("again", cat="cpu_op", tid=100 + number - 1, ts=number + 5))
    (timeline,) = analyze(read_text(text), advice=False).timelines
    assert timeline is not None
    assert len(timeline["tracks"]) == MAX_TRACKS
    assert timeline["left_out"] == {"track": number + 1 - MAX_TRACKS}
    labels = [track["label"] for track in timeline["tracks"]]
    assert "stream 7" in labels and f"thread {100 + number - 1}" in labels


def test_memory_events_alone_are_a_report() -> None:
    """No event but the profiler's window: nothing tells which operator allocated."""
    window = event("PyTorch Profiler (0)", cat="Trace", ts=0, dur=10)
    said = {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 7}
    memory = [{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": said} for ts in (1, 2)]
    (rank,) = analyze(read_text(text_of(window, *memory))).document["ranks"]
    assert len(rank["memory"]) == 1


def of_ranks(count: int) -> str:
    """Ranks of which every other one only communicates, two events each."""
    return text_of(
        *(
            event(name, cat="x", pid=rank, tid=0, ts=10 * step, dur=5, args={"rank": rank, "step": step})
            for step in range(2)
            for rank in range(count)
            for name in (("forward",) if rank % 2 else ("all_reduce",))
        )
    )


def test_ranks_that_only_communicate_are_reported() -> None:
    assert len(analyze(read_text(of_ranks(4))).document["ranks"]) == 4


def test_a_report_of_many_ranks_with_few_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "REPORTED_RANKS", 3)
    with pytest.raises(TraceError, match="4 ranks with 8 events: a report has 3 at most, or more with 100 events each"):
        analyze(read_text(of_ranks(4)))
