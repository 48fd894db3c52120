"""DeepSeek's published training profile, to the microsecond, against figures that were found by other means.

../shared/reference/deepseek.md, "Measured on the training profile", states them. Times in the file are whole µs, so a
bitmap of one bit a µs is exact, and shares no code with the interval algebra.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from weftrace.analysis import RankAnalysis, analyze_rank, breakdown, host_stalls, union
from weftrace.analysis.time_account import account_of
from weftrace.plan import Op, Plan, Resource, timetable
from weftrace.trace import Trace, Work, open_trace, work_of
from weftrace.units import US

SPAN = 129_012
Bits = NDArray[np.bool_]


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> list[dict[str, Any]]:
    """The file's events as the standard library reads them."""
    with gzip.open(shared_data / "deepseek-v3-train.json.gz") as file:
        return json.load(file)["traceEvents"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def trace(shared_data: Path) -> Trace:
    trace = open_trace(shared_data / "deepseek-v3-train.json.gz")
    assert isinstance(trace, Trace)
    return trace


@pytest.fixture(scope="module")
def work(trace: Trace) -> Work:
    return work_of(trace)


@pytest.fixture(scope="module")
def rank(work: Work) -> RankAnalysis:
    return analyze_rank(work)


def whole_us(ns: int) -> int:
    """Rounded half up, as the reference does."""
    return (ns + US // 2) // US


def device_rows(raw: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in raw if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def bitmap(events: list[dict[str, Any]], origin: int) -> Bits:
    ran = np.zeros(SPAN, np.bool_)
    for event in events:
        ran[event["ts"] - origin : event["ts"] - origin + event["dur"]] = True
    return ran


def is_deepep(event: dict[str, Any]) -> bool:
    """Said by a list of words, not by our rules: 36 kernels of DeepEP's library, called dpsk::ep in this file."""
    return "ep::" in event["name"] and event["args"]["stream"] == 27


def test_events(raw: list[dict[str, Any]], trace: Trace, work: Work) -> None:
    assert len(raw) == 14_240
    assert (
        len(trace) + sum(trace.quality.skipped.values()) + 1 + sum(e["ph"] == "M" for e in raw) == 14_240
    )  # 1: the window
    assert trace.quality.num_dropped == trace.quality.num_repaired == 0
    cats = dict(trace.events["cat"].cast(pl.String).value_counts().iter_rows())
    assert (cats["kernel"], cats["gpu_memset"], cats["gpu_memcpy"]) == (963, 12, 8)
    assert work.events.height == 983
    assert (trace.rank, trace.world_size) == (0, 64)
    assert "H800" in trace.device(0).name and trace.device(0).num_sms == 132


def test_account(rank: RankAnalysis) -> None:
    b = rank.breakdown
    assert b.span_ns == 129_012 * US
    assert b.busy_ns == 128_515 * US
    assert b.idle_ns == 497 * US
    assert b.compute_ns == 124_310 * US
    assert b.communication_ns == 113_440 * US
    assert b.hidden_communication_ns == 109_250 * US
    assert b.exposed_communication_ns == 4_190 * US
    assert b.serial_ns == 244_069 * US
    assert b.hidden_fraction == pytest.approx(0.9631, abs=5e-5)
    assert b.span_ns == b.compute_ns + b.exposed_communication_ns + b.exposed_memory_ns + b.idle_ns
    assert rank.idle.idle_ns == b.idle_ns


def test_account_by_a_bitmap(raw: list[dict[str, Any]], rank: RankAnalysis) -> None:
    events = device_rows(raw)
    origin = min(event["ts"] for event in events)
    assert max(event["ts"] + event["dur"] for event in events) - origin == SPAN
    communication = bitmap([e for e in events if is_deepep(e)], origin)
    compute = bitmap([e for e in events if e["cat"] == "kernel" and not is_deepep(e)], origin)
    busy = bitmap(events, origin)
    assert sum(map(is_deepep, events)) == 36
    assert busy.sum() == 128_515
    assert compute.sum() == 124_310
    assert communication.sum() == 113_440
    assert (communication & compute).sum() == 109_250
    assert (communication & ~compute).sum() == 4_190
    assert (~busy).sum() == 497
    assert sum(event["dur"] for event in events) == 244_069
    assert pytest.approx(0.9631, abs=5e-5) == 109_250 / 113_440
    # weftrace's own intervals, bit for bit
    exposed = np.zeros(SPAN, np.bool_)
    for start, end in zip(*rank.overlap.exposed, strict=True):
        exposed[(start - rank.breakdown.start_ns) // US : (end - rank.breakdown.start_ns) // US] = True
    assert (exposed == (communication & ~compute)).all()


def test_streams(rank: RankAnalysis, work: Work) -> None:
    streams = rank.kernels.streams.select("stream", "busy_ns", "kind").rows()
    assert streams == [
        (7, 118_193 * US, "compute"), (23, 11_355 * US, "compute"), (27, 114_521 * US, "communication")
    ]  # fmt: skip
    beside = work.events.filter(pl.col("stream").is_in((7, 23)))  # all but stream 27 and its casts; copies included
    assert union(beside["start_ns"], beside["end_ns"]).total_ns == 124_286 * US
    on27 = work.events.filter(pl.col("stream") == 27, pl.col("kind") == "compute")
    assert set(on27["family"]) == {"quantize"}


def test_data_and_barrier(rank: RankAnalysis, raw: list[dict[str, Any]]) -> None:
    waiting = [e["dur"] for e in device_rows(raw) if is_deepep(e) and ("notify" in e["name"] or "layout" in e["name"])]
    assert sum(waiting) == 32_988
    assert rank.overlap.barrier_ns == 32_988 * US
    assert rank.overlap.data_ns == (113_440 - 32_988) * US
    assert sum(rank.overlap.collectives["num_events"]) == 36


PHASES = {  # mean of four layers, µs: busy, and of it moving data
    "attn(F)": (4_370, None), "mlp(F)": (4_604, None), "attn(B)": (9_341, None), "mlp(B)": (5_306, None),
    "mlp(W)": (5_063, None), "attn(W)": (2_389, None), "dispatch(F)": (6_690, 4_346), "combine(F)": (8_684, 5_994),
    "dispatch(B)": (7_487, 6_368), "combine(B)": (5_769, 3_405),
}  # fmt: skip


def test_phase_means(rank: RankAnalysis) -> None:
    assert set(rank.phase_means["name"]) == set(PHASES)
    for row in rank.phase_means.iter_rows(named=True):
        busy, data = PHASES[row["name"]]
        assert row["count"] == 4
        assert whole_us(row["mean_busy_ns"]) == busy, row["name"]
        assert row["lane"] == ("compute" if data is None else "communication")
        assert whole_us(row["mean_data_ns"]) == (data or 0), row["name"]


def test_phases(rank: RankAnalysis, work: Work) -> None:
    table = rank.phases
    assert table.height == 40
    assert work.events["phase"].null_count() == 0 and work.num_unlinked == 0
    assert (table["hidden_ns"] + table["exposed_ns"]).to_list() == table["communication_ns"].to_list()
    assert table["hidden_ns"].sum() == 109_250 * US and table["exposed_ns"].sum() == 4_190 * US
    for name in PHASES:
        assert table.filter(pl.col("name") == name)["index"].to_list() == [0, 1, 2, 3]
    assert table["num_events"].sum() == 983
    assert set(table.filter(pl.col("lane") == "communication")["sms"]) == {20}
    assert set(table.filter(pl.col("lane") == "compute")["sms"]) == {112}


def test_matrix(rank: RankAnalysis) -> None:
    m = rank.overlap.matrix
    assert set(m.communication) == {name for name, (_, data) in PHASES.items() if data is not None}
    assert sum(m.hidden_ns) == 109_250 * US and sum(m.exposed_ns) == 4_190 * US
    assert all(sum(row) >= hidden for row, hidden in zip(m.ns, m.hidden_ns, strict=True))

    def most(communication: str) -> str:
        row = m.ns[m.communication.index(communication)]
        return m.compute[row.index(max(row))]

    # the weave that DeepSeek draws: what each transfer hides behind
    hidden_behind = {"combine(B)": "attn(F)", "dispatch(F)": "mlp(B)", "dispatch(B)": "mlp(W)", "combine(F)": "attn(B)"}
    assert {name: most(name) for name in m.communication} == hidden_behind


def test_lanes_have_the_published_order(rank: RankAnalysis) -> None:
    compute, communication = rank.lanes
    # Beside them stand copies and casts of the communication phases, and what no phase claims: 3 % of the lane.
    boxes = compute.boxes.filter(pl.col("name").str.contains("attn|mlp"), pl.col("busy_ns") > 10 * US)
    moved = communication.boxes.filter(pl.col("busy_ns") > 10 * US)
    order = boxes["name"].to_list()
    assert [b for a, b in zip([None, *order], order, strict=False) if a != b] == (
        ["attn(F)", "mlp(B)", "mlp(W)", "mlp(F)", "attn(B)", "attn(W)"] * 4
    )
    order = moved["name"].to_list()
    assert [b for a, b in zip([None, *order], order, strict=False) if a != b] == (
        ["combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"] * 4
    )
    assert int(boxes["busy_ns"].sum()) > 0.97 * compute.busy_ns
    assert dict(boxes.select("name", "direction").iter_rows()) == {
        "attn(F)": "F", "mlp(B)": "B", "mlp(W)": "W", "mlp(F)": "F", "attn(B)": "B", "attn(W)": "W"
    }  # fmt: skip
    assert (compute.sms, compute.sms_exact, communication.sms, communication.sms_exact) == (112, True, 20, True)
    assert set(boxes["sms"]) - {None} == {112}
    assert int(moved.filter(sms=20)["busy_ns"].sum()) > 0.9 * int(moved["busy_ns"].sum())  # notify kernels hold 9
    assert boxes["index"].to_list() == sorted(boxes["index"]) and set(boxes["index"]) == set(range(4))


def test_launch_grids(work: Work) -> None:
    gemms = work.events.filter(pl.col("family").cast(pl.String).str.contains("fp8|grouped"), pl.col("persistent"))
    assert set(gemms["num_blocks"]) == {112}
    assert set(work.events.filter(pl.col("role") == "data")["num_blocks"]) == {20}


def test_launch_delay(rank: RankAnalysis, raw: list[dict[str, Any]]) -> None:
    assert rank.queueing.num_linked == 983
    assert rank.queueing.delay_p50_ns == 15_496 * US  # "15.5 ms (median)"
    calls = {e["args"]["correlation"]: e["ts"] for e in raw if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    delays = [e["ts"] - calls[e["args"]["correlation"]] for e in device_rows(raw)]
    assert median(delays) == 15_496
    assert rank.queueing.delay_max_ns == max(delays) * US


def test_glue(rank: RankAnalysis, work: Work) -> None:
    """27 % of compute time is in families that are neither GEMM nor attention: casts, routing, copies, norms ..."""
    dense = ("gemm", "gemm_fp8", "gemm_grouped", "attention")
    glue = work.events.filter(pl.col("kind") == "compute", ~pl.col("family").cast(pl.String).is_in(dense))
    glue_ns = union(glue["start_ns"], glue["end_ns"]).total_ns
    assert glue_ns / rank.breakdown.compute_ns == pytest.approx(0.27, abs=0.005)
    largest = rank.kernels.families.filter(pl.col("kind") == "compute", ~pl.col("family").is_in(dense))[
        "family"
    ].to_list()
    assert largest[:4] == ["quantize", "moe_routing", "copy", "norm"]
    assert rank.kernels.unnamed_share == 0


def test_back_to_back_kernels_leave_two_microseconds(work: Work) -> None:
    stream = work.events.filter(pl.col("stream") == 7)
    gaps = (stream["start_ns"] - stream["end_ns"].shift(1)).drop_nulls()
    assert gaps.median() == 2 * US


def test_replay_of_the_published_edges_ends_when_the_measurement_does(rank: RankAnalysis) -> None:
    """Phases as long as measured, waiting only for what the published edges say: within 0.7 % of the measured span.

    Half of that is the start: nothing computed for 475 µs, until the host had launched the first attn(F), which no edge
    tells. With that wait added the replay ends within 0.35 %.
    """
    before = {
        "dispatch(F)": ("attn(F)", 0), "mlp(F)": ("dispatch(F)", 0), "combine(F)": ("mlp(F)", 0),
        "attn(F)": ("combine(F)", -1), "mlp(B)": ("combine(B)", 0), "dispatch(B)": ("mlp(B)", 0),
        "attn(B)": ("dispatch(B)", 0), "combine(B)": ("attn(B)", -1), "mlp(W)": ("mlp(B)", 0),
        "attn(W)": ("attn(B)", 0),
    }  # fmt: skip
    ops = []
    for phase in rank.phases.iter_rows(named=True):
        name, index = phase["name"], phase["index"]
        earlier, shift = before[name]
        ops.append(
            Op(
                id=f"{name} {index}",
                name=name,
                duration_ns=phase["end_ns"] - phase["start_ns"],
                resource=Resource(stream=27 if phase["lane"] == "communication" else 7),
                after=(f"{earlier} {index + shift}",) if index + shift >= 0 else (),
            )
        )
    ids = {op.id for op in ops}
    assert all(set(op.after) <= ids for op in ops)
    span_ns = timetable(Plan.of(ops, name="replay")).makespan_ns
    assert span_ns / (SPAN * US) == pytest.approx(1, abs=0.007)
    assert (span_ns + 475 * US) / (SPAN * US) == pytest.approx(1, abs=0.0035)


def test_the_host_waits_in_dispatch(work: Work) -> None:
    """About 21 ms a layer, from the second on: the first finds nothing to wait for."""
    long = host_stalls(work, threshold_ns=10_000 * US)
    assert long["name"].to_list() == ["dispatch(F)"]
    assert long["num_events"].to_list() == [3]
    assert long["total_ns"][0] / 3 == pytest.approx(21_400 * US, rel=0.01)


def test_headroom_and_quality(rank: RankAnalysis, work: Work) -> None:
    h = rank.headroom
    assert (h.bound_by, h.ideal_ns, h.headroom_ns) == ("compute", 124_310 * US, (129_012 - 124_310) * US)
    assert h.longest_chain_ns == 118_193 * US  # stream 7
    assert (rank.quality.verdict, rank.quality.notes) == ("good", ())
    (step,) = rank.steps
    assert (step.step, step.breakdown) == (1, rank.breakdown)
    assert account_of(work).busy.total_ns == rank.breakdown.busy_ns


@pytest.mark.parametrize(
    ("file", "total_ms", "idle_ms"),
    [("tracelens-h100-bert-small", 3.9078, 3.5984), ("tracelens-mi300-bert-small", 3.4960, 3.1052)],
)
def test_the_same_model_on_two_vendors(shared_data: Path, file: str, total_ms: float, idle_ms: float) -> None:
    """Sums that data/README.md states, exact in integer nanoseconds."""
    trace = open_trace(shared_data / f"{file}.json.gz")
    assert isinstance(trace, Trace)
    b = breakdown(trace)
    assert (round(b.span_ns / 1e6, 4), round(b.idle_ns / 1e6, 4)) == (total_ms, idle_ms)
    assert b.communication_ns == 0 and b.hidden_fraction is None
    assert b.span_ns == b.compute_ns + b.exposed_memory_ns + b.idle_ns
