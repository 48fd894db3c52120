"""What the page's timeline is given: which events, in which order, in which rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.pages import numbers_of
from tests.tracefile import DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.report.timeline import CLASSES, MAX_NAME_CHARS, nesting_depth, timeline_payload
from weftrace.trace import Trace, open_trace, work_of
from weftrace.trace.model import events_frame

US = 1000


def column(payload: Any, name: str) -> list[int]:
    return [int(value) for value in numbers_of(payload["columns"][name])]


def drawn(payload: Any) -> list[tuple[str, str, str, int, int, int]]:
    """Every event as (track, class, name, row, start, duration); times in ns from start_ns."""
    starts, durs, names, kinds = (column(payload, name) for name in ("start", "dur", "name", "class"))
    out = []
    for track in payload["tracks"]:
        for depth, (first, count) in enumerate(track["rows"]):
            for i in range(first, first + count):
                start = starts[i] + payload["first_ns"]
                out.append(
                    (track["label"], payload["classes"][kinds[i]], payload["names"][names[i]], depth, start, durs[i])
                )
    return out


def payload_of(trace: Trace, **options: Any) -> Any:
    return timeline_payload(trace, work_of(trace).events, **options)


def test_rows_tracks_and_classes(tmp_path: Path) -> None:
    # thread 1   attn(F) 0 ------------------- 100
    #              aten::mm 10 ---- 50   (and the two launch calls at 20 and 60)
    # stream 7                                        GEMM 200 -- 300
    # stream 20                                       NOTIFY 200 - 210, DISPATCH 210 ---- 400
    file = TraceFile()
    file.host("attn(F)", 0, 100).host("aten::mm", 10, 40, cat="cpu_op")
    file.kernel(GEMM, 200, 100, launch=20)
    file.kernel(NOTIFY, 200, 10, stream=20, launch=60).kernel(DISPATCH, 210, 190, stream=20, launch=61)
    payload = payload_of(file.trace(tmp_path))
    assert payload["num_events"] == 8
    assert payload["num_device"] == 3
    assert payload["first_ns"] == -200 * US  # the annotation starts that much before the first device event
    assert payload["end_ns"] == 200 * US
    assert drawn(payload) == [
        ("stream 7", "compute", GEMM, 0, 0, 100 * US),
        ("stream 20", "barrier", NOTIFY, 0, 0, 10 * US),
        ("stream 20", "communication", DISPATCH, 0, 10 * US, 190 * US),
        ("thread 1", "annotation", "attn(F)", 0, -200 * US, 100 * US),
        ("thread 1", "operator", "aten::mm", 1, -190 * US, 40 * US),
        ("thread 1", "launch", "cudaLaunchKernel", 1, -140 * US, 1 * US),
        ("thread 1", "launch", "cudaLaunchKernel", 1, -139 * US, 1 * US),
        ("thread 1", "launch", "cudaLaunchKernel", 2, -180 * US, 1 * US),
    ]
    assert [group["kind"] for group in payload["groups"]] == ["device", "host"]
    assert payload["groups"][0]["label"] == "GPU 0 · NVIDIA H800"


def test_launches_are_linked_by_correlation(tmp_path: Path) -> None:
    file = (
        TraceFile()
        .kernel(GEMM, 200, 10, launch=20)
        .kernel(GEMM, 300, 10, linked=False)
        .kernel(GEMM, 400, 10, launch=30)
    )
    payload = payload_of(file.trace(tmp_path))
    launches, starts = column(payload, "launch"), column(payload, "start")
    assert [launch and starts[launch - 1] + payload["first_ns"] for launch in launches] == [-180 * US, 0, -170 * US]


def test_correlation_zero_joins_nothing() -> None:
    columns: dict[str, Any] = {
        "name": ["hipLaunchKernel", "ncclDevKernel"], "cat": ["hip_runtime", "kernel"], "pid": ["1", "0"],
        "tid": ["1", "3"], "ts_ns": [0, 50], "dur_ns": [5, 5], "device": [None, 0],
        "stream": [None, 3], "correlation": [0, 0],
    }  # fmt: skip
    assert column(timeline_payload(Trace(events=events_frame(columns, 2)), None), "launch") == [0]


def test_what_is_kept_when_not_all_is(tmp_path: Path) -> None:
    """Device events first, then annotations, then the longest host operators; the rest is counted."""
    file = TraceFile().kernel(GEMM, 500, 10, linked=False).kernel(GEMM, 600, 20, linked=False)
    file.host("attn(F)", 0, 10)
    for length in (1, 2, 3, 4):
        file.host(f"aten::op{length}", 20 * length, length, cat="cpu_op")
    trace = file.trace(tmp_path)
    kept = payload_of(trace, max_events=5)
    assert {event[2] for event in drawn(kept)} == {GEMM, "attn(F)", "aten::op3", "aten::op4"}
    assert kept["left_out"] == {"host": 2}
    least = payload_of(trace, max_events=1)
    assert [event[5] for event in drawn(least)] == [20 * US]
    assert least["left_out"] == {"device": 1, "annotation": 1, "host": 4}
    assert payload_of(trace)["left_out"] == {}


def test_python_frames_are_counted_and_not_drawn() -> None:
    columns: dict[str, Any] = {
        "name": ["train.py(7): step", "aten::mm"], "cat": ["python_function", "cpu_op"], "pid": ["1"] * 2,
        "tid": ["1"] * 2, "ts_ns": [0, 5], "dur_ns": [100, 5],
    }  # fmt: skip
    payload = timeline_payload(Trace(events=events_frame(columns, 2)), None)
    assert payload["num_events"] == 1
    assert payload["left_out"] == {"python_function": 1}


def test_work_outside_the_report_is_drawn_as_such(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 200, 10).trace(tmp_path)
    second = work_of(trace).events.filter(pl.col("start_ns") == pl.col("start_ns").max())
    payload = timeline_payload(trace, second)
    assert [(event[1], event[4]) for event in drawn(payload) if event[0] == "stream 7"] == [
        ("outside", -100 * US),
        ("compute", 0),
    ]


def test_clipped_ends_are_drawn_clipped(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 100, 1_000, linked=False).trace(tmp_path)
    work = work_of(trace).events.with_columns(pl.col("end_ns") - 900 * US)
    assert column(timeline_payload(trace, work), "dur") == [100 * US]


def test_host_work_is_counted_where_there_is_no_device(tmp_path: Path) -> None:
    trace = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").host("gloo:all_reduce", 20, 30).trace(tmp_path)
    payload = payload_of(trace)
    assert payload["num_device"] == 0
    assert [event[1] for event in drawn(payload)] == ["compute", "communication"]


def test_long_traces_get_wider_numbers() -> None:
    columns: dict[str, Any] = {
        "name": ["a", "b"], "cat": ["kernel"] * 2, "pid": ["0"] * 2, "tid": ["7"] * 2, "ts_ns": [0, 10_000_000_001],
        "dur_ns": [3, 5_000_000_000], "device": [0, 0], "stream": [7, 7],
    }  # fmt: skip
    payload = timeline_payload(Trace(events=events_frame(columns, 2)), None)
    assert payload["columns"]["start"]["type"] == "f8"
    assert column(payload, "start") == [0, 10_000_000_001]
    assert column(payload, "dur") == [3, 5_000_000_000]


def test_events_too_far_away_are_counted() -> None:
    columns: dict[str, Any] = {
        "name": ["a", "lost"], "cat": ["kernel", "cpu_op"], "pid": ["0"] * 2, "tid": ["7"] * 2,
        "ts_ns": [1_740_000_000_000_000_000, 5], "dur_ns": [3, 5], "device": [0, None], "stream": [7, None],
    }  # fmt: skip
    payload = timeline_payload(Trace(events=events_frame(columns, 2)), None)
    assert payload["num_events"] == 1
    assert payload["left_out"] == {"far": 1}


def test_long_names_are_cut_and_counted() -> None:
    columns: dict[str, Any] = {"name": ["k" * 5000, "k"], "cat": ["kernel"] * 2, "ts_ns": [0, 9], "dur_ns": [3, 3]}
    payload = timeline_payload(Trace(events=events_frame(columns, 2)), None)
    assert [len(name) for name in payload["names"]] == [MAX_NAME_CHARS, 1]
    assert payload["shortened_names"] == 1


def test_an_empty_trace_has_an_empty_timeline() -> None:
    payload = timeline_payload(Trace(events=events_frame({}, 0).clear()), None)
    assert payload["num_events"] == 0
    assert payload["tracks"] == []


def test_layers(layered_trace: Callable[..., Trace]) -> None:
    payload = payload_of(layered_trace())
    assert {track["label"] for track in payload["tracks"]} == {"stream 7", "stream 20", "thread 1"}
    assert payload["end_ns"] == 20_500 * US


# ---- nesting


def test_depth_by_pencil() -> None:
    # a |--------------------|        0
    # b   |-----|                     1
    # c     |-|                       2
    # d             |----|            1
    # e                        |--|   0
    start, end = np.array([0, 2, 4, 12, 23]), np.array([20, 8, 6, 17, 26])
    assert nesting_depth(start, end).tolist() == [0, 1, 2, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=40))
def test_depth_counts_the_earlier_intervals_still_open(spans: list[tuple[int, int]]) -> None:
    ordered = sorted(((start, start + length) for start, length in spans), key=lambda span: (span[0], -span[1]))
    start, end = (np.array([span[side] for span in ordered], dtype=np.int64) for side in (0, 1))
    expected = [sum(max(e, s + 1) > ordered[i][0] for s, e in ordered[:i]) for i in range(len(ordered))]
    assert nesting_depth(start, end).tolist() == expected


def test_every_class_has_a_colour() -> None:
    from importlib.resources import files

    style = files("weftrace.render").joinpath("static", "page.css").read_text("utf-8")
    assert all(style.count(f"--{name}:") >= 2 for name in CLASSES)


# ---- what else is known of an event


def facts_of(payload: Any) -> dict[str, dict[str, Any]]:
    """What is known of each event beside name and times, by its name; texts for their numbers."""
    texts, rows = payload["facts"]["texts"], payload["facts"]["rows"]
    numbers = {"registers", "shared_bytes", "occupancy", "sms", "sms_exact", "bytes", "in_elems", "out_elems",
               "group_size", "graph"}  # fmt: skip
    said = [
        {key: value if key in numbers else texts[value] for key, value in rows[code - 1].items()} if code else {}
        for code in column(payload, "facts")
    ]
    names = [payload["names"][name] for name in column(payload, "name")]
    return dict(zip(names, said, strict=True))


def test_what_a_kernel_was_launched_with_and_its_operator_called_with(tmp_path: Path) -> None:
    file = TraceFile()
    file.host(
        "aten::mm", 0, 50, cat="cpu_op", **{"Input Dims": [[64, 512], [512, 64]], "Input type": ["float", "float"]}
    )
    launched: dict[str, Any] = {"grid": [8, 16, 5], "block": [128, 1, 1], "registers per thread": 122,
                                "shared memory": 12544, "est. achieved occupancy %": 25}  # fmt: skip
    file.kernel(GEMM, 200, 100, launch=20, **launched)
    file.kernel("Memcpy HtoD", 400, 10, cat="gpu_memcpy", linked=False, bytes=4096)
    record = {"Collective name": "allreduce", "dtype": "BFloat16", "Process Group Name": "2", "Group size": 8,
              "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "In msg nelems": 1000,
              "Out msg nelems": 1000}  # fmt: skip
    file.host("record_param_comms", 60, 20, cat="cpu_op", **record)
    unknown: dict[str, Any] = {"est. achieved occupancy %": 0}  # which no kernel that runs has
    file.kernel(DISPATCH, 500, 10, launch=70, stream=20, blocks=20, **unknown)
    payload = payload_of(file.trace(tmp_path))
    known = facts_of(payload)
    assert known["aten::mm"] == {"shapes": "[[64,512],[512,64]]", "types": '["float","float"]'}
    assert known[GEMM] == {
        "grid": "[8,16,5]", "block": "[128,1,1]", "registers": 122, "shared_bytes": 12544, "occupancy": 25, "sms": 132,
    }  # fmt: skip
    assert known["Memcpy HtoD"] == {"bytes": 4096}
    assert known[DISPATCH] == {
        "grid": "[20,1,1]", "block": "[128,1,1]", "sms": 20, "sms_exact": 1, "bytes": 2000, "collective": "all_reduce",
        "dtype": "BFloat16", "group": "2", "group_size": 8,
    }  # fmt: skip
    assert known["record_param_comms"]["ranks"] == "[0, 1, 2, 3, 4, 5, 6, 7]"
    assert known["cudaLaunchKernel"] == {}
    correlations = [c and c - 1 + payload["first_correlation"] for c in column(payload, "correlation")]
    assert correlations == [1, 0, 3]  # in the order of streams; the copy has none


def test_the_operator_of_what_has_no_launch_in_the_timeline(tmp_path: Path) -> None:
    """The page finds operators around launches. Where it holds no launch: the operator, told by time or External id."""
    by_operator: dict[str, Any] = {"External id": 77}
    file = TraceFile().kernel("a", 200, 10, launch=20).kernel("b", 300, 10, linked=False, **by_operator)
    file.host("aten::add", 10, 20, cat="cpu_op", **{"Input Dims": [[3]]})
    file.host("aten::mul", 40, 5, cat="cpu_op", **{"Input Dims": [[4]], **by_operator})
    trace = file.trace(tmp_path)
    whole = facts_of(payload_of(trace))
    assert (whole["a"], whole["b"]) == ({}, {"operator": "aten::mul", "shapes": "[[4]]"})
    few = facts_of(payload_of(trace, max_events=2))
    assert few == {
        "a": {"operator": "aten::add", "shapes": "[[3]]"},
        "b": {"operator": "aten::mul", "shapes": "[[4]]"},
    }


def test_python_frames_that_were_read_make_a_stack(tmp_path: Path) -> None:
    file = TraceFile().host("train.py(3): main", 0, 100, cat="python_function")
    file.host("model.py(7): forward", 10, 50, cat="python_function").kernel("a", 200, 10, launch=20)
    file.kernel("b", 300, 10, launch=70).kernel("c", 400, 10, linked=False)
    path = file.write(tmp_path / "trace.json")
    for frames, stacks in (
        (False, {}),
        (True, {"a": "model.py(7): forward;train.py(3): main", "b": "train.py(3): main"}),
    ):
        trace = open_trace(path, frames=frames)
        assert isinstance(trace, Trace)
        known = facts_of(payload_of(trace))
        assert {name: said["stack"] for name, said in known.items() if "stack" in said} == stacks


def test_facts_stay_small() -> None:
    """Where too many events differ, the longest texts are given up first; long ones are cut."""
    number = 70_000
    columns: dict[str, Any] = {
        "name": ["op"] * number, "cat": ["cpu_op"] * number, "ts_ns": list(range(number)), "dur_ns": [1] * number,
        "call_stack": [f"f.py({i}): f" for i in range(number)], "input_shapes": ["[" + "[512]," * 200 + "[]]"] * number,
    }  # fmt: skip
    facts = timeline_payload(Trace(events=events_frame(columns, number)), None)["facts"]
    assert facts["rows"] == [{"shapes": 0}]
    assert [len(text) for text in facts["texts"]] == [1024]
