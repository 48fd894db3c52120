"""Overlap a forward and a full backward that stand side by side: F&B."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Literal

import polars as pl

from weftrace.errors import ScheduleError
from weftrace.pipeline.dependencies import messages
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule, need_schedule

#: Rows of the schedule that run as one action: one row, or the two of an F&B.
_Cell = tuple[int, ...]


def merge_neighbours(schedule: Schedule, first: Literal["B", "F"] = "B") -> Schedule:
    """Each B and the F beside it become one F&B where they can run at the same time.

    first: which of both stands first. "B" makes of interleaved 1F1B the schedule whose warm-up is one forward longer,
    so that a forward is always at hand for the backward of another micro-batch; "F" makes DualPipe's pairs.

    An F&B starts when both of its inputs are there, so two actions can be merged only if nothing that the second needs
    comes, over however many ranks, of the first. The new order is found by running it: where ranks wait for each other
    in a circle, a pair of the circle stays apart.

    Raises `ScheduleError` where no two actions can be merged, or the schedule itself is wrong.
    """
    need_schedule(schedule)
    if first not in ("B", "F"):
        raise ScheduleError(f"merge: first = {first!r}; it is 'B' or 'F', the action that comes first.")
    check(schedule)
    cells = _merged(schedule, _neighbours(schedule, first))
    pairs = {cell[0]: cell[1] for cell in cells if len(cell) == 2}
    if not pairs:
        raise ScheduleError(
            f"schedule {schedule.name!r}: nothing to merge; no {first} stands right before "
            f"{'an F' if first == 'B' else 'a B'} that could run at the same time."
        )
    return schedule.with_actions(_overlapped(schedule.actions, pairs))


def _neighbours(schedule: Schedule, first: str) -> dict[int, int]:
    """Row of a B or F -> the next row, where the two could be one F&B: of one rank, and not of one chunk."""
    second = "F" if first == "B" else "B"
    after = pl.col("rank", "kind", "stage", "micro_batch").shift(-1).name.suffix("_after")
    rows = schedule.actions.with_columns(after).with_row_index("row")
    same_chunk = (pl.col("stage") == pl.col("stage_after")) & (pl.col("micro_batch") == pl.col("micro_batch_after"))
    found = rows.filter(
        (pl.col("rank") == pl.col("rank_after")) & ~same_chunk, pl.col("kind") == first, pl.col("kind_after") == second
    )
    return {row: row + 1 for row in found["row"]}


def _merged(schedule: Schedule, pairs: dict[int, int]) -> list[_Cell]:
    """The actions that run, in an order in which they can; a pair that cannot is taken out of `pairs`."""
    rank_of_row = schedule.actions["rank"].to_list()
    needs: defaultdict[int, list[int]] = defaultdict(list)
    for row, on in messages(schedule).select("op", "on").iter_rows():
        needs[row].append(on)
    at = [int(schedule.actions["rank"].search_sorted(rank)) for rank in range(schedule.num_ranks)]  # row of each rank
    ends = [*at[1:], len(schedule)]
    done = [False] * len(schedule)
    cells: list[_Cell] = []
    waiting: defaultdict[int, list[int]] = defaultdict(list)  # row -> ranks that wait for it
    to_look_at = deque(range(schedule.num_ranks))

    def head(rank: int) -> _Cell:
        return (at[rank], pairs[at[rank]]) if at[rank] in pairs else (at[rank],)

    def missing(rows: Sequence[int]) -> int | None:
        return next((on for row in rows for on in needs[row] if not done[on]), None)

    while True:
        while to_look_at:
            rank = to_look_at.popleft()
            while at[rank] < ends[rank]:
                if (on := missing(head(rank))) is not None:
                    waiting[on].append(rank)
                    break
                cells.append(head(rank))
                for row in cells[-1]:
                    done[row] = True
                    to_look_at += waiting.pop(row, ())
                at[rank] += len(cells[-1])
        stuck = {rank: missing(head(rank)) for rank in range(schedule.num_ranks) if at[rank] < ends[rank]}
        if not stuck:
            return cells
        circle = _circle({rank: rank_of_row[on] for rank, on in stuck.items() if on is not None})
        parted = next(rank for rank in circle if at[rank] in pairs and missing(head(rank)[:1]) is None)
        del pairs[at[parted]]
        to_look_at.append(parted)


def _circle(waits_for: dict[int, int]) -> list[int]:
    """Ranks that wait for each other, of which each waits for one."""
    seen: list[int] = []
    rank = next(iter(waits_for))
    while rank not in seen:
        seen.append(rank)
        rank = waits_for[rank]
    return seen[seen.index(rank) :]


def _overlapped(actions: pl.DataFrame, pairs: dict[int, int]) -> pl.DataFrame:
    """The frame with each pair of rows as one F&B, where the first stood."""
    kind = actions.schema["kind"]
    rows = actions.with_row_index("row")
    both = pl.DataFrame({"row": list(pairs), "other": list(pairs.values())}).cast(pl.UInt32)
    one = both.join(rows, on="row").join(rows, left_on="other", right_on="row", suffix="_other")
    is_forward = pl.col("kind") == "F"
    forward = {
        name: pl.when(is_forward).then(name).otherwise(f"{name}_other") for name in ("stage", "micro_batch", "offload")
    }
    backward = {
        f"back_{name}": pl.when(is_forward).then(f"{name}_other").otherwise(name) for name in ("stage", "micro_batch")
    }
    merged = one.select("row", "rank", kind=pl.lit("F&B", kind), **forward, **backward)
    alone = rows.filter(~pl.col("row").is_in([*pairs, *pairs.values()]))
    return pl.concat([alone, merged.select(rows.columns)]).sort("row").drop("row")
