"""What a plan knows of an op reaches every analysis: its layer, its micro-batch, and its kind, whatever its name."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import weftrace
from weftrace.analysis import breakdown, lanes, phases
from weftrace.plan import Kind, Op, Plan, Resource, simulate, timetable, trace_of
from weftrace.report import analyze
from weftrace.trace import Trace, load_parquet, load_rules, read_chrome, save_parquet, work_of, write_chrome

C, N = Resource(stream=7), Resource(stream=27)
REPEATS = list(product(range(2), range(3)))  # (micro-batch, layer)


def steps() -> Plan:
    """Two micro-batches of three layers: each an attention of 4 ns, then a dispatch of 2 ns, which the next hides."""
    ops = [
        op
        for micro_batch, layer in REPEATS
        for op in (
            Op(id=f"a{micro_batch}{layer}", name="attn", duration_ns=4, resource=C, phase="attn(F)", num_sms=112,
               layer=layer, micro_batch=micro_batch),
            Op(id=f"d{micro_batch}{layer}", name="dispatch", duration_ns=2, resource=N, kind="communication",
               num_sms=20, after=(f"a{micro_batch}{layer}",), phase="dispatch(F)", layer=layer,
               micro_batch=micro_batch),
        )
    ]  # fmt: skip
    return Plan.of(ops, name="two micro-batches of three layers", num_sms=132)


def through_json(trace: Trace, folder: Path) -> Trace:
    write_chrome(trace, folder / "t.json.gz")
    return read_chrome(folder / "t.json.gz")


def through_parquet(trace: Trace, folder: Path) -> Trace:
    save_parquet(trace, folder / "t.parquet")
    return load_parquet(folder / "t.parquet")


Way = Callable[[Trace, Path], Trace]
WAYS = pytest.mark.parametrize("way", [lambda trace, folder: trace, through_json, through_parquet],
                               ids=["memory", "json", "parquet"])  # fmt: skip


@WAYS
def test_phases_and_boxes_know_layer_and_micro_batch(way: Way, tmp_path: Path) -> None:
    trace = way(simulate(steps()), tmp_path)
    found = phases(trace)
    expected = [(name, layer, micro_batch) for micro_batch, layer in REPEATS for name in ("attn(F)", "dispatch(F)")]
    assert sorted(found.select("name", "layer", "micro_batch").rows()) == sorted(expected)
    assert found.filter(name="attn(F)")["index"].to_list() == list(range(6)), "occurrences count on"
    compute, communication = lanes(trace)
    for lane in (compute, communication):
        assert lane.boxes.select("micro_batch", "layer").rows() == REPEATS
    rank = analyze(trace, timelines=False).document["ranks"][0]
    assert [(box["micro_batch"], box["layer"]) for box in rank["lanes"][0]["boxes"]] == REPEATS
    assert {(phase["micro_batch"], phase["layer"]) for phase in rank["phases"]} == set(REPEATS)


def test_a_measured_trace_knows_neither(tmp_path: Path) -> None:
    from tests.tracefile import GEMM, TraceFile

    trace = TraceFile().host("attn(F)", 0, 9).kernel(GEMM, 20, 5, launch=3).trace(tmp_path)
    assert phases(trace).select("layer", "micro_batch").rows() == [(None, None)]
    assert trace.events["op_kind"].null_count() == len(trace)


NAMES: list[tuple[str, Kind]] = [
    ("gemm_allreduce", "compute"), ("foo", "communication"), ("ncclDevKernel_AllReduce", "compute"),
    ("Memcpy DtoD", "compute"), ("void cutlass::gemm", "communication"), ("nvjet_gemm", "memory"),
]  # fmt: skip


@WAYS
def test_a_simulated_kernels_class_is_its_ops_kind(way: Way, tmp_path: Path) -> None:
    ops = tuple(
        Op(id=str(n), name=name, kind=kind, duration_ns=2**n, resource=C) for n, (name, kind) in enumerate(NAMES)
    )
    misleading = tmp_path / "rules.toml"
    misleading.write_text(
        "[[rule]]\nname='mine'\nkind='communication'\nfamily='mine'\nmatch='(?i)allreduce'\nsource='test'\n"
        "[[rule]]\nname='mine too'\nkind='compute'\nfamily='mine'\nmatch='foo|cutlass'\nsource='test'\n"
        "[[rule]]\nname='jet'\nkind='memory'\nfamily='jet copies'\nmatch='nvjet'\nsource='test'\n"
    )
    trace = way(simulate(Plan.of(ops, name="names that mislead")), tmp_path)
    for rules in (None, load_rules(misleading)):
        work = work_of(trace, rules=rules)
        assert work.events["kind"].cast(pl.String).to_list() == [kind for _, kind in NAMES]
        account = breakdown(work)
        assert account.compute_ns == 2**0 + 2**2 + 2**3
        assert account.communication_ns == 2**1 + 2**4
        assert account.memory_ns == 2**5
        families = work.events["family"].cast(pl.String).to_list()
        # A rule of the user's that agrees with the plan on the class names the family.
        assert families == ["simulated"] * 5 + ["simulated" if rules is None else "jet copies"]
        assert work.events["collective"].null_count() == len(NAMES)
    if trace.path:
        assert trace.simulated


def test_ranks_that_meet_wait_in_the_analyses_as_long_as_in_the_plan(tmp_path: Path) -> None:
    """A pipeline with a blocking send a micro-batch: the files are matched by the plan's meets, on one clock."""
    ops = []
    for stage, micro_batch in product(range(3), range(6)):
        compute, up, down = (Resource(rank=stage, stream=stream) for stream in (7, 21, 22))
        own = f"F{micro_batch}@{stage}"
        link: dict[str, Any] = {"duration_ns": 2_000, "kind": "communication"}  # a receive and its send share a meet
        if stage > 0:
            ops.append(Op(id=f"r{own}", name="recv", resource=up, meet=10 * stage + micro_batch, **link))
        after = (f"r{own}",) if stage > 0 else ()
        duration_ns = 3_000 + 4_000 * ((stage + micro_batch) % 3)
        ops.append(Op(id=own, name="F", duration_ns=duration_ns, resource=compute, after=after))
        if stage < 2:
            meet = 10 * (stage + 1) + micro_batch
            ops.append(Op(id=f"s{own}", name="send", resource=down, meet=meet, after=(own,), **link))
    times = timetable(Plan.of(ops, name="pipeline"))
    met = times.ops.filter(pl.col("meet").is_not_null())
    waiting_ns = met.select((pl.col("end_ns") - pl.col("start_ns") - pl.col("duration_ns")).sum()).item()
    for ending in ("json.gz", "parquet"):
        for rank in times.plan.ranks:
            weftrace.save(trace_of(times, rank), tmp_path / f"rank{rank}.{ending}")
        found = analyze(weftrace.open(str(tmp_path / f"*.{ending}")), timelines=False).analysis
        assert found is not None and found.lateness is not None
        late = found.lateness
        assert (late.num_by_sequence, late.not_the_same, late.clocks_applied) == (12, 0, False)
        assert int(late.ranks["suffered_ns"].sum()) == waiting_ns
