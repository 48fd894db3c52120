"""Small random traces of one device, and their accounts by a method of its own: one bit a nanosecond."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, NOTIFY
from weftrace.trace import (
    EVENT_SCHEMA,
    Device,
    KernelRules,
    Trace,
    Work,
    classify,
    events_frame,
    load_rules,
    work_of,
)

SIZE = 80  # ns

#: name -> (category, class)
KINDS = {
    GEMM: ("kernel", "compute"),
    "void at::native::vectorized_elementwise_kernel<4>(int)": ("kernel", "compute"),
    "a kernel that nobody knows": ("kernel", "compute"),
    ALL_REDUCE: ("kernel", "communication"),
    DISPATCH: ("kernel", "communication"),
    NOTIFY: ("kernel", "communication"),
    "Memcpy DtoD (Device -> Device)": ("gpu_memcpy", "memory"),
    "Memset (Device)": ("gpu_memset", "memory"),
}

Bits = NDArray[np.bool_]


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Kernels, copies and collectives on three streams, some without launch, launched in and out of phases, steps."""
    rows: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 14))):
        name = draw(st.sampled_from(sorted(KINDS)))
        start = draw(st.integers(20, SIZE))
        device_event = {
            "name": name, "cat": KINDS[name][0], "pid": "0", "ts_ns": start, "dur_ns": draw(st.integers(0, 25)),
            "device": 0, "stream": draw(st.sampled_from((0, 7, 20))), "correlation": number + 1,
            "num_blocks": draw(st.none() | st.integers(1, 200)),
        }  # fmt: skip
        device_event["tid"] = str(device_event["stream"])
        rows.append(device_event)
        if draw(st.integers(0, 4)):
            thread = draw(st.sampled_from("12"))
            call = _host("cudaLaunchKernel", "cuda_runtime", draw(st.integers(0, start)), 1, thread)
            rows.append(call | {"correlation": number + 1})
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(("attn(F)", "attn(B)", "dispatch(F)", "nccl:all_reduce")))
        rows.append(
            _host(
                name, "user_annotation", draw(st.integers(0, 60)), draw(st.integers(0, 40)), draw(st.sampled_from("12"))
            )
        )
    cuts = sorted(draw(st.sets(st.integers(0, 70), max_size=3)))
    for step, (start, end) in enumerate(zip(cuts, [*cuts, SIZE][1:], strict=True)):
        rows.append(_host(f"ProfilerStep#{step}", "user_annotation", start, draw(st.integers(0, end - start)), "1"))
    rows.append(_host("autograd::engine::evaluate_function: MmBackward0", "cpu_op", 0, SIZE, "2"))
    rows = draw(st.permutations(rows))
    columns = {column: [row.get(column) for row in rows] for column in EVENT_SCHEMA}
    return Trace(events=events_frame(columns, len(rows)), path="random.json", devices=(Device(id=0, num_sms=132),))


@cache
def few_rules() -> KernelRules:
    """Those of weftrace's kernel rules that name a kernel of `KINDS`: the others cost time and change nothing."""
    every = load_rules()
    used = set(classify(pl.Series(list(KINDS)), every)["rule"])
    return KernelRules(rules=tuple(rule for rule in every.rules if rule.name in used))


def random_work(trace: Trace) -> Work:
    return work_of(trace, rules=few_rules())


def _host(name: str, cat: str, ts: int, dur: int, tid: str) -> dict[str, Any]:
    return {"name": name, "cat": cat, "pid": "1", "tid": tid, "ts_ns": ts, "dur_ns": dur}


def bits(events: pl.DataFrame) -> Bits:
    """One bit a nanosecond from 0: set where any of the events ran. For frames with start_ns and end_ns."""
    ran = np.zeros(2 * SIZE, np.bool_)
    for start, end in events.select("start_ns", "end_ns").iter_rows():
        ran[start:end] = True
    return ran


def device_events(trace: Trace) -> pl.DataFrame:
    """name, class, stream, start_ns, end_ns of a random trace's device events, taken from `KINDS` and nothing else."""
    rows = [
        {"name": row["name"], "kind": KINDS[row["name"]][1], "stream": row["stream"], "start_ns": row["ts_ns"],
         "end_ns": row["ts_ns"] + row["dur_ns"], "correlation": row["correlation"]}
        for row in trace.events.iter_rows(named=True)
        if row["name"] in KINDS
    ]  # fmt: skip
    return pl.DataFrame(rows)


def of_kind(events: pl.DataFrame, kind: str) -> Bits:
    return bits(events.filter(pl.col("kind") == kind))
