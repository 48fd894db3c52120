"""Made loads are of the kinds they say, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from weftrace.errors import LoadsError
from weftrace.experts.recorded.synthetic import KINDS, synthetic_loads


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_loads_of_mean_one(kind: str) -> None:
    load_LN = synthetic_loads(kind, 5, 64, seed=3)
    np.testing.assert_array_equal(load_LN, synthetic_loads(kind, 5, 64, seed=3))
    assert not np.array_equal(load_LN, synthetic_loads(kind, 5, 64, seed=4))
    np.testing.assert_allclose(load_LN.mean(axis=1), 1)
    assert (load_LN > 0).all()


def test_spread_is_the_stated_one() -> None:
    sigma_L = np.log(synthetic_loads("real", 3, 20_000)).std(axis=1)
    np.testing.assert_allclose(sigma_L, [0.6, 1.1, 1.6], rtol=0.03)
    zipf_N = np.sort(synthetic_loads("zipf1", 1, 4)[0])[::-1]
    np.testing.assert_allclose(zipf_N / zipf_N[0], [1, 1 / 2, 1 / 3, 1 / 4])


def test_unknown_kinds_are_listed() -> None:
    with pytest.raises(LoadsError, match=r"no loads of kind 'pareto'; choose from logn0.5, logn1"):
        synthetic_loads("pareto", 1, 8)
    with pytest.raises(LoadsError, match="0 layers of 8 experts"):
        synthetic_loads("real", 0, 8)
