"""One micro-batch on its way through the layers and back: what is held of it. `forward` and `backward` take it on.

T tokens of h dimensions, K experts a token, N rows that come to this rank. Of a layer: x [T, h] goes in; `after`
[T, h] is x and attention; x of the next layer is after + shared expert + routed experts. Each part is an autograd graph
of its own, whose inputs are leaves; between parts gradients pass as values, as between processes they must. So parts
may run in any order that their values allow, and a sum is always of the same terms in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from weftrace.errors import ProfileError
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

    ways: for F and for B, how the list that takes it through the layers cuts the work: set by `execute`. output_grad:
    to be set before it goes back.
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

    @property
    def num_chunks(self) -> int:
        """Pieces in which the tokens are moved and multiplied: the forward's, and so the backward's."""
        return self.ways["F"].num_chunks

    def output(self) -> Tensor:
        """x after the last layer, [T, h]; waits for the last combine."""
        if self._output is None:
            self._output = self.input_of(len(self.layers))
        return self._output

    def input_grad(self) -> Tensor:
        """The gradient of what went in, after all B: [T, h]."""
        return self.value(0, "grad of x", "the backward of the first layer")

    def input_of(self, layer: int) -> Tensor:
        """x of this layer: of the layer before, after + shared + routed."""
        if layer == 0:
            return self._x
        before = self.states[layer - 1]
        if "next x" not in before.values:
            chunks = range(self.num_chunks)
            routed = torch.cat([self.exchange(layer - 1, "combineF", chunk).receive()[0] for chunk in chunks])
            shared = self.value(layer - 1, "shared", "shared")
            used_here(before.values["after"])
            made = before.values["after"] + shared + routed
            if not torch.is_grad_enabled():  # nothing comes back: of all layers only the next one's x is held
                for state in self.states[max(0, layer - 2) : layer]:
                    state.clear()
            before.values["next x"] = made
        return before.values["next x"]

    def output_grad_of(self, layer: int) -> Tensor:
        """The gradient of x of the next layer."""
        if layer < len(self.layers) - 1:
            return self.value(layer + 1, "grad of x", "attn(B)")
        if self.output_grad is None:
            raise ProfileError("the backward of a micro-batch needs the gradient of its output")
        return self.output_grad

    # What is held is asked for by name; who asks too early is told what has not run.

    def value(self, layer: int, name: str, by: str) -> Tensor:
        found = self.states[layer].values.get(name)
        if found is None:
            raise ProfileError(f"layer {layer}: what {by} makes is needed before {by} has run")
        used_here(found)
        return found

    def graph(self, layer: int, name: str) -> Graph:
        found = self.states[layer].graphs.get(name)
        if found is None:
            raise ProfileError(f"layer {layer}: {name} is needed before it has run forward")
        return found

    def exchange(self, layer: int, key: str, chunk: int) -> Exchange:
        found = self.states[layer].exchanges.get((key, chunk))
        if found is None:
            raise ProfileError(f"layer {layer}: the result of {key[:-1]}({key[-1]}) is needed before it has started")
        return found

    def cut(self, rows: Tensor, chunk: int) -> Tensor:
        """The chunk's rows of [T, ...]."""
        used_here(rows)
        start, end = (len(rows) * at // self.num_chunks for at in (chunk, chunk + 1))
        return rows[start:end]
