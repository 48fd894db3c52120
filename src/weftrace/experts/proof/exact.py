"""What is the best placement of a small layer? Found by branch and bound, so it is proved."""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.slots import even_shares

MOST_EXPERTS, MOST_GPUS, MOST_SLOTS = 8, 4, 16
MOST_STEPS = 2_000_000  # of a layer, about 0.2 s
STEP_S = 6e-7  # of up to six such searches together


def is_small(problem: Problem) -> bool:
    """Whether `solve_exact` takes it: an even split of at most 8 experts, 4 GPUs and 16 slots."""
    return (
        problem.is_even
        and problem.cluster.num_gpus < 63
        and problem.num_experts <= MOST_EXPERTS
        and int((problem.capacity_LG > 0).sum(axis=1).max()) <= MOST_GPUS
        and int(problem.replicas_L.max()) <= MOST_SLOTS
    )


def solve_exact(problem: Problem) -> Solution | NotApplicable:
    """The best placement: even split, no expert twice on a GPU, every slot filled, any expert on any node.

    A layer whose search does not end within `MOST_STEPS` gets the best placement met until then.
    """
    if not is_small(problem):
        return NotApplicable(
            reason=f"only for an even split of at most {MOST_EXPERTS} experts, {MOST_GPUS} GPUs and {MOST_SLOTS} slots"
        )
    cluster = problem.cluster
    expert_of_slot_LP = np.full((problem.num_layers, cluster.num_slots), -1, dtype=np.int64)
    most_steps = problem.steps(STEP_S, MOST_STEPS)
    for layer in range(problem.num_layers):
        time, gpus_N, _ = best_even(
            problem.load_LN[layer], problem.capacity_LG[layer], cluster.speed_G, pinned(problem, layer), most_steps
        )
        assert np.isfinite(time), "a checked problem has a placement"
        for gpu, first in enumerate(cluster.first_slot_G[:-1]):
            experts = np.flatnonzero(gpus_N >> gpu & 1)
            expert_of_slot_LP[layer, first : first + len(experts)] = experts
    return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=even_shares(expert_of_slot_LP, problem.num_experts))


def pinned(problem: Problem, layer: int) -> Ints:
    """[N] GPUs that must hold each expert, as the bits of a number."""
    gpus_N = np.zeros(problem.num_experts, dtype=np.int64)
    for _, expert, gpu in problem.pins_K3[problem.pins_K3[:, 0] == layer]:
        gpus_N[expert] |= 1 << int(gpu)
    return gpus_N


def best_even(
    load_N: Floats, capacity_G: Ints, speed_G: Floats, pinned_N: Ints, most_steps: int = MOST_STEPS
) -> tuple[float, Ints, bool]:
    """(least maximum time, [N] GPUs of each expert as the bits of a number, whether the search went to its end).

    The same even split, no expert twice on a GPU, every slot filled, pins kept. Infinite where that is impossible.
    """
    order_N = np.argsort(-load_N, kind="stable")
    used_K = np.flatnonzero(capacity_G)
    needed_N = sum(((pinned_N >> gpu & 1) << k for k, gpu in enumerate(used_K)), np.zeros_like(pinned_N))
    time, choice_N, is_proved = _search(
        load_N[order_N], capacity_G[used_K], speed_G[used_K], needed_N[order_N], most_steps
    )
    gpus_N = np.zeros_like(choice_N)
    gpus_N[order_N] = sum(((choice_N >> k & 1) << gpu for k, gpu in enumerate(used_K)), np.zeros_like(choice_N))
    return time, gpus_N, is_proved


@compiled
def _search(
    load_N: Floats, capacity_G: Ints, speed_G: Floats, pinned_N: Ints, most_steps: int
) -> tuple[float, Ints, bool]:
    """Depth first over the experts, heaviest first: which GPUs hold a copy? Each copy takes load / copies."""
    num_experts, num_gpus = len(load_N), len(capacity_G)
    num_choices = 1 << num_gpus
    load_left_N = np.zeros(num_experts + 1, dtype=np.float64)
    for expert in range(num_experts - 1, -1, -1):
        load_left_N[expert] = load_left_N[expert + 1] + load_N[expert]
    load_DG = np.zeros((num_experts + 1, num_gpus), dtype=np.float64)
    room_DG = np.zeros((num_experts + 1, num_gpus), dtype=np.int64)
    room_DG[0] = capacity_G
    choice_N = np.zeros(num_experts, dtype=np.int64)
    best_N = np.zeros(num_experts, dtype=np.int64)
    best = np.inf
    depth, steps = 0, 0
    while depth >= 0:
        if depth == num_experts:
            worst = (load_DG[depth] / speed_G).max()
            if worst < best * (1 - 1e-13):
                best, best_N[:] = worst, choice_N
            depth -= 1
            continue
        choice_N[depth] += 1
        if choice_N[depth] == num_choices:
            choice_N[depth] = 0
            depth -= 1
            continue
        steps += 1
        if steps > most_steps and best < np.inf:
            return best, best_N, False
        if _take(depth, choice_N[depth], load_N, pinned_N, speed_G, load_DG, room_DG) and _may_win(
            depth + 1, load_N, load_left_N[depth + 1], speed_G, load_DG, room_DG, best
        ):
            depth += 1
    return best, best_N, True


@compiled_part
def _take(
    depth: int, gpus: int, load_N: Floats, pinned_N: Ints, speed_G: Floats, load_DG: Floats, room_DG: Ints
) -> bool:
    """Fill the next row of load and room by giving expert `depth` to these GPUs; false where that is not allowed."""
    num_gpus = len(speed_G)
    if pinned_N[depth] & ~gpus:
        return False
    copies, is_pinned = 0, pinned_N[depth:].max() > 0
    for gpu in range(num_gpus):
        if gpus >> gpu & 1:
            copies += 1
            if room_DG[depth, gpu] == 0:
                return False
            for twin in range(gpu):  # of GPUs that are alike until now, the lower ones are taken first
                if (
                    not is_pinned
                    and not gpus >> twin & 1
                    and load_DG[depth, twin] == load_DG[depth, gpu]
                    and room_DG[depth, twin] == room_DG[depth, gpu]
                    and speed_G[twin] == speed_G[gpu]
                ):
                    return False
    for gpu in range(num_gpus):
        taken = gpus >> gpu & 1
        room_DG[depth + 1, gpu] = room_DG[depth, gpu] - taken
        load_DG[depth + 1, gpu] = load_DG[depth, gpu] + taken * load_N[depth] / copies
    return True


@compiled_part
def _may_win(
    depth: int, load_N: Floats, load_left: float, speed_G: Floats, load_DG: Floats, room_DG: Ints, best: float
) -> bool:
    """Whether experts `depth` and on can still fill all slots, in less time than the best."""
    num_left = len(load_N) - depth
    room, copies_most, space = 0, 0, 0.0
    for gpu in range(len(speed_G)):
        if load_DG[depth, gpu] / speed_G[gpu] >= best * (1 - 1e-13):
            return False
        if room_DG[depth, gpu] > num_left:
            return False
        room += room_DG[depth, gpu]
        if room_DG[depth, gpu] > 0:
            copies_most += 1
            space += best * speed_G[gpu] - load_DG[depth, gpu]
    if room < num_left or space < load_left * (1 - 1e-13):
        return False
    for gpu in range(len(speed_G)):  # the lightest replicas that could fill its room
        least = load_DG[depth, gpu]
        for expert in range(len(load_N) - room_DG[depth, gpu], len(load_N)):
            least += load_N[expert] / copies_most
        if least / speed_G[gpu] >= best * (1 + 1e-13):
            return False
    return True
