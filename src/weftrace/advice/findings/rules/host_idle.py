"""Idle time of a device by what the host did meanwhile: how much in which step, and where in the program most of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.findings.evidence import Evidence
from weftrace.analysis.findings import Where
from weftrace.analysis.intervals import Array, covered, sums_by_group, union
from weftrace.analysis.waiting.host_paths import FRAME, KINDS, OPERATOR, RUNTIME_CALL, Paths
from weftrace.analysis.waiting.idle_pieces import CAUSES
from weftrace.analysis.waiting.naming import NOTHING, Named, may_name, names_of
from weftrace.units import duration, percent

#: The host's own work: what a captured graph, or fewer launches, would do without.
OWN = ("operators", "python", "launch_call", "launch_latency", "annotation", "backward_thread", "zero_grad", "logging")
#: DDP's search for parameters that a loss does not reach; the thread that launches next is silent meanwhile.
UNUSED_SEARCH = r"search_unused_parameters|prepare_for_backward"
#: Causes that are no host's: of the device, or not known.
_NOT_OF_HOST = ("launch_latency", "turnaround", "held", "unrecorded", "file_cut", "unknown")
#: All that the host does, or waits for, before it launches.
OF_HOST = tuple(cause for cause in CAUSES if cause not in _NOT_OF_HOST)
#: Of a cost, what lies in a step that has it alone.
_ALONE = 0.8
#: Events of a finding.
MOST_EVENTS = 20
#: Packages whose functions are a library's: nobody mends them to make a program faster.
_LIBRARIES = re.compile(
    r"(^|/)((site|dist)-packages|numpy|scipy|pandas|PIL|cv2|torchvision|torchaudio|transformers|accelerate|datasets|"
    r"lightning|pytorch_lightning|deepspeed|tqdm|apex|flash_attn|xformers|einops|timm|diffusers|vllm|sglang)/"
)
#: Functions of Python's own: built in, or of the standard library.
_PYTHONS = re.compile(r"^<built-in (?!.*\b(torch|_C|aten)\b)|(^|/)python3[.\d]*/(?!.*(site|dist)-packages/)")
_LONGEST_NAME, _LONGEST_PLACE = 44, 56

Mask = NDArray[np.bool_]


class Place(NamedTuple):
    """Where in the program some idle time lies; empty where it is no one place. name: the deepest annotation, operator,
    function or call with most of it; operator; code: a function of the user's, as recorded. in_python:
    whether a function of Python's own is what has most of it, as time.sleep or one of json's."""

    name: str = ""
    operator: str = ""
    code: str = ""
    in_python: bool = False

    @property
    def words(self) -> str:
        """ " in aten::item (train.py(42): step)"; "" where nothing names it."""
        code, name = short(self.code), self.operator or self.name or self.code
        if "): " in name and code and name != self.code:  # of a library: what it does, where the user calls it
            name, code = code, short(name).partition("): ")[2]
            return f" in {name}{f' ({code})' if len(name) + len(code) <= _LONGEST_PLACE else ''}"
        name = short(name)
        if not name:
            return ""
        fits = code and "): " not in name and len(name) + len(code) <= _LONGEST_PLACE
        return f" in {name}{f' ({code})' if fits else ''}"


def charged(evidence: Evidence, causes: Iterable[str]) -> Mask:
    """Pieces of idle time with one of these causes, a mask over `Evidence.idle_pieces`."""
    return np.isin(evidence.idle_pieces.cause, [CAUSES.index(cause) for cause in causes])


def time_of(evidence: Evidence, chosen: Mask) -> int:
    return int(evidence.idle_pieces.length[chosen].sum())


def open_on_any_thread(evidence: Evidence, pattern: str) -> Mask:
    """Pieces of which more than half lies in ranges that the pattern finds: of threads that launch nothing too."""
    pieces = evidence.idle_pieces
    ranges = evidence.trace.events.select("name", "ts_ns", "dur_ns")
    names = ranges.get_column("name").unique()
    named = ranges.filter(pl.col("name").is_in(names.filter(names.cast(pl.String).str.contains(pattern)).implode()))
    start = named.get_column("ts_ns").to_numpy()
    inside = covered(union(start, start + named.get_column("dur_ns").to_numpy()), pieces.start, pieces.end)
    found: Mask = 2 * inside > pieces.length
    return found


def searched_by_ddp(evidence: Evidence) -> Mask:
    """Pieces in DDP's search for unused parameters; of a job of one process there is no such search."""
    searched = open_on_any_thread(evidence, UNUSED_SEARCH)
    is_ddp = (evidence.trace.world_size or 1) > 1 or "ddp" in evidence.frameworks
    return searched if is_ddp else np.zeros_like(searched)


def in_step_alone(evidence: Evidence, chosen: Mask) -> int | None:
    """The step that has nearly all of the chosen time, where there are at least three; else None."""
    numbers = np.array([step.step for step in evidence.steps], np.int64)
    if len(numbers) < 3:
        return None
    own = step_of(evidence)
    sums = np.array([time_of(evidence, chosen & (own == number)) for number in numbers])
    return int(numbers[sums.argmax()]) if sums.max() >= _ALONE * max(1, time_of(evidence, chosen)) else None


def step_of(evidence: Evidence) -> Array:
    """Of each piece the step that launched what ends its gap; -1 where none did."""
    steps = evidence.idle_pieces.gaps.events.get_column("step").fill_null(-1).to_numpy()
    return steps[evidence.idle_pieces.gap]


def by_step(evidence: Evidence, chosen: Mask) -> Array:
    """Time of the chosen pieces in each of `Evidence.steps`; of more than two without the first, which warms up."""
    numbers = np.array([step.step for step in evidence.steps], np.int64)
    numbers = numbers[1:] if len(numbers) > 2 else numbers
    mine = step_of(evidence)[chosen]
    at = np.searchsorted(numbers, mine)
    known = (at < len(numbers)) & (numbers[np.minimum(at, len(numbers) - 1)] == mine) if len(numbers) else at < 0
    return sums_by_group(at[known], evidence.idle_pieces.length[chosen][known], len(numbers))


def at_step_starts(evidence: Evidence, chosen: Mask) -> Mask:
    """The chosen pieces that lie before the first work of a step; none unless most steps have some."""
    gaps = evidence.idle_pieces.gaps.events
    step = gaps.get_column("step").fill_null(-1).to_numpy()
    firsts = evidence.work.events.filter(pl.col("step").is_not_null()).group_by("step").agg(pl.col("start_ns").min())
    first = np.isin(gaps.get_column("until_ns").to_numpy(), firsts.get_column("start_ns").to_numpy()) & (step >= 0)
    found: Mask = chosen & first[evidence.idle_pieces.gap]
    if 2 * len(np.unique(step_of(evidence)[found])) < max(4, len(evidence.steps)):
        return np.zeros(len(found), np.bool_)
    return found


def place_of(evidence: Evidence, chosen: Mask, named: Array | None = None) -> Place:
    """Where most of the chosen pieces lie. named: what names each piece, where it is not `IdlePieces.named`."""
    pieces = evidence.idle_pieces
    node, length = (pieces.named if named is None else named)[chosen], pieces.length[chosen]
    python, mine = _of_python(pieces.paths, node, length)
    if python:
        return Place(python, "", _code(pieces.paths, node[mine], length[mine]), True)
    own, around, child = names_of(pieces.paths, node, length)
    most = own if own is not NOTHING else child
    operator = next((each.name for each in (most, around) if _is_operator(each)), "")
    if operator:  # the function must be around the operator's own time
        mine = _within(pieces.paths, operator, node)
        node, length = node[mine], length[mine]
    return Place(most.name, operator, _code(pieces.paths, node, length))


def where_of(
    evidence: Evidence, chosen: Mask, place: Place, *, step: int | None = None, kernels: tuple[str, ...] = ()
) -> Where:
    """The place of the chosen pieces, shown by what ends the gaps with most of them, and by the longest of these."""
    ends = evidence.idle_pieces.gaps.events.get_column("row").to_numpy().astype(np.int64)
    largest = _largest(evidence.idle_pieces.gap[chosen], evidence.idle_pieces.length[chosen])
    found = replace(place_where(evidence, place, ends[largest], step=step), kernels=kernels)
    if not len(largest):
        return found
    start, end = evidence.idle_pieces.gaps.events.select("from_ns", "until_ns").row(int(largest[0]))
    return replace(found, start_ns=start, end_ns=end)


def place_where(evidence: Evidence, place: Place, rows: Array, *, step: int | None = None) -> Where:
    """A place, and rows of the events that show it, the longest first."""
    rows = rows[:MOST_EVENTS]
    start, took = evidence.trace.events.select("ts_ns", "dur_ns").row(int(rows[0])) if len(rows) else (None, None)
    return Where(
        ranks=() if evidence.trace.rank is None else (evidence.trace.rank,),
        device=evidence.work.device,
        step=step,
        phase="" if place.operator or "): " in place.name else place.name,
        code=place.code,
        operator=place.operator,
        path=evidence.trace.path,
        events=tuple(rows.tolist()),
        start_ns=start,
        end_ns=None if start is None or took is None else start + took,
    )


def calls_of(evidence: Evidence, chosen: Mask, named: Array | None = None) -> Array:
    """Rows of the calls that the host waited in during the chosen pieces, those with most of their time first. named:
    as in `place_of`; then it may be a call of another thread."""
    pieces = evidence.idle_pieces
    by = ("pid", "tid") if named is None else ("pid",)
    named = pieces.named if named is None else named
    names = pieces.paths.names.gather(pieces.paths.name[np.unique(named[chosen & (named >= 0)])])
    called = evidence.trace.events.select("name", "pid", "tid", "ts_ns").with_row_index("row")
    known = called.get_column("name").unique()
    called = called.filter(pl.col("name").is_in(known.filter(known.cast(pl.String).is_in(names.implode())).implode()))
    launching = pieces.gaps.events.select(pid="launch_pid", tid="launch_tid")[pieces.gap[chosen]]
    asked = launching.with_columns(ts_ns=pl.Series(pieces.start[chosen]), ns=pl.Series(pieces.length[chosen]))
    asked = asked.sort("ts_ns").join_asof(called.sort("ts_ns"), on="ts_ns", by=by, check_sortedness=False)
    found = asked.drop_nulls("row").group_by("row").agg(pl.col("ns").sum()).sort("ns", "row", descending=[True, False])
    return found.get_column("row").to_numpy().astype(np.int64)


def of_step(evidence: Evidence, time_ns: int, what: str = "idle time") -> str:
    """ "8.1 ms of idle time, 21 % of the step"; of the recording where no steps are known."""
    whole = "step" if evidence.num_steps else "recording"
    what = f" of {what}" if what else ""
    return f"{duration(evidence.per_step(time_ns))}{what}, {percent(evidence.share(time_ns))} of the {whole}"


_LEAST_CHARS, _MOST_CHARS = 64, 500_000  # of a name in a pattern; of all its names


def short(name: str) -> str:
    """A name that fits in a sentence: a function's file without its folders."""
    file, colon, function = name.partition("): ")
    name = f"{file.replace(chr(92), '/').rsplit('/', 1)[-1]}{colon}{function}" if colon else name
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME // 2]}…{name[-(_LONGEST_NAME // 2 - 1) :]}"


def pattern_of(names: Collection[str]) -> str:
    """A regular expression that finds just these names; very long ones by how they begin, as an engine needs a hundred
    times their length."""
    most = max(_LEAST_CHARS, _MOST_CHARS // max(1, len(names)))
    starts = pl.DataFrame({"name": sorted(names)}, schema={"name": pl.String}).select(
        pl.col("name").str.slice(0, most).str.escape_regex()
        + pl.when(pl.col("name").str.len_chars() > most).then(pl.lit(".*")).otherwise(pl.lit(""))
    )
    return f"^({'|'.join(starts.to_series())})$"


def _is_operator(named: Named) -> bool:
    return named.kind == KINDS.index(OPERATOR)


def _largest(group: Array, length: Array) -> Array:
    """The groups with most time, at most so many as a finding has events."""
    totals = sums_by_group(group, length, int(group.max()) + 1 if len(group) else 0)
    order = np.argsort(-totals, kind="stable")[:MOST_EVENTS]
    return order[totals[order] > 0]


def _within(paths: Paths, name: str, node: Array) -> Mask:
    """Which of the nodes lie within an operator of this name."""
    inside = (paths.names == name).to_numpy()[paths.name] & (paths.kind == KINDS.index(OPERATOR))
    for at in range(len(inside)):  # parents come first; distinct paths are few
        inside[at] |= paths.parent[at] >= 0 and inside[paths.parent[at]]
    found: Mask = np.append(inside, False)[node]
    return found


def _of_python(paths: Paths, node: Array, length: Array) -> tuple[str, Mask]:
    """The function of Python's own in which itself most of the time is, and which of the nodes are that; "" where there
    is none, or where it calls operators."""
    known: Mask = node >= 0
    totals = sums_by_group(paths.name[node[known]], length[known], len(paths.names))
    if not len(totals) or 2 * totals.max() <= length.sum():
        return "", known
    code = int(totals.argmax())
    name, mine = str(paths.names[code]), known & (paths.name[node] == code)
    launching = (paths.parent >= 0) & np.isin(paths.kind, (KINDS.index(OPERATOR), KINDS.index(RUNTIME_CALL)))
    calls = (paths.name[paths.parent[launching]] == code).any()
    frames = (paths.kind[node[mine]] == KINDS.index(FRAME)).all()
    return name if frames and not calls and _PYTHONS.search(name.replace("\\", "/")) else "", mine


def _code(paths: Paths, node: Array, length: Array) -> str:
    """The innermost function of the user's around most of the time; of a library's where there are none."""
    names, frame = paths.names.to_list(), KINDS.index(FRAME)
    if not (paths.kind == frame).any() or not (node >= 0).any():
        return ""
    is_frame = paths.kind == frame
    usable = np.array([not n.startswith("nn.Module: ") and may_name(n, frame) for n in names], np.bool_)[paths.name]
    own = np.array([not _LIBRARIES.search(n.replace("\\", "/")) for n in names], np.bool_)[paths.name]
    for wanted in (is_frame & usable & own, is_frame & usable):
        holder = np.where(wanted, np.arange(len(wanted)), -1)
        for at in range(len(holder)):  # parents come first; distinct paths are few
            if holder[at] < 0 <= paths.parent[at]:
                holder[at] = holder[paths.parent[at]]
        held = holder[node[node >= 0]]
        totals = sums_by_group(paths.name[held[held >= 0]], length[node >= 0][held >= 0], len(names))
        if len(totals) and 2 * totals.max() > length.sum():
            return str(names[int(totals.argmax())])
    return ""
