"""An operation list executed: walked layer by layer, each operation on its lane, in a range of the profiler's."""

from __future__ import annotations

from collections.abc import Mapping

from torch.profiler import record_function

from weftrace.alphabet import phase_name
from weftrace.errors import ProfileError
from weftrace.moe.operations import Operation, Overlap
from weftrace.moe.runtime.lanes import HostLanes, Lanes
from weftrace.moe.runtime.micro_batch import MicroBatch, Way
from weftrace.moe.runtime.walking import (
    Turn,
    check_for_running,
    num_chunks_of,
    operations_of,
    shares_of,
    turns,
    way_of,
)  # fmt: skip
from weftrace.moe.runtime.working import on_its_way, receive, work_on

#: (micro-batch of the list, "F" or "B")
Key = tuple[int, str]


def execute(overlap: Overlap, micro_batches: Mapping[Key, MicroBatch], lanes: Lanes | None = None) -> None:
    """Walks the list once through all layers.

    micro_batches: who is meant by each micro-batch of the list, and goes forward ("F") or backward ("B": its
    `output_grad` is set, and it went forward before). Operations of those that are not given are left out, so that one
    list also warms up and drains: its forward alone, its backward alone.

    Raises `ProfileError` where the list cannot be executed, and where an operation comes before what it needs.
    """
    check_for_running(overlap)
    lanes = lanes or HostLanes()
    shares: dict[str, tuple[float, float]] = {}
    for (number, way), micro_batch in micro_batches.items():
        operations = operations_of(overlap, number, way)
        if not operations:
            raise ProfileError(f"overlap {overlap.name!r} has no micro-batch {number} that goes {way}")
        _set_way(micro_batch, way, operations)
        shares.update(shares_of(operations))
    num_layers = len(next(iter(micro_batches.values())).layers)
    lanes.start()
    pending: dict[tuple[str, int], Turn] = {}
    for turn in turns(overlap, num_layers):
        operation = turn.operation
        of = micro_batches.get((operation.micro_batch, way_of(operation)))
        if of is None:
            continue
        if lanes.defers:
            _receive_awaited(turn, pending, micro_batches)
        with lanes.running(turn), ranged(turn):
            work_on(of, operation, turn.layer, shares.get(operation.name, (0.0, 1.0)))
            if operation.moves_tokens and operation.part == "whole" and not lanes.defers:
                receive(of, operation, turn.layer)
        if operation.moves_tokens and operation.part in ("whole", "transfer"):
            pending[operation.name, turn.repetition] = turn
    if lanes.defers:
        for sent in pending.values():
            _receive(sent, micro_batches)
    lanes.finish()


def ranged(turn: Turn, waiting: bool = False) -> record_function:
    """The range of a turn, which tells its layer and micro-batch: `attn(F) {layer=3, micro_batch=1}`."""
    operation = turn.operation
    phase = operation.phase or operation.name
    chunk = operation.chunk if operation.num_chunks > 1 else None
    name = f"wait for {phase}" if waiting else phase
    return record_function(phase_name(name, layer=turn.layer, micro_batch=operation.micro_batch, chunk=chunk))


def _receive_awaited(
    turn: Turn, pending: dict[tuple[str, int], Turn], micro_batches: Mapping[Key, MicroBatch]
) -> None:  # fmt: skip
    """Waits for messages that an edge of this operation names. Who receives them by an operation waits within it."""
    for edge in turn.edges:
        sent = pending.pop(edge, None)
        if sent is not None and turn.operation.part != "receive":
            _receive(sent, micro_batches)


def _receive(sent: Turn, micro_batches: Mapping[Key, MicroBatch]) -> None:
    """In a range of its own, where nobody has taken the message yet."""
    of = micro_batches[sent.operation.micro_batch, way_of(sent.operation)]
    if on_its_way(of, sent.operation, sent.layer):
        with ranged(sent, waiting=True):
            receive(of, sent.operation, sent.layer)


def _set_way(micro_batch: MicroBatch, way: str, operations: tuple[Operation, ...]) -> None:
    """What the list says of it. Its backward is cut in as many chunks as its forward was: routes are by chunk."""
    chunks = num_chunks_of(operations)
    if way == "B" and chunks != micro_batch.num_chunks:
        raise ProfileError(
            f"the backward is cut in {chunks} chunks, and the forward of the same tokens was in "
            f"{micro_batch.num_chunks}"
        )
    works = {each.work for each in operations if each.direction == way}
    weights = {each.work for each in operations if each.direction == "W"}
    halves = {"attn-0", "attn-1"}
    if (weights & halves and "attn" in works) or ("attn" in weights and works & halves):
        raise ProfileError("attn(W) belongs to attn(B), and attn-0(W) and attn-1(W) to attn-0(B) and attn-1(B)")
    micro_batch.ways[way] = Way(
        num_chunks=chunks,
        shared_in_mlp="shared" not in works,
        later_weights=frozenset(weights),
        transfers=frozenset(each.work for each in operations if each.part == "transfer"),
    )
