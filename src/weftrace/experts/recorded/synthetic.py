"""Loads that are made, not measured: seeded, of the kinds that balancers are compared on."""

from __future__ import annotations

import numpy as np

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats

KINDS = ("logn0.5", "logn1", "zipf0.5", "zipf1", "real")


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
