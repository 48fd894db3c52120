"""B: what each operation of a list does to a micro-batch on its way back. Gradients of weights are left for W.

T tokens of h dimensions, K experts a token, N rows that came to this rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from weftrace.moe.runtime.micro_batch import MicroBatch
from weftrace.moe.runtime.moving.exchanges import Exchange


def pack_combine_back(batch: MicroBatch, layer: int, chunk: int) -> Exchange:
    """The backward of combine is a dispatch kernel: each token's gradient, to the ranks of its experts."""
    grad, route = batch.cut(batch.output_grad_of(layer), chunk), batch.states[layer].routes[chunk]
    return batch.transport.dispatch(grad, None, route, batch.payloads.dispatch)


def mlp_back(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    state = batch.states[layer]
    for chunk in chunks:
        grad, _ = batch.exchange(layer, "combineB", chunk).receive()
        made = batch.graph(layer, f"mlp {chunk}").backward([grad], state.tasks_of(f"mlp {chunk}"))
        names = (f"grad of rows {chunk}", f"grad of weights {chunk}")
        state.values.update(zip(names, made, strict=True))
    if batch.ways["B"].shared_in_mlp and chunks[-1] == batch.num_chunks - 1:
        shared_back(batch, layer, chunks)


def pack_dispatch_back(batch: MicroBatch, layer: int, chunk: int) -> Exchange:
    """The backward of dispatch is a combine kernel: gradients of a token and its weights, to be summed."""
    rows, state = batch.value(layer, f"grad of rows {chunk}", "mlp(B)"), batch.states[layer]
    of_weights = state.values[f"grad of weights {chunk}"]
    return batch.transport.combine(rows, of_weights, state.routes[chunk], batch.payloads.combine)


def shared_back(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    graph, tasks = batch.graph(layer, "shared"), batch.states[layer].tasks_of("shared")
    (batch.states[layer].values["grad by shared"],) = graph.backward([batch.output_grad_of(layer)], tasks)


def attn_1_back(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    state, grad = batch.states[layer], batch.output_grad_of(layer)
    back = [batch.exchange(layer, "dispatchB", chunk).receive() for chunk in range(batch.num_chunks)]
    of_normed = torch.cat([rows for rows, _ in back]) + batch.value(layer, "grad by shared", "shared(B)")
    of_weights = torch.cat([weights for _, weights in back if weights is not None])
    tasks = state.tasks_of("attn-1")
    of_x, *between = batch.graph(layer, "attn-1").backward([grad, of_normed, of_weights], tasks)
    names = ("grad of x by attn-1", "grad of query", "grad of kept")
    state.values.update(zip(names, (of_x, *between), strict=True))


def attn_0_back(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    state = batch.states[layer]
    between = [batch.value(layer, "grad of query", "attn-1(B)"), state.values["grad of kept"]]
    (of_x,) = batch.graph(layer, "attn-0").backward(between, state.tasks_of("attn-0"))
    grad = state.values["grad of x by attn-1"] + of_x
    state.clear()
    state.values["grad of x"] = grad


def attn_back(batch: MicroBatch, layer: int, chunks: Sequence[int]) -> None:
    attn_1_back(batch, layer, chunks)
    attn_0_back(batch, layer, chunks)
