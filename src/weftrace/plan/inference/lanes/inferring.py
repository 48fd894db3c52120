"""From ranges to a plan: lanes as streams, sends and receives and collectives as meets, and what was not recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import AdviceError
from weftrace.plan.inference.confidence import by_votes
from weftrace.plan.inference.lanes.cutting import cut_where_others_began
from weftrace.plan.inference.lanes.gathering import gathered
from weftrace.plan.inference.lanes.ops import KERNELS, RANGES, Grain, ops_of
from weftrace.plan.inference.lanes.passing import passed_on, stage_to_stage
from weftrace.plan.inference.lanes.votes import Ready, at_once, ready_of, voted
from weftrace.plan.inference.values import EDGE_SCHEMA, FIRST_THREAD, MEASURED_SCHEMA, Inferred, Kept
from weftrace.plan.inference.waits import WAITS, as_waits
from weftrace.plan.model import Plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.trace.work import Work
from weftrace.units import counted

#: What the time is called that a lane was late by, after all that it is known to have waited for.
BETWEEN = "between ranges"
#: Where steps were laid one after another, each begins when the one before has ended on all ranks: an op each.
STEP_END = "end of step"
_AS_EVER = 1.5  # times what is usual: no later than that

_Ints = NDArray[np.int64]


def infer_lanes(
    works: Sequence[Work],
    members: pl.DataFrame,
    *,
    numbers: Sequence[int],
    names: Sequence[str],
    to_common: Callable[[int, _Ints], _Ints],
    notes: Sequence[str] = (),
) -> Inferred:
    """The plan that the ranks of a job followed, whose files hold ranges without work on a device.

    Raises `AdviceError` where no range is long enough to be timed.

    works: of each rank its ranges (`Work.basis` "ranges"), or its work on a device: then without its host. members: of
    `weftrace.analysis.meetings`, of these ranks. numbers, names: what the ranks are called. to_common: from a rank's
    clock to the common one.

    Ops are ranges; a stream is what of a thread runs one after another. Collectives, sends and receives are meets,
    whose duration is the transfer: own end less the last start. A range waits for the one before in its lane, for what
    it needs of other lanes of its rank (`passing`), and for what votes tell (`votes`). By how much it began later than
    all that is an op of its own, "between ranges", of kind host: what its host did there is not recorded.
    """
    grain = RANGES if all(work.basis == "ranges" for work in works) else KERNELS
    ops, origin = ops_of(works, members, to_common, grain)
    if ops.is_empty():
        raise AdviceError("nothing here lasts as long as stamps of hosts are rough: no plan follows from it.")
    moved = any(work.trace.plain is not None and work.trace.plain.moved for work in works)
    since = _since(ops, moved)
    places = [work.trace.plain.workers[0].places if work.trace.plain else () for work in works]
    fed = pl.concat([passed_on(ops), stage_to_stage(ops, places)])
    edges, ready = _waits(ops, fed, since, grain)
    ops, edges, num_cut = cut_where_others_began(ops, edges, ready, grain)
    since = _since(ops, moved)
    edges, ready = _voted(ops, edges, since, grain)
    kept = Kept(gap_ns=0, launch_latency_ns=0)
    met = gathered(ops, ready, places)
    ready = _without_waiting(ready, met)
    notes = [*notes, *_notes(ops, ready, num_cut, met, grain)]
    recorded = [_recorded_since(work, at, to_common) - origin for at, work in enumerate(works)]
    late_at_start = _late_from_the_start(ops, recorded) if grain is KERNELS else np.zeros(ops.height, np.int64)
    found = _assembled(
        works,
        numbers,
        ops,
        edges,
        ready,
        met,
        grain,
        late_at_start=late_at_start,
        moved=moved,
        origin=origin,
        kept=kept,
        notes=notes,
    )
    hidden = ops.filter(~pl.col("begins_meeting")).get_column("name").cast(pl.String).unique(maintain_order=True)
    return replace(found, names=tuple(names), transfer_only=tuple(hidden))


def _recorded_since(work: Work, at: int, to_common: Callable[[int, _Ints], _Ints]) -> int:
    """When a rank's file began to record, on the common clock."""
    return int(to_common(at, work.trace.events.get_column("ts_ns").sort().head(1).to_numpy())[0])


def _late_from_the_start(ops: pl.DataFrame, since_ns: Sequence[int]) -> _Ints:
    """Of each op, by how much it came later than its peers' first work: of the first op of ranks that were recorded
    already by then, else 0. What began with the recording is as it is.

    since_ns: when each rank's file began to record.
    """
    first = ops.with_row_index("row").group_by("at").agg(pl.col("row").first(), pl.col("start_ns").first())
    at, row, start = (first.get_column(name).to_numpy() for name in ("at", "row", "start_ns"))
    usual = int(np.quantile(start, 0.5, method="lower"))
    found = np.zeros(ops.height, np.int64)
    found[row] = np.where(np.array(since_ns)[at] <= usual, np.maximum(start - usual, 0), 0)
    return found


def _without_waiting(ready: Ready, met: pl.DataFrame) -> Ready:
    """Of ranges that met without a record: all are as late as the one that was ready last."""
    least = met.with_columns(pl.Series("late", ready.late_ns[met.get_column("row").to_numpy()]))
    least = least.with_columns(pl.col("late").min().over("gathering"))
    late = ready.late_ns.copy()
    late[least.get_column("row").to_numpy()] = least.get_column("late").to_numpy()
    return replace(ready, late_ns=late)


def _since(ops: pl.DataFrame, moved: bool) -> _Ints:
    """Of each op, before which it cannot have begun: of laid steps, the end of the step before on all ranks."""
    if not moved:
        return np.zeros(ops.height, np.int64)
    ends = ops.group_by("step").agg(pl.col("start_ns").min()).rename({"start_ns": "since"})
    since: _Ints = ops.join(ends, on="step", how="left", maintain_order="left", nulls_equal=True)["since"].to_numpy()
    return since


def _waits(ops: pl.DataFrame, fed: pl.DataFrame, since: _Ints, grain: Grain) -> tuple[pl.DataFrame, Ready]:
    """Rows op, on, votes_for and votes_against (null of what is needed); and what is late for all that."""
    none = pl.lit(None, pl.Int32)
    edges = pl.concat([fed, _received(ops)]).with_columns(none.alias("votes_for"), none.alias("votes_against"))
    return _voted(ops, edges, since, grain)


def _voted(ops: pl.DataFrame, edges: pl.DataFrame, since: _Ints, grain: Grain) -> tuple[pl.DataFrame, Ready]:
    """The waits with those that votes tell, and those that one end tells; what one round explains is taken out before
    the next looks."""
    for by in grain.rounds:
        more = voted(ops, ready_of(ops, edges, since), grain, by).join(edges, on=("op", "on"), how="anti")
        edges = pl.concat([edges, more.select(edges.columns)])
    more = at_once(ops, ready_of(ops, edges, since), grain).join(edges, on=("op", "on"), how="anti")
    edges = pl.concat([edges, more.select(edges.columns)])
    return edges, ready_of(ops, edges, since)


def _received(ops: pl.DataFrame) -> pl.DataFrame:
    """Receives whose sends wait for nobody: they end after the send."""
    rows = ops.select("after_send", "sends").with_row_index("row")
    receives = rows.filter(pl.col("after_send").is_not_null()).select("row", pair="after_send")
    sends = rows.filter(pl.col("sends").is_not_null()).select("row", pair="sends")
    return receives.join(sends, on="pair", suffix="_on").select(op="row", on="row_on")


# --- the plan ---------------------------------------------------------------------------------------------------------


def _assembled(
    works: Sequence[Work], numbers: Sequence[int], ops: pl.DataFrame, edges: pl.DataFrame, ready: Ready,
    met: pl.DataFrame, grain: Grain, *, late_at_start: _Ints,
    moved: bool, origin: int, kept: Kept, notes: Sequence[str],
) -> Inferred:  # fmt: skip
    """Ops with an op "between ranges" before those that were late, and of laid steps one that ends each."""
    num = ops.height
    late = np.flatnonzero(ready.late_ns > grain.late_ns)
    is_first = ops.select(pl.int_range(pl.len()).over("at", "lane") == 0).to_series().to_numpy()
    held = np.zeros(num, bool)
    held[edges.get_column("op").to_numpy()] = True
    pinned = late[is_first[late] & ~held[late]] if not moved else late[:0]  # its recording begins there
    pinned = pinned[~_as_ever(ops, ready, pinned)]
    known = pinned[late_at_start[pinned] > grain.late_ns]
    ready.late_ns[known] = late_at_start[known]
    late = np.union1d(np.setdiff1d(late, np.setdiff1d(pinned, known)), met.get_column("row").to_numpy())
    between_of = np.full(num, -1)
    between_of[late] = num + np.arange(len(late))
    table = _device_ops(ops, ready)
    host = _between(ops, late, ready, met)
    waits = [_moved_to(edges, between_of), _before_on_lane(ops, late, between_of), _after_between(late, between_of)]
    is_free = is_first & ~held & ops.select(pl.col("meet").is_null() | pl.col("begins_meeting")).to_series().to_numpy()
    lag = ops.get_column("start_ns").to_numpy() - late_at_start
    waits.append(_pins(ops, pinned, np.where(between_of >= 0, between_of, np.arange(num)), lag, is_free))
    frames = [table, host]
    if moved:
        ends, ends_waits = _step_ends(ops, num + len(late), between_of)
        frames.append(ends)
        waits.append(ends_waits)
    every = pl.concat(frames).with_row_index("row")
    rank_of = np.array(numbers)[every.get_column("at").to_numpy()]
    # rows of a stream in order: the new ones stand behind, but have streams of their own
    plan = Plan(
        name=_name(works),
        source="inferred from recorded ranges",
        world_size=None,
        gap_ns=0,
        ops=every.select(
            "name", pl.col("name").alias("phase"), pl.col("kind").cast(pl.String), pl.Series("rank", rank_of),
            pl.col("stream").cast(pl.Int32), "duration_ns",
            pl.col("meet").rank("dense").cast(pl.Int32).alias("meet"),
            pl.col("chunk").alias("layer"), "micro_batch", pl.col("step").cast(pl.Int32),
        ),
        waits=(joined := pl.concat(waits).sort("op", maintain_order=True)).select(*WAIT_SCHEMA),
    )  # fmt: skip
    measured = every.select(pl.col(name).cast(dtype) for name, dtype in MEASURED_SCHEMA.items())
    return Inferred(
        plan=plan, works=tuple(works), measured=measured, edges=joined.select(*EDGE_SCHEMA), origin_ns=origin,
        kept=kept, notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _as_ever(ops: pl.DataFrame, ready: Ready, rows: _Ints) -> NDArray[np.bool_]:
    """Whether an op with which a lane begins is as late at that place in later steps: then it is not the recording
    that began there."""
    nth = pl.int_range(pl.len()).over("at", "step", "name")
    each = ops.select("at", "name", "step", nth.alias("nth")).with_columns(late=pl.Series(ready.late_ns))
    first = each[rows].with_columns(row=pl.int_range(pl.len()))
    later = first.join(each, on=("at", "name", "nth"), suffix="_later")
    later = later.filter(pl.col("step_later") > pl.col("step")).group_by("row").agg(pl.col("late_later").median())
    usual = first.join(later, on="row", how="left", maintain_order="left").get_column("late_later").fill_null(0)
    found: NDArray[np.bool_] = ready.late_ns[rows] <= _AS_EVER * usual.to_numpy()
    return found


_TABLE: dict[str, Any] = {
    **MEASURED_SCHEMA, "name": pl.Categorical(), "kind": pl.String(), "stream": pl.Int64(), "duration_ns": pl.Int64(),
    "meet": pl.Int64(), "chunk": pl.Int32(), "micro_batch": pl.Int32(), "step": pl.Int64(),
}  # fmt: skip


def _table(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in _TABLE.items()
    )


def _device_ops(ops: pl.DataFrame, ready: Ready) -> pl.DataFrame:
    """A member of a meeting of which the ranges show the transfer alone came when it was ready."""
    waited = pl.Series(ready.since_ready_ns - ready.late_ns)
    came = pl.when("begins_meeting").then("start_ns").otherwise(pl.col("start_ns") - waited)
    what = pl.col("kind").cast(pl.String).alias("what")
    return _table(ops.with_columns(came.alias("start_ns"), what, pl.col("lane").alias("stream")))


def _between(ops: pl.DataFrame, late: _Ints, ready: Ready, met: pl.DataFrame) -> pl.DataFrame:
    """What was late; of ranges that met without a record they meet in it."""
    gathering = np.full(ops.height, -1)
    gathering[met.get_column("row").to_numpy()] = met.get_column("gathering").to_numpy()
    first = int(ops.get_column("meet").max() or 0) + 1  # type: ignore[arg-type]
    meet = pl.Series(np.where(gathering[late] >= 0, gathering[late] + first, -1))
    start = ops.get_column("start_ns").to_numpy()[late]
    mine = ops.select("at", "lane", "step", "chunk", "micro_batch")[late]
    return _table(
        mine.with_columns(
            (pl.col("lane") + FIRST_THREAD).alias("stream"),
            pl.lit(BETWEEN).alias("name"),
            pl.lit(BETWEEN).alias("family"),
            pl.lit("host").alias("kind"),
            pl.lit("host").alias("what"),
            pl.Series("duration_ns", ready.late_ns[late]),
            pl.Series("start_ns", start - ready.late_ns[late]),
            pl.Series("end_ns", start),
            meet.set(meet < 0, None).alias("meet"),
        )
    )


def _moved_to(edges: pl.DataFrame, between_of: _Ints) -> pl.DataFrame:
    """The waits, of the op "between ranges" where there is one before the op."""
    op = edges.get_column("op").to_numpy()
    moved = np.where(between_of[op] >= 0, between_of[op], op)
    is_vote = pl.col("votes_for").is_not_null()
    return as_waits(
        edges.with_columns(
            pl.Series("op", moved),
            pl.when(is_vote).then(pl.lit("voted")).otherwise(pl.lit("recorded")).alias("source"),
            pl.when(is_vote).then(pl.lit("vote")).otherwise(pl.lit("data")).alias("why"),
            pl.when(is_vote).then(by_votes()).otherwise(1.0).alias("confidence"),
        )
    )


def _before_on_lane(ops: pl.DataFrame, late: _Ints, between_of: _Ints) -> pl.DataFrame:
    rows = ops.select("at", "lane").with_row_index("row")
    before = rows.select(pl.col("row").shift(1).over("at", "lane")).to_series()[late]
    frame = pl.DataFrame({"op": between_of[late], "on": before}).drop_nulls("on")
    return as_waits(frame.with_columns(pl.lit("thread").alias("source"), pl.lit("launch").alias("why")))


def _after_between(late: _Ints, between_of: _Ints) -> pl.DataFrame:
    frame = pl.DataFrame({"op": late, "on": between_of[late]}, schema={"op": pl.Int64, "on": pl.Int64})
    return as_waits(frame.with_columns(pl.lit("launch").alias("source"), pl.lit("launch").alias("why")))


def _pins(ops: pl.DataFrame, pinned: _Ints, begins: _Ints, ready_ns: _Ints, is_free: NDArray[np.bool_]) -> pl.DataFrame:
    """Lanes of which nothing tells why they began when they did: that long after the first op that waited for nothing.

    begins: of each op the one that begins with it. ready_ns: of each op when that began. is_free: of each op whether it
    waits for nothing. The first of all may wait for a send of another rank.
    """
    start = ops.get_column("start_ns").to_numpy()
    first = int(np.argmin(np.where(is_free, start, start.max() + 1))) if is_free.any() else int(np.argmin(start))
    pinned = pinned[pinned != first]
    lag = ready_ns[pinned] - start[first]
    frame = pl.DataFrame({"op": begins[pinned], "lag_ns": lag}, schema={"op": pl.Int64, "lag_ns": pl.Int64})
    frame = frame.filter(pl.col("lag_ns") >= 0)
    return as_waits(frame.with_columns(on=pl.lit(first), since=pl.lit("start"), source=pl.lit("origin")))


def _step_ends(ops: pl.DataFrame, first_row: int, between_of: _Ints) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of each rank and step an op that meets those of the other ranks once all its lanes are through; and its waits,
    with those of the next step's first op in each lane for it."""
    rows = ops.with_row_index("row").select("row", "at", "lane", "step", "start_ns", "end_ns")
    order = rows.group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("start_ns")
    order = order.with_columns(turn=pl.int_range(pl.len()), lag_ns=pl.col("start_ns") - pl.col("end_ns").shift(1))
    rows = rows.join(order.select("step", "turn", "lag_ns"), on="step", nulls_equal=True, maintain_order="left")
    ats = rows.get_column("at").unique().sort()
    ends = order.head(-1).join(ats.to_frame(), how="cross").sort("turn", "at").with_columns(
        end=first_row + pl.int_range(pl.len(), dtype=pl.Int64)
    )  # fmt: skip
    offset = 2 * (int(ops.get_column("meet").max() or 0) + 1 + ops.height)  # type: ignore[arg-type]
    table = _table(
        ends.with_columns(
            stream=pl.lit(2 * FIRST_THREAD), name=pl.lit(STEP_END), family=pl.lit(STEP_END), kind=pl.lit("host"),
            what=pl.lit("host"), duration_ns=pl.lit(0), meet=pl.col("turn").cast(pl.Int64) + offset,
            start_ns=pl.col("end_ns"),
        )
    )  # fmt: skip
    lanes = rows.group_by("at", "lane", "turn").agg(
        pl.col("row", "lag_ns").first(), last=pl.col("row").last()
    )  # the time between two steps that follow one another is kept: it is not known whose it is
    through = lanes.join(ends.select("at", "turn", "end"), on=("at", "turn")).select(
        op="end", on="last", lag_ns=pl.lit(0)
    )
    begins = lanes.with_columns(pl.col("turn") - 1).join(ends.select("at", "turn", "end"), on=("at", "turn"))
    row = begins.get_column("row").to_numpy()
    begin = np.where(between_of[row] >= 0, between_of[row], row)
    held = begins.select(pl.Series("op", begin), on="end", lag_ns=pl.col("lag_ns").clip(lower_bound=0))
    frames = [through.cast(pl.Int64), held.cast(pl.Int64)]
    return table, as_waits(pl.concat(frames).with_columns(source=pl.lit("thread"), why=pl.lit("launch")))


def _notes(ops: pl.DataFrame, ready: Ready, num_cut: int, met: pl.DataFrame, grain: Grain) -> list[str]:
    late = ready.late_ns[ready.late_ns > grain.late_ns]
    found = []
    if grain is RANGES:
        found = ["ranges without work on a device: a lane of ranges is a stream, and what they wait for is inferred"]
    if len(late):
        share = late.sum() / max(1, int(ops.get_column("duration_ns").sum()))
        found.append(
            f"{counted(len(late), 'range')} began later than all that is known to have held them: that time is in "
            f'the plan as "{BETWEEN}", {share:.1%} of the time of all ranges'
        )
    if met.height:
        names = (
            ops.select(pl.col("name").cast(pl.String))[met.get_column("row")].to_series().unique(maintain_order=True)
        )
        found.append(
            f"{', '.join(names[:5])}: ranks begin it together, when the last is ready: a meeting that was not recorded"
        )
    if num_cut:
        found.append(
            f"{counted(num_cut, 'range')} cut where communication began in their midst, which waits for the first part"
        )
    return found


def _name(works: Sequence[Work]) -> str:
    return (
        works[0].trace.path or "trace" if len({id(work.trace.path) for work in works}) == 1 else f"{len(works)} ranks"
    )


assert set(WAITS) == {*WAIT_SCHEMA, *EDGE_SCHEMA}
