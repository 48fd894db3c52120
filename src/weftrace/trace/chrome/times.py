"""Which nanosecond is a time in a trace file? Microseconds, as JSON numbers, into integer nanoseconds, exactly.

Old files write integers; newer ones add a fraction for the nanoseconds, some of them to an epoch time of 16 digits,
which float64 cannot hold. Where floats are exact enough they are used, because they are fast; elsewhere decimals are.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, InvalidOperation
from itertools import repeat
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.units import US

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Times and ends of events lie strictly between -MAX_NS and MAX_NS (73 years on either side of an origin, or the year
#: 2116), so that adding `baseTimeNanoseconds`, which is below it too, cannot overflow an int64.
MAX_NS = 1 << 62
_MAX_US = MAX_NS // US

# Below it, float64 values lie at most 2**-10 µs apart: the float nearest to a whole nanosecond is less than half a
# nanosecond away from it.
_FLOAT_EXACT_US = 2.0**43

_CONTEXT = Context(prec=64, traps=[])  # decimals must not depend on what the caller set for the thread


class TooFine(Exception):
    """A time is a fraction too large for float64 to hold its nanoseconds: decode the text again, into decimals."""


def times_ns(values: Sequence[Any]) -> tuple[Ints, Bools]:
    """Microseconds to the nearest integer nanosecond; and which of them are usable, the others being 0.

    values: int, float, Decimal or None, mixed at will. Raises TooFine where a float has lost its nanoseconds.
    """
    array = np.array(values)
    if array.dtype == np.int64:
        usable = (array > -_MAX_US) & (array < _MAX_US)
        return (array if usable.all() else np.where(usable, array, 0)) * US, usable
    if array.dtype == np.float64 and len(array) and np.abs(array).max() < _FLOAT_EXACT_US:  # False where one is NaN
        whole = np.floor(array)
        return whole.astype(np.int64) * US + np.rint((array - whole) * US).astype(np.int64), np.ones(
            len(array), np.bool_
        )
    return _decimals_ns(values) or _one_by_one(values)


def _decimals_ns(values: Sequence[Any]) -> tuple[Ints, Bools] | None:
    """The same for decimals and integers without a flaw among them; None where there is another type or a flaw."""
    try:
        if not (min(values) > -_MAX_US and max(values) < _MAX_US):
            return None
        exact = list(map(round, map(_CONTEXT.multiply, values, repeat(US))))
    except (TypeError, ValueError, InvalidOperation):
        return None
    return np.array(exact, np.int64), np.ones(len(exact), np.bool_)


def _one_by_one(values: Sequence[Any]) -> tuple[Ints, Bools]:
    if any(type(value) is float and _FLOAT_EXACT_US <= abs(value) < _MAX_US for value in values):
        raise TooFine
    exact = [exact_ns(value) for value in values]
    usable = np.array([value is not None for value in exact], np.bool_)
    return np.array([0 if value is None else value for value in exact], np.int64), usable


def exact_ns(value: Any) -> int | None:
    """One time in nanoseconds; None where it is no number, not finite or beyond `MAX_NS`. Raises TooFine as above."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        return value * US if -_MAX_US < value < _MAX_US else None
    if not (value.is_finite() if isinstance(value, Decimal) else isfinite(value)) or not -_MAX_US < value < _MAX_US:
        return None
    if isinstance(value, float):
        if abs(value) >= _FLOAT_EXACT_US:
            raise TooFine
        value = Decimal(value)
    return round(_CONTEXT.multiply(value, US))


def decimal_us(time_ns: int) -> Decimal:
    """Nanoseconds in microseconds, exactly."""
    return _CONTEXT.divide(Decimal(time_ns), Decimal(US))
