"""Loads of every kind come in as one checked float64 array."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weftrace.errors import LoadsError
from weftrace.experts.loads import as_loads


@pytest.mark.parametrize(
    "loads",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2.0), (3.0, 4.0)),
        np.array([[1, 2], [3, 4]], dtype=np.uint8),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.asfortranarray(np.array([[1, 2], [3, 4]])),
        torch.tensor([[1, 2], [3, 4]]),
        torch.tensor([[1, 2], [3, 4]], dtype=torch.bfloat16, requires_grad=True),
    ],
    ids=lambda loads: f"{type(loads).__name__}-{getattr(loads, 'dtype', '')}",
)
def test_lists_arrays_and_tensors_are_the_same(loads: object) -> None:
    load_LN = as_loads(loads)
    assert load_LN.dtype == np.float64
    assert load_LN.flags.c_contiguous
    np.testing.assert_array_equal(load_LN, [[1, 2], [3, 4]])


def test_one_row_is_one_layer_and_the_callers_array_is_left_alone() -> None:
    mine = np.array([1.0, 2.0])
    as_loads(mine)[0, 0] = 9
    np.testing.assert_array_equal(mine, [1, 2])
    assert as_loads(mine).shape == (1, 2)


def test_counters_beyond_2_to_the_53_are_rounded_to_float64() -> None:
    counters = np.array([[2**53 + 1, 2**62, 1]], dtype=np.int64)
    np.testing.assert_allclose(as_loads(counters), [[2.0**53, 2.0**62, 1.0]], rtol=2**-52)
    np.testing.assert_allclose(as_loads([[2**70, 1]]), [[2.0**70, 1.0]], rtol=2**-52)  # Python's own whole numbers


def test_zeros_are_loads() -> None:
    np.testing.assert_array_equal(as_loads([[0, 0]]), [[0, 0]])


@pytest.mark.parametrize(
    ("loads", "text"),
    [
        ([[1.0, float("nan")]], "the load of expert 1 in layer 0 is not finite: nan"),
        ([[1.0, 2.0], [float("inf"), float("inf")]], r"expert 0 in layer 1 is not finite: inf \(and 1 more\)"),
        ([[3, -1]], "expert 1 in layer 0 is negative: -1.0"),
        ([[1, 2], [3]], "not an array of numbers"),
        ([["a", "b"]], "not an array of numbers but of"),
        (None, r"these have shape \[\]"),
        ({"loads": 1}, "not an array of numbers"),
        (3.0, r"must be \[layers, experts\]; these have shape \[\]"),
        (np.zeros((2, 3, 4)), r"these have shape \[2, 3, 4\]"),
        (np.zeros((0, 4)), "0 layers of 4 experts: there is nothing to place"),
        (np.zeros((4, 0)), "4 layers of 0 experts: there is nothing to place"),
        ([[1e308, 1e308]], "the sum of layer 0 is above the range of float64"),
        (np.array([[1 + 2j]]), "not an array of numbers but of complex128"),
    ],
)
def test_what_is_no_load_is_refused_in_one_line(loads: object, text: str) -> None:
    with pytest.raises(LoadsError, match=text) as caught:
        as_loads(loads, what="counts.json")
    assert str(caught.value).startswith("counts.json: ")
    assert "\n" not in str(caught.value)
