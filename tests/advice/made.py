"""Inferred plans made by hand or by chance, as `infer` would give them of a run that followed a plan exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import polars as pl

from tests.plan.bellman_ford import constraints_of, has_circle
from tests.plan.random_plans import Frames, random_plan
from weftrace.plan import Op, Plan, Resource, Wait, timetable
from weftrace.plan.inference.values import EDGE_SCHEMA, FIRST_THREAD, MEASURED_SCHEMA, Inferred, Kept

COMPUTE, SIDE, NETWORK = (Resource(stream=stream) for stream in (7, 23, 27))
THREAD = Resource(stream=FIRST_THREAD)
SOURCE_OF_WHY = {"data": "recorded", "launch": "launch", "sm": "sm", "host": "blocking", "vote": "voted"}


def kernel(id_: str, us: float, on: Resource = COMPUTE, *after: str | Wait, **facts: object) -> Op:
    return Op(id=id_, name=id_, duration_ns=round(us * 1_000), resource=on, after=after, **facts)  # type: ignore[arg-type]


def send(id_: str, us: float, *after: str | Wait, **facts: object) -> Op:
    return kernel(id_, us, NETWORK, *after, kind="communication", **facts)


def call(id_: str, us: float, *after: str | Wait) -> Op:
    """What a host thread does: a launch where its name says so, else work between calls."""
    return kernel(id_, us, THREAD, *after, kind="host")


def launched_by(on: str, lag_us: float = 0) -> Wait:
    return Wait(on=on, lag_ns=round(lag_us * 1_000), why="launch")


def plan_of(*ops: Op, gap_us: float = 0) -> Plan:
    return Plan.of(ops, name="made", gap_ns=round(gap_us * 1_000))


def inferred_of(
    plan: Plan,
    *,
    families: Mapping[str, str] | None = None,
    barriers: Sequence[str] = (),
    votes: Mapping[str, tuple[int, int]] | None = None,
    span_error_ns: int = 0,
) -> Inferred:
    """A plan as if inferred: measured is what its timetable says.

    families: of ops by name. barriers: names of communication that only waits. votes: for and against the waits of an
    op, by name. span_error_ns: by how much the last op on a device ended later than replayed.
    """
    times = timetable(plan)
    name, kind = pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String)
    is_host = pl.col("kind") == "host"
    ends = np.where((plan.ops.get_column("kind") == "host").to_numpy(), -1, times.end_ns)
    what = pl.when(~is_host).then(kind).when(name.str.contains("(?i)launch")).then(pl.lit("launch"))
    measured = plan.ops.with_row_index("row").select(
        start_ns=pl.Series(times.start_ns),
        end_ns=pl.Series(times.end_ns) + pl.when(row=int(ends.argmax())).then(span_error_ns).otherwise(0),
        event=pl.when(~is_host).then("row"),
        call=pl.lit(None),
        at=pl.col("rank"),
        what=what.otherwise(pl.lit("host")),
        family=name.replace(families or {}),
        role=pl.when(pl.col("kind") == "communication").then(
            pl.when(name.is_in(list(barriers))).then(pl.lit("barrier")).otherwise(pl.lit("data"))
        ),
        phase_number=pl.lit(None),
    )  # fmt: skip
    waiting = plan.ops.get_column("name").cast(pl.String).gather(plan.waits.get_column("op")).to_list()
    whys = plan.waits.get_column("why").cast(pl.String).to_list()
    summary = [(votes or {}).get(op) for op in waiting]
    edges = pl.DataFrame(
        {
            "source": [SOURCE_OF_WHY[why] for why in whys],
            "votes_for": [each and each[0] for each in summary],
            "votes_against": [each and each[1] for each in summary],
            "confidence": [each[0] / (sum(each) + 1) if each else 1.0 for each in summary],
        },
        schema=EDGE_SCHEMA,
    )
    return Inferred(
        plan=plan,
        works=(),
        measured=measured.select(pl.col(column).cast(dtype) for column, dtype in MEASURED_SCHEMA.items()),
        edges=edges,
        origin_ns=0,
        kept=Kept(gap_ns=plan.gap_ns, launch_latency_ns=0),
    )


@cache
def random_inferred(seed: str, most_moments: int = 30) -> tuple[Frames, Inferred]:
    """A random plan that can run and has work on a device, with its frames."""
    number = 0
    while True:
        frames = random_plan(f"{seed}/{number}", most_moments)
        able = not has_circle(constraints_of(frames.ops, frames.waits, frames.gap_ns))
        if able and (frames.ops.get_column("kind") != "host").any():
            plan = Plan(name=seed, gap_ns=frames.gap_ns, ops=frames.ops, waits=frames.waits)
            return frames, inferred_of(plan)
        number += 1
