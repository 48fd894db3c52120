"""The attention core: queries with keys, weights with values. Causal, backward, absorbed, grouped, sparse, compressed.

Pairs are of a query and a key that it sees. A causal query sees half of the sequence on average, as the published
formulas count it (S / 2, not (S + 1) / 2).
"""

from __future__ import annotations

from weftrace.facts import ModelConfig
from weftrace.moe.shapes.parts import Part


def causal_pairs(tokens: int, sequence: int, *, most: int | None = None, stride: int = 1) -> int:
    """Pairs of `tokens` queries, spread evenly over sequences of that length; rounded down.

    most: keys that a query sees at most, the rest is left out (a window, an indexer's choice). stride: tokens that one
    key stands for. The query at place p sees min(p / stride, most) keys; the mean over p from 0 to S, with
    c = min(most * stride, S), is (c - c * c / 2 S) / stride.
    """
    reach = sequence if most is None else min(most * stride, sequence)
    return tokens * (2 * sequence * reach - reach * reach) // (2 * sequence * stride)


def cached_pairs(tokens: int, cached: int, *, most: int | None = None, stride: int = 1) -> int:
    """Pairs of `tokens` new queries, each of which sees a cache of that many tokens."""
    keys = cached // stride
    return tokens * (keys if most is None else min(keys, most))


def head_dims(model: ModelConfig, *, absorbed: bool) -> tuple[int, int]:
    """Dimensions of a head's key and of its value, in the core.

    absorbed: of MLA over latents, as in decode, where one key of kv_rank + rope_dim serves all heads. Sparse attention
    over latents is always absorbed.
    """
    latent = model.latent
    if latent is None:
        return model.head_size, model.head_size
    if absorbed or model.indexer is not None:
        return latent.cache_dim, latent.kv_rank
    return latent.qk_dim, latent.v_dim


def causal_core(model: ModelConfig, tokens: int, sequence: int) -> tuple[Part, ...]:
    """Forward over prompts: 2 heads pairs (qk + v) FLOP, so heads tokens sequence (qk + v) where all keys are seen."""
    qk, v = head_dims(model, absorbed=False)
    heads = model.num_heads
    kept = tokens * _kept_dims(model, qk, v)
    core = Part(
        name="core", sort="core", flops=2 * heads * _pairs(model, tokens, sequence, causal=True) * (qk + v),
        moved_bytes=2 * (tokens * heads * (qk + v) + kept),
    )  # fmt: skip
    return (*_scores(model, tokens, sequence, causal=True), core)


def backward_core(model: ModelConfig, tokens: int, sequence: int) -> tuple[Part, ...]:
    """Backward over prompts: five products, 2 heads pairs (3 qk + 2 v) FLOP; of an indexer none are counted."""
    qk, v = head_dims(model, absorbed=False)
    heads = model.num_heads
    kept = tokens * _kept_dims(model, qk, v)
    read_and_written = tokens * heads * (2 * qk + 2 * v) + 2 * kept  # q, o, their gradients; k, v and theirs
    pairs = _pairs(model, tokens, sequence, causal=True)
    return (
        Part(
            name="core", sort="core", flops=2 * heads * pairs * (3 * qk + 2 * v), moved_bytes=2 * read_and_written,
            backward="dgrad",
        ),
    )  # fmt: skip


def decode_core(model: ModelConfig, tokens: int, requests: int, cached: int) -> tuple[Part, ...]:
    """Decode: 2 heads tokens cached (qk + v) FLOP; a request's cache is read once for all its tokens, in BF16.

    A sparse core reads the keys that each token chose.
    """
    qk, v = head_dims(model, absorbed=True)
    heads = model.num_heads
    pairs = _pairs(model, tokens, cached, causal=False)
    keys = requests * cached if model.indexer is None else pairs
    core = Part(
        name="core", sort="core", flops=2 * heads * pairs * (qk + v),
        moved_bytes=2 * (keys * cache_dims(model) + tokens * heads * (qk + v)),
    )  # fmt: skip
    return (*_scores(model, tokens, cached, causal=False, requests=requests), core)


def cache_dims(model: ModelConfig) -> int:
    """Elements that a cache holds of one key in one layer: DeepSeek-V3 512 + 64, which is 70,272 B over 61 layers."""
    if model.latent is not None:
        return model.latent.cache_dim
    return model.head_size if model.compressed else 2 * model.kv_heads * model.head_size


def _kept_dims(model: ModelConfig, qk: int, v: int) -> int:
    """Elements of keys and values of a token that the core reads over a prompt."""
    if model.latent is not None and model.indexer is None:
        return model.num_heads * (qk + v)  # expanded for every head
    return cache_dims(model)


def _pairs(model: ModelConfig, tokens: int, sequence: int, *, causal: bool) -> int:
    """Of an average layer, where layers differ."""
    of = causal_pairs if causal else cached_pairs
    index = model.indexer
    if kinds := model.compressed:
        assert index is not None, model.name
        csa = of(tokens, sequence, most=index.top_k, stride=kinds.csa_ratio)
        hca = of(tokens, sequence, stride=kinds.hca_ratio)
        near = of(tokens, sequence, most=kinds.window)
        return near + (kinds.num_csa_layers * csa + kinds.num_hca_layers * hca) // model.num_layers
    return of(tokens, sequence, most=None if index is None else index.top_k)


def _scores(
    model: ModelConfig, tokens: int, sequence: int, *, causal: bool, requests: int | None = None
) -> tuple[Part, ...]:
    """The indexer's scores, in FP8: 2 heads pairs head_dim FLOP over all keys, its own keys read once."""
    index = model.indexer
    if index is None:
        return ()
    kinds = model.compressed
    stride, part, whole = (kinds.csa_ratio, kinds.num_csa_layers, model.num_layers) if kinds else (1, 1, 1)
    pairs = (causal_pairs if causal else cached_pairs)(tokens, sequence, stride=stride)
    keys = tokens if requests is None else requests * sequence
    flops = 2 * index.num_heads * pairs * index.head_dim * part // whole
    moved = (keys // stride + tokens * index.num_heads) * index.head_dim * part // whole
    return (Part(name="scores", sort="scores", flops=flops, moved_bytes=moved, dtype="fp8"),)
