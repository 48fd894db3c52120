"""What an operation takes values from, held against the lists: streams must never read before it is written."""

from __future__ import annotations

import pytest

from weftrace.moe import Overlap, known_overlaps, load_overlap
from weftrace.moe.runtime.lanes import needs_of
from weftrace.moe.runtime.walking import Turn, turns
from weftrace.moe.setting import KINDS

LISTS = [
    overlap
    for kind in KINDS
    for name in known_overlaps(kind)
    if not (overlap := load_overlap(name, kind)).is_fused
]  # fmt: skip


def before_each(overlap: Overlap) -> dict[Turn, set[Turn]]:
    """Of each turn all that have ended before it starts: by its lane, by its edges, and what was before those."""
    found: dict[Turn, set[Turn]] = {}
    last: dict[str, Turn] = {}
    at: dict[tuple[str, int], Turn] = {}
    for turn in turns(overlap, 3):
        operation = turn.operation
        edges = [(name, turn.repetition) for name in operation.after]
        edges += [(name, turn.repetition - 1) for name in operation.after_previous]
        direct = [at[edge] for edge in edges if edge in at]
        direct += [last[operation.lane]] if operation.lane in last else []
        found[turn] = {*direct, *(each for other in direct for each in found[other])}
        last[operation.lane] = at[operation.name, turn.repetition] = turn
    return found


@pytest.mark.parametrize("overlap", LISTS, ids=lambda overlap: f"{overlap.name}, {overlap.kinds[0]}")
def test_edges_and_lanes_of_every_list_order_all_values(overlap: Overlap) -> None:
    before = before_each(overlap)
    checked = 0
    for turn, ended in before.items():
        for work, direction, position in needs_of(turn.operation, turn.position):
            for other in before:
                same = other.operation.micro_batch == turn.operation.micro_batch and other is not turn
                if same and (other.operation.work, other.operation.direction, other.position) == (
                    work, direction, position,
                ):  # fmt: skip
                    if work == turn.operation.work and direction == turn.operation.direction:
                        continue  # parts and chunks of one work: issue, transfer, receive have edges of their own
                    if turn.operation.num_chunks > 1 and other.operation.chunk != turn.operation.chunk:
                        continue
                    assert other in ended, (overlap.name, turn, other)
                    checked += 1
    assert checked > 10
