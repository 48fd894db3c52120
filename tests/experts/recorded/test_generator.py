"""Made loads and histories: seeded, of the stated kinds and distribution, drift and noise."""

from __future__ import annotations

import numpy as np
import pytest

from weftrace.errors import LoadsError
from weftrace.experts.recorded.generator import KINDS, generate_loads, synthetic_loads


def test_without_noise_and_drift_every_window_is_the_first() -> None:
    history = generate_loads("logn1", 5, 3, 16, drift=1.0, tokens=None)
    assert history.load_TLN.shape == (5, 3, 16)
    np.testing.assert_array_equal(history.load_TLN, np.broadcast_to(history.load_TLN[0], (5, 3, 16)))
    np.testing.assert_allclose(history.load_TLN.mean(axis=2), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_is_counted_once(kind: str) -> None:
    history = generate_loads(kind, 4, 3, 32, tokens=1000, seed=1)
    np.testing.assert_array_equal(history.load_TLN.sum(axis=2), 1000)
    np.testing.assert_array_equal(history.load_TLN, generate_loads(kind, 4, 3, 32, tokens=1000, seed=1).load_TLN)
    assert (history.load_TLN != generate_loads(kind, 4, 3, 32, tokens=1000, seed=2).load_TLN).any()


def test_the_noise_is_that_of_counting() -> None:
    # 20,000 windows of 100 choices of 4 equal experts: mean 25, variance 100 · 1/4 · 3/4 = 18.75
    load_TN = generate_loads([0.0], 20_000, 1, 4, tokens=100).load_TLN[:, 0]
    np.testing.assert_allclose(load_TN.mean(axis=0), 25, rtol=0.01)
    np.testing.assert_allclose(load_TN.var(axis=0), 18.75, rtol=0.05)


@pytest.mark.parametrize("drift", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("num_topics", [0, 3])
def test_log_loads_have_the_stated_sigma_and_correlation(drift: float, num_topics: int) -> None:
    # Differences of log-loads within a window are free of the normalisation and have the same autocorrelation.
    load_TLN = generate_loads([0.7], 4000, 2, 12, drift=drift, tokens=None, num_topics=num_topics).load_TLN
    log_TLN = np.log(load_TLN)
    log_TLN = log_TLN - log_TLN.mean(axis=2, keepdims=True)
    correlation = (log_TLN[1:] * log_TLN[:-1]).mean() / (log_TLN**2).mean()
    assert correlation == pytest.approx(drift, abs=0.03)
    if not num_topics:  # the topics' tastes are drawn once, so their variance is that of the draw
        assert np.sqrt((log_TLN**2).mean() * 12 / 11) == pytest.approx(0.7, rel=0.05)


def test_zipf_keeps_its_distribution_while_experts_change_rank() -> None:
    load_TLN = generate_loads("zipf1", 10, 2, 20, drift=0.9, tokens=None).load_TLN
    expected_LN = np.sort(synthetic_loads("zipf1", 2, 20), axis=1)
    np.testing.assert_allclose(np.sort(load_TLN, axis=2), np.broadcast_to(expected_LN, load_TLN.shape))
    assert (load_TLN[0].argmax(axis=1) != load_TLN[-1].argmax(axis=1)).any()


def test_topics_make_experts_hot_together() -> None:
    """With one topic that makes all of the variance, log-loads of two experts go up and down together, or opposed."""
    alone, together = (
        generate_loads([1.0], 400, 1, 6, drift=0.5, tokens=None, num_topics=topics, topic_share=1.0).load_TLN[:, 0]
        for topics in (0, 1)
    )
    for load_TN, least, most in ((alone, 0.0, 0.4), (together, 0.999, 1.0)):
        log_TN = np.log(load_TN)
        correlation = np.corrcoef(log_TN[:, 0] - log_TN[:, 1], log_TN[:, 2] - log_TN[:, 3])[0, 1]
        assert least <= abs(correlation) <= most + 1e-9


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": "zipf2"}, "choose from"),
        ({"kind": [1.0, 2.0]}, "2 sigmas were given for 3 layers"),
        ({"kind": [-1.0]}, "from 0 to 10"),
        ({"kind": ["a"]}, "sigma of each layer"),
        ({"drift": 1.5}, "drift must be from 0 to 1, not 1.5"),
        ({"drift": float("nan")}, "drift must be"),
        ({"tokens": 0}, "tokens must be a whole number of at least 1"),
        ({"num_windows": 0}, "num_windows"),
        ({"num_topics": -1}, "num_topics"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(LoadsError, match=text) as raised:
        generate_loads(**{"num_windows": 2, "num_layers": 3, "num_experts": 4, **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


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
