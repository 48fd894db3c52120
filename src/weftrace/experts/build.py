"""From a placement and loads, or a replay, to what is told of it: in the terminal, on a page, as a figure, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.experts.document import PlacementDocument, placement_document
from weftrace.experts.placement import Placement
from weftrace.experts.replays.document import ReplayDocument, replay_document
from weftrace.experts.replays.recommend import Recommendation
from weftrace.experts.replays.replay import Replay
from weftrace.experts.traffic.policy_cost import CostModel
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
