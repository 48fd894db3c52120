"""What inference made of a run whose plan is known, beside that plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import weftrace
from tests.plan.inference.random_runs import Run, Shown
from weftrace.plan import Inferred, Plan, infer, timetable
from weftrace.trace import Trace

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Waits between streams that were found, against those that are true.

    num_true: waits that held an op up in the run, num_found: of these, those that the inferred plan follows too, by one
    wait or by several. num_inferred: waits that it has; num_exact: of these, those for the very op that the true plan
    waits for; num_sound: those that the true plan follows as well, by one wait or by several. num_sure: those that are
    more likely than not (confidence above a half), num_sure_and_sound: those of them that are.
    """

    num_true: int
    num_found: int
    num_inferred: int
    num_exact: int
    num_sound: int
    num_sure: int
    num_sure_and_sound: int

    def __add__(self, other: Found) -> Found:
        return Found(**{name: getattr(self, name) + getattr(other, name) for name in Found.__slots__})

    def __str__(self) -> str:
        recall = f"recall {self.num_found / max(self.num_true, 1):.1%} of {self.num_true:,}"
        exact, sound = (num / max(self.num_inferred, 1) for num in (self.num_exact, self.num_sound))
        sure = (
            f"{self.num_sure_and_sound / max(self.num_sure, 1):.1%} of the {self.num_sure:,} above a confidence of 0.5"
        )
        return f"{recall}, precision {sound:.1%} of {self.num_inferred:,} ({exact:.1%} to the very op; {sure})"


def inferred_from(run: Run, shown: Shown, folder: Path, rank: int = 0) -> Inferred:
    """Written, read and inferred."""
    return infer(reread(run, shown, folder, rank))


def reread(run: Run, shown: Shown, folder: Path, rank: int = 0) -> Trace:
    """A rank's trace, written as a file and read again."""
    path = folder / f"run-{rank}.json"
    weftrace.save(run.trace(rank, shown), path)
    read = weftrace.open(path)
    assert isinstance(read, Trace)
    return read


def true_rows(run: Run, inferred: Inferred) -> _Ints:
    """The true plan's row of each op of the inferred plan; -1 for a host thread's."""
    launches = run.plan.waits.filter(why="launch")
    op_of = dict(zip((launches["on"] + 1).to_list(), launches["op"].to_list(), strict=True))
    work = inferred.works[0]
    correlation = work.trace.events.get_column("correlation").gather(work.events.get_column("row")).to_list()
    events = inferred.measured.get_column("event").to_list()
    return np.array([-1 if event is None else op_of[correlation[event]] for event in events])


def inferred_crossings(inferred: Inferred) -> pl.DataFrame:
    """The inferred plan's waits between two streams of the device: `row` of plan.waits, op, on."""
    stream, kind = (inferred.plan.ops.get_column(name) for name in ("stream", "kind"))
    waits = inferred.plan.waits.select("op", "on").with_row_index("row").cast(pl.Int64)
    on_device = (kind != "host").to_numpy()
    op, on = waits.get_column("op").to_numpy(), waits.get_column("on").to_numpy()
    lanes = stream.to_numpy()
    return waits.filter(on_device[op] & on_device[on] & (lanes[op] != lanes[on]))


def held_up(run: Run) -> pl.DataFrame:
    """Of `Run.crossings` those that decided when their op started."""
    waits = run.plan.waits.select("op", "on", "lag_ns").cast(pl.Int64)
    tight = run.crossings.join(waits, on=("op", "on"))
    start, end = run.times.start_ns[tight["op"].to_numpy()], run.times.end_ns[tight["on"].to_numpy()]
    return tight.filter(pl.Series(start == end + tight["lag_ns"].to_numpy()))


def found(run: Run, inferred: Inferred) -> Found:
    rows = true_rows(run, inferred)
    true = held_up(run).select("op", "on").rows()
    every = set(run.crossings.select("op", "on").rows())
    own = inferred_crossings(inferred)
    summary = [(int(rows[op]), int(rows[on])) for op, on in own.select("op", "on").iter_rows()]
    of_run = followed(run.plan.ops, [*every, *run.plan.waits.select("op", "on").rows()])
    on_device = run.plan.ops.select(pl.col("kind") != "host").to_series().to_list()
    of_plan = followed(run.plan.ops, summary, on_device)
    sound = [bool(of_run[op] >> on & 1) for op, on in summary]
    sure = (inferred.edges.get_column("confidence").gather(own.get_column("row")) > 0.5).to_list()
    return Found(
        num_true=len(true),
        num_found=sum(of_plan[op] >> on & 1 for op, on in true),
        num_inferred=len(summary),
        num_exact=sum(pair in every for pair in summary),
        num_sound=sum(sound),
        num_sure=sum(sure),
        num_sure_and_sound=sum(both for both, is_sure in zip(sound, sure, strict=True) if is_sure),
    )


def followed(ops: pl.DataFrame, waits: list[tuple[int, int]], counted: list[bool] | None = None) -> list[int]:
    """For each op a number whose bits are the ops that must end before it: by stream, by waits, and so on from these.

    counted: which ops are taken into account; None for all. Waits are on earlier rows.
    """
    awaited: dict[int, list[int]] = {}
    for op, on in waits:
        awaited.setdefault(op, []).append(on)
    last: dict[tuple[int, int], int] = {}
    before: list[int] = []
    for op, lane in enumerate(ops.select("rank", "stream").iter_rows()):
        bits = 0
        if counted is None or counted[op]:
            for on in (*awaited.get(op, ()), *([last[lane]] if lane in last else [])):
                bits |= 1 << on | (before[on] if on < op else 0)
            last[lane] = op
        before.append(bits)
    return before


def span_ns(plan: Plan) -> int:
    """From the first start on a device to the last end."""
    times = timetable(plan)
    on_device = (plan.ops.get_column("kind") != "host").to_numpy()
    return int(times.end_ns[on_device].max() - times.start_ns[on_device].min())


def without_a_wait(run: Run, inferred: Inferred) -> tuple[Plan, Plan] | None:
    """The inferred and the true plan without the waits, in all layers, of the kernel that was held up most often; None
    where none was.
    """
    held = held_up(run).join(run.places, left_on="op", right_on="row")
    if held.is_empty():
        return None
    number = (
        held.group_by("number", maintain_order=True).agg(pl.len()).sort("len", maintain_order=True).item(-1, "number")
    )
    waiting = run.places.filter(number=number).get_column("row").to_list()
    rows = true_rows(run, inferred)
    own = inferred_crossings(inferred)
    dropped = own.filter(pl.Series(np.isin(rows[own.get_column("op").to_numpy()], waiting))).get_column("row")
    crossing = run.crossings.select("op", "on")
    true = run.plan.waits.with_row_index("row").cast({"op": pl.Int64, "on": pl.Int64}).join(crossing, on=("op", "on"))
    true_dropped = true.filter(pl.col("op").is_in(waiting)).get_column("row")
    return _without(inferred.plan, dropped), _without(run.plan, true_dropped)


def _without(plan: Plan, rows: pl.Series) -> Plan:
    kept = np.setdiff1d(np.arange(len(plan.waits)), rows.to_numpy())
    return replace(plan, waits=plan.waits[kept])
