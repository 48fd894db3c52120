"""What decided how long a measured run took: the chain of work and waits from its last end on a device, back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.errors import AdviceError
from weftrace.files.values import UNSAVED
from weftrace.notebook import InNotebook
from weftrace.plan.inference.replaying import ready_ns
from weftrace.plan.inference.threads.host import WORK
from weftrace.plan.inference.values import Inferred, Source
from weftrace.plan.times import Timetable, critical_path, slack_ns
from weftrace.units import duration, of_whole, percent

#: What time on the path was spent with. launch: a call that launches, and the latency after it. dependency: what passes
#: between the end of an op and the start of one that waited for it. SM wait: the part of an op in which it held SMs
#: that the next on the path lacked to start. idle: the gap between two ops of a stream of the device. unrecorded: a
#: hole in which work ran that the file does not hold.
CLASSES = (
    "compute", "communication", "fused", "memory", "launch", "host", "dependency", "SM wait", "idle", "unrecorded",
)  # fmt: skip

#: How an op came to run: where the wait comes from by which it was reached, or the order of its stream.
CAUSES = {
    "launch": "launch", "graph": "launch of a graph", "recorded": "recorded wait", "voted": "voted wait",
    "sm": "free SMs", "blocking": "blocking call", "quiet": "host waited", "autograd": "other thread",
    "thread": "other thread", "origin": "start of the recording", "unrecorded": "work that was not recorded",
}  # fmt: skip

#: Columns of `CriticalPath.parts`, in order of time: they lie end to end over the span.
PART_SCHEMA: dict[str, pl.DataType] = {
    "op": pl.UInt32(),  # row of the plan
    "from_ns": pl.Int64(),  # from the plan's 0
    "until_ns": pl.Int64(),
    "class_": pl.Enum(CLASSES),
    "cause": pl.Categorical(),  # how it came to run: of `CAUSES`, or "stream order", "thread order", "meet", "start"
    "name": pl.Categorical(),  # of the op; of time between ops, its class
    "family": pl.Categorical(),
    "phase": pl.Categorical(),
    "rank": pl.Int32(),
    "step": pl.Int32(),
}
#: What has no phase: host threads, and work on a device that none was launched in.
HOST, NO_PHASE = "host threads", "outside phases"
#: Classes of work that a device does.
ON_DEVICE = ("compute", "communication", "fused", "memory")
_NAMES = {
    "compute": "Computation decides", "communication": "Communication decides", "fused": "Fused kernels decide",
    "memory": "Memory copies decide", "launch": "Launching decides", "host": "The host decides",
    "dependency": "Latency between streams decides", "SM wait": "Waiting for free SMs decides",
    "idle": "Gaps between kernels decide", "unrecorded": "Work that was not recorded decides",
}  # fmt: skip
_HOW = {
    "stream order": "in the order of its stream", "thread order": "in the order of its thread",
    "start": "from the start", "launch": "as it was launched", "launch of a graph": "as its graph was launched",
    "recorded wait": "held by recorded waits", "voted wait": "held by waits between streams (voted)",
    "free SMs": "held until SMs were free", "blocking call": "held by blocking calls",
    "host waited": "held until the device was done", "other thread": "held by another thread",
    "meet": "held until the last rank came", "start of the recording": "from the start of the recording",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakestEdge(InNotebook):
    """The wait on the path of which we are least sure. op waited for on: rows of the plan; -1 if read from a file."""

    op: Annotated[int, UNSAVED] = -1
    on: Annotated[int, UNSAVED] = -1
    name: Annotated[str, Meta(description="Of the op that waited.")]
    on_name: Annotated[str, Meta(description="Of the op that it waited for.")]
    source: Source
    votes_for: int | None
    votes_against: int | None
    confidence: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CriticalPath(InNotebook):
    """The chain that decides when the last op on a device ends, over the replayed span of the devices.

    By hand: from the op on a device that ends last go back to whatever let it start, and on from there. The span begins
    with the first start on a device; what of the chain lies before, `before_ns`, is left out of all sums.

    times, measured, edges: the plan's timetable, and the frames of the `Inferred` that it is of. path: frame of
    `weftrace.plan.times.PATH_SCHEMA` and the ops' columns, with what, family, role, layer, micro_batch, step, class_,
    reached_by (as `cause` of the parts), source, votes_for, votes_against and confidence of the wait by which an op was
    reached. parts: frame of `PART_SCHEMA`, which lie end to end from the span's begin to its end. measured_ns: the
    measured span; None of a changed plan's path, and of a step's.
    """

    times: Timetable
    measured: pl.DataFrame
    edges: pl.DataFrame
    path: pl.DataFrame
    parts: pl.DataFrame
    span_ns: int
    before_ns: int
    weakest: WeakestEdge | None
    measured_ns: int | None = None

    @property
    def whole_ns(self) -> int:
        """What shares are of: the measured span, or of a path that was not measured its own."""
        return self.span_ns if self.measured_ns is None else self.measured_ns

    @cached_property
    def by_class(self) -> pl.DataFrame:
        """name, time_ns, share of `whole_ns`: largest first; times add up to `span_ns`. So do those of all `by_`."""
        return self._by("class_")

    @cached_property
    def by_phase(self) -> pl.DataFrame:
        """By phase of the op; time between ops counts to the op after it."""
        return self._by("phase")

    @cached_property
    def by_family(self) -> pl.DataFrame:
        """By kernel family; of a host thread by call, of time between ops by class."""
        return self._by("family")

    @cached_property
    def by_kernel(self) -> pl.DataFrame:
        """By name of the op; time between ops by class."""
        return self._by("name")

    @cached_property
    def by_cause(self) -> pl.DataFrame:
        """By how the op came to run."""
        return self._by("cause")

    @cached_property
    def by_rank(self) -> pl.DataFrame:
        """By rank, its number as name."""
        return self._by("rank")

    @cached_property
    def slack_ns(self) -> NDArray[np.int64]:
        """By how much each op could start later, all else as it is, without the last op ending later; int64, [ops]."""
        may_end = np.full(len(self.times.plan), self.times.makespan_ns)
        on_device = self.measured.get_column("event").is_not_null().to_numpy()
        may_end[on_device] = self.times.end_ns[on_device].max()
        return slack_ns(self.times, may_end_ns=may_end)

    @property
    def sentence(self) -> str:
        """What decides the span, with numbers."""
        return sentence_of(self)

    def _by(self, column: str) -> pl.DataFrame:
        time = (pl.col("until_ns") - pl.col("from_ns")).sum()
        return (
            self.parts.group_by(pl.col(column).alias("name"), maintain_order=True)
            .agg(time_ns=time)
            .with_columns(pl.col("name").cast(pl.String), share=pl.col("time_ns") / max(self.whole_ns, 1))
            .sort("time_ns", descending=True, maintain_order=True)
        )

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "path", self.sentence
        yield from ((str(name), f"{duration(ns)}, {percent(share)}") for name, ns, share in self.by_class.iter_rows())


def own_class() -> pl.Expr:
    """The class of an op's own time, over the column `what` of `Inferred.measured`."""
    return pl.col("what").cast(pl.String).replace({"blocking": "host"}).cast(pl.Enum(CLASSES))


def critical_path_of(inferred: Inferred) -> CriticalPath:
    """What decided the replayed span of a measured run. Raises `AdviceError` where nothing ran on a device."""
    path = path_of(inferred.times, inferred.measured, inferred.edges)
    return replace(path, measured_ns=inferred.replay.span_ns)


def path_of(times: Timetable, measured: pl.DataFrame, edges: pl.DataFrame) -> CriticalPath:
    """The same of a changed plan; measured and edges as in `Inferred`, in the order of the plan's ops and waits."""
    on_device = np.flatnonzero(measured.get_column("event").is_not_null().to_numpy())
    if not len(on_device):
        raise AdviceError("this plan has no work on a device, so there is no span to explain.")
    last = int(on_device[np.argmax(times.end_ns[on_device])])
    begin = int(times.start_ns[on_device].min())
    path = _told_path(critical_path(times, last=last), times, measured, edges)
    return CriticalPath(
        times=times,
        measured=measured,
        edges=edges,
        path=path,
        parts=_parts(path, times, measured, edges, begin),
        span_ns=int(times.end_ns[last]) - begin,
        before_ns=max(0, begin - int(path.item(0, "from_ns") - path.item(0, "lag_ns"))),
        weakest=weakest_of(path),
    )


def sentence_of(path: CriticalPath) -> str:
    """The largest part of the span, what most of it is and how it came to run, and how close other work is to it."""
    if not path.span_ns:
        return "Nothing on the device took time."
    name, time_ns, share = path.by_class.row(0)
    of_class = path.parts.filter(pl.col("class_") == name)
    said = f"{_NAMES[name]} {percent(share, 0)} of the span: {of_whole(time_ns, path.whole_ns)} on the critical path"
    if name in ("host", "launch"):
        return f"{said}{_in_operator(of_class, time_ns)}{_beside(path, name)}{_on_rank(path)}."
    phase, phase_ns = _largest(of_class, "phase")
    cause, cause_ns = _largest(of_class, "cause")
    most = ""
    if phase not in (HOST, NO_PHASE):
        most = f", most of it {phase}" if 2 * phase_ns > time_ns else f", {duration(phase_ns)} of it {phase}"
    why = _HOW.get(cause, cause)
    how = f", {why}" if 2 * cause_ns > time_ns else f", {percent(cause_ns / time_ns, 0)} of it {why}"
    return f"{said}{most}{how}{_beside(path, name)}{_on_rank(path)}."


def _in_operator(of_host: pl.DataFrame, time_ns: int) -> str:
    """Which operator most of the host's time is in, or that it is in none; "" where calls take most."""
    done, ns = _largest(of_host, "name")
    if done == WORK and 2 * ns > time_ns:
        return ", most of it outside operators, at work or waiting"
    operator = done.removeprefix(f"{WORK}: ")
    if operator == done:
        return ""
    return f", most of it in {operator}" if 2 * ns > time_ns else f", {duration(ns)} of it in {operator}"


def _beside(path: CriticalPath, name: str) -> str:
    """How far other work on the device is from deciding: the slack that half of its time has, at least."""
    others = {"compute": "communication", "communication": "compute"}.get(name)
    what = path.measured.get_column("what")
    is_other = what.is_in((others,) if others else ON_DEVICE).to_numpy()
    is_other[path.path.get_column("op").to_numpy()] = False
    if not is_other.any():
        return ""
    slack = path.slack_ns[is_other]
    weight = path.times.plan.ops.get_column("duration_ns").to_numpy()[is_other]
    order = np.argsort(-slack, kind="stable")
    half = int(slack[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)])
    other = {"compute": "computation", "communication": "communication", None: "device's work"}[others]
    if half < path.span_ns / 1_000:
        return f"; half of the {other} beside it has no slack to speak of"
    return f"; half of the {other} beside it has {duration(half)} of slack or more"


def _on_rank(path: CriticalPath) -> str:
    """Of several ranks the one on which most of the path lies."""
    if len(path.times.plan.ranks) == 1:
        return ""
    rank, _, share = path.by_rank.row(0)
    return f"; {percent(share, 0)} of the path is on rank {rank}"


def _largest(parts: pl.DataFrame, column: str) -> tuple[str, int]:
    time = (pl.col("until_ns") - pl.col("from_ns")).sum()
    sums = parts.group_by(pl.col(column).cast(pl.String), maintain_order=True).agg(ns=time)
    return sums.sort("ns", descending=True, maintain_order=True).row(0)


def _told_path(path: pl.DataFrame, times: Timetable, measured: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """The path with what is known of its ops and of the waits by which they were reached."""
    rows = path.get_column("op").to_numpy()
    own = times.plan.ops.select("layer", "micro_batch", "step")[rows]
    known = measured.select("what", "family", "role", on_host=pl.col("event").is_null())[rows]
    waited = edges.with_row_index("wait").with_columns(pl.col("source").cast(pl.String))
    summary = path.hstack(own).hstack(known).join(waited, on="wait", how="left", maintain_order="left")
    in_order = pl.when("on_host").then(pl.lit("thread order")).otherwise(pl.lit("stream order"))
    cause = (
        pl.when(reason="resource")
        .then(in_order)
        .when(reason="dependency")
        .then(pl.coalesce(pl.col("source").replace(CAUSES), in_order))
        .otherwise(pl.col("reason").cast(pl.String))
    )
    return summary.with_columns(own_class().alias("class_"), cause.alias("reached_by")).drop("on_host")


def _parts(
    path: pl.DataFrame, times: Timetable, measured: pl.DataFrame, edges: pl.DataFrame, begin: int
) -> pl.DataFrame:
    """The path as parts that lie end to end: of each op the time before it, its own, and that in which it held SMs.

    Where a negative lag reaches back before the cause's own part, that part is empty and the next one shorter.
    """
    start, lag, until = (path.get_column(name).to_numpy() for name in ("from_ns", "lag_ns", "until_ns"))
    held, taken = _held_from(path, times, edges, until), _taken_gap_ns(path, measured)
    start, lag = start - taken, lag - taken
    bounds = np.column_stack([start - lag, start, np.minimum(np.maximum(held, start), until)]).ravel()
    bounds = np.append(bounds, until[-1])
    bounds = np.maximum(np.minimum.accumulate(bounds[::-1])[::-1], begin)
    is_part = np.diff(bounds) > 0
    step, place = np.divmod(np.flatnonzero(is_part), 3)
    is_between, source = pl.col("place") == 0, pl.col("source")
    between = (
        pl.when(pl.col("reached_by") == "thread order").then(pl.lit("host"))
        .when((pl.col("reason") == "resource") | (source == "origin")).then(pl.lit("idle"))
        .when(source.is_in(("launch", "graph"))).then(pl.lit("launch"))
        .when(source == "unrecorded").then(pl.lit("unrecorded")).otherwise(pl.lit("dependency"))
    ).cast(pl.Enum(CLASSES))  # fmt: skip
    summary = path[step].with_columns(
        between.alias("between"),
        place=pl.Series(place),
        from_ns=pl.Series(bounds[:-1][is_part]),
        until_ns=pl.Series(bounds[1:][is_part]),
    )
    own = pl.when(place=2).then(pl.lit("SM wait", pl.Enum(CLASSES))).otherwise("class_")
    instead = pl.col("between").cast(pl.String)
    parts = summary.with_columns(
        pl.col("reached_by").alias("cause"),
        pl.coalesce("phase", pl.when(kind="host").then(pl.lit(HOST)).otherwise(pl.lit(NO_PHASE))).alias("phase"),
        class_=pl.when(is_between).then("between").otherwise(own),
        name=pl.when(is_between).then(instead).otherwise(pl.col("name").cast(pl.String)),
        family=pl.when(is_between).then(instead).otherwise(pl.coalesce("family", "name").cast(pl.String)),
    )
    return parts.select(pl.col(name).cast(dtype) for name, dtype in PART_SCHEMA.items())


def _taken_gap_ns(path: pl.DataFrame, measured: pl.DataFrame) -> NDArray[np.int64]:
    """Of each step of the path, what an op of a thread took itself of the gap before it: a plan has that gap before
    each op and so much less in the op, though as measured the op may have begun sooner after the one before."""
    begins, ends = (measured.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    op, cause = (path.get_column(name).fill_null(0).to_numpy() for name in ("op", "cause"))
    lag = path.get_column("lag_ns").to_numpy()
    on_thread = (path.get_column("reached_by") == "thread order").to_numpy()
    taken: NDArray[np.int64] = np.where(on_thread, np.clip(lag - (begins[op] - ends[cause]), 0, np.maximum(lag, 0)), 0)
    return taken


def _held_from(path: pl.DataFrame, times: Timetable, edges: pl.DataFrame, until: NDArray[Any]) -> NDArray[np.int64]:
    """Of each op on the path, from when on the next lacked nothing but its SMs; its end on the path elsewhere."""
    for_sms = (edges.get_column("source") == "sm").fill_null(False).to_numpy()
    held: NDArray[np.int64] = until.astype(np.int64)
    follows = (path.get_column("source") == "sm").fill_null(False).to_numpy()
    if follows.any():
        ready = ready_ns(times, times.start_ns, times.end_ns, ~for_sms)
        waiters = np.flatnonzero(follows)
        held[waiters - 1] = ready[path.get_column("op").to_numpy()[waiters]]
    return held


def weakest_of(path: pl.DataFrame) -> WeakestEdge | None:
    """Of a frame like `CriticalPath.path`; None where all its waits are sure."""
    unsure = path.filter(pl.col("confidence") < 1)
    if unsure.is_empty():
        return None
    edge = unsure.row(int(unsure.get_column("confidence").arg_min() or 0), named=True)
    on_name = path.filter(op=edge["cause"]).item(0, "name")
    return WeakestEdge(
        op=edge["op"], on=edge["cause"], name=edge["name"], on_name=on_name, source=edge["source"],
        votes_for=edge["votes_for"], votes_against=edge["votes_against"], confidence=edge["confidence"],
    )  # fmt: skip
