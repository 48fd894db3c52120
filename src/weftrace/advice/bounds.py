"""Between which spans does the answer to a what-if lie, where ranks of the job are not in the plan?

Of a collective with an absent rank only its end was seen: when the last rank had come, and after how much of transfer,
is not known. So a changed plan has two ends for it, and the truth lies between, whatever the others did:

- As soon as it can: when the members in the plan have come, the transfer taking no time, but not before the others can
  have come. Times are lengths of chains of ops. The ops of a chain run one after another in the run as it was, so what
  a change takes from a chain that ends at t is no more than the integral, up to t, of the largest share that it takes
  from any op that may have run then: of the plan's own ops as they ran, and of the others' ops at any time.
- As late as it can: when the members in the plan have come and the longest transfer that fits the measurement is done,
  or where it ended as measured, later by the same integral of what the change adds.

Changes of communication alone take from transfers alone; where all groups are of the whole job, these ran at the end
of the collectives that the plan has, and at no other time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.absent_ranks import Absent, absent_from
from weftrace.advice.changed_plans import Changed, changed, plan_of, without
from weftrace.advice.changes import Change, NoBarrierWait, Scale, SmSplit
from weftrace.advice.contention import Contention, contended, contention_of
from weftrace.advice.op_times import OpTimes, ratios_of
from weftrace.advice.selecting import selected
from weftrace.advice.swaps.placements import PlacementSwap
from weftrace.advice.swaps.sm_splits import present_split
from weftrace.analysis.intervals import covered_before, union
from weftrace.plan.inference.values import Inferred
from weftrace.plan.model import Plan
from weftrace.plan.ops import OP_DEFAULTS, OP_SCHEMA
from weftrace.plan.times import Timetable, timetable

_Ints = NDArray[np.int64]
#: What a replay may be off besides its error, of the replayed span: latencies are medians. With factors of contention,
#: which are medians too, twice that.
TOLERANCE = 0.005
#: Shares of ops are told apart in that many levels, each rounded up.
_MOST_LEVELS = 32
#: Streams on which absent ranks come, from this number on.
_ABSENT = 2_000_000_000


class Others(NamedTuple):
    """What a change does to ops of absent ranks besides communication that the plan has too: of each at least `least`
    and at most `most` of its time is left."""

    least: float
    most: float


#: They take what they took; or any time up to that, or none.
AS_THEY_WERE, ANY_FASTER = Others(1.0, 1.0), Others(0.0, 1.0)


class Spans(NamedTuple):
    """Of a changed plan, ns, as in `Tried`."""

    span_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Spans of a changed plan, ns: as soon, and as late, as the absent ranks may let it end."""

    low_ns: int
    high_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tried:
    """A changed plan and the span of its answer.

    times: when its ops run, stretched by what they cost each other. plan: what is communication with absent ranks
    changes by its longest possible transfer alone, the rest stays as long as it was. low_ns, high_ns: between which the
    span lies, whatever absent ranks do; both span_ns where no rank is absent.
    """

    plan: Changed
    times: Timetable
    span_ns: int
    low_ns: int
    high_ns: int


def tried(inferred: Inferred, changes: Sequence[Change]) -> Tried:
    """What changes lead to; of a plan of phases the bounds are by the kernels in them. Raises `AdviceError` as
    `changed` does."""
    plan, kernels = changed(inferred, changes), inferred.kernels
    return _tried(
        inferred,
        plan,
        plan if kernels is None else changed(kernels, changes),
        lambda of, absent: others_of(of, absent, changes),
    )


_SPANS: WeakKeyDictionary[Inferred, dict[str, Spans]] = WeakKeyDictionary()  # rules and gains ask for the same


def spans_of(inferred: Inferred, changes: Sequence[Change]) -> Spans:
    """The spans of the answer to changes, by `tried`, done once: changes that are called the same are the same."""
    known = _SPANS.setdefault(inferred, {})
    key = "; ".join(map(str, changes))
    if key not in known:
        found = tried(inferred, changes)
        known[key] = Spans(found.span_ns, found.low_ns, found.high_ns)
    return known[key]


def tried_without(inferred: Inferred, class_: str) -> Tried:
    """The same with no time for one class of a critical path anywhere."""
    plan, kernels = plan_of(without(inferred, class_)), inferred.kernels

    def others(of: Inferred, absent: Absent) -> Others:
        return AS_THEY_WERE if class_ == "communication" and _is_shared(of, absent, class_) else ANY_FASTER

    return _tried(inferred, plan, plan if kernels is None else plan_of(without(kernels, class_)), others)


def _tried(
    inferred: Inferred, plan: Changed, by_kernel: Changed, others: Callable[[Inferred, Absent], Others]
) -> Tried:
    of = inferred.kernels or inferred
    absent, contention = absent_from(of), contention_of(inferred)
    if len(absent.ops) and inferred.kernels is None:
        plan = _with_waiting(of, absent, plan)
    times = contended(inferred, contention, plan.plan)
    span = _span(times, plan.measured)
    took = span.last_ns - span.first_ns
    plan = replace(plan, plan=times.plan)
    if not len(absent.ops):
        return Tried(plan=plan, times=times, span_ns=took, low_ns=took, high_ns=took)
    bounds = bounds_of(of, absent, contention_of(of), by_kernel, others(of, absent))
    low, high = min(took, bounds.low_ns), max(took, bounds.high_ns)
    return Tried(plan=plan, times=times, span_ns=took, low_ns=low, high_ns=high)


def _with_waiting(inferred: Inferred, absent: Absent, after: Changed) -> Changed:
    """The changed plan where what exceeds the longest possible transfer with absent ranks stays as long as it was."""
    factor = _factor(inferred.plan, after.plan)[absent.ops]
    durations = after.plan.ops.get_column("duration_ns").to_numpy().copy()
    was = inferred.plan.ops.get_column("duration_ns").to_numpy()[absent.ops]
    durations[absent.ops] = np.rint(was - (1 - factor) * np.minimum(was, absent.transfer_most_ns))
    return replace(after, plan=after.plan.with_ops(duration_ns=pl.Series(durations)))


def others_of(inferred: Inferred, absent: Absent, changes: Iterable[Change]) -> Others:
    """What changes do to ops of absent ranks."""
    least = most = 1.0
    for change in changes:
        low = high = 1.0
        match change:
            case Scale() if change.selector.startswith("rank:") or _is_shared(inferred, absent, change.selector):
                continue
            case NoBarrierWait() if _is_shared(inferred, absent, "communication.barrier"):
                continue
            case Scale():
                low = high = change.factor
            case OpTimes():
                after = ratios_of(inferred, change)
                what = inferred.measured.get_column("what").to_numpy()[after != 1]
                if absent.are_all_global and not change.frees_launches and (what == "communication").all():
                    continue
                low, high = float(after.min()), float(after.max())
                if change.frees_launches:  # what takes longer does the work of what is gone
                    low, high = 0.0, 1.0
            case SmSplit():  # by the same rules as what the plan's own ops are changed by
                now = present_split(inferred)
                left = (now.num_sms - now.communication) / (now.num_sms - change.communication)
                ratios = (now.compute / change.compute, now.communication / change.communication, left)
                low, high = min(ratios), max(ratios)
            case PlacementSwap():
                was, becomes = change.before_LG, change.after_LG
                ratio = np.divide(becomes, was, out=np.ones_like(becomes), where=was > 0)
                low, high = float(ratio.min()), float(ratio.max())
            case _:
                low = 0.0
        least, most = least * min(low, 1.0), most * max(high, 1.0)
    return Others(least, most)


def bounds_of(inferred: Inferred, absent: Absent, contention: Contention, after: Changed, others: Others) -> Bounds:
    """The spans between which the changed plan's lies, where some communication is with absent ranks.

    Where kernels are slowed beside communication, the sooner is of kernels that run alone, on absent ranks too: these
    may be slowed while a transfer may run.
    """
    ended_ns = inferred.times.end_ns[absent.ops]
    factor = _factor(inferred.plan, after.plan)
    gains = np.maximum(1 - factor * contention.alone_of, 0)
    least = others.least
    if contention.is_used:
        slowed = 1 / float(contention.factor_of.max())
        gains[absent.ops] = np.maximum(gains[absent.ops], 1 - others.least * slowed)
        least = least if absent.are_all_global else least * slowed
    soonest = ended_ns - _chain_ns(inferred, absent, gains, 1 - least, ended_ns)
    latest = ended_ns + _chain_ns(inferred, absent, np.maximum(factor - 1, 0), others.most - 1, ended_ns)
    transfer_ns = np.ceil(absent.transfer_most_ns * factor[absent.ops]).astype(np.int64)
    sooner, later = (_began(after, factor) for factor in others)
    quiet = sooner.ops.get_column("duration_ns").to_numpy() * contention.alone_of
    sooner = sooner.with_ops(duration_ns=pl.Series(np.floor(quiet).astype(np.int64)))
    low = span_between(_held(sooner, absent, np.zeros_like(transfer_ns), soonest), after.measured)
    high = span_between(_held(later, absent, transfer_ns, latest), after.measured)
    first = low.first_ns, high.first_ns
    off = TOLERANCE * (1 + contention.is_used)
    return _widened(inferred, off, low.last_ns - max(first), high.last_ns - min(first), factor, others)


def _widened(
    inferred: Inferred, off: float, low_ns: int, high_ns: int, factor: NDArray[np.float64], others: Others
) -> Bounds:
    """With what a replay may be off: its error, and that share of it; less for changes of less than a tenth. What makes
    nothing longer lets no span grow, and what makes nothing shorter lets none shrink, but for what a host did before
    the plan begins."""
    replayed_ns = inferred.replay.replayed_ns
    shorter = max(1 - others.least, 1 - float(factor.min(initial=1)))
    longer = max(others.most - 1, float(factor.max(initial=1)) - 1)
    off_ns = off * replayed_ns + abs(replayed_ns - inferred.replay.span_ns)
    off_ns *= min(1.0, 10 * max(shorter, longer))
    low_ns, high_ns = max(0, int(low_ns - off_ns)), int(high_ns + off_ns)
    if longer <= 0:
        high_ns = min(high_ns, max(replayed_ns, low_ns))
    if shorter <= 0:
        low_ns = max(low_ns, min(replayed_ns, high_ns))
    on_host = factor[(inferred.plan.ops.get_column("kind") == "host").to_numpy()]
    before_ns = _before_ns(inferred)
    sooner_ns = before_ns * max(0.0, 1 - float(on_host.min(initial=1)))
    later_ns = before_ns * max(0.0, float(on_host.max(initial=1)) - 1)
    return Bounds(low_ns=max(0, int(low_ns - later_ns)), high_ns=int(high_ns + sooner_ns))


_KEPT: WeakKeyDictionary[Inferred, int] = WeakKeyDictionary()  # each is asked for many times


def _before_ns(inferred: Inferred) -> int:
    if (known := _KEPT.get(inferred)) is None:
        known = _KEPT[inferred] = _longest_before_ns(inferred)
    return known


def _longest_before_ns(inferred: Inferred) -> int:
    """What a host did, in the file, before the first call of the plan, ns: the longest of the ranks. Faster, work on
    the device begins sooner, though it may end when others let it; the span is then longer."""
    calls = inferred.measured.drop_nulls("call").group_by("at").agg(pl.col("call").unique())
    longest = 0
    for at, rows in calls.iter_rows():
        events = inferred.works[at].trace.events
        ranges = pl.col("cat").is_in(("cpu_op", "user_annotation"))
        begin = events.filter(ranges).select(pl.col("ts_ns").min())
        first = events[rows].select(pl.col("ts_ns").min())
        before = first.select(pl.col("ts_ns") - begin.get_column("ts_ns")).item()
        longest = max(longest, before or 0)
    return longest


def _began(changed: Changed, factor: float) -> Plan:
    """The plan with what came before the recording of a rank or stream, which is not in it, this many times as long."""
    origin = (changed.edges.get_column("source") == "origin").fill_null(False)
    lag = pl.when(origin).then((pl.col("lag_ns") * factor).round().cast(pl.Int64)).otherwise("lag_ns")
    return replace(changed.plan, waits=changed.plan.waits.with_columns(lag_ns=lag))


class Span(NamedTuple):
    """First start and last end on a device, ns of the plan."""

    first_ns: int
    last_ns: int


def span_between(plan: Plan, measured: pl.DataFrame) -> Span:
    """Of a plan whose first ops are those of `measured`."""
    return _span(timetable(plan), measured)


def _span(times: Timetable, measured: pl.DataFrame) -> Span:
    on_device = np.flatnonzero(measured.get_column("event").is_not_null().to_numpy())
    return Span(int(times.start_ns[on_device].min()), int(times.end_ns[on_device].max()))


def _is_shared(inferred: Inferred, absent: Absent, selector: str) -> bool:
    """Whether a selector names communication alone, and all ranks have the same communication as the plan."""
    if not absent.are_all_global or selector in ("launch", "host"):
        return False
    what = inferred.measured.get_column("what").to_numpy()
    return bool((what[selected(inferred, selector)] == "communication").all())


def _factor(before: Plan, after: Plan) -> NDArray[np.float64]:
    """Of each op its duration after over before; 1 of what takes no time."""
    was, becomes = (plan.ops.get_column("duration_ns").to_numpy().astype(np.float64) for plan in (before, after))
    factor: NDArray[np.float64] = np.divide(becomes, was, out=np.ones(len(was)), where=was > 0)
    return factor


def _chain_ns(inferred: Inferred, absent: Absent, share: NDArray[np.float64], others: float, until_ns: _Ints) -> _Ints:
    """The most that a chain of ops which ends at each time can gain, ns: the integral of the largest share that any op
    which ran then may gain. share: of each op of the plan, [ops]; others: of all that absent ranks may do, at any time.
    """
    start, end = inferred.times.start_ns.copy(), inferred.times.end_ns
    start[absent.ops] = end[absent.ops] - absent.transfer_most_ns
    levels = np.unique(np.round(share[share > others], 6))
    if len(levels) > _MOST_LEVELS:
        levels = np.unique(np.quantile(levels, np.linspace(0, 1, _MOST_LEVELS), method="higher"))
    gained = others * until_ns.astype(np.float64)
    below = others
    for level in levels:
        above = share > below + 1e-9
        cover = union(start[above], end[above])
        gained += (level - below) * covered_before(cover, until_ns)
        below = float(level)
    return np.ceil(gained).astype(np.int64)


def _held(plan: Plan, absent: Absent, duration_ns: _Ints, until_ns: _Ints) -> Plan:
    """The plan with these ops of other durations, each ending at the given time at the earliest: an op that stands for
    the absent ranks meets it then."""
    ops, meets = absent.ops, _meets(plan, absent)
    came_ns = until_ns - duration_ns
    number, first = np.unique(meets[ops], return_index=True)
    late = np.zeros(len(number), np.int64)
    np.maximum.at(late, np.searchsorted(number, meets[ops]), came_ns)
    there = late > plan.gap_ns
    number, late, rows = number[there], late[there], ops[first[there]]
    stream = _ABSENT + np.arange(len(number))
    rank = plan.ops.get_column("rank").gather(rows)
    pins = _absent_ops(rank, stream, late - plan.gap_ns, None)
    come = _absent_ops(rank, stream, np.zeros_like(late), number)
    durations = plan.ops.get_column("duration_ns").to_numpy().copy()
    durations[ops] = duration_ns
    own = plan.ops.with_columns(
        duration_ns=pl.Series(durations), meet=pl.Series(meets).replace(-1, None).cast(pl.Int32)
    )
    return replace(plan, ops=pl.concat([own, pins, come]))


def _meets(plan: Plan, absent: Absent) -> _Ints:
    """Of each op its meet, -1 without one, [plan]; those with absent ranks that have none for sure get one of their
    own."""
    meets = plan.ops.get_column("meet").fill_null(-1).to_numpy().astype(np.int64)
    alone = absent.ops[(meets[absent.ops] < 0) | ~absent.meets]
    meets[alone] = meets.max(initial=-1) + 1 + np.arange(len(alone))
    return meets


def _absent_ops(rank: pl.Series, stream: _Ints, duration_ns: _Ints, meet: _Ints | None) -> pl.DataFrame:
    told: dict[str, Sequence[object] | pl.Series | _Ints] = {
        "name": ["absent ranks"] * len(stream), "kind": ["communication"] * len(stream), "rank": rank,
        "stream": stream, "duration_ns": duration_ns, "meet": [None] * len(stream) if meet is None else meet,
    }  # fmt: skip
    return pl.DataFrame(
        {
            name: pl.Series(told[name], dtype=dtype) if name in told
            else pl.Series([OP_DEFAULTS.get(name)] * len(stream), dtype=dtype)
            for name, dtype in OP_SCHEMA.items()
        }
    )  # fmt: skip
