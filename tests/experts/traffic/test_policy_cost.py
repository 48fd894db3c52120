"""Costs of policies: formulas by hand, the order of policies, and that everything is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.experts.problems import DEEPSEEK, balancedness_of, problem_of
from weftrace.errors import PlacementError
from weftrace.experts.cluster import make_cluster
from weftrace.experts.packing.packing import solve_lpt_swaps
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.hierarchical import solve_hierarchical
from weftrace.experts.solvers.semi_hierarchical import solve_semi_hierarchical
from weftrace.experts.traffic.policy_cost import CostModel, cost_model_of, model_of_shape, policy_costs
from weftrace.facts import hardware

H800 = hardware("H800")


def answers(problem: Problem) -> dict[str, Solution]:
    found = {
        "global": solve_lpt_swaps(problem),
        "hierarchical": solve_hierarchical(problem),
        "semi-hierarchical": solve_semi_hierarchical(problem),
    }
    return {name: answer for name, answer in found.items() if isinstance(answer, Solution)}


def test_two_gpus_by_hand() -> None:
    # 100 tokens on each of two GPUs take one expert: GPU 0 has 3 of 4 rows, 150 of 200
    problem = problem_of(np.array([[3.0, 1]]), make_cluster(2, 2, 2), 1)
    solution = Solution(expert_of_slot_LP=np.array([[0, 1]]), share_LP=np.ones((1, 2)))
    model = CostModel(
        tokens_per_gpu=100,
        top_k=1,
        top_groups=1,
        hidden=10,
        expert_hidden=5,
        dispatch_bytes=40.0,
        combine_bytes=80.0,
        gemm_efficiency=0.5,
        nic_efficiency=0.5,
        sampled_tokens=4000,
    )
    cost = policy_costs({"global": solution}, problem, model).costs[0]
    assert cost.balancedness == pytest.approx(2 / 3)
    assert cost.compute_us == pytest.approx(150 * 6 * 10 * 5 / (H800.peak("fp8") * 0.5) * 1e6)
    # 3 of 4 tokens of node 1 go to node 0: 75 tokens arrive there, 25 leave
    assert cost.remote_nodes == pytest.approx(0.5, abs=0.01)
    assert cost.dispatch_us == pytest.approx(75 * 40 / (H800.nic_bytes_per_s * 0.5) * 1e6, rel=0.01)
    assert cost.combine_us == pytest.approx(2 * cost.dispatch_us)
    assert cost.total_us == pytest.approx(cost.compute_us + 3 * cost.dispatch_us)


def test_one_node_uses_no_nic() -> None:
    # every token takes both experts; the one of its own GPU does not cross NVLink
    problem = problem_of(np.ones((1, 2)), make_cluster(2, 2, 1), 1)
    solution = Solution(expert_of_slot_LP=np.array([[0, 1]]), share_LP=np.ones((1, 2)))
    model = CostModel(tokens_per_gpu=100, top_k=2, top_groups=1, dispatch_bytes=40.0, link_efficiency=1.0)
    cost = policy_costs({"global": solution}, problem, model).costs[0]
    assert cost.remote_nodes == 0
    assert cost.dispatch_us == pytest.approx(100 * 40 / H800.link_bytes_per_s * 1e6)


def test_a_lone_policy_is_taken_with_a_word() -> None:
    problem = problem_of(synthetic_loads("real", 2, 64), make_cluster(72, 8, 2), 4)
    choice = policy_costs(
        {"global": solve_lpt_swaps(problem)}, problem, CostModel(top_groups=2), ruled_out=(("hierarchical", "why not"),)
    )
    assert choice.reason == "global is the only policy that is possible here"
    assert choice.ruled_out == (("hierarchical", "why not"),)


def test_deepseek_prefill_takes_semi_hierarchical() -> None:
    """Nearly the balance of global placement and nearly the traffic of hierarchical placement: the cheapest."""
    problem = problem_of(synthetic_loads("real", 58, 256), DEEPSEEK, 8)
    found = answers(problem)
    choice = policy_costs(found, problem)
    assert [cost.policy for cost in choice.costs] == ["semi-hierarchical", "hierarchical", "global"]
    assert [cost.total_us for cost in choice.costs] == sorted(cost.total_us for cost in choice.costs)
    for cost in choice.costs:
        assert cost.total_us == pytest.approx(cost.compute_us + cost.dispatch_us + cost.combine_us)
        assert cost.balancedness == pytest.approx(balancedness_of(problem, found[cost.policy]))
    cheapest = choice.costs[0]
    # 32,768 rows a GPU of 6 x 7,168 x 2,048 FLOPs at 0.61 of 1,979 TFLOP/s
    assert cheapest.compute_us == pytest.approx(2391, rel=0.01)
    assert choice.reason.startswith("semi-hierarchical is estimated at ")
    assert "remote nodes a token" in choice.reason


def test_without_traffic_the_best_balance_wins() -> None:
    problem = problem_of(synthetic_loads("real", 8, 256), DEEPSEEK, 8)
    fast = replace(H800, nic_bytes_per_s=1e18, link_bytes_per_s=1e18)
    choice = policy_costs(answers(problem), problem, CostModel(hardware=fast))
    assert choice.costs[0].balancedness == max(cost.balancedness for cost in choice.costs)
    assert choice.costs[-1].policy == "hierarchical"


def test_copies_on_the_own_node_save_traffic() -> None:
    problem = problem_of(synthetic_loads("real", 8, 256), DEEPSEEK, 8)
    found = {"global": solve_lpt_swaps(problem)}
    drawn, near = (policy_costs(found, problem, CostModel(copy=rule)).costs[0] for rule in ("share", "own node"))
    assert near.remote_nodes < drawn.remote_nodes
    assert near.compute_us == drawn.compute_us


def test_assumptions_are_told() -> None:
    problem = problem_of(synthetic_loads("real", 8, 256), DEEPSEEK, 8)
    summary = "\n".join(policy_costs({"global": solve_lpt_swaps(problem)}, problem).assumptions)
    for words in (
        "hardware: H800 SXM",
        "4,096",
        "top 8 of 256 experts, from 4 of 8 groups",
        "1,024 tokens in each of 4 layers",
        "7,392 dispatched, 14,336 combined",
        "NIC: 43.5 GB/s",
        "nothing hides anything",
    ):
        assert words in summary


def test_a_small_model_takes_fewer_experts_a_token() -> None:
    problem = problem_of(np.ones((1, 8)), make_cluster(8, 4, 2), 8)
    summary = policy_costs({"global": solve_lpt_swaps(problem)}, problem).assumptions
    assert "routing: top 4 of 8 experts, from 4 of 8 groups" in summary


def test_models_are_known_by_name_by_widths_or_by_their_layers_of_experts() -> None:
    """DeepSeek-V3's expert in FP8: 3 x 7168 x 2048 weights and 3 x 56 x 16 scales of 4 bytes."""
    assert cost_model_of("H800") == cost_model_of("H800", "deepseek-v3")
    assert cost_model_of("H800").expert_bytes == 3 * 7168 * 2048 + 3 * 56 * 16 * 4
    assert cost_model_of("A100").expert_bytes == 2 * 3 * 7168 * 2048
    qwen = cost_model_of("H800", "qwen3-30b-a3b")
    assert (qwen.hidden, qwen.expert_hidden, qwen.top_k, qwen.combine_bytes) == (2048, 768, 8, 4096)
    assert cost_model_of("H800", "1024x512").row_s == pytest.approx(cost_model_of("H800").row_s / 28)
    assert model_of_shape(58, 256) == "deepseek-v3"
    assert model_of_shape(48, 128) == "qwen3-30b-a3b"
    assert model_of_shape(8, 256) is None and model_of_shape(58, 128) is None
    with pytest.raises(PlacementError, match="gpt2 has no experts"):
        cost_model_of("H800", "gpt2")


def test_mistakes_are_named() -> None:
    problem = problem_of(np.ones((1, 16)), make_cluster(16, 4, 2), 8)
    with pytest.raises(PlacementError, match="cannot choose 8 experts in 2 of 8 groups of 2"):
        policy_costs({"global": solve_lpt_swaps(problem)}, problem, CostModel(top_groups=2))
    with pytest.raises(PlacementError, match="no rule 'nearest' for copies; choose from share, own node"):
        CostModel(copy="nearest")
    with pytest.raises(PlacementError, match="no policy is possible: global: too few slots"):
        policy_costs({}, problem, ruled_out=(("global", "too few slots"),))
