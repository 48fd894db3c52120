"""What every reader of recorded loads gives: counts by step, layer and expert. And the arithmetic that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.loads import as_numbers

#: Values that one history may hold, 4 GiB of float64: a table that names expert 10^9 once must not take all memory.
MOST_VALUES = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """One file's recording, not yet checked for NaN and signs.

    format: one of `recorded.FORMATS`. load_TLN: float64 [steps, layers, experts]. layers: the layers' numbers in the
    model. notes: what was left out or taken for granted, a sentence each.
    """

    format: str
    load_TLN: Floats
    layers: tuple[int, ...]
    notes: tuple[str, ...] = ()


def numbered(format: str, load_TLN: Floats, notes: Sequence[str] = ()) -> Steps:
    """`Steps` whose layers have no numbers of their own: 0 to L - 1."""
    return Steps(format=format, load_TLN=load_TLN, layers=tuple(range(load_TLN.shape[1])), notes=tuple(notes))


def as_steps(value: Any, what: str) -> Floats:
    """float64 [T, L, N] of an array [T, L, N] or, one step, [L, N]."""
    array = as_numbers(value, what)
    if array.ndim not in (2, 3):
        raise LoadsError(f"{what}: loads are [steps, layers, experts] or [layers, experts], not {list(array.shape)}")
    refuse_size(array.shape, what)
    return np.ascontiguousarray(array.reshape(-1, *array.shape[-2:]), dtype=np.float64)


def of_experts(count_TLP: Floats, expert_of_slot: Any, what: str) -> Floats:
    """[T, L, N] counts of experts from [T, L, P] counts of slots and the map [L, P] (-1 for an empty slot)."""
    map_LP = as_numbers(expert_of_slot, f"{what}: the map of slots")
    if map_LP.dtype.kind not in "biu" or map_LP.shape != count_TLP.shape[1:]:
        raise LoadsError(
            f"{what}: counts are of {list(count_TLP.shape[1:])} layers and slots, "
            f"and the map of slots is {list(map_LP.shape)} of {map_LP.dtype}"
        )
    num_steps, num_layers, _ = count_TLP.shape
    num_experts = int(map_LP.max(initial=-1)) + 1
    refuse_size((num_steps, num_layers, num_experts), what)
    load_TLN = np.empty((num_steps, num_layers, num_experts))
    for layer in range(num_layers):
        load_TLN[:, layer] = count_TLP[:, layer] @ (map_LP[layer][:, None] == np.arange(num_experts)).astype(np.float64)
    return load_TLN


def scattered(
    step_K: Ints, layer_K: Ints, expert_K: Ints, count_K: Floats, num_experts: int | None, what: str
) -> tuple[Floats, tuple[int, ...]]:
    """[T, L, N] and the layers' numbers, from one row a (step, layer, expert); rows of the same three are added.

    Steps and layers are those that occur, in ascending order; experts are 0 to the highest, or to num_experts - 1.
    """
    if not len(step_K):
        raise LoadsError(f"{what}: holds no row, so no loads")
    if expert_K.min() < 0:
        raise LoadsError(f"{what}: expert {expert_K.min()}; experts are numbered from 0")
    found = int(expert_K.max()) + 1
    if num_experts is not None and found > num_experts:
        raise LoadsError(f"{what}: names expert {found - 1}, and num_experts is {num_experts}")
    steps, row_K = np.unique(step_K, return_inverse=True)
    layers, column_K = np.unique(layer_K, return_inverse=True)
    shape = (len(steps), len(layers), num_experts or found)
    refuse_size(shape, what)
    load_TLN = np.zeros(shape)
    np.add.at(load_TLN, (row_K, column_K, expert_K), count_K)
    return load_TLN, tuple(int(layer) for layer in layers)


def refuse_size(shape: Sequence[int], what: str) -> None:
    """Raises `LoadsError` where [T, L, N] or [L, N] hold nothing, or more than `MOST_VALUES`."""
    num_steps, num_layers, num_experts = shape if len(shape) == 3 else (1, *shape)
    if not num_steps * num_layers * num_experts:
        raise LoadsError(f"{what}: {num_steps} steps of {num_layers} layers and {num_experts} experts hold no loads")
    if num_steps * num_layers * num_experts > MOST_VALUES:
        raise LoadsError(
            f"{what}: {num_steps} steps of {num_layers} layers and {num_experts} experts are more than the "
            f"{MOST_VALUES:,} values that fit; give fewer files, or add up steps first"
        )
