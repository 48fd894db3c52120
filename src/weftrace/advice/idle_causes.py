"""What the host did while the device waited, where the host decides: from the one account of idle time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from weftrace.advice.critical_paths import CriticalPath
from weftrace.analysis import idle_account
from weftrace.analysis.waiting.cause_words import LAUNCH_BOUND, WORDS
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, percent

_WORTH = 0.15  # of idle time: a cause that is named
_MOST = 3
_FITS = 0.5  # of idle time in launching small operators: from here on a captured graph is a remedy for most of it
_SHORT_NS = 1_000_000  # Python code in longer stretches is work of its own, and no part of launching


def why_idle(inferred: Inferred, path: CriticalPath) -> str:
    """A sentence with the largest causes of idle time, where the host or launching decides; empty elsewhere."""
    if not path.span_ns or path.by_class.item(0, "name") not in ("host", "launch"):
        return ""
    causes = _causes(inferred)
    idle = int(causes.get_column("ns").sum())
    largest = causes.filter(pl.col("ns") >= _WORTH * idle).head(_MOST)
    if largest.is_empty():
        return ""
    words = [f"{duration(ns)} for {WORDS[cause]}" for cause, ns in largest.select("cause", "ns").rows()]
    return f" The device waited {duration(idle)}: {', '.join(words)}."


def of_host_gaps(inferred: Inferred) -> Iterator[str]:
    """What an answer without gaps of the host is worth: what could come near to it, as far as idle time is of that."""
    causes = _causes(inferred)
    idle = int(causes.get_column("ns").sum())
    is_launching = pl.col("cause").is_in(LAUNCH_BOUND) & (
        (pl.col("cause") != "python") | (pl.col("main_ns") < _SHORT_NS)
    )
    launching = int(causes.filter(is_launching).get_column("ns").sum())
    if not idle:
        yield "no host is that fast."
    elif launching >= _FITS * idle:
        yield (
            f"no host is that fast; {percent(launching / idle, 0)} of idle time is launching of small operators, and "
            "for that a captured graph comes near to it."
        )
    else:
        cause = causes.filter(~is_launching).item(0, "cause")
        yield f"no host is that fast, and most idle time is not launching: the largest cause is {WORDS[cause]}."


def _causes(inferred: Inferred) -> pl.DataFrame:
    """cause, ns, main_ns of the idle time of all devices, the largest first."""
    each = [idle_account(work).causes for work in inferred.works if work.basis == "device"]
    schema = {"cause": pl.String(), "ns": pl.Int64(), "main_ns": pl.Int64()}
    rows = pl.concat([pl.DataFrame(schema=schema), *(frame.select(*schema) for frame in each)])
    causes = rows.group_by("cause").agg(pl.col("ns").sum(), pl.col("main_ns").max())
    return causes.sort("ns", "cause", descending=[True, False])
