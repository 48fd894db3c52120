"""Which models weftrace knows by name. The numbers are in models.toml, their source beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from weftrace.errors import FlopsError, SpecError
from weftrace.facts.tables import read_tables
from weftrace.units import quoted

BUILT_IN = Path(__file__).with_suffix(".toml")

FAMILIES = ("bert", "gpt2", "llama", "deepseek", "deepseek-v4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsConfig:
    """Routed experts of a mixture-of-experts layer; each is a gated MLP of three matrices.

    num_experts, top_k: experts a layer, and those that one token uses. intermediate_size: of one expert.
    num_shared: experts that every token uses besides, built as one MLP num_shared times as wide.
    num_groups, top_groups: a token's experts come from its best top_groups of num_groups equal groups.
    num_dense_layers: layers at the start with a dense MLP instead.
    scoring: "softmax", "sigmoid" or "sqrtsoftplus" of the gate's logits; the last two have a bias an expert, for
        balance. routed_scale: factor on the routed experts' sum.
    num_hash_layers: layers at the start whose experts a table of tokens chooses, not the gate.
    """

    num_experts: int
    top_k: int
    intermediate_size: int
    num_shared: int = 0
    num_groups: int = 1
    top_groups: int = 1
    num_dense_layers: int = 0
    scoring: str = "softmax"
    routed_scale: float = 1.0
    num_hash_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentConfig:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): ranks and dimensions of a head.

    q_rank, kv_rank: of the compressed queries, and of the compressed keys and values, which are what a cache holds,
    with rope_dim more for the one rotary key of all heads. q_rank 0: queries are not compressed (V2-Lite).
    nope_dim, rope_dim, v_dim: a head's key has nope_dim + rope_dim dimensions, its value v_dim.
    """

    q_rank: int
    kv_rank: int
    rope_dim: int
    nope_dim: int
    v_dim: int

    @property
    def qk_dim(self) -> int:
        return self.nope_dim + self.rope_dim

    @property
    def cache_dim(self) -> int:
        """Elements that a cache holds of one token in one layer."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerConfig:
    """The indexer of sparse attention (DSA of DeepSeek-V3.2, CSA of V4): which keys does a query attend to?

    num_heads, head_dim: of the small queries that score every key; all heads share one key of head_dim.
    top_k: keys that the attention core then sees, the best scored; all of them where there are fewer.
    """

    num_heads: int
    head_dim: int
    top_k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedConfig:
    """Attention over compressed keys (CSA and HCA of DeepSeek-V4), with one key for all heads that is the value too.

    q_rank: of the compressed queries. rope_dim: how many of a head's dimensions are rotary.
    o_rank, o_groups: the output projection: each of o_groups groups of heads to o_rank, then all of these to hidden.
    window: every layer attends to so many latest tokens as they are.
    num_csa_layers, csa_ratio: layers that besides see the indexer's choice among keys made of csa_ratio tokens each.
    num_hca_layers, hca_ratio: layers that besides see all keys made of hca_ratio tokens each. The rest: window only.
    residual_streams: copies of the hidden state between layers (mHC).
    """

    q_rank: int
    rope_dim: int
    o_rank: int
    o_groups: int
    window: int
    num_csa_layers: int
    num_hca_layers: int
    csa_ratio: int
    hca_ratio: int
    residual_streams: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What one model is made of.

    name, family: weftrace's name, and the code that would build it (one of `FAMILIES`).
    num_kv_heads: key and value heads (grouped-query attention); 0 means num_heads.
    head_dim: 0 means hidden_size / num_heads.
    intermediate_size: of the dense MLP: gated, of three matrices (llama, deepseek), or of two (bert, gpt2); 0 where
        no layer is dense.
    tied_head: whether the output head is the embedding's matrix.
    qk_norm: RMS norms on each head's queries and keys (Qwen3).
    mtp_depth: layers after the last that predict one token further each (multi-token prediction); counted nowhere else.
    rope_theta: base of the rotary positions. params: published count of parameters; 0 where none is exact.
    sources: "hidden_size", "experts.top_k" ... -> where that number is from.
    """

    name: str
    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int
    num_kv_heads: int = 0
    head_dim: int = 0
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    tied_head: bool = False
    qk_norm: bool = False
    mtp_depth: int = 0
    params: int = 0
    experts: ExpertsConfig | None = None
    latent: LatentConfig | None = None
    indexer: IndexerConfig | None = None
    compressed: CompressedConfig | None = None
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_heads


def load_models(*paths: str | os.PathLike[str]) -> tuple[ModelConfig, ...]:
    """weftrace's own models and those of `paths` (TOML files of the same form), which replace one of the same name.

    Raises `FlopsError`, naming file and entry, where a file cannot be read or an entry lacks a number or its source.
    """
    configs = (*_built_in(), *(config for path in paths for config in _read(Path(path))))
    return tuple({config.name.lower(): config for config in configs}.values())


def known_models(*paths: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names that `model_config` knows, without their aliases."""
    return tuple(config.name for config in load_models(*paths))


def model_config(name: str, *paths: str | os.PathLike[str]) -> ModelConfig:
    """The model of that name or alias; case does not count, "_" is "-". paths: TOML files that extend the list.

    Raises `SpecError`, listing the names, where there is none.
    """
    configs = load_models(*paths)
    found = find_config(name, configs)
    if found is None:
        raise SpecError(f"no model is called {quoted(name)}; known: {', '.join(config.name for config in configs)}")
    return found


def find_config(name: str, configs: Iterable[ModelConfig]) -> ModelConfig | None:
    """The one of that name or alias; None where there is none."""
    wanted = name.strip().lower().replace("_", "-")
    return next((config for config in configs if wanted in (config.name.lower(), *config.aliases)), None)


def num_params(config: ModelConfig) -> int:
    """Parameters of the whole model, from its numbers alone, without `mtp_depth`. A tied head counts once.

    Of DeepSeek-V4 without the matrices that mix residual streams, and positions within a compressed key: under 1 %.
    """
    return _params(config, routed=1.0)


def active_params(config: ModelConfig) -> int:
    """Parameters that one token uses: every one but the routed experts that it is not sent to. Embeddings count."""
    return _params(config, routed=config.experts.top_k / config.experts.num_experts if config.experts else 1.0)


def _params(config: ModelConfig, routed: float) -> int:
    h, wide, vocab = config.hidden_size, config.intermediate_size, config.vocab_size
    if config.family in ("bert", "gpt2"):
        block = 4 * (h * h + h) + (2 * h * wide + wide + h) + 2 * 2 * h  # attention, MLP, two norms; all with biases
        total = config.num_layers * block + (vocab + config.max_positions) * h + 2 * h
        if config.family == "bert":  # token types; pooler, transform and its norm; biases of the two heads
            total += 2 * h + (h * h + h) + (h * h + h) + 2 * h + vocab + (2 * h + 2)
        return total
    attention = _attention_params(config)
    num_moe = 0
    moe = 0
    if experts := config.experts:
        num_moe = config.num_layers - experts.num_dense_layers
        one = 3 * h * experts.intermediate_size
        moe = h * experts.num_experts + (0 if experts.scoring == "softmax" else experts.num_experts)
        moe += experts.num_shared * one + round(experts.num_experts * routed) * one
    mlp = (config.num_layers - num_moe) * 3 * h * wide + num_moe * moe
    heads = 1 if config.tied_head else 2
    return attention + config.num_layers * 2 * h + mlp + h + heads * vocab * h


def _attention_params(config: ModelConfig) -> int:
    """Of all layers of a llama, a deepseek or a deepseek-v4."""
    h, heads, layers = config.hidden_size, config.num_heads, config.num_layers
    if kinds := config.compressed:
        return _compressed_params(config, kinds)
    if latent := config.latent:
        one = latent.q_rank * (h + 1 + heads * latent.qk_dim) if latent.q_rank else h * heads * latent.qk_dim
        one += h * latent.cache_dim + latent.kv_rank
        one += latent.kv_rank * heads * (latent.nope_dim + latent.v_dim)
        one += heads * latent.v_dim * h
        if indexer := config.indexer:  # queries, the one key and its norm, weights of the heads
            one += latent.q_rank * indexer.num_heads * indexer.head_dim + h * indexer.num_heads
            one += h * indexer.head_dim + 2 * indexer.head_dim
        return layers * one
    one = 2 * h * config.head_size * (heads + config.kv_heads)
    one += 2 * config.head_size if config.qk_norm else 0
    return layers * one


def _compressed_params(config: ModelConfig, kinds: CompressedConfig) -> int:
    h, heads, dim = config.hidden_size, config.num_heads, config.head_size
    assert config.indexer is not None, config.name
    index = config.indexer
    one = kinds.q_rank * (h + 1 + heads * dim) + h * dim + dim + heads  # queries; the key and its norm; sinks
    one += heads * dim * kinds.o_rank + kinds.o_groups * kinds.o_rank * h
    hca = 2 * h * dim  # values and gates of a compressed key
    csa = 2 * hca + kinds.q_rank * index.num_heads * index.head_dim + h * index.num_heads  # its keys overlap: twice
    csa += 2 * 2 * h * index.head_dim  # the indexer's own compressed keys
    return config.num_layers * one + kinds.num_csa_layers * csa + kinds.num_hca_layers * hca


# -- reading the TOML

TABLES = {"experts": ExpertsConfig, "latent": LatentConfig, "indexer": IndexerConfig, "compressed": CompressedConfig}
SCORINGS = ("softmax", "sigmoid", "sqrtsoftplus")


@cache
def _built_in() -> tuple[ModelConfig, ...]:
    return tuple(_read(BUILT_IN))


def _read(path: Path) -> Iterator[ModelConfig]:
    for number, entry in enumerate(read_tables(path, "model", what="models", error=FlopsError), 1):
        yield _model(entry, f"{path}: model {number}")


def _model(entry: Mapping[str, Any], where: str) -> ModelConfig:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise FlopsError(f"{where}: 'name' is missing")
    where = f"{where} ({name})"
    source = entry.get("source", "")
    sources: dict[str, str] = {}
    values = _values(ModelConfig, {k: v for k, v in entry.items() if k != "source"}, where, "", source, sources)
    if values["family"] not in FAMILIES:
        raise FlopsError(f"{where}: unknown family {values['family']!r}; choose from {', '.join(FAMILIES)}")
    for key, kind in TABLES.items():
        if key in values:
            values[key] = kind(**_values(kind, values[key], f"{where}.{key}", f"{key}.", source, sources))
    if values["family"] == "deepseek" and ("latent" not in values or "experts" not in values):
        raise FlopsError(f"{where}: family deepseek needs [model.experts] and [model.latent]")
    if values["family"] == "deepseek-v4" and not {"experts", "indexer", "compressed"} <= values.keys():
        raise FlopsError(f"{where}: family deepseek-v4 needs [model.experts], [model.indexer] and [model.compressed]")
    values["aliases"] = tuple(alias.lower() for alias in values.get("aliases", ()))
    return ModelConfig(**values, sources=MappingProxyType(sources))


def _values(
    kind: type, entry: Mapping[str, Any], where: str, prefix: str, source: str, sources: dict[str, str]
) -> dict[str, Any]:
    """The entry's values by name, their sources into `sources`; every one checked against the field of that name."""
    if not isinstance(entry, dict):
        raise FlopsError(f"{where}: must be a table")
    known = {item.name: item for item in fields(kind) if item.name != "sources"}
    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in known:
            raise FlopsError(f"{where}: unknown key {key!r}")
        if key in (*TABLES, "name", "family", "aliases"):
            values[key] = value
            continue
        own = source
        if isinstance(value, dict):
            own = value.get("source", "")
            value = value.get("value")
        wanted = str(known[key].type)
        fits = {
            "int": type(value) is int and value >= 0,
            "float": type(value) in (int, float) and value > 0,
            "bool": type(value) is bool,
            "str": value in SCORINGS,
        }
        if not fits[wanted]:
            raise FlopsError(f"{where}: {key} = {value!r} is not a usable {wanted}")
        if not own:
            raise FlopsError(
                f"{where}: {key} has no source; give one to the entry, or write {{ value = …, source = … }}"
            )
        values[key] = float(value) if wanted == "float" else value
        sources[prefix + key] = own
    missing = [item.name for item in known.values() if item.name not in values and item.default is MISSING]
    if missing:
        raise FlopsError(f"{where}: {missing[0]!r} is missing")
    return values
