"""What does a placement policy cost? Balance against traffic: an estimate from rates of links and GEMMs.

Global placement balances best, hierarchical placement sends a token to fewer nodes. Which is cheaper depends on the
model, the tokens and the links, not on whether groups divide by nodes. Nothing hides anything here: a deployment that
overlaps communication with computation pays less for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.placement import Choice, PolicyCost
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.traffic.traffic import Traffic, expert_traffic
from weftrace.facts import Hardware, efficiency, hardware, load_models, model_config
from weftrace.gate import simulate_routing
from weftrace.notebook import InNotebook
from weftrace.units import US, duration, percent, si

COPIES = {
    "share": "drawn by the copies' shares, wherever they are",
    "own node": "on its own node where there is one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel(InNotebook):
    """A model, its tokens, and the machine's rates. The defaults are DeepSeek-V3 in prefill or training on H800.

    name: of the model, as sentences call it.
    hardware: rates of NVLink and NIC, and the GEMMs' peak in `dtype`.
    tokens_per_gpu: tokens of a micro-batch on each GPU (4,096: the published training profile).
    top_k, top_groups: experts a token takes, and from how many groups (DeepSeek-V3: 8 from 4 of 8 groups). Where the
        problem has fewer groups, from all of them.
    hidden, expert_hidden: width of a token and of an expert's inner layer (7,168 and 2,048). A row through an expert is
        6 * hidden * expert_hidden FLOPs: three projections.
    dispatch_bytes, combine_bytes: a token to one place: FP8 with one FP32 scale per 128 (7,168 + 4 * 56), and BF16.
    gemm_efficiency: part of the peak that grouped GEMMs reach (0.61: published by DeepGEMM).
    nic_efficiency, link_efficiency: parts of the NIC's and of NVLink's rate (0.87 and 0.96: published by DeepEP). The
        figures behind all three stand in facts/efficiency.toml.
    copy: which copy of an expert a token goes to: "share" (by the copies' shares, wherever they are, as balance
        assumes), or "own node" (one on its own node where there is one, by shares among these; that saves traffic, and
        costs balance which is not counted here).
    sampled_layers, sampled_tokens, seed: of the simulated routing that traffic is counted on.
    """

    name: str = "deepseek-v3"
    hardware: Hardware = field(default_factory=lambda: hardware("H800"))
    dtype: str = "fp8"
    tokens_per_gpu: int = 4096
    top_k: int = 8
    top_groups: int = 4
    hidden: int = 7168
    expert_hidden: int = 2048
    dispatch_bytes: float = 7168 + 4 * 56
    combine_bytes: float = 2 * 7168
    gemm_efficiency: float = efficiency("grouped gemm")
    nic_efficiency: float = efficiency("nic")
    link_efficiency: float = efficiency("nvlink")
    copy: str = "share"
    sampled_layers: int = 4
    sampled_tokens: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        if self.copy not in COPIES:
            raise PlacementError(f"no rule {self.copy!r} for copies; choose from {', '.join(COPIES)}")

    @property
    def row_s(self) -> float:
        """Seconds that a GPU of speed 1 computes for one token in one expert."""
        return 6 * self.hidden * self.expert_hidden / (self.hardware.peak(self.dtype) * self.gemm_efficiency)

    @property
    def expert_bytes(self) -> int:
        """One expert of one layer in `dtype`: gate, up and down projections; in FP8 with a float32 scale for each block
        of 128 x 128 (DeepSeek-V3 technical report, 2024; its checkpoint's `weight_scale_inv`), else 2 bytes a weight.
        """
        weights = 3 * self.hidden * self.expert_hidden
        scales = 3 * -(-self.hidden // 128) * -(-self.expert_hidden // 128)
        return weights + 4 * scales if self.dtype == "fp8" else 2 * weights

    @property
    def expert_words(self) -> str:
        return (
            f"an expert of {self.name}: 3 × {self.hidden:,} × {self.expert_hidden:,} weights in {self.dtype}, "
            f"{si(self.expert_bytes, 'B')}"
        )

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "hardware", self.hardware.name
        yield from [line for line in InNotebook._describe(self) if line[0] != "hardware"]


def cost_model_of(name: str, model: str | None = None) -> CostModel:
    """A model on a named accelerator; in BF16 where that computes no FP8.

    model: a name that `weftrace.facts` knows, or the two widths of an expert, "7168x2048"; None: DeepSeek-V3.
    Raises for an unknown name, and `PlacementError` for a model without experts.
    """
    device = hardware(name)
    base = CostModel(hardware=device, dtype="fp8" if "fp8" in device.peak_flops else "bf16")
    if model is None:
        return base
    if widths := re.fullmatch(r"([1-9]\d{0,6})x([1-9]\d{0,6})", model):
        return _of_widths(base, f"widths {model}", int(widths[1]), int(widths[2]))
    config = model_config(model)
    if config.experts is None:
        raise PlacementError(
            f"{config.name} has no experts; name a model that has, or give an expert's widths: 7168x2048"
        )
    sized = _of_widths(base, config.name, config.hidden_size, config.experts.intermediate_size)
    return replace(sized, top_k=config.experts.top_k, top_groups=config.experts.top_groups)


def _of_widths(base: CostModel, name: str, hidden: int, expert_hidden: int) -> CostModel:
    return replace(
        base,
        name=name,
        hidden=hidden,
        expert_hidden=expert_hidden,
        dispatch_bytes=hidden + 4 * -(-hidden // 128),
        combine_bytes=2 * hidden,
    )


def model_of_shape(num_layers: int, num_experts: int) -> str | None:
    """The known model that has so many layers of so many experts, the first of those whose experts are the same (V3.2
    has V3's); None where none or different ones have.
    """
    with_experts = [(config, config.experts) for config in load_models() if config.experts is not None]
    found = [
        config
        for config, experts in with_experts
        if (config.num_layers - experts.num_dense_layers, experts.num_experts) == (num_layers, num_experts)
    ]
    return found[0].name if len({(config.hidden_size, config.experts) for config in found}) == 1 else None


def policy_costs(
    candidates: Mapping[str, Solution],
    problem: Problem,
    model: CostModel | None = None,
    *,
    ruled_out: tuple[tuple[str, str], ...] = (),
) -> Choice:
    """The policies, cheapest first, by compute + dispatch + combine of an average layer.

    compute: the slowest GPU's rows * 6 * hidden * expert_hidden / (peak * gemm_efficiency); rows are its part of
    tokens_per_gpu * G * top_k, divided by its speed; averaged over all layers.
    dispatch: of the busiest GPU, the larger of what its NIC and its NVLink need. A token crosses the NIC once for
    each distinct remote node, to the GPU of its own number there, which passes it on over NVLink to each distinct
    GPU with one of its experts, as DeepEP's normal kernels do. combine: the same way back.
    Traffic is counted on simulated routing (`simulate_routing`) in a few layers, evenly spaced.
    model: `CostModel()` where none is given, with a smaller top_k where the problem's groups have not enough experts.
    ruled_out: (policy, why) to pass on. Raises `PlacementError` where there is nothing to choose from, and where a
    token cannot choose the model's top_k experts in its groups.
    """
    model = _default_model(problem) if model is None else model
    if not candidates:
        raise PlacementError("no policy is possible: " + "; ".join(f"{name}: {why}" for name, why in ruled_out))
    layers = np.unique(np.linspace(0, problem.num_layers - 1, model.sampled_layers).round().astype(np.int64))
    top_groups = min(model.top_groups, problem.num_groups)
    top_k = min(model.top_k, problem.num_experts)
    routing = simulate_routing(
        problem.load_LN[layers],
        num_groups=problem.num_groups,
        top_groups=top_groups,
        top_k=top_k,
        num_tokens=model.sampled_tokens,
        seed=model.seed,
    )
    costs = []
    for policy, solution in candidates.items():
        traffic = expert_traffic(
            routing.expert_LTK,
            solution.expert_of_slot_LP[layers],
            solution.share_LP[layers],
            problem.cluster,
            problem.num_experts,
            prefers_own_node=model.copy == "own node",
        )
        costs.append(_cost(policy, solution, problem, model, top_k, traffic))
    costs.sort(key=lambda cost: cost.total_us)
    return Choice(
        costs=tuple(costs),
        reason=_reason(costs),
        assumptions=_assumptions(model, problem, top_k, top_groups, len(layers), float(routing.error_L.max())),
        ruled_out=ruled_out,
    )


def _default_model(problem: Problem) -> CostModel:
    """DeepSeek-V3's routing, or what a model with few experts leaves of it."""
    model = CostModel()
    in_groups = problem.num_experts // problem.num_groups * min(model.top_groups, problem.num_groups)
    return replace(model, top_k=min(model.top_k, in_groups))


def _cost(
    policy: str, solution: Solution, problem: Problem, model: CostModel, top_k: int, traffic: Traffic
) -> PolicyCost:
    device = model.hardware
    worst_L = problem.worst_time(solution)
    num_senders = int(problem.cluster.usable_G.sum())
    rows = (worst_L / problem.load_LN.sum(axis=1)).mean() * model.tokens_per_gpu * num_senders * top_k
    compute_us = rows * model.row_s * 1e6
    # seconds a byte and token of the busiest NIC or NVLink, by layer
    nic_L = traffic.nic_LD.max(axis=1) / (device.nic_bytes_per_s * model.nic_efficiency)
    link_L = traffic.link_LG.max(axis=1) / (device.link_bytes_per_s * model.link_efficiency)
    per_byte_us = float(np.maximum(nic_L, link_L).mean()) * model.tokens_per_gpu * 1e6
    dispatch_us, combine_us = per_byte_us * model.dispatch_bytes, per_byte_us * model.combine_bytes
    return PolicyCost(
        policy=policy,
        balancedness=float((problem.mean_L / worst_L).mean()),
        compute_us=float(compute_us),
        dispatch_us=dispatch_us,
        combine_us=combine_us,
        remote_nodes=traffic.remote_nodes,
        total_us=float(compute_us + dispatch_us + combine_us),
    )


def _reason(costs: list[PolicyCost]) -> str:
    """Why the first of them: what it saves against the next, and where."""
    first = costs[0]
    if len(costs) == 1:
        return f"{first.policy} is the only policy that is possible here"
    second = costs[1]
    saved_us = second.total_us - first.total_us
    moving_us = second.dispatch_us + second.combine_us - first.dispatch_us - first.combine_us
    return (
        f"{first.policy} is estimated at {duration(first.total_us * US, 4)} a layer, "
        f"{percent(saved_us / second.total_us)} less than {second.policy}: "
        f"{_change(second.compute_us - first.compute_us)} of computation "
        f"(balancedness {first.balancedness:.4f} against {second.balancedness:.4f}), {_change(moving_us)} of dispatch "
        f"and combine ({first.remote_nodes:.2f} remote nodes a token against {second.remote_nodes:.2f})"
    )


def _change(saved_us: float) -> str:
    return (
        f"{duration(abs(saved_us) * US)} {'more' if saved_us < -0.5 else 'less'}" if abs(saved_us) >= 0.5 else "as much"
    )


def _assumptions(
    model: CostModel, problem: Problem, top_k: int, top_groups: int, num_layers: int, error: float
) -> tuple[str, ...]:
    device = model.hardware
    return (
        f"hardware: {device.name}",
        f"tokens per GPU and micro-batch: {model.tokens_per_gpu:,}",
        f"routing: top {top_k} of {problem.num_experts} experts, from {top_groups} of {problem.num_groups} groups",
        f"routing is simulated: {model.sampled_tokens:,} tokens in each of {num_layers} layers; at most "
        f"{percent(error)} of the choices differ from the loads",
        f"model: {model.name}; hidden: {model.hidden:,}; inner width of an expert: {model.expert_hidden:,}",
        f"bytes per token and destination: {model.dispatch_bytes:,.0f} dispatched, {model.combine_bytes:,.0f} combined",
        f"GEMMs: {si(device.peak(model.dtype) * model.gemm_efficiency, 'FLOP/s')} in {model.dtype}",
        f"NIC: {si(device.nic_bytes_per_s * model.nic_efficiency, 'B/s')} per GPU",
        f"NVLink: {si(device.link_bytes_per_s * model.link_efficiency, 'B/s')} per GPU",
        f"copy of an expert that a token goes to: {COPIES[model.copy]}",
        "overlap: nothing hides anything",
    )
