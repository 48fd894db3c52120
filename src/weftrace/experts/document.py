"""A placement as JSON values, versioned (`weftrace.placement/1`), and back. docs/experts.md explains each field."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Floats
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import make_cluster
from weftrace.experts.loads import as_loads
from weftrace.experts.moves.break_even import break_even
from weftrace.experts.moves.moves import moves_between
from weftrace.experts.placement import Choice, Placement, make_placement
from weftrace.experts.traffic.policy_cost import CostModel
from weftrace.version import __version__

SCHEMA = "weftrace.placement/1"
SCHEMA_FILE = Path(__file__).with_name("placement.schema.json")

Document = dict[str, Any]


def placement_document(
    placement: Placement,
    loads: object,
    *,
    source: str = "",
    num_groups: int = 1,
    before: Placement | None = None,
    model: CostModel | None = None,
) -> Document:
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
        "cluster": {
            "num_nodes": placement.cluster.num_nodes,
            "slots_of_gpu": placement.cluster.slots_G.tolist(),
            "speed_of_gpu": placement.cluster.speed_G.tolist(),
            "dead": sorted(placement.cluster.dead),
            "draining": sorted(placement.cluster.draining),
        },
        "policy": placement.policy,
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

    what: how an error names it, a file's path say. Raises `PlacementError` where it is no `weftrace.placement/1`, or
    the map in it is broken.
    """
    if document.get("schema") != SCHEMA:
        raise PlacementError(f"{what}: not a {SCHEMA} document: its schema is {document.get('schema')!r}")
    try:
        told = document["cluster"]
        cluster = make_cluster(
            None,
            len(told["slots_of_gpu"]),
            told["num_nodes"],
            slots_of_gpu=told["slots_of_gpu"],
            speed_of_gpu=told["speed_of_gpu"],
            dead=told["dead"],
            draining=told["draining"],
        )
        return make_placement(
            document["expert_of_slot"],
            cluster,
            document["num_experts"],
            shares=document["share_of_slot"],
            policy=document["policy"],
            solver_of_layer=tuple(document["solver_of_layer"]),
        )
    except PlacementError as error:
        raise PlacementError(f"{what}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise PlacementError(f"{what}: a {SCHEMA} document with a broken field: {error!r}") from error


def read_placement(path: str | os.PathLike[str]) -> Placement:
    """The placement of a JSON file (plain or .gz) that `weftrace experts balance -o` or `placement_document` made.

    Raises `PlacementError`, naming the file, where it cannot be read or is none.
    """
    try:
        data = Path(path).read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        document = msgspec.json.decode(text)
    except OSError as error:
        raise PlacementError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise PlacementError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise PlacementError(f"{path}: not a {SCHEMA} document but a JSON {type(document).__name__}")
    return placement_of(document, what=str(path))


def _certificate(certificate: Certificate) -> Document:
    return {
        "mean": certificate.mean_L.tolist(),
        "bound": certificate.bound_L.tolist(),
        "achieved": certificate.achieved_L.tolist(),
        "is_optimal": certificate.is_optimal_L.tolist(),
        "binding": list(certificate.binding_L),
        "balancedness": certificate.balancedness,
        "bound_balancedness": certificate.bound_balancedness,
        "gap": certificate.gap,
        "target": certificate.target,
        "slots_for_target": certificate.slots_for_target,
    }


def _choice(choice: Choice) -> Document:
    return {
        "costs": [asdict(cost) for cost in choice.costs],
        "reason": choice.reason,
        "assumptions": list(choice.assumptions),
        "ruled_out": [list(pair) for pair in choice.ruled_out],
    }


def _gpu_load(placement: Placement, load_LN: Floats, label: str) -> Document:
    return {
        "label": label,
        "load": placement.gpu_load(load_LN).tolist(),
        "balancedness": placement.balancedness(load_LN).tolist(),
    }


def _before(placement: Placement, before: Placement | None, load_LN: Floats) -> Document:
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


def _moves(before: Placement, after: Placement, load_LN: Floats, model: CostModel) -> Document:
    moves = moves_between(before, after, device=model.hardware)
    pays = break_even(
        before, after, _tokens_of_a_step(load_LN, after, model), moving_s=moves.time_s, token_s=model.row_s
    )
    columns = {
        "round": moves.round_M,
        "layer": moves.layer_M,
        "slot": moves.slot_M,
        "expert": moves.expert_M,
        "from_slot": moves.from_slot_M,
        "from_gpu": moves.from_gpu_M,
        "to_gpu": moves.to_gpu_M,
        "staged": moves.staged_M,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
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
        "list": [dict(zip(columns, row, strict=True)) for row in rows],
    }


def _tokens_of_a_step(load_LN: Floats, placement: Placement, model: CostModel) -> Floats:
    """[L, N] the loads as rows of one micro-batch of the model's tokens on every GPU in service."""
    rows = model.tokens_per_gpu * int(placement.cluster.usable_G.sum()) * min(model.top_k, placement.num_experts)
    total_L = load_LN.sum(axis=1, keepdims=True)
    rows_LN: Floats = load_LN * (rows / np.where(total_L > 0, total_L, 1.0))
    return rows_LN
