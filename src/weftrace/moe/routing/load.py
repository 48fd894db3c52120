"""What has each rank to do? Rows for its experts, and copies of tokens that it sends and receives, by nodes and GPUs.

A node is a domain of GPUs joined by NVLink. A token is sent once to each distinct node that has one of its experts,
to the GPU of the sender's own number there, which passes it on to each distinct GPU: DeepEP's normal kernels. The own
node and the own GPU count too, as in DeepSeek's figures.

Shapes: L layers, R ranks; arrays of one layer or one rank stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import ProfileError
from weftrace.facts import ExpertsConfig
from weftrace.files.documents import read_document
from weftrace.moe.routing.distinct_places import Distinct, distinct_places, ranks_of_experts
from weftrace.moe.setting import Setting
from weftrace.notebook import InNotebook

Floats = NDArray[np.float64]

#: Routing in which every rank has the mean.
BALANCED = "balanced"
PLACEMENT = "weftrace.placement/1"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load(InNotebook):
    """What one micro-batch makes each rank of each layer do. Arrays broadcast to [L, R].

    rows_LR: rows that a rank's experts compute: one for each token and expert of its own, from all ranks.
    sent_nodes_LR, sent_gpus_LR: distinct nodes, and GPUs, of each of its tokens, summed over its tokens.
    received_nodes_LR: copies that its peers of the same number on each node send it; it stands for its node.
    received_gpus_LR: distinct tokens of all ranks that have an expert there.
    basis: where that is from. others: of micro-batches 1, 2, ..., where they differ from this one, micro-batch 0.
    """

    rows_LR: Floats
    sent_nodes_LR: Floats
    received_nodes_LR: Floats
    sent_gpus_LR: Floats
    received_gpus_LR: Floats
    basis: str
    others: tuple[Load, ...] = ()

    @property
    def nodes_LR(self) -> Floats:
        """Copies between nodes that a rank must wait for: sent or received, the more of the two."""
        return np.maximum(self.sent_nodes_LR, self.received_nodes_LR)

    @property
    def gpus_LR(self) -> Floats:
        """Copies between GPUs that a rank must wait for: sent or received, the more of the two."""
        return np.maximum(self.sent_gpus_LR, self.received_gpus_LR)

    @property
    def routing(self) -> str:
        """In words: `BALANCED`, or what made some ranks busier."""
        return BALANCED if self.rows_LR.size == 1 else self.basis

    @property
    def imbalance(self) -> float:
        """Rows of the busiest rank over those of the mean rank, mean of all layers."""
        return float((self.rows_LR.max(axis=1) / self.rows_LR.mean(axis=1)).mean())

    def of(self, micro_batch: int) -> Load:
        """That of one micro-batch; all are alike where `others` is empty."""
        return self if micro_batch == 0 or not self.others else self.others[micro_batch - 1]

    def first(self, num_ranks: int) -> Load:
        """That of the first ranks alone, for profiles that follow fewer than all."""
        arrays = {name: getattr(self, name)[:, :num_ranks] for name in ARRAYS}
        return replace(self, **arrays, others=tuple(each.first(num_ranks) for each in self.others))

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "rows of a rank", f"{self.rows_LR.mean():,.0f}, the busiest {self.imbalance:.3f} of the mean"
        yield "basis", self.basis


#: Names of a load's arrays.
ARRAYS = ("rows_LR", "sent_nodes_LR", "received_nodes_LR", "sent_gpus_LR", "received_gpus_LR")


def balanced(setting: Setting) -> Load:
    """Every rank has the mean, as in DeepSeek's published profiles, whose routing is simulated as balanced.

    Experts stand on ranks in order; copies of some (`num_redundant`) are taken to change no distinct places.
    """
    experts = setting.experts
    nodes, gpus = _nodes_and_gpus(experts, setting.ep, setting.domain)
    nodes_LR, gpus_LR = (np.full((1, 1), setting.tokens * places.mean) for places in (nodes, gpus))
    return Load(
        rows_LR=np.full((1, 1), float(setting.tokens * experts.top_k)),
        sent_nodes_LR=nodes_LR,
        received_nodes_LR=nodes_LR,
        sent_gpus_LR=gpus_LR,
        received_gpus_LR=gpus_LR,
        basis=f"balanced routing, {nodes.summary} distinct nodes a token",
    )


@cache
def _nodes_and_gpus(experts: ExpertsConfig, ep: int, domain: int) -> tuple[Distinct, Distinct]:
    """Distinct nodes and GPUs of a token: the same for every batch."""
    rank_of_expert_E = ranks_of_experts(experts.num_experts, ep)
    return distinct_places(experts, rank_of_expert_E // domain), distinct_places(experts, rank_of_expert_E)


def from_loads(setting: Setting, load_LR: Floats) -> Load:
    """Given loads of GPUs, in any unit, as a placement of experts has them; of a layer they are scaled to all rows.

    What a rank receives is assumed in proportion to its load (a node's: to that of its GPUs), and at most every token
    once; what it sends is assumed as in balanced routing, since loads do not tell which experts go together. Raises
    `ProfileError` for loads of another shape than [num_layers, ep], and where one is negative or a layer's are all 0.
    """
    load_LR = np.asarray(load_LR, np.float64)
    if load_LR.shape != (setting.num_layers, setting.ep):
        raise ProfileError(
            f"loads of shape {list(load_LR.shape)} are not those of {setting.num_layers} layers on {setting.ep} GPUs; "
            "give as many layers as the profile has"
        )
    if not (np.isfinite(load_LR).all() and (load_LR >= 0).all() and (load_LR.sum(axis=1) > 0).all()):
        raise ProfileError("loads of GPUs are finite, 0 or more, and not all 0 in a layer")
    even = balanced(setting)
    factor_LR = load_LR / load_LR.mean(axis=1, keepdims=True)
    node_LD = factor_LR.reshape(setting.num_layers, setting.num_domains, -1).mean(axis=2)
    node_LR = np.repeat(node_LD, setting.ep // setting.num_domains, axis=1)
    return Load(
        rows_LR=even.rows_LR * factor_LR,
        sent_nodes_LR=even.sent_nodes_LR,
        received_nodes_LR=np.minimum(even.received_nodes_LR * node_LR, setting.tokens * setting.num_domains),
        sent_gpus_LR=even.sent_gpus_LR,
        received_gpus_LR=np.minimum(even.received_gpus_LR * factor_LR, setting.tokens * setting.ep),
        basis="given loads of GPUs; what a rank sends is assumed as in balanced routing",
    )


def read_gpu_loads(path: str, num_layers: int) -> Floats:
    """[L, R] loads of the GPUs in the first `num_layers` layers of a file.

    What `weftrace experts balance -o plan.json` writes holds what its placement gives each GPU; else a JSON object
    whose `loads` is a list of layers, each a list of GPUs. Raises `DocumentError` where the file cannot be read, and
    `ProfileError` where it holds no such loads, or too few layers.
    """
    document: Any = read_document(path)
    schema = document.get("schema", "")
    is_placement = schema == PLACEMENT
    if schema and not is_placement:
        raise ProfileError(f"{path}: not a {PLACEMENT} document: its schema is {schema!r}")
    try:
        loads = np.array(document["gpu_load"]["after"]["load"] if is_placement else document["loads"], np.float64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProfileError(
            f"{path}: no loads of GPUs; give a {PLACEMENT} document, or {{'loads': [[of each GPU] of each layer]}}"
        ) from error
    if loads.ndim != 2 or len(loads) < num_layers:
        raise ProfileError(f"{path}: loads of shape {list(loads.shape)}, and the profile has {num_layers} layers")
    return loads[:num_layers]
