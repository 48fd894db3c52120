"""What is left out of an inferred plan whose ops would wait for each other in a circle, so that it runs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan.graph import check
from weftrace.plan.inference.values import Inferred
from weftrace.units import counted


def without_circles(inferred: Inferred) -> Inferred:
    """The plan without what makes ops wait for each other in a circle: the least sure votes first, then the meetings of
    fewest ranks, whose members then last as long as they were recorded, then what ops take from each other. Noted."""
    num_waits = num_meets = 0
    found = inferred
    while not _runs(found):
        is_on_circle = _on_circles(found)
        votes, needs = (_waits_on(found, is_on_circle, source) for source in ("voted", "recorded"))
        met = _smallest_meetings(found.plan.ops, is_on_circle)
        if not votes.any() and met.any():
            num_meets += found.plan.ops.filter(met).get_column("meet").n_unique()
            found = _unmet(found, met)
            continue
        dropped = votes if votes.any() else needs
        if not dropped.any():  # nothing of this circle can be left out
            return found
        num_waits += int(dropped.sum())
        waits = found.plan.waits.filter(~dropped)
        found = replace(found, plan=replace(found.plan, waits=waits), edges=found.edges.filter(~dropped))
    if found is inferred:
        return inferred
    note = (
        f"{counted(num_waits, 'wait')} and {counted(num_meets, 'meeting')} of ranks are left out, because ops "
        "would wait for each other in a circle: some partners in communication are wrong"
    )
    return replace(found, notes=(*found.notes, note))


def _runs(inferred: Inferred) -> bool:
    try:
        check(inferred.plan)
    except PlanError:
        return False
    return True


def _waits_on(inferred: Inferred, is_on_circle: NDArray[np.bool_], source: str) -> pl.Series:
    """Of each wait, whether it is one of the least sure of its source on a circle."""
    op, on = (inferred.plan.waits.get_column(name).to_numpy() for name in ("op", "on"))
    edges = inferred.edges.select(
        (pl.Series(is_on_circle[op] & is_on_circle[on]) & (pl.col("source").cast(pl.String) == source)).alias("told"),
        pl.col("confidence").fill_null(1.0),
    )
    least = pl.col("confidence").filter("told").min()
    return edges.select((pl.col("told") & (pl.col("confidence") <= least)).fill_null(False)).to_series()


def _smallest_meetings(ops: pl.DataFrame, is_on_circle: NDArray[np.bool_]) -> pl.Series:
    """Of each op, whether it is on a circle and in one of the meetings there that have fewest members."""
    rows = ops.select(pl.Series("told", is_on_circle) & pl.col("meet").is_not_null(), size=pl.len().over("meet"))
    least = pl.col("size").filter("told").min()
    return rows.select((pl.col("told") & (pl.col("size") == least)).fill_null(False)).to_series()


def _unmet(inferred: Inferred, rows: pl.Series) -> Inferred:
    """These ops meet none, and last as long as they were recorded."""
    meet = pl.col("meet")
    gone = inferred.plan.ops.filter(rows).get_column("meet").unique()
    length = inferred.measured.get_column("end_ns") - inferred.measured.get_column("start_ns")
    of_gone = meet.is_in(gone.implode()).fill_null(False)
    ops = inferred.plan.ops.with_columns(
        pl.when(of_gone).then(length).otherwise("duration_ns").alias("duration_ns"),
        pl.when(~of_gone).then(meet).rank("dense").cast(inferred.plan.ops.schema["meet"]).alias("meet"),
    )
    return replace(inferred, plan=replace(inferred.plan, ops=ops))


def _on_circles(inferred: Inferred) -> NDArray[np.bool_]:
    """Of each op whether it lies on a circle, or between two. Ops that meet are one."""
    ops = inferred.plan.ops
    num = ops.height
    meet = ops.get_column("meet").fill_null(-1).to_numpy()
    node = np.where(meet >= 0, num + meet, np.arange(num))
    order = ops.select("rank", "stream", row=pl.int_range(pl.len()))
    before = order.select(pl.col("row").shift(1).over("rank", "stream")).to_series()
    follows = order.filter(before.is_not_null()).get_column("row").to_numpy()
    waits = inferred.plan.waits
    users = node[np.concatenate([follows, waits.get_column("op").to_numpy()])]
    makers = node[np.concatenate([before.drop_nulls().to_numpy(), waits.get_column("on").to_numpy()])]
    apart = users != makers
    left = set(np.unique(node).tolist())
    after: dict[int, list[int]] = defaultdict(list)
    needs: dict[int, list[int]] = defaultdict(list)
    for user, maker in zip(users[apart].tolist(), makers[apart].tolist(), strict=True):
        after[maker].append(user)
        needs[user].append(maker)
    for forth, back in ((after, needs), (needs, after)):
        left -= _peeled(left, forth, back)
    return np.isin(node, np.fromiter(left, np.int64, len(left)))


def _peeled(left: set[int], after: Mapping[int, list[int]], needs: Mapping[int, list[int]]) -> set[int]:
    """Of these nodes those that come up when each does once all that it needs of them have."""
    missing = {each: sum(other in left for other in needs.get(each, ())) for each in left}
    ready = deque(each for each, number in missing.items() if not number)
    found = set()
    while ready:
        each = ready.popleft()
        found.add(each)
        for other in after.get(each, ()):
            if other in left:
                missing[other] -= 1
                if not missing[other]:
                    ready.append(other)
    return found
