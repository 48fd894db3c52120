"""F: what each operation of a list does to a micro-batch on its way through the layers.

T tokens of h dimensions, K experts a token, N rows that come to this rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from weftrace.moe.runtime.micro_batch import Graph, MicroBatch
from weftrace.moe.runtime.moving.exchanges import Exchange


def attn_0(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    x, module = batch.input_of(layer), batch.layers[layer]
    state = batch.states[layer]
    state.values["x"] = x
    state.graphs["attn-0"] = Graph.of(lambda leaf: module.attn_0(leaf, batch.tokens), x)


def attn_1(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    state, module = batch.states[layer], batch.layers[layer]
    between = batch.graph(layer, "attn-0").values()
    experts: list[Tensor] = []

    def part(x: Tensor, query: Tensor, kept: Tensor) -> Sequence[Tensor]:
        *made, chosen = module.attn_1(x, query, kept, batch.tokens)
        experts.append(chosen)
        return made

    graph = state.graphs["attn-1"] = Graph.of(part, state.values["x"], *between)
    names = ("after", "normed", "weights")
    state.values.update(zip(names, graph.values(), strict=True), experts=experts[0])


def attn(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    attn_0(batch, layer, chunks)
    attn_1(batch, layer, chunks)


def shared(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    normed = batch.value(layer, "normed", "attn")
    graph = batch.states[layer].graphs["shared"] = Graph.of(batch.layers[layer].shared, normed)
    (batch.states[layer].values["shared"],) = graph.values()


def mlp(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    state, module = batch.states[layer], batch.layers[layer]
    for chunk in chunks:
        rows, weights = batch.exchange(layer, "dispatchF", chunk).receive()
        route = state.routes[chunk]
        assert weights is not None and route.order is not None
        part = partial(module.mlp, order=route.order, counts=route.counts)
        graph = state.graphs[f"mlp {chunk}"] = Graph.of(part, rows, weights)
        (state.values[f"answers {chunk}"],) = graph.values()
    if batch.ways["F"].shared_in_mlp and chunks[-1] == batch.num_chunks - 1:
        shared(batch, layer, chunks)


def pack_dispatch(batch: MicroBatch, layer: int, chunk: int) -> Exchange:
    state = batch.states[layer]
    experts = batch.cut(batch.value(layer, "experts", "attn"), chunk)
    route = state.routes[chunk] = batch.transport.route(experts, batch.layers[layer].num_experts)
    normed, weights = (batch.cut(state.values[name], chunk) for name in ("normed", "weights"))
    return batch.transport.dispatch(normed, weights, route, batch.payloads.dispatch)


def pack_combine(batch: MicroBatch, layer: int, chunk: int) -> Exchange:
    answers = batch.value(layer, f"answers {chunk}", "mlp")
    return batch.transport.combine(answers, None, batch.states[layer].routes[chunk], batch.payloads.combine)
