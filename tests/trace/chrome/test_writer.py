"""What is written is read back equal, and has the shape that trace viewers expect."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trace.chrome.shape import check
from tests.trace.strategies import traces
from weftrace.errors import OutputError, TraceError
from weftrace.trace.chrome.reader import read_chrome
from weftrace.trace.chrome.writer import chrome_text, exact_us, write_chrome
from weftrace.trace.model import EVENT_SCHEMA, Device, Trace, Track, events_frame, is_launch, on_device

T0 = 1_740_461_679_470_630_123  # a usual epoch, with nanoseconds

in_any_order = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def small_trace(**facts: Any) -> Trace:
    """A launch on host thread 12 of process 11, the kernel that it starts 5 µs later on stream 7 of device 0."""
    columns = {
        "name": ["cudaLaunchKernel", 'gemm<"\\">'],
        "cat": ["cuda_runtime", "kernel"],
        "pid": ["11", "0"],
        "tid": ["12", "stream 7"],
        "ts_ns": [T0, T0 + 5_000],
        "dur_ns": [2_001, 10_000],
        "device": [None, 0],
        "stream": [None, 7],
        "correlation": [99, 99],
        "num_blocks": [None, 112],
    }
    return Trace(events=events_frame(columns, 2), **facts)


def parsed(trace: Trace) -> Any:
    return json.loads(b"".join(chrome_text(trace)), parse_float=Decimal)


def read_back(trace: Trace, folder: Path) -> Trace:
    path = folder / "trace.json"
    path.write_bytes(b"".join(chrome_text(trace)))
    return read_chrome(path)


def test_by_hand() -> None:
    facts = {
        "rank": 3,
        "world_size": 64,
        "backend": "nccl",
        "simulated": True,
        "info": {"record_shapes": "1", "x": "007"},
    }
    trace = small_trace(
        devices=(Device(id=0, name="NVIDIA H800", num_sms=132),),
        tracks=(Track(pid="0", name="python", labels="GPU 0", sort_index=5), Track(pid="0", tid="stream 7", name="s")),
        window_ns=(T0 - 1_000, T0 + 20_000),
        **facts,
    )
    base = T0 // 10**9 * 10**9
    start_us = Decimal(T0 - base) / 1000
    window = {"name": "PyTorch Profiler (0)", "cat": "Trace", "pid": "Spans", "tid": "PyTorch Profiler"}
    assert parsed(trace) == {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H800", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 64},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "weftrace_simulated": True,
        "record_shapes": 1,
        "x": "007",
        "traceEvents": [
            {"ph": "M", "name": "process_name", "ts": 0, "pid": 0, "tid": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "process_labels", "ts": 0, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
            {"ph": "M", "name": "process_sort_index", "ts": 0, "pid": 0, "tid": 0, "args": {"sort_index": 5}},
            {"ph": "M", "name": "thread_name", "ts": 0, "pid": 0, "tid": "stream 7", "args": {"name": "s"}},
            {"ph": "X", **window, "ts": start_us - 1, "dur": 21, "args": {}},
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": start_us + 20},
            {
                "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 11, "tid": 12,
                "ts": start_us, "dur": Decimal("2.001"), "args": {"correlation": 99},
            },
            {
                "ph": "X", "cat": "kernel", "name": 'gemm<"\\">', "pid": 0, "tid": "stream 7",
                "ts": start_us + 5, "dur": 10,
                "args": {"device": 0, "stream": 7, "correlation": 99, "grid": [112, 1, 1]},
            },
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 99, "pid": 11, "tid": 12, "ts": start_us},
            {
                "ph": "f", "cat": "ac2g", "name": "ac2g", "id": 99, "pid": 0, "tid": "stream 7",
                "ts": start_us + 5, "bp": "e",
            },
        ],
    }  # fmt: skip


def test_times_are_exact_decimals() -> None:
    assert [exact_us(n) for n in (0, 1, 999, 1000, 1234567, -1, -1000, -1500)] == [
        "0", "0.001", "0.999", "1", "1234.567", "-0.001", "-1", "-1.500",
    ]  # fmt: skip


@given(st.integers(-(2**62), 2**62))
def test_exact_us_is_exact(time_ns: int) -> None:
    assert Decimal(exact_us(time_ns)) * 1000 == time_ns


@in_any_order
@given(trace=traces())
def test_round_trip_of_random_traces(trace: Trace, tmp_path: Path) -> None:
    """`info` is no part of equality; still nothing of it is lost, except that a base of times may be chosen anew."""
    counts = check(json.loads(b"".join(chrome_text(trace))))
    assert counts["X"] == len(trace) + (trace.window_ns is not None)
    again = read_back(trace, tmp_path)
    assert again == trace, [c for c in EVENT_SCHEMA if not again.events[c].equals(trace.events[c])]
    assert again.quality.num_dropped == again.quality.num_repaired == 0, again.quality
    for key in trace.info.keys() - {"baseTimeNanoseconds", "schemaVersion", "displayTimeUnit"}:
        assert again.info[key] == trace.info[key]


def linked(events: list[dict[str, Any]]) -> set[tuple[int, float]]:
    """(correlation, start) of the device events to which an arrow leads from a launch, as TraceLens joins them: by an
    id that is the launch's correlation, and by the process, thread and correlation of the arrow's end."""
    starts = {e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == "s"}
    ends = {(e["pid"], e["tid"], e["id"], e["ts"]) for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"}
    launches = {e["args"]["correlation"] for e in events if e["ph"] == "X" and "correlation" in e.get("args", {})
                and e["cat"] in ("cuda_runtime", "cuda_driver")}  # fmt: skip
    return {
        (correlation, e["ts"])
        for e in events
        if e["ph"] == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        and (correlation := e["args"].get("correlation")) in starts & launches
        and (e["pid"], e["tid"], correlation, e["ts"]) in ends
    }  # fmt: skip


def test_recorded_traces_come_back_with_the_shape_and_the_arrows_that_others_read(
    recorded_traces: list[Path], tmp_path: Path
) -> None:
    for path in recorded_traces:
        trace = read_chrome(path)
        target = tmp_path / "t.json"
        if trace.plain is not None:
            with pytest.raises(TraceError, match="plain Chrome trace"):
                write_chrome(trace, target)
            continue
        write_chrome(trace, target)
        again = read_chrome(target)
        assert again == trace, path.name
        assert again.quality.num_dropped == 0, path.name
        kept = {name: again.info[name] for name in ("baseTimeNanoseconds",) if name in again.info}
        assert again.info == {"schemaVersion": "1", "displayTimeUnit": "ms", **kept, **trace.info}
        written = json.loads(target.read_bytes())
        counts = check(written)
        assert counts["X"] == len(trace) + (trace.window_ns is not None), path.name
        # A graph's launch starts one arrow, with many ends.
        assert 0 < counts["s"] <= counts["f"] or counts["f"] == 0, path.name
        before = linked(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"])
        after = linked(written["traceEvents"])
        assert {correlation for correlation, _ in after} >= {correlation for correlation, _ in before}, path.name
        launched = trace.events.filter(is_launch())["correlation"].drop_nulls()
        with_launch = trace.events.filter(on_device() & pl.col("correlation").is_in(launched.implode()))
        assert len(after) == with_launch.height >= len(before), path.name


@pytest.mark.parametrize("suffix", [".json.gz", ".json.zst"])
def test_a_packed_file_comes_back(tmp_path: Path, suffix: str) -> None:
    trace = small_trace()
    write_chrome(trace, tmp_path / f"t{suffix}")
    assert read_chrome(tmp_path / f"t{suffix}") == trace


ODD = [
    {"cat": "gpu_memcpy", "name": "Memcpy PtoP", "args": {"device": 1, "stream": 7, "bytes": 4096, "correlation": 3}},
    {"cat": "cuda_runtime", "name": "hipMemcpyAsync", "args": {"stream": 7, "bytes": 512, "correlation": 3}},
    {"cat": "cuda_sync", "name": "Stream Wait Event", "args": {"device": 0, "stream": 24, "correlation": 1389,
     "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 1385}},
    {"cat": "cuda_sync", "name": "Event Sync", "args": {"device": 0, "stream": -1, "wait_on_stream": -1,
     "wait_on_cuda_event_record_corr_id": -1}},
    {"cat": "cuda_driver", "name": "cuStreamWaitEvent", "args": {"wait_on_stream": 9, "correlation": 4}},
    {"cat": "gpu_user_annotation", "name": "ProfilerStep#1", "args": {"External id": 1, "device": 2, "stream": 0}},
    {"cat": "overhead", "name": "Buffer Flush", "args": {"device": 3, "bytes": 1}},
    {"cat": "mtia_ccp_events", "name": "fc", "args": {"device": 0, "stream": 5, "correlation": 8}},
    {"cat": "", "name": "no category", "args": {"device": 1, "block": [4, 2, 1]}},
    {"cat": "user_annotation", "name": "mark", "args": {"bytes": 77, "graph id": 5, "graph node id": 6}},
    {"cat": "cpu_op", "name": "triton", "args": {"stream": 7, "bytes": 8, "block": [1], "Seq": 3, "wait_on_stream": 2}},
    {"cat": "xpu_runtime", "name": "collective", "args": {"stream": 1, "In msg nelems": 5, "dtype": "Float"}},
]  # fmt: skip


def test_what_odd_events_say_survives_reading_and_writing(tmp_path: Path) -> None:
    events = [{"ph": "X", "pid": 0, "tid": 7, "ts": n, "dur": 1, **odd} for n, odd in enumerate(ODD)]
    (tmp_path / "odd.json").write_text(json.dumps({"traceEvents": events}))
    trace = read_chrome(tmp_path / "odd.json")
    assert read_back(trace, tmp_path).events.rows() == trace.events.rows()
    said = {row["name"]: {k: v for k, v in row.items() if v is not None} for row in trace.events.iter_rows(named=True)}
    assert (said["Memcpy PtoP"]["moved_bytes"], said["Memcpy PtoP"]["device"]) == (4096, 1)
    assert said["hipMemcpyAsync"]["moved_bytes"] == 512
    assert (said["Stream Wait Event"]["wait_stream"], said["Stream Wait Event"]["wait_correlation"]) == (20, 1385)
    assert (said["Event Sync"]["wait_stream"], said["Event Sync"]["stream"]) == (-1, -1)
    assert said["cuStreamWaitEvent"]["wait_stream"] == 9
    assert said["ProfilerStep#1"]["device"] == 2
    assert (said["Buffer Flush"]["device"], said["Buffer Flush"]["moved_bytes"]) == (3, 1)
    assert (said["fc"]["device"], said["fc"]["stream"]) == (0, 5)
    assert said["no category"]["num_threads"] == 8
    assert (said["mark"]["moved_bytes"], said["mark"]["graph_id"], said["mark"]["graph_node_id"]) == (77, 5, 6)
    assert said["collective"]["in_elems"] == 5


def test_whom_an_operator_sends_to_stays_its_rank_in_the_job(tmp_path: Path) -> None:
    """Rank 1 of the group [4, 6] is rank 6. The written file has the values that said so, and no list of groups."""
    send = {
        "ph": "X", "cat": "cpu_op", "name": "c10d::send", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
        "args": {"Concrete Inputs": ["", "", "1", "0"]},
    }  # fmt: skip
    world = {"rank": 4, "world_size": 8, "pg_config": [{"pg_name": "1", "ranks": [4, 6]}]}
    (tmp_path / "recorded.json").write_text(json.dumps({"distributedInfo": world, "traceEvents": [send]}))
    trace = read_chrome(tmp_path / "recorded.json")
    again = read_back(trace, tmp_path)
    for one in (trace, again):
        assert one.events.select("dst_rank", pl.col("input_values").cast(pl.String)).row(0) == (6, '["","","1","0"]')


def test_every_linked_kernel_of_the_deepseek_trace_has_its_arrow(shared_data: Path) -> None:
    """983 device events; the file's own arrows are 4,892 ends, most of which lead nowhere."""
    trace = read_chrome(shared_data / "deepseek-v3-train.json.gz")
    flows = [event for event in parsed(trace)["traceEvents"] if event["ph"] in "sf"]
    starts = {event["id"]: event["ts"] for event in flows if event["ph"] == "s"}
    ends = {event["id"]: event["ts"] for event in flows if event["ph"] == "f"}
    assert len(flows) == 2 * len(starts) == 2 * len(ends)
    assert len(flows) == 2 * len(trace.events.filter(trace.events["cat"].is_in(["kernel", "gpu_memcpy", "gpu_memset"])))
    assert all(starts[arrow] <= ends[arrow] for arrow in starts)


def test_javascript_reads_it(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here")
    trace = small_trace(window_ns=(T0, T0 + 20_000), backend="</script>\u2028\0")
    write_chrome(trace, tmp_path / "t.json")
    script = """
        const file = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
        const kernel = file.traceEvents.find(event => event.cat === "kernel");
        console.log(JSON.stringify([kernel.name, Math.round(kernel.ts * 1000), file.distributedInfo.backend]));
    """
    done = subprocess.run([node, "-e", script, tmp_path / "t.json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ['gemm<"\\">', (T0 + 5_000) % 10**9, "</script>\u2028\0"]


def test_base_of_times(tmp_path: Path) -> None:
    trace = small_trace()
    assert parsed(trace)["baseTimeNanoseconds"] == T0 // 10**9 * 10**9, "the second in which it starts"
    kept = str(T0 - 86_400 * 10**9)
    assert parsed(replace(trace, info={"baseTimeNanoseconds": kept}))["baseTimeNanoseconds"] == int(kept)
    for useless in ("1", "-5", "9" * 19, "nonsense"):
        assert (
            parsed(replace(trace, info={"baseTimeNanoseconds": useless}))["baseTimeNanoseconds"] == T0 // 10**9 * 10**9
        )
    early = replace(trace, events=trace.events.with_columns(trace.events["ts_ns"] - T0 - 7_777))
    assert "baseTimeNanoseconds" not in parsed(early)
    assert [e["ts"] for e in parsed(early)["traceEvents"] if e["ph"] == "X"] == [Decimal("-7.777"), Decimal("-2.777")]
    assert read_back(early, tmp_path) == early


def test_one_launch_of_many_kernels_starts_one_arrow_with_an_end_at_each() -> None:
    """A CUDA graph: one launch call, three kernels, one correlation, which is the arrow's id, as Kineto writes it."""
    columns = {
        "name": ["cudaGraphLaunch", "a", "b", "c"],
        "cat": ["cuda_runtime", *["kernel"] * 3],
        "pid": ["1", "0", "0", "0"],
        "tid": ["1", "7", "7", "9"],
        "ts_ns": [0, 10, 20, 30],
        "dur_ns": [5, 10, 10, 10],
        "device": [None, 0, 0, 0],
        "stream": [None, 7, 7, 9],
        "correlation": [4, 4, 4, 4],
    }
    flows = [e for e in parsed(Trace(events=events_frame(columns, 4)))["traceEvents"] if e["ph"] in "sf"]
    assert Counter((e["id"], e["ph"]) for e in flows) == {(4, "s"): 1, (4, "f"): 3}
    assert [e["ts"] for e in flows if e["ph"] == "s"] == [0]
    assert [e["ts"] for e in flows if e["ph"] == "f"] == [Decimal("0.01"), Decimal("0.02"), Decimal("0.03")]


def test_flow_ids_join_what_correlation_cannot(tmp_path: Path) -> None:
    """Correlation 0 on RCCL kernels (ROCm 6.1): their flow ids stay. One has no launch."""
    columns = {
        "name": ["hipLaunchKernel", "hipLaunchKernel", "gemm", "rccl", "rccl"],
        "cat": ["cuda_runtime", "cuda_runtime", "kernel", "kernel", "kernel"],
        "pid": ["1", "1", "2", "2", "2"],
        "tid": ["1", "1", "0", "1", "1"],
        "ts_ns": [0, 1_000, 2_000, 3_000, 4_000],
        "dur_ns": [10, 10, 10, 10, 10],
        "device": [None, None, 2, 2, 2],
        "stream": [None, None, 0, 1, 1],
        "correlation": [8, 9, 8, 0, 0],
        "flow_id": [None, 1, None, 1, 2],
    }
    trace = Trace(events=events_frame(columns, 5))
    flows = [(e["id"], e["ph"], e["tid"], e["ts"]) for e in parsed(trace)["traceEvents"] if e["ph"] in "sf"]
    assert flows == [(1, "s", 1, 1), (1, "f", 1, 3), (2, "s", 1, 4), (2, "f", 1, 4), (8, "s", 1, 0), (8, "f", 0, 2)]
    assert read_back(trace, tmp_path) == trace


def test_an_arrow_whose_correlation_is_another_ones_flow_id_gets_an_id_of_its_own(tmp_path: Path) -> None:
    columns = {
        "name": ["hipLaunchKernel", "hipLaunchKernel", "gemm", "rccl"],
        "cat": ["cuda_runtime", "cuda_runtime", "kernel", "kernel"],
        "pid": ["1", "1", "2", "2"],
        "tid": ["1", "1", "0", "1"],
        "ts_ns": [0, 1_000, 2_000, 3_000],
        "dur_ns": [10, 10, 10, 10],
        "device": [None, None, 2, 2],
        "stream": [None, None, 0, 1],
        "correlation": [8, 9, 8, 0],
        "flow_id": [None, 8, None, 8],
    }
    trace = Trace(events=events_frame(columns, 4))
    flows = [(e["id"], e["ph"], e["ts"]) for e in parsed(trace)["traceEvents"] if e["ph"] in "sf"]
    assert flows == [(1, "s", 0), (1, "f", 2), (8, "s", 1), (8, "f", 3)]
    assert read_back(trace, tmp_path) == trace


def test_empty_trace_is_a_sound_file() -> None:
    file = parsed(Trace(events=pl.DataFrame(schema=EVENT_SCHEMA)))
    assert file["traceEvents"] == []
    check(file)


def test_an_output_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="mkdir -p"):
        write_chrome(small_trace(), tmp_path / "missing" / "t.json.gz")
