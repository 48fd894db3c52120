"""How fast do collectives move their data once the last rank has come? Bandwidth with waiting, and without."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NotRequired, TypeAlias, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.clocks import END_TOGETHER
from weftrace.analysis.collective_peaks import RATES, peaks_of
from weftrace.analysis.meetings import Meetings, meetings_of
from weftrace.facts import Hardware
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Amount, Count, Ns, Positive
from weftrace.files.values import OPTIONAL, As
from weftrace.notebook import InNotebook
from weftrace.trace.kernels import bus_factor
from weftrace.units import counted, size

MOST_ROWS = 200
_UNSURE = 0.1  # of the transfer: clocks that disagree by more do not tell how long it took
_USABLE = 0.5  # of the collectives that end together must show a transfer, else clocks are wrong
_MOST_NOTES = 3  # of rates above the peak
_MOST_NAMED = 8  # ranks of a group; of more, the first three and the last
#: Kinds of which nccl-tests says what busbw is: those with a factor of the group's size, and those with 1.
_BY_SIZE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_ALWAYS_1 = ("broadcast", "reduce", "send_recv")
_KEY = ("collective", "group", "group_size", "payload_bytes")

#: What stands for the transfer. all ranks: own end - last start, all members of the group are here. ranks present: the
#: same, but some members' files are absent. fastest rank: of each collective the shortest duration of a rank. shortest
#: event: the shortest of all ranks. whole: nothing does.
TransferBasis: TypeAlias = Literal["all ranks", "ranks present", "fastest rank", "shortest event", "whole"]
#: Those that may hold waiting: the transfer took at most so long, and its bandwidth was at least so high.
AT_LEAST: frozenset[str] = frozenset({"ranks present", "fastest rank", "shortest event"})


class BandwidthRow(TypedDict):
    """Collectives of one kind, group and size. algbw is payload_bytes / duration, busbw that times nccl-tests' factor
    for the kind; GB are 10^9 bytes.
    """

    collective: str
    group: Annotated[str, Meta(description="Its name and ranks; of more than 8 ranks the first three and the last.")]
    group_size: Annotated[Count | None, Meta(description="Null where it is not recorded."), Shown("ranks")]
    payload_bytes: Annotated[
        Positive,
        Meta(description="The larger of the bytes that a rank sends and receives; if ranks differ, the most."),
        Shown("size"),
    ]
    num_events: Annotated[Count, Meta(description="On all ranks that are here.")]
    num_matched: Annotated[Count, Meta(description="Collectives that were found on two ranks or more.")]
    total_ns: Annotated[Ns, Meta(description="Sum of the durations of its events.")]
    whole_ns: Annotated[
        Ns, Meta(description="Median duration of an event, waiting inside."), Shown("whole", term="whole_busbw")
    ]
    whole_busbw_GBps: Annotated[
        Amount | None, Meta(description="At whole_ns."), Shown("whole GB/s", term="whole_busbw")
    ]
    basis: Annotated[
        TransferBasis,
        Meta(
            description="How the transfer is measured. With `all ranks`: own end - last start of the group on the "
            "common clock, median over the ranks. With `ranks present`: the same, but files of some ranks of the group "
            "are absent, and waiting for those is inside. With `fastest rank`: the clocks disagree by more than a "
            "tenth of it, so it is the shortest duration of a rank in each collective. With `shortest event`: the "
            "collectives could not be matched, so it is the shortest duration on all ranks. With `whole`: only the "
            "whole is known. Except for the first, the time is an upper bound, and the bandwidth a lower one."
        ),
        Shown("transfer by", term="transfer_basis"),
    ]
    transfer_ns: Annotated[
        Ns | None,
        Meta(description="Median over the matched collectives; null if the transfer is unknown."),
        Shown("transfer", term="transfer_busbw"),
    ]
    algbw_GBps: Annotated[Amount | None, Meta(description="At transfer_ns."), Shown("algbw GB/s", term="algbw")]
    busbw_GBps: Annotated[
        Amount | None, Meta(description="At transfer_ns."), Shown("transfer GB/s", term="transfer_busbw")
    ]
    least_busbw_GBps: Annotated[
        Amount | None, Meta(description="Of the collective with the longest transfer."), Shown("least")
    ]
    best_busbw_GBps: Annotated[
        Amount | None, Meta(description="Of the collective with the shortest transfer."), Shown("best")
    ]
    sized_by: NotRequired[
        Annotated[
            str | None,
            Meta(
                description="`shapes`: NCCL's metadata is missing, and the size is by the shapes of the operator that "
                "called it. Null: as recorded."
            ),
        ]
    ]
    bound: NotRequired[
        Annotated[
            str | None,
            Meta(
                description="What bounds busbw: `link` (NVLink, xGMI) within a node, `network` between nodes, by the "
                "ranks of the group, which are assumed to be numbered node by node. Null where the chip, or where the "
                "group's ranks stand, is not known."
            ),
        ]
    ]
    peak_GBps: NotRequired[
        Annotated[Amount | None, Meta(description="Its peak, of one GPU in one direction."), Shown("peak GB/s")]
    ]
    peak_share: NotRequired[
        Annotated[
            Amount | None,
            Meta(
                description="busbw of the transfer over the peak; where only the whole is known, that of the whole, "
                "which waiting makes too small."
            ),
            Shown("of peak"),
        ]
    ]
    note: NotRequired[Annotated[str | None, Meta(description="Why a rate can be above the peak.")]]
    uncertainty_ns: Annotated[
        Ns | None,
        Meta(
            description="How far off the clocks may make a transfer: the end of the last rank against the "
            "median end of the group, median over its collectives. For kinds that ranks may leave early, it is that "
            "of the job's other kinds if that is less. Null if nothing was matched."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Bandwidth(InNotebook):
    """Bandwidth of collectives by kind, group and size: of the transfer, and of the whole duration with waiting inside.

    By hand: of a collective that was matched over ranks, transfer = own end - last start of any rank on the common
    clock, median over its ranks. algbw = bytes / transfer, where bytes are the larger of what a rank gives and gets
    (for all-gather and reduce-scatter the total, as in nccl-tests). busbw = algbw x 2(n-1)/n for all-reduce, (n-1)/n
    for all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for broadcast, reduce, and sends and receives.
    Barriers, and groups of one rank, move nothing and are not counted.
    """

    rows: Annotated[
        pl.DataFrame, As(list[BandwidthRow]), Meta(description="Longest in sum first; at most 200 of them.")
    ]
    num_ranks: Annotated[Count, Meta(description="That communicate, and are in the sums of the job.")]
    num_rows_left: Annotated[Count, Meta(description="Rows beyond those that are listed.")]
    left_ns: Annotated[Ns, Meta(description="Sum of the durations of their events.")]
    num_unsized: Annotated[Count, Meta(description="Events without a recorded size: in no row.")]
    num_without_factor: Annotated[
        Count,
        Meta(description="Events in rows without busbw: their group's size, or a factor for their kind, is unknown."),
    ]
    num_left_early: Annotated[
        Count, Meta(description="Collectives that a rank had left before the last came: they show no transfer.")
    ]

    notes: Annotated[tuple[str, ...], OPTIONAL, Meta(description="Notes on the rates, in sentences.")] = ()

    def _describe(self) -> Iterator[tuple[str, str]]:
        for row in self.rows.head(8).iter_rows(named=True):
            told = "transfer unknown" if row["busbw_GBps"] is None else f"busbw {row['busbw_GBps']:.1f} GB/s"
            yield f"{row['collective']} of {size(row['payload_bytes'])}", told


def _notes(found: Bandwidth) -> Iterator[str]:
    rows = found.rows
    if found.num_ranks == 1 and rows.height:
        yield (
            "With one rank alone, rates are of whole durations, with the waiting for other ranks inside: the transfer "
            "was at least so fast. The files of the others show how fast."
        )
    if by_shapes := rows.get_column("sized_by").count():
        yield (
            f"{counted(by_shapes, 'row')} without sizes in NCCL's metadata: bytes are those of the shapes that the "
            "operator was called with."
        )
    above = rows.drop_nulls("note")
    for row in above.head(_MOST_NOTES).iter_rows(named=True):
        rate = max(row[name] for name in RATES if row[name] is not None)
        yield f"{row['collective']} of {size(row['payload_bytes'])}: {rate:,.1f} GB/s is {row['note']}."
    if above.height > _MOST_NOTES:
        yield f"{counted(above.height - _MOST_NOTES, 'row')} more above the peak."


def bandwidth(ranks: Sequence[pl.DataFrame]) -> Bandwidth | None:
    """Bandwidth of the collectives of ranks; None where none communicates. ranks: of each what `arrivals` gives:

    frames = [outcome.value for outcome in wt.open("traces/").map(wt.analysis.arrivals)]
    wt.analysis.bandwidth(frames).rows
    """
    return bandwidth_of(ranks, meetings_of(ranks))


def bandwidth_of(ranks: Sequence[pl.DataFrame], meetings: Meetings, chip: Hardware | None = None) -> Bandwidth | None:
    """Bandwidth of collectives that are matched already. ranks: those that `meetings` are of. chip: of all of them,
    whose peaks stand beside the rates."""
    events = _events(ranks, meetings.members)
    num_ranks = events.get_column("at").n_unique()
    unsized = (pl.col("payload_bytes").fill_null(0) == 0).alias("unsized")
    sized = events.filter(~unsized)
    if events.is_empty():
        return None
    whole = sized.group_by(_KEY).agg(
        pl.len().cast(pl.Int64).alias("num_events"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").median().round().cast(pl.Int64).alias("whole_ns"),
        pl.col("dur_ns").min().alias("shortest_ns"),
        pl.col("at").n_unique().alias("num_ranks"),
        pl.col("sized_by").drop_nulls().first(),
    )
    met = _met(sized)
    rows = _chosen(whole.join(_by_key(met), on=_KEY, how="left", nulls_equal=True))
    rows = _with_rates(rows).sort("total_ns", *_KEY, descending=[True, *[False] * len(_KEY)])
    rows = peaks_of(rows, chip, _world_size(ranks))
    groups = rows.get_column("group").unique().to_list()
    short = pl.col("group").replace_strict(groups, [_in_short(group) for group in groups], return_dtype=pl.String())
    left = rows[MOST_ROWS:]
    found = Bandwidth(
        rows=rows.head(MOST_ROWS).with_columns(short).select(
            pl.col(name).cast(dtype) for name, dtype in frame_schema(BandwidthRow).items()
        ),
        num_ranks=num_ranks,
        num_rows_left=left.height,
        left_ns=int(left.get_column("total_ns").sum()),
        num_unsized=events.height - sized.height,
        num_without_factor=int(rows.filter(pl.col("factor").is_null()).get_column("num_events").sum()),
        num_left_early=int(met.filter(~pl.col("usable") & ~_end_together()).height),
    )  # fmt: skip
    return replace(found, notes=tuple(_notes(found)))


def _events(ranks: Sequence[pl.DataFrame], members: pl.DataFrame) -> pl.DataFrame:
    """All that moves data, a row an event: `_KEY`, at, meeting (null where it found no partner), start and end on the
    common clock, dur_ns. The size of a collective is that of its rank with the most."""
    wanted = (*_KEY, "start_ns", "end_ns", "is_barrier", "sized_by", "world_size")
    names = [name for name in ARRIVAL_SCHEMA if name in wanted]
    each = [frame.select(pl.lit(at, pl.Int32).alias("at"), *names) for at, frame in enumerate(ranks)]
    nothing = pl.DataFrame(schema={"at": pl.Int32(), **{name: ARRIVAL_SCHEMA[name] for name in names}})
    own = [(pl.col(name) - pl.col("moved_ns")).alias(name) for name in ("start_ns", "end_ns")]
    met = members.select("at", "meeting", "ahead_ns", "moved_ns", *names).with_columns(own)
    texts = pl.col("group", "collective").cast(pl.String)
    same = ("at", "group", "collective", "start_ns", "end_ns")
    alone = pl.concat([nothing, *each]).with_columns(texts).join(met.with_columns(texts), on=same, how="anti")
    every = pl.concat([met.with_columns(texts), alone], how="diagonal")
    by = pl.col("moved_ns").fill_null(0) - pl.col("ahead_ns").fill_null(0)
    is_met = pl.col("meeting").is_not_null()
    in_meeting = (
        pl.when(is_met).then(pl.col(name).max().over("meeting")).otherwise(name).alias(name)
        for name in ("group_size", "payload_bytes")
    )
    return every.with_columns(
        *in_meeting,
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
        *((pl.col(name) + by).alias(name) for name in ("start_ns", "end_ns")),
    ).filter(
        ~pl.col("is_barrier").fill_null(False) & (pl.col("collective") != "barrier"),
        pl.col("group_size").fill_null(0) != 1,
        pl.col("dur_ns") > 0,
    )


def _end_together() -> pl.Expr:
    return pl.col("collective").is_in(END_TOGETHER)


def _met(sized: pl.DataFrame) -> pl.DataFrame:
    """A row a collective on two ranks or more: `_KEY`, transfer_ns, fastest_ns, off_ns, whether it is usable, and
    whether ranks of the group are lacking.

    off_ns: the transfer by the clock of the rank that came last alone, against that by all clocks.
    """
    after = pl.col("end_ns") - pl.col("start_ns").max()  # in integers: a float does not hold nanoseconds of the clock
    expected = pl.when(pl.col("collective") == "send_recv").then(2).otherwise(pl.coalesce("group_size", "world_size"))
    met = sized.drop_nulls("meeting").group_by("meeting").agg(
        pl.col(_KEY).first(), pl.col("world_size").max(),
        after.median().round().cast(pl.Int64).alias("transfer_ns"),
        pl.col("dur_ns").min().alias("fastest_ns"),
        (after.get(pl.col("start_ns").arg_max()) - after.median()).abs().alias("off_ns"),
        (after.min() > 0).alias("usable"),
        pl.len().alias("num_here"),
    )  # fmt: skip
    met = met.filter(pl.col("num_here") > 1)
    return met.with_columns((expected > pl.col("num_here")).fill_null(False).alias("lacking"))


def _by_key(met: pl.DataFrame) -> pl.DataFrame:
    """Of each kind, group and size its transfers over the matched collectives, and what the clocks disagree there."""
    job_ns = met.filter(_end_together()).get_column("off_ns").median()
    usable = pl.col("usable")
    found = met.group_by(_KEY).agg(
        pl.len().cast(pl.Int64).alias("num_matched"),
        usable.mean().alias("usable"),
        pl.col("lacking").any(),
        pl.coalesce(pl.col("off_ns").filter(usable).median(), pl.col("off_ns").median()).alias("uncertainty_ns"),
        *(
            getattr(pl.col(f"{name}_ns").filter(usable | (name == "fastest")), how)().alias(f"{name}_{how}")
            for name in ("transfer", "fastest")
            for how in ("median", "min", "max")
        ),
    )
    least_ns = pl.min_horizontal("uncertainty_ns", pl.lit(job_ns, pl.Float64))
    return found.with_columns(
        pl.when(_end_together()).then("uncertainty_ns").otherwise(least_ns).alias("uncertainty_ns")
    )


def _chosen(rows: pl.DataFrame) -> pl.DataFrame:
    """What stands for the transfer of each row (`basis`), and its median, shortest and longest."""
    agree = ~_end_together() | (pl.col("usable") >= _USABLE)
    sure = agree & (pl.col("uncertainty_ns") <= _UNSURE * pl.col("transfer_median"))
    basis = (
        pl.when(sure & ~pl.col("lacking")).then(pl.lit("all ranks"))
        .when(sure).then(pl.lit("ranks present"))
        .when(_end_together() & (pl.col("num_matched") > 0)).then(pl.lit("fastest rank"))
        .when(_end_together() & (pl.col("num_ranks") > 1)).then(pl.lit("shortest event"))
        .otherwise(pl.lit("whole"))
    )  # fmt: skip
    rows = rows.with_columns(basis.alias("basis"), pl.col("num_matched").fill_null(0))
    told = (
        pl.when(pl.col("basis").is_in(["all ranks", "ranks present"])).then(f"transfer_{how}")
        .when(pl.col("basis") == "fastest rank").then(f"fastest_{how}")
        .when(pl.col("basis") == "shortest event").then("shortest_ns")
        .round().cast(pl.Int64).alias(name)
        for how, name in (("median", "transfer_ns"), ("min", "least_ns"), ("max", "most_ns"))
    )  # fmt: skip
    return rows.with_columns(pl.col("uncertainty_ns").round().cast(pl.Int64), *told)


def _with_rates(rows: pl.DataFrame) -> pl.DataFrame:
    """Bytes a nanosecond are GB a second."""
    factors = [_factor(kind, number) for kind, number in rows.select("collective", "group_size").iter_rows()]
    rows = rows.with_columns(pl.Series("factor", factors, dtype=pl.Float64))
    rates = {"whole_busbw": "whole", "busbw": "transfer", "least_busbw": "most", "best_busbw": "least"}
    return rows.with_columns(
        (pl.col("payload_bytes") / pl.col("transfer_ns")).alias("algbw_GBps"),
        *(
            (pl.col("factor") * pl.col("payload_bytes") / pl.col(f"{of}_ns")).alias(f"{name}_GBps")
            for name, of in rates.items()
        ),
    )


def _world_size(ranks: Sequence[pl.DataFrame]) -> int | None:
    found: int | None = pl.concat([frame.select("world_size") for frame in ranks]).to_series().max()  # type: ignore[assignment]
    return found


def _factor(collective: str, group_size: int | None) -> float | None:
    if collective in _ALWAYS_1:
        return 1.0
    return bus_factor(collective, group_size) if collective in _BY_SIZE and group_size else None


def _in_short(group: str) -> str:
    """A group's name and ranks, of many of which only some are named."""
    if not (found := re.fullmatch(r"(.*?)\s*\[([\d, ]*)\]", group)):
        return group
    ranks = found[2].split(", ")
    if len(ranks) <= _MOST_NAMED:
        return group
    return f"{found[1]} [{', '.join(ranks[:3])} … {ranks[-1]}]".strip()
