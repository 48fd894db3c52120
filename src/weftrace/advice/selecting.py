"""Which ops of an inferred plan does a selector name?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.changes import SCALABLE
from weftrace.advice.named_ranges import FORMS, ON_HOST, finds, inside_on_host, launched_inside, spans_of
from weftrace.errors import AdviceError
from weftrace.plan.inference.values import Inferred

#: What a scalable class is called in `Inferred.measured`, where that is not its name.
WHATS = {"host": ("host", "blocking")}


def selected(inferred: Inferred, selector: str) -> NDArray[np.bool_]:
    """The ops that a selector names, in whole or in part, a mask, [ops]. Raises as `shares_of`."""
    return shares_of(inferred, selector) > 0


def shares_of(inferred: Inferred, selector: str) -> NDArray[np.float64]:
    """Of each op the share of its time that a selector names, [ops]. Of a plan of phases, whose ops are stretches, what
    ranges name is told by its kernels. Raises `AdviceError` naming the nearest where there are none."""
    form, colon, pattern = selector.partition(":")
    if colon and form in (*FORMS, "host"):
        shares = by_kernel(inferred, lambda kernels: _in_ranges(kernels, form, pattern))
    else:
        found = _ops_to_select(inferred).select(_predicate(selector).fill_null(False)).to_series()
        shares = found.to_numpy().astype(np.float64)
    if not shares.any():
        raise AdviceError(f"{selector!r} selects nothing in this trace.{_nearest(inferred, selector)}")
    return shares


def by_kernel(inferred: Inferred, shares: Callable[[Inferred], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Shares of ops; those of a plan of phases are the means, by time, of those of the kernels in them."""
    if (kernels := inferred.kernels) is None:
        return shares(inferred)
    of_kernels = kernels.plan.ops.select("rank", "stream", weight=pl.col("duration_ns").clip(lower_bound=1))
    of_kernels = of_kernels.with_columns(kernels.measured.get_column("start_ns"), share=pl.Series(shares(kernels)))
    pieces = inferred.plan.ops.select("rank", "stream").hstack(inferred.measured.select("start_ns"))
    pieces = pieces.with_row_index("op").sort("start_ns", maintain_order=True)
    of_kernels = of_kernels.sort("start_ns", maintain_order=True)
    found = of_kernels.join_asof(pieces, on="start_ns", by=("rank", "stream"), check_sortedness=False)
    means = (
        found.drop_nulls("op").group_by("op").agg((pl.col("share") * pl.col("weight")).sum() / pl.col("weight").sum())
    )
    mean = np.zeros(len(inferred.plan))
    mean[means.get_column("op").to_numpy()] = means.get_column("share").to_numpy()
    return mean


def _in_ranges(inferred: Inferred, form: str, pattern: str) -> NDArray[np.float64]:
    if form != "host":
        return launched_inside(inferred, form, pattern).astype(np.float64)
    return inside_on_host(inferred, [spans_of(work.trace, ON_HOST, pattern) for work in inferred.works])


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
        return on_device & finds("name", what)
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
