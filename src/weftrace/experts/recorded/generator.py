"""Loads that are made, not measured: seeded, of the kinds that balancers are compared on; and histories of them, with
drift and the noise of counting tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats, frozen, is_whole
from weftrace.experts.recorded.read import LoadHistory

KINDS = ("logn0.5", "logn1", "zipf0.5", "zipf1", "real")


def generate_loads(
    kind: str | Sequence[float] = "real",
    num_windows: int = 100,
    num_layers: int = 58,
    num_experts: int = 256,
    *,
    drift: float = 0.98,
    tokens: int | None = 1_000_000,
    num_topics: int = 0,
    topic_share: float = 0.5,
    seed: int = 0,
) -> LoadHistory:
    """`LoadHistory` [num_windows, num_layers, num_experts] of the given popularity, changing from window to window.

    In every layer the expert's log-load is a stationary AR(1) process around 0 with the layer's sigma,
    z(t+1) = drift · z(t) + sqrt(1 - drift²) · sigma · normal; the expected share of an expert is exp(z) / sum exp(z).
    Zipf loads keep their distribution: the process decides only who has which rank.

    kind: one of `KINDS`, or the sigma of each layer [L] (one number for all).
    drift: correlation of log-loads from one window to the next, 0 to 1. 1 never changes; 0.98 is slow (half of the
        pattern is new after 34 windows); 0 draws each window afresh.
    tokens: choices (tokens · top-k) counted in a window and layer, drawn as a multinomial of the shares; None gives the
        expected loads, without noise, with mean 1 over the experts.
    num_topics: kinds of requests whose mix drifts too (AR(1) of the same drift): each topic raises experts of its own
        in every layer, so that experts and layers become hot together (co-activation). 0 for none.
    topic_share: part of the variance of log-loads that topics make, 0 to 1; the rest is each expert's own.
    The same arguments give the same loads. Raises `LoadsError` for arguments out of these ranges.
    """
    least_of = {"num_windows": 1, "num_layers": 1, "num_experts": 1, "num_topics": 0, "tokens": 1}
    wholes = (num_windows, num_layers, num_experts, num_topics, 1 if tokens is None else tokens)
    for (name, least), whole in zip(least_of.items(), wholes, strict=True):
        if not is_whole(whole, least=least):
            raise LoadsError(f"{name} must be a whole number of at least {least}, not {whole!r}")
    for part, name in ((drift, "drift"), (topic_share, "topic_share")):
        if not 0 <= part <= 1:
            raise LoadsError(f"{name} must be from 0 to 1, not {part!r}")
    random = np.random.default_rng(seed)
    ranked_LN, sigma_L = _popularity(kind, num_layers, num_experts, seed)
    own, shared = (math.sqrt(1 - topic_share), math.sqrt(topic_share)) if num_topics else (1.0, 0.0)
    taste_KLN = random.standard_normal((num_topics, num_layers, num_experts))
    state_LN = random.standard_normal((num_layers, num_experts))
    mix_K = random.standard_normal(num_topics)
    load_TLN = np.empty((num_windows, num_layers, num_experts))
    kept, new = drift, math.sqrt(1 - drift * drift)
    for window in range(num_windows):
        if window:
            state_LN = kept * state_LN + new * random.standard_normal(state_LN.shape)
            mix_K = kept * mix_K + new * random.standard_normal(num_topics)
        z_LN = own * state_LN
        if num_topics:
            z_LN += shared / math.sqrt(num_topics) * np.tensordot(mix_K, taste_KLN, axes=1)
        load_LN = _expected(z_LN, ranked_LN, sigma_L)
        if tokens is not None:
            load_LN = random.multinomial(tokens, load_LN / load_LN.sum(axis=1, keepdims=True)).astype(np.float64)
        load_TLN[window] = load_LN
    named = kind if isinstance(kind, str) else f"lognormal, {len(sigma_L)} sigmas"
    noise = "no noise" if tokens is None else f"{tokens:,} choices a window"
    topics = f", {num_topics} topics" if num_topics else ""
    return LoadHistory(
        load_TLN=frozen(load_TLN),
        layers=tuple(range(num_layers)),
        source=f"generated: {named}, drift {drift}, {noise}{topics}, seed {seed}",
    )


def _popularity(
    kind: str | Sequence[float], num_layers: int, num_experts: int, seed: int
) -> tuple[Floats | None, Floats]:
    """[L, N] loads in ascending order where ranks are all that changes (Zipf), else None; and the layers' sigmas."""
    if isinstance(kind, str):
        load_LN = synthetic_loads(kind, num_layers, num_experts, seed=seed)  # also refuses a bad kind
        if kind.startswith("zipf"):
            return np.sort(load_LN, axis=1), np.ones(num_layers)
        return None, sigmas(kind, num_layers)
    try:
        sigma_L = np.array(kind, dtype=np.float64).reshape(-1)
    except (ValueError, TypeError) as error:
        raise LoadsError(f"kind is a name or the sigma of each layer, not {kind!r}") from error
    if len(sigma_L) == 1:
        sigma_L = np.full(num_layers, sigma_L[0])
    if len(sigma_L) != num_layers:
        raise LoadsError(f"{len(sigma_L)} sigmas were given for {num_layers} layers; give one each, or one for all")
    if not (np.isfinite(sigma_L) & (sigma_L >= 0) & (sigma_L <= 10)).all():
        raise LoadsError(f"a sigma is a number from 0 to 10, not {sigma_L.tolist()}")
    return None, sigma_L


def _expected(z_LN: Floats, ranked_LN: Floats | None, sigma_L: Floats) -> Floats:
    """[L, N] expected loads, mean 1 over a layer, for log-loads of variance 1."""
    if ranked_LN is not None:
        rank_LN = np.argsort(np.argsort(z_LN, axis=1, kind="stable"), axis=1, kind="stable")
        moved_LN: Floats = np.take_along_axis(ranked_LN, rank_LN, axis=1)
        return moved_LN
    load_LN: Floats = np.exp(sigma_L[:, None] * z_LN)
    load_LN /= load_LN.mean(axis=1, keepdims=True)
    return load_LN


def synthetic_loads(kind: str, num_layers: int, num_experts: int, *, seed: int = 0) -> Floats:
    """float64 [L, N] expected loads, mean 1 over a layer.

    kind: "logn0.5", "logn1": lognormal with that sigma; "zipf0.5", "zipf1": 1 / rank^s, experts in random order;
    "real": lognormal whose sigma rises evenly from 0.6 in the first layer to 1.6 in the last, as recorded loads do.
    The same seed gives the same loads. Raises `LoadsError` for another kind or no layers or experts.
    """
    if kind not in KINDS:
        raise LoadsError(f"no loads of kind {kind!r}; choose from {', '.join(KINDS)}")
    if num_layers < 1 or num_experts < 1:
        raise LoadsError(f"{num_layers} layers of {num_experts} experts: there is nothing to make loads for")
    random = np.random.default_rng(seed)
    if kind.startswith("zipf"):
        ranked_N = 1.0 / np.arange(1, num_experts + 1) ** float(kind[4:])
        load_LN = random.permuted(np.tile(ranked_N, (num_layers, 1)), axis=1)
    else:
        load_LN = np.exp(sigmas(kind, num_layers)[:, None] * random.standard_normal((num_layers, num_experts)))
    load_LN /= load_LN.mean(axis=1, keepdims=True)
    return load_LN


def sigmas(kind: str, num_layers: int) -> Floats:
    """[L] sigma of each layer's log-loads, for a lognormal kind: "logn0.5", "logn1" or "real"."""
    return np.linspace(0.6, 1.6, num_layers) if kind == "real" else np.full(num_layers, float(kind[4:]))
