"""Which ops of an inferred plan does a selector name?"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.changes import SCALABLE
from weftrace.errors import AdviceError
from weftrace.plan.inference.values import Inferred

#: What a scalable class is called in `Inferred.measured`, where that is not its name.
WHATS = {"host": ("host", "blocking")}


def selected(inferred: Inferred, selector: str) -> NDArray[np.bool_]:
    """The ops that a selector names, a mask, [ops]. Raises `AdviceError` naming the nearest where there are none."""
    mask: NDArray[np.bool_] = (
        _ops_to_select(inferred).select(_predicate(selector).fill_null(False)).to_series().to_numpy()
    )
    if not mask.any():
        raise AdviceError(f"{selector!r} selects nothing in this trace.{_nearest(inferred, selector)}")
    return mask


def selectors(inferred: Inferred) -> Iterator[str]:
    """All selectors that select something, but for patterns of kernels: classes, families, phases, ranks.

    Of families, phases and ranks those that take longest first.
    """
    ops = _ops_to_select(inferred)
    yield from (name for name in SCALABLE if ops.select(_predicate(name).any()).item())
    on_device = ops.filter("on_device")
    for column, form in (("family", ""), ("phase", "phase:"), ("rank", "rank:")):
        named = on_device.group_by(pl.col(column).cast(pl.String), maintain_order=True).agg(pl.col("duration_ns").sum())
        named = named.drop_nulls(column).sort("duration_ns", descending=True, maintain_order=True)
        yield from (f"{form}{name}" for name in named.get_column(column))


def _ops_to_select(inferred: Inferred) -> pl.DataFrame:
    known = inferred.measured.select("what", "family", "role", on_device=pl.col("event").is_not_null())
    return inferred.plan.ops.select("name", "phase", "rank", "duration_ns").hstack(known)


def _predicate(selector: str) -> pl.Expr:
    """Which ops a selector names, over the frame of `_told`."""
    form, colon, what = selector.partition(":")
    on_device = pl.col("on_device")
    if selector in SCALABLE:
        name, _, role = selector.partition(".")
        of_class = pl.col("what").is_in(WHATS.get(name, (name,)))
        return of_class & (pl.col("role") == role) if role else of_class
    if colon and form == "phase":
        return on_device & (pl.col("phase").cast(pl.String) == what)
    if colon and form == "rank":
        if not what.isdecimal():
            raise AdviceError(f"{selector!r}: {what!r} is no rank; write its number, as in rank:3.")
        return on_device & (pl.col("rank") == int(what))
    if colon and form == "kernel":
        try:
            pl.select(pl.lit("").str.contains(what))
            return on_device & pl.col("name").cast(pl.String).str.contains(what)
        except pl.exceptions.ComputeError as error:
            raise AdviceError(f"{selector!r}: {what!r} is no regular expression (look-around is not known).") from error
    return on_device & (pl.col("family").cast(pl.String) == selector)


def _nearest(inferred: Inferred, selector: str) -> str:
    known = list(selectors(inferred))
    by_text = {each.lower(): each for each in known} | {
        each.partition(":")[2].lower(): each for each in known if ":" in each
    }
    begun = [text for text in by_text if text.startswith(selector.lower())]
    near = begun or get_close_matches(selector.lower(), by_text, n=1, cutoff=0.5)
    listed = f" Did you mean {by_text[near[0]]}?" if near else ""
    return f"{listed} There are {', '.join(known[:12])}{', …' if len(known) > 12 else ''}."
