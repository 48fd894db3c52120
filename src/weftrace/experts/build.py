"""From a placement and loads, or a replay, to what is told of it: in the terminal, on a page, as a figure, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import Cluster
from weftrace.experts.document import (
    SCHEMA,
    Binding,
    CertificateSummary,
    ChoiceSummary,
    ClusterSummary,
    GpuLoadSummary,
    MovesSummary,
    MoveSummary,
    NextWindowsSummary,
    PlacementDocument,
    PolicyCostSummary,
)
from weftrace.experts.moves.break_even import break_even
from weftrace.experts.moves.moves import moves_between
from weftrace.experts.placement import Choice, Placement
from weftrace.experts.recorded.read import LoadHistory
from weftrace.experts.replays.document import ReplayDocument, replay_document
from weftrace.experts.replays.held_out import NextWindows, Plan, judge_next_windows
from weftrace.experts.replays.recommend import Recommendation
from weftrace.experts.replays.replay import Replay
from weftrace.experts.replays.ways import baseline_of, published_name, ways_of
from weftrace.experts.traffic.policy_cost import CostModel, cost_model_of, model_of_shape
from weftrace.notebook import InNotebook
from weftrace.version import __version__

UNKNOWN_EXPERTS = (
    "no one known model has these layers of experts, so nothing is priced: name it, or an expert's two widths "
    "(--model deepseek-v3, --model 7168x2048; in Python a CostModel)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlacementReport(InNotebook):
    """A placement, and what it does to loads.

    document: all of it as JSON-able values (schema weftrace.placement/1), which is what every renderer draws from.
    """

    placement: Placement
    document: PlacementDocument

    def _describe(self) -> Iterable[tuple[str, str]]:
        loads, certificate = self.document["gpu_load"], self.document["certificate"]
        yield "loads", self.document["source"] or "given"
        if (judged := self.document["next_windows"]) is not None:
            for row in judged["rows"][:2]:
                mean = sum(row["balancedness"]) / len(row["balancedness"])
                yield f"on the next window, {row['name']}", f"balancedness {mean:.4f}"
        for summary in (loads["before"], loads["after"]):
            if summary is not None:
                mean = sum(summary["balancedness"]) / len(summary["balancedness"])
                name = "this placement" if summary is loads["after"] else summary["label"]
                yield f"on these loads, {name}", f"balancedness {mean:.4f}"
        if certificate is not None and self.placement.certificate is None:  # it was loaded: the document has it
            yield "no placement exceeds", f"balancedness {certificate['bound_balancedness']:.4f}"
        if (moves := self.document["moves"]) is not None:
            yield "moves", f"{moves['num_moves']:,} of {moves['num_slots']:,} slots"
        yield from self.placement._describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReplayReport(InNotebook):
    """A replay, and what it recommends.

    document: all of it as JSON-able values (schema weftrace.replay/1), which is what every renderer draws from.
    replay: None of a report that was loaded from its document.
    """

    document: ReplayDocument
    replay: Replay | None = None

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "loads", self.document["source"] or "given"
        yield "windows", f"{self.document['num_windows']:,}"
        yield "combinations", f"{len(self.document['rows']):,}"
        yield "recommended", self.document["recommendation"]["text"]


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
        up, its layers' numbers are told, and the same way of planning is judged on windows after those it planned on
        (`judge_next_windows`), beside the published EPLB. source: where the loads are from; a history says so itself.
    before: the placement that was in force; without one, the picture before is of the published EPLB on the same loads.
    model: what the moves' time and break-even are estimated with; by default the known model that has as many layers of
        experts, and where there is none moves are counted, not priced.
    plan: how such a placement is made of other loads, to be judged on the next window; by default `balance` without
        search, and `replan` of the placement before. on_progress: is told windows judged, and windows to judge.
    Raises `LoadsError` for bad loads, `PlacementError` where they are of another shape.
    """
    layers, judged, load_LN = None, None, loads
    if isinstance(loads, LoadHistory):
        source, layers, load_LN = source or loads.source, loads.layers, loads.total(last)
        placement.checked_loads(load_LN)
        ways = ways_of(placement, loads, num_groups, before, plan)
        judged = judge_next_windows(loads, ways, look_back=last, on_progress=on_progress)
    elif last is not None:
        raise LoadsError("loads without windows have no last ones; give the LoadHistory that they are from")
    document = placement_document(
        placement,
        load_LN,
        source=source,
        num_groups=num_groups,
        before=before,
        model=model,
        layers=layers,
        next_windows=judged,
    )
    return PlacementReport(placement=placement, document=document)


def replay_report(replay: Replay, recommendation: Recommendation | None = None) -> ReplayReport:
    """A replay and what it recommends; recommendation: `recommend(replay)` where none is given."""
    return ReplayReport(document=replay_document(replay, recommendation), replay=replay)


def placement_document(
    placement: Placement,
    loads: object,
    *,
    source: str = "",
    num_groups: int = 1,
    before: Placement | None = None,
    model: CostModel | None = None,
    layers: Sequence[int] | None = None,
    next_windows: NextWindows | None = None,
) -> PlacementDocument:
    """A placement and what it does to `loads` [L, N], as JSON-able values.

    before: the placement that was in force; the moves from it are part of the document. Without one, the picture before
    is of the published EPLB on the same loads. model: what the moves' time and break-even are estimated with. layers:
    [L] the layers' numbers in the model, 0 to L - 1 where not given. next_windows: this way of planning in the first
    row, its baseline, if any, in the second. Raises what `Placement.gpu_load` and `moves_between` do.
    """
    load_LN = placement.checked_loads(loads)
    numbers = list(range(placement.num_layers)) if layers is None else list(layers)
    baseline = baseline_of(placement, num_groups, load_LN) if before is None else before
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": source,
        "num_layers": placement.num_layers,
        "layers": numbers,
        "num_experts": placement.num_experts,
        "num_slots": placement.num_slots,
        "num_groups": num_groups,
        "cluster": _cluster(placement.cluster),
        "policy": cast(Any, placement.policy),
        "split": "even" if placement.is_even else "uneven",
        "expert_of_slot": placement.expert_of_slot_LP.tolist(),
        "share_of_slot": None if placement.is_even else placement.share_of_slot_LP.tolist(),
        "solver_of_layer": list(placement.solver_of_layer),
        "certificate": None if placement.certificate is None else _certificate(placement.certificate),
        "choice": None if placement.choice is None else _choice(placement.choice),
        "loads": load_LN.tolist(),
        "next_windows": None if next_windows is None else _next_windows(next_windows),
        "gpu_load": {
            "before": None
            if baseline is None
            else _gpu_load(baseline, load_LN, "the placement before" if before else published_name(baseline)),
            "after": _gpu_load(placement, load_LN, "after"),
        },
        "moves": None if before is None else _moves(before, placement, load_LN, model, numbers),
    }


def slot_table(report: PlacementReport) -> pl.DataFrame:
    """The placement as a row a slot: layer (its number in the model), slot, gpu, node, expert, the share that the slot
    takes of its expert's tokens, and the load that this makes; expert is null where a slot is empty.
    """
    placement, load_LN = report.placement, np.asarray(report.document["loads"], dtype=np.float64)
    expert_LP, share_LP = placement.expert_of_slot_LP, placement.share_of_slot_LP
    num_layers, num_slots = expert_LP.shape
    gpu_of_slot_P = placement.cluster.gpu_of_slot_P
    load_LP = share_LP * np.take_along_axis(load_LN, np.maximum(expert_LP, 0), axis=1)
    return pl.DataFrame(
        {
            "layer": np.repeat(report.document["layers"], num_slots),
            "slot": np.tile(np.arange(num_slots), num_layers),
            "gpu": np.tile(gpu_of_slot_P, num_layers),
            "node": np.tile(placement.cluster.node_of_gpu_G[gpu_of_slot_P], num_layers),
            "expert": expert_LP.ravel(),
            "share": share_LP.ravel(),
            "load": load_LP.ravel(),
        }
    ).with_columns(pl.col("expert").replace(-1, None))


def _cluster(cluster: Cluster) -> ClusterSummary:
    return {
        "num_nodes": cluster.num_nodes,
        "slots_of_gpu": cluster.slots_G.tolist(),
        "speed_of_gpu": cluster.speed_G.tolist(),
        "dead": sorted(cluster.dead),
        "draining": sorted(cluster.draining),
    }


def _certificate(certificate: Certificate) -> CertificateSummary:
    return {
        "mean": certificate.mean_L.tolist(),
        "bound": certificate.bound_L.tolist(),
        "achieved": certificate.achieved_L.tolist(),
        "is_optimal": certificate.is_optimal_L.tolist(),
        "binding": cast(list[Binding], list(certificate.binding_L)),
        "balancedness": certificate.balancedness,
        "bound_balancedness": certificate.bound_balancedness,
        "gap": certificate.gap,
        "target": certificate.target,
        "slots_for_target": certificate.slots_for_target,
    }


def _choice(choice: Choice) -> ChoiceSummary:
    return {
        "costs": [cast(PolicyCostSummary, asdict(cost)) for cost in choice.costs],
        "reason": choice.reason,
        "assumptions": list(choice.assumptions),
        "ruled_out": [list(pair) for pair in choice.ruled_out],
    }


def _gpu_load(placement: Placement, load_LN: Floats, label: str) -> GpuLoadSummary:
    return {
        "label": label,
        "load": placement.gpu_load(load_LN).tolist(),
        "balancedness": placement.balancedness(load_LN).tolist(),
    }


def _next_windows(judged: NextWindows) -> NextWindowsSummary:
    parts: list[Literal["this", "baseline", "beside"]] = ["this", "baseline"]
    return {
        "windows": list(judged.windows_W),
        "look_back": judged.look_back,
        "rows": [
            {"name": name, "part": parts[row] if row < 2 else "beside", "balancedness": balancedness_W.tolist()}
            for row, (name, balancedness_W) in enumerate(zip(judged.names_R, judged.balancedness_RW, strict=True))
        ],
    }


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
    pays = None
    assumptions: tuple[str, ...] = (UNKNOWN_EXPERTS,)
    if model is not None and moves.time_s is not None:
        tokens_LN = _tokens_of_a_step(load_LN, after, model)
        pays = break_even(before, after, tokens_LN, moving_s=moves.time_s, token_s=model.row_s)
        assumptions = (model.expert_words, *moves.assumptions)
    return {
        "num_moves": moves.num_moves,
        "num_slots": moves.num_slots,
        "num_from_storage": moves.num_from_storage,
        "bytes": moves.num_bytes,
        "expert_bytes": moves.expert_bytes,
        "time_s": moves.time_s,
        "rounds": moves.num_rounds,
        "most_staged": moves.most_staged,
        "assumptions": list(assumptions),
        "saved_s_per_step": None if pays is None else pays.saved_s,
        "break_even_steps": None if pays is None else pays.num_steps,
        "before_balancedness": float(before.balancedness(load_LN).mean()),
        "after_balancedness": float(after.balancedness(load_LN).mean()),
        "list": [cast(MoveSummary, {**move, "layer": layers[move["layer"]]}) for move in moves.table.to_dicts()],
    }


def _tokens_of_a_step(load_LN: Floats, placement: Placement, model: CostModel) -> Floats:
    """[L, N] the loads as rows of one micro-batch of the model's tokens on every GPU in service."""
    rows = model.tokens_per_gpu * int(placement.cluster.usable_G.sum()) * min(model.top_k, placement.num_experts)
    total_L = load_LN.sum(axis=1, keepdims=True)
    rows_LN: Floats = load_LN * (rows / np.where(total_L > 0, total_L, 1.0))
    return rows_LN
