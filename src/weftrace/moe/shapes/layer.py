"""What does one operation of a layer consist of? attn, attn-0, attn-1, shared or mlp; forward, backward, weights."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.errors import ProfileError
from weftrace.facts import ModelConfig
from weftrace.moe.shapes import products
from weftrace.moe.shapes.cores import backward_core, causal_core, decode_core
from weftrace.moe.shapes.memory_bound_ops import memory_bound, transposed_operands
from weftrace.moe.shapes.parts import Amount, Part, backward_of, in_bf16

#: MLA's up-projections are computed again for the backward (arXiv:2412.19437, section 3.2.3).
RECOMPUTED = ("q_b", "kv_b")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One layer's work of one micro-batch on one GPU.

    tokens: of the micro-batch, or of a chunk of it. sequence: of a prompt; in decode tokens in a request's cache.
    requests: in decode; None over prompts. rows: of its routed experts. shared_in_mlp: the shared expert is part of
    "mlp", as in DeepSeek's training list. fp8: products are in FP8.
    """

    model: ModelConfig
    tokens: int
    sequence: int
    requests: int | None
    rows: Amount
    local_experts: int
    shared_in_mlp: bool
    fp8: bool = True

    @property
    def absorbed(self) -> bool:
        """MLA over latents: in decode, and over prompts where its core is sparse."""
        return self.requests is not None or self.model.indexer is not None


def parts_of(work: str, direction: str, layer: Layer) -> tuple[Part, ...]:
    """The parts of that work, in the order in which they run.

    Raises `ProfileError` for the backward of work that only serving has.
    """
    if direction != "F" and work not in ("attn", "mlp", "shared"):
        raise ProfileError(f"{work}({direction}): training has no such work; it has attn, shared and mlp")
    found = _attention(work, direction, layer) if work.startswith("attn") else _mlp(work, direction, layer)
    return found if layer.fp8 else tuple(in_bf16(part) for part in found)


def _attention(work: str, direction: str, layer: Layer) -> tuple[Part, ...]:
    model, tokens = layer.model, layer.tokens
    before = products.before_core(model, tokens, absorbed=layer.absorbed)
    after = products.after_core(model, tokens, absorbed=layer.absorbed)
    gate = products.gate(model, tokens)
    if direction == "W":
        return tuple(backward_of(part, "wgrad") for part in (*before, *after))
    if direction == "B":  # of the gate, which is small, weight gradients too, as in the published profile
        again = tuple(part for part in before if part.name in RECOMPUTED)
        gates = (backward_of(gate, "dgrad"), backward_of(gate, "wgrad"))
        inputs = tuple(backward_of(part, "dgrad") for part in (*after, *before))
        core = backward_core(model, tokens, layer.sequence)
        return (*gates, *again, *core, *inputs, memory_bound("attention", (*before, *after), backward=True))
    if layer.requests is None:
        core = causal_core(model, tokens, layer.sequence)
    else:
        core = decode_core(model, tokens, layer.requests, layer.sequence)
    if work == "attn":
        return (*before, *core, *after, gate, memory_bound("attention", (*before, *after)))
    if work == "attn-0":
        return (memory_bound("attention", before, share=0.5), *before)
    return (*core, *after, gate, memory_bound("attention", after, share=0.5))


def _mlp(work: str, direction: str, layer: Layer) -> tuple[Part, ...]:
    own = products.shared(layer.model, layer.tokens)
    if work == "mlp":
        routed = products.routed(layer.model, layer.rows, layer.local_experts)
        own = (*routed, *own) if layer.shared_in_mlp else routed
    if not own:
        return ()
    experts = layer.model.experts
    assert experts is not None, layer.model.name
    share = experts.num_shared / (experts.num_shared + experts.top_k) if work == "shared" else 1.0
    if direction == "F":
        return (*own, memory_bound("mlp", own, share=share))
    if direction == "B":
        return (
            *(backward_of(part, "dgrad") for part in own[::-1]),
            memory_bound("mlp", own, backward=True, share=share),
        )
    casts = (transposed_operands(layer.rows, layer.model.hidden_size),) if work == "mlp" and layer.fp8 else ()
    return (*casts, *(backward_of(part, "wgrad") for part in own))
