"""Names that the shell completes, found without importing what they are the names of: a key press does not wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import weftrace

#: pipeline's schedules, by name; tests hold this and the words below against the values that they name.
SCHEDULES = (
    "gpipe", "1f1b", "interleaved", "zb1p", "zb2p", "zbv", "v-half", "v-min", "interleaved-zb", "dualpipe", "dualpipev",
    "interleaved-fb", "seq1f1b",
)  # fmt: skip
POLICIES, SPLITS = ("auto", "global", "hierarchical", "semi-hierarchical"), ("even", "uneven")
ESTIMATORS, SOLVERS = ("last", "ema", "mean", "risk"), ("deepseek", "balance", "balance+resplit", "replan")
#: Figures of `diff`'s gates, each with the sign that follows it.
FIGURES = (
    "span=", "compute=", "exposed=", "exposed:", "lateness=", "memory=", "idle=", "idle:", "communication=", "hidden=",
    "launches=", "family:", "kernel:", "operator:", "phase:", "rank:",
)  # fmt: skip
#: What `whatif` scales by name.
CLASSES = (
    "compute", "communication", "communication.data", "communication.barrier", "memory", "fused", "launch", "host",
)  # fmt: skip
#: Tables of `query`.
TABLES = (
    "events", "work", "gaps", "idle", "phases", "steps", "collectives", "kernels", "operators", "shapes", "queue",
    "ranks",
)  # fmt: skip

#: From what is typed so far to what it may become; it may ask for the context, too.
Complete = Callable[..., list[str]]


def among(*words: str) -> Complete:
    """Completion from words. The name of the argument matters: Typer looks at it."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def listed(*words: str) -> Complete:
    """Completion of lists of words with commas, after the last comma."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in among(*words)(last)]

    return complete


def ids_of_rules(incomplete: str) -> list[str]:
    """Rules of `advise`, after the last comma."""
    return listed(*_values("advice/findings/rules.toml", "id"), "all")(incomplete)


def families() -> list[str]:
    """Families of kernels that weftrace's rules name."""
    return sorted(set(_values("trace/kernels.toml", "family")))


def _values(file: str, key: str) -> list[str]:
    """The values of a key in the tables of one of weftrace's TOML files, in their order."""
    text = (Path(weftrace.__file__).parent / file).read_text("utf-8")
    return re.findall(rf'^{key} = "([^"]+)"', text, re.MULTILINE)
