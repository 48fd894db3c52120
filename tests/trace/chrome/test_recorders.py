"""Files of other tools: named, with what to do instead."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
import struct
from pathlib import Path

import pytest

from tests.trace.chrome.files import event, text_of
from weftrace.errors import TraceError
from weftrace.trace import open_trace

BINARY = bytes(range(256))
TF_EVENT = struct.pack("<Q", 24) + bytes(4) + b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a\x0dbrain.Event:2" + bytes(4)
# A packet of 16 bytes: trusted_uid and timestamp, then others.
PERFETTO = b"\n\x10\x18\x00\x40\x80\x80\x04" + bytes(8) + BINARY


def database(path: Path, table: str) -> bytes:
    with sqlite3.connect(path) as opened:
        opened.execute(f"create table {table} (id integer)")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "data", "what", "helps"),
    [
        ("run.nsys-rep", BINARY, "a report of Nsight Systems", "nsys export --type sqlite"),
        ("run.sqlite", "CUPTI_ACTIVITY_KIND_KERNEL", "an SQLite export of Nsight Systems", "nsys2json (-t kernel)"),
        ("kernels.ncu-rep", b"NVR\0" + BINARY, "a report of Nsight Compute", "with torch.profiler"),
        ("unnamed", b"NVR\0" + BINARY, "a report of Nsight Compute", "with torch.profiler"),
        ("908_results.db", "rocpd_metadata", "a database of rocprofv3", "that works on ROCm too"),
        ("results.json", b'{"rocprofiler-sdk-tool":[{"metadata":{}}]}', "JSON of rocprofv3", "works on ROCm"),
        ("1_kernel_trace.csv", b'"Kind","Agent_Id","Queue_Id"\n', "a table of rocprof", "works on ROCm"),
        ("results.csv", b'"Index","KernelName","gpu-id"\n', "a table of rocprof", "works on ROCm"),
        ("results.stats.csv", b'"Name","Calls","TotalDurationNs"\n', "a table of rocprof", "works on ROCm"),
        ("cuda_gpu_kern_sum.csv", b"Time (%),Total Time (ns),Instances\n", "a table of nsys stats", "Record the same"),
        ("out.csv", b" Time (%)  Total Time (ns)  Instances\n", "a table of nsys stats", "Record the same"),
        ("out.txt", b"\n ** CUDA Kernels (cuda_gpu_kern_sum):\n", "a table of nsys stats", "Record the same"),
        ("results.pftrace", PERFETTO, "a trace of Perfetto", "ui.perfetto.dev draws it"),
        ("trace", PERFETTO, "a trace of Perfetto", "ui.perfetto.dev draws it"),
        ("events.out.tfevents.17.host", b"", "an event file of TensorBoard", "end in .pt.trace.json"),
        ("unnamed", TF_EVENT, "an event file of TensorBoard", "end in .pt.trace.json"),
        ("host.xplane.pb", BINARY, "a profile of TensorFlow or JAX", "reads traces of torch.profiler"),
        ("snapshot.pickle", pickle.dumps({"segments": [], "device_traces": []}), "a snapshot of torch's memory",
         "weftrace memory {path}"),
        ("py.json", b'{"$schema":"https://www.speedscope.app/file-format-schema.json"}', "a profile of speedscope",
         "with_stack=True"),
        ("perf.data", b"PERFILE2" + BINARY, "a record of Linux perf", "Record the same"),
        ("train.prof", b"{\xa9\x03\xda\x01f" + BINARY, "a profile of Python's cProfile", "with_stack=True"),
        ("et.json", b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1}]}', "an execution trace",
         "torch.profiler wrote of the same run"),
    ],
)  # fmt: skip
def test_a_file_of_another_tool_is_named_with_what_helps(
    name: str, data: bytes | str, what: str, helps: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(database(tmp_path / "made", data) if isinstance(data, str) else data or BINARY)
    with pytest.raises(TraceError) as refused:
        open_trace(path)
    message = str(refused.value)
    assert f"{path}: is {what}" in message and "not a trace of torch.profiler" in message
    assert helps.format(path=path) in message
    assert len(message) - len(str(path)) * message.count(str(path)) < 300


def test_json_of_rocprof_1_is_not_taken_for_ranks(tmp_path: Path) -> None:
    events = [
        {"args": {"name": "CPU HIP API"}, "ph": "M", "pid": 2, "name": "process_name"},
        {"args": {"name": "GPU0"}, "ph": "M", "pid": 6, "name": "process_name"},
        {"ts": 120, "dur": 50.0, "ph": "X", "pid": 6, "tid": 1, "name": "Cijk_Ailk", "args": {"BeginNs": "120000"}},
    ]
    (tmp_path / "results.json").write_text(json.dumps({"traceEvents": events}))
    with pytest.raises(TraceError, match=r"is JSON of rocprof, not of torch\.profiler"):
        open_trace(tmp_path / "results.json")


def test_a_trace_of_jax_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jax.json"
    names = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}
    path.write_text(json.dumps({"traceEvents": [names, {"ph": "X", "pid": 1, "name": "fusion.1", "ts": 1, "dur": 5}]}))
    with pytest.raises(TraceError, match="looks like a trace of JAX or TensorFlow; weftrace reads those of torch"):
        open_trace(path)


def test_a_trace_is_a_trace_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ("run.nsys-rep", "results.pftrace", "train.prof", "a.pt.trace.json"):
        (tmp_path / name).write_bytes(gzip.compress(text_of(event()).encode()))
        assert len(open_trace(tmp_path / name)) == 1


def test_a_folder_of_them_is_told_too(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    with pytest.raises(TraceError, match="Give the folder that holds them"):
        open_trace(folder)
    for host in ("a", "b"):
        (folder / f"events.out.tfevents.1.{host}").write_bytes(TF_EVENT)
    (folder / "snapshot.pickle").write_bytes(pickle.dumps({"segments": []}))
    with pytest.raises(TraceError, match=r"It holds 2 event files of TensorBoard\. What torch\.profiler"):
        open_trace(folder)
    below = folder / "plugins" / "profile" / "today"
    below.mkdir(parents=True)
    (below / "host.pt.trace.json").write_text(text_of(event()))
    with pytest.raises(TraceError) as refused:
        open_trace(folder)
    assert f"they lie in {below}. Give that folder." in str(refused.value)


def test_real_ones(shared_data: Path) -> None:
    folder = shared_data.parent / "other-recorders"
    if not folder.is_dir():
        pytest.skip("no files of other recorders here")
    for name, what in (
        ("nsys-h100-2gpu-1s.sqlite", "an SQLite export of Nsight Systems"),
        ("rocprofv3-908-results.json.gz", "JSON of rocprofv3"),
    ):
        with pytest.raises(TraceError, match=what):
            open_trace(folder / name)
