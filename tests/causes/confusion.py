"""Prints which planted causes of idle time weftrace names, and with what it confuses the others.

python -m tests.causes.confusion [--markdown] [--only REGEX] [--every N] [--offset N] [--show]

A case (planted.py) is right where the account names the planted cause first, the headline names it, parts and causes
add up to the idle time, which is that of the simulator to the nanosecond, and no remedy is named that would not help.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weftrace as wt
from tests.causes.planted import Case, Made, cases, make
from tests.causes.recorder import save

PARTS = ("host_ns", "call_ns", "launch_latency_ns", "turnaround_ns", "held_ns", "unrecorded_ns", "unknown_ns")
#: Where a document may say what to do.
SPOKEN = re.compile(r"^(headline|answer|first|verdict|sentences?|findings?|why|summary|notes|lateness|slow_work)$")
#: Idle time below this share of the span needs no cause.
LEAST_IDLE = 0.05


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What weftrace said of a case, and what of it is wrong; nothing: the case is right."""

    case: Case
    first: str
    headline: str
    wrong: tuple[str, ...]


def judge(case: Case, folder: Path) -> Judged:
    """Runs a case, reports on its file, and compares."""
    made = make(case)
    path = folder / "planted.json.gz"
    save(made.world, made.recording, path)
    document: Any = reported(path)
    rank = document["ranks"][0]
    account = rank["idle_account"]
    headline = document["headline"]
    busy_enough = account["idle_ns"] < LEAST_IDLE * rank["span_ns"]
    first = "none" if busy_enough else account["causes"][0]["cause"]
    truth = case.truth
    wrong = [*wrong_sums(account, made)]
    queued = truth.queued and made.cut["queued"] > made.cut["host"] + made.cut["call"]
    if first not in truth.causes and not (queued and first == "turnaround"):
        wrong.append(f"first is {first}")
    wrong += [f"headline without /{word}/" for word in truth.words if not re.search(word, headline, re.IGNORECASE)]
    spoken = " ".join(strings(document))
    found = [re.search(remedy, spoken, re.IGNORECASE) for remedy in truth.wrong]
    wrong += [f"says «{match.group(0)}»" for match in found if match]
    return Judged(case=case, first=first, headline=headline, wrong=tuple(wrong))


def reported(path: Path) -> Any:
    """The document that `weftrace report --json` prints."""
    from weftrace.report import analyze

    return analyze(wt.open(str(path), frames=True)).document


def wrong_sums(account: Any, made: Made) -> Iterator[str]:
    """What does not add up."""
    if account["idle_ns"] != made.idle_ns:
        yield f"idle {account['idle_ns']} ns, simulated {made.idle_ns} ns"
    if sum(account[part] for part in PARTS) != account["idle_ns"]:
        yield "parts do not add up"
    if sum(row["ns"] for row in account["causes"]) != account["idle_ns"]:
        yield "causes do not add up"


def strings(document: Any) -> Iterator[str]:
    """What a document says in words where it may say what to do."""
    for key, value in document.items():
        if SPOKEN.match(key):
            yield from words_in(value)
        elif key == "ranks":
            for rank in value:
                yield from strings(rank)


def words_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from words_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_in(inner)


def table(judged: list[Judged]) -> Iterator[tuple[str, str, str, str, str]]:
    """A row for each planted cause: cases, how many are right, what the account named first, what was wrong."""
    for family in dict.fromkeys(one.case.family for one in judged):
        of_it = [one for one in judged if one.case.family == family]
        right = sum(not one.wrong for one in of_it)
        firsts = Counter(one.first for one in of_it).most_common()
        wrong = Counter(reason for one in of_it for reason in one.wrong if not reason.startswith("first is"))
        yield (
            family,
            f"{len(of_it)}",
            f"{right}",
            ", ".join(f"{name} {num}" for name, num in firsts),
            "; ".join(f"{reason} ({num})" for reason, num in wrong.most_common(3)),
        )


HEADS = ("planted", "cases", "right", "first in the account", "also wrong")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="the table for docs/idle.md")
    parser.add_argument("--only", default="", help="a regular expression: cases whose description matches")
    parser.add_argument("--every", type=int, default=1, help="every N-th case of those")
    parser.add_argument("--offset", type=int, default=0, help="other noise for each number")
    parser.add_argument("--show", action="store_true", help="each wrong case, with its headline")
    chosen = parser.parse_args()
    judged: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in [case for case in cases(chosen.offset) if re.search(chosen.only, str(case))][:: chosen.every]:
            one = judge(case, Path(folder))
            judged.append(one)
            if chosen.show and one.wrong:
                print(f"{case}: {'; '.join(one.wrong)}\n    {one.headline}", flush=True)
    right = sum(not one.wrong for one in judged)
    rows = list(table(judged))
    if chosen.markdown:
        for row in (HEADS, ("---",) * len(HEADS), *rows):
            print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    else:
        widths = [max(len(row[column]) for row in (HEADS, *rows)) for column in range(len(HEADS))]
        for row in (HEADS, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"\n{right} of {len(judged)} cases are right ({right / max(1, len(judged)):.1%}).")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
