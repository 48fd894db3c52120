"""The products of a layer: attention's projections, the gate, shared, routed and dense experts."""

from __future__ import annotations

from dataclasses import replace

from weftrace.facts import CompressedConfig, ModelConfig
from weftrace.moe.shapes.parts import Amount, Part, batched, product


def before_core(model: ModelConfig, tokens: int, *, absorbed: bool) -> tuple[Part, ...]:
    """Attention's products before its core. absorbed: of MLA in decode, where kv_b is multiplied into the query."""
    h, heads = model.hidden_size, model.num_heads
    if kinds := model.compressed:
        return _compressed(model, kinds, tokens)
    latent = model.latent
    if latent is None:
        d = model.head_size
        narrow = model.kv_heads * d
        return product("q", tokens, h, heads * d), product("k", tokens, h, narrow), product("v", tokens, h, narrow)
    queries = (
        (product("q_a", tokens, h, latent.q_rank), product("q_b", tokens, latent.q_rank, heads * latent.qk_dim))
        if latent.q_rank
        else (product("q", tokens, h, heads * latent.qk_dim),)
    )
    keys = product("kv_a", tokens, h, latent.cache_dim)
    if absorbed:
        up = batched("q_absorbed", tokens * heads, latent.nope_dim, latent.kv_rank, heads)
    else:
        up = product("kv_b", tokens, latent.kv_rank, heads * (latent.nope_dim + latent.v_dim))
    return (*queries[:1], keys, *queries[1:], up, *_indexer(model, tokens))


def after_core(model: ModelConfig, tokens: int, *, absorbed: bool) -> tuple[Part, ...]:
    """Attention's products after its core."""
    h, heads = model.hidden_size, model.num_heads
    if kinds := model.compressed:
        wide = heads * model.head_size // kinds.o_groups
        return (
            batched("o_a", tokens * kinds.o_groups, wide, kinds.o_rank, kinds.o_groups),
            product("o_b", tokens, kinds.o_groups * kinds.o_rank, h),
        )
    latent = model.latent
    if latent is None:
        return (product("o", tokens, heads * model.head_size, h),)
    out = product("o", tokens, heads * latent.v_dim, h)
    return (batched("o_absorbed", tokens * heads, latent.kv_rank, latent.v_dim, heads), out) if absorbed else (out,)


def gate(model: ModelConfig, tokens: int) -> Part:
    """Scores of all experts, in BF16."""
    assert model.experts is not None, model.name
    return product("gate", tokens, model.hidden_size, model.experts.num_experts, fp8=False)


def shared(model: ModelConfig, tokens: int) -> tuple[Part, ...]:
    """The shared experts, one MLP num_shared times as wide; none where the model has none."""
    experts = model.experts
    assert experts is not None, model.name
    if not experts.num_shared:
        return ()
    return _mlp("shared_", tokens, model.hidden_size, experts.num_shared * experts.intermediate_size, 1)


def routed(model: ModelConfig, rows: Amount, local_experts: int) -> tuple[Part, ...]:
    """The routed experts of one GPU: `rows` rows among local_experts experts."""
    assert model.experts is not None, model.name
    parts = _mlp("", rows, model.hidden_size, model.experts.intermediate_size, local_experts)
    return tuple(replace(part, grouped=True) for part in parts)


def dense(model: ModelConfig, tokens: int) -> tuple[Part, ...]:
    """The MLP of a layer without experts; none where the model has no such layer."""
    return _mlp("dense_", tokens, model.hidden_size, model.intermediate_size, 1) if model.intermediate_size else ()


def _mlp(prefix: str, rows: Amount, h: int, wide: int, groups: int) -> tuple[Part, ...]:
    """Gated: up and gate in one product, then down."""
    up = product(f"{prefix}w13", rows, h, 2 * wide, groups=groups)
    return up, product(f"{prefix}w2", rows, wide, h, groups=groups)


def _indexer(model: ModelConfig, tokens: int) -> tuple[Part, ...]:
    """The indexer's queries, its one key and the weights of its heads (DeepSeek-V3.2)."""
    index, latent = model.indexer, model.latent
    if index is None or latent is None:
        return ()
    return (
        product("index_q", tokens, latent.q_rank, index.num_heads * index.head_dim),
        product("index_k", tokens, model.hidden_size, index.head_dim + index.num_heads),
    )


def _compressed(model: ModelConfig, kinds: CompressedConfig, tokens: int) -> tuple[Part, ...]:
    """DeepSeek-V4's, of an average layer: what only some layers have is narrower by that share, rounded down."""
    index = model.indexer
    assert index is not None, model.name
    h, dim, layers = model.hidden_size, model.head_size, model.num_layers
    csa = 4 * dim + 4 * index.head_dim + index.num_heads  # values and gates of overlapping keys, the indexer's too
    keys = (kinds.num_csa_layers * csa + kinds.num_hca_layers * 2 * dim) // layers
    return (
        product("q_a", tokens, h, kinds.q_rank),
        product("kv", tokens, h, dim + keys),
        product("q_b", tokens, kinds.q_rank, model.num_heads * dim),
        product("index_q", tokens, kinds.q_rank, kinds.num_csa_layers * index.num_heads * index.head_dim // layers),
    )
