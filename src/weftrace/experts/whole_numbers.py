"""Is an option a whole number?"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np


def is_whole(value: object, *, least: int | None = None) -> TypeGuard[int | np.integer[Any]]:
    """Whether a value is a whole number, Python's or NumPy's but no bool, and not below `least`."""
    return (
        isinstance(value, int | np.integer) and not isinstance(value, bool) and (least is None or bool(value >= least))
    )
