"""What the first sentence says of a serving engine, and when it says nothing of it. Times of the pictures are µs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import Open
from tests.report.test_headline import summary
from tests.tracefile import GEMM, TraceFile
from weftrace.report import analyze
from weftrace.report.render.page import render_html

GROUPED = "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1_swiglu"


def one(name: str, *, call: str = "cudaLaunchKernel") -> TraceFile:
    """host 0 name 20; the device runs 50 ██████ 1,050 ██ 1,250: 1,000 of 1,200 in the experts' GEMM."""
    file = TraceFile().host(name, 0, 20).kernel(GROUPED, 50, 1_000, launch=10, call=call)
    return file.kernel(GEMM, 1_050, 200, launch=12, call=call)


def several(pause: int, *, steps: bool = False) -> TraceFile:
    """Four decodes of 1,000 and a prefill of 2,000, `pause` between them, each launched 10 before it runs."""
    file = TraceFile()
    if steps:
        file.host("ProfilerStep#1", 0, 20_000)
    names = ["execute_context_0(0)_generation_32(32)"] * 4 + ["execute_context_1(8000)_generation_0(0)"]
    at = 1_000
    for number, name in enumerate(names):
        length = 1_000 if number < 4 else 2_000
        file.host(name, at - 15, 10).kernel(GEMM, at, length, launch=at - 10)
        at += length + pause
    return file


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "execute_context_9(8155)_generation_37(37)",
            "One mixed step (9 prefill requests of 8,155 tokens, 37 decodes) fills the device for 1.20 ms; "
            "83 % in MoE GEMMs.",
        ),
        ("step[MIXED bs=4]", "One mixed step of 4 requests fills the device for 1.20 ms; 83 % in MoE GEMMs."),
        (
            "step[EXTEND bs=2 toks=6000]",
            "One prefill step of 2 requests (6,000 tokens) fills the device for 1.20 ms: 5,000,000 prefill tokens/s; "
            "83 % in MoE GEMMs.",
        ),
        ("step[DECODE bs=117/128]", "One decode step of 117 requests, 1.20 ms of device time: 97,500 tokens/s."),
        (
            "decode[bs=30 tok=120 d=30 spec=3]",
            "One verify step of 30 requests (120 tokens), 1.20 ms of device time: 25,000 to 100,000 "
            "tokens/s, depending on how many proposed tokens were accepted.",
        ),
        (
            "execute_new_1_cached_31",
            "One engine step of 32 requests fills the device for 1.20 ms; 83 % in MoE GEMMs.",
        ),
    ],
)
def test_one_step(name: str, said: str, tmp_path: Path) -> None:
    assert summary(one(name), tmp_path) == said


def test_graphs_are_counted(tmp_path: Path) -> None:
    said = summary(one("step[DECODE bs=32]", call="cudaGraphLaunch"), tmp_path)
    assert said == "One decode step of 32 requests, 2 graphs, 1.20 ms of device time: 26,700 tokens/s."


def test_several_steps_the_kind_with_most_time_first(tmp_path: Path) -> None:
    assert summary(several(0), tmp_path) == (
        "4 decode steps of 1.00 ms (median), 32 requests each (median) take 66.7 % of 6.00 ms: 32,000 tokens/s; "
        "one prefill step 33.3 %: 4,000,000 prefill tokens/s."
    )


def test_gaps_between_steps_are_said_where_they_are_the_largest_loss(tmp_path: Path) -> None:
    assert summary(several(50), tmp_path).endswith("; gaps between steps take 3.2 %.")


def test_a_large_loss_leads(tmp_path: Path) -> None:
    said = summary(several(1_000), tmp_path)
    assert said.startswith("The device waited 4.00 ms of 10.0 ms (40.0 %): ")
    assert said.endswith("one prefill step 20.0 %: 4,000,000 prefill tokens/s; gaps between steps take 40.0 %.")


def test_where_a_profiler_recorded_steps_the_sentence_is_as_it_was(tmp_path: Path) -> None:
    assert summary(several(0, steps=True), tmp_path).startswith("Computation fills 100.0 % of 6.00 ms")


def test_the_page_has_both_tables_without_columns_that_hold_nothing(tmp_path: Path, open_html: Open) -> None:
    made = analyze(several(50).trace(tmp_path), timelines=False)
    page = open_html(render_html(made.document, made.timelines))
    heads = page.locator("#tables [data-table=engine_kinds] th").all_inner_texts()
    assert any("output tokens/s" in head for head in heads) and not any("unrecorded" in head for head in heads)
    rows = page.locator("#tables [data-table=engine_steps] tbody tr").all_inner_texts()
    assert [row.split()[2] for row in rows] == ["decode"] * 4 + ["prefill"]
