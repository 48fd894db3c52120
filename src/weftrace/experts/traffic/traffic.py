"""Where do tokens go? Expected visits to nodes and GPUs, given the experts that tokens chose and where these live."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weftrace.compiled import compiled
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.slots import slots_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """How often tokens of one node go where; D nodes, G GPUs.

    node_LDD[l, source, d]: the probability that a token of a GPU on node `source` has an expert on node d.
    gpu_LDG[l, source, g]: the same for GPU g.
    """

    node_LDD: Floats
    gpu_LDG: Floats

    @property
    def remote_nodes(self) -> float:
        """Distinct nodes other than its own that a token goes to; mean over layers and over the nodes it is from."""
        num_nodes = self.node_LDD.shape[1]
        own_LD = self.node_LDD.diagonal(axis1=1, axis2=2)
        return float((self.node_LDD.sum(axis=2) - own_LD).sum() / (len(own_LD) * num_nodes))

    @property
    def nic_LD(self) -> Floats:
        """[L, D] crossings of a NIC on each node, sent or received, the more of the two, per token that a GPU has.

        A token goes to the GPU of its own number on a remote node, so the GPUs of a node share alike.
        """
        own_LD = self.node_LDD.diagonal(axis1=1, axis2=2)
        nic_LD: Floats = np.maximum(self.node_LDD.sum(axis=2), self.node_LDD.sum(axis=1)) - own_LD
        return nic_LD

    @property
    def link_LG(self) -> Floats:
        """[L, G] crossings of a GPU's NVLink, in or out, the more of the two, per token that a GPU has.

        A token is passed on, by the GPU of its own number, to each other GPU of the node that it goes to.
        """
        num_layers, num_nodes, num_gpus = self.gpu_LDG.shape
        to_LG = self.gpu_LDG.sum(axis=1)
        node_LG = np.repeat(to_LG.reshape(num_layers, num_nodes, -1).sum(axis=2), num_gpus // num_nodes, axis=1)
        link_LG: Floats = np.maximum(to_LG * (num_gpus // num_nodes - 1), node_LG - to_LG)
        return link_LG


def expert_traffic(
    expert_LTK: Ints,
    expert_of_slot_LP: Ints,
    share_LP: Floats,
    cluster: Cluster,
    num_experts: int,
    *,
    prefers_own_node: bool = False,
) -> Traffic:
    """Expected traffic of tokens that chose the experts expert_LTK [L, T, K].

    A token goes to one copy of each of its experts, drawn by the copies' shares, independently of its other experts:
    it misses a node with probability product over its experts of (1 - the expert's share there).
    prefers_own_node: it takes a copy on the node that it is from where there is one, by shares among those.
    """
    sources = cluster.num_nodes if prefers_own_node else 1
    node_LDD, gpu_LDG = _visits(
        np.ascontiguousarray(expert_LTK),
        slots_of(np.ascontiguousarray(expert_of_slot_LP), num_experts),
        np.ascontiguousarray(share_LP),
        cluster.gpu_of_slot_P.astype(np.int64),
        cluster.num_gpus,
        cluster.num_nodes,
        sources,
    )
    if not prefers_own_node:  # a token goes to the same places wherever it is from
        node_LDD = np.repeat(node_LDD, cluster.num_nodes, axis=1)
        gpu_LDG = np.repeat(gpu_LDG, cluster.num_nodes, axis=1)
    return Traffic(node_LDD=node_LDD, gpu_LDG=gpu_LDG)


@compiled
def _visits(
    expert_LTK: Ints,
    slots_LNX: Ints,
    share_LP: Floats,
    gpu_of_slot_P: Ints,
    num_gpus: int,
    num_nodes: int,
    num_sources: int,
) -> tuple[Floats, Floats]:
    """Visits from num_sources nodes: each node with its own copies first, or 1 for copies drawn wherever they are."""
    num_layers, num_tokens, top_k = expert_LTK.shape
    gpus_per_node = num_gpus // num_nodes
    node_LDD = np.zeros((num_layers, num_sources, num_nodes))
    gpu_LDG = np.zeros((num_layers, num_sources, num_gpus))
    node_share_D = np.zeros(num_nodes)
    for layer in range(num_layers):
        for source in range(num_sources):
            for token in range(num_tokens):
                misses_node_D = np.ones(num_nodes)
                misses_gpu_G = np.ones(num_gpus)
                for k in range(top_k):
                    expert = expert_LTK[layer, token, k]
                    node_share_D[:] = 0.0
                    for slot in slots_LNX[layer, expert]:
                        if slot >= 0:
                            node_share_D[gpu_of_slot_P[slot] // gpus_per_node] += share_LP[layer, slot]
                    stays = num_sources > 1 and node_share_D[source] > 0
                    whole = node_share_D[source] if stays else 1.0
                    for slot in slots_LNX[layer, expert]:
                        if slot >= 0:
                            gpu = gpu_of_slot_P[slot]
                            if not stays or gpu // gpus_per_node == source:
                                misses_gpu_G[gpu] *= 1 - share_LP[layer, slot] / whole
                    for node in range(num_nodes):
                        if stays:
                            misses_node_D[node] *= 0.0 if node == source else 1.0
                        else:
                            misses_node_D[node] *= max(0.0, 1 - node_share_D[node])
                for node in range(num_nodes):
                    node_LDD[layer, source, node] += (1 - misses_node_D[node]) / num_tokens
                for gpu in range(num_gpus):
                    gpu_LDG[layer, source, gpu] += (1 - misses_gpu_G[gpu]) / num_tokens
    return node_LDD, gpu_LDG
