"""What changed, in sentences: the first names the largest change of a step and its cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.idle_causes import TOLD_APART
from weftrace.analysis.waiting.cause_words import WORDS
from weftrace.comparison.diffs import Diff
from weftrace.comparison.exact_changes import summed
from weftrace.comparison.noise import is_noise
from weftrace.comparison.runs import WAITING
from weftrace.comparison.sides import Side
from weftrace.files.values import filled
from weftrace.units import duration, percent, signed, signed_duration

#: By what a kernel's own time changes, see `changes_of`.
EFFECTS = ("number", "duration", "overlap", "kernel")

_MOST_CAUSES = 6
_WORTH = 0.02  # of the sum of all causes' sizes: a smaller cause is not told
_BESIDE = 0.25  # of the largest cause: a cause the other way that is larger is told with it
_LEADS = 2.0  # times the next effect: then one effect alone is told
_ALL = 0.9  # of a part's change: a family with more of it is told in its place
_REST = 0.1  # of a family that changed more than its part: what is left to make up for it is told
_MOST = 0.5  # and one with more than this beside it
_SEEN = 0.02  # of a step: of what is within the noise, a change that is larger is told all the same, as such
_SAME = 0.0005  # of a step: what changes by less is "as long"

_IDLE = {
    "host_wait": "idle time in which the host had launched nothing",
    "dependency_wait": "idle time in which queued work waited for an event or another stream",
    "kernel_gap": "idle time between kernels that follow each other",
    "unknown": "idle time of unknown cause",
    **{cause: f"idle time in which the device waited for {WORDS[cause]}" for cause in TOLD_APART},
    "unrecorded": "time in which work ran that was not recorded",
    "file_cut": "time that was cut from the file",
}


_GROUPS = ("part", "cause", "family")
_By = Literal["family", "ranks", "most", "cause"] | None
_COMMUNICATES = (pl.col("kind") == "communication") & (pl.col("part") == "exposed communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change of one part by one family of kernels. Times in ns of a step.

    part, cause: as in `Diff.changes`. family: of the kernels; of idle time, of those that end the gaps; None of waiting
    for late ranks. change_ns: of their own time. effect: by what most of it is (`EFFECTS`); None where no effect leads.
    """

    part: str
    cause: str | None
    family: str | None
    change_ns: int
    effect: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(_Change):
    """A change with its effect. sentence: all of it in words, without a full stop."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary(_Change):
    """A cause that is still to be put in words. values: `CHANGE_COLUMNS` of it. each: of what numbers are told."""

    values: dict[str, Any]
    each: str


def headline(diff: Diff) -> str:
    """The result in a sentence or two."""
    verdict = diff.verdict
    if verdict.word == "not comparable":
        reason = verdict.reasons[0] if verdict.reasons else "they differ"
        spans = f" Their steps take {duration(diff.spans[0].median_ns)} and {duration(diff.spans[1].median_ns)}."
        return f"Not comparable: {reason}. No cause is given.{spans if min(_medians(diff)) else ''}"
    summary = causes(diff)
    unseen = tuple(_unseen(diff))
    if not (summary or diff.change_ns or unseen):
        return f"Nothing changed: {_step(diff)} takes {duration(diff.spans[0].median_ns)} in both."
    lead = _length(diff)
    if diff.is_noise:
        if not (found := [each for each in summary if _is_sure(diff, each)]):
            most = _because(diff, summary) if abs(diff.change_ns) >= _SEEN * max(1, diff.spans[0].median_ns) else ""
            noise = f"Within the noise: {lead[0].lower()}{lead[1:]}, and steps of one run differ by as much."
            return " ".join((f"{noise} What differs most{most}." if most else noise, *unseen))
        but = f"{lead}, which is within the noise; but {found[0].sentence}{_against(found)}."
        return " ".join((but, *unseen))
    return " ".join((f"{lead}{_because(diff, summary)}.", *unseen, *_unsure(diff)))


def _against(found: list[Cause]) -> str:
    """Of causes that are sure, the largest that makes up for the first."""
    first = found[0].change_ns
    for each in found[1:]:
        if each.change_ns * first < 0 and abs(each.change_ns) >= _BESIDE * abs(first):
            return f"; against it, {each.sentence}"
    return ""


def causes(diff: Diff, most: int = _MOST_CAUSES) -> tuple[Cause, ...]:
    """The changes by part and family of kernels, the largest first, but for those that are too small to matter.

    Idle time of one cause that became idle time of another is told by what is left of it, without a cause.
    """
    net, gross = (each.sum().over("part", "family") for each in (pl.col("change_ns"), pl.col("change_ns").abs()))
    is_another = (pl.col("part") == "idle") & (net.abs() < _MOST * gross)
    by_cause = diff.by(*_GROUPS).with_columns(pl.when(~is_another).then("cause").alias("cause"))
    no_family = pl.when(pl.col("part") != WAITING).then("family").alias("family")  # of which collective is no matter
    groups = summed(by_cause.with_columns(no_family), _GROUPS).filter(pl.col("change_ns") != 0)
    whole = max(1, int(groups.get_column("change_ns").abs().sum()))
    large = groups.filter(pl.col("change_ns").abs() >= _WORTH * whole).head(most)
    return tuple(_cause(diff, row) for row in large.iter_rows(named=True))


def _cause(diff: Diff, row: dict[str, Any]) -> Cause:
    effects = sorted(((row[f"by_{name}_ns"], name) for name in EFFECTS), key=lambda each: -abs(each[0]))
    (first_ns, first), (second_ns, _) = effects[:2]
    leads = abs(first_ns) >= _LEADS * abs(second_ns) and first_ns * row["change_ns"] > 0
    changes = diff.changes.filter(*(pl.col(name).eq_missing(row[name]) for name in _GROUPS))
    own = {name: row[name] for name in (*_GROUPS, "change_ns")}
    each = " a step" if _has_steps(diff) else ""
    summary = _Summary(**own, effect=first if leads else None, values=row, each=each)
    return filled(Cause, summary, sentence=_sentence(summary, changes))


def _sentence(summary: _Summary, changes: pl.DataFrame) -> str:
    size = signed_duration(summary.change_ns)
    more = "more" if summary.change_ns > 0 else "less"
    family = _named(summary.family)
    if summary.part == WAITING:
        is_gone = summary.values["after_ns"] < _REST * summary.values["before_ns"]
        late = f"which {'was' if is_gone else 'is'} late"
        return f"ranks wait {duration(abs(summary.change_ns))} {more} for {summary.cause}, {late}"
    if summary.part == "idle":
        return f"{_part_words('idle', summary.cause)}, before {family} kernels: {size}{_how(summary, 'gap')}"
    what = {"compute": f"{family} kernels", "exposed communication": f"exposed {family}"}.get(
        summary.part, f"copies ({family}) with no kernel beside them"
    )
    if summary.cause == "barrier" and summary.family != "barrier":
        what += " (waiting, no data)"
    if summary.effect == "kernel":
        return f"{what} {size}: {_other_kernels(changes)}"
    return f"{what} {size}{_how(summary, 'kernel')}"


def _how(summary: _Summary, noun: str) -> str:
    """By what: number, duration or overlap, with the values of both sides."""
    values = summary.values
    n0, n1 = values["before_num"], values["after_num"]
    if summary.effect == "number":
        return f", {_count(n0)} → {_count(n1)} {noun}s{summary.each}"
    if summary.effect == "duration" and n0 and n1:
        mean0, mean1 = values["before_raw_ns"] / n0, values["after_raw_ns"] / n1
        length = "take" if noun == "kernel" else "last"
        return f", they {length} {_as_long(mean0, mean1)}" if mean0 else ""
    if summary.effect == "overlap":
        raw0, raw1 = values["before_raw_ns"], values["after_raw_ns"]
        if summary.part == "compute":
            return f", they run {'less' if summary.change_ns > 0 else 'more'} beside other kernels"
        hidden = [_hidden(values[f"{side}_ns"], values[f"{side}_raw_ns"]) for side in ("before", "after")]
        more = (
            f", {'less' if summary.change_ns > 0 else 'more'} of it hidden: {percent(hidden[0])} → {percent(hidden[1])}"
        )
        if not (n0 and n1 and raw0):
            return more
        return f"{more}, the kernels take {_as_long(raw0 / n0, raw1 / n1, same='as long as before')}"
    return "".join(_all_effects(summary, noun))


def _all_effects(summary: _Summary, noun: str) -> Iterator[str]:
    """Where no effect leads: all that differ much."""
    values = summary.values
    n0, n1, raw0, raw1 = (values[name] for name in ("before_num", "after_num", "before_raw_ns", "after_raw_ns"))
    if summary.effect is not None or min(n0, n1, raw0, raw1) <= 0:
        return
    if abs(n1 - n0) >= _REST * n0:
        yield f", {_count(n0)} → {_count(n1)} {noun}s{summary.each}"
    if abs(raw1 / n1 - raw0 / n0) >= _REST * raw0 / n0:
        yield f", they {'take' if noun == 'kernel' else 'last'} {_as_long(raw0 / n0, raw1 / n1)}"
    hidden = _hidden(values["before_ns"], raw0), _hidden(values["after_ns"], raw1)
    if summary.part == "exposed communication" and abs(hidden[1] - hidden[0]) >= _SEEN:
        yield f", {percent(hidden[0])} → {percent(hidden[1])} of it hidden"


def _hidden(own_ns: int, raw_ns: float) -> float:
    """The share that is hidden; own_ns is rounded, so it may be more than raw_ns."""
    return max(0.0, 1 - own_ns / raw_ns) if raw_ns else 1.0


def _other_kernels(changes: pl.DataFrame) -> str:
    """Kernels in each other's place, or such as are new or gone: what most of their time is."""
    alone = changes.filter(pl.col("by_kernel_ns") != 0)
    by_status = alone.group_by("status").agg(pl.col("by_kernel_ns").abs().sum()).sort("by_kernel_ns", "status")
    names = {
        side: alone.group_by("status", "kernel").agg(pl.col(f"{side}_ns").sum()).filter(pl.col(f"{side}_ns") > 0)
        .sort(f"{side}_ns", "kernel", descending=[True, False])
        for side in ("before", "after")
    }  # fmt: skip
    replaced = [names[side].filter(status="replaced") for side in ("before", "after")]
    if by_status.item(-1, "status") == "replaced" and all(each.height for each in replaced):
        gone, new = (_short(each.item(0, "kernel")) for each in replaced)
        return f"other kernels of the same operators do it, {new} for {gone}"
    summary = []
    for side, status in (("after", "new"), ("before", "gone")):
        own = names[side]
        if own.height and status in by_status.get_column("status"):
            own = own.filter(status=status)
            summary.append(f"{_short(own.item(0, 'kernel'))}{' and others' if own.height > 1 else ''} {status}")
    return ", ".join(summary) or "other kernels"


def _length(diff: Diff) -> str:
    """A step takes so much longer."""
    before, after = _medians(diff)
    change, subject = after - before, _step(diff)
    subject = subject[0].upper() + subject[1:]
    spans = f"{duration(before)} → {duration(after)}"
    if abs(change) < _SAME * max(before, 1):
        return f"{subject} takes as long as before ({spans})"
    relative = f", {signed(change / before)}" if before else ""
    return f"{subject} takes {duration(abs(change))} {'longer' if change > 0 else 'less'} ({spans}{relative})"


def _because(diff: Diff, summary: tuple[Cause, ...]) -> str:
    """The part that changed most in the direction of the step, and the largest against it where it matters."""
    parts = diff.by("part").filter(pl.col("change_ns") != 0)
    if parts.is_empty():
        return ""
    is_same = abs(diff.change_ns) < _SAME * max(1, diff.spans[0].median_ns)
    along = parts.filter(pl.col("change_ns") * (0 if is_same else diff.change_ns) > 0)
    lead = (along if along.height else parts).row(0, named=True)
    against = parts.filter(pl.col("change_ns") * lead["change_ns"] < 0)
    sentence = f": {_part_sentence(_explained(diff, lead, summary))}"
    if against.height and abs(against.item(0, "change_ns")) >= _BESIDE * abs(lead["change_ns"]):
        sentence += f"; against it, {_part_sentence(_explained(diff, against.row(0, named=True), summary))}"
    return sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """A part's change and what explains it.

    by: "family" where one has nearly all of it or more, "ranks" where several are late, "most" where one family has
    more than half of its one cause, "cause" where one cause of idle time has more than half, else None. cause,
    cause_ns: what it is nearly all of, or by what it is explained. first: the largest family.
    """

    part: str
    change_ns: int
    by: _By
    cause: str | None
    cause_ns: int
    first: Cause | None


def _explained(diff: Diff, row: dict[str, Any], causes: tuple[Cause, ...]) -> _Explained:
    """Idle time of one cause may become that of another without a change of its length: then nothing explains it."""
    part, change_ns = row["part"], row["change_ns"]
    cause, cause_ns = diff.by("part", "cause").filter(part=part).select("cause", "change_ns").row(0)
    is_one = _ALL <= cause_ns / change_ns <= 1 / _ALL
    own = [each for each in causes if each.part == part and each.change_ns * change_ns > 0]
    own = [each for each in own if not is_one or each.cause == cause]
    of_first = own[0].change_ns / change_ns if own else 0.0
    by: _By = None
    if of_first >= _ALL and (is_one or part != "idle"):
        by = "family"
    elif part == WAITING:
        by = "ranks"
    elif of_first >= _MOST and is_one:
        by = "most"
    elif part == "idle" and _MOST <= cause_ns / change_ns < _ALL:
        by = "cause"
    return _Explained(
        part=part, change_ns=change_ns, by=by, cause=cause if is_one or by == "cause" else None, cause_ns=cause_ns,
        first=own[0] if own else None,
    )  # fmt: skip


def _part_sentence(summary: _Explained) -> str:
    """Where a family has more than all of a part's change, what the others make up for is told."""
    whole, name, first = _part_words(summary.part, None), _part_words(summary.part, summary.cause), summary.first
    if summary.by == "family" and first:
        rest_ns = summary.change_ns - first.change_ns
        beside = f" (other {whole} {signed_duration(rest_ns)})"
        return first.sentence + beside * (abs(rest_ns) >= _REST * abs(first.change_ns))
    if summary.by == "ranks":
        more = "more" if summary.change_ns > 0 else "less"
        most = f", most for {first.cause}: {signed_duration(first.change_ns)}" if first else ""
        return f"ranks wait {duration(abs(summary.change_ns))} {more} for late ones{most}"
    if summary.by == "cause":
        return f"{whole} {signed_duration(summary.change_ns)}, most of it {name} {signed_duration(summary.cause_ns)}"
    words = f"{name} {signed_duration(summary.change_ns if name == whole else summary.cause_ns)}"
    if summary.by == "most" and first:
        before = first.sentence.removeprefix(f"{name}, ")  # of idle time, before which kernels
        return f"{words}, most of it{' ' if before != first.sentence else ': '}{before}"
    return words


def _part_words(part: str, cause: str | None) -> str:
    if part == "idle":
        return _IDLE.get(cause or "", "idle time")
    if part == WAITING:
        return "waiting for late ranks"
    if part == "exposed communication" and cause == "barrier":
        return "exposed communication kernels that wait and move nothing"
    return {"exposed memory": "copies with no kernel beside them"}.get(part, part)


def _unseen(diff: Diff) -> Iterator[str]:
    """What lies behind computation, so that the step tells nothing of it: communication that takes much longer, or
    shorter; and waiting for a late rank, which leaves less computation to hide other communication behind."""
    yield from _unseen_waits(diff)
    rows = diff.changes.filter(_COMMUNICATES)
    rows = rows.group_by("family").agg(pl.col(r"^(before|after)_(num|raw_ns)$", "change_ns").sum())
    for name, side in (("before", diff.before), ("after", diff.after)):
        rows = rows.join(_behind(side, f"{name}_hidden_ns"), on="family", how="left")
    means = [pl.col(f"{side}_raw_ns") / pl.col(f"{side}_num") for side in ("before", "after")]
    more = (means[1] - means[0]) * pl.col("before_num")
    rows = rows.filter(pl.col("before_num") > 0, pl.col("after_num") > 0).with_columns(
        times=means[1] / means[0], more=more
    )
    much = max(1.0, _SEEN * diff.spans[0].median_ns)
    unseen = (pl.col("change_ns").abs() < _REST * pl.col("more").abs()) & (pl.col("more").abs() >= much)
    hidden0, hidden1 = pl.col("before_hidden_ns"), pl.col("after_hidden_ns")
    is_hidden = (hidden0 >= _REST * pl.col("before_raw_ns")) & (hidden1 >= _REST * pl.col("after_raw_ns"))
    changed = (hidden1 / pl.col("after_num") - hidden0 / pl.col("before_num")) * pl.col("before_num")
    is_all = changed / pl.col("more") >= _MOST  # not time beside its like, which a union does not count
    rows = rows.filter(unseen & is_hidden & is_all, (pl.col("times") - 1).abs() >= _REST)
    rows = rows.sort(pl.col("more").abs(), descending=True)
    for family, times in rows.select("family", "times").head(1).iter_rows():
        yield f"Behind computation, {_named(family)} kernels take {times:.2f} times as long."


def _behind(side: Side, name: str) -> pl.DataFrame:
    """By family, how long its communication ran behind computation in a step."""
    hidden = (pl.col("union_ns") - pl.col("own_ns")).sum() / max(1, side.num_cells)
    return side.shares.filter(_COMMUNICATES).group_by("family").agg(hidden.alias(name))


def _unseen_waits(diff: Diff) -> Iterator[str]:
    """Where more, or less, of communication is exposed as ranks wait more, or less, for one behind computation. Not
    where their exposed waiting is larger, for then that is told."""
    exposed = diff.by("part").filter(part="exposed communication").select("change_ns", "by_overlap_ns").sum()
    (exposed_ns, by_overlap_ns) = exposed.row(0)
    if abs(exposed_ns) < _SEEN * diff.spans[0].median_ns or by_overlap_ns * exposed_ns < _MOST * exposed_ns**2:
        return
    hidden = pl.col("after_raw_ns") - pl.col("before_raw_ns") - pl.col("change_ns")
    waits = diff.by("part", "cause").filter(pl.col("part") == WAITING).with_columns(hidden.alias("hidden_ns"))
    waits = waits.sort(pl.col("hidden_ns").abs(), descending=True, maintain_order=True)
    for row in waits.head(1).iter_rows(named=True):
        if abs(row["change_ns"]) < abs(exposed_ns) and row["hidden_ns"] * exposed_ns >= _MOST * exposed_ns**2:
            is_more = row["hidden_ns"] > 0
            late = "was" if row["after_raw_ns"] < _REST * row["before_raw_ns"] else "is"
            yield (
                f"Behind computation, ranks wait {duration(abs(row['hidden_ns']))} {'more' if is_more else 'less'} "
                f"for {row['cause']}, which {late} late: that leaves {'less' if is_more else 'more'} of it to hide "
                "other communication."
            )


def _unsure(diff: Diff) -> Iterator[str]:
    if diff.is_noise is None:
        if not _has_steps(diff):
            yield "The files record no steps: each is taken as one, and noise is not known."
        else:
            numbers = [spread.num_steps for spread in diff.spans]
            one = (
                "One step of each" if numbers == [1, 1] else f"The one step {'before' if numbers[0] == 1 else 'after'}"
            )
            yield f"{one} shows nothing about noise."


def _is_sure(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is more than noise, asked of all causes at once."""
    number = diff.changes.select(_GROUPS).n_unique()
    names = [name for name in _GROUPS if name != "cause" or cause.cause or cause.part != "idle"]
    names = [name for name in names if name != "family" or cause.part != WAITING]
    one, other = (
        side.shares.filter(*(pl.col(name).eq_missing(getattr(cause, name)) for name in names))
        for side in (diff.before, diff.after)
    )
    steps = [_of_steps(side, rows) for side, rows in ((diff.before, one), (diff.after, other))]
    return is_noise(*steps, num_asked=number) is False


def _of_steps(side: Side, rows: pl.DataFrame) -> NDArray[np.float64]:
    return replace(side, shares=rows).spans_ns


def _has_steps(diff: Diff) -> bool:
    return bool(diff.before.steady.steps and diff.after.steady.steps)


def _step(diff: Diff) -> str:
    return "a step" if _has_steps(diff) else "the recording"


def _medians(diff: Diff) -> tuple[int, int]:
    return diff.spans[0].median_ns, diff.spans[1].median_ns


def _as_long(before: float, after: float, same: str = "") -> str:
    """ "1.30 times as long". same: what is said where no difference would be seen; else more digits are told."""
    ratio = after / before
    seen = f"{ratio:.2f}"
    if seen == "1.00":
        return same or f"{ratio:.4f} times as long"
    return f"{seen} times as long"


def _count(number: float) -> str:
    return f"{number:,.0f}" if abs(number - round(number)) < 0.005 else f"{number:,.1f}"


def _named(family: str | None) -> str:
    return "unnamed" if family is None else family.replace("_", "-")


def _short(kernel: str, most: int = 48) -> str:
    name = kernel.removeprefix("void ").split("(")[0].rstrip()
    return name if len(name) <= most else f"{name[: most - 1]}…"
