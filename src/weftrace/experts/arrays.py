"""Array types of this package, and its alphabet of shapes; and what counts as a whole number.

L layers, N logical experts, P physical slots, G GPUs, D nodes, S = P / G slots a GPU, X the largest copy count,
M groups of experts, R replicas, T windows. Other letters, and these where they stand for something else, are explained
where they are used. An array's name ends in its shape: `load_LN[l, n]` is the load of expert n in layer l.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A copy, C-contiguous and read-only: the caller's own array is not locked."""
    mine = np.array(array, order="C", copy=True)
    mine.flags.writeable = False
    return mine


def is_whole(value: object, *, least: int | None = None) -> TypeGuard[int | np.integer[Any]]:
    """Whether a value is a whole number, Python's or NumPy's but no bool, and not below `least`."""
    return (
        isinstance(value, int | np.integer) and not isinstance(value, bool) and (least is None or bool(value >= least))
    )
