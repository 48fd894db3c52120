"""To which cause does each nanosecond of idle time belong?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.intervals import Array, sums_by_group
from weftrace.analysis.waiting.activities import activities, activity_of_names, leading_stretches
from weftrace.analysis.waiting.call_names import COPY, GRAPH, MAY_RETURN, PAGEABLE, SYNC
from weftrace.analysis.waiting.gap_parts import CALL, HELD, HOST, LATENCY, PARTS, TURNAROUND, UNKNOWN, Gaps, gaps_of
from weftrace.analysis.waiting.host_paths import (
    ANNOTATION,
    FRAME,
    KINDS,
    OPERATOR,
    RUNTIME_CALL,
    Paths,
    PathTable,
    segments_of,
)
from weftrace.analysis.waiting.host_ranges import host_ranges, spelling
from weftrace.analysis.waiting.unrecorded_work import unrecorded_gaps
from weftrace.trace.containment import innermost
from weftrace.trace.limits import IDLE_THREADS
from weftrace.trace.work import Work
from weftrace.units import US

#: What idle time is charged to. The activities of activities.toml first, then what the kinds of records tell.
ACTIVITIES = (
    "garbage_collection", "compilation", "data_loading", "buffer_broadcast", "allocation", "scheduler", "logging",
    "checkpoint", "zero_grad", "optimizer", "lock",
)  # fmt: skip
CAUSES = (
    *ACTIVITIES, "blocking_sync", "blocking_copy", "graph_launch", "first_use", "operators", "python",
    "backward_thread", "annotation", "nothing_recorded", "launch_call", "launch_latency", "turnaround", "held",
    "unrecorded", "file_cut", "unknown",
)  # fmt: skip
_CODE = {cause: code for code, cause in enumerate(CAUSES)}

#: What lacks records of a gap, where it is no longer, lies between two operators: the Python code that calls them.
BETWEEN_NS = 1_000 * US

#: So long after it has waited, a thread that records nothing does work of its own: operators follow one another sooner.
OWN_NS = 200 * US

#: Activities that a blocking call in them is not charged to: it is told by itself.
_OUTER = ("optimizer", "zero_grad", "scheduler", "logging", "lock")

_SYNC, _COPY, _GRAPH, _PAGEABLE = (re.compile(pattern) for pattern in (SYNC, COPY, GRAPH, PAGEABLE))
_MAY_RETURN = re.compile(MAY_RETURN)
_FREE = re.compile(r"(?i)^(cuda|hip|cumem)free(?!async)")  # which waits for the device
#: Operators that copy, and those that copy a number to the host for a decision there (tensor.item(), if tensor: …).
_COPIES = re.compile(r"^aten::(copy_|_to_copy|_foreach_copy_)$")
_READS = re.compile(r"^aten::(_local_scalar_dense|item|is_nonzero|equal)$")

#: A launch call that takes so long, and so many times its usual time, blocked.
_LONG_NS, _LONG_TIMES = 100 * US, 10
#: A call that returns so shortly before, or any time after, the device has run dry, has waited for that.
_NEAR_NS = 5 * US
_MOST = 0.6  # of a gap's time on the host: work of its own, that began after the gap


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdlePieces:
    """Idle time of a device, in pieces of one cause each. Pieces add up to it exactly.

    gaps: the gaps and their launches. gap: of each piece the row in `gaps.events`; part: its number in PARTS; cause:
    its number in CAUSES; path: node of `paths` that was innermost on the launching thread, -1 where none was; named:
    node that names the cause, which is the path but where the host had waited before: the call that it waited in;
    waited: that call, whatever the cause; start, end: absolute ns.
    """

    gaps: Gaps
    paths: Paths
    gap: Array
    part: Array
    cause: Array
    path: Array
    named: Array
    waited: Array
    start: Array
    end: Array

    @property
    def length(self) -> Array:
        return self.end - self.start


#: Pieces of works that are still in use: several analyses ask for them.
_KNOWN: WeakKeyDictionary[Work, IdlePieces] = WeakKeyDictionary()


def idle_pieces(work: Work) -> IdlePieces:
    """Charge each nanosecond of a device's idle time to one cause. See docs/idle.md for what the causes mean."""
    if (known := _KNOWN.get(work)) is None:
        known = _KNOWN[work] = _pieces(work)
    return known


def _pieces(work: Work) -> IdlePieces:
    gaps = gaps_of(work)
    on_host = (gaps.part == PARTS.index(HOST)) | (gaps.part == PARTS.index(CALL))
    asked = on_host & _of_main_threads(gaps)[gaps.gap]
    rest = _other_pieces(gaps, np.flatnonzero(~asked))
    none = np.full(len(rest.gap), -1, np.int64)
    host = _host_pieces(work, gaps, np.flatnonzero(asked))
    found = IdlePieces(
        gaps=gaps,
        paths=host.paths,
        gap=np.concatenate((host.gap, rest.gap)),
        part=np.concatenate((host.part, rest.part)),
        cause=np.concatenate((host.cause, rest.cause)),
        path=np.concatenate((host.path, none)),
        named=np.concatenate((host.named, none)),
        waited=np.concatenate((host.waited, none)),
        start=np.concatenate((host.start, rest.start)),
        end=np.concatenate((host.end, rest.end)),
    )
    order = np.argsort(found.start, kind="stable")
    found = IdlePieces(
        gaps=gaps,
        paths=found.paths,
        **{
            name: getattr(found, name)[order]
            for name in ("gap", "part", "cause", "path", "named", "waited", "start", "end")
        },
    )
    silent = np.concatenate((host.silent, rest.part > PARTS.index(CALL)))[order]
    for cause, pieces in unrecorded_gaps(work, gaps, found.gap, found.part, found.length, silent):
        found.cause[pieces] = _CODE[cause]
    return found


def _of_main_threads(gaps: Gaps) -> NDArray[np.bool_]:
    """Which gaps end with a launch of the `IDLE_THREADS` threads that end most of them; the causes of others stay
    unknown."""
    thread = ("launch_pid", "launch_tid")
    ended = gaps.events.select(thread)
    threads = ended.group_by(thread, maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    if threads.height <= IDLE_THREADS:
        return np.ones(ended.height, np.bool_)
    main = threads.head(IDLE_THREADS).with_columns(is_main=True)
    found = ended.join(main, on=thread, how="left", nulls_equal=True, maintain_order="left").get_column("is_main")
    return found.fill_null(False).to_numpy()


class _Others(NamedTuple):
    """Pieces of all parts but the host's and the calls'; the columns are those of `IdlePieces`."""

    gap: Array
    part: Array
    cause: Array
    start: Array
    end: Array


def _other_pieces(gaps: Gaps, rows: Array) -> _Others:
    """Parts that are of one cause each; only a turnaround begins as launch latency where its launch was on the way."""
    gap, part, start, end = gaps.gap[rows], gaps.part[rows].astype(np.int64), gaps.start[rows], gaps.end[rows]
    whole = {LATENCY: "launch_latency", HELD: "held", TURNAROUND: "turnaround", UNKNOWN: "unknown"}
    cause = np.array([_CODE[whole.get(part, "unknown")] for part in PARTS])[part]
    until = np.where(part == PARTS.index(TURNAROUND), np.clip(gaps.arrived_ns[gap], start, end), start)
    late, after = np.flatnonzero(until > start), np.flatnonzero(end > until)
    return _Others(
        gap=np.concatenate((gap[late], gap[after])), part=np.concatenate((part[late], part[after])),
        cause=np.concatenate((np.full(len(late), _CODE["launch_latency"]), cause[after])),
        start=np.concatenate((start[late], until[after])), end=np.concatenate((until[late], end[after])),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Host:
    """Pieces of the host's and of the calls' parts; the columns are those of `IdlePieces`."""

    paths: Paths
    gap: Array
    part: Array
    cause: Array
    path: Array
    named: Array
    waited: Array
    start: Array
    end: Array
    silent: NDArray[np.bool_]  # its thread recorded nothing


def _host_pieces(work: Work, gaps: Gaps, asked: Array) -> _Host:
    """The host's and the calls' parts of gaps, cut where the launching thread turned to something else."""
    ranges = host_ranges(work.trace)
    names = spelling(ranges)
    table = PathTable(names)
    launching = gaps.events.select("launch_pid", "launch_tid").with_row_index("gap")[np.unique(gaps.gap[asked])]

    def of_thread(thread: tuple[Any, ...], rows: Array) -> tuple[Array, ...]:
        own = threads.pop(thread, ranges.clear())  # of a large trace much, and not needed again
        cut = segments_of(own, gaps.start[rows], gaps.end[rows], table)
        rows = rows[cut.piece]
        known = _in_stretches(own, cut.start, names)
        waits = _waited_in(own, gaps, gaps.gap[rows], table)
        return gaps.gap[rows], gaps.part[rows].astype(np.int64), cut.path, cut.start, cut.end, known, waits

    launchers = launching.select(pid="launch_pid", tid="launch_tid").unique()
    of_launchers = ranges.join(launchers, on=("pid", "tid"), how="semi", maintain_order="left")
    threads = of_launchers.partition_by("pid", "tid", as_dict=True)
    del of_launchers
    by_thread = launching.partition_by("launch_pid", "launch_tid", as_dict=True)
    owner = np.empty(gaps.events.height, np.int64)
    for number, mine in enumerate(by_thread.values()):
        owner[mine.get_column("gap").to_numpy()] = number
    order = np.argsort(owner[gaps.gap[asked]], kind="stable")
    first = np.searchsorted(owner[gaps.gap[asked]][order], np.arange(len(by_thread) + 1))
    rows = (asked[order[low:high]] for low, high in pairwise(first.tolist()))
    columns = [of_thread(*each) for each in zip(by_thread, rows, strict=True)]
    threads.clear()
    if not columns:
        columns = [tuple(np.empty(0, np.int64) for _ in range(7))]
    gap, part, path, start, end, known, wait = (np.concatenate(column) for column in zip(*columns, strict=True))
    silent = np.flatnonzero(path < 0)
    is_silent = path < 0
    call = np.where(is_silent & (wait < 0), _waited_elsewhere(work, ranges, gaps, gap, table), wait)
    path[silent] = _open_elsewhere(ranges, start[silent], table)
    paths = table.paths()
    of_path = _causes_of_paths(paths)  # the last one is of no path
    cause = of_path[path]
    cause[silent] = np.where(path[silent] >= 0, _CODE["backward_thread"], _CODE["nothing_recorded"])
    cause = np.where(known < len(_RULES), _RULE_CAUSES[known], cause)
    unknown = np.isin(cause, [_CODE[c] for c in ("annotation", "nothing_recorded")])
    silent_ns = sums_by_group(gap[unknown], (end - start)[unknown], gaps.events.height)
    between = unknown & (silent_ns <= BETWEEN_NS)[gap]
    cause = np.where(between, _CODE["python"], cause)
    waited = np.isin(cause, [_CODE[c] for c in ("operators", "python")])
    waited |= (cause == _CODE["backward_thread"]) & (end - start <= BETWEEN_NS)
    waited &= ~(unknown & (end - start >= OWN_NS)) & (end - start < BETWEEN_NS)
    waited &= wait >= 0
    cause = np.where(waited, of_path[wait], cause)
    named = np.where(waited, wait, path)
    cause = np.where(part == PARTS.index(CALL), _causes_of_calls(work, gaps, gap, cause), cause)
    return _Host(
        paths=paths, gap=gap, part=part, cause=cause, path=path, named=named, waited=call, start=start, end=end,
        silent=is_silent & (known == len(_RULES)),
    )  # fmt: skip


def _in_stretches(ranges: pl.DataFrame, times: Array, names: Mapping[int, str]) -> Array:
    """The rule whose leading stretch each time lies in; the number of rules where none is."""
    found = np.full(len(times), len(_RULES), np.int64)
    named = ranges.select("code", "kind", "ts_ns", "dur_ns").filter(
        pl.col("kind").is_in((KINDS.index(ANNOTATION), KINDS.index(OPERATOR)))
    )
    named = named.sort("ts_ns", "dur_ns", descending=[False, True])
    starts = named.get_column("ts_ns").to_numpy()
    texts = [names[code] for code in named.get_column("code")]  # each name once, however many bear it
    for rule, begin, until in leading_stretches(texts, starts, starts + named.get_column("dur_ns").to_numpy()):
        inside = (times >= begin) & (times < until)
        found[inside] = np.minimum(found[inside], rule)
    return found


def _waited_in(ranges: pl.DataFrame, gaps: Gaps, gap: Array, table: PathTable) -> Array:
    """The blocking call, as a path, that its thread was in when each gap (a row of `gaps.events`) began, so that the
    device ran dry; -1 where it was in none, or where work of the host's own fills most of the gap.

    Its own work is an annotation, an operator or a function that began and ended in the gap: what launches is on the
    way to work again, and what was open before is no cause.
    """
    which, back = np.unique(gap, return_inverse=True)
    begin = gaps.events.get_column("from_ns").to_numpy()[which]
    launched = gaps.events.get_column("launch_ts_ns").fill_null(0).to_numpy()[which]
    names = ranges.select("code", "name").unique("code").with_columns(pl.col("name").cast(pl.String))
    blocking = [code for code, name in names.rows() if _SYNC.search(name) or _COPY.search(name) or _FREE.search(name)]
    is_call = pl.col("kind") == KINDS.index(RUNTIME_CALL)
    calls = ranges.filter(is_call & pl.col("code").is_in(blocking)).sort("ts_ns")
    if calls.is_empty() or not len(which):
        return np.full(len(gap), -1, np.int64)
    starts = calls.get_column("ts_ns").to_numpy()
    last = np.searchsorted(starts, begin, "right") - 1
    ends = starts + calls.get_column("dur_ns").to_numpy()
    ran_dry = (last >= 0) & (ends[np.maximum(last, 0)] >= begin - _NEAR_NS)
    waits = calls.get_column("code").is_in([code for code, name in names.rows() if not _MAY_RETURN.search(name)])
    copied = gaps.events.get_column("before_name").cast(pl.String).str.contains(_PAGEABLE.pattern).to_numpy()[which]
    ran_dry &= waits.to_numpy()[np.maximum(last, 0)] | copied
    own = ranges.select("kind", "ts_ns", "dur_ns").filter(pl.col("kind") != KINDS.index(RUNTIME_CALL))
    since = own.get_column("ts_ns").to_numpy()
    until = since + own.get_column("dur_ns").to_numpy()
    at = np.searchsorted(begin, since, "right") - 1
    fits = (at >= 0) & (until <= launched[np.maximum(at, 0)])
    fills = fits & (until - since >= _MOST * (launched - begin)[np.maximum(at, 0)])
    ran_dry[np.unique(at[fills])] = False
    returned = np.unique(ends[last[ran_dry]])
    waits_in = segments_of(ranges, returned - 1, returned, table).path  # the call is innermost in its last nanosecond
    found = np.full(len(which), -1, np.int64)
    found[ran_dry] = waits_in[np.searchsorted(returned, ends[last[ran_dry]])]
    return found[back]


def _waited_elsewhere(work: Work, ranges: pl.DataFrame, gaps: Gaps, gap: Array, table: PathTable) -> Array:
    """The same of the other threads that launch work: one that waits for the loss before the backward pass, which is
    another thread's."""
    threads = work.around.events.select(pid="launch_pid", tid="launch_tid").drop_nulls().unique()
    if threads.height < 2:
        return np.full(len(gap), -1, np.int64)
    launching = ranges.join(threads, on=("pid", "tid"), how="semi", maintain_order="left").drop("pid", "tid")
    return _waited_in(launching, gaps, gap, table)


def _open_elsewhere(ranges: pl.DataFrame, times: Array, table: PathTable) -> Array:
    """Where a thread recorded nothing: the annotation that is open on another one, as a path; -1 where none is."""
    named = ranges.filter(pl.col("kind") == KINDS.index(ANNOTATION))
    named = named.sort("ts_ns", "dur_ns", descending=[False, True])
    if named.is_empty() or not len(times):
        return np.full(len(times), -1, np.int64)
    starts, codes = named.get_column("ts_ns").to_numpy(), named.get_column("code").to_numpy()
    found = innermost(starts, starts + named.get_column("dur_ns").to_numpy(), times)
    at = np.unique(found[found >= 0])
    node = np.full(len(starts), -1, np.int64)
    node[at] = table.add(np.full(len(at), -1), codes[at], np.full(len(at), KINDS.index(ANNOTATION)))
    return np.where(found >= 0, node[np.maximum(found, 0)], -1)


_RULES = activities()
_RULE_CAUSES = np.array([_CODE[rule.cause] for rule in _RULES] + [-1])


def _causes_of_paths(paths: Paths) -> Array:
    """The cause of time that is innermost in each node; of none of them at the end."""
    number = len(paths.name)
    names = paths.names.to_list()
    rule = activity_of_names(names)[paths.name] if number else np.empty(0, np.int64)
    seen = np.zeros((number, len(KINDS)), np.bool_)
    seen[np.arange(number), paths.kind] = True
    for node in range(number):  # parents come first; distinct paths are few
        if (above := paths.parent[node]) >= 0:
            rule[node] = min(rule[node], rule[above])
            seen[node] |= seen[above]
    choices = [
        (seen[:, KINDS.index(OPERATOR)], "operators"), (seen[:, KINDS.index(FRAME)], "python"),
        (seen[:, KINDS.index(RUNTIME_CALL)], "launch_call"), (seen[:, KINDS.index(ANNOTATION)], "annotation"),
    ]  # fmt: skip
    cause = np.select([chosen for chosen, _ in choices], [_CODE[name] for _, name in choices], -1)
    cause = np.where(rule < len(_RULES), _RULE_CAUSES[rule], cause)
    open_to_calls = (rule == len(_RULES)) | np.isin(cause, [_CODE[outer] for outer in _OUTER])
    in_call = (paths.kind == KINDS.index(RUNTIME_CALL)) & open_to_calls
    for pattern, blocked in ((_GRAPH, "graph_launch"), (_COPY, "blocking_copy"), (_SYNC, "blocking_sync")):
        named = np.array([bool(pattern.search(name)) and not _MAY_RETURN.search(name) for name in names] or [False])
        cause = np.where(in_call & named[paths.name], _CODE[blocked], cause) if number else cause
    for operators, blocked in ((_COPIES, "blocking_copy"), (_READS, "blocking_sync")):  # in one call, or in two
        inside = _inside(paths, [operators.search(name) is not None for name in names])
        waits = np.isin(cause, [_CODE["blocking_copy"], _CODE["blocking_sync"]])
        cause = np.where(waits & inside, _CODE[blocked], cause)
    return np.append(cause, _CODE["nothing_recorded"])


def _inside(paths: Paths, named: list[bool]) -> NDArray[np.bool_]:
    """Nodes that have one of the named operators around them."""
    found = np.array(named or [False])[paths.name] & (paths.kind == KINDS.index(OPERATOR))
    for node in range(len(found)):
        found[node] |= paths.parent[node] >= 0 and found[paths.parent[node]]
    return np.asarray(found, np.bool_)


def _causes_of_calls(work: Work, gaps: Gaps, gap: Array, cause: Array) -> Array:
    """The cause of each gap's launch call: that of the host around it, or what it blocked for."""
    first = work.around.events.group_by("name").agg(pl.col("launch_ts_ns").min().alias("first_ns"))
    took, usual = pl.col("launch_end_ns") - pl.col("launch_ts_ns"), pl.col("took").median().over("call")
    calls = gaps.events.join(first, on="name", how="left", maintain_order="left").with_columns(
        pl.col("call").fill_null(""), took.fill_null(0).alias("took")
    )
    few = gaps.events.height < _LONG_TIMES  # too few to tell what is usual
    long = (pl.col("took") >= _LONG_NS) & ((pl.col("took") >= _LONG_TIMES * usual) | pl.lit(few))
    blocks = _named(calls, "name", _PAGEABLE) | ~_named(calls, "call", _MAY_RETURN)
    found = calls.select(
        pl.when(_named(calls, "call", _GRAPH) & (pl.col("took") >= _LONG_NS)).then(_CODE["graph_launch"])
        .when(_named(calls, "call", _GRAPH)).then(_CODE["launch_call"])
        .when(_named(calls, "call", _COPY) & blocks).then(_CODE["blocking_copy"])
        .when(long & (pl.col("launch_ts_ns") == pl.col("first_ns"))).then(_CODE["first_use"])
        .when(long).then(_CODE["launch_call"]).otherwise(-1)
    ).to_series().to_numpy()  # fmt: skip
    own = found[gap]
    outer = np.isin(cause, [_CODE[c] for c in ("data_loading", "garbage_collection", "compilation")])
    return np.where((own >= 0) & ~outer, own, cause)


def _named(frame: pl.DataFrame, column: str, pattern: re.Pattern[str]) -> pl.Expr:
    """Whether a pattern is found in the names of a column; each name is looked at once."""
    names = frame.get_column(column).unique()
    return pl.col(column).is_in(names.filter(names.cast(pl.String).str.contains(pattern.pattern)).implode())
