"""Would other copy counts pack better than those with the smallest replicas?

With few slots a GPU they would: what counts there is which replicas stand together, not the largest alone. Both
searches are seeded and start from greedy counts. With two slots a GPU the best packing of given counts is known, the
largest replica beside the smallest, so every trade of a copy between two experts can be judged exactly. With more slots
a trade at random, on the GPU that ends last, stands in for the kick of the swap search.
"""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.packing.packing import packed, pinned_replicas
from weftrace.experts.packing.replication import greedy_counts, replicas_of
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.proof.fold_bound import fold_s
from weftrace.experts.slots import lay_out, num_repeats

MOST_SLOTS = 16  # a GPU; with more, swaps alone come within 1e-4 of perfect balance
TRADES = 12  # kicks a layer of the search among replicas
FOLDS = 2  # kicks a layer of the search with two slots a GPU


def solve_count_search(problem: Problem, *, effort: float = 1.0) -> Solution | NotApplicable:
    """Copy counts and packing searched together, for an even split and 2 to 16 slots a GPU.

    effort: how many times the usual number of kicks; the time grows with it.
    """
    most_slots = int(problem.capacity_LG.max())
    if not problem.is_even:
        return NotApplicable(reason="the split is uneven: counts are searched for even parts alone")
    if not 2 <= most_slots <= MOST_SLOTS:
        return NotApplicable(reason=f"needs 2 to {MOST_SLOTS} slots a GPU, and there are {most_slots}")
    is_fold = most_slots == 2 and problem.is_plain
    if is_fold and fold_s(problem) > problem.patience_s:
        return NotApplicable(reason="judging every trade of copies takes longer than there is time")
    load_LN, capacity_LG, speed_G = problem.load_LN, problem.capacity_LG, problem.cluster.speed_G
    most_L = (capacity_LG > 0).sum(axis=1)
    counts_LN = greedy_counts(load_LN, problem.replicas_L, most_L, problem.pinned_LN)
    trades = int(TRADES * effort)
    if is_fold:
        trades = 0  # the fold has judged them all
        counts_LN = fold_counts(load_LN, counts_LN, problem.cluster.num_gpus, rounds=int(FOLDS * effort))
    expert_LR, value_LR = replicas_of(counts_LN, load_LN)
    pinned_LR = pinned_replicas(expert_LR, problem.pins_K3)
    expert_LR, gpu_LR = packed(expert_LR, value_LR, capacity_LG, speed_G, pinned_LR, rounds=trades, may_recount=True)
    expert_of_slot_LP = lay_out(expert_LR, gpu_LR, problem.cluster.first_slot_G)
    if num_repeats(expert_of_slot_LP, problem.cluster.first_slot_G).any():
        return NotApplicable(reason="greedy counts cannot be placed without an expert twice on a GPU")
    return problem.evenly(expert_of_slot_LP)


def fold_counts(load_LN: Floats, counts_LN: Ints, num_gpus: int, *, rounds: int = FOLDS) -> Ints:
    """Copy counts for two slots a GPU, searched so that the fold has a small maximum; at least as good as counts_LN.

    The fold of 2G replicas puts the largest beside the smallest, the second beside the second smallest, and so on; for
    given counts nothing has a lower maximum, an exchange of partners shows. counts_LN: [L, N] greedy counts to start
    from; the search of a layer ends where it comes close to their largest replica, which no counts can beat. rounds:
    kicks after the first descent. The answer, [L, N], has the same row sums and at most num_gpus copies each.
    """
    assert (counts_LN.sum(axis=1) == 2 * num_gpus).all(), (counts_LN.sum(axis=1), num_gpus)
    counts_LN = counts_LN.copy()
    _fold_counts(np.ascontiguousarray(load_LN, dtype=np.float64), counts_LN, num_gpus, rounds)
    return counts_LN


@compiled
def _fold_counts(load_LN: Floats, counts_LN: Ints, num_gpus: int, rounds: int) -> None:
    num_layers, num_experts = load_LN.shape
    for layer in range(num_layers):
        load_N, counts_N = load_LN[layer], counts_LN[layer]
        # neither the mean nor the largest replica of greedy counts can be beaten
        goal = max(load_N.sum() / num_gpus, (load_N / counts_N).max()) * (1 + 1e-4)
        best, best_N = np.inf, counts_N.copy()
        random = 1
        for turn in range(rounds + 1):
            if best <= goal:
                break
            for _ in range(100 if turn > 0 else 0):  # most trades at random make no sense
                random = (random * 1103515245 + 12345) % 2147483648
                gains = (random >> 8) % num_experts
                random = (random * 1103515245 + 12345) % 2147483648
                loses = (random >> 8) % num_experts
                if (
                    gains != loses
                    and counts_N[loses] > 1
                    and counts_N[gains] < num_gpus
                    and load_N[loses] / (counts_N[loses] - 1) < best
                    and load_N[gains] / counts_N[gains] > best / 5
                ):
                    counts_N[gains] += 1
                    counts_N[loses] -= 1
                    break
            found = _descend(load_N, counts_N, num_gpus, goal, (random >> 8) % num_experts)
            if found <= best:
                best = found
                best_N[:] = counts_N
            else:
                counts_N[:] = best_N
        counts_N[:] = best_N


@compiled_part
def _descend(load_N: Floats, counts_N: Ints, num_gpus: int, goal: float, start: int) -> float:
    """Trade copies while the fold's maximum falls; the maximum then.

    One expert loses a copy and another gains one. Replicas after the loss are listed afresh for each loser, and those
    after the gain are read from that list with an offset, so that most trades are refused after a single look: at the
    pair that stopped the trade before.
    """
    num_experts, num_replicas = len(load_N), 2 * num_gpus
    value_R = np.empty(num_replicas, dtype=np.float64)
    after_R = np.empty(num_replicas, dtype=np.float64)  # one replica less: the loser's
    rank_N, rank_after_N = np.empty(num_experts, dtype=np.int64), np.empty(num_experts, dtype=np.int64)
    pair = 0
    best = np.inf
    while True:
        _list_values(load_N, counts_N, value_R)
        if best == np.inf:
            best = (value_R + value_R[::-1]).max()
        for expert in range(num_experts):
            rank_N[expert] = _num_above(value_R, load_N[expert] / counts_N[expert])
            rank_after_N[expert] = _num_above(value_R, load_N[expert] / (counts_N[expert] + 1))
        found_loser, found_gainer = -1, -1
        for turn in range(num_experts):
            loser = (start + turn) % num_experts
            fewer = counts_N[loser] - 1
            if best <= goal or found_gainer >= 0:
                break
            if fewer < 1 or load_N[loser] / fewer >= best:
                continue
            old, new = load_N[loser] / counts_N[loser], load_N[loser] / fewer
            _lose(value_R, rank_N[loser], fewer, new, after_R)
            for gainer in range(num_experts):
                copies = counts_N[gainer]
                if gainer == loser or copies >= num_gpus:
                    continue
                more, less = load_N[gainer] / copies, load_N[gainer] / (copies + 1)
                rank = rank_N[gainer] + fewer * (new > more) - (fewer + 1) * (old > more)
                end = rank_after_N[gainer] + fewer * (new > less) - (fewer + 1) * (old > less)
                worst, pair = _fold(after_R, rank, copies, end, less, pair, best)
                if worst < best:
                    best, found_loser, found_gainer = worst, loser, gainer
                    break
        if found_gainer < 0:
            return float(best)
        counts_N[found_loser] -= 1
        counts_N[found_gainer] += 1


@compiled_part
def _list_values(load_N: Floats, counts_N: Ints, value_R: Floats) -> None:
    """Write down the replicas' values, largest first."""
    at = 0
    for expert in range(len(load_N)):
        for _ in range(counts_N[expert]):
            value_R[at] = -load_N[expert] / counts_N[expert]
            at += 1
    value_R.sort()
    value_R *= -1.0


@compiled_part
def _num_above(value_R: Floats, value: float) -> int:
    """How many of the values, largest first, are above a value."""
    low, high = 0, len(value_R)
    while low < high:
        middle = (low + high) // 2
        if value_R[middle] > value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled_part
def _lose(value_R: Floats, rank: int, fewer: int, new: float, after_R: Floats) -> None:
    """Write down the values with the `fewer` + 1 copies from `rank` on replaced by `fewer` of a larger value."""
    first = _num_above(value_R, new)
    after_R[:first] = value_R[:first]
    after_R[first : first + fewer] = new
    after_R[first + fewer : rank + fewer] = value_R[first:rank]
    after_R[rank + fewer : len(value_R) - 1] = value_R[rank + fewer + 1 :]


@compiled_part
def _fold(after_R: Floats, rank: int, copies: int, end: int, less: float, pair: int, limit: float) -> tuple[float, int]:
    """(maximum of the fold, `pair`) after a gain; or (`limit`, the pair that reaches it), a look at `pair` first.

    The gainer's values stand at rank to rank + copies; copies + 1 of value `less` come in before `end`.
    """
    num_replicas = len(after_R)
    worst = 0.0
    for turn in range(num_replicas // 2):
        at = pair + turn
        if at >= num_replicas // 2:
            at -= num_replicas // 2
        total = 0.0
        for place in (at, num_replicas - 1 - at):
            if place < rank:
                total += after_R[place]
            elif place < end - copies:
                total += after_R[place + copies]
            elif place <= end:
                total += less
            else:
                total += after_R[place - 1]
        if total >= limit:
            return limit, at
        worst = max(worst, total)
    return worst, pair
