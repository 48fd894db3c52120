"""From a placement and loads, or a replay, to what is told of it: in the terminal, on a page, as a figure, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import polars as pl

from weftrace.experts.arrays import Floats
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import Cluster
from weftrace.experts.document import (
    SCHEMA,
    Binding,
    CertificateTold,
    ChoiceTold,
    ClusterTold,
    GpuLoadTold,
    MovesTold,
    MoveTold,
    PlacementDocument,
    PolicyCostTold,
)
from weftrace.experts.loads import as_loads
from weftrace.experts.moves.break_even import break_even
from weftrace.experts.moves.moves import moves_between
from weftrace.experts.placement import Choice, Placement
from weftrace.experts.replays.document import ReplayDocument, replay_document
from weftrace.experts.replays.recommend import Recommendation
from weftrace.experts.replays.replay import Replay
from weftrace.experts.traffic.policy_cost import CostModel
from weftrace.notebook import InNotebook
from weftrace.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlacementReport(InNotebook):
    """A placement, and what it does to loads.

    document: all of it as JSON-able values (schema weftrace.placement/1), which is what every renderer draws from.
    """

    placement: Placement
    document: PlacementDocument

    def _told(self) -> Iterable[tuple[str, str]]:
        loads, certificate = self.document["gpu_load"], self.document["certificate"]
        yield "loads", self.document["source"] or "given"
        for told in (loads["before"], loads["after"]):
            if told is not None:
                mean = sum(told["balancedness"]) / len(told["balancedness"])
                yield ("this placement" if told is loads["after"] else told["label"]), f"balancedness {mean:.4f}"
        if certificate is not None and self.placement.certificate is None:  # it was loaded: the document has it
            yield "no placement exceeds", f"balancedness {certificate['bound_balancedness']:.4f}"
        if (moves := self.document["moves"]) is not None:
            yield "moves", f"{moves['num_moves']:,} of {moves['num_slots']:,} slots"
        yield from self.placement._told()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReplayReport(InNotebook):
    """A replay, and what it recommends.

    document: all of it as JSON-able values (schema weftrace.replay/1), which is what every renderer draws from.
    replay: None of a report that was loaded from its document.
    """

    document: ReplayDocument
    replay: Replay | None = None

    def _told(self) -> Iterable[tuple[str, str]]:
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
) -> PlacementReport:
    """What a placement does to `loads` [L, N], how good that is, and what moves lead there.

    before: the placement that was in force; without one, the picture before is of experts in order without copies.
    model: what the moves' time and break-even are estimated with. Raises `LoadsError` for bad loads, `PlacementError`
    where they are of another shape.
    """
    document = placement_document(placement, loads, source=source, num_groups=num_groups, before=before, model=model)
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
) -> PlacementDocument:
    """A placement and what it does to `loads` [L, N], as JSON-able values.

    before: the placement that was in force; without one, the picture before is of experts in order without copies. The
    moves from it are part of the document. model: what their time and break-even are estimated with.
    Raises what `Placement.gpu_load` and `moves_between` do.
    """
    load_LN = as_loads(loads)
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": source,
        "num_layers": placement.num_layers,
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
        "gpu_load": {"before": _before(placement, before, load_LN), "after": _gpu_load(placement, load_LN, "after")},
        "moves": None if before is None else _moves(before, placement, load_LN, model or CostModel()),
    }


def slot_table(report: PlacementReport) -> pl.DataFrame:
    """The placement as a row a slot: layer, slot, gpu, node, expert, the share that the slot takes of its expert's
    tokens, and the load that this makes; expert is null where a slot is empty.
    """
    placement, load_LN = report.placement, np.asarray(report.document["loads"], dtype=np.float64)
    expert_LP, share_LP = placement.expert_of_slot_LP, placement.share_of_slot_LP
    num_layers, num_slots = expert_LP.shape
    gpu_of_slot_P = placement.cluster.gpu_of_slot_P
    load_LP = share_LP * np.take_along_axis(load_LN, np.maximum(expert_LP, 0), axis=1)
    return pl.DataFrame(
        {
            "layer": np.repeat(np.arange(num_layers), num_slots),
            "slot": np.tile(np.arange(num_slots), num_layers),
            "gpu": np.tile(gpu_of_slot_P, num_layers),
            "node": np.tile(placement.cluster.node_of_gpu_G[gpu_of_slot_P], num_layers),
            "expert": expert_LP.ravel(),
            "share": share_LP.ravel(),
            "load": load_LP.ravel(),
        }
    ).with_columns(pl.col("expert").replace(-1, None))


def _cluster(cluster: Cluster) -> ClusterTold:
    return {
        "num_nodes": cluster.num_nodes,
        "slots_of_gpu": cluster.slots_G.tolist(),
        "speed_of_gpu": cluster.speed_G.tolist(),
        "dead": sorted(cluster.dead),
        "draining": sorted(cluster.draining),
    }


def _certificate(certificate: Certificate) -> CertificateTold:
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


def _choice(choice: Choice) -> ChoiceTold:
    return {
        "costs": [cast(PolicyCostTold, asdict(cost)) for cost in choice.costs],
        "reason": choice.reason,
        "assumptions": list(choice.assumptions),
        "ruled_out": [list(pair) for pair in choice.ruled_out],
    }


def _gpu_load(placement: Placement, load_LN: Floats, label: str) -> GpuLoadTold:
    return {
        "label": label,
        "load": placement.gpu_load(load_LN).tolist(),
        "balancedness": placement.balancedness(load_LN).tolist(),
    }


def _before(placement: Placement, before: Placement | None, load_LN: Floats) -> GpuLoadTold:
    if before is not None:
        return _gpu_load(before, load_LN, "the placement before")
    cluster = placement.cluster
    usable = np.flatnonzero(cluster.usable_G)
    gpu_of_expert_N = usable[np.arange(placement.num_experts) * len(usable) // placement.num_experts]
    load_LG = load_LN @ (gpu_of_expert_N[:, None] == np.arange(cluster.num_gpus))
    return {
        "label": "experts in order, no copies",
        "load": load_LG.tolist(),
        "balancedness": cluster.balancedness(load_LN, load_LG).tolist(),
    }


def _moves(before: Placement, after: Placement, load_LN: Floats, model: CostModel) -> MovesTold:
    moves = moves_between(before, after, device=model.hardware)
    pays = break_even(
        before, after, _tokens_of_a_step(load_LN, after, model), moving_s=moves.time_s, token_s=model.row_s
    )
    return {
        "num_moves": moves.num_moves,
        "num_slots": moves.num_slots,
        "num_from_storage": moves.num_from_storage,
        "bytes": moves.num_bytes,
        "expert_bytes": moves.expert_bytes,
        "time_s": moves.time_s,
        "rounds": moves.num_rounds,
        "most_staged": moves.most_staged,
        "assumptions": list(moves.assumptions),
        "saved_s_per_step": pays.saved_s,
        "break_even_steps": pays.num_steps,
        "before_balancedness": float(before.balancedness(load_LN).mean()),
        "after_balancedness": float(after.balancedness(load_LN).mean()),
        "list": cast(list[MoveTold], moves.table.to_dicts()),
    }


def _tokens_of_a_step(load_LN: Floats, placement: Placement, model: CostModel) -> Floats:
    """[L, N] the loads as rows of one micro-batch of the model's tokens on every GPU in service."""
    rows = model.tokens_per_gpu * int(placement.cluster.usable_G.sum()) * min(model.top_k, placement.num_experts)
    total_L = load_LN.sum(axis=1, keepdims=True)
    rows_LN: Floats = load_LN * (rows / np.where(total_L > 0, total_L, 1.0))
    return rows_LN
