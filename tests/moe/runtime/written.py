"""Lists that tests write: one operation after the other, and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from weftrace.moe import Operation, Overlap
from weftrace.moe.requests import ModelPhase

FORWARD = ("attn", "shared", "dispatch", "mlp", "combine")
BACKWARD = ("combine", "shared", "mlp", "dispatch", "attn")


def operation(work: Any, direction: Any = "F", micro_batch: int = 0, **more: Any) -> Operation:
    name = more.pop("name", f"{work}({direction}){micro_batch}")
    lane = "communication" if work in ("dispatch", "combine") else "compute"
    values = {"lane": lane, "phase": name, **more}
    return Operation(name=name, work=work, direction=direction, micro_batch=micro_batch, **values)


def forward(micro_batch: int = 0) -> list[Operation]:
    return [operation(work, "F", micro_batch) for work in FORWARD]


def backward(micro_batch: int = 1, split: bool = True) -> list[Operation]:
    """split: weights' gradients by operations of their own, after all else."""
    weights = [operation(work, "W", micro_batch) for work in ("mlp", "shared", "attn")] if split else []
    return [operation(work, "B", micro_batch) for work in BACKWARD] + weights


def in_turn(operations: Sequence[Operation], kinds: Sequence[ModelPhase], name: str = "in turn") -> Overlap:
    """Each operation after the one before, a repetition after the one before."""
    made = [
        replace(each, after=(operations[at - 1].name,)) if at else replace(each, after_previous=(operations[-1].name,))
        for at, each in enumerate(operations)
    ]
    return Overlap(name=name, title=name, kinds=tuple(kinds), operations=tuple(made))


def merged(draw: Random, *chains: Sequence[Operation]) -> list[Operation]:
    """The chains in one, each in its own order."""
    rest = [list(chain) for chain in chains]
    made = []
    while any(rest):
        made.append(draw.choice([chain for chain in rest if chain]).pop(0))
    return made


def after(draw: Random, operations: list[Operation], work: str, direction: str, more: Operation) -> None:
    """Puts one more operation anywhere behind the last one of this work and direction."""
    last = max(at for at, each in enumerate(operations) if (each.work, each.direction) == (work, direction))
    operations.insert(draw.randint(last + 1, len(operations)), more)


def any_order(draw: Random) -> list[Operation]:
    """A forward and a backward layer, their operations in any order that their values allow."""
    forth = [operation("attn-0"), operation("attn-1")] if draw.random() < 0.5 else [operation("attn")]
    attends = forth[-1].work
    forth += [operation(work) for work in ("dispatch", "mlp", "combine")]
    if draw.random() < 0.7:
        after(draw, forth, attends, "F", operation("shared"))
    whole = draw.random() < 0.5
    attention = ["attn"] if whole else ["attn-1", "attn-0"]
    back = merged(
        draw, [operation(work, "B", 1) for work in ("combine", "mlp", "dispatch")], [operation("shared", "B", 1)]
    )
    back += [operation(work, "B", 1) for work in attention]
    for work in ("mlp", "shared", *attention):
        if draw.random() < 0.7:
            after(draw, back, work, "B", operation(work, "W", 1))
    return merged(draw, forth, back)


def attending_first(overlap: Overlap) -> tuple[int, ...]:
    """The micro-batches that go forward, in the order in which they attend."""
    attends = (each.micro_batch for each in overlap.operations if each.work in ("attn", "attn-1"))
    return tuple(dict.fromkeys(attends))


def sequential(overlap: Overlap, kind: ModelPhase) -> Overlap:
    """The same micro-batches, and nothing overlaps: in training a forward, then a backward."""
    if kind == "train":
        return in_turn([*backward(1), *forward(0)], ["train"], "one after another")
    each = [operation for number in attending_first(overlap) for operation in forward(number)]
    return in_turn(each, ["prefill", "decode"], "one after another")
