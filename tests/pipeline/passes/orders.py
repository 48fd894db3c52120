"""Schedules that the tests of the passes are made of, a rank a line."""

from __future__ import annotations

import polars as pl

from weftrace.pipeline.notation import from_text, to_text
from weftrace.pipeline.schedule import Schedule


def lines_of(schedule: Schedule) -> list[str]:
    """What each rank runs, as text."""
    return [line.partition(": ")[2] for line in to_text(schedule).splitlines() if line.startswith("rank ")]


def of_lines(lines: str, *, replicas: str, num_micro_batches: int) -> Schedule:
    """A schedule from a line a rank. replicas: the rank of each stage, a line a replica."""
    facts = [f"micro-batches: {num_micro_batches}"]
    facts += [f"replica {k}: {ranks}" for k, ranks in enumerate(replicas.strip().splitlines())]
    ranks = [f"rank {rank}: {line}" for rank, line in enumerate(lines.strip().splitlines())]
    return from_text("\n".join(facts + ranks))


def one_f_one_b(num_stages: int, num_micro_batches: int) -> Schedule:
    """1F1B: stage s runs num_stages - s forwards ahead, then backward and forward in turns."""
    lines = []
    for stage in range(num_stages):
        ahead = min(num_stages - stage, num_micro_batches)
        cells = [f"{stage}F{m}" for m in range(ahead)]
        for m in range(num_micro_batches):
            cells.append(f"{stage}B{m}")
            if m + ahead < num_micro_batches:
                cells.append(f"{stage}F{m + ahead}")
        lines.append(" ".join(cells))
    return of_lines(
        "\n".join(lines), replicas=" ".join(map(str, range(num_stages))), num_micro_batches=num_micro_batches
    )


def apart(schedule: Schedule) -> Schedule:
    """Each F&B as F, then B."""
    actions = schedule.actions
    pairs = actions["kind"] == "F&B"
    kind, none = actions.schema["kind"], pl.lit(None, pl.Int32)
    rows = actions.with_row_index("row")
    alone = rows.filter(~pairs)
    forward = rows.filter(pairs).with_columns(kind=pl.lit("F", kind), back_stage=none, back_micro_batch=none)
    backward = rows.filter(pairs).with_columns(
        kind=pl.lit("B", kind), stage="back_stage", micro_batch="back_micro_batch"
    )
    backward = backward.with_columns(back_stage=none, back_micro_batch=none)
    return schedule.with_actions(pl.concat([alone, forward, backward]).sort("row", maintain_order=True).drop("row"))
