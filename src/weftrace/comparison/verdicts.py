"""May the two runs be compared, and may a cause be told? What both say of themselves, side by side.

A cause may be told where both runs could have been the same and one thing was changed: another batch or shape, another
dtype, version, setting, way of recording, fewer launches. All of that is told as a reason, "comparable, but", for the
change may be the effect of it. A simulated run may be held against a measured one in the same way.

No cause may be told where times of a step differ for so many reasons at once that none can be picked out ("not
comparable"; the numbers stand): another model or maker of device, another number of ranks in the world, different ranks
of one job (they do different work), no rank in common, times of host operators against times of a device, a step
against a recording without steps, and a file that was cut short in its only step.

Only differences are reasons: what both lack, or both suffer from alike, says nothing against comparing them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.run_facts import (
    BACKEND,
    COLLECTIVE_DTYPES,
    DAMAGE,
    DEVICE,
    DIGEST,
    EXTRAS,
    KERNEL_DTYPES,
    MACHINE,
    MEMORY,
    OPERATOR_DTYPES,
    OVERLAPS,
    SETTING,
    SHAPES,
    SMS,
    VENDOR,
    VERSION,
)
from weftrace.comparison.runs import RankRun, Run
from weftrace.comparison.sides import Side
from weftrace.comparison.significance import mean_p
from weftrace.files.values import As
from weftrace.units import counted, signed

#: "not comparable" refuses to state a cause; "within the noise" is said where the runs are comparable.
Word = Literal["comparable", "comparable, but", "not comparable"]

_OTHER_WORK = 0.25  # of the launches of a step
_OTHER_RECORDING = 0.02  # of the launches of a recording without steps, which may hold more of them than the other
_MUCH, _NONE = 10, 1  # percent of the time of kernels: a dtype that has this much of the one run, and less of the other
_FIRST = 5  # calls that take longest: their shapes are looked for in the other run
_OVERLAPPING = 5  # percent of kernels
_SET_ASIDE = 0.02  # of a device's memory
_DRIFT = 0.03  # by how much steps of a run grow, from its first half to its second
_SURE = 0.01  # that they do
_MOST_TOLD = 60  # characters of a value in a reason
_UNKNOWN = "not recorded"
_BASES = {"device": "kernels of a device", "host": "operators of the host", "ranges": "ranges", "none": "nothing"}


class Fact(TypedDict):
    """What both runs, or one of them, say of themselves."""

    name: str
    before: str
    after: str


def _as_rows(facts: Sequence[tuple[str, str, str]]) -> list[Fact]:
    return [{"name": name, "before": before, "after": after} for name, before, after in facts]


def _from_rows(rows: Sequence[Fact]) -> tuple[tuple[str, str, str], ...]:
    return tuple((row["name"], row["before"], row["after"]) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether what follows may be read as the effect of a change.

    reasons: what differs, a sentence each, the gravest first. facts: (name, of the one, of the other), all that both or
    either say of themselves: device, dtypes, ranks, shapes, steps, versions.
    """

    word: Word
    reasons: Annotated[tuple[str, ...], Meta(description="What differs, the gravest first.")] = ()
    facts: Annotated[
        tuple[tuple[str, str, str], ...],
        As(list[Fact], save=_as_rows, read=_from_rows),
    ] = ()


def verdict_of(before: Side, after: Side) -> Verdict:
    """Judge two sides by the rule at the head of this module. A trace and itself are comparable, without a reason."""
    facts = tuple(_facts(before, after))
    refused = tuple(_refusals(before, after))
    reasons = (*refused, *(_caveats(before, after) if before.ranks else ()))
    return Verdict(
        word="not comparable" if refused else "comparable, but" if reasons else "comparable",
        reasons=reasons,
        facts=facts,
    )


# --- why no cause may be told ---------------------------------------------------------------------------------------


def _refusals(before: Side, after: Side) -> Iterator[str]:
    if not before.ranks:
        yield f"no rank is in both: {_ranks(before.run)} before, {_ranks(after.run)} after"
        return
    alone = before.ranks[0], after.ranks[0]
    if _are_other_ranks(before, after) and all(map(_is_rank_sure, alone)):
        yield f"different ranks do different work: rank {alone[0].rank} before, rank {alone[1].rank} after"
    worlds = _world(before), _world(after)
    if None not in worlds and worlds[0] != worlds[1]:
        yield f"the worlds differ: {counted(worlds[0] or 0, 'rank')} before, {counted(worlds[1] or 0, 'rank')} after"
    yield from _differing(before, after, "the devices differ", _device, _other_device)
    yield from _differing(before, after, "what is timed differs", _timed)
    if bool(before.steady.steps) != bool(after.steady.steps):
        yield f"a step is compared with a whole recording: {_steps(before)} before, {_steps(after)} after"
    yield from _cut_off(before, after)


def _cut_off(before: Side, after: Side) -> Iterator[str]:
    """One file lost its end, and with it much of the only step that it has: what is left is no shorter step."""
    is_cut = [any("cut short" in rank.facts.get(DAMAGE, "") for rank in side.ranks) for side in (before, after)]
    num = _launches(before), _launches(after)
    at = is_cut.index(True) if any(is_cut) else 0
    alone = len((before, after)[at].steady.steps) <= 1
    if is_cut[0] != is_cut[1] and alone and num[1 - at] - num[at] > _OTHER_WORK * max(num):
        yield (
            f"the run {('before', 'after')[at]} is cut short: it holds {num[at]:,.0f} kernels and copies of a step, "
            f"the other {num[1 - at]:,.0f}"
        )


def _are_other_ranks(before: Side, after: Side) -> bool:
    """Of two traces of a rank each: sides pair those, whatever their numbers."""
    alone = before.ranks[0].rank, after.ranks[0].rank
    return len(before.ranks) == 1 and None not in alone and alone[0] != alone[1]


def _is_rank_sure(rank: RankRun) -> bool:
    """Not a bare number in the name of a file, which may as well count runs: trace_1.json, trace_2.json."""
    name = rank.path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return rank.world_size is not None or "rank" in name or "worker" in name


def _device(rank: RankRun) -> str | None:
    name, sms = rank.facts.get(DEVICE) or rank.facts.get(VENDOR), rank.facts.get(SMS)
    return f"{name or 'a device'} of {sms} multiprocessors" if sms else name


def _other_device(one: RankRun, other: RankRun) -> bool:
    """Of another maker, model or number of SMs. What one of them does not tell is taken to be the same; and a simulated
    one is of the device that it stands for."""
    pairs = [(one.facts.get(name), other.facts.get(name)) for name in (VENDOR, DEVICE, SMS)]
    return one.simulated == other.simulated and any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _other_overlaps(one: RankRun, other: RankRun) -> bool:
    """By more than a kernel that is launched into the end of the last explains, or a clock's ticks."""
    shares = [float(rank.facts.get(OVERLAPS, "0 %").split()[0]) for rank in (one, other)]
    return abs(shares[0] - shares[1]) >= _OVERLAPPING


def _world(side: Side) -> int | None:
    return max((rank.world_size for rank in side.run.ranks if rank.world_size), default=None)


# --- what else may have made the difference ---------------------------------------------------------------------------


def _caveats(before: Side, after: Side) -> Iterator[str]:
    yield from _differing(before, after, "the sources differ", _source)
    yield from _other_ranks(before, after)
    yield from _unread(before, after)
    yield from _differing(before, after, "the files are not alike whole", lambda r: r.facts.get(DAMAGE, "whole"))
    yield from _differing(before, after, f"{OVERLAPS} (a stream usually runs one at a time)",
                          lambda r: r.facts.get(OVERLAPS, "none"), _other_overlaps)  # fmt: skip
    yield from _other_shapes(before, after)
    yield from _other_dtypes(before, after)
    for name in _names(before, after, SETTING):
        yield from _differing(before, after, f"{name.removeprefix(SETTING)} differs", _fact(name), is_one_enough=True)
    yield from _other_work(before, after)
    yield from _differing(before, after, "the communication libraries differ", _fact(BACKEND))
    for name in _names(before, after, VERSION):
        yield from _differing(before, after, f"the version of {name.removeprefix(VERSION)} differs", _fact(name))
    yield from _differing(before, after, "the device memories differ", _fact(MEMORY), _other_memory)
    yield from _differing(before, after, "they were recorded otherwise, and recording slows the host", _fact(EXTRAS))
    yield from _drifting(before, after)


def _other_ranks(before: Side, after: Side) -> Iterator[str]:
    one, other = before.ranks[0], after.ranks[0]
    if _are_other_ranks(before, after) and not (_is_rank_sure(one) and _is_rank_sure(other)):
        yield f"they may be of different ranks: {one.rank} before, {other.rank} after, as numbers in their names say"
    of = [{(rank.rank, rank.device) for rank in side.run.ranks} for side in (before, after)]
    if len(before.ranks) < max(len(before.run.ranks), len(after.run.ranks)) and of[0] != of[1]:
        both = len({rank.rank for rank in before.ranks})
        waits = ", and what these waited for others counts as communication" if both > 1 else ""
        yield f"the ranks differ: {_ranks(before.run)} before, {_ranks(after.run)} after; {both} in both{waits}"


def _unread(before: Side, after: Side) -> Iterator[str]:
    lost = [{failure.path.replace("\\", "/").rsplit("/", 1)[-1] for failure in s.run.failures} for s in (before, after)]
    if lost[0] != lost[1]:
        summary = [f"{len(each)} ({min(each)})" if each else "0" for each in lost]
        yield f"files that could not be read: {summary[0]} before, {summary[1]} after"


def _other_shapes(before: Side, after: Side) -> Iterator[str]:
    """Of the calls that take longest in the one run, those that the other has with other shapes alone."""
    found: dict[str, tuple[str, str]] = {}
    for one, other in zip(before.ranks, after.ranks, strict=True):
        lines = [rank.facts.get(SHAPES, "").split("\n") for rank in (one, other)]
        if not all(lines[0]) or not all(lines[1]):
            continue
        alone = [_by_operator([line for line in mine if line not in theirs]) for mine, theirs in (lines, lines[::-1])]
        for operator in (line.partition(" ")[0] for line in (*lines[0][:_FIRST], *lines[1][:_FIRST])):
            if operator in alone[0] and operator in alone[1]:
                found.setdefault(operator, (alone[0][operator], alone[1][operator]))
    if found:
        operator, (one_shape, other_shape) = next(iter(found.items()))
        more = f", and {counted(len(found) - 1, 'more operator')}" if len(found) > 1 else ""
        yield f"the shapes differ: {operator} of {one_shape} before, of {other_shape} after{more}"


def _by_operator(lines: Sequence[str]) -> dict[str, str]:
    """Operator -> the shapes of its longest call."""
    return {operator: shapes for operator, _, shapes in (line.partition(" ") for line in reversed(lines))}


def _other_dtypes(before: Side, after: Side) -> Iterator[str]:
    yield from _differing(before, after, f"the {COLLECTIVE_DTYPES} differ", _fact(COLLECTIVE_DTYPES))
    for name in (OPERATOR_DTYPES, KERNEL_DTYPES):

        def differ(one: RankRun, other: RankRun, name: str = name) -> bool:
            share = [_percents(rank.facts.get(name, "")) for rank in (one, other)]
            return all(share) and any(
                max(s.get(dtype, 0) for s in share) >= _MUCH and min(s.get(dtype, 0) for s in share) < _NONE
                for dtype in share[0] | share[1]
            )

        yield from _differing(before, after, f"the {name} differ", _fact(name), differ)


def _percents(text: str) -> dict[str, int]:
    """Of "bf16 83 %, fp32 12 %"."""
    words = [each.split(" ") for each in text.split(", ") if each]
    return {word[0]: int(word[1]) for word in words}


def _other_work(before: Side, after: Side) -> Iterator[str]:
    num = _launches(before), _launches(after)
    what, much = ("a step launches", _OTHER_WORK) if before.steady.steps else ("the recording holds", _OTHER_RECORDING)
    if abs(num[1] - num[0]) > much * max(num):
        yield (
            f"{what} another number of kernels and copies: {num[0]:,.0f} before, {num[1]:,.0f} after; "
            "they were fused or split, or the work is another"
        )


def _other_memory(one: RankRun, other: RankRun) -> bool:
    """More apart than drivers set aside. Of another device it is no news."""
    summary = [rank.facts[MEMORY].split(" ") for rank in (one, other)]
    (low, unit), (high, other_unit) = sorted((float(number), unit) for number, unit in summary)
    return not _other_device(one, other) and (unit != other_unit or high - low > _SET_ASIDE * high)


def _launches(side: Side) -> float:
    is_work = pl.col("part").is_in(("compute", "exposed communication", "exposed memory"))
    return float(side.shares.filter(is_work).get_column("num").sum()) / max(1, side.num_cells)


def _drifting(before: Side, after: Side) -> Iterator[str]:
    """Steps that grow, or shrink, in the one run alone: it had not settled."""
    drift = _drift(before), _drift(after)
    if abs(drift[1] - drift[0]) > _DRIFT:
        summary = [signed(each) for each in drift]
        yield f"steps of a run drift, from its first half to its second: by {summary[0]} before, {summary[1]} after"


def _drift(side: Side) -> float:
    """By what part the second half of the steps is longer than the first; 0 where that may be chance."""
    spans = side.spans_ns if side.ranks else np.zeros(0)
    half = len(spans) // 2
    if half < 2 or not spans.any():
        return 0.0
    first, second = spans[:half], spans[len(spans) - half :]
    return float(second.mean() / first.mean() - 1) if mean_p(first[None], second[None])[0] < _SURE else 0.0


# --- one fact of many ranks, told once --------------------------------------------------------------------------------


def _source(rank: RankRun) -> str:
    return "simulated" if rank.simulated else "measured"


def _timed(rank: RankRun) -> str:
    return _BASES[rank.basis]


def _fact(name: str) -> Callable[[RankRun], str | None]:
    return lambda rank: rank.facts.get(name)


def _names(before: Side, after: Side, start: str) -> list[str]:
    return sorted({name for rank in (*before.ranks, *after.ranks) for name in rank.facts if name.startswith(start)})


def _differing(
    before: Side,
    after: Side,
    what: str,
    value: Callable[[RankRun], str | None],
    differ: Callable[[RankRun, RankRun], bool] | None = None,
    *,
    is_one_enough: bool = False,
) -> Iterator[str]:
    """A sentence where a fact differs between a rank and itself; with how many ranks, where it is not all.

    is_one_enough: whether a fact that one of the two does not tell differs from one that the other tells.
    """
    pairs = Counter[tuple[str, str]]()
    for one, other in zip(before.ranks, after.ranks, strict=True):
        summary = value(one), value(other)
        is_known = None not in summary or (is_one_enough and summary != (None, None))
        if is_known and (differ(one, other) if differ else summary[0] != summary[1]):
            pairs[summary[0] or _UNKNOWN, summary[1] or _UNKNOWN] += 1
    if pairs:
        (one_text, other_text), _ = pairs.most_common(1)[0]
        num = sum(pairs.values())
        on = f" (on {num} of {counted(len(before.ranks), 'rank')})" if num < len(before.ranks) else ""
        yield f"{what}: {_cut(one_text)} before, {_cut(other_text)} after{on}"


def _cut(text: str) -> str:
    """As much of a value as a sentence holds; all of it is among the facts."""
    return text if len(text) <= _MOST_TOLD else f"{text[: _MOST_TOLD - 1]}…"


def _facts(before: Side, after: Side) -> Iterator[tuple[str, str, str]]:
    yield "ranks", _ranks(before.run), _ranks(after.run)
    for name, of in (("world size", lambda s: str(_world(s) or "")), ("steps compared", _steps)):
        if any(summary := (of(before), of(after))):
            yield name, summary[0] or _UNKNOWN, summary[1] or _UNKNOWN
    yield "launches a step", f"{_launches(before):,.0f}", f"{_launches(after):,.0f}"
    yield "source", _each(before, _source), _each(after, _source)
    yield "timed", _each(before, _timed), _each(after, _timed)
    known = (DEVICE, SMS, MEMORY, VENDOR, BACKEND, OPERATOR_DTYPES, KERNEL_DTYPES, COLLECTIVE_DTYPES, DIGEST, EXTRAS,
             MACHINE)  # fmt: skip
    for name in (*known, DAMAGE, OVERLAPS, *_names(before, after, SETTING), *_names(before, after, VERSION)):
        one, other = _each(before, _fact(name)), _each(after, _fact(name))
        if one or other:
            nothing = "whole" if name == DAMAGE else _UNKNOWN
            yield name.removeprefix(SETTING).removeprefix(VERSION), one or nothing, other or nothing
    yield from _shapes_of_longest(before, after)


def _shapes_of_longest(before: Side, after: Side) -> Iterator[tuple[str, str, str]]:
    """Of the operator that takes longest before, the shapes of its longest call in both, on the first rank."""
    lines = [side.ranks[0].facts.get(SHAPES, "").split("\n") if side.ranks else [""] for side in (before, after)]
    operator = lines[0][0].partition(" ")[0]
    if operator and all(operator in _by_operator(each) for each in lines):
        yield f"shapes of {operator}", _by_operator(lines[0])[operator], _by_operator(lines[1])[operator]


def _each(side: Side, value: Callable[[RankRun], str | None]) -> str:
    """What most ranks tell; and how many tell something else."""
    summary = Counter(filter(None, (value(rank) for rank in side.ranks))).most_common()
    others = len(summary) - 1
    return f"{summary[0][0]} (and {counted(others, 'other')})" if others > 0 else summary[0][0] if summary else ""


def _steps(side: Side) -> str:
    num, dropped = len(side.steady.steps), len(side.steady.dropped)
    if not num:
        return "no steps, the whole recording"
    return counted(num, "step") if not dropped else f"{num} of {counted(num + dropped, 'step')}"


def _ranks(run: Run) -> str:
    """ "rank 0", "ranks 0-7": at most three stretches of numbers."""
    known = sorted({rank.rank for rank in run.ranks if rank.rank is not None})
    if not known:
        return counted(len(run.ranks), "rank") + " without a number" if run.ranks else "no rank"
    ends = [at for at, rank in enumerate(known) if at + 1 == len(known) or known[at + 1] != rank + 1]
    stretches = [(known[start], known[end]) for start, end in zip((0, *(e + 1 for e in ends)), ends, strict=False)]
    summary = [str(low) if low == high else f"{low}–{high}" for low, high in stretches]
    return ("rank " if len(known) == 1 else "ranks ") + ", ".join(summary[:3]) + (" ..." if len(summary) > 3 else "")
