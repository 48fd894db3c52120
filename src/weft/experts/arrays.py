"""Array types of this package, and its alphabet of shapes.

L layers, N logical experts, P physical slots, G GPUs, S = P / G slots a GPU, X the largest copy count. An array's name
ends in its shape: `load_LN[l, n]` is the load of expert n in layer l.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array, C-contiguous and read-only; a copy where the caller's own would be locked."""
    mine = np.array(array, order="C", copy=True)
    mine.flags.writeable = False
    return mine
