"""Recorded traces: parts of device time add up, no rate stands above a peak without its sentence, TraceLens agrees."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from weftrace.analysis.efficiency import efficiency_of
from weftrace.analysis.efficiency.values import PARTS
from weftrace.trace import read_chrome, works_of

#: What TraceLens's reference reports (AMD-AGI/TraceLens, tests/traces, GEMM.csv at 1e638240 and 061493f6) say of its
#: own test traces: shapes of aten::addmm -> (GFLOP of a call, the bias included; calls; µs on H100; µs on MI300X).
ADDMM = {
    "[512] [141x512] [512x512]": (0.0739968, 17, 98.718, 85.736),
    "[30522] [141x512] [512x30522]": (4.41119205, 1, 41.280, 25.537),
    "[512] [141x2048] [2048x512]": (0.295770624, 4, 33.089, 29.063),
    "[2048] [141x512] [512x2048]": (0.2959872, 4, 24.511, 33.794),
}


@pytest.mark.parametrize(("name", "at"), [("tracelens-h100-bert-small", 2), ("tracelens-mi300-bert-small", 3)])
def test_agrees_with_tracelens(shared_data: Path, name: str, at: int) -> None:
    shapes = efficiency_of(read_chrome(shared_data / f"{name}.json.gz")).shapes.filter(operator="aten::addmm")
    found = {row["shapes"]: row for row in shapes.iter_rows(named=True)}
    assert found.keys() == ADDMM.keys()
    for text, row in found.items():
        expected = ADDMM[text]
        assert row["num_calls"] == expected[1]
        assert row["flops"] / row["num_calls"] / 1e9 == pytest.approx(expected[0], rel=1e-3)
        assert row["total_ns"] == round(1e3 * expected[at])


def test_parts_add_up_and_no_rate_is_above_its_peak(recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        trace = read_chrome(path)
        if trace.plain is not None:  # ranges, without kernels
            continue
        for work in works_of(trace):
            found, events = efficiency_of(work), work.events
            parts = found.parts["total_ns"].to_list()
            assert sum(parts) == found.total_ns == (events["end_ns"] - events["start_ns"]).sum(), path
            assert set(found.parts["part"]) <= set(PARTS)
            assert not found.total_ns or math.isclose(sum(found.parts["share"].to_list()), 1), path
            above = (pl.col("peak_share").fill_null(0) > 1) | (pl.col("roofline_share").fill_null(0) > 1)
            assert found.shapes.filter(above & (pl.col("why") == "")).is_empty(), path
