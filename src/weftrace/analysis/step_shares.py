"""Whose is the time of each step? Every nanosecond of it, by part, kernel, operator and phase, in sums."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.analysis.intervals import Intervals
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.time_account import Source, account_of
from weftrace.analysis.time_owners import own_times, windows_of
from weftrace.trace.kernels import classify, load_rules
from weftrace.trace.work import Work

#: Columns of `StepShares.shares`: a row a step and a kernel of one kind, operator and phase. Times in ns, sums.
SHARE_SCHEMA: dict[str, pl.DataType] = {
    "step": pl.Int64(),  # null outside of all steps, and where there are none
    "part": pl.String(),  # one of `PARTS`, or `WAITING`
    "cause": pl.String(),  # of idle time, as in `idle_gaps`; of communication: its role
    "kind": pl.String(),
    "family": pl.String(),  # of communication, which collective, where that is known
    "kernel": pl.String(),  # of idle time, what ends the gap; so are kind, family, operator and phase
    "operator": pl.String(),  # the innermost that launched it; null where none is known
    "phase": pl.String(),
    "num": pl.Int64(),  # launches; of idle time, gaps
    "raw_ns": pl.Int64(),  # durations
    "union_ns": pl.Int64(),  # by which they lengthen the time of their class (`own_times`)
    "own_ns": pl.Int64(),  # by which they lengthen the part
}
#: A part that jobs of several ranks have beside `PARTS`: communication or idle time in which a rank waited for the last
#: to come. Its cause is the rank with which the waiting began: "rank 2".
WAITING = "waiting for late ranks"

LABELS = ("part", "cause", "kind", "family", "kernel", "operator", "phase")
_SIMULATED = "^weftrace::sim::[a-z]+::"  # the head of a simulated kernel's name, see `plan.as_traces`
SUMS = ("num", "raw_ns", "union_ns", "own_ns")

#: Columns of `StepShares.pieces`, in order of start, none over another.
PIECE_SCHEMA: dict[str, pl.DataType] = {
    "start_ns": pl.Int64(),  # absolute
    "end_ns": pl.Int64(),
    "share": pl.UInt32(),  # row of `shares` that holds it
    "is_idle": pl.Boolean(),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepShares:
    """The time of one device, shared out.

    shares: a frame of `SHARE_SCHEMA`; own_ns adds up to each step's window exactly. pieces: when communication ran, and
    when idle time was that communication ended, a frame of `PIECE_SCHEMA`; exposed: what of it nothing was computed
    beside. Waiting for late ranks lies there (`waiting_shares`).
    windows: step, start_ns, end_ns (absolute) of each step; empty without steps. seam_ns: how windows end: the time
    from the last device end to the next window's start, or by which the step's work reaches into that, median over
    steps; None of fewer than two windows. Nothing ends the last window, which may differ from the others by as much.
    """

    shares: pl.DataFrame
    pieces: pl.DataFrame
    exposed: Intervals
    windows: pl.DataFrame
    seam_ns: int | None

    def __reduce__(self) -> tuple[Callable[..., StepShares], tuple[object, ...]]:
        """To another process compressed: a kernel's name is long and stands in many rows."""
        packed = io.BytesIO()
        self.shares.write_ipc(packed, compression="zstd")
        return _unpacked, (packed.getvalue(), self.pieces, self.exposed, self.windows, self.seam_ns)


def _unpacked(
    packed: bytes, pieces: pl.DataFrame, exposed: Intervals, windows: pl.DataFrame, seam_ns: int | None
) -> StepShares:
    shares = pl.read_ipc(packed)
    return StepShares(shares=shares, pieces=pieces, exposed=exposed, windows=windows, seam_ns=seam_ns)


def step_shares(source: Source, *, launched_by: pl.Series | None = None) -> StepShares:
    """Share out the time of a device. launched_by: see `event_labels`. Raises as `account_of` does."""
    account = account_of(source)
    windows = windows_of(account.work)
    rows = _labelled(account.work, own_times(account), launched_by)
    rows = rows.with_columns(_may_wait(account.work, rows)).with_row_index("piece")
    summed = rows.group_by("step", *LABELS).agg(pl.col(SUMS).sum(), pl.col("piece").filter("may_wait").alias("pieces"))
    casts = [pl.col(name).cast(dtype) for name, dtype in SHARE_SCHEMA.items()]
    shares = summed.select(*casts, "pieces").sort("step", *LABELS, nulls_last=True)
    held = shares.select("pieces").with_row_index("share").filter(pl.col("pieces").list.len() > 0).explode("pieces")
    pieces = rows.filter("may_wait").select(
        pl.col("from_ns").alias("start_ns"),
        (pl.col("from_ns") + pl.col("union_ns")).alias("end_ns"),
        held.sort("pieces").get_column("share"),
        (pl.col("part") == "idle").alias("is_idle"),
    )
    return StepShares(
        shares=shares.drop("pieces"),
        pieces=pieces.select(*PIECE_SCHEMA).sort("start_ns"),
        exposed=account.exposed,
        windows=windows,
        seam_ns=_seam(account.work.events, windows),
    )


def event_labels(work: Work, launched_by: pl.Series | None = None) -> pl.DataFrame:
    """Whose each event of a device is: row (in the trace's events), kind, family, kernel, role, operator, phase.

    launched_by: `operator_rows` of the events, where they are at hand.
    """
    every = work.around.events
    labels = every.select("row", "kind", _families(every), pl.col("name").alias("kernel"), "role", "phase")
    return labels.with_columns(_operators(work, every, launched_by), _phase_names(work, every))


def _labelled(work: Work, owned: pl.DataFrame, launched_by: pl.Series | None) -> pl.DataFrame:
    cause = pl.when(pl.col("part") == "idle").then("cause").otherwise(pl.col("role").cast(pl.String))
    labels = event_labels(work, launched_by).unique("row", maintain_order=True)  # of a plain range, several pieces
    labelled = owned.join(labels, on="row", how="left", maintain_order="left")
    return labelled.with_columns(cause.alias("cause"))


def _families(events: pl.DataFrame) -> pl.Series:
    """Of communication, which collective. Of a simulated kernel, the family of the kernel that its op is named after,
    else that name: elsewhere all of them are of the family "simulated"."""
    is_communication, is_simulated = pl.col("kind") == "communication", pl.col("family") == "simulated"
    family = pl.when(is_communication).then(pl.coalesce("collective", "family")).otherwise("family").cast(pl.String)
    families = events.select(family.alias("family")).to_series()
    simulated = events.select(is_simulated & ~is_communication).to_series()
    if not simulated.any():
        return families
    names = events.get_column("name").cast(pl.String).str.replace(_SIMULATED, "")
    classes = classify(names, load_rules())
    known = classes.get_column("family").zip_with(classes.get_column("rule").is_not_null(), names)
    return families.zip_with(~simulated, known).alias("family")


def _operators(work: Work, events: pl.DataFrame, launched_by: pl.Series | None) -> pl.Series:
    names = work.trace.events.get_column("name")
    if work.basis != "device":
        return pl.Series("operator", [None] * events.height, dtype=names.dtype)
    rows = operator_rows(work.trace.events, events) if launched_by is None else launched_by
    return names.gather(rows).alias("operator")


def _phase_names(work: Work, events: pl.DataFrame) -> pl.Series:
    return work.phases.get_column("name").gather(events.get_column("phase")).alias("phase")


def _seam(events: pl.DataFrame, windows: pl.DataFrame) -> int | None:
    """See `StepShares.seam_ns`."""
    starts = windows.get_column("start_ns").to_numpy()[1:]
    if not len(starts):
        return None
    reach = np.maximum.accumulate(events.get_column("end_ns").to_numpy())
    before = np.searchsorted(events.get_column("start_ns").to_numpy(), starts)
    return int(np.median(np.abs(starts - reach[np.maximum(before - 1, 0)])))


def _may_wait(work: Work, rows: pl.DataFrame) -> pl.Series:
    """Communication, and idle time up to the start of one: where only transfers are recorded, ranks wait there."""
    starts = work.events.filter(pl.col("kind") == "communication").get_column("start_ns").to_numpy()
    part, end_ns = rows.get_column("part"), rows.get_column("from_ns") + rows.get_column("union_ns")
    is_before = pl.Series(np.isin(end_ns.to_numpy(), starts)) & (part == "idle")
    is_piece = (rows.get_column("union_ns") > 0) & ((part == "exposed communication") | is_before)
    return is_piece.alias("may_wait")
