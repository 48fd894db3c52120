"""Which experts do tokens choose together? A seeded simulation of top-k routing, limited to groups, with given loads.

A token's score of an expert is a sigmoid of a standard normal draw, plus the expert's bias, as in DeepSeek-V3's gate.
A group's score is the sum of its two best; the experts with the best scores in the best groups are chosen. Draws are
independent: tokens have no topics. The biases are fitted so that the experts' loads come out as asked.

Shapes: L layers, T tokens, N experts, K choices of a token, M groups of experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weftrace.compiled import compiled, compiled_part
from weftrace.errors import PlacementError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIT_ROUNDS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routing:
    """Experts that sampled tokens chose.

    expert_LTK: int64 [L, T, K], each token's experts in each layer, best first.
    error_L: how far the experts' shares of all choices are from those asked for: half the sum of absolute
        differences, the part of the choices that would have to change. It cannot be 0 where an expert was asked to
        take more than every token once, or more than its groups let it.
    """

    expert_LTK: Ints
    error_L: Floats


def simulate_routing(
    load_LN: Floats,
    *,
    num_groups: int,
    top_groups: int,
    top_k: int,
    num_tokens: int,
    seed: int = 0,
    rounds: int = FIT_ROUNDS,
) -> Routing:
    """Top-k choices of num_tokens tokens a layer, whose counts follow load_LN [L, N].

    num_groups, top_groups: expert n is of group n * num_groups // N; a token chooses in its top_groups best ones.
    Both 1 for routing without groups. The biases are fitted on the tokens themselves, in `rounds` trials, of which the
    first has none: with 1, experts are alike, and their counts as random as tokens are. The same arguments give the
    same choices. Raises `PlacementError` where a token cannot choose top_k experts in its groups.
    """
    num_experts = load_LN.shape[1]
    smallest = num_experts // num_groups
    if not 1 <= top_groups <= num_groups or not 1 <= top_k <= top_groups * smallest:
        raise PlacementError(
            f"a token cannot choose {top_k} experts in {top_groups} of {num_groups} groups of {smallest}; "
            "a cost model for this routing has other top_k and top_groups"
        )
    random = np.random.default_rng(seed)
    score_TN = 1.0 / (1.0 + np.exp(-random.standard_normal((num_tokens, num_experts))))
    first_M = -(-np.arange(num_groups + 1) * num_experts // num_groups)
    expert_LTK, error_L = _fit(np.ascontiguousarray(load_LN), score_TN, first_M, top_groups, top_k, rounds)
    return Routing(expert_LTK=expert_LTK, error_L=error_L)


@compiled_part
def _choose(score_TN: Floats, bias_N: Floats, first_M: Ints, top_groups: int, expert_TK: Ints) -> None:
    """Fill expert_TK with each token's best experts in its best groups."""
    num_groups = len(first_M) - 1
    top_k = expert_TK.shape[1]
    best_K = np.empty(top_k)
    group_score_M = np.empty(num_groups)
    for token in range(len(score_TN)):
        score_N = score_TN[token]
        for group in range(num_groups):
            first, second = -np.inf, -np.inf
            for expert in range(first_M[group], first_M[group + 1]):
                score = score_N[expert] + bias_N[expert]
                if score > first:
                    first, second = score, first
                elif score > second:
                    second = score
            group_score_M[group] = first + second if second > -np.inf else first
        best_K[:] = -np.inf
        for _ in range(top_groups):
            group = int(np.argmax(group_score_M))
            group_score_M[group] = -np.inf
            for expert in range(first_M[group], first_M[group + 1]):
                score = score_N[expert] + bias_N[expert]
                if score <= best_K[top_k - 1]:
                    continue
                place = top_k - 1
                while place > 0 and best_K[place - 1] < score:
                    best_K[place] = best_K[place - 1]
                    expert_TK[token, place] = expert_TK[token, place - 1]
                    place -= 1
                best_K[place] = score
                expert_TK[token, place] = expert


@compiled
def _fit(
    load_LN: Floats, score_TN: Floats, first_M: Ints, top_groups: int, top_k: int, rounds: int
) -> tuple[Ints, Floats]:
    num_layers, num_experts = load_LN.shape
    num_tokens = len(score_TN)
    expert_LTK = np.zeros((num_layers, num_tokens, top_k), dtype=np.int64)
    error_L = np.zeros(num_layers)
    for layer in range(num_layers):
        wanted_N = load_LN[layer] / load_LN[layer].sum() * (num_tokens * top_k)
        bias_N = np.zeros(num_experts)
        step = 0.10
        best_error = np.inf
        trial_TK = np.zeros((num_tokens, top_k), dtype=np.int64)
        for _ in range(rounds):
            _choose(score_TN, bias_N, first_M, top_groups, trial_TK)
            got_N = np.zeros(num_experts)
            for token in range(num_tokens):
                for k in range(top_k):
                    got_N[trial_TK[token, k]] += 1
            error = np.abs(got_N - wanted_N).sum() / (2 * num_tokens * top_k)
            if error < best_error:
                best_error = error
                for token in range(num_tokens):  # assigning whole arrays takes Numba seconds to compile
                    for k in range(top_k):
                        expert_LTK[layer, token, k] = trial_TK[token, k]
            else:
                step *= 0.7
            for expert in range(num_experts):
                ratio = (min(wanted_N[expert], num_tokens) + 1) / (got_N[expert] + 1)
                bias_N[expert] += step * np.log(ratio)
        error_L[layer] = best_error
    return expert_LTK, error_L
