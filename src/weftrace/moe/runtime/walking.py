"""In which order a list is walked, repetition by repetition, and what it says of each micro-batch. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weftrace.errors import ProfileError
from weftrace.moe.operations import Operation, Overlap
from weftrace.units import counted

#: What every micro-batch goes through, in each direction; attn may be attn-0 and attn-1.
CHAIN = ("attn", "dispatch", "mlp", "combine")


@dataclass(frozen=True, slots=True)
class Turn:
    """An operation in a repetition of the list. position: layers that its micro-batch has been through in its
    direction; layer: of the model, of which a backward begins at the last."""

    operation: Operation
    repetition: int
    position: int
    layer: int

    @property
    def edges(self) -> list[tuple[str, int]]:
        """(name, repetition) of all that it waits for, as the list tells."""
        own = [(name, self.repetition) for name in self.operation.after]
        return own + [(name, self.repetition - 1) for name in self.operation.after_previous]


def turns(overlap: Overlap, num_layers: int) -> Iterator[Turn]:
    """All operations of all layers, in issue order. Of a list that interleaves layers the ends are parts of it."""
    shifts = [each.layer_shift for each in overlap.operations]
    for repetition in range(-max(0, *shifts), num_layers - min(0, *shifts)):
        for each in overlap.operations:
            position = repetition + each.layer_shift
            if 0 <= position < num_layers:
                layer = position if each.direction == "F" else num_layers - 1 - position
                yield Turn(each, repetition, position, layer)


def way_of(operation: Operation) -> str:
    """F, or B for what comes back: B and W."""
    return "F" if operation.direction == "F" else "B"


def ways_in(overlap: Overlap) -> tuple[tuple[int, str], ...]:
    """Which micro-batches go which way in one walk: (micro-batch, "F" or "B")."""
    return tuple(dict.fromkeys((each.micro_batch, way_of(each)) for each in overlap.operations))


def going(overlap: Overlap, way: str) -> list[int]:
    """Numbers of the micro-batches that go this way in one walk."""
    return [number for number, its_way in ways_in(overlap) if its_way == way]


def operations_of(overlap: Overlap, micro_batch: int, way: str) -> tuple[Operation, ...]:
    return tuple(each for each in overlap.operations if each.micro_batch == micro_batch and way_of(each) == way)


def num_chunks_of(operations: Sequence[Operation]) -> int:
    """Chunks in which a micro-batch is moved and multiplied, 1 where it is whole."""
    return max(each.num_chunks for each in operations)


def shares_of(operations: Sequence[Operation]) -> dict[str, tuple[float, float]]:
    """Name of each W -> which part of the weights' gradients of its work (and chunk) it makes, from and to."""
    done: dict[tuple[str, int], float] = {}
    found = {}
    for each in operations:
        if each.direction == "W":
            key = each.work, each.chunk
            start = done.get(key, 0.0)
            done[key] = start + each.share * each.num_chunks
            # The last part ends at the end, whatever thirds add up to.
            found[each.name] = (start, 1.0 if done[key] > 1 - 1e-6 else done[key])
    return found


def check_for_running(overlap: Overlap) -> None:
    """Raises `ProfileError` where a list that can be simulated cannot be executed: work that is missing, or cut as no
    tokens can be."""
    cannot = f"overlap {overlap.name!r} cannot be executed"
    if overlap.is_fused:
        raise ProfileError(f"{cannot}: torch has no kernel that moves tokens and multiplies; it can be simulated")
    for micro_batch, way in ways_in(overlap):
        of = f"{cannot}: micro-batch {micro_batch}"
        operations = operations_of(overlap, micro_batch, way)
        _check_chain(of, way, operations)
        _check_parts(of, operations)
        chunks = num_chunks_of(operations)
        for each in operations:
            if each.num_chunks not in (1, chunks):
                raise ProfileError(f"{of} is cut in {chunks} chunks, and {each.name!r} in {each.num_chunks}")
            if each.num_chunks > 1 and each.work not in ("dispatch", "mlp", "combine"):
                raise ProfileError(f"{of}: {each.name!r} is in {each.num_chunks} chunks; {each.work} runs whole, in 1")


def _check_chain(of: str, way: str, operations: Sequence[Operation]) -> None:
    has = {each.work for each in operations if each.direction == way}
    for work in CHAIN:
        parts = {"attn-0", "attn-1"} if work == "attn" and "attn" not in has else {work}
        if missing := sorted(parts - has):
            raise ProfileError(f"{of} has no {missing[0]}({way})")


def _check_parts(of: str, operations: Sequence[Operation]) -> None:
    """Each work is done once: by one operation, by one a chunk, or (W alone) by some that share it."""
    done: dict[tuple[str, str, str], list[Operation]] = {}
    for each in operations:
        done.setdefault((each.work, each.direction, each.part), []).append(each)
    for (work, direction, _), same in done.items():
        if direction != "W" and len(same) != same[0].num_chunks:
            raise ProfileError(
                f"{of}: {counted(len(same), 'operation')} of {work}({direction}) in "
                f"{counted(same[0].num_chunks, 'chunk')}: a part of the tokens is a chunk; shares alone are for weight "
                "gradients"
            )
        if len({each.chunk for each in same}) != len(same) and direction != "W":
            raise ProfileError(f"{of}: a chunk of {work}({direction}) runs twice")
