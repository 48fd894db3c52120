"""The lane picture: what the compute lane and the communication lane of a device did, box by box, in device order.

DeepSeek publishes its profiles this way: two bands, a box a phase, and the SMs that each band holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.alphabet import direction_of
from weftrace.analysis.intervals import of_events
from weftrace.analysis.phase_times import held_longest, with_sms
from weftrace.notebook import InNotebook
from weftrace.trace.model import SmUnit, Trace
from weftrace.trace.work import LaneName, Work, as_work, in_lane
from weftrace.units import US

_MANY = 50  # events in the only phase of a trace above which its inside is drawn
_BREAK_NS = 30 * US  # the gap that `idle` takes for a wait
_MAX_BOXES = 1500  # a lane without phases is coarsened to about this many
_MINOR = 0.1  # a phase's compute (or communication) below this part of its time draws no box in that lane
_STRAY = 0.1  # work outside all phases below this part of a lane's time draws no box

#: Columns of `Lane.boxes`. Absolute ns.
BOX_COLUMNS: dict[str, pl.DataType] = {
    "name": pl.String(),  # phase name; a kernel family where there are no phases
    "index": pl.Int64(),  # occurrence of the phase
    "phase": pl.Int64(),  # row of Work.phases, or null
    "layer": pl.Int64(),  # what a plan says of the phase, or null
    "micro_batch": pl.Int64(),
    "direction": pl.String(),  # one of weftrace.alphabet.DRAWN, or null
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "busy_ns": pl.Int64(),
    "sms": pl.Int64(),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lane(InNotebook):
    """One band of the picture.

    lane: its name, "compute" or "communication". streams: those it runs on. busy_ns: union of its events.
    sms: SMs that its persistent kernels hold, where they hold as many for at least half of the lane's time; else
    sms_exact is False and sms is only the largest launch grid, cut to the device's SMs; None where half of the lane's
    time tells no grid. sm_unit: what they are called, "SMs" or, on AMD, "CUs".
    boxes: one a stretch of a phase, in device order: a frame of `BOX_COLUMNS`. Work outside all phases, where it is a
    tenth of the lane or more, is boxed too: a run of one kernel family a box.
    """

    lane: str
    sms: int | None
    sms_exact: bool
    sm_unit: SmUnit
    busy_ns: int
    streams: tuple[int, ...]
    boxes: pl.DataFrame


def lanes(source: Trace | Work) -> tuple[Lane, ...]:
    """The compute and the communication lane of a device, in this order. Memory copies belong to neither.

    Pictures draw any number of lanes, in the order in which they stand.
    """
    work = as_work(source)
    return _lane(work, "compute"), _lane(work, "communication")


def _lane(work: Work, kind: LaneName) -> Lane:
    events = with_sms(work.events.filter(in_lane(kind)), work.num_sms)
    sms, sms_exact = _sms(events)
    return Lane(
        lane=kind,
        sms=sms,
        sms_exact=sms_exact,
        sm_unit=work.sm_unit,
        busy_ns=of_events(events).total_ns,
        streams=tuple(events.get_column("stream").unique().sort().to_list()),
        boxes=_boxes(work, events, kind),
    )


def _sms(events: pl.DataFrame) -> tuple[int | None, bool]:
    """SMs of a lane, and whether they are exact rather than an upper bound; see `Lane`."""
    dur = pl.col("end_ns") - pl.col("start_ns")
    all_ns = events.select(dur.sum()).item()
    held = (
        events.filter("persistent", pl.col("sms").is_not_null())
        .group_by("sms")
        .agg(dur.sum().alias("held_ns"))
        .sort("held_ns", "sms", descending=[True, False])
        .filter(2 * pl.col("held_ns") >= all_ns)
    )
    if not held.is_empty():
        return int(held.get_column("sms")[0]), True
    told_ns, most = (
        events.filter(pl.col("sms").is_not_null()).select(dur.sum().alias("told"), pl.col("sms").max()).row(0)
    )
    return (most if 2 * told_ns >= all_ns else None), False


def _boxes(work: Work, events: pl.DataFrame, kind: LaneName) -> pl.DataFrame:
    if events.is_empty():
        return pl.DataFrame(schema=BOX_COLUMNS)
    claimed = work.events.get_column("phase").drop_nulls()
    if claimed.n_unique() == 1 and len(claimed) > _MANY:
        events = events.with_columns(phase=pl.lit(None, dtype=pl.Int32))  # one range around all: draw inside
    is_drawn = pl.col("phase").is_in(_drawn(work, kind).implode()).fill_null(_strays_count(events))
    events = events.filter(is_drawn).with_columns(
        pl.coalesce(pl.col("phase").cast(pl.Int64), -1 - pl.col("family").to_physical().cast(pl.Int64)).alias("key")
    )
    runs = _runs(events)
    boxes = pl.concat(
        [_phase_boxes(work, runs.filter(pl.col("key") >= 0)), _stray_boxes(runs.filter(pl.col("key") < 0))]
    )
    return boxes.sort("start_ns", "name", "phase", maintain_order=True)


def _strays_count(events: pl.DataFrame) -> bool:
    """Whether work outside all phases is too much of the lane to be left out."""
    dur = pl.col("end_ns") - pl.col("start_ns")
    stray_ns, all_ns = events.select(dur.filter(pl.col("phase").is_null()).sum().alias("stray"), dur.sum()).row(0)
    return bool(stray_ns >= _STRAY * all_ns)


def _phase_boxes(work: Work, runs: pl.DataFrame) -> pl.DataFrame:
    """A box a stretch of a phase."""
    named = work.phases.select(pl.col("phase").cast(pl.Int64).alias("key"), "name", "index", "layer", "micro_batch")
    names = named.get_column("name").unique()
    directions = pl.DataFrame(
        {"name": names, "direction": [direction_of(name) for name in names]}, schema_overrides=BOX_COLUMNS
    )
    runs = (
        runs.drop("name").join(named, on="key").join(directions, on="name").with_columns(pl.col("key").alias("phase"))
    )
    return runs.select(pl.col(name).cast(dtype) for name, dtype in BOX_COLUMNS.items())


def _stray_boxes(runs: pl.DataFrame) -> pl.DataFrame:
    """A box a run of a kernel family outside all phases."""
    runs = _coarser(runs.sort("start_ns", "name")).with_columns(
        pl.int_range(pl.len()).over("name").alias("index"), phase=None, layer=None, micro_batch=None, direction=None
    )
    return runs.select(pl.col(name).cast(dtype) for name, dtype in BOX_COLUMNS.items())


def _drawn(work: Work, kind: LaneName) -> pl.Series:
    """Phases with a box in this lane: all whose time is not nearly all in the other lane."""
    dur = pl.col("end_ns") - pl.col("start_ns")
    part = (
        work.events.filter(pl.col("phase").is_not_null())
        .group_by("phase")
        .agg(dur.filter(in_lane(kind)).sum().alias("mine"), dur.sum().alias("whole"))
    )
    return part.filter(pl.col("mine") > _MINOR * pl.col("whole")).get_column("phase")


def _runs(events: pl.DataFrame) -> pl.DataFrame:
    """Stretches of one key, uninterrupted on their stream; those of several streams that overlap are one stretch.

    Columns box, key, start_ns, end_ns, busy_ns, name (the most frequent family), sms; in no particular order.
    """
    idle_ns = pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1).over("stream")
    changed = pl.col("key") != pl.col("key").shift(1).over("stream")
    changed |= (pl.col("key") < 0) & (idle_ns > _BREAK_NS)  # a phase may wait; a run of kernels that waits is two
    number = changed.fill_null(True).cum_sum().over("stream")
    events = events.with_columns(number.alias("run"))
    by_stream = (
        events.group_by("stream", "run", maintain_order=True)
        .agg(pl.col("key").first(), pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("key", "start_ns")
    )
    reach = pl.col("end_ns").cum_max().shift(1).over("key")
    box = (pl.col("start_ns") > reach).fill_null(True).cum_sum()
    boxed = by_stream.with_columns(box.alias("box"))
    inside = events.join(
        boxed.select("stream", "run", "box"), on=("stream", "run"), nulls_equal=True, maintain_order="left"
    )
    busy = inside.group_by("box").agg(
        _union_length().alias("busy_ns"), pl.col("family").cast(pl.String).mode().sort().first().alias("name")
    )
    extent = boxed.group_by("box").agg(pl.col("key").first(), pl.col("start_ns").min(), pl.col("end_ns").max())
    sms = held_longest(inside.filter("persistent"), "box", "sms")
    return extent.join(busy, on="box").join(sms, on="box", how="left")


def _union_length() -> pl.Expr:
    """|union| of a group's events, which are in order of start."""
    before = pl.col("end_ns").cum_max().shift(1)  # null, and so passed over, at the first
    return (pl.col("end_ns") - pl.max_horizontal("start_ns", before)).clip(0).sum()


def _coarser(runs: pl.DataFrame) -> pl.DataFrame:
    """Merge neighbours, where there are too many to draw, under the name that took most of their time."""
    if runs.height <= _MAX_BOXES:
        return runs
    start, end = runs.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    cell = (pl.col("start_ns") - start) // max(1, -(-(end - start) // _MAX_BOXES))
    longest = pl.col("busy_ns").arg_max()
    return (
        runs.with_columns(cell.alias("cell"))
        .group_by("cell", maintain_order=True)
        .agg(
            pl.col("name").get(longest), pl.col("start_ns").min(), pl.col("end_ns").max(),
            pl.col("busy_ns").sum(), pl.col("sms").get(longest),
        )
    )  # fmt: skip
