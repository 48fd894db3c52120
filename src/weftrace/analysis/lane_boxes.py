"""The lane picture: what the compute lane and the communication lane of a device did, box by box, in device order.

DeepSeek publishes its profiles this way: two bands, a box a phase, and the SMs that each band holds. A box says who
ran, `Lane.busy` when: a box is broken where its phase waits, and `busy` has shorter gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.alphabet import direction_of
from weftrace.analysis.activity import Stretches, stretches_of
from weftrace.analysis.intervals import of_events, totals_by_group
from weftrace.analysis.phase_times import held_longest, with_sms
from weftrace.notebook import InNotebook
from weftrace.trace.model import SmUnit, Trace
from weftrace.trace.work import LaneName, Work, as_work, in_lane
from weftrace.units import US

_MANY = 50  # events in the only phase of a trace above which its inside is drawn
_BREAK_NS = 30 * US  # the gap that `idle` takes for a wait
_LONG_NS = 1_000 * _BREAK_NS  # a wait as long parts boxes however many there are
_MANY_BOXES = 4_000  # in a lane: beyond it, only longer waits break a box ...
_MAX_STRAYS = 1500  # ... and runs of kernels outside phases are merged to about this many
_MAX_BOXES = 20_000  # and stretches of phases to about this many
_OTHERS = " and others"

#: Columns of `Lane.boxes`. Absolute ns.
BOX_COLUMNS: dict[str, pl.DataType] = {
    "name": pl.String(),  # phase name; a kernel family where there are no phases
    "index": pl.Int64(),  # occurrence of the phase
    "phase": pl.Int64(),  # row of Work.phases, or null
    "layer": pl.Int64(),  # what a plan says of the phase, or null
    "micro_batch": pl.Int64(),
    "direction": pl.String(),  # one of weftrace.alphabet.DRAWN, or null
    "start_ns": pl.Int64(),  # of its first event
    "end_ns": pl.Int64(),  # of its last event
    "busy_ns": pl.Int64(),  # |its events|, which may leave gaps of less than 30 µs in it
    "sms": pl.Int64(),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lane(InNotebook):
    """One band of the picture.

    lane: its name, "compute" or "communication". streams: those it runs on. busy: union of its events; busy_ns: its
    length.
    sms: SMs that its persistent kernels hold, where they hold as many for at least half of the lane's time; else
    sms_exact is False and sms is only the largest launch grid, cut to the device's SMs; None where half of the lane's
    time tells no grid. sm_unit: what they are called, "SMs" or, on AMD, "CUs".
    boxes: one a stretch of a phase, in device order: a frame of `BOX_COLUMNS`. Work outside all phases is boxed too: a
    run of one kernel family a box. All events of the lane are in a box. None spans a wait of 30 µs or more, but where
    there are too many boxes to draw: then only longer waits break them, and neighbours outside phases are merged.
    """

    lane: str
    sms: int | None
    sms_exact: bool
    sm_unit: SmUnit
    busy: Stretches
    streams: tuple[int, ...]
    boxes: pl.DataFrame

    @property
    def busy_ns(self) -> int:
        return self.busy.total_ns


# Of a work's events, all that is asked here: they are copied a few times.
_ASKED = ("kind", "family", "persistent", "stream", "start_ns", "end_ns", "num_blocks", "phase")


def lanes(source: Trace | Work, *, all_boxes: bool = False) -> tuple[Lane, ...]:
    """The compute and the communication lane of a device, in this order. Memory copies belong to neither.

    all_boxes: also where they are too many for a picture.
    Pictures draw any number of lanes, in the order in which they stand.
    """
    work = as_work(source)
    return _lane(work, "compute", all_boxes), _lane(work, "communication", all_boxes)


def _lane(work: Work, kind: LaneName, all_boxes: bool) -> Lane:
    events = with_sms(work.events.select(_ASKED).filter(in_lane(kind)), work.num_sms)
    sms, sms_exact = _sms(events)
    return Lane(
        lane=kind,
        sms=sms,
        sms_exact=sms_exact,
        sm_unit=work.sm_unit,
        busy=stretches_of(of_events(events)),
        streams=tuple(events.get_column("stream").unique().sort().to_list()),
        boxes=_boxes(work, events, all_boxes),
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
        events.filter(pl.col("sms").is_not_null()).select(dur.sum().alias("known_ns"), pl.col("sms").max()).row(0)
    )
    return (most if 2 * told_ns >= all_ns else None), False


def _boxes(work: Work, events: pl.DataFrame, all_boxes: bool) -> pl.DataFrame:
    if events.is_empty():
        return pl.DataFrame(schema=BOX_COLUMNS)
    claimed = work.events.get_column("phase").drop_nulls()
    if claimed.n_unique() == 1 and len(claimed) > _MANY:
        events = events.with_columns(phase=pl.lit(None, dtype=pl.Int32))  # one range around all: draw inside
    events = events.with_columns(
        pl.coalesce(pl.col("phase").cast(pl.Int64), -1 - pl.col("family").to_physical().cast(pl.Int64)).alias("key")
    )
    runs = _runs(events, None if all_boxes else _MANY_BOXES)
    phased, strays = runs.filter(pl.col("key") >= 0), runs.filter(pl.col("key") < 0).sort("start_ns", "name")
    phased = _named(work, phased).sort("start_ns", "name", "phase")
    if not all_boxes:
        phased, strays = coarser(phased, _MAX_BOXES), coarser(strays, _MAX_STRAYS)
    strays = strays.with_columns(
        pl.int_range(pl.len()).over("name").alias("index"), phase=None, layer=None, micro_batch=None, direction=None
    )
    boxes = pl.concat(
        part.select(pl.col(name).cast(dtype) for name, dtype in BOX_COLUMNS.items()) for part in (phased, strays)
    )
    return boxes.sort("start_ns", "name", "phase", maintain_order=True)


def _named(work: Work, runs: pl.DataFrame) -> pl.DataFrame:
    """Runs of phases with what is known of their phase."""
    named = work.phases.select(pl.col("phase").cast(pl.Int64).alias("key"), "name", "index", "layer", "micro_batch")
    names = named.get_column("name").unique()
    directions = pl.DataFrame(
        {"name": names, "direction": [direction_of(name) for name in names]}, schema_overrides=BOX_COLUMNS
    )
    return (
        runs.drop("name").join(named, on="key").join(directions, on="name").with_columns(pl.col("key").alias("phase"))
    )


def _runs(events: pl.DataFrame, most: int | None) -> pl.DataFrame:
    """Stretches of one key, without a wait and uninterrupted on their stream; those of several streams that overlap are
    one stretch. most: where waits of 30 µs make more stretches, only the longest waits part them.

    Columns box, key, start_ns, end_ns, busy_ns, name (the family), sms; in no particular order.
    """
    idle_ns = pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1).over("stream")
    changed = (pl.col("key") != pl.col("key").shift(1).over("stream")).fill_null(True)
    events = events.with_columns(idle_ns.alias("idle_ns"), changed.alias("changed"))
    waits = events.filter(~pl.col("changed"), pl.col("idle_ns") >= _BREAK_NS).get_column("idle_ns")
    room = events.height if most is None else max(0, most - int(events.get_column("changed").sum()))
    break_ns = _BREAK_NS if len(waits) <= room else min(_LONG_NS, int(waits.top_k(room + 1).min()))  # type: ignore[arg-type]
    number = (pl.col("changed") | (pl.col("idle_ns") >= break_ns).fill_null(False)).cum_sum().over("stream")
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
    names = inside.group_by("box").agg(pl.col("family").first().cast(pl.String).alias("name"))
    extent = boxed.group_by("box").agg(pl.col("key").first(), pl.col("start_ns").min(), pl.col("end_ns").max())
    of, start, end = (inside.get_column(name).to_numpy() for name in ("box", "start_ns", "end_ns"))
    busy = totals_by_group(of, start, end, extent.height + 1)
    extent = extent.with_columns(pl.Series("busy_ns", busy).gather(extent.get_column("box")))
    sms = held_longest(inside.filter("persistent"), "box", "sms")
    return extent.join(names, on="box").join(sms, on="box", how="left")


def coarser(boxes: pl.DataFrame, most: int) -> pl.DataFrame:
    """Merge neighbours, where there are too many to draw. The one that took most of their time gives its name; of
    several names, that name and "others". boxes: in order of start."""
    if boxes.height <= most:
        return boxes
    start, end = boxes.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    columns = boxes.columns
    first = pl.col("name").get(pl.col("busy_ns").arg_max()).str.strip_suffix(_OTHERS)
    cell = (pl.col("start_ns") - start) // max(1, -(-(end - start) // most))
    return (
        boxes.with_columns(cell.alias("cell"))
        .group_by("cell", maintain_order=True)
        .agg(
            pl.exclude("name", "start_ns", "end_ns", "busy_ns").get(pl.col("busy_ns").arg_max()),
            pl.when(pl.col("name").n_unique() > 1)
            .then(pl.concat_str(first, pl.lit(_OTHERS)))
            .otherwise(pl.col("name").first())
            .alias("name"),
            pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("busy_ns").sum(),
        )
        .select(columns)
    )  # fmt: skip
