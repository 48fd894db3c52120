"""Which events of different ranks are one collective? Matched by what the files record, else by order, checked by ends.

Files that number their collectives are matched by group, number and kind. Where nothing is numbered, or a number comes
twice, plain order goes wrong as soon as a file leaves some out: then the same collective is what ends at the same time,
on a common clock. Sends and receives are numbered by each rank for itself, so they are checked in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.clock_lines import LOOSE, RECEIVED, SENT, Array, Edge
from weftrace.analysis.clocks import Clocks, clocks_along, edges_of, way_of
from weftrace.analysis.clocks_apart import laid_over_others
from weftrace.analysis.end_votes import MOST_APART_NS, MOST_IN_ORDER_NS, Pairs, agreeing, tolerance_of, vote
from weftrace.units import counted

_KEY = ("group", "collective", "seq")
_IN_ORDER = 0.7  # of the collectives of a kind agree when paired by order: then order it is
_CAUSAL_NS = 10_000  # by which clocks of ranks may differ though none is corrected
_NUMBERED = 3  # kinds of meetings that are found by number, before those by order and ends
#: Of pairs taken apart: more tell that clocks, or pairs, are wrong.
FEW_NOT_CAUSAL = 0.05
_RESTS = 4  # times fewer pairs contradict clocks of their own than one: then ranks of one file have such
_MOST_TRIES = 8  # ranks that one without a common clock is compared with

#: Columns of `Meetings.members`: a row a rank and collective, in order of meeting and rank.
MEMBER_SCHEMA: dict[str, pl.DataType] = {
    "meeting": pl.Int64(),
    "at": pl.Int32(),  # position of the rank
    **ARRIVAL_SCHEMA,
    "ahead_ns": pl.Int64(),  # subtract it from times: they are then on the common clock
    "by_sequence": pl.Boolean(),
    "moved_ns": pl.Int64(),  # added to its times beside, so that each rank's steps are laid as the first rank's
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meetings:
    """Collectives found on two ranks or more.

    members: frame of `MEMBER_SCHEMA`. clocks: of the ranks, by position. num_unmatched: events that found no partner;
    not_the_same: of these, those whose kind the ranks share in their order, but whose ends disagree. num_pairs_alone:
    of these, sends and receives. num_not_causal: pairs that were taken apart, since the receive ended before its send
    had begun. num_pairs: of sends and receives, with those that were taken apart. num_unlinked: ranks
    whose clock nothing links with the others', and that is not theirs: their steps lie elsewhere. They are laid over
    those of the others (`Clocks.laid_ns`); who waited for whom between the two is not known.
    """

    members: pl.DataFrame
    clocks: Clocks
    num_unmatched: int
    not_the_same: int
    num_pairs_alone: int = 0
    num_not_causal: int = 0
    num_pairs: int = 0
    num_unlinked: int = 0

    @property
    def share_not_causal(self) -> float:
        """Of all pairs those that were taken apart. Beyond `FEW_NOT_CAUSAL` some clock is wrong, or pairs are."""
        return self.num_not_causal / self.num_pairs if self.num_pairs else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """What of sends and receives is in no pair."""
        summary = []
        if self.num_pairs_alone:
            summary.append(
                f"{self.num_pairs_alone:,} sends and receives found no partner. If files "
                "name none, a pair is identified by its ends, if only two are that close"
            )
        if self.num_not_causal:
            summary.append(
                f"{counted(self.num_not_causal, 'pair')} of sends and receives left out: the receive would have ended "
                "before its send began"
            )
        if self.num_unlinked:
            summary.append(
                f"nothing that {counted(self.num_unlinked, 'rank')} recorded shows how far their clocks are from the "
                "others': their steps are laid over those of the others"
            )
        return tuple(summary)


def meetings_of(ranks: Sequence[pl.DataFrame], files: Sequence[str] | None = None) -> Meetings:
    """Meetings of these ranks. ranks: of each a frame of `ARRIVAL_SCHEMA`. files: of each the file that it is from, for
    ranks of one file have one clock; each its own by default, and where more than `FEW_NOT_CAUSAL` of all pairs
    contradict one clock a file and less than a quarter of these clocks of their own."""
    found = _meetings_of(ranks, files)
    if not files or len(set(files)) == len(files) or found.share_not_causal <= FEW_NOT_CAUSAL:
        return found
    other = _meetings_of(ranks, None)
    return other if _RESTS * other.share_not_causal < found.share_not_causal else found


def _meetings_of(ranks: Sequence[pl.DataFrame], files: Sequence[str] | None) -> Meetings:
    events = _events(ranks)
    is_numbered = pl.col("seq").is_not_null() & (pl.len().over(*_KEY, "at") == 1)
    others = events.filter(~is_numbered)
    numbered = _same_key(events.filter(is_numbered))
    is_pair = (pl.col("collective").cast(pl.String) == "send_recv") & (_num_expected() > 2)
    is_crowded = pl.col("num_members") > _num_expected()
    pairs, crowded = numbered.filter(is_pair), numbered.filter(~is_pair & is_crowded)
    numbered = numbered.filter(~is_pair & ~is_crowded)
    edges = edges_of(numbered)
    first = [files.index(file) for file in files] if files else list(range(len(ranks)))
    sure = others.filter(~is_peerless())  # who sends to whom is not to be guessed from clocks that are guessed
    clocks = clocks_along([*edges, *_voted(sure, clocks_along(edges, first))], first)
    found = [numbered.select("row", "meeting"), _apart(_on_common_clock(crowded, clocks))]
    met, num_pairs_alone = _by_ends(_on_common_clock(pairs, clocks), _KEY, in_order=False, most=2)
    found.append(met)
    others = _on_common_clock(others, clocks)
    is_unsure = is_peerless()
    unsure, others = others.filter(is_unsure), others.filter(~is_unsure)
    met, num_unsure = _by_ends(unsure, ("group", "what"), in_order=False, most=2, within_ns=_CAUSAL_NS)
    found.append(met)
    root = pl.Series("root", [clocks.root(at) for at in range(clocks.number)], pl.Int64)
    others = others.with_columns(
        root.gather(others.get_column("at"))
    )  # on clocks that nothing links, ends tell nothing
    met, num_alone = _by_ends(others, ("group", "what", "root"), in_order=True)
    num_alone += num_unsure
    found.append(_of_the_groups_size(met, others))
    every = _on_common_clock(events, clocks)
    members = _joined(found).join(every, on="row").sort("meeting", "at")
    num_pairs_met = _num_point_to_point(members) // 2
    members, num_not_causal = _causal(members, clocks)
    laid_ns, num_unlinked = laid_over_others(every, clocks)
    num_pairs = _num_point_to_point(every) - _num_point_to_point(members)
    return Meetings(
        num_pairs_alone=num_pairs - 2 * num_not_causal,
        num_not_causal=num_not_causal,
        num_pairs=num_pairs_met,
        members=members.select(*MEMBER_SCHEMA),
        num_unlinked=num_unlinked,
        clocks=replace(clocks, laid_ns=laid_ns),
        num_unmatched=events.height - members.height,
        not_the_same=num_pairs_alone + num_alone,
    )


def is_peerless() -> pl.Expr:
    """Over columns of `ARRIVAL_SCHEMA`: a send or receive of which nothing tells the partner."""
    is_pair = pl.col("collective").cast(pl.String) == "send_recv"
    return is_pair & pl.col("sends").is_null() & (pl.col("group_size").fill_null(0) != 2)


def _num_point_to_point(events: pl.DataFrame) -> int:
    return int((events.get_column("collective").cast(pl.String) == "send_recv").sum())


def _causal(members: pl.DataFrame, clocks: Clocks) -> tuple[pl.DataFrame, int]:
    """Without pairs of which the receive ended before its send began, and how many those are.

    Where no file tells which of two sends, both must have run at the same time: a send waits for its receiver.
    """
    is_pair = (pl.col("collective").cast(pl.String) == "send_recv") & (pl.len().over("meeting") == 2)
    unsure = [max(4 * clocks.spread(at), clocks.uncertainty(at) or 0) for at in range(clocks.number)]
    slack_ns = _CAUSAL_NS + max(unsure, default=0)
    start, end = (pl.col(name) - pl.col("ahead_ns") for name in ("start_ns", "end_ns"))
    sends, other = pl.col("sends"), pl.col("sends").not_()
    sent = pl.when(sends.any().over("meeting")).then(start.filter(sends).first().over("meeting"))
    received = pl.when(other.any().over("meeting")).then(end.filter(other).first().over("meeting"))
    told = sent.is_not_null() & received.is_not_null()
    both = sends.is_null().all().over("meeting")
    early = pl.when(told).then(received + slack_ns < sent)
    apart = end.min().over("meeting") + slack_ns < start.max().over("meeting")
    alike = ~told & ~both  # two that send, or two that receive
    is_wrong = is_pair & (early.fill_null(False) | (both & apart) | alike)
    wrong = members.select(is_wrong.fill_null(False).alias("wrong")).get_column("wrong")
    return members.filter(~wrong), int(wrong.sum()) // 2


def _joined(found: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Rows and numbers of meetings in one frame. found: in this order, the first `_NUMBERED` by number."""
    first = 0
    parts = []
    for place, frame in enumerate(found):
        by_sequence = pl.lit(place < _NUMBERED).alias("by_sequence")
        parts.append(frame.select("row", pl.col("meeting") + first, by_sequence))
        first += int(frame.get_column("meeting").max() or 0) + 1  # type: ignore[arg-type]
    return pl.concat(parts)


def _events(ranks: Sequence[pl.DataFrame]) -> pl.DataFrame:
    nothing = pl.DataFrame(schema=ARRIVAL_SCHEMA)
    frames = [frame.with_columns(pl.lit(at, pl.Int32).alias("at")) for at, frame in enumerate((*ranks, nothing))]
    return _laid_alike(pl.concat(frames).with_row_index("row"))


def _laid_alike(events: pl.DataFrame) -> pl.DataFrame:
    """Steps of plain traces in different files, laid by each for itself, where the first rank has laid them: else what
    they differ by in length would count as lateness, and add up from step to step."""
    moved = pl.col("laid_ns").fill_null(0)
    if not events.select((moved != 0).any()).item():
        return events.with_columns(pl.lit(0, pl.Int64).alias("moved_ns"))
    shifts = events.drop_nulls("step").group_by("step").agg(moved.sort_by("at").first().alias("common_ns"))
    events = events.join(shifts, on="step", how="left", maintain_order="left")
    by = (pl.col("common_ns") - moved).fill_null(0)
    times = ("start_ns", "end_ns", "idle_since_ns")
    return events.with_columns(by.alias("moved_ns"), *(pl.col(name) + by for name in times)).drop("common_ns")


def _same_key(events: pl.DataFrame) -> pl.DataFrame:
    """The events whose key another rank has too, each with the number of its meeting."""
    met = (
        events.group_by(_KEY, maintain_order=True).agg(pl.len().alias("num_members")).filter(pl.col("num_members") > 1)
    )
    met = met.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("meeting"))
    return events.join(met, on=_KEY).sort("meeting", "at")


def _num_expected() -> pl.Expr:
    """Ranks that can meet: more of them are of several groups that bear one name."""
    return pl.coalesce("group_size", "num_members")


def _on_common_clock(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """Adds `ahead_ns`, how far the rank's clock is ahead, and `end`, the end on the common clock."""
    ends, ats = frame.get_column("end_ns").to_numpy(), frame.get_column("at").to_numpy()
    common = ends.copy()
    for at in np.unique(ats):
        common[ats == at] = clocks.to_common(int(at), ends[ats == at])
    return frame.with_columns(pl.Series("ahead_ns", ends - common), pl.Series("end", common))


def _voted(events: pl.DataFrame, known: Clocks) -> Iterator[Edge]:
    """What ranks without a common clock seem to share: by order in their steps, or by their ends alone.

    A kind is shared by all that record it where partners are told, or the group has all ranks of the job, or no more
    ranks record it than the group has, and the group is named or all files are here.
    """
    num_ranks, num_all = pl.col("at").n_unique().over("group", "what"), pl.col("world_size").max()
    is_here = (pl.col("group").cast(pl.String) != "") | (num_all == known.number)
    is_shared = pl.any_horizontal(
        pl.col("sends").is_not_null(),
        pl.col("group_size") == num_all,
        is_here
        & (num_ranks <= pl.coalesce("group_size", pl.when(pl.col("group").cast(pl.String) != "").then(num_ranks))),
    ).fill_null(False)
    way = pl.when(is_shared).then(way_of(pl.col("sends"))).otherwise(LOOSE)
    events = events.with_columns(is_shared.alias("shared"), way.alias("way"), pl.col("step").fill_null(-1))
    events = events.filter(pl.col("at").n_unique().over("group", "what") > 1)  # no vote is on what one rank alone does
    columns = ("start_ns", "end_ns", "step", "way")
    mine: dict[tuple[bool, bool], dict[int, dict[Any, _Times]]] = {}
    for (at, *kind), part in events.sort("end_ns", "start_ns").group_by("at", "group", "what", maintain_order=True):
        times = _Times(*(part.get_column(name).to_numpy() for name in columns))
        is_message = bool(np.isin(times.way[0], (SENT, RECEIVED)))
        of = mine.setdefault((not part.get_column("shared")[0], is_message), {})
        of.setdefault(int(at), {})[tuple(kind)] = times
    roots = [known.root(at) for at in range(known.number)]
    joined = dict(enumerate(roots))
    for (is_unsure, is_message), ranks in sorted(mine.items(), key=lambda item: item[0]):
        for b, kinds in sorted(ranks.items()):
            others = [a for a in sorted(ranks) if a < b and not kinds.keys().isdisjoint(ranks[a])]
            together = dict(enumerate(roots)) if is_message else joined
            for a in [a for a in others if together[a] != together[b]][:_MOST_TRIES]:
                if together[a] != together[b] and (pairs := vote(ranks[a], kinds, is_shared=not is_unsure)):
                    yield _edge(a, b, ranks[a], kinds, pairs)
                    old, new = max(joined[a], joined[b]), min(joined[a], joined[b])
                    joined = {at: new if root == old else root for at, root in joined.items()}
                    together = together if is_message else joined


class _Times(NamedTuple):
    """Of a rank's events of a kind, in order of end. way: as if it were the first of two ranks (`Edge.way`)."""

    starts: Array
    ends: Array
    steps: Array
    way: Array


def _edge(a: int, b: int, of_a: Mapping[Any, _Times], of_b: Mapping[Any, _Times], pairs: Pairs) -> Edge:
    columns = [
        np.concatenate([getattr(of[kind], name)[places[which]] for kind, places in pairs.items()])
        for which, of, name in (
            (0, of_a, "starts"), (0, of_a, "ends"), (1, of_b, "starts"), (1, of_b, "ends"), (0, of_a, "way")
        )
    ]  # fmt: skip
    return Edge(a, b, False, *columns).strict()


def _of_the_groups_size(met: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Meetings of more ranks than the group has are of several groups, whose ends lie as close: told apart."""
    joined = met.join(events, on="row", how="left", maintain_order="left")
    is_crowded = (pl.len().over("meeting") > pl.col("group_size")).fill_null(False)
    crowded = joined.filter(is_crowded)
    if crowded.is_empty():
        return met
    summary = _apart(crowded, ("group", "what", "group_size"))
    return pl.concat(
        [joined.filter(~is_crowded).select("row", "meeting"), summary.with_columns(pl.col("meeting") + met.height)]
    )


def _apart(events: pl.DataFrame, key: Sequence[str] = ("group", "group_size")) -> pl.DataFrame:
    """Meetings of groups that bear one name, told apart: each of the group's size, of ranks whose ends are nearest.

    key: what such groups share; the size comes last.
    """
    if events.is_empty():
        return events.select("row", "meeting")
    parts = []
    for (*_, size), frame in events.group_by(key, maintain_order=True):
        table = frame.group_by("at", "meeting").agg(pl.col("end").first()).sort("at", "meeting")
        ends = {int(at): part for (at,), part in table.group_by("at", maintain_order=True)}
        left = sorted(ends)
        for number in range(len(left)):
            if not left:
                break
            lead = ends[left[0]]
            apart = {at: _typical_distance(lead, ends[at]) for at in left}
            together = sorted(left, key=lambda at: (apart[at], at))[:size]
            left = [at for at in left if at not in together]
            parts.append(frame.filter(pl.col("at").is_in(together)).with_columns(pl.lit(number).alias("part")))
    split = pl.concat(parts).with_columns(pl.struct("meeting", "part").rank("dense").cast(pl.Int64).alias("meeting"))
    return split.filter(pl.len().over("meeting") > 1).select("row", "meeting")


def _typical_distance(a: pl.DataFrame, b: pl.DataFrame) -> float:
    both = a.join(b, on="meeting", suffix="_b")
    median = (both.get_column("end_b") - both.get_column("end")).abs().median()
    return float("inf") if median is None else float(median)  # type: ignore[arg-type]


def _by_ends(
    events: pl.DataFrame, key: Sequence[str], *, in_order: bool, most: int = 1 << 30, within_ns: int = 1 << 62
) -> tuple[pl.DataFrame, int]:
    """Events of a key that end together: row and number of the meeting; and how many do not, where ranks share the key.

    in_order: events of a key are told apart by their order, where that agrees. most: ranks that can meet.
    within_ns: how far apart they end at most.
    """
    rows: list[Array] = []
    numbers: list[Array] = []
    alone = first = 0
    shared = events.filter(pl.col("at").n_unique().over(key) > 1).sort("end", "at")
    for _, part in shared.group_by(key, maintain_order=True):
        ats, ends = part.get_column("at").to_numpy(), part.get_column("end").to_numpy()
        label = _labels(ats, ends, in_order=in_order, within_ns=within_ns)
        sizes = np.bincount(label)[label]
        met = (sizes > 1) & (sizes <= most)
        alone += int((~met).sum())
        if met.any():
            _, renumbered = np.unique(label[met], return_inverse=True)
            rows.append(part.get_column("row").to_numpy()[met])
            numbers.append(renumbered + first)
            first += int(renumbered.max()) + 1
    columns = (np.concatenate(parts) if parts else np.empty(0, np.int64) for parts in (rows, numbers))
    schema = {"row": pl.UInt32(), "meeting": pl.Int64()}
    return pl.DataFrame(dict(zip(schema, columns, strict=True)), schema=schema), alone


def _labels(ats: Array, ends: Array, *, in_order: bool, within_ns: int) -> Array:
    """Which of some events, in order of end, meet: by order where that agrees, else by their ends."""
    narrow = min(within_ns, tolerance_of(ats, ends))
    wide = tolerance_of(ats, ends, most=MOST_IN_ORDER_NS)
    for tolerance in (narrow, MOST_APART_NS, wide) if in_order else ():
        if (label := _in_order(ats, ends, tolerance)) is not None:
            return label
    return agreeing(ats, ends, narrow)


def _in_order(ats: Array, ends: Array, tolerance_ns: int) -> Array | None:
    """Labels of meetings by order, where all ranks have as many and most of them end together so; else None.

    Where the ends of all ranks agree in most, order is right in the rest too: a rank may have been held up at the end.
    Else ranks whose ends lie apart are told apart: they are of different groups.
    """
    present, counts = np.unique(ats, return_counts=True)
    if counts.min() != counts.max():
        return None
    order = np.argsort(ats, kind="stable")  # events are in order of end
    nth = np.empty(len(ats), np.int64)
    nth[order] = np.tile(np.arange(counts[0]), len(present))
    by_nth = np.lexsort((ends, nth))
    sorted_nth, sorted_ends = nth[by_nth], ends[by_nth]
    breaks = np.ones(len(ats), np.bool_)
    breaks[1:] = (sorted_nth[1:] != sorted_nth[:-1]) | (sorted_ends[1:] - sorted_ends[:-1] > tolerance_ns)
    label = np.empty(len(ats), np.int64)
    label[by_nth] = np.cumsum(breaks) - 1
    sizes = np.bincount(label)[label]
    if (sizes == len(present)).mean() >= _IN_ORDER:
        return nth
    is_close = tolerance_ns <= MOST_APART_NS
    return label if is_close and (sizes > 1).mean() >= _IN_ORDER else None
