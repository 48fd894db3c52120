"""Random routing of whole groups of ranks, fast: tokens are drawn once, and what ranks get of many follows from them.

A group of 64 ranks sends 262,144 tokens through each layer, each scored by 256 experts. Counts of ranks are sums over
so many independent tokens that they are normal, with the mean and the covariance of one token's counts. So a pool of
tokens is routed one by one by the gate (`weftrace.gate`), and the sums are drawn: with one standard normal z for each
token p of the pool, N tokens together give

    N mean + sqrt(N / P) sum over p of z_p (counts_p - mean of the pool)

which has exactly the pool's covariance. Rows and GPU copies of all ranks are drawn together, so rows add up to all
choices.

What is approximated, and tested against tokens drawn one by one: sums are taken as normal; the covariance is that of
P tokens; what a rank sends, and what it receives from other nodes, is drawn apart from its rows; popularities of
experts are the same in each layer, in another order.

Shapes: L layers, R ranks, D nodes, E experts, M groups of experts, P tokens of the pool, K choices, B micro-batches,
A the arrays of a load.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import ProfileError
from weftrace.facts import ExpertsConfig
from weftrace.gate import simulate_routing
from weftrace.moe.routing.distinct_places import ranks_of_experts
from weftrace.moe.routing.load import ARRAYS, Load, balanced
from weftrace.moe.setting import Setting

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POOL_TOKENS = 4_096
#: Trials in which the gate's biases are fitted to popularities; more change little, as these are drawn too.
FIT_ROUNDS = 8


def drawn(setting: Setting, *, seed: int = 0, spread: float = 0.0, num_micro_batches: int = 1) -> Load:
    """Group-limited random routing, drawn for each layer, rank and micro-batch: some ranks get more, and others wait.

    spread: standard deviation of the logarithm of an expert's popularity; 0 for experts that are all alike, where a
    rank of 64 gets 1.3 % more than the mean; from about 0.05 on popularity exceeds the pool's own chance. Popular
    experts stand in another place in each layer, and in the same in each micro-batch; copies (`num_redundant`) are of
    the most popular ones. seed: the same one gives the
    same load. Raises `ProfileError` for a spread below 0 or above 3.
    """
    if not 0 <= spread <= 3:
        raise ProfileError(f"a spread of popularity of {spread}; it is between 0 (experts alike) and 3")
    random = np.random.default_rng((seed, 1))
    pool_PK = _pool(setting.experts, seed, spread)
    even = None if spread else balanced(setting)
    layers_LABR = [_layer(setting, pool_PK, even, random, num_micro_batches) for _ in range(setting.num_layers)]
    first, *others = (
        Load(
            **dict(zip(ARRAYS, np.maximum(arrays_ALR, 0), strict=True)),
            basis=f"random routing, seed {seed}" + (f", popularity of experts spread by {spread:g}" if spread else ""),
        )
        for arrays_ALR in np.stack(layers_LABR, axis=2).swapaxes(0, 1)
    )
    return replace(first, others=tuple(others))


@lru_cache(maxsize=16)
def _pool(experts: ExpertsConfig, seed: int, spread: float) -> Ints:
    """[P, K] the experts of tokens that were routed one by one."""
    random = np.random.default_rng(seed)
    routing = simulate_routing(
        np.exp(spread * random.standard_normal((1, experts.num_experts))),
        num_groups=experts.num_groups,
        top_groups=experts.top_groups,
        top_k=experts.top_k,
        num_tokens=POOL_TOKENS,
        seed=int(random.integers(2**32)),
        rounds=FIT_ROUNDS if spread else 1,
    )
    chosen_PK: Ints = routing.expert_LTK[0]
    chosen_PK.flags.writeable = False
    return chosen_PK


def _layer(
    setting: Setting, pool_PK: Ints, even: Load | None, random: np.random.Generator, num_micro_batches: int
) -> Floats:
    """[A, B, R] of one layer, in the order of `ARRAYS`. even: means, where experts are alike: those of the pool would
    carry its own chance.
    """
    tokens, ranks, pool = setting.tokens, setting.ep, len(pool_PK)
    rank_PK = np.sort(_ranks(setting, pool_PK, random), axis=1)
    new_rank_PK, new_node_PK = _first_of_each(rank_PK), _first_of_each(rank_PK // setting.domain)
    gpus_P, nodes_P = new_rank_PK.sum(axis=1), new_node_PK.sum(axis=1)
    rows_R, gpus_R = np.bincount(rank_PK.ravel(), minlength=ranks), np.bincount(rank_PK[new_rank_PK], minlength=ranks)
    nodes_D = np.bincount((rank_PK // setting.domain)[new_node_PK], minlength=setting.num_domains) / pool
    nodes_R = np.repeat(nodes_D, ranks // setting.num_domains)
    peers = tokens * setting.num_domains  # tokens of ranks with the same number on each node

    z_BP = random.standard_normal((num_micro_batches, pool))

    def received(counts_PK: NDArray[np.bool_], sum_R: Ints) -> Floats:
        rank_X, token_X = rank_PK[counts_PK], np.nonzero(counts_PK)[0]
        noise_BR: Floats = np.stack([np.bincount(rank_X, z_P[token_X], ranks) - z_P.mean() * sum_R for z_P in z_BP])
        noise_BR *= np.sqrt(tokens * ranks / pool)
        return noise_BR

    def apart(variance_R: Floats) -> Floats:
        noise_BR: Floats = random.standard_normal((num_micro_batches, ranks)) * np.sqrt(variance_R)
        return noise_BR

    noise_ABR = np.stack(
        [
            received(np.ones_like(new_rank_PK), rows_R),
            apart(tokens * nodes_P.var()),
            apart(peers * nodes_R * (1 - nodes_R)),
            apart(tokens * gpus_P.var()),
            received(new_rank_PK, gpus_R),
        ]
    )
    scale = tokens * ranks / pool
    means = [rows_R * scale, tokens * nodes_P.mean(), peers * nodes_R, tokens * gpus_P.mean(), gpus_R * scale]
    if even is not None:
        means = [getattr(even, name).item() for name in ARRAYS]
    all_ABR: Floats = noise_ABR + np.stack([np.broadcast_to(mean, ranks) for mean in means])[:, None]
    return all_ABR


def _ranks(setting: Setting, pool_PK: Ints, random: np.random.Generator) -> Ints:
    """[P, K] where each token's experts stand in one layer: in order, shuffled; the most popular ones have the copies
    (`num_redundant`), wherever a GPU has a free place, and tokens take an expert's copies in turn.
    """
    num_experts, num_ranks = setting.experts.num_experts, setting.ep
    rank_E = ranks_of_experts(num_experts, num_ranks)[_shuffled(setting, random)]
    if not setting.num_redundant:
        return rank_E[pool_PK]
    free_R = setting.local_experts - np.bincount(rank_E, minlength=num_ranks)
    free = random.permutation(np.repeat(np.arange(num_ranks), free_R))
    popular = np.argsort(-np.bincount(pool_PK.ravel(), minlength=num_experts), kind="stable")
    rank_CE = np.full((1 + -(-len(free) // num_experts), num_experts), -1)
    rank_CE[0] = rank_E
    rank_CE[1 + np.arange(len(free)) // num_experts, popular[np.arange(len(free)) % num_experts]] = free
    copies_E = (rank_CE >= 0).sum(axis=0)
    in_turn_PK = np.arange(len(pool_PK))[:, None] % copies_E[pool_PK]
    rank_PK: Ints = rank_CE[in_turn_PK, pool_PK]
    return rank_PK


def _shuffled(setting: Setting, random: np.random.Generator) -> Ints:
    """[E] the place of each expert: groups in a random order, and experts within theirs."""
    experts = setting.experts
    size = experts.num_experts // experts.num_groups
    within_ME = random.permuted(np.tile(np.arange(size), (experts.num_groups, 1)), axis=1)
    place_E: Ints = (random.permutation(experts.num_groups)[:, None] * size + within_ME).ravel()
    return place_E


def _first_of_each(place_PK: Ints) -> NDArray[np.bool_]:
    """Where a place stands for the first time, in rows that are sorted."""
    new_PK = np.ones(place_PK.shape, np.bool_)
    new_PK[:, 1:] = place_PK[:, 1:] != place_PK[:, :-1]
    return new_PK
