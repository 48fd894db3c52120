"""One operation of a list on one layer of a micro-batch: which function does it, on which chunks, and what W makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weftrace.moe.operations import Operation
from weftrace.moe.runtime import backward, forward
from weftrace.moe.runtime.layers.split import WeightTasks
from weftrace.moe.runtime.micro_batch import MicroBatch
from weftrace.moe.runtime.moving.exchanges import Exchange
from weftrace.moe.runtime.walking import way_of

_COMPUTES: dict[tuple[str, str], Callable[[MicroBatch, int, Sequence[int]], None]] = {
    ("attn", "F"): forward.attn,
    ("attn-0", "F"): forward.attn_0,
    ("attn-1", "F"): forward.attn_1,
    ("shared", "F"): forward.shared,
    ("mlp", "F"): forward.mlp,
    ("mlp", "B"): backward.mlp_back,
    ("shared", "B"): backward.shared_back,
    ("attn-1", "B"): backward.attn_1_back,
    ("attn-0", "B"): backward.attn_0_back,
    ("attn", "B"): backward.attn_back,
}
_PACKS: dict[str, Callable[[MicroBatch, int, int], Exchange]] = {
    "dispatchF": forward.pack_dispatch,
    "combineF": forward.pack_combine,
    "combineB": backward.pack_combine_back,
    "dispatchB": backward.pack_dispatch_back,
}


def work_on(batch: MicroBatch, operation: Operation, layer: int, share: tuple[float, float] = (0.0, 1.0)) -> None:
    """Does one operation. share: which part of the weights' gradients a W makes, from and to.

    Raises `ProfileError` where what it needs has not run.
    """
    work, direction, chunks = operation.work, operation.direction, _chunks(batch, operation)
    if direction == "W":
        _make_weight_gradients(batch, work, layer, chunks, share)
    elif operation.moves_tokens:
        _move(batch, operation, layer)
    else:
        _COMPUTES[work, direction](batch, layer, chunks)
        if direction == "B" and work not in batch.ways["B"].later_weights:
            _make_weight_gradients(batch, work, layer, chunks, (0.0, 1.0))


def on_its_way(batch: MicroBatch, operation: Operation, layer: int) -> bool:
    """Whether a dispatch or combine has begun that nobody has received."""
    return any(not exchange.received for exchange in _exchanges(batch, operation, layer))


def receive(batch: MicroBatch, operation: Operation, layer: int) -> None:
    """Waits for what a dispatch or combine brings, where nobody has yet."""
    for exchange in _exchanges(batch, operation, layer):
        exchange.receive()


def _exchanges(batch: MicroBatch, operation: Operation, layer: int) -> list[Exchange]:
    """Those that are still held."""
    held, key = batch.states[layer].exchanges, operation.work + operation.direction
    return [held[key, chunk] for chunk in _chunks(batch, operation) if (key, chunk) in held]


def _move(batch: MicroBatch, operation: Operation, layer: int) -> None:
    key = operation.work + operation.direction
    for chunk in _chunks(batch, operation):
        if operation.part in ("whole", "issue"):
            batch.states[layer].exchanges[key, chunk] = _PACKS[key](batch, layer, chunk)
        exchange = batch.exchange(layer, key, chunk)
        own_transfer = operation.work in batch.ways[way_of(operation)].transfers
        if operation.part in ("whole", "transfer") or (operation.part == "issue" and not own_transfer):
            exchange.post()
        elif operation.part == "receive":
            exchange.receive()


def _make_weight_gradients(
    batch: MicroBatch, work: str, layer: int, chunks: Sequence[int], share: tuple[float, float]
) -> None:
    parts = {"attn": ["attn-1", "attn-0"], "mlp": [f"mlp {chunk}" for chunk in chunks]}.get(work, [work])
    if work == "mlp" and batch.ways["B"].shared_in_mlp and chunks[-1] == batch.num_chunks - 1:
        parts.append("shared")
    held = [batch.states[layer].tasks_of(part) for part in parts]
    WeightTasks([task for tasks in held for task in tasks.tasks]).run(*share)
    if share[1] >= 1.0:
        for tasks in held:
            tasks.tasks = []


def _chunks(batch: MicroBatch, operation: Operation) -> Sequence[int]:
    """Of the micro-batch's chunks those that the operation works on: its own, or all."""
    return (operation.chunk,) if operation.num_chunks > 1 else range(batch.num_chunks)
