"""What I leaves for W: for each stage and micro-batch, how each weight's gradient is made, and of what."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.profiler import record_function

from weftrace.errors import ScheduleError

#: (stage, micro-batch)
Key = tuple[int, int]
Gradients = Sequence[Tensor | None]


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter, or the part of it that a view shows. place: the view's size, strides and offset in its storage."""

    leaf: Tensor
    place: tuple[Sequence[int], Sequence[int], int] | None = None

    def added(self, total: Tensor | None, grad: Tensor) -> Tensor:
        """total + grad, of the whole parameter, summed in the order in which autograd sums them."""
        if self.place is None:
            return grad if total is None else total + grad
        if total is None:
            total = torch.zeros_like(self.leaf)
        total.as_strided(*self.place).add_(grad)
        return total


@dataclass(frozen=True, slots=True)
class Kept:
    """One use of weights: `gradients()` makes theirs, in their order, of what it holds. label: the phase, or ""."""

    weights: tuple[Weight | None, ...]
    gradients: Callable[[], Gradients]
    held: tuple[Tensor, ...]
    versions: tuple[int, ...]  # of what it holds, when it was kept
    label: str

    @classmethod
    def of(
        cls, weights: tuple[Weight | None, ...], gradients: Callable[[], Gradients], held: Sequence[Tensor], label: str
    ) -> Kept:
        return cls(weights, gradients, tuple(held), tuple(tensor._version for tensor in held), label)

    def made(self) -> Gradients:
        """Raises `ScheduleError` where what it holds was written to since, as a buffer that is used again would be."""
        if any(tensor._version != version for tensor, version in zip(self.held, self.versions, strict=True)):
            shapes = " or ".join(str(list(tensor.shape)) for tensor in self.held)
            raise ScheduleError(f"a tensor that W needs, of shape {shapes}, was written to between I and W")
        return self.gradients()


class WeightGradStore:
    """One for a pipeline, keyed (stage, micro-batch): W of any micro-batch may run at any time after its I."""

    def __init__(self) -> None:
        self._kept: dict[Key, deque[Kept]] = {}

    def keep(self, key: Key, kept: Kept) -> None:
        self._kept.setdefault(key, deque()).append(kept)

    def holds(self, key: Key) -> bool:
        """Whether I left something."""
        return key in self._kept

    def keys(self) -> list[Key]:
        """What is pending, in the order of its I."""
        return list(self._kept)

    def held_bytes(self, key: Key) -> int:
        """Bytes that are held from I to W: inputs of layers and gradients of their outputs, shared storage once."""
        return bytes_of(tensor for kept in self._kept.get(key, ()) for tensor in kept.held)

    def accumulate(self, key: Key) -> None:
        """W: makes the gradients and hands them to autograd, which adds them up and calls the parameters' hooks.

        Each parameter gets the sum of its uses at once, as in a full backward, so hooks are called once. What a use
        held is let go when its gradients are made.
        """
        pending = self._kept.pop(key, deque())
        uses = Counter(id(weight.leaf) for kept in pending for weight in kept.weights if weight)
        totals: dict[int, Tensor] = {}
        for label, same in groupby(_drained(pending), lambda kept: kept.label):
            with record_function(f"{label}(W)") if label else nullcontext():
                for kept in same:
                    _add(kept, uses, totals)


def _drained(pending: deque[Kept]) -> Iterator[Kept]:
    while pending:
        yield pending.popleft()


def _add(kept: Kept, uses: Counter[int], totals: dict[int, Tensor]) -> None:
    """Adds a use to the totals of its weights, and gives autograd those whose last use it is."""
    for weight, grad in zip(kept.weights, kept.made(), strict=True):
        if weight is None:
            continue
        at = id(weight.leaf)
        if grad is not None:
            totals[at] = weight.added(totals.pop(at, None), grad)
        uses[at] -= 1
        if not uses[at] and at in totals:
            torch.autograd.backward(weight.leaf, totals.pop(at).to(weight.leaf.dtype))


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Bytes of their storages, each counted once."""
    storages = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    return sum(storages.values())
