"""A simulated trace looks like a measured one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from weftrace.plan import Op, Plan, Resource, simulate, simulate_ranks
from weftrace.plan.as_traces import NUM_THREADS
from weftrace.trace.model import EVENT_SCHEMA, Device, is_annotation, is_launch, on_device

C, N = Resource(stream=7), Resource(stream=27)

#      0    5   10   15          gap 1 between any two kernels of a stream
# C    aa.aaa.mmmm               attn(F) has two kernels; mlp(F) waits for its stream only
# N    ......n.ddd.x             notify and dispatch in the phase dispatch(F), after attn(F); a copy in no phase
PLAN = Plan.of(
    (
        Op(id="a", name="attn(F)", duration_ns=5, resource=C, num_kernels=2, num_sms=112, phase="attn(F)", layer=0),
        Op(id="m", name="mlp(F)", duration_ns=4, resource=C, num_sms=112, phase="mlp(F)", layer=0),
        Op(
            id="n",
            name="notify_dispatch",
            duration_ns=1,
            resource=N,
            kind="communication",
            after=("a",),
            num_sms=20,
            phase="dispatch(F)",
            layer=0,
        ),
        Op(
            id="d",
            name="dispatch",
            duration_ns=3,
            resource=N,
            kind="communication",
            after=("n",),
            num_sms=20,
            phase="dispatch(F)",
            layer=0,
        ),
        Op(id="x", name="copy", duration_ns=1, resource=N, kind="memory", after=("m",)),
    ),
    name="small",
    gap_ns=1,
    num_sms=132,
    device_name="NVIDIA H800",
    world_size=64,
    source="a pencil",
)


def test_device_side() -> None:
    trace = simulate(PLAN)
    origin = int(trace.info["origin_ns"])
    device = trace.events.filter(on_device()).sort("correlation")
    rows = [
        (name, cat, stream, ts - origin, dur, blocks)
        for name, cat, stream, ts, dur, blocks in device.select(
            "name", "cat", "stream", "ts_ns", "dur_ns", "num_blocks"
        ).rows()
    ]
    assert rows == [
        ("weftrace::sim::compute::attn(F)", "kernel", 7, 0, 2, 112),
        ("weftrace::sim::compute::attn(F)", "kernel", 7, 3, 3, 112),
        ("weftrace::sim::compute::mlp(F)", "kernel", 7, 7, 4, 112),
        ("weftrace::sim::communication::notify_dispatch", "kernel", 27, 6, 1, 20),
        ("weftrace::sim::communication::dispatch", "kernel", 27, 8, 3, 20),
        ("weftrace::sim::memory::copy", "gpu_memcpy", 27, 12, 1, None),
    ]
    assert device["device"].to_list() == [0] * 6
    assert device["num_threads"].to_list() == [NUM_THREADS] * 5 + [None]
    assert device["tid"].to_list() == ["7"] * 3 + ["27"] * 3


def test_host_side() -> None:
    trace = simulate(PLAN)
    ranges = trace.events.filter(is_annotation())
    assert ranges["name"].to_list() == ["ProfilerStep#1", "attn(F)", "mlp(F)", "dispatch(F)"]
    launches = trace.events.filter(is_launch())
    assert launches["name"].to_list() == ["cudaLaunchKernel"] * 5 + ["cudaMemcpyAsync"]
    assert launches["device"].null_count() == launches["stream"].null_count() == 6
    assert ranges["correlation"].null_count() == 4
    assert ranges["pid"].n_unique() == ranges["tid"].n_unique() == 1
    assert set(launches["tid"]) == set(ranges["tid"])


def test_what_the_trace_says_of_itself() -> None:
    trace = simulate(PLAN)
    assert trace.simulated
    assert (trace.rank, trace.world_size, trace.device_ids) == (0, 64, (0,))
    assert trace.devices == (Device(id=0, name="NVIDIA H800 (simulated)", num_sms=132),)
    assert trace.info["plan"] == "small" and trace.info["source"] == "a pencil"
    assert trace.events.schema == pl.Schema(EVENT_SCHEMA)
    assert [t.name for t in trace.tracks if t.pid == "0" and t.tid] == ["stream 7", "stream 27"]
    assert simulate(PLAN) == trace


def test_a_phase_that_comes_back_is_a_range_each_time() -> None:
    one = PLAN.op(0)
    again = replace(one, id="a1", layer=1)
    trace = simulate(Plan.of((one, again), name="twice"))
    assert trace.events.filter(is_annotation())["name"].to_list() == ["ProfilerStep#1", "attn(F)", "attn(F)"]


def test_several_ranks_share_a_clock() -> None:
    # rank 0  aaa
    # rank 3  ...bb      b waits for a
    a = Op(id="a", name="a", duration_ns=3, resource=Resource(rank=0, stream=7))
    b = Op(id="b", name="b", duration_ns=2, resource=Resource(rank=3, stream=7), after=("a",))
    traces = simulate_ranks(Plan.of((b, a), name="two"))
    assert list(traces) == [0, 3]
    assert [t.rank for t in traces.values()] == [0, 3]
    assert {t.world_size for t in traces.values()} == {4}
    first, second = (t.events.filter(on_device()).row(0, named=True) for t in traces.values())
    assert second["ts_ns"] == first["ts_ns"] + 3
    assert traces[0].info["origin_ns"] == traces[3].info["origin_ns"]


def test_one_rank_need_not_be_rank_0() -> None:
    lone = Op(id="a", name="a", duration_ns=3, resource=Resource(rank=5, stream=7))
    trace = simulate(Plan.of((lone,), name="lone"))
    assert (trace.rank, trace.world_size) == (5, 6)
