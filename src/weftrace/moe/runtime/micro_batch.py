"""One micro-batch on its way through the layers and back: what each operation of a list does to it.

T tokens of h dimensions, K experts a token, N rows that come to this rank. Of a layer: x [T, h] goes in; `after`
[T, h] is x and attention; x of the next layer is after + shared expert + routed experts. Each part is an autograd graph
of its own, whose inputs are leaves; between parts gradients pass as values, as between processes they must. So parts
may run in any order that their values allow, and a sum is always of the same terms in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from weftrace.errors import ProfileError
from weftrace.moe.operations import Operation
from weftrace.moe.runtime.layers.layer import MoeLayer
from weftrace.moe.runtime.layers.split import WeightTasks, leaving_weights_to
from weftrace.moe.runtime.layers.streams import used_here
from weftrace.moe.runtime.layers.tokens import Tokens
from weftrace.moe.runtime.moving.exchanges import Exchange, Transport
from weftrace.moe.runtime.moving.payload import Payloads
from weftrace.moe.runtime.moving.routes import Route


@dataclass(slots=True)
class Graph:
    """One part of one layer that ran forward: its inputs as leaves, and its outputs with their graph."""

    leaves: list[Tensor]
    outputs: list[Tensor]

    @classmethod
    def of(cls, part: Callable[..., Tensor | Sequence[Tensor]], *inputs: Tensor) -> Graph:
        used_here(*inputs)
        leaves = [each.detach().requires_grad_(torch.is_grad_enabled()) for each in inputs]
        made = part(*leaves)
        return cls(leaves, [made] if isinstance(made, Tensor) else list(made))

    def values(self) -> list[Tensor]:
        return [each.detach() for each in self.outputs]

    def backward(self, grads: Sequence[Tensor], tasks: WeightTasks) -> list[Tensor]:
        """Gradients of the inputs; those of the weights are left in `tasks`."""
        used_here(*grads)
        pairs = [pair for pair in zip(self.outputs, grads, strict=True) if pair[0].requires_grad]
        if pairs:  # a layer without a shared expert has a part that depends on nothing
            with leaving_weights_to(tasks):
                torch.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        found = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in self.leaves]
        self.leaves, self.outputs = [], []
        return found


@dataclass(slots=True)
class LayerState:
    """What is held of one layer. Lists have an entry for each chunk of the tokens; tasks: of each work, for W."""

    values: dict[str, Tensor] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    routes: dict[int, Route] = field(default_factory=dict)
    exchanges: dict[tuple[str, int], Exchange] = field(default_factory=dict)
    tasks: dict[str, WeightTasks] = field(default_factory=dict)

    def tasks_of(self, work: str) -> WeightTasks:
        return self.tasks.setdefault(work, WeightTasks())

    def clear(self) -> None:
        """Everything but the tasks for W, once the backward has been through."""
        for held in (self.values, self.graphs, self.routes, self.exchanges):
            held.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What a list says of one micro-batch in one direction.

    num_chunks: pieces of its tokens. shared_in_mlp: "mlp" has the shared expert in it. later_weights: works whose
    weights' gradients a W makes; those of others are made in B. transfers: "dispatch", "combine", where these have a
    transfer of their own, between issue and receive.
    """

    num_chunks: int = 1
    shared_in_mlp: bool = True
    later_weights: frozenset[str] = frozenset()
    transfers: frozenset[str] = frozenset()


class MicroBatch:
    """A micro-batch on its way. layers: those of this rank; x: what goes in, [T, h].

    ways: for F and for B, how the list that takes it through the layers cuts the work: set by `execute`.
    """

    def __init__(
        self, layers: Sequence[MoeLayer], tokens: Tokens, x: Tensor, transport: Transport, payloads: Payloads
    ) -> None:
        if tokens.count != len(x):
            raise ProfileError(f"{len(x)} rows go in, and the micro-batch has {tokens.count} tokens")
        payloads.fit(x.shape[-1])
        self.layers, self.tokens, self.transport, self.payloads = layers, tokens, transport, payloads
        self.ways = {"F": Way(), "B": Way()}
        self.states = [LayerState() for _ in layers]
        self.output_grad: Tensor | None = None
        self._x = x
        self._output: Tensor | None = None

    # -- what goes in and comes out

    def output(self) -> Tensor:
        """x after the last layer, [T, h]; waits for the last combine."""
        if self._output is None:
            self._output = self._input_of(len(self.layers))
        return self._output

    def input_grad(self) -> Tensor:
        """The gradient of what went in, after all B: [T, h]."""
        return self._value(0, "grad of x", "the backward of the first layer")

    def receive(self, operation: Operation, layer: int) -> None:
        """Waits for what a dispatch or combine brings, where nobody has yet."""
        for chunk in self.chunks_of(operation):
            exchange = self.states[layer].exchanges.get((operation.work + operation.direction, chunk))
            if exchange is not None:
                exchange.receive()

    @property
    def num_chunks(self) -> int:
        """Pieces in which the tokens are moved and multiplied: the forward's, and so the backward's."""
        return self.ways["F"].num_chunks

    # -- operations

    def run(self, operation: Operation, layer: int, share: tuple[float, float] = (0.0, 1.0)) -> None:
        """One operation on one layer. share: which part of the weights' gradients a W makes.

        Raises `ProfileError` where what it needs has not run.
        """
        work, direction = operation.work, operation.direction
        if direction == "W":
            self._weights(work, layer, self.chunks_of(operation), share)
        elif operation.moves_tokens:
            self._move(operation, layer)
        else:
            _COMPUTES[work, direction](self, layer, self.chunks_of(operation))
            if direction == "B" and work not in self.ways["B"].later_weights:
                self._weights(work, layer, self.chunks_of(operation), (0.0, 1.0))

    def chunks_of(self, operation: Operation) -> Sequence[int]:
        """Of the micro-batch's chunks those that the operation works on: its own, or all."""
        return (operation.chunk,) if operation.num_chunks > 1 else range(self.num_chunks)

    def _move(self, operation: Operation, layer: int) -> None:
        key = operation.work + operation.direction
        for chunk in self.chunks_of(operation):
            if operation.part in ("whole", "issue"):
                self.states[layer].exchanges[key, chunk] = _PACKS[key](self, layer, chunk)
            exchange = self._exchange(layer, key, chunk)
            own_transfer = operation.work in self.ways[_way(operation)].transfers
            if operation.part in ("whole", "transfer") or (operation.part == "issue" and not own_transfer):
                exchange.post()
            elif operation.part == "receive":
                exchange.receive()

    def _weights(self, work: str, layer: int, chunks: Sequence[int], share: tuple[float, float]) -> None:
        parts = {"attn": ["attn-1", "attn-0"], "mlp": [f"mlp {chunk}" for chunk in chunks]}.get(work, [work])
        if work == "mlp" and self.ways["B"].shared_in_mlp and chunks[-1] == self.num_chunks - 1:
            parts.append("shared")
        held = [self.states[layer].tasks_of(part) for part in parts]
        WeightTasks([task for tasks in held for task in tasks.tasks]).run(*share)
        if share[1] >= 1.0:
            for tasks in held:
                tasks.tasks = []

    # -- forward

    def _attn_0(self, layer: int, chunks: Sequence[int]) -> None:
        x, module = self._input_of(layer), self.layers[layer]
        state = self.states[layer]
        state.values["x"] = x
        state.graphs["attn-0"] = Graph.of(lambda leaf: module.attn_0(leaf, self.tokens), x)

    def _attn_1(self, layer: int, chunks: Sequence[int]) -> None:
        state, module = self.states[layer], self.layers[layer]
        between = self._graph(layer, "attn-0").values()
        experts: list[Tensor] = []

        def part(x: Tensor, query: Tensor, kept: Tensor) -> Sequence[Tensor]:
            *made, chosen = module.attn_1(x, query, kept, self.tokens)
            experts.append(chosen)
            return made

        graph = state.graphs["attn-1"] = Graph.of(part, state.values["x"], *between)
        names = ("after", "normed", "weights")
        state.values.update(zip(names, graph.values(), strict=True), experts=experts[0])

    def _attn(self, layer: int, chunks: Sequence[int]) -> None:
        self._attn_0(layer, chunks)
        self._attn_1(layer, chunks)

    def _shared(self, layer: int, chunks: Sequence[int]) -> None:
        normed = self._value(layer, "normed", "attn")
        graph = self.states[layer].graphs["shared"] = Graph.of(self.layers[layer].shared, normed)
        (self.states[layer].values["shared"],) = graph.values()

    def _mlp(self, layer: int, chunks: Sequence[int]) -> None:
        state, module = self.states[layer], self.layers[layer]
        for chunk in chunks:
            rows, weights = self._exchange(layer, "dispatchF", chunk).receive()
            route = state.routes[chunk]
            assert weights is not None and route.order is not None
            part = partial(module.mlp, order=route.order, counts=route.counts)
            graph = state.graphs[f"mlp {chunk}"] = Graph.of(part, rows, weights)
            (state.values[f"answers {chunk}"],) = graph.values()
        if self.ways["F"].shared_in_mlp and chunks[-1] == self.num_chunks - 1:
            self._shared(layer, chunks)

    def _pack_dispatch(self, layer: int, chunk: int) -> Exchange:
        state = self.states[layer]
        experts = self._cut(self._value(layer, "experts", "attn"), chunk)
        route = state.routes[chunk] = self.transport.route(experts, self.layers[layer].num_experts)
        normed, weights = (self._cut(state.values[name], chunk) for name in ("normed", "weights"))
        return self.transport.dispatch(normed, weights, route, self.payloads.dispatch)

    def _pack_combine(self, layer: int, chunk: int) -> Exchange:
        answers = self._value(layer, f"answers {chunk}", "mlp")
        return self.transport.combine(answers, None, self.states[layer].routes[chunk], self.payloads.combine)

    def _input_of(self, layer: int) -> Tensor:
        """x of this layer: of the layer before, after + shared + routed."""
        if layer == 0:
            return self._x
        before = self.states[layer - 1]
        if "next x" not in before.values:
            chunks = range(self.num_chunks)
            routed = torch.cat([self._exchange(layer - 1, "combineF", chunk).receive()[0] for chunk in chunks])
            shared = self._value(layer - 1, "shared", "shared")
            used_here(before.values["after"], shared)
            made = before.values["after"] + shared + routed
            if not torch.is_grad_enabled():
                before.clear()
            before.values["next x"] = made
        return before.values["next x"]

    # -- backward

    def _pack_combine_back(self, layer: int, chunk: int) -> Exchange:
        """The backward of combine is a dispatch kernel: each token's gradient, to the ranks of its experts."""
        grad, route = self._cut(self._output_grad(layer), chunk), self.states[layer].routes[chunk]
        return self.transport.dispatch(grad, None, route, self.payloads.dispatch)

    def _mlp_back(self, layer: int, chunks: Sequence[int]) -> None:
        state = self.states[layer]
        for chunk in chunks:
            grad, _ = self._exchange(layer, "combineB", chunk).receive()
            made = self._graph(layer, f"mlp {chunk}").backward([grad], state.tasks_of(f"mlp {chunk}"))
            names = (f"grad of rows {chunk}", f"grad of weights {chunk}")
            state.values.update(zip(names, made, strict=True))
        if self.ways["B"].shared_in_mlp and chunks[-1] == self.num_chunks - 1:
            self._shared_back(layer, chunks)

    def _pack_dispatch_back(self, layer: int, chunk: int) -> Exchange:
        """The backward of dispatch is a combine kernel: gradients of a token and its weights, to be summed."""
        rows, state = self._value(layer, f"grad of rows {chunk}", "mlp(B)"), self.states[layer]
        of_weights = state.values[f"grad of weights {chunk}"]
        return self.transport.combine(rows, of_weights, state.routes[chunk], self.payloads.combine)

    def _shared_back(self, layer: int, chunks: Sequence[int]) -> None:
        graph, tasks = self._graph(layer, "shared"), self.states[layer].tasks_of("shared")
        (self.states[layer].values["grad by shared"],) = graph.backward([self._output_grad(layer)], tasks)

    def _attn_1_back(self, layer: int, chunks: Sequence[int]) -> None:
        state, grad = self.states[layer], self._output_grad(layer)
        back = [self._exchange(layer, "dispatchB", chunk).receive() for chunk in range(self.num_chunks)]
        of_normed = torch.cat([rows for rows, _ in back]) + self._value(layer, "grad by shared", "shared(B)")
        of_weights = torch.cat([weights for _, weights in back if weights is not None])
        tasks = state.tasks_of("attn-1")
        of_x, *between = self._graph(layer, "attn-1").backward([grad, of_normed, of_weights], tasks)
        state.values.update(zip(("grad of x", "grad of query", "grad of kept"), (of_x, *between), strict=True))

    def _attn_0_back(self, layer: int, chunks: Sequence[int]) -> None:
        state = self.states[layer]
        between = [self._value(layer, "grad of query", "attn-1(B)"), state.values["grad of kept"]]
        (of_x,) = self._graph(layer, "attn-0").backward(between, state.tasks_of("attn-0"))
        grad = state.values["grad of x"] + of_x
        state.clear()
        state.values["grad of x"] = grad

    def _attn_back(self, layer: int, chunks: Sequence[int]) -> None:
        self._attn_1_back(layer, chunks)
        self._attn_0_back(layer, chunks)

    def _output_grad(self, layer: int) -> Tensor:
        """The gradient of x of the next layer."""
        if layer == len(self.layers) - 1:
            if self.output_grad is None:
                raise ProfileError("the backward of a micro-batch needs the gradient of its output")
            return self.output_grad
        return self._value(layer + 1, "grad of x", "attn(B)")

    # -- what is held

    def _value(self, layer: int, name: str, by: str) -> Tensor:
        found = self.states[layer].values.get(name)
        if found is None:
            raise ProfileError(f"layer {layer}: what {by} makes is needed before {by} has run")
        used_here(found)
        return found

    def _graph(self, layer: int, name: str) -> Graph:
        found = self.states[layer].graphs.get(name)
        if found is None:
            raise ProfileError(f"layer {layer}: {name} is needed before it has run forward")
        return found

    def _exchange(self, layer: int, key: str, chunk: int) -> Exchange:
        found = self.states[layer].exchanges.get((key, chunk))
        if found is None:
            raise ProfileError(f"layer {layer}: what {key[:-1]}({key[-1]}) brings is needed before it has begun")
        return found

    def _cut(self, rows: Tensor, chunk: int) -> Tensor:
        """The chunk's rows of [T, ...]."""
        bounds = list(pairwise(len(rows) * at // self.num_chunks for at in range(self.num_chunks + 1)))
        used_here(rows)
        return rows[slice(*bounds[chunk])]


def _way(operation: Operation) -> str:
    return "F" if operation.direction == "F" else "B"


_COMPUTES: dict[tuple[str, str], Callable[[MicroBatch, int, Sequence[int]], None]] = {
    ("attn", "F"): MicroBatch._attn,
    ("attn-0", "F"): MicroBatch._attn_0,
    ("attn-1", "F"): MicroBatch._attn_1,
    ("shared", "F"): MicroBatch._shared,
    ("mlp", "F"): MicroBatch._mlp,
    ("mlp", "B"): MicroBatch._mlp_back,
    ("shared", "B"): MicroBatch._shared_back,
    ("attn-1", "B"): MicroBatch._attn_1_back,
    ("attn-0", "B"): MicroBatch._attn_0_back,
    ("attn", "B"): MicroBatch._attn_back,
}
_PACKS: dict[str, Callable[[MicroBatch, int, int], Exchange]] = {
    "dispatchF": MicroBatch._pack_dispatch,
    "combineF": MicroBatch._pack_combine,
    "combineB": MicroBatch._pack_combine_back,
    "dispatchB": MicroBatch._pack_dispatch_back,
}
