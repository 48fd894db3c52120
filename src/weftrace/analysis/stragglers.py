"""Which rank is late, who waits for it, and how long: collectives that ranks share, split in waiting and transfer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.activity import Stretches, stretches_of
from weftrace.analysis.clock_lines import Array
from weftrace.analysis.clocks import END_TOGETHER, ClockOffset, Clocks, offsets_of
from weftrace.analysis.intervals import union
from weftrace.analysis.meetings import Meetings, meetings_of
from weftrace.analysis.root_cause import Blame, Waiting, blame
from weftrace.notebook import InNotebook
from weftrace.units import MS, US, duration

_MOST_WORST = 1000
_LEFT_BEFORE_NS = 10 * US  # and four times the uncertainty: who ends that long before the last comes waited for nobody
_STARTS_AGREE = 0.9  # of the collectives: then events show the transfer only
_ABOUT, _MOST_ABOUT = 2 * US, 50 * US
_SKEW_NS = 1 * MS  # by which profilers may start apart without a word
_ABOVE = 1.3  # times the mean of what begins with a rank, and
_PART, _MOSTLY = 1 / 3, 0.5  # of all waiting; or of its collectives that it came last into, and `_ABOVE` times any
# other's: then a rank stands out
_SURELY = 2  # times the uncertainty: beyond it a wait is told from clocks that disagree, and
_SURE = 0.5  # of the waiting must be in such, else no rank is called late


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Lateness(InNotebook):
    """Who came late into the collectives that ranks share, and who waited.

    Of a collective on two ranks or more, on a common clock: waiting of a rank = last start over the ranks - own start,
    within the event; transfer = the rest of it, own end - last start. A rank that left before the last came (the root
    of a broadcast) waited for nobody. Collectives to which some came more than a millisecond before the recording of
    the last had begun are left out, and a note says how many. Sends and receives are not counted where there are
    collectives: to wait for the stage before is how a pipeline works; but what a rank is late by them is passed on.

    ranks: a row a rank (`at`, its position): caused_ns, own start - second last start where it came last and others
    waited; origin_ns, waiting of all ranks that began with it (`blame`): their sum is that of suffered_ns, its waiting;
    transfer_ns; num_last; num_matched. late: position of the rank with the most origin_ns, 1.3 times the mean at
    least, which is a third of all, or 1.3 times that of any other and it came last most of the time; None where no rank
    stands out so, or waiting does not stand above the uncertainty.
    pairs: waiter, last, waiting_ns, count. collectives: by kind, sends and receives too. worst: those with most
    waiting. Both: origin, the rank with which most of their waiting began (None where that is in no sum), and
    origin_ns, how much. steps: step, at, caused_ns, origin_ns, suffered_ns. waits: of each rank when it waited, on its
    own clock.
    began: a row a wait and rank with which it began: wait (its number), at (who waited), start_ns, end_ns (own clock),
    origin, part (of the wait; they add up to 1); without waits that are within the clocks' uncertainty.
    uncertainty_ns: how far apart ends of one collective lie, or how uncertain the clocks of its ranks are to each other
    if that is more, median; a collective counts with its length where its clocks cannot be told.
    clocks_applied: whether some clock was corrected.
    ahead_ns: of each rank how far its clock was corrected, in the middle of its collectives.
    """

    ranks: pl.DataFrame
    late: int | None
    pairs: pl.DataFrame
    collectives: pl.DataFrame
    worst: pl.DataFrame
    steps: pl.DataFrame
    waits: tuple[Stretches, ...]
    began: pl.DataFrame
    num_matched: int
    num_unmatched: int
    num_by_sequence: int
    not_the_same: int
    clocks_applied: bool
    ahead_ns: tuple[int, ...]
    uncertainty_ns: int
    notes: tuple[str, ...] = ()

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "matched", f"{self.num_matched:,} collectives, {self.num_unmatched:,} events without a partner"
        for row in self.ranks.sort("origin_ns", descending=True).head(8).iter_rows(named=True):
            yield f"rank at {row['at']}", f"others waited {duration(row['origin_ns'])} because of it"


def lateness(ranks: Sequence[pl.DataFrame]) -> Lateness | None:
    """Lateness of the ranks of a job; None where no two of them share a collective.

    ranks: of each what `arrivals` gives:

        frames = [outcome.value for outcome in wt.open("traces/").map(wt.analysis.arrivals)]
        wt.analysis.lateness(frames)
    """
    return lateness_of(meetings_of(ranks))


def clock_offsets(ranks: Mapping[int, pl.DataFrame]) -> tuple[ClockOffset, ...]:
    """Offsets of each rank's clock to that of the lowest rank. ranks: rank -> what `arrivals` gives."""
    order = sorted(ranks)
    frames = [ranks[rank] for rank in order]
    return offsets_of(meetings_of(frames).clocks, order, [frame.height for frame in frames])


def lateness_of(meetings: Meetings) -> Lateness | None:
    """Lateness in collectives that are matched."""
    if meetings.members.is_empty():
        return None
    clocks, number = meetings.clocks, meetings.clocks.number
    uncertainty_ns = _uncertainty(meetings.members, clocks)
    split = _split(meetings.members, uncertainty_ns)
    members, met = split.members, split.met
    mine, counted = members.filter("counted"), met.filter("counted")
    blamed = blame(split.waiting, number)
    ranks = _ranks(mine, counted, number, blamed.origin_ns)
    origins = _origins(members, blamed)
    waiting_ns = mine.get_column("waiting_ns").to_numpy()
    sure_ns = int(waiting_ns[waiting_ns > _SURELY * uncertainty_ns].sum())
    is_told = sure_ns > 0 and sure_ns >= _SURE * int(waiting_ns.sum())
    return Lateness(
        ranks=ranks,
        late=_stands_out(ranks) if is_told else None,
        pairs=_pairs(mine),
        collectives=_with_origin(_collectives(met.filter(~pl.col("is_early"))), origins, "collective"),
        worst=_with_origin(
            counted.sort("waiting_ns", "meeting", descending=[True, False]).head(_MOST_WORST), origins, "meeting"
        ),
        steps=_steps(mine, origins),
        waits=tuple(_waits(mine.filter(pl.col("at") == at)) for at in range(number)),
        began=_began(members, blamed, _SURELY * uncertainty_ns),
        num_matched=met.height,
        num_unmatched=meetings.num_unmatched,
        num_by_sequence=int(met.get_column("by_sequence").sum()),
        not_the_same=meetings.not_the_same,
        clocks_applied=bool((members.get_column("ahead_ns") != 0).any()),
        ahead_ns=tuple(clocks.offset(at) if clocks.is_needed(at) else 0 for at in range(number)),
        uncertainty_ns=uncertainty_ns,
        notes=(*split.notes, *meetings.notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    members: pl.DataFrame
    met: pl.DataFrame
    waiting: Waiting
    notes: tuple[str, ...]


def _uncertainty(members: pl.DataFrame, clocks: Clocks) -> int:
    """The median over collectives, else over sends and receives, of how far their ends lie apart, or how uncertain the
    clocks of their ranks are to that of the first, if that is more; where it cannot be told, how long they took."""
    kind, end = pl.col("collective").cast(pl.String), pl.col("end_ns") - pl.col("ahead_ns")
    members = members.with_columns(pl.col("at").first().over("meeting").alias("first"))
    pairs = members.select("first", "at").unique()
    unsure = [clocks.uncertainty(at, first) for first, at in pairs.rows()]
    members = members.join(pairs.with_columns(pl.Series("unsure", unsure, pl.Int64)), on=["first", "at"], how="left")
    of_clocks = pl.coalesce("unsure", pl.col("end_ns") - pl.col("start_ns"))
    for chosen in (kind.is_in(END_TOGETHER) & ~pl.col("is_barrier"), kind == "send_recv"):
        apart = (
            members.filter(chosen)
            .group_by("meeting")
            .agg(pl.max_horizontal(end.max() - end.min(), of_clocks.max()).alias("ns"))
            .get_column("ns")
        )
        if len(apart):
            return int(np.median(apart.to_numpy()))
    return 0


def _split(members: pl.DataFrame, uncertainty_ns: int) -> _Split:
    """Of each member its waiting and transfer; of each meeting who came last, when, and what it caused."""
    meeting = members.get_column("meeting").to_numpy()
    first = np.flatnonzero(np.concatenate(([True], meeting[1:] != meeting[:-1])))
    sizes = np.diff(np.append(first, len(meeting)))
    ahead = members.get_column("ahead_ns").to_numpy()
    start, idle, end = (members.get_column(c).to_numpy() - ahead for c in ("start_ns", "idle_since_ns", "end_ns"))
    notes: list[str] = []
    if _shows_transfer_only(start, idle, first, sizes, uncertainty_ns):
        start = idle
        notes.append(
            "communication events show the transfer only, for all ranks start them together: a rank counts as come "
            "when its work before had ended"
        )
    last_ns = np.maximum.reduceat(start, first)
    is_last = np.flatnonzero(start == np.repeat(last_ns, sizes))
    last_row = is_last[np.unique(np.searchsorted(first, is_last, side="right"), return_index=True)[1]]
    others = start.copy()
    others[last_row] = np.iinfo(np.int64).min
    left_ns = np.repeat(last_ns, sizes)
    left_before = end < left_ns - (_LEFT_BEFORE_NS + 4 * uncertainty_ns)
    waiting = np.where(left_before, 0, np.maximum(np.minimum(left_ns, end) - start, 0))
    caused = np.minimum(last_ns - np.maximum.reduceat(others, first), np.maximum.reduceat(waiting, first))
    at = members.get_column("at").to_numpy()
    is_pair = (members.get_column("collective").cast(pl.String) == "send_recv").to_numpy()[first]
    is_early = _before_recording(members, start, last_row, first)
    is_counted = ~is_early & (np.ones(len(first), np.bool_) if is_pair.all() else ~is_pair)
    if num_early := int((is_early & ~is_pair).sum()):
        notes.append(
            f"{num_early:,} collective{'s' * (num_early > 1)} left out: ranks waited there before the recording of the "
            "last began"
        )
    lacking = (members.get_column("group_size").fill_null(0).to_numpy()[first] > sizes) & is_counted
    if num_lacking := int(lacking.sum()):
        notes.append(
            f"{num_lacking:,} of {int(is_counted.sum()):,} collectives lack ranks of their group here: the last "
            "to come is the last of those present, and waiting for the rest counts as transfer"
        )
    members = members.with_columns(
        pl.Series("waiting_ns", waiting),
        pl.Series("transfer_ns", end - start - waiting),
        pl.Series("arrival_ns", start + ahead - members.get_column("moved_ns").to_numpy()),
        pl.Series("last", np.repeat(at[last_row], sizes)),
        pl.Series("caused_ns", np.repeat(caused, sizes)),
        pl.Series("last_start", left_ns),
        pl.Series("counted", np.repeat(is_counted, sizes)),
        pl.Series("is_early", np.repeat(is_early, sizes)),
    )
    return _Split(
        members=members,
        met=_met(members),
        waiting=Waiting(
            first=first, at=at, arrival_ns=start, end_ns=end, waiting_ns=waiting, left_before=left_before,
            last=at[last_row], last_ns=last_ns, is_pair=is_pair, is_counted=is_counted,
        ),
        notes=tuple(notes),
    )  # fmt: skip


def _before_recording(members: pl.DataFrame, start: Array, last_row: Array, first: Array) -> NDArray[np.bool_]:
    """Meetings whose first came before the recording of the last had begun: what it did until then is not known, and
    profilers start at different times."""
    since = members.get_column("recorded_since_ns") - members.get_column("ahead_ns")
    known = since.is_not_null().to_numpy()[last_row]
    return known & (np.minimum.reduceat(start, first) + _SKEW_NS < since.fill_null(0).to_numpy()[last_row])


def _shows_transfer_only(start: Array, idle: Array, first: Array, sizes: Array, uncertainty_ns: int) -> bool:
    """Whether events begin when the last rank has come, so that waiting is the gap before them. Simulators write such.

    Of nearly all collectives the starts agree, the last rank to become idle was so until just then, and another was
    idle for longer.
    """
    about = min(max(_ABOUT, 3 * uncertainty_ns), _MOST_ABOUT)
    earliest, latest = np.minimum.reduceat(start, first), np.maximum.reduceat(start, first)
    came = np.maximum.reduceat(idle, first)
    agree = latest - earliest <= about
    until_then = latest - came <= about
    waited = came - np.minimum.reduceat(idle, first) > 2 * about
    return bool(agree.mean() >= _STARTS_AGREE and waited.any() and until_then.mean() >= _STARTS_AGREE)


def _met(members: pl.DataFrame) -> pl.DataFrame:
    """A row a meeting."""
    once = ("collective", "group", "seq", "last_start", "last", "caused_ns", "by_sequence", "counted", "is_early")
    return members.group_by("meeting", maintain_order=True).agg(
        pl.col(once).first(),
        pl.col("step").drop_nulls().first(),
        pl.col("waiting_ns", "transfer_ns").sum(),
        pl.len().alias("num_ranks"),
    )


def _ranks(members: pl.DataFrame, met: pl.DataFrame, number: int, origin_ns: Array) -> pl.DataFrame:
    late = met.filter(pl.col("caused_ns") > 0)
    caused = late.group_by("last").agg(pl.col("caused_ns").sum(), pl.len().alias("num_last")).rename({"last": "at"})
    own = members.group_by("at").agg(
        pl.col("waiting_ns").sum().alias("suffered_ns"), pl.col("transfer_ns").sum(), pl.len().alias("num_matched")
    )
    every = pl.DataFrame({"at": range(number), "origin_ns": origin_ns}, schema_overrides={"at": pl.Int32})
    every = every.join(caused, on="at", how="left", maintain_order="left")
    every = every.join(own, on="at", how="left", maintain_order="left")
    counts = ("caused_ns", "origin_ns", "suffered_ns", "transfer_ns", "num_last", "num_matched")
    return every.select("at", *(pl.col(name).fill_null(0).cast(pl.Int64) for name in counts))


def _began(members: pl.DataFrame, blamed: Blame, beyond_ns: int) -> pl.DataFrame:
    waits = members.select("at", "arrival_ns", "waiting_ns")[blamed.row]
    return waits.select(
        pl.Series("wait", blamed.row),
        "at",
        pl.col("arrival_ns").alias("start_ns"),
        (pl.col("arrival_ns") + pl.col("waiting_ns")).alias("end_ns"),
        pl.Series("origin", blamed.origin, dtype=pl.Int32),
        pl.Series("part", blamed.part),
    ).filter(pl.col("end_ns") - pl.col("start_ns") > beyond_ns)


def _origins(members: pl.DataFrame, blamed: Blame) -> pl.DataFrame:
    """With whom the waiting in each meeting began: meeting, collective, step, origin, origin_ns."""
    waits = members.select("meeting", "collective", "step", "waiting_ns")[blamed.row]
    return (
        waits.with_columns(
            pl.Series("origin", blamed.origin, dtype=pl.Int32),
            (pl.col("waiting_ns") * pl.Series("part", blamed.part)).alias("origin_ns"),
        )
        .group_by("meeting", "collective", "step", "origin")
        .agg(pl.col("origin_ns").sum())
    )


def _with_origin(rows: pl.DataFrame, origins: pl.DataFrame, key: str) -> pl.DataFrame:
    """Rows with the rank with which most of their waiting began. key: what a row is of."""
    sums = origins.group_by(key, "origin").agg(pl.col("origin_ns").sum().round().cast(pl.Int64))
    most = sums.sort("origin_ns", "origin", descending=[True, False]).unique(key, keep="first")
    return rows.join(most, on=key, how="left", maintain_order="left").with_columns(pl.col("origin_ns").fill_null(0))


def _stands_out(ranks: pl.DataFrame) -> int | None:
    origin_ns = ranks.get_column("origin_ns").to_numpy()
    late = int(np.argmax(origin_ns))
    num_last, num_matched = ranks.select("num_last", "num_matched").row(late)
    next_ns = np.delete(origin_ns, late).max(initial=0)
    is_often = num_last >= _MOSTLY * num_matched and origin_ns[late] >= _ABOVE * next_ns
    is_much = origin_ns[late] >= _PART * origin_ns.sum() or is_often
    return late if origin_ns[late] >= _ABOVE * origin_ns.mean() and is_much else None


def _pairs(members: pl.DataFrame) -> pl.DataFrame:
    waited = members.filter(pl.col("waiting_ns") > 0)
    pairs = waited.group_by(pl.col("at").alias("waiter"), "last").agg(
        pl.col("waiting_ns").sum(), pl.len().cast(pl.Int64).alias("count")
    )
    return pairs.sort("waiting_ns", "waiter", "last", descending=[True, False, False])


def _collectives(met: pl.DataFrame) -> pl.DataFrame:
    late = met.filter(pl.col("caused_ns") > 0).group_by("collective", "last").agg(pl.len().alias("num_last"))
    late = late.sort("num_last", "last", descending=[True, False]).unique("collective", keep="first")
    every = met.group_by("collective").agg(
        pl.len().alias("num"), pl.col("waiting_ns", "transfer_ns").sum(), pl.col("last").min().alias("any_last")
    )
    return (
        every.join(late, on="collective", how="left")
        .select(
            "collective",
            pl.col("num").cast(pl.Int64),
            "waiting_ns",
            "transfer_ns",
            pl.coalesce("last", "any_last").alias("last"),
            pl.col("num_last").fill_null(0).cast(pl.Int64),
        )
        .sort("waiting_ns", pl.col("collective").cast(pl.String), descending=[True, False])
    )


def _steps(members: pl.DataFrame, origins: pl.DataFrame) -> pl.DataFrame:
    caused = pl.when(pl.col("at") == pl.col("last")).then("caused_ns").otherwise(0)
    own = (
        members.filter(pl.col("step").is_not_null())
        .group_by("step", "at")
        .agg(caused.sum().alias("caused_ns"), pl.col("waiting_ns").sum().alias("suffered_ns"))
    )
    began = (
        origins.filter(pl.col("step").is_not_null())
        .group_by("step", pl.col("origin").cast(own.schema["at"]).alias("at"))
        .agg(pl.col("origin_ns").sum().round().cast(pl.Int64))
    )
    every = own.join(began, on=["step", "at"], how="full", coalesce=True)
    columns = (pl.col("caused_ns", "origin_ns", "suffered_ns").fill_null(0),)
    return every.select("step", "at", *columns).sort("step", "at")


def _waits(mine: pl.DataFrame) -> Stretches:
    """When a rank waited, on its own clock."""
    starts = mine.get_column("arrival_ns").to_numpy()
    return stretches_of(union(starts, starts + mine.get_column("waiting_ns").to_numpy()))
