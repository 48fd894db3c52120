"""To how many nodes, or GPUs, does a token go? The mean number of distinct places that hold one of its experts.

A place is a GPU, a node, or a domain of GPUs joined by NVLink. The token's own place counts where it holds one of its
experts, as DeepSeek counts (3.97 nodes at EP64, 3.12 at EP32). All experts are equally likely: loads are balanced.

Two questions. How many of its experts does a token take from each of its groups: 2, 2, 2, 2 or 3, 2, 2, 1? That is
certain where the gate knows no groups, takes one group, or one expert; else it depends on the gate's scores, since a
group's score is the sum of its two best experts', and is drawn, with its error. Which groups, and which experts in
them: all are alike, so the rest is exact. A place that holds n of a group's m experts is missed by c of them with
probability C(m - n, c) / C(m, c), and a token misses a place where its experts in every group do.

Shapes: E experts, R ranks, P places, M groups, T drawn tokens, K choices.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import comb, perm, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import ProfileError
from weftrace.facts import ExpertsConfig

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWN_TOKENS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """mean: distinct places a token, its own counted. error: standard error of that mean; 0 where it is exact."""

    mean: float
    error: float

    @property
    def summary(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.4f} (drawn)" if self.error else f"{self.mean:.3f}"


def ranks_of_experts(num_experts: int, num_ranks: int) -> Ints:
    """[E] Experts in order, equally many on each rank: those of a group stand side by side, as DeepSeek places them."""
    return np.arange(num_experts) * num_ranks // num_experts


def distinct_places(experts: ExpertsConfig, place_of_expert_E: Ints) -> Distinct:
    """The mean number of distinct places among those of a token's experts.

    Raises `ProfileError` for groups that are not equal, and where a token cannot choose its experts in its groups.
    """
    size = experts.num_experts / experts.num_groups
    if size % 1 or experts.top_k > experts.top_groups * size:
        raise ProfileError(
            f"a token cannot choose {experts.top_k} experts in {experts.top_groups} of {experts.num_groups} groups "
            f"of {size:g} experts each"
        )
    shares = _shares_of_counts(experts)
    num_groups = _num_groups(experts)
    held = Counter(tuple(sorted(row, reverse=True)) for row in _held(place_of_expert_E, num_groups).tolist())
    visited = {
        counts: sum(often * (1 - _missed(place, counts, len(place_of_expert_E))) for place, often in held.items())
        for counts in shares
    }
    mean = sum(visited[counts] * share for counts, share in shares.items())
    variance = sum((visited[counts] - mean) ** 2 * share for counts, share in shares.items())
    return Distinct(mean=mean, error=sqrt(variance / DRAWN_TOKENS) if len(shares) > 1 else 0.0)


def _held(place_of_expert_E: Ints, num_groups: int) -> Ints:
    """[P, M] How many experts of a group stand at a place."""
    group_of_expert_E = np.arange(len(place_of_expert_E)) * num_groups // len(place_of_expert_E)
    held_PM = np.zeros((int(place_of_expert_E.max()) + 1, num_groups), np.int64)
    np.add.at(held_PM, (place_of_expert_E, group_of_expert_E), 1)
    return held_PM


def _missed(held_M: tuple[int, ...], counts: tuple[int, ...], num_experts: int) -> float:
    """The probability that a token misses a place, over all ways to give its counts to groups, each equally likely.

    Group by group: a sum over which of the counts were given so far (a bit each), of products of misses.
    """
    size = num_experts // len(held_M)
    missed = [1.0] + [0.0] * ((1 << len(counts)) - 1)
    for held in held_M:
        one = [comb(size - held, count) / comb(size, count) for count in counts]
        for given in range(len(missed) - 1, 0, -1):
            missed[given] += sum(missed[given ^ 1 << i] * one[i] for i in range(len(counts)) if given >> i & 1)
    return missed[-1] / perm(len(held_M), len(counts))


def _num_groups(experts: ExpertsConfig) -> int:
    """Where no group is left out, groups do not matter: all experts are one."""
    return 1 if experts.num_groups == experts.top_groups else experts.num_groups


def _shares_of_counts(experts: ExpertsConfig) -> dict[tuple[int, ...], float]:
    """How many of a token's experts are of each of its groups, largest first -> the part of the tokens."""
    if _num_groups(experts) == 1 or experts.top_groups == 1 or experts.top_k == 1:
        return {(experts.top_k,): 1.0}
    return _drawn_counts(experts.num_experts, experts.num_groups, experts.top_groups, experts.top_k)


@cache
def _drawn_counts(num_experts: int, num_groups: int, top_groups: int, top_k: int) -> dict[tuple[int, ...], float]:
    """Drawn from order statistics, since only the best experts of a group matter: of m uniforms the next best is the
    one before times V ** (1 / m), V uniform, with m less by one each time; kept as logarithms. A score is the sigmoid
    of a standard normal, as in `weftrace.gate`.
    """
    size = num_experts // num_groups
    most = min(size, top_k)
    random = np.random.default_rng(0)
    steps_TMX = random.standard_exponential((DRAWN_TOKENS, num_groups, most)) / (size - np.arange(most))
    best_TMX = -steps_TMX.cumsum(axis=2)
    score_TM = _scores(np.exp(best_TMX[:, :, :2])).sum(axis=2)
    chosen_TM = np.argpartition(score_TM, -top_groups, axis=1)[:, -top_groups:]
    best_TX = np.take_along_axis(best_TMX, chosen_TM[:, :, None], axis=1).reshape(DRAWN_TOKENS, -1)
    group_TK = np.argpartition(best_TX, -top_k, axis=1)[:, -top_k:] // most
    counts_TM = np.sort((group_TK[:, :, None] == np.arange(top_groups)).sum(axis=1), axis=1)[:, ::-1]
    ways, often = np.unique(counts_TM, axis=0, return_counts=True)
    return {tuple(c for c in way if c): n / DRAWN_TOKENS for way, n in zip(ways.tolist(), often.tolist(), strict=True)}


def _scores(uniform: Floats) -> Floats:
    """The sigmoid of the standard normal's quantile, from a table."""
    normal = np.linspace(-8, 8, 4_001)
    cumulative = np.array([NormalDist().cdf(value) for value in normal])
    return np.interp(uniform, cumulative, 1 / (1 + np.exp(-normal)))
