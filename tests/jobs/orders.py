"""In which order each stage of a simulated pipeline runs its forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import weftrace as wt

#: (F, B, I or W; micro-batch; place in the model), two of them where a forward and a backward overlap.
Action: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Order:
    """actions: of each pipeline rank. rank_of[micro_batch][place]: who holds that part of the model."""

    actions: list[list[Action]]
    rank_of: list[list[int]]
    num_places: int


def order_of(schedule: str, pp: int, num_mb: int) -> Order:
    """1f1b, gpipe and interleaved (two chunks a stage) are written here; others are weftrace's lists of actions."""
    if schedule in ("1f1b", "gpipe", "interleaved"):
        chunks = 2 if schedule == "interleaved" else 1
        actions = [_one_forward_one_backward(p, pp, num_mb, chunks, schedule == "gpipe") for p in range(pp)]
        return Order(actions, [[place % pp for place in range(chunks * pp)]] * num_mb, chunks * pp)
    made = wt.pipeline.generate(schedule, num_stages=pp, num_micro_batches=num_mb)
    rank_of = [[-1] * pp for _ in range(num_mb)]
    lists: list[list[Action]] = [[] for _ in range(made.num_ranks)]
    for row in made.actions.iter_rows(named=True):
        first = ("B" if row["kind"] == "B" else row["kind"][0], row["micro_batch"], row["stage"])
        both = row["kind"] == "F&B"
        lists[row["rank"]].append((first, ("B", row["back_micro_batch"], row["back_stage"])) if both else (first,))
        rank_of[row["micro_batch"]][row["stage"]] = row["rank"]
    return Order(lists, rank_of, pp)


def _one_forward_one_backward(p: int, pp: int, num_mb: int, chunks: int, gpipe: bool) -> list[Action]:
    if chunks > 1:  # in rounds of pp micro-batches, as Megatron does
        forwards = [
            ("F", mb, c * pp + p) for r in range(0, num_mb, pp) for c in range(chunks) for mb in range(r, r + pp)
        ]
        backwards = [("B", mb, (chunks - 1) * pp + 2 * p - place) for _, mb, place in forwards]
        warm = min(len(forwards), 2 * (pp - 1 - p) + (chunks - 1) * pp)
    else:
        forwards, backwards = ([(kind, mb, p) for mb in range(num_mb)] for kind in "FB")
        warm = num_mb if gpipe else min(pp - 1 - p, num_mb)
    order = forwards[:warm]
    for f, b in zip(forwards[warm:], backwards, strict=False):
        order += [f, b]
    return [(one,) for one in order + backwards[len(forwards) - warm :]]
