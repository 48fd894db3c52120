"""A placement as JSON values, versioned (`weftrace.placement/1`), and back. docs/experts.md explains each field."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict, cast

import numpy as np
from msgspec import Meta

from weftrace.errors import DocumentError, PlacementError
from weftrace.experts.arrays import Floats
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.loads import as_loads
from weftrace.experts.moves.break_even import break_even
from weftrace.experts.moves.moves import moves_between
from weftrace.experts.placement import Choice, Placement, make_placement
from weftrace.experts.traffic.policy_cost import CostModel
from weftrace.files.documents import document_as, read_document
from weftrace.files.schemas import Amount, Count, DocumentSchema, Fraction, Positive
from weftrace.version import __version__

SCHEMA: Final = "weftrace.placement/1"

Binding = Literal["none", "replica granularity", "slots", "node partition", "duplicates", "constraints", "packing"]
PolicyAndReason = Annotated[list[str], Meta(min_length=2, max_length=2)]


class ClusterTold(TypedDict):
    """GPUs node by node; slots GPU by GPU."""

    num_nodes: Positive
    slots_of_gpu: Annotated[list[Count], Meta(min_length=1)]
    speed_of_gpu: Annotated[list[Annotated[float, Meta(gt=0)]], Meta(min_length=1)]
    dead: list[Count]
    draining: list[Count]


class CertificateTold(TypedDict):
    """How good the placement is for the loads that it was made for, layer by layer [L]."""

    mean: Annotated[list[Amount], Meta(description="[L] what perfect balance would give every GPU, load over speed.")]
    bound: Annotated[list[Amount], Meta(description="[L] no placement under the same rules has a lower maximum.")]
    achieved: Annotated[list[Amount], Meta(description="[L] maximum GPU time.")]
    is_optimal: list[bool]
    binding: list[Binding]
    balancedness: Fraction
    bound_balancedness: Fraction
    gap: Annotated[Amount, Meta(description="Largest achieved / bound - 1.")]
    target: Fraction
    slots_for_target: Annotated[
        int | None, Meta(description="Fewer slots cannot reach the target; null where no number does.")
    ]


class PolicyCostTold(TypedDict):
    """What one policy would cost an average layer and micro-batch, estimated."""

    policy: str
    balancedness: Fraction
    compute_us: Amount
    dispatch_us: Amount
    combine_us: Amount
    remote_nodes: Amount
    total_us: Amount


class ChoiceTold(TypedDict):
    """Estimated costs of the policies, cheapest first."""

    costs: list[PolicyCostTold]
    reason: str
    assumptions: list[str]
    ruled_out: Annotated[list[PolicyAndReason], Meta(description="[policy, why] of each policy that was not possible.")]


class GpuLoadTold(TypedDict):
    """What one placement gives every GPU."""

    label: str
    load: Annotated[list[list[Amount]], Meta(description="[L][G] load of each GPU, not divided by speed.")]
    balancedness: Annotated[list[Fraction], Meta(description="[L] mean / maximum GPU time; 1 for a layer of zeros.")]


class BeforeAndAfter(TypedDict):
    before: Annotated[
        GpuLoadTold | None, Meta(description="Before: another placement, or experts in order without copies.")
    ]
    after: Annotated[GpuLoadTold, Meta(description="With this placement.")]


class MoveTold(TypedDict):
    """A slot that gets another expert."""

    round: Count
    layer: Count
    slot: Count
    expert: Count
    from_slot: Annotated[int, Meta(ge=-1, description="-1: from storage.")]
    from_gpu: Annotated[int, Meta(ge=-1)]
    to_gpu: Count
    staged: Annotated[bool, Meta(description="Read from staging memory: its slot was overwritten in an earlier round.")]


_MoveList = list[MoveTold]


class MovesTold(TypedDict):
    """What turns the placement before into this one; within a round reads come before writes."""

    num_moves: Count
    num_slots: Count
    num_from_storage: Annotated[Count, Meta(description="Experts of which no copy was left.")]
    bytes: Annotated[Amount, Meta(description="Between GPUs; neither copies within a GPU nor what storage delivers.")]
    expert_bytes: Positive
    time_s: Annotated[Amount, Meta(description="Estimated.")]
    rounds: Count
    most_staged: Annotated[Count, Meta(description="Most experts that a GPU holds in staging memory at once.")]
    assumptions: list[str]
    saved_s_per_step: Annotated[float, Meta(description="Estimated, of computation alone.")]
    break_even_steps: Annotated[
        int | None, Meta(description="Steps after which the moves have paid; null where they never do.")
    ]
    before_balancedness: Fraction
    after_balancedness: Fraction
    list: _MoveList


class PlacementDocument(TypedDict):
    schema: Literal["weftrace.placement/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    source: Annotated[str, Meta(description="Where the loads are from.")]
    num_layers: Positive
    num_experts: Positive
    num_slots: Annotated[
        Positive, Meta(description="P, physical slots a layer, those of GPUs out of service included.")
    ]
    num_groups: Positive
    cluster: ClusterTold
    policy: Literal["global", "hierarchical", "semi-hierarchical"]
    split: Annotated[Literal["even", "uneven"], Meta(description="even: every copy takes 1 / copies.")]
    expert_of_slot: Annotated[
        list[list[Annotated[int, Meta(ge=-1)]]], Meta(description="[L][P] expert in each slot, -1 where empty.")
    ]
    share_of_slot: Annotated[
        list[list[Fraction]] | None,
        Meta(description="[L][P] part of its expert's tokens that a slot takes; null for an even split."),
    ]
    solver_of_layer: list[str]
    certificate: CertificateTold | None
    choice: ChoiceTold | None
    loads: Annotated[list[list[Amount]], Meta(description="[L][N] what the placement was judged on.")]
    gpu_load: BeforeAndAfter
    moves: MovesTold | None


PLACEMENT_SCHEMA = DocumentSchema(
    document=PlacementDocument,
    schema=SCHEMA,
    title="A placement of experts, what it does to loads, and how good that is",
    file=Path(__file__).with_name("placement.schema.json"),
)


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


def placement_of(document: Mapping[str, Any], *, what: str = "placement") -> Placement:
    """The placement that a document holds; its certificate and choice stay in the document.

    what: how an error names it, a file's path say. Raises `DocumentError` where it is no `weftrace.placement/1`, or a
    field or the map in it is broken.
    """
    told = document_as(document, PlacementDocument, schema=SCHEMA, what=what)
    gpus = told["cluster"]
    try:
        cluster = make_cluster(
            None,
            len(gpus["slots_of_gpu"]),
            gpus["num_nodes"],
            slots_of_gpu=gpus["slots_of_gpu"],
            speed_of_gpu=gpus["speed_of_gpu"],
            dead=gpus["dead"],
            draining=gpus["draining"],
        )
        return make_placement(
            told["expert_of_slot"],
            cluster,
            told["num_experts"],
            shares=told["share_of_slot"],
            policy=told["policy"],
            solver_of_layer=tuple(told["solver_of_layer"]),
        )
    except PlacementError as error:
        raise DocumentError(f"{what}: {error}") from error


def read_placement(path: str | os.PathLike[str]) -> Placement:
    """The placement of a JSON file, plain or compressed, that `weftrace experts balance -o` or `weftrace.save` wrote.

    Raises `DocumentError`, naming the file, where it cannot be read or holds none.
    """
    return placement_of(read_document(path, schema=SCHEMA), what=os.fspath(path))


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
