"""A plan of phases: what a phase is on a stream, which waits stay, and that a replay still ends when the run did."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import weftrace as wt
from tests.plan.inference.random_runs import random_run
from tests.plan.inference.truth import inferred_from
from weftrace.errors import PlanError
from weftrace.plan import Inferred, Op, Plan, Resource, Wait, infer, simulate, timetable
from weftrace.plan.inference.phase_level import by_phase
from weftrace.plan.inference.values import EDGE_SCHEMA
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.trace import Trace
from weftrace.units import US

DATA = Path(os.environ.get("WEFTRACE_DATA", "../shared/data"))
C, N, HOST = Resource(stream=7), Resource(stream=27), Resource(stream=1_000)


def kernel(name: str, phase: str | None, time_us: int, *after: str, on: Resource = C, **facts: object) -> list[Op]:
    """A kernel and the call that launches it."""
    launch = Op(id=f"launch {name}", name="cudaLaunchKernel", kind="host", duration_ns=2 * US, resource=HOST,
                phase=phase)  # fmt: skip
    return [launch, Op(id=name, name=name, duration_ns=time_us * US, resource=on, phase=phase, layer=0,
                       kind="communication" if on == N else "compute",
                       after=(Wait(f"launch {name}", why="launch"), *after))]  # fmt: skip


#  us  0   20  40      80     120     160
#  C   [a1 |a2 ][m1         |m2 ]            attn(F) a1 a2, mlp(F) m1 m2; m2 waits for d2
#  N           [d1  |d2     ]                dispatch(F) d1 d2, after a2
RUN = [
    *kernel("a1", "attn(F)", 20),
    *kernel("a2", "attn(F)", 20),
    *kernel("d1", "dispatch(F)", 30, "a2", on=N),
    *kernel("d2", "dispatch(F)", 50, on=N),
    *kernel("m1", "mlp(F)", 40),
    *kernel("m2", "mlp(F)", 30, "d2"),
]


def inferred_of(ops: list[Op]) -> Inferred:
    """With the waits between kernels that the run is known to have, as if they were recorded."""
    plan = Plan.of(ops, name="run")
    data = [(str(op.name), on) for op in ops for on in op.after if isinstance(on, str)]
    return with_waits(infer(simulate(plan)), data)


def with_waits(inferred: Inferred, names: list[tuple[str, str]]) -> Inferred:
    row = {name.rsplit("::", 1)[-1]: n for n, name in enumerate(inferred.plan.ops["name"].cast(pl.String))}
    return with_edges(inferred, [(row[op], row[on]) for op, on in names])


def with_edges(inferred: Inferred, pairs: list[tuple[int, int]]) -> Inferred:
    more = pl.DataFrame(pairs, schema={"op": pl.UInt32, "on": pl.UInt32}, orient="row").with_columns(
        pl.lit("end", WAIT_SCHEMA["since"]).alias("since"), pl.lit(0, pl.Int64).alias("lag_ns"),
        pl.lit("data", WAIT_SCHEMA["why"]).alias("why"), pl.lit("recorded", EDGE_SCHEMA["source"]).alias("source"),
        pl.lit(None, pl.Int32).alias("votes_for"), pl.lit(None, pl.Int32).alias("votes_against"),
        pl.lit(1.0).alias("confidence"),
    )  # fmt: skip
    every = pl.concat([inferred.plan.waits.hstack(inferred.edges), more]).sort("op", maintain_order=True)
    plan = replace(inferred.plan, waits=every.select(*WAIT_SCHEMA))
    return replace(inferred, plan=plan, edges=every.select(*EDGE_SCHEMA))


def summary(phases: Inferred) -> list[tuple[str, int, int, int]]:
    device = phases.plan.ops.hstack(phases.measured.select("start_ns", "end_ns")).filter(pl.col("kind") != "host")
    first = device["start_ns"].min()
    device = device.with_columns((pl.col("start_ns", "end_ns") - first) // US).sort("start_ns", "stream")
    rows = device.select("name", "stream", "start_ns", "end_ns").rows()
    return [(str(name).rsplit("::", 1)[-1], *rest) for name, *rest in rows]


def test_a_phase_is_one_op_and_cut_where_it_waits_for_another() -> None:
    phases = by_phase(inferred_of(RUN))
    assert summary(phases) == [
        ("attn(F)", 7, 0, 40),
        ("m1", 7, 40, 80),
        ("dispatch(F)", 27, 40, 120),
        ("m2", 7, 120, 150),
    ]


def test_waits_between_phases_stay_and_those_inside_go() -> None:
    phases = by_phase(inferred_of(RUN))
    name = phases.plan.ops["name"].cast(pl.String).str.split("::").list.last()
    data = phases.plan.waits.filter(why="data")
    assert sorted(zip(name.gather(data["on"]), name.gather(data["op"]), strict=True)) == [
        ("attn(F)", "dispatch(F)"), ("dispatch(F)", "m2")
    ]  # fmt: skip
    launches = phases.plan.waits.filter(why="launch")
    assert launches.height == 4 and launches["op"].n_unique() == 4  # of the first kernel of each


def test_a_plan_of_phases_replays_as_one_of_kernels_and_follows_a_change() -> None:
    kernels = inferred_of(RUN)
    phases = by_phase(kernels)
    assert phases.replay.span_ns == kernels.replay.span_ns == 150 * US
    assert phases.replay.error == pytest.approx(0, abs=1e-3)
    for plan in (kernels.plan, phases.plan):
        quarter = pl.when(kind="communication").then(pl.col("duration_ns") // 4).otherwise("duration_ns")
        faster = plan.with_ops(duration_ns=quarter)
        times = timetable(faster).ops.filter(pl.col("kind") != "host")
        #  a 40, then dispatch(F) 20 beside m1 40, then m2 30
        assert times.select(pl.col("end_ns").max() - pl.col("start_ns").min()).item() == pytest.approx(110 * US, abs=50)


def test_another_phase_between_makes_two_ops_of_one() -> None:
    run = [*kernel("a1", "attn(F)", 20), *kernel("x", None, 10), *kernel("a2", "attn(F)", 20)]
    inferred = inferred_of(run)
    one = pl.when(pl.col("phase_number").is_not_null()).then(pl.lit(0, pl.Int32)).alias("phase_number")
    phases = by_phase(replace(inferred, measured=inferred.measured.with_columns(one)))
    assert [row[0] for row in summary(phases)] == ["a1", "x", "a2"]


def test_streams_of_one_phase_keep_that_one_joined_after_the_other_had_begun() -> None:
    #  us  0   20  40  60
    #  C   [m1 |m2 |m3 ]         m3 waits for s; s waits for m1
    #  N       [s  ]
    run = [*kernel("m1", "mlp(W)", 20), *kernel("m2", "mlp(W)", 20), *kernel("s", "mlp(W)", 20, "m1", on=N),
           *kernel("m3", "mlp(W)", 20, "s")]  # fmt: skip
    phases = by_phase(inferred_of(run))
    assert summary(phases) == [("mlp(W)", 7, 0, 60), ("s", 27, 20, 40)]
    assert phases.plan.waits.filter(why="data").select("since", "lag_ns").rows() == [("start", 0)]


def test_a_trace_without_phases_has_no_plan_of_them() -> None:
    with pytest.raises(PlanError, match="no phases"):
        by_phase(inferred_of(kernel("a1", None, 20)))


def test_phases_of_random_runs_replay_as_their_kernels(tmp_path: Path) -> None:
    off = {}
    for seed in range(10):
        run = random_run(seed, num_ranks=1)
        kernels = inferred_from(run, "calls", tmp_path)
        if run.shape.has_phases:
            phases = by_phase(kernels)
            assert len(phases.plan) < len(kernels.plan)
            off[seed] = phases.replay.error
    assert len(off) > 5
    assert {seed: error for seed, error in off.items() if abs(error) > 0.01} == {}


# --- DeepSeek's published profile, with the edges that its authors published -----------------------------------------

#: (after, phase, layers between): a phase of layer i waits for another of layer i - between.
PUBLISHED = (
    ("attn(F)", "dispatch(F)", 0), ("dispatch(F)", "mlp(F)", 0), ("mlp(F)", "combine(F)", 0),
    ("combine(F)", "attn(F)", 1), ("combine(B)", "mlp(B)", 0), ("mlp(B)", "dispatch(B)", 0),
    ("dispatch(B)", "attn(B)", 0), ("attn(B)", "combine(B)", 1), ("mlp(B)", "mlp(W)", 0), ("attn(B)", "attn(W)", 0),
)  # fmt: skip


def deepseek() -> Trace:
    trace = wt.open(DATA / "deepseek-v3-train.json.gz")
    assert isinstance(trace, Trace)
    return trace


def published(inferred: Inferred) -> Inferred:
    ops = (
        inferred.plan.ops.with_row_index("op")
        .filter(pl.col("kind") != "host")
        .with_columns(pl.col("phase").cast(pl.String))
    )
    ends = ops.group_by("phase", "layer", "stream").agg(
        pl.col("op").min().alias("first"), pl.col("op").max().alias("last")
    )
    pairs = []
    for before, phase, apart in PUBLISHED:
        a = ends.filter(phase=before).select(pl.col("layer") + apart, "last")
        b = ends.filter(phase=phase).select("layer", "first")
        pairs += b.join(a, on="layer").select("first", "last").rows()
    return with_edges(inferred, pairs)


@pytest.mark.skipif(not (DATA / "deepseek-v3-train.json.gz").exists(), reason="DeepSeek's profile is not here")
def test_deepseek_by_published_edges_ends_within_a_third_of_a_percent() -> None:
    phases = by_phase(published(infer(deepseek())))
    assert phases.plan.ops.filter(pl.col("kind") != "host").height <= 60
    assert abs(phases.replay.error) < 0.003


@pytest.mark.skipif(not (DATA / "deepseek-v3-train.json.gz").exists(), reason="DeepSeek's profile is not here")
def test_deepseek_by_voted_edges_ends_within_a_third_of_a_percent() -> None:
    phases = infer(deepseek(), level="phase")
    assert abs(phases.replay.error) < 0.003
