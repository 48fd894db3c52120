"""What docs/coming-from.md says of another tool beside weftrace's own numbers, on the recorded traces.

The other tool's numbers are what HolisticTraceAnalysis 0.5.0 gave for the same files: constants, since it is not
installed here (`make bench` installs it, and compares the two on a made trace).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import weftrace
from weftrace.errors import TraceError
from weftrace.report import analyze

PAGE = (Path(__file__).resolve().parents[1] / "docs/coming-from.md").read_text()


def rank_of(trace: Path, **options: Any) -> Any:
    return analyze(trace, timelines=False, **options).document["ranks"][0]


def row(begins: str) -> list[str]:
    """The cells of the table's row that begins so: the other tool's, weftrace's, and why."""
    (cells,) = re.findall(rf"^\| {re.escape(begins)} \| (.+) \|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in cells.split(" | ")]


def us(ns: int) -> str:
    return f"{ns / 1000:,.3f}".removesuffix(".000") + " µs"


def test_weftrace_side_of_the_table_of_numbers(shared_data: Path) -> None:
    deepseek = rank_of(shared_data / "deepseek-v3-train.json.gz")
    assert row("DeepSeek-V3's profile, compute")[1] == f"{deepseek['compute_ns'] / deepseek['span_ns']:.1%}".replace(
        "%", " %"
    )
    assert row("the same, overlap")[1] == f"{deepseek['hidden_fraction']:.1%}".replace("%", " %")
    bert = rank_of(shared_data / "tracelens-h100-bert-small.json.gz")
    assert row("BERT on an H100, compute")[1] == us(bert["compute_ns"])
    assert row("the same, idle")[1] == us(bert["idle_ns"])
    ranks = [rank_of(shared_data / f"hta-two-ranks/sampled_rank-{rank}.json.gz") for rank in (0, 1)]
    assert row("two ranks of a job, kernel time of rank 0")[1] == us(ranks[0]["span_ns"])
    assert (
        row("the same, overlap of ranks 0 and 1")[1]
        == ", ".join(f"{100 * rank['hidden_fraction']:.1f}" for rank in ranks) + " %"
    )


def test_what_a_step_launched_equals_hta(shared_data: Path) -> None:
    """HTA leaves out the last step, so of two steps it takes the first one's launches."""
    for rank, (compute, idle, span, overlap) in enumerate([
        (106_252, 321_378, 600_058, 0.1181),
        (135_548, 328_671, 600_674, 0.2005),
    ]):  # fmt: skip
        ours = rank_of(shared_data / f"hta-two-ranks/sampled_rank-{rank}.json.gz", step=551, step_by="launch")
        assert (ours["compute_ns"], ours["idle_ns"], ours["span_ns"]) == (compute * 1000, idle * 1000, span * 1000)
        assert round(ours["hidden_fraction"], 4) == overlap
    assert row("two ranks of a job, kernel time of rank 0")[0] == "600,058 µs"
    assert row("the same, overlap of ranks 0 and 1")[0] == "11.81, 20.05 %"


def test_kernels_that_nsys2json_wrote_are_read_as_the_page_says(tmp_path: Path) -> None:
    """Ten all-reduces of 60 us, of which the first 30 lie behind a kernel of 50 us, and 20 run alone until the next.

    kernel      0 [....50....]         100 [...
    all-reduce      20 [......60......] 80
    """
    events = [
        {
            "ph": "X",
            "cat": "cuda",
            "pid": "Device 0",
            "tid": f"Stream {stream}",
            "name": name,
            "ts": ts + at,
            "dur": dur,
        }
        for ts in range(1000, 2000, 100)
        for stream, name, at, dur in ((7, "sm90_gemm", 0, 50), (20, "ncclDevKernel_AllReduce_Sum", 20, 60))
    ]
    (tmp_path / "nsys.json").write_text(json.dumps(events))
    rank = rank_of(tmp_path / "nsys.json")
    assert (rank["compute_ns"], rank["communication_ns"], rank["exposed_communication_ns"]) == (
        500_000,
        600_000,
        300_000,
    )
    assert rank["launch"]["num_linked"] == 0 and rank["steps"] == []


def test_an_export_of_nsight_systems_is_refused_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_bytes(b"SQLite format 3\0" + bytes(84) + b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    with pytest.raises(TraceError) as refused:
        weftrace.open(tmp_path / "run.sqlite")
    assert str(refused.value).replace(f"{tmp_path}/", "") in PAGE
