"""Peaks of collectives, by pencil: 8 GPUs on a node, link 450 GB/s, NIC 50 GB/s a GPU."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from weftrace.analysis.collective_peaks import chip_of, peaks_of
from weftrace.facts import hardware

H100 = hardware("H100 SXM")
NODE = list(range(8))


def told(collective: str, ranks: list[int] | None, busbw: float, world: int = 64, **fields: Any) -> dict[str, Any]:
    row = {
        "collective": collective, "group": "dp" if ranks is None else f"dp {ranks}",
        "group_size": None if ranks is None else len(ranks), "busbw_GBps": busbw, "best_busbw_GBps": busbw,
        "whole_busbw_GBps": busbw / 2, **fields,
    }  # fmt: skip
    schema = {"collective": pl.String, "group": pl.String, "group_size": pl.Int64}
    frame = pl.DataFrame([row], schema_overrides={**schema, "busbw_GBps": pl.Float64, "best_busbw_GBps": pl.Float64})
    return peaks_of(frame, H100, world).row(0, named=True)


@pytest.mark.parametrize(
    ("collective", "ranks", "bound", "peak"),
    [
        ("all_reduce", NODE, "link", 450),
        ("all_to_all", [8, 9, 10, 11], "link", 450),  # the second node
        ("send_recv", [0, 1], "link", 450),
        ("all_reduce", [0, 8], "network", 50),  # one rank a node: 1 x 50 x 1/1
        ("all_gather", [0, 8, 16, 24], "network", 50),
        ("all_reduce", [*range(6, 10)], "network", 2 * 50 * 3 / 2),  # two on each of two nodes
        ("all_reduce", [*range(16)], "link", 450),  # 8 x 50 x 15/8 = 750, but the link is slower
        ("all_reduce", [*range(64)], "link", 450),  # 8 x 50 x 63/56 = 450
        ("broadcast", [*range(16)], "network", 400),
        ("all_to_all", [*range(16)], "network", 50 * 15 / 8),
        ("send_recv", [0, 8], "network", 50),
    ],
)
def test_peaks_follow_from_where_the_ranks_stand(collective: str, ranks: list[int], bound: str, peak: float) -> None:
    row = told(collective, ranks, 30.0)
    assert row["bound"] == bound and row["peak_GBps"] == pytest.approx(peak)
    assert row["peak_share"] == pytest.approx(30 / peak) and row["note"] is None


def test_where_nothing_tells_the_nodes_there_is_no_peak() -> None:
    assert told("all_reduce", None, 30.0, group_size=8)["peak_GBps"] is None  # of 64 ranks: which?
    assert told("all_reduce", None, 30.0, group_size=8, world=8)["bound"] == "link"
    assert told("all_to_all", None, 30.0, group_size=16)["bound"] == "network"  # more than a node holds
    assert told("send_recv", None, 30.0, group_size=16)["bound"] is None
    row = peaks_of(
        pl.DataFrame([{**told("all_reduce", NODE, 1.0)}]).select(
            "collective", "group", "group_size", "busbw_GBps", "best_busbw_GBps", "whole_busbw_GBps"
        ),
        None,
        8,
    )
    assert row["peak_GBps"].item() is None


def test_a_rate_above_the_peak_says_why_it_can_be() -> None:
    switch = told("all_reduce", NODE, 480.0)["note"]
    assert switch == (
        "above the link's peak: a switch that reduces (NVLS, SHARP) needs fewer bytes than a ring, "
        "else size, clock or chip is another"
    )
    assert told("all_gather", NODE, 480.0)["note"] == "above the link's peak: else size, clock or chip is another"
    assert "more NICs" in told("all_to_all", [0, 8], 60.0)["note"]
    assert told("all_gather", NODE, 400.0, best_busbw_GBps=500.0)["note"] is not None  # the best is printed too


def test_the_whole_stands_for_a_transfer_that_is_not_known() -> None:
    row = told("all_reduce", NODE, 0.0, busbw_GBps=None, best_busbw_GBps=None, whole_busbw_GBps=45.0)
    assert row["peak_share"] == pytest.approx(0.1)


def test_one_chip_is_known_by_its_name_and_a_mixed_job_has_none() -> None:
    h100, a100 = ("NVIDIA H100 80GB HBM3", 132, None), ("NVIDIA A100-SXM4-80GB", 108, None)
    assert chip_of([h100, h100]) == H100
    assert chip_of([h100, a100]) is None and chip_of([("", None, None)]) is None and chip_of([]) is None
