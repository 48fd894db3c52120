"""Reading Chrome/Kineto JSON as it is found in the wild: each quirk with the smallest file that shows it."""

from __future__ import annotations

import decimal
import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.trace.chrome.files import (
    EPOCH_US,
    actual_rows,
    at,
    encoded,
    event,
    expected_rows,
    names,
    read_file,
    read_text,
    rows,
    text_of,
)
from weftrace.analysis import code_times
from weftrace.errors import TraceError, TraceTooLarge
from weftrace.trace.chrome import argument_texts
from weftrace.trace.chrome.reader import rank_in_name, read_chrome
from weftrace.trace.model import EVENT_SCHEMA, Device, Track
from weftrace.trace.work import work_of


def column(trace: Any, name: str) -> list[Any]:
    values: list[Any] = trace.events.get_column(name).to_list()
    return values


def lost(trace: Any) -> dict[str, int]:
    return {**trace.quality.dropped, **trace.quality.repaired}


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        ("0", 0),
        ("12", 12_000),
        ("1.5", 1_500),
        ("0.001", 1),
        ("-0.001", -1),
        ("-3.25", -3_250),
        ("1e3", 1_000_000),
        ("1740461679470630", 1_740_461_679_470_630_000),
        ("1740461679470630.123", 1_740_461_679_470_630_123),
        ("1740461679470630.001", 1_740_461_679_470_630_001),
        ("1740461679470630.999", 1_740_461_679_470_630_999),
        ("-1740461679470630.457", -1_740_461_679_470_630_457),
        ("8796093022207.999", 8_796_093_022_207_999),  # just below 2**43, where float64 ceases to be enough
        ("8796093022208.001", 8_796_093_022_208_001),
        ("4611686018427380.999", 4_611_686_018_427_380_999),  # nearly the largest that is kept
    ],
)
def test_microseconds_become_exact_nanoseconds(ts: str, ns: int) -> None:
    trace = read_text(text_of(json.dumps(event(ts=0)).replace('"ts": 0', f'"ts": {ts}')))
    assert rows(trace) == [("k", ns, 2000)]
    assert lost(trace) == {}


def test_integers_decimals_and_missing_values_mix_in_one_chunk() -> None:
    trace = read_text(text_of(event(ts=EPOCH_US), event(ts=1.5), event(ts=at("0.5"), dur=None), event(ts=-7)))
    assert column(trace, "ts_ns") == [EPOCH_US * 1000, 1500, EPOCH_US * 1000 + 500, -7000]
    assert lost(trace) == {"no duration: taken as 0": 1}


def test_every_nanosecond_of_a_microsecond_survives_at_epoch_size() -> None:
    texts = [json.dumps(event(ts=0)).replace('"ts": 0', f'"ts": {EPOCH_US}.{n:03}') for n in range(1000)]
    assert column(read_text(text_of(*texts)), "ts_ns") == [EPOCH_US * 1000 + n for n in range(1000)]


def test_a_decimal_in_a_damaged_neighbourhood_is_exact_too() -> None:
    sound = encoded(event(ts=at("0.123")))
    odd = sound.replace('"correlation": 5', '"correlation": NaN')
    assert column(read_text(text_of(odd, sound)), "ts_ns") == [EPOCH_US * 1000 + 123] * 2


def test_the_callers_decimal_context_does_not_matter() -> None:
    text = text_of(event(ts=at("0.123")))
    with decimal.localcontext(decimal.Context(prec=3, traps=[decimal.Inexact])):
        trace = read_text(text)
    assert rows(trace) == [("k", EPOCH_US * 1000 + 123, 2000)]


def test_base_time_is_added_to_events_and_window_wherever_it_stands() -> None:
    window = event("PyTorch Profiler (0)", ts=0, dur=9, cat="Trace", pid="Spans", tid="PyTorch Profiler")
    base = 1_751_410_836_000_000_000
    for text in (
        text_of(event(ts=2204338330208.135), window, baseTimeNanoseconds=base),
        text_of(event(ts=2204338330208.135), window)[:-1] + f', "baseTimeNanoseconds": {base}}}',
    ):
        trace = read_text(text)
        assert column(trace, "ts_ns") == [base + 2_204_338_330_208_135]
        assert trace.window_ns == (base, base + 9000)
        assert trace.info["baseTimeNanoseconds"] == str(base)


@pytest.mark.parametrize("base", [-5, 1.5, True, None, "x", [1], 1 << 62, 10**30])
def test_an_unusable_base_time_is_not_added(base: Any) -> None:
    assert column(read_text(text_of(event(), baseTimeNanoseconds=base)), "ts_ns") == [1000]


@pytest.mark.parametrize("base", ["NaN", "-Infinity", "1e99999999999999999999", "1e30", "1.5", "9" * 5000, "[" * 5000])
def test_nor_is_one_that_is_hardly_json(base: str) -> None:
    trace = read_text(text_of(event())[:-1] + f', "baseTimeNanoseconds": {base}, "distributedInfo": {{"rank": 3}}}}')
    assert column(trace, "ts_ns") == [1000]
    assert trace.rank == 3


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('"ts": null, "dur": 1', "no usable time"),
        ('"dur": 1', "no usable time"),
        ('"ts": NaN, "dur": 1', "no usable time"),
        ('"ts": Infinity, "dur": 1', "no usable time"),
        ('"ts": true, "dur": 1', "no usable time"),
        ('"ts": {}, "dur": 1', "no usable time"),
        ('"ts": "soon", "dur": 1', "no usable time"),
        ('"ts": 1e400, "dur": 1', "no usable time"),
        ('"ts": 1e999999999, "dur": 1', "no usable time"),
        ('"ts": 1e99999999999999999999, "dur": 1', "no usable time"),
        ('"ts": "NaN", "dur": 1', "no usable time"),
        ('"ts": "sNaN", "dur": 1', "no usable time"),
        ('"ts": "-Infinity", "dur": 1', "no usable time"),
        ('"ts": 99999999999999999999, "dur": 1', "no usable time"),
        ('"ts": -9223372036854775808, "dur": 1', "no usable time"),
        (f'"ts": {"9" * 5000}, "dur": 1', "no usable time"),
        ('"ts": 1, "dur": -1', "negative duration"),
        ('"ts": 1, "dur": -0.001', "negative duration"),
        ('"ts": 1, "dur": 1e300', "no usable duration"),
        ('"ts": 4000000000000000, "dur": 4000000000000000', "no usable duration"),  # the end does not fit
        (f'"ts": 1, "dur": {"9" * 5000}', "no usable duration"),
    ],
)
def test_unusable_times_are_dropped_and_counted_and_their_neighbours_kept(bad: str, reason: str) -> None:
    broken = f'{{"ph": "X", "cat": "kernel", "name": "bad", "pid": 0, "tid": 7, {bad}}}'
    trace = read_text(text_of(event("a"), broken, event("b")))
    assert names(trace) == ["a", "b"]
    assert trace.quality.dropped == {reason: 1}
    assert "bad" in trace.quality.examples[reason]


def test_an_absurd_duration_is_kept_for_the_verdict_on_the_trace() -> None:
    assert rows(read_text(text_of(event(dur=86_400_000_000)))) == [("k", 1000, 86_400_000_000_000)]


def test_times_in_texts_are_read() -> None:
    trace = read_text(text_of(event(ts=f"{EPOCH_US}.123", dur=" 2.5 ")))
    assert rows(trace) == [("k", EPOCH_US * 1000 + 123, 2500)]
    assert lost(trace) == {}


def test_the_window_is_the_profilers_own_and_reaches_to_its_end_mark() -> None:
    window = event("PyTorch Profiler (0)", ts=at("0.25"), dur=100, cat="Trace")
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": EPOCH_US + 150.5}
    start = EPOCH_US * 1000 + 250
    assert read_text(text_of(event(), window)).window_ns == (start, start + 100_000)
    assert read_text(text_of(event(), window, end)).window_ns == (start, EPOCH_US * 1000 + 150_500)
    assert read_text(text_of(event())).window_ns is None
    for ts, dur in (("?", 100), (1, -1), (4 * 10**15, 4 * 10**15), (1, None)):
        broken = event("PyTorch Profiler (0)", ts=ts, dur=dur, cat="Trace")
        trace = read_text(text_of(event(), broken))
        assert trace.quality.dropped == {"no usable time": 1}
        assert trace.window_ns is None


# --- processes, threads, streams, devices ---------------------------------------------------------


def test_pids_and_tids_are_numbers_or_texts_in_one_spelling() -> None:
    trace = read_text(
        text_of(event(pid=0, tid="stream 7 "), event(pid="0", tid="stream 7"), event(pid="Spans", tid=-1))
    )
    assert column(trace, "pid") == ["0", "0", "Spans"]
    assert column(trace, "tid") == ["stream 7", "stream 7", "-1"]


@pytest.mark.parametrize(
    ("args", "tid", "stream"),
    [
        ({"stream": 7}, "x", 7),
        ({"stream": 0}, 7, 0),
        ({"stream": "7"}, 1, 7),
        ({"stream": "stream 7 "}, 1, 7),
        ({"stream": "0x1f"}, 1, 31),
        ({"stream": 7.0}, 1, 7),
        ({}, "stream 7 ", 7),
        ({}, 20, 20),
        (None, 20, 20),
        ({"stream": None}, "stream 7 ", 7),
        ({"stream": [7]}, "stream 7 ", 7),
        ({"stream": True}, 9, 9),
        ({}, "default", None),
        ({}, "9" * 40, None),
    ],
)
def test_the_stream_is_the_arguments_or_else_the_threads(args: Any, tid: Any, stream: int | None) -> None:
    assert column(read_text(text_of(event(args=args, tid=tid))), "stream") == [stream]


def test_devices_are_told_apart_also_by_process() -> None:
    trace = read_text(
        text_of(*(event(pid=pid, args=args) for pid, args in [(0, {"device": 3}), (1, {}), ("GPU 5", {})]))
    )
    assert column(trace, "device") == [3, 1, 5]
    assert trace.device_ids == (1, 3, 5)


def test_only_device_work_and_what_waits_for_it_has_a_stream() -> None:
    args = {"stream": 7, "device": 0, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 99}
    cats = ["kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation", "cpu_op", "cuda_runtime"]
    trace = read_text(text_of(*(event(cat=cat, args=args) for cat in cats)))
    assert column(trace, "stream") == [7, 7, 7, 7, 7, None, None]
    assert column(trace, "device") == [0, 0, 0, 0, 0, None, None]
    assert column(trace, "wait_stream")[3] == 20
    assert column(trace, "wait_correlation")[3] == 99


def test_categories_of_old_profilers_have_todays_names() -> None:
    old = ["Kernel", "Memcpy", "Memset", "Operator", "Runtime", "Driver", "kernel", "anything"]
    trace = read_text(text_of(*(event(cat=cat, args={"stream": 7}) for cat in old)))
    now = ["kernel", "gpu_memcpy", "gpu_memset", "cpu_op", "cuda_runtime", "cuda_driver", "kernel", "anything"]
    assert column(trace, "cat") == now
    assert column(trace, "stream") == [7, 7, 7, None, None, None, 7, 7]


def test_metadata_names_orders_and_labels_processes_and_threads() -> None:
    def metadata(kind: str, pid: Any, tid: Any, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": args}

    trace = read_text(
        text_of(
            metadata("process_name", 9, 0, name="python"),
            metadata("thread_name", "9", "stream 7 ", name="stream 7 "),
            metadata("process_labels", 9, 0, labels="GPU 0"),
            metadata("process_sort_index", 9, 0, sort_index=5),
            metadata("thread_sort_index", 9, "stream 7", sort_index=-1),
            metadata("thread_name", 9, 1, name=None),
            metadata("is_a_novelty", 9, 1, name="x"),
            event(),
        )
    )
    assert trace.tracks == (
        Track(pid="9", name="python", labels="GPU 0", sort_index=5),
        Track(pid="9", tid="stream 7", name="stream 7 ", sort_index=-1),
        Track(pid="9", tid="1"),
    )
    assert trace.quality.skipped == {"metadata": 1}


# --- arguments ------------------------------------------------------------------------------------


def test_every_argument_has_its_column() -> None:
    args = {
        "External id": 1, "correlation": 2, "stream": 3, "device": 4, "grid": [5, 6, 7], "block": [8, 2, 1],
        "registers per thread": 32, "shared memory": 12544, "est. achieved occupancy %": 25,
        "Input Dims": [[1, 512], [], []], "Input type": ["long int", "Scalar", ""],
        "Call stack": "model.py(7): forward;train.py(3): main",
        "bytes": 10, "graph id": 11, "graph node id": 12, "Sequence number": 13, "Fwd thread id": 14,
        "Collective name": "allreduce", "In msg nelems": 15, "Out msg nelems": 16, "dtype": "BFloat16",
        "Process Group Name": "17", "Group size": 18, "Process Group Ranks": "[0, 1]", "Seq": 19,
        "Src Rank": 24, "Dst Rank": "25",
        "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 21,
        "weftrace": {"kind": "compute", "layer": 22, "micro_batch": 23, "other": None},
        "queued": 0, "Input Strides": [[512, 1], [], []], "Concrete Inputs": ["", "[14, 14]", "False"],
        "kernel_flop": 26, "nested": {"a": [{"b": {}}]},
    }  # fmt: skip
    trace = read_text(text_of(event(args=args), event(args={})))
    row = trace.events.row(0, named=True)
    assert row == {
        "name": "k", "cat": "kernel", "pid": "0", "tid": "7", "ts_ns": 1000, "dur_ns": 2000, "external_id": 1,
        "correlation": 2, "stream": 3, "device": 4, "num_blocks": 210, "num_threads": 16, "moved_bytes": 10,
        "graph_id": 11, "graph_node_id": 12, "sequence": 13, "forward_thread": 14, "collective": "allreduce",
        "in_elems": 15, "out_elems": 16, "dtype": "BFloat16", "group": "17", "group_size": 18, "group_ranks": "[0, 1]",
        "comm_seq": 19, "src_rank": 24, "dst_rank": 25, "wait_stream": 20, "wait_correlation": 21, "flow_id": None,
        "op_kind": "compute", "layer": 22, "micro_batch": 23, "grid": "[5,6,7]", "block": "[8,2,1]", "registers": 32,
        "shared_bytes": 12544, "occupancy": 25, "input_shapes": "[[1,512],[],[]]",
        "input_types": '["long int","Scalar",""]', "input_strides": "[[512,1],[],[]]",
        "input_values": '["","[14, 14]","False"]', "stated_flops": 26,
        "call_stack": "model.py(7): forward;train.py(3): main",
    }  # fmt: skip
    absent = trace.events.row(1, named=True)
    assert {key for key, value in absent.items() if value is not None} == {
        "name", "cat", "pid", "tid", "ts_ns", "dur_ns", "device", "stream",
    }  # fmt: skip
    assert dict(trace.events.schema) == EVENT_SCHEMA


@pytest.mark.parametrize(
    ("key", "value", "name", "read"),
    [
        ("external id", 6, "external_id", 6),  # Kineto before 2022, on device events
        ("External id", "6", "external_id", 6),
        ("Comms Id", 77, "comm_seq", 77),
        ("Comms Id", "77", "comm_seq", 77),
        ("bytes", "1024", "moved_bytes", 1024),
        ("bytes", 1024.0, "moved_bytes", 1024),
        ("graph id", 0, "graph_id", None),  # Kineto writes 0 where there is no graph
        ("grid", "[1, 2, 3]", "num_blocks", None),
        ("weftrace", {"layer": 2}, "layer", 2),
        ("weftrace", {"layer": 1 << 40}, "layer", None),
        ("weftrace", "a text of someone else's", "op_kind", None),
        ("grid", [], "num_blocks", None),
        ("grid", [2, "3"], "num_blocks", 6),
        ("grid", [1 << 40, 1 << 40], "num_blocks", None),
        ("block", [1 << 20, 1 << 20], "num_threads", None),
        ("block", [-(1 << 31)], "num_threads", -(1 << 31)),
        ("block", [-(1 << 63)], "num_threads", None),
        ("grid", [9] * 1_000_000, "num_blocks", None),
        ("grid", [5, 1, 1], "grid", None),  # the product says it
        ("grid", [5, 1], "grid", "[5,1]"),
        ("grid", [9] * 1_000_000, "grid", None),
        ("grid", "grid(100,)", "grid", "grid(100,)"),  # Triton's host events
        ("block", {"x": 8}, "block", None),
        ("est. achieved occupancy %", 24.6, "occupancy", 25),
        ("registers per thread", "64", "registers", 64),
        ("shared memory", [1], "shared_bytes", None),
        ("Input dims", [[2, 3]], "input_shapes", "[[2,3]]"),  # torch 1.8
        ("Input Dims", "[[2, 3], []]", "input_shapes", "[[2,3],[]]"),
        ("Input Dims", [[[2, 3], [4]], []], "input_shapes", "[[[2,3],[4]],[]]"),  # a list of tensors
        ("Input Dims", [], "input_shapes", None),
        ("Input Dims", 7, "input_shapes", None),
        ("Input Dims", {"a": 1}, "input_shapes", None),
        ("Input Dims", None, "input_shapes", None),
        ("Input type", "[float, Scalar]", "input_types", "[float, Scalar]"),
        ("Input Dims", [[[2]] * 1_000], "input_shapes", "[[" + "[2]," * 999 + "[2]]]"),  # of a foreach operator
        ("Input Dims", [[7]] * 20_000, "input_shapes", "[" + "[7]," * 16_383 + "[7…"),
        ("Input Strides", [[512, 1], [], [[1]]], "input_strides", "[[512,1],[],[[1]]]"),
        ("Input Strides", "x", "input_strides", "x"),
        ("Input Strides", 1.5, "input_strides", None),
        ("Concrete Inputs", ["", "[1, 1]", "0.1"], "input_values", '["","[1, 1]","0.1"]'),
        ("Concrete Inputs", ['a "b"', "\x1f", 7, None], "input_values", '["a \\"b\\"","\\u001f",7,null]'),
        ("Concrete Inputs", [], "input_values", None),
        ("Concrete Inputs", {"a": 1}, "input_values", None),
        ("Concrete Inputs", True, "input_values", None),
        ("Concrete Inputs", "None", "input_values", "None"),
        ("Concrete Inputs", "['']", "input_values", "['']"),
        ("Concrete Inputs", [2**70], "input_values", "[1180591620717411303424]"),
        ("Concrete Inputs", [float("nan")], "input_values", "[null]"),
        ("Concrete Inputs", ["9" * 70_000], "input_values", '["' + "9" * 65_533 + "…"),
        ("Call stack", "", "call_stack", None),
        ("Call stack", "x" * 10_000, "call_stack", "x" * 4095 + "…"),
        ("correlation", 2**64 - 1, "correlation", None),
        ("correlation", 2**63 - 1, "correlation", 2**63 - 1),
        ("correlation", 10**30, "correlation", None),
        ("correlation", "12", "correlation", 12),
        ("correlation", None, "correlation", None),
        ("correlation", True, "correlation", None),
        ("correlation", [1], "correlation", None),
        ("device", 1 << 40, "device", None),
        ("Collective name", 5, "collective", None),
    ],
)
def test_odd_arguments_are_read_or_left_out_and_the_event_is_kept(key: str, value: Any, name: str, read: Any) -> None:
    args = {"device": 0, "stream": 7, "Process Group Name": "g"}
    trace = read_text(text_of(event("odd", args=args | {key: value}), event("even", args=args)))
    assert names(trace) == ["odd", "even"]
    assert column(trace, name)[0] == read
    assert trace.quality.num_dropped == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"correlation": "x"', "unusable args.correlation left out"),
        ('"correlation": "12"', "value of another type converted"),
        ('"correlation": null', "value of another type converted"),
        ('"correlation": 18446744073709551615', "integer beyond 64 bits left out"),
        ('"device": 1099511627776', "integer beyond 32 bits left out"),
        ('"stream": NaN', "unusable args.stream left out"),
        ('"other": NaN', "NaN or Infinity left out"),
        ('"other": -Infinity', "NaN or Infinity left out"),
        ('"other": "a\x01b"', "control characters or bytes that are not UTF-8 in a text"),
        ('"other": "a\nb"', "control characters or bytes that are not UTF-8 in a text"),
        ('"dtype": "\\ud800"', "control characters or bytes that are not UTF-8 in a text"),
        ('"stream": "x", "device": "y", "bytes": []', "unusable args.bytes left out"),  # the first by name
    ],
)
def test_each_repair_is_counted_with_its_reason_and_an_example(text: str, reason: str) -> None:
    odd = encoded(event("odd", args=1)).replace('"args": 1', f'"args": {{{text}}}')
    trace = read_text(text_of(event("a"), odd, event("b")))
    assert names(trace) == ["a", "odd", "b"]
    assert trace.quality.repaired == {reason: 1}
    assert set(trace.quality.examples) == {reason}


def test_text_that_is_not_utf8_or_holds_control_characters_is_cleaned() -> None:
    raw = encoded(event("NAME")).encode()
    found = []
    for odd in (b"a\xffb", b"a\x00\x1fb", b"\\ud800", b"\\ud83d\\ude00", b"\xed\xa0\x80", "é\x01".encode()):
        trace = read_text(b"[" + raw + b"," + raw.replace(b"NAME", odd) + b"," + raw + b"]")
        found.append(names(trace)[1])
        assert len(trace) == 3
    assert found == ["a\ufffdb", "a\x00\x1fb", "\ufffd", "😀", "\ufffd\ufffd\ufffd", "é\x01"]


def test_a_long_integer_costs_one_argument_not_the_event() -> None:
    long = json.dumps(event("long")).replace('"correlation": 5', f'"correlation": {"9" * 5000}')
    trace = read_text(text_of(long, event("k")))
    assert list(zip(names(trace), column(trace, "correlation"), strict=True)) == [("long", None), ("k", 5)]
    assert lost(trace) == {"unusable args.correlation left out": 1}


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("name", None, ""), ("name", 5, "5"), ("name", True, "True"), ("name", ["x"], ""), ("name", 1.5, "1.5"),
        ("cat", None, ""), ("cat", {}, ""), ("pid", 1.5, "1.5"), ("pid", None, ""), ("pid", False, "False"),
        ("tid", [1], ""), ("tid", 1 << 80, str(1 << 80)), ("pid", "", ""),
    ],
)  # fmt: skip
def test_odd_names_and_ids_do_not_cost_the_event(field: str, value: Any, read: str) -> None:
    trace = read_text(text_of(event("a"), event(**{field: value}), event("b")))
    assert len(trace) == 3
    assert column(trace, field)[1] == read
    assert trace.quality.num_dropped == 0


@pytest.mark.parametrize("args", ["null", "[]", "7", '"x"', "[[{}]]"])
def test_arguments_that_are_no_object_are_left_out(args: str) -> None:
    trace = read_text(text_of(event("a"), json.dumps(event("b", args=0)).replace('"args": 0', f'"args": {args}')))
    assert names(trace) == ["a", "b"]
    assert lost(trace) == ({} if args == "null" else {"unusable args left out": 1}) or args == "null"


# --- what is not a complete event -----------------------------------------------------------------


def test_begin_and_end_make_one_event_where_the_end_stands() -> None:
    def half(ph: str, name: str, ts: Any, tid: int = 1, **more: Any) -> dict[str, Any]:
        return {"ph": ph, "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts} | more

    trace = read_text(
        text_of(
            half("B", "outer", at("0.125"), args={"External id": 4}),
            half("B", "other thread", 5, tid=2),
            event("between"),
            half("B", "inner", at("1")),
            half("E", "", at("2.25"), args={"External id": 6}),
            half("E", "", at("3.5")),
            half("E", "never began", 9),
            half("B", "never ends", 9),
            half("B", "no time", None),
            half("E", "", 10),
            half("B", "ends at no time", 9),
            half("E", "", None),
            half("E", "", 8, tid=2),
        )
    )
    origin = EPOCH_US * 1000
    assert rows(trace) == [
        ("between", 1000, 2000),
        ("inner", origin + 1000, 1250),
        ("outer", origin + 125, 3375),
        ("other thread", 5000, 3000),
    ]
    assert column(trace, "external_id") == [None, 6, 4, None]
    assert trace.quality.dropped == {"end without begin": 1, "begin without end": 1, "no usable time": 2}


def test_begin_and_end_pair_across_a_change_from_floats_to_decimals() -> None:
    begin = {"ph": "B", "cat": "cpu_op", "name": "pair", "pid": 1, "tid": 1, "ts": 1.5}
    end = {"ph": "E", "pid": 1, "tid": 1, "ts": 3.75}
    text = text_of(begin, *[event()] * 20, event(ts=at("0.123")), *[event()] * 20, end)
    assert rows(read_text(text, chunk=200))[-1] == ("pair", 1500, 2250)


def test_an_end_before_its_begin_is_a_negative_duration() -> None:
    pair = [{"ph": ph, "name": "p", "pid": 1, "tid": 1, "ts": ts} for ph, ts in (("B", 5), ("E", 3))]
    assert read_text(text_of(event(), *pair)).quality.dropped == {"negative duration": 1}


def test_events_without_duration_are_skipped_by_kind_and_unknown_ones_dropped() -> None:
    phases = "iICnbeSTFpPNODvVRc()stf"
    others = [{"ph": ph, "name": "x", "ts": 1, "pid": 0, "tid": 0, "id": 1} for ph in phases]
    trace = read_text(text_of(event(), *others, {"ph": "Q"}, {"ph": ""}, {"ph": 5}, {"name": "no phase"}, {}))
    assert trace.quality.skipped == {
        "instant": 2, "counter": 1, "async": 7, "sample": 1, "object": 3, "memory dump": 2, "mark": 1, "clock sync": 1,
        "context": 2, "flow": 3,
    }  # fmt: skip
    assert trace.quality.dropped == {"unknown ph": 3, "no ph: not an event": 2}


def test_python_frames_are_skipped_unless_asked_for() -> None:
    text = text_of(event("a"), event("train.py(5): step", cat="python_function"), event("b"))
    trace = read_text(text)
    assert names(trace) == ["a", "b"]
    assert trace.quality.skipped == {"python_function": 1}
    trace = read_text(text, python_functions=True)
    assert names(trace) == ["a", "train.py(5): step", "b"]
    assert trace.quality.skipped == {}


def test_frames_are_kept_apart_by_thread_and_time_without_calls_of_built_in_functions() -> None:
    frame = {"cat": "python_function"}
    text = text_of(
        event("a"),
        event("nn.Module: Net_0", ts=at("1.5"), dur=2, tid=3, **frame),
        event("<built-in method view of Tensor object at 0x7f00>", **frame),
        event("train.py(5): step", ts=7, dur=-1, **frame),
        event("train.py(6): step", ts=None, **frame),
        event("train.py(7): step", ts=8, dur=4, **frame),
        event("aten::mm", ts=9, dur=1, cat="cpu_op", args={"Module Hierarchy": "TOP(Net)::forward."}),
        event("aten::t", ts=9, dur=1, cat="cpu_op", args={"Module Hierarchy": None}),
        baseTimeNanoseconds=1_000,
    )
    for chunk in (1 << 18, 100):
        trace = read_text(text, frames=True, chunk=chunk)
        assert names(trace) == ["a", "aten::mm", "aten::t"]
        assert trace.frames is not None
        assert trace.frames.rows() == [
            ("nn.Module: Net_0", "python_function", "0", "3", EPOCH_US * 1000 + 2_500, 2_000),
            ("train.py(7): step", "python_function", "0", "7", 9_000, 4_000),
            ("TOP(Net)::forward.", "module_hierarchy", "0", "7", 10_000, 1_000),
        ]
        assert trace.quality.skipped == {"built-in call": 1}
        assert trace.quality.dropped == {"frame without usable times": 2}
    assert read_text(text).frames is None


# --- flows ----------------------------------------------------------------------------------------


def flow(ph: str, number: Any, ts: Any, pid: Any, tid: Any, cat: str = "ac2g") -> dict[str, Any]:
    return {"ph": ph, "cat": cat, "name": cat, "id": number, "ts": ts, "pid": pid, "tid": tid, "bp": "e"}


def test_flows_join_what_correlation_cannot() -> None:
    """ROCm 6.1: the communication kernel has correlation 0; its launch's own is 77. Another kernel is sound."""
    args = {"device": 0, "stream": 7}
    launch = event("hipLaunchKernel", ts=10.5, cat="cuda_runtime", pid=1, tid=1, args={"correlation": 77})
    other = event("hipLaunchKernel", ts=20, cat="cuda_runtime", pid=1, tid=1, args={"correlation": 78})
    text = text_of(
        launch, other, event("ncclKernel", ts=30.25, args=args | {"correlation": 0}),
        event("gemm", ts=40, args=args | {"correlation": 78}), event("Memset", ts=50, cat="gpu_memset", args=args),
        flow("s", 5, 10.5, 1, 1), flow("f", 5, 30.25, 0, 7), flow("s", 6, 20, "1", "1 "), flow("f", 6, 40, 0, 7),
        flow("f", 9, 50, 0, 7), flow("s", 8, 10.5, 1, 1, cat="fwdbwd"), flow("f", 7, 999, 0, 7), flow("t", 5, 50, 0, 7),
        flow("s", "five", 10.5, 1, 1), flow("s", None, 10.5, 1, 1), flow("s", 1 << 70, 10.5, 1, 1),
        flow("s", 5, None, 1, 1), baseTimeNanoseconds=1_751_410_836_000_000_000,
    )  # fmt: skip
    for chunk in (64, 1 << 18):
        trace = read_text(text, chunk=chunk)
        assert column(trace, "flow_id") == [5, None, 5, None, 9]
        assert trace.quality.skipped == {"flow": 12}
        assert lost(trace) == {}
        assert dict(trace.events.schema) == EVENT_SCHEMA


def test_flows_that_tell_nothing_join_nothing() -> None:
    """The only arrows of a file with an orphan have no number."""
    text = text_of(event("kernel", args={"device": 0, "stream": 7}), flow("s", None, 1, 0, 7), flow("f", "x", 1, 0, 7))
    assert column(read_text(text), "flow_id") == [None]


def test_flows_are_exact_at_epoch_size() -> None:
    texts = [
        event("launch", ts=0, cat="cuda_runtime", args={"correlation": 1}),
        event("kernel", ts=9, args={}),
        flow("s", 5, 0, 0, 7),
        flow("f", 5, 9, 0, 7),
        flow("f", 6, 8, 0, 7),  # a nanosecond beside
    ]
    stamps = {0: f"{EPOCH_US}.123", 9: f"{EPOCH_US}.457", 8: f"{EPOCH_US}.456"}
    text = text_of(*(json.dumps(t).replace(f'"ts": {t["ts"]}', f'"ts": {stamps[t["ts"]]}') for t in texts))
    assert column(read_text(text), "flow_id") == [5, 5]


def test_a_file_without_orphans_is_read_once(tmp_path: Path) -> None:
    text = text_of(event(), flow("f", 5, 1, 0, 7))
    pieces: list[int] = []
    trace = read_file(tmp_path, text, on_progress=pieces.append)
    assert column(trace, "flow_id") == [None]
    assert sum(pieces) == len(text)


# --- facts ----------------------------------------------------------------------------------------

WORLD = {"backend": "nccl", "rank": 3, "world_size": 64}


@pytest.mark.parametrize(
    "info",
    [
        json.dumps(WORLD, indent=4),
        json.dumps(WORLD, separators=(",", ":")),
        json.dumps(json.dumps(WORLD)),
        '{"backend": "nccl", "rank": "3", "world_size": "64", "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}',
    ],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_distributed_info_in_every_spelling_and_place(info: str, place: str) -> None:
    text = text_of(event())
    text = (
        f'{{"distributedInfo": {info}, {text[1:]}' if place == "before" else f'{text[:-1]}, "distributedInfo": {info}}}'
    )
    for chunk in (1 << 18, 50):
        trace = read_text(text, chunk=chunk, name="rank7.json")
        assert (trace.rank, trace.world_size, trace.backend) == (3, 64, "nccl")
        assert lost(trace) == {}


@pytest.mark.parametrize(
    "info",
    [None, [], "nonsense", {}, {"rank": -1, "world_size": True}, {"rank": "²", "world_size": 1 << 40}, {"backend": 5}],
)
def test_odd_distributed_info_tells_nothing_and_the_name_counts(info: Any) -> None:
    trace = read_text(text_of(event(), distributedInfo=info), name="rank7.json")
    assert (trace.rank, trace.world_size, trace.backend) == (7, None, None)


def test_a_rank_that_is_given_overrides_the_file() -> None:
    assert read_text(text_of(event(), distributedInfo=WORLD), rank=0).rank == 0


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank0.json", 0), ("/x/y/rank-0.json.gz", 0), ("trace_rank_12.json", 12), ("sampled_rank-1.json.gz", 1),
        ("Rank=3.json", 3), ("rank.7.json", 7), ("worker5.1712.pt.trace.json", 5), ("run_worker_2_x.json", 2),
        ("trace_0_.json", 0), ("x_0_step_100.json", 0), ("trace_3_1700000000.json", 3), ("12.json", 12),
        ("s3://bucket/rank5/part.json", None), ("train.json", None), ("deepseek-v3-train.json.gz", None),
        ("node17_24311.1738000000000000000.pt.trace.json", None),  # a process, not a rank
        ("host-1_24311.1738000000000.pt.trace.json.gz", 1),
        ("trace-2024-01-15.json", None), ("step_100.json", None), ("epoch-3-iter-7.json", None), ("", None),
        ("rank1234567.json", None),
    ],
)  # fmt: skip
def test_the_rank_that_a_name_tells(path: str, rank: int | None) -> None:
    assert rank_in_name(path) == rank


def test_devices_as_the_file_describes_them() -> None:
    properties = [
        {"id": 0, "name": "NVIDIA H800", "numSms": 132, "totalGlobalMem": 84943110144},
        {"id": "1", "name": None, "numSms": -1, "totalGlobalMem": "80"},
        {"name": "no id"}, {"id": True}, {"id": 1.5}, None, 7,
    ]  # fmt: skip
    trace = read_text(text_of(event(), deviceProperties=properties))
    assert trace.devices == (
        Device(id=0, name="NVIDIA H800", num_sms=132, memory_bytes=84943110144),
        Device(id=1, memory_bytes=80),
    )
    odd: Any
    for odd in (None, {}, "x", 5):
        assert read_text(text_of(event(), deviceProperties=odd)).devices == ()


def test_scalars_that_differ_in_every_call_are_read_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds, offsets and addresses: of the first only, the arguments as they stand in the file are kept."""
    monkeypatch.setattr(argument_texts, "_MOST_CALLS", 10)
    args = [{"Input Dims": [[n % 3]], "Concrete Inputs": ["", str(n % 90)]} for n in range(200)]
    args[150] |= {"Concrete Inputs": 7}
    trace = read_text(text_of(*(event("op", cat="cpu_op", args=of) for of in args)), chunk=1000)
    values = [f'["","{n % 90}"]' if n != 150 else None for n in range(200)]
    assert column(trace, "input_values") == values
    assert column(trace, "input_shapes") == [f"[[{n % 3}]]" for n in range(200)]
    assert trace.quality.repaired == {"unusable args.Concrete Inputs left out": 1}


def test_what_one_sm_holds_as_the_file_states_it() -> None:
    limits = {"maxThreadsPerMultiprocessor": 2048, "warpSize": 64, "maxThreadsPerBlock": 1024}
    properties: list[dict[str, Any]] = [
        {"id": 0, "computeMajor": 9, "computeMinor": 0, **limits, "regsPerMultiprocessor": 65536,
         "sharedMemPerMultiprocessor": 233472},
        {"id": 1, "computeMajor": 9, "computeMinor": 4, **limits, "maxSharedMemoryPerMultiProcessor": 65536},
        {"id": 2, "computeMajor": 0, "computeMinor": 0, "warpSize": 0, "regsPerMultiprocessor": -1,
         "maxThreadsPerMultiprocessor": 2048.5, "maxThreadsPerBlock": 2**70, "sharedMemPerMultiprocessor": [1]},
        {"id": 3, "computeMajor": 8, "warpSize": " 32 ", "maxThreadsPerBlock": True},
    ]  # fmt: skip
    trace = read_text(text_of(event(), deviceProperties=properties))
    common: Any = {"max_threads_per_sm": 2048, "warp_size": 64, "max_threads_per_block": 1024}
    assert trace.devices == (
        Device(id=0, capability=(9, 0), registers_per_sm=65536, shared_bytes_per_sm=233472, **common),
        Device(id=1, capability=(9, 4), shared_bytes_per_sm=65536, **common),
        Device(id=2),
        Device(id=3, warp_size=32),
    )


def test_other_facts_are_passed_on_as_texts() -> None:
    trace = read_text(
        text_of(event(), schemaVersion=1, version=4.1, flag=True, name="x", list=[1], object={}, none=None)
    )
    assert trace.info == {"schemaVersion": "1", "version": "4.1", "flag": "True", "name": "x"}


def test_only_weftraces_own_mark_makes_a_trace_simulated() -> None:
    assert read_text(text_of(event(), weftrace_simulated=True)).simulated
    assert not read_text(text_of(event(), weftrace_simulated="yes")).simulated


# --- forms of the file ----------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 18])
@pytest.mark.parametrize(
    "form",
    [
        '{"traceEvents":[%s]}', "[%s]", "[%s", "[%s,]", "[%s\n,\n", "\ufeff[%s]", '\ufeff{"traceEvents":[%s]}',
        ' \r\n\t{"traceEvents" \n:\r\n [ %s ] } \n', '{"traceEvents":[%s],"x":1}',
        '{"a":{"b":[{}]},"traceEvents":[%s]}',
        '{"traceEvents":[%s],"a":[{"b":1},{"c":2}]}', '{"s":"\\"traceEvents\\":[","traceEvents":[%s]}',
        '{"traceEvents":[%s],"s":"]}{\\"ph\\":1}"}', '{"traceEvents":[%s]}\0\0\0', '{"traceEvents":[%s]}\n\n',
        '{"s":"},{","traceEvents":[%s],"t":"},{"}',
    ],
)  # fmt: skip
def test_objects_and_bare_lists_in_every_layout(form: str, chunk: int) -> None:
    events = [event("a"), event('},{"ph":"]}'), event("\\"), event("é核🧵")]
    texts = (json.dumps(events)[1:-1], json.dumps(events, indent=1, ensure_ascii=False).replace("\n", "\r\n")[1:-1])
    for listed in texts:
        trace = read_text(form.replace("%s", listed), chunk=chunk)
        assert names(trace) == ["a", '},{"ph":"]}', "\\", "é核🧵"]
        assert lost(trace) == {}
        closed = form.rstrip().rstrip("\0")[-1] in "]}"
        assert (trace.quality.truncated is None) == closed


def test_large_facts_before_and_after_the_events() -> None:
    large = {"text": "x" * 700_000, "list": [{"a": [1, 2, {}]}] * 20_000}
    text = json.dumps(
        {"before": large, "traceEvents": [event("a"), event("b")], "after": large, "distributedInfo": WORLD}
    )
    trace = read_text(text)
    assert names(trace) == ["a", "b"]
    assert trace.rank == 3
    assert lost(trace) == {}
    assert trace.quality.truncated is None


@pytest.mark.parametrize("size", [300, 300_000, 3_000_000])
def test_an_event_longer_than_a_chunk(size: int) -> None:
    long = event("long", args={"shapes": [{"dim": 1}] * (size // 12)})
    stringy = event("stringy", args={"text": "},{" * (size // 3)})
    trace = read_text(text_of(event("a"), long, event("b"), stringy, event("c")), chunk=1 << 16)
    assert names(trace) == ["a", "long", "b", "stringy", "c"]
    assert lost(trace) == {}


def test_nested_objects_in_arguments_are_no_events() -> None:
    nested = event("n", args={"x": [{"ph": "X", "name": "inner", "ts": 1, "dur": 1}, {"y": []}] * 20})
    for chunk in (50, 1000, 1 << 18):
        assert names(read_text(text_of(nested, event("b"), nested), chunk=chunk)) == ["n", "b", "n"]


def test_duplicate_keys_the_last_one_counts() -> None:
    assert names(read_text(text_of('{"ph":"X","name":"a","ts":1,"dur":1,"name":"b"}'))) == ["b"]


def test_a_second_list_of_events_is_read_too() -> None:
    text = text_of(event("a"))[:-1] + ', "traceEvents": [' + json.dumps(event("b")) + "]}"
    trace = read_text(text)
    assert names(trace) == ["a", "b"]
    assert lost(trace) == {"events beyond the end of the list were read": 1}


def test_gzip_also_twice_over(tmp_path: Path) -> None:
    text = text_of(event()).encode()
    for name, data in (("a.json.gz", gzip.compress(text)), ("b.json", gzip.compress(gzip.compress(text)))):
        assert names(read_file(tmp_path, data, name)) == ["k"]


def test_python_and_polars_agree_on_columns_whatever_the_number_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of three rows: some of them lack a column that others have."""
    from weftrace.trace.chrome import columns as chrome_columns

    events = [event(f"k{n}", ts=n, args={"stream": n, "Collective name": f"c{n}"} if n == 4 else {}) for n in range(11)]
    whole = read_text(text_of(*events), chunk=150)
    monkeypatch.setattr(chrome_columns, "_PART_ROWS", 3)
    parts = read_text(text_of(*events), chunk=150)
    assert parts == whole
    assert parts.events.n_chunks() > 1
    assert column(parts, "collective") == [None] * 4 + ["c4"] + [None] * 6


def test_limits(tmp_path: Path) -> None:
    text = text_of(event())
    assert len(read_file(tmp_path, text, max_bytes=len(text))) == 1
    with pytest.raises(TraceTooLarge, match=r"trace\.json: expands past the limit of 10 B.*--max-bytes"):
        read_file(tmp_path, text, max_bytes=10)


# --- recorded traces ------------------------------------------------------------------------------


def test_recorded_traces_agree_with_the_json_module(recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        text = gzip.decompress(path.read_bytes())
        for python_functions in (False, True):
            trace = read_chrome(path, python_functions=python_functions)
            assert actual_rows(trace) == list(expected_rows(text, python_functions=python_functions)), path
            assert trace.quality.num_dropped == 0, (path, trace.quality)


def test_recorded_traces_say_who_they_are(shared_data: Path) -> None:
    found = {}
    for path in sorted(shared_data.glob("**/*.json.gz")):
        trace = read_chrome(path)
        found[path.name.split(".")[0]] = (trace.rank, trace.world_size, trace.device_ids, len(trace))
    assert found == {
        "bytedance-straggler-ST": (None, None, (), 6784),
        "deepseek-v3-train": (0, 64, (0,), 9305),
        "hta-cpu-only-rank34": (34, 300, (), 15),
        "hta-event-sync-multi-stream": (0, None, (0,), 56),
        "hta-mi250-minitoy": (None, None, (2,), 112),
        "hta-nccl-data": (0, 2, (0,), 26932),
        "hta-ns-resolution": (0, 1, (0,), 45419),
        "hta-rank-non-gpu": (0, None, (), 2467),
        "hta-triton-example": (None, None, (0,), 7),
        "sampled_rank-0": (0, 128, (0,), 4810),
        "sampled_rank-1": (1, 128, (1,), 4675),
        "tracelens-h100-bert-small": (None, None, (0,), 674),
        "tracelens-h100-owlv2": (None, None, (0,), 38845),
        "tracelens-mi300-bert-small": (None, None, (2,), 743),
        "tracelens-vllm-decode-graph": (0, 1, (2,), 555),
        "tracelens-vllm-prefilldecode": (0, 1, (2,), 1447),
    }


def test_sms_of_the_deepseek_trace(shared_data: Path) -> None:
    """Grids as the published picture has them: DeepEP on 20 SMs, the persistent GEMMs on 112."""
    trace = read_chrome(shared_data / "deepseek-v3-train.json.gz")
    blocks = trace.events.filter(pl.col("cat") == "kernel").group_by("name").agg(pl.col("num_blocks").max())
    limits = {"max_threads_per_sm": 2048, "registers_per_sm": 65536, "shared_bytes_per_sm": 233472, "warp_size": 32}
    assert trace.devices[0] == Device(
        id=0,
        name="NVIDIA H800",
        num_sms=132,
        memory_bytes=84943110144,
        capability=(9, 0),
        max_threads_per_block=1024,
        **limits,
    )
    assert {20, 112} <= set(blocks.get_column("num_blocks").to_list())


def test_a_file_that_is_no_trace_is_an_error() -> None:
    with pytest.raises(TraceError):
        read_text("{}")


def test_a_file_of_pytorch_1_8(tmp_path: Path) -> None:
    """As torch_tb_profiler's tests have it: steps are operators, and stacks stand with operators."""
    events: list[dict[str, Any]] = []
    for step, ts in ((1, 0), (2, 1000)):
        call = {"External id": step, "Input Dims": [[2, 8]], "Call stack": "train.py(12): step;train.py(30): <module>"}
        on_host = {"ph": "X", "pid": 13721, "tid": "123"}
        on_device = {"ph": "X", "pid": 0, "tid": "stream 7"}
        launched = {"correlation": step, "external id": step}
        copied = {"correlation": 10 + step, "external id": step}
        events += [
            {**on_host, "cat": "Operator", "name": f"ProfilerStep#{step}", "ts": ts, "dur": 900, "args": {}},
            {**on_host, "cat": "Operator", "name": "aten::mm", "ts": ts + 10, "dur": 50, "args": call},
            {**on_host, "cat": "Runtime", "name": "cudaLaunchKernel", "ts": ts + 20, "dur": 5, "args": launched},
            {
                **on_device,
                "cat": "Kernel",
                "name": "gemm",
                "ts": ts + 100,
                "dur": 60,
                "args": {"stream": 7, **launched},
            },
            {**on_host, "cat": "Runtime", "name": "cudaMemcpyAsync", "ts": ts + 30, "dur": 5, "args": copied},
            {
                **on_device,
                "cat": "Memcpy",
                "name": "Memcpy HtoD",
                "ts": ts + 200,
                "dur": 10,
                "args": {"stream": 7, **copied},
            },
            {**on_device, "cat": "Memset", "name": "Memset", "ts": ts + 220, "dur": 1, "args": {"stream": 7}},
        ]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    trace = read_chrome(path)
    cats = ["user_annotation", "cpu_op", "cuda_runtime", "kernel", "cuda_runtime", "gpu_memcpy", "gpu_memset"]
    assert trace.events.get_column("cat").to_list() == 2 * cats
    work = work_of(trace)
    assert work.steps == (1, 2)
    assert work.events.get_column("step").to_list() == [1, 1, 1, 2, 2, 2]
    assert work.events.get_column("link").to_list() == 2 * ["correlation", "correlation", None]
    assert trace.events.get_column("call_stack").drop_nulls().unique().to_list() == [call["Call stack"]]
    assert code_times(work, "line").folded.item(0, "name") == "train.py(12): step"
