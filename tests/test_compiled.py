"""Functions that are interpreted until that takes long, and compiled then, give the same either way."""

from __future__ import annotations

from typing import Any

import numpy as np

from weftrace.compiled import interpreted
from weftrace.experts.proof import bounds, fold_bound


def test_interpreted_functions_give_the_same_bits_as_compiled_ones() -> None:
    random = np.random.default_rng(3)
    load_LN, speed_G = random.gamma(0.5, size=(3, 24)), np.repeat([1.0, 0.5], 4)
    capacity_LG = np.full((3, 8), 4)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (bounds._replica_bound, (load_LN, capacity_LG, speed_G, np.array([True, False, True]))),
        (bounds._capacity_bound, (load_LN, capacity_LG, speed_G)),
        (bounds._bound_by_slots, (load_LN, speed_G, np.full(3, 1e-3), False, 8)),
        (fold_bound._fold_bound, (load_LN, np.full(3, 16), np.full(3, 0.1), load_LN.max(axis=1), np.full(3, True))),
    ]
    for function, arguments in calls:
        compiled, plain = function.compiled(*arguments), interpreted(function.compiled)(*arguments)
        for one, other in zip(_arrays(compiled), _arrays(plain), strict=True):
            assert one.tobytes() == other.tobytes()


def _arrays(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
