"""From a placement and loads to what it does to them: shown in the terminal, on a page, as a figure, saved as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats
from weftrace.experts.document import BeforeAndAfter, GpuLoad, MovesSummary, PlacementReport
from weftrace.experts.moves.break_even import break_even
from weftrace.experts.moves.moves import moves_between
from weftrace.experts.moves.replan import replan
from weftrace.experts.placement import Placement
from weftrace.experts.problem import NotApplicable
from weftrace.experts.recorded.read import LoadHistory
from weftrace.experts.replays.held_out import Plan, judge_next_windows
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import published_placement
from weftrace.experts.traffic.policy_cost import CostModel, cost_model_of, model_of_shape
from weftrace.files.values import filled

UNKNOWN_EXPERTS = (
    "no one known model has these layers of experts, so nothing is priced: name it, or an expert's two widths "
    "(--model deepseek-v3, --model 7168x2048; in Python a CostModel)"
)


def placement_report(
    placement: Placement,
    loads: object,
    *,
    source: str = "",
    num_groups: int = 1,
    before: Placement | None = None,
    model: CostModel | None = None,
    last: int | None = None,
    plan: Plan | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> PlacementReport:
    """What a placement does to loads, how good that is, how good it was on windows not seen, and what moves lead there.

    loads: [L, N], or the `LoadHistory` that the placement was planned on: its `last` windows (all by default) are added
        up, its layers keep their numbers, and the same way of planning is judged on windows after those it planned on
        (`judge_next_windows`), beside the published EPLB. source: where the loads are from; a history says so itself.
    before: the placement that was in force; without one, the picture before is of the published EPLB on the same loads.
    model: what the moves' time and break-even are estimated with; by default the known model that has as many layers of
        experts, and where there is none moves are counted, not priced.
    plan: how such a placement is made of other loads, to be judged on the next window; by default `balance` without
        search, and `replan` of the placement before. on_progress: is called with windows judged, and windows to judge.
    Raises `LoadsError` for bad loads, `PlacementError` where they are of another shape.
    """
    judged, load_LN, layers = None, loads, tuple(range(placement.num_layers))
    if isinstance(loads, LoadHistory):
        source, layers, load_LN = source or loads.source, loads.layers, loads.total(last)
        placement.checked_loads(load_LN)
        plans = _plans(placement, loads, num_groups, before, plan)
        judged = judge_next_windows(loads, plans, look_back=last, on_progress=on_progress)
    elif last is not None:
        raise LoadsError("loads without windows have no last ones; give the LoadHistory that they are from")
    load_LN = placement.checked_loads(load_LN)
    if before is None:
        old = _baseline(placement, num_groups, load_LN)
        label = "" if old is None else _published_name(old)
    else:
        old, label = before, "the placement before"
    return filled(
        PlacementReport,
        placement,
        source=source,
        layers=layers,
        num_groups=num_groups,
        split="even" if placement.is_even else "uneven",
        share_of_slot_LP=None if placement.is_even else placement.share_of_slot_LP,
        loads_LN=load_LN,
        next_windows=judged,
        gpu_load=BeforeAndAfter(
            before=None if old is None else _gpu_load(old, load_LN, label), after=_gpu_load(placement, load_LN, "after")
        ),
        moves=None if before is None else _moves(before, placement, load_LN, model, layers),
    )


def slot_table(report: PlacementReport) -> pl.DataFrame:
    """The placement as a row a slot: layer (its number in the model), slot, gpu, node, expert, the share that the slot
    takes of its expert's tokens, and the load that this makes; expert is null where a slot is empty.
    """
    placement, load_LN = report.placement, report.loads_LN
    expert_LP, share_LP = placement.expert_of_slot_LP, placement.share_of_slot_LP
    num_layers, num_slots = expert_LP.shape
    gpu_of_slot_P = placement.cluster.gpu_of_slot_P
    load_LP = share_LP * np.take_along_axis(load_LN, np.maximum(expert_LP, 0), axis=1)
    return pl.DataFrame(
        {
            "layer": np.repeat(report.layers, num_slots),
            "slot": np.tile(np.arange(num_slots), num_layers),
            "gpu": np.tile(gpu_of_slot_P, num_layers),
            "node": np.tile(placement.cluster.node_of_gpu_G[gpu_of_slot_P], num_layers),
            "expert": expert_LP.ravel(),
            "share": share_LP.ravel(),
            "load": load_LP.ravel(),
        }
    ).with_columns(pl.col("expert").replace(-1, None))


def _published_name(placement: Placement) -> str:
    """What sentences and pictures call a placement of the published algorithm."""
    return "the published EPLB by node" if placement.policy == "hierarchical" else "the published EPLB"


def _baseline(placement: Placement, num_groups: int, load_LN: Floats) -> Placement | None:
    """The published algorithm in the same slots; None where it has no answer, or slots are left empty by a budget."""
    if (placement.expert_of_slot_LP < 0).any():
        return None
    found = published_placement(load_LN, placement.cluster, num_groups)
    return None if isinstance(found, NotApplicable) else found


def _plans(
    placement: Placement, history: LoadHistory, num_groups: int, before: Placement | None, plan: Plan | None
) -> dict[str, Plan]:
    """Name -> way of planning: this placement's, then what it is compared with, then what stands beside them.

    The placement before is compared with where it could stay: not where it used GPUs that are now out of service.
    """
    cluster, policy = placement.cluster, placement.policy

    def balanced(load_LN: Floats, policy: str = policy) -> Placement:
        split = "even" if placement.is_even else "uneven"
        return balance(load_LN, cluster=cluster, num_groups=num_groups, policy=policy, split=split, time_budget_s=0)

    def replanned(load_LN: Floats) -> Placement:
        assert before is not None
        return replan(before, load_LN, cluster=cluster, num_groups=num_groups).placement

    def published(load_LN: Floats, groups: int = num_groups) -> Placement:
        found = published_placement(load_LN, cluster, groups)
        assert not isinstance(found, NotApplicable), found.reason  # it has answered for all windows together
        return found

    plans: dict[str, Plan] = {policy if before is None else "this re-plan": plan or (replanned if before else balanced)}
    baseline = _baseline(placement, num_groups, history.total())
    if before is not None and (before.cluster.usable_G == cluster.usable_G).all():
        plans["the placement before, kept"] = lambda load_LN: before
    if baseline is not None:
        plans[_published_name(baseline)] = published
        if baseline.policy == "hierarchical":
            plans["the published EPLB globally"] = lambda load_LN: published(load_LN, 1)
    if before is None and policy == "semi-hierarchical":
        plans["hierarchical"] = lambda load_LN: balanced(load_LN, "hierarchical")
    return plans


def _gpu_load(placement: Placement, load_LN: Floats, label: str) -> GpuLoad:
    return GpuLoad(label=label, load_LG=placement.gpu_load(load_LN), balancedness_L=placement.balancedness(load_LN))


def _moves(
    before: Placement, after: Placement, load_LN: Floats, model: CostModel | None, layers: Sequence[int]
) -> MovesSummary:
    """model: None takes the known model that has these layers and experts, and prices nothing where there is none."""
    known = model_of_shape(after.num_layers, after.num_experts) if model is None else None
    if known is not None:
        model = cost_model_of("H800", known)
    moves = moves_between(
        before,
        after,
        expert_bytes=None if model is None else model.expert_bytes,
        device=None if model is None else model.hardware,
    )
    paid = None
    assumptions: tuple[str, ...] = (UNKNOWN_EXPERTS,)
    if model is not None and moves.time_s is not None:
        tokens_LN = _tokens_of_a_step(load_LN, after, model)
        paid = break_even(before, after, tokens_LN, moving_s=moves.time_s, token_s=model.row_s)
        assumptions = (model.expert_words, *moves.assumptions)
    return filled(
        MovesSummary,
        moves,
        assumptions=assumptions,
        saved_s_per_step=None if paid is None else paid.saved_s,
        break_even_steps=None if paid is None else paid.num_steps,
        before_balancedness=float(before.balancedness(load_LN).mean()),
        after_balancedness=float(after.balancedness(load_LN).mean()),
        table=moves.table.with_columns(layer=np.asarray(layers)[moves.layer_M]),
    )


def _tokens_of_a_step(load_LN: Floats, placement: Placement, model: CostModel) -> Floats:
    """[L, N] the loads as rows of one micro-batch of the model's tokens on every GPU in service."""
    rows = model.tokens_per_gpu * int(placement.cluster.usable_G.sum()) * min(model.top_k, placement.num_experts)
    total_L = load_LN.sum(axis=1, keepdims=True)
    rows_LN: Floats = load_LN * (rows / np.where(total_L > 0, total_L, 1.0))
    return rows_LN
