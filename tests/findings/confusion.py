"""Prints which planted causes the advice finds, what it finds besides, and how right the gains are that it tells.

python -m tests.findings.confusion [--markdown] [--of MODULE] [--only REGEX] [--every N] [--offset K] [--show]

A cause is found where it is among the first three findings. Remarks (warm-up in the sample, unrecorded work, missing
ranks, leave it) take no place among the three unless they were planted. A gain is right where the simulation with the
cause removed lies in the interval that was told, or within 3 points of it.
"""

from __future__ import annotations

import argparse
import importlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.findings.planted import Case

REMARKS = frozenset({"warm-up-in-sample", "unrecorded-work", "ranks-missing", "leave-it"})
PLACES = 3
POINTS = 0.03
GENERATORS = ("tests.findings.planted", "tests.findings.planted_jobs")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the advice says: a rule, and between which shares of the span its remedy saves; None: no gain is told."""

    rule: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A case and what was told of it, in order; failed: why nothing was.

    found: planted causes in their places. missed: the others. false: rules told that are neither planted nor true too,
    remarks aside. right, wrong, untold: planted causes by the gain that was told.
    """

    case: Case
    told: tuple[Told, ...]
    found: frozenset[str]
    missed: frozenset[str]
    false: frozenset[str]
    right: frozenset[str]
    wrong: frozenset[str]
    untold: frozenset[str]
    failed: str = ""


def judge(case: Case, told: Sequence[Told], failed: str = "") -> Judged:
    """Compares what was told with what was planted."""
    ranked = [one.rule for one in told if one.rule not in REMARKS or one.rule in case.causes]
    found = case.causes & (set(ranked[:PLACES]) | (REMARKS & set(ranked)))
    first = {one.rule: one for one in reversed(told)}
    right: set[str] = set()
    wrong: set[str] = set()
    untold: set[str] = set()
    for rule, gain in case.gain.items():
        one = first.get(rule)
        if one is None:
            continue
        if one.low is None or one.high is None:
            untold.add(rule)
        else:
            (right if one.low - POINTS <= gain <= one.high + POINTS else wrong).add(rule)
    return Judged(
        case=case,
        told=tuple(told),
        found=found,
        missed=case.causes - found,
        false=frozenset(ranked) - case.causes - case.also_fine - REMARKS,
        right=frozenset(right),
        wrong=frozenset(wrong),
        untold=frozenset(untold),
        failed=failed,
    )


def advised(path: Path) -> list[Told]:
    """What the advice says of a trace or a folder of traces."""
    advise: Callable[..., Any] = importlib.import_module("weftrace.advice").advise
    return [
        Told(rule=found.rule, low=found.gain_low_share, high=found.gain_high_share) for found in advise(path).findings
    ]


def all_cases(names: Sequence[str], every: int, offset: int) -> Iterator[Case]:
    """Those of one process, then those of jobs, where these are there."""
    for name in names:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            print(f"{name} is not there: its cases are left out.")
            continue
        yield from module.cases(every=every, offset=offset)


def judge_all(chosen: argparse.Namespace) -> Iterator[Judged]:
    for case in all_cases(chosen.of or GENERATORS, chosen.every, chosen.offset):
        if not re.search(chosen.only, case.name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = case.write(Path(folder))
            try:
                yield judge(case, advised(path))
            except Exception as error:  # a case that fails is counted, and the others are judged
                yield judge(case, [], failed=f"{type(error).__name__}: {error}")


HEADS = ("rule", "planted", "in the first three", "missed", "false elsewhere", "gain told", "gain right")


def table(judged: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    """A row for each rule: how often it was planted, found, missed, told where it is not true; its gains."""
    rules = dict.fromkeys(rule for one in judged for rule in sorted(one.case.causes | one.false))
    for rule in rules:
        counts = {
            name: sum(rule in getattr(one, name) for one in judged)
            for name in ("found", "missed", "false", "right", "wrong")
        }
        told = counts["right"] + counts["wrong"]
        planted = counts["found"] + counts["missed"]
        yield (
            rule, f"{planted}", f"{counts['found']}", f"{counts['missed']}", f"{counts['false']}", f"{told}",
            f"{counts['right']}",
        )  # fmt: skip


def summary(judged: Sequence[Judged]) -> Iterator[str]:
    """The sums, in sentences."""
    planted = sum(len(one.case.causes) for one in judged)
    found = sum(len(one.found) for one in judged)
    if planted:
        yield f"{found} of {planted} planted causes ({found / planted:.1%}) are among the first three findings."
    told = sum(len(one.right | one.wrong) for one in judged)
    if told:
        right = sum(len(one.right) for one in judged)
        untold = sum(len(one.untold) for one in judged)
        yield f"{right} of {told} gains told ({right / told:.1%}) are right; of {untold} causes found no gain is told."
    healthy = [one for one in judged if not one.case.causes]
    if healthy:
        false = Counter(rule for one in healthy for rule in one.false)
        names = ", ".join(f"{rule} {num}" for rule, num in false.most_common()) or "none"
        total = sum(false.values())
        in_ten = 10 * total / len(healthy)
        yield f"{total} false findings in {len(healthy)} healthy traces ({in_ten:.1f} in ten): {names}."
    if failed := [one for one in judged if one.failed]:
        yield f"{len(failed)} cases failed, first {failed[0].case.name}: {failed[0].failed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="the table for the docs")
    parser.add_argument("--only", default="", help="a regular expression: cases whose name matches")
    parser.add_argument("--of", action="append", choices=GENERATORS, help="a module with cases; otherwise all")
    parser.add_argument("--every", type=int, default=1, help="every N-th case")
    parser.add_argument("--offset", type=int, default=0, help="from the K-th case on")
    parser.add_argument("--show", action="store_true", help="each case with a miss, a false finding or a wrong gain")
    chosen = parser.parse_args()
    if not hasattr(importlib.import_module("weftrace.advice"), "advise"):
        print("weftrace.advice has no advise yet: nothing can be judged.")
        return 2
    judged: list[Judged] = []
    for one in judge_all(chosen):
        judged.append(one)
        if chosen.show and (one.missed or one.false or one.wrong or one.failed):
            print(shown(one), flush=True)
    rows = list(table(judged))
    if chosen.markdown:
        for row in (HEADS, ("---",) * len(HEADS), *rows):
            print("| " + " | ".join(row) + " |")
    else:
        widths = [max(len(row[column]) for row in (HEADS, *rows)) for column in range(len(HEADS))]
        for row in (HEADS, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()
    for sentence in summary(judged):
        print(sentence)
    return 0


def shown(one: Judged) -> str:
    """A case that went wrong, in three lines."""
    told = ", ".join(
        found.rule if found.low is None or found.high is None else f"{found.rule} {found.low:.1%}..{found.high:.1%}"
        for found in one.told
    )
    gains = ", ".join(f"{rule} {gain:.1%}" for rule, gain in one.case.gain.items())
    faults = {"missed": one.missed, "false": one.false, "wrong gain": one.wrong}
    wrong = "; ".join(f"{name} {', '.join(sorted(rules))}" for name, rules in faults.items() if rules)
    return f"{one.case.name}: {one.failed or wrong}\n    told: {told}\n    true: {gains}"


if __name__ == "__main__":
    raise SystemExit(main())
