"""What does one token cost in training, in FLOPs? From a model's numbers (`weftrace.facts`), without building it."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.errors import WeftraceError
from weftrace.facts import ModelConfig
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFlops(InNotebook):
    """Model FLOPs of one token of a sequence, forward and backward: three times the forward's; 1 MAC = 2 FLOP.

    Counted are products of matrices that a token goes through (the routed experts it is sent to, the shared one, the
    output head) and the two products of attention's core. Not counted: the router's product, embeddings looked up,
    norms, activations, softmax, and what is computed again for the backward.
    causal: each token attends to those before it and itself, (sequence + 1) / 2 on average. full: to the whole
    sequence, the PaLM convention.
    """

    model: str
    sequence: int
    causal: float
    full: float


def flops_per_token(config: ModelConfig, sequence: int) -> TokenFlops:
    """FLOPs of a token of a model of `weftrace.facts`, in sequences of that many tokens.

    Raises `WeftraceError` for a sequence below one token, for a model that is no decoder, and for one whose attention
    sees some of the keys only.
    """
    if sequence < 1:
        raise WeftraceError(f"a sequence of {sequence} tokens has no FLOPs; give one token or more")
    if config.family == "bert":
        raise WeftraceError(f"{config.name} is no decoder: which of its tokens are masked decides what its head costs")
    if config.indexer or config.compressed:
        raise WeftraceError(
            f"{config.name} does not attend to every key: FLOPs of a token of sparse attention are not counted here"
        )
    matrices = config.num_layers * _attention_matrices(config) + _mlp_matrices(config)
    matrices += config.vocab_size * config.hidden_size
    core = 3 * 2 * config.num_layers * config.num_heads * _core_dims(config)
    return TokenFlops(
        model=config.name,
        sequence=sequence,
        causal=6 * matrices + core * (sequence + 1) / 2,
        full=6 * matrices + core * sequence,
    )


def _attention_matrices(config: ModelConfig) -> int:
    """Elements of the projections of one layer."""
    h, heads = config.hidden_size, config.num_heads
    if latent := config.latent:
        width = heads * latent.qk_dim
        queries = h * latent.q_rank + latent.q_rank * width if latent.q_rank else h * width
        keys = h * latent.cache_dim + latent.kv_rank * heads * (latent.nope_dim + latent.v_dim)
        return queries + keys + heads * latent.v_dim * h
    return 2 * h * config.head_size * (heads + config.kv_heads)


def _core_dims(config: ModelConfig) -> int:
    """Dimensions of a head's query and of its value."""
    latent = config.latent
    return latent.qk_dim + latent.v_dim if latent else 2 * config.head_size


def _mlp_matrices(config: ModelConfig) -> int:
    """Elements that a token meets in the MLPs of all layers."""
    per_width = (2 if config.family == "gpt2" else 3) * config.hidden_size  # gated ones have three matrices
    experts = config.experts
    if experts is None:
        return config.num_layers * per_width * config.intermediate_size
    num_moe = config.num_layers - experts.num_dense_layers
    width = (experts.top_k + experts.num_shared) * experts.intermediate_size
    return per_width * (experts.num_dense_layers * config.intermediate_size + num_moe * width)
