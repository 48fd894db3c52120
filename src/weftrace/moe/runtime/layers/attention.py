"""Attention in two parts, as the decode profile cuts it: `project` (ATTN-0) and `attend` (ATTN-1).

T tokens, H heads, G key heads. Between the two parts stand the queries and what is kept of each token for later ones.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.errors import ProfileError
from weftrace.facts.models import ModelConfig
from weftrace.moe.runtime.layers.split import linear
from weftrace.moe.runtime.layers.tokens import Segment, Tokens, rotate
from weftrace.moe.runtime.layers.weights import Weights


class Attention(Protocol):
    """What a layer needs of its attention. kept_dim: elements that a cache holds of a token."""

    kept_dim: int

    def project(self, x: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """x [T, h] -> queries [T, H, D] and what is kept [T, kept_dim]."""
        ...

    def attend(self, query: Tensor, kept: Tensor, tokens: Tokens, layer: int) -> Tensor:
        """-> [T, h]. In decode `kept` goes into the cache first."""
        ...


class LatentAttention(nn.Module):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    Training and prefill expand the latents to keys and values of every head. Decode absorbs that matrix instead: its
    key half into the query, its value half after the attention, which runs over the latents themselves.
    """

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        super().__init__()
        assert config.latent is not None, config.name
        latent = self.latent = config.latent
        hidden, heads = config.hidden_size, config.num_heads
        self.heads, self.eps, self.theta = heads, config.norm_eps, config.rope_theta
        self.kept_dim, self.scale = latent.cache_dim, latent.qk_dim**-0.5
        # DeepSeek-V2-Lite does not compress its queries.
        self.q_a = weights.parameter("q_a", latent.q_rank, hidden) if latent.q_rank else None
        self.q_norm = weights.norm(latent.q_rank) if latent.q_rank else None
        self.q_b = weights.parameter("q_b", heads * latent.qk_dim, latent.q_rank or hidden)
        self.kv_a = weights.parameter("kv_a", latent.cache_dim, hidden)
        self.kv_norm = weights.norm(latent.kv_rank)
        self.kv_b = weights.parameter("kv_b", heads * (latent.nope_dim + latent.v_dim), latent.kv_rank)
        self.output = weights.parameter("output", hidden, heads * latent.v_dim)

    def project(self, x: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
        latent = self.latent
        turns = tokens.turns(latent.rope_dim, self.theta, x.dtype)
        compressed = x
        if self.q_a is not None and self.q_norm is not None:
            compressed = _normed(linear(x, self.q_a), self.q_norm, self.eps)
        query = linear(compressed, self.q_b).unflatten(-1, (self.heads, -1))
        nope, rope = query.split((latent.nope_dim, latent.rope_dim), -1)
        kv, k_rope = linear(x, self.kv_a).split((latent.kv_rank, latent.rope_dim), -1)
        k_rope = rotate(k_rope[:, None], turns)[:, 0]
        if tokens.decodes:
            nope = torch.einsum("thd,hdc->thc", nope, self._halves()[0])
        kept = torch.cat((_normed(kv, self.kv_norm, self.eps), k_rope), -1)
        return torch.cat((nope, rotate(rope, turns)), -1), kept

    def attend(self, query: Tensor, kept: Tensor, tokens: Tokens, layer: int) -> Tensor:
        if tokens.decodes:
            seen = _over_latents(query, _cached(kept, tokens, layer), tokens, self.latent.kv_rank, self.scale)
            out = torch.einsum("thc,hdc->thd", seen, self._halves()[1])
        else:
            out = over_segments(query, kept, tokens, layer, self._expanded, self.scale)
        return linear(out.flatten(1), self.output)

    def _halves(self) -> tuple[Tensor, Tensor]:
        """kv_b for keys [H, nope, kv_rank] and for values [H, v, kv_rank]."""
        by_head = self.kv_b.unflatten(0, (self.heads, -1))
        return by_head[:, : self.latent.nope_dim], by_head[:, self.latent.nope_dim :]

    def _expanded(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        latent = self.latent
        kv, k_rope = kept.split((latent.kv_rank, latent.rope_dim), -1)
        both = linear(kv, self.kv_b).unflatten(-1, (self.heads, -1))
        nope, value = both.split((latent.nope_dim, latent.v_dim), -1)
        return torch.cat((nope, k_rope[:, None].expand(-1, self.heads, -1)), -1), value


class GroupedQueryAttention(nn.Module):
    """Attention whose query heads share key and value heads (arXiv:2305.13245), with RMS norms a head as in Qwen3."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        super().__init__()
        hidden, dim = config.hidden_size, config.head_size
        self.heads, self.groups, self.dim = config.num_heads, config.kv_heads, dim
        self.eps, self.theta, self.scale = config.norm_eps, config.rope_theta, dim**-0.5
        self.kept_dim = 2 * self.groups * dim
        self.q = weights.parameter("q", self.heads * dim, hidden)
        self.kv = weights.parameter("kv", self.kept_dim, hidden)
        self.q_norm = weights.norm(dim) if config.qk_norm else None
        self.k_norm = weights.norm(dim) if config.qk_norm else None
        self.output = weights.parameter("output", hidden, self.heads * dim)

    def project(self, x: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
        turns = tokens.turns(self.dim, self.theta, x.dtype)
        query = linear(x, self.q).unflatten(-1, (self.heads, self.dim))
        key, value = linear(x, self.kv).unflatten(-1, (2 * self.groups, self.dim)).chunk(2, 1)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = _normed(query, self.q_norm, self.eps), _normed(key, self.k_norm, self.eps)
        return rotate(query, turns), torch.cat((rotate(key, turns), value), 1).flatten(1)

    def attend(self, query: Tensor, kept: Tensor, tokens: Tokens, layer: int) -> Tensor:
        if tokens.decodes:
            held = _cached(kept, tokens, layer)
            key, value = (half.transpose(1, 2) for half in self._expanded(held))
            mask = _last_see_all(tokens.per_request, held.shape[1], query.device)
            rows = query.unflatten(0, (tokens.requests, -1)).transpose(1, 2)
            seen = F.scaled_dot_product_attention(rows, key, value, mask, scale=self.scale, enable_gqa=True)
            out = seen.transpose(1, 2).flatten(0, 1)
        else:
            out = over_segments(query, kept, tokens, layer, self._expanded, self.scale)
        return linear(out.flatten(1), self.output)

    def _expanded(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        key, value = kept.unflatten(-1, (2 * self.groups, self.dim)).chunk(2, -2)
        return key, value


def attention_of(config: ModelConfig, weights: Weights) -> LatentAttention | GroupedQueryAttention:
    """The attention that the model has; raises `ProfileError` for one that this does not build."""
    if config.family not in ("llama", "deepseek"):
        raise ProfileError(f"{config.name} is of family {config.family!r}; layers run for deepseek and llama alone")
    if config.indexer is not None:
        raise ProfileError(
            f"{config.name} attends to {config.indexer.top_k} keys that an indexer chooses; layers run for models that "
            "attend to all"
        )
    return LatentAttention(config, weights) if config.latent else GroupedQueryAttention(config, weights)


class _Expand(Protocol):
    def __call__(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """kept [L, C] -> keys [L, G, D], values [L, G, V]."""
        ...


def over_segments(
    query: Tensor, kept: Tensor, tokens: Tokens, layer: int, expand: _Expand, scale: float
) -> Tensor:  # fmt: skip
    """Causal attention of each segment over its prompt, up to its own end: query [T, H, D] -> [T, H, V]."""
    lengths = [segment.length for segment in tokens.segments]
    parts = zip(query.split(lengths), kept.split(lengths), tokens.segments, strict=True)
    return torch.cat([_segment(q, own, tokens, layer, of, expand, scale) for q, own, of in parts])


def _segment(
    query: Tensor, own: Tensor, tokens: Tokens, layer: int, segment: Segment, expand: _Expand, scale: float
) -> Tensor:  # fmt: skip
    key = layer, segment.prompt
    if segment.start:
        earlier = tokens.earlier.get(key)
        if earlier is None or len(earlier) != segment.start:
            there = 0 if earlier is None else len(earlier)
            raise ProfileError(
                f"layer {layer}: tokens {segment.start} to {segment.end - 1} of prompt {segment.prompt} need the "
                f"cache of the {segment.start} tokens before them, and it holds {there}. The micro-batch "
                "with the first part of a split prompt must run attention first in each layer"
            )
        own = torch.cat((earlier, own))
    if segment.end < segment.of:
        if torch.is_grad_enabled():
            raise ProfileError(
                f"prompt {segment.prompt} is split at {segment.end} of {segment.of} tokens: inference alone may do so"
            )
        tokens.earlier[key] = own
    k, v = expand(own)
    mask = _last_see_all(len(query), len(own), query.device) if segment.start else None  # none for a single token
    rows, k, v = (each.transpose(0, 1)[None] for each in (query, k, v))
    seen = F.scaled_dot_product_attention(
        rows, k, v, mask, is_causal=not segment.start, scale=scale, enable_gqa=rows.shape[1] != k.shape[1]
    )
    return seen[0].transpose(0, 1)


def _over_latents(query: Tensor, held: Tensor, tokens: Tokens, v_dim: int, scale: float) -> Tensor:
    """query [T, H, C] over latents [requests, L, C], which are keys of all heads, and in their first v_dim values."""
    rows = query.unflatten(0, (tokens.requests, -1)).flatten(1, 2)  # [requests, n H, C]
    scores = (rows @ held.transpose(1, 2)) * scale
    mask = _last_see_all(tokens.per_request, held.shape[1], query.device)
    if mask is not None:
        scores = scores.masked_fill(~mask.repeat_interleave(query.shape[1], 0), float("-inf"))
    exact = scores if scores.dtype == torch.float64 else scores.float()
    seen: Tensor = exact.softmax(-1).to(query.dtype) @ held[..., :v_dim]
    out: Tensor = seen.unflatten(1, (tokens.per_request, -1)).flatten(0, 1)
    return out


def _cached(kept: Tensor, tokens: Tokens, layer: int) -> Tensor:
    """Writes what is kept of the new tokens, and gives all that the requests hold by now."""
    cache, end = tokens.caches[layer], tokens.filled + tokens.per_request
    if end > cache.shape[1]:
        raise ProfileError(f"the cache has {cache.shape[1]} positions, and {end} are needed")
    cache[:, tokens.filled : end] = kept.unflatten(0, (tokens.requests, -1))
    return cache[:, :end]


def _last_see_all(new: int, length: int, device: torch.device) -> Tensor | None:
    """[new, length], True where a new position may look: the last at all, the one before at one less, and so on."""
    if new == 1:
        return None
    return torch.ones(new, length, dtype=torch.bool, device=device).tril(length - new)


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, eps)
