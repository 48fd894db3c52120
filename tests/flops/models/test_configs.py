"""Built-in configurations: published numbers, a source beside each, and readable complaints about a user's own file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import MISSING, astuple, fields
from pathlib import Path

import pytest

from tests.flops.models import tiny
from weftrace.errors import FlopsError
from weftrace.facts.models import (
    ModelConfig,
    active_params,
    known_models,
    load_models,
    model_config,
    num_params,
)

PUBLISHED = {
    "bert-base": 110_106_428,
    "bert-large": 336_232_258,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
    "deepseek-v2-lite": 15_706_484_224,
    "tiny-mla": 321_880,
    "tiny-gqa": 314_048,
}
ROUND = {"deepseek-v3.2": 671e9, "deepseek-v4-flash": 284e9, "deepseek-v4-pro": 1.6e12}  # published in round figures


def test_published_counts() -> None:
    exact = [config for config in load_models() if config.name not in ROUND]
    assert {config.name: num_params(config) for config in exact} == PUBLISHED
    assert {config.name: config.params for config in exact} == PUBLISHED
    assert set(known_models()) == {*PUBLISHED, *ROUND}


@pytest.mark.parametrize(("name", "published"), ROUND.items())
def test_round_counts_are_met_within_two_percent(name: str, published: float) -> None:
    config = model_config(name)
    assert config.params == 0  # no exact count is published
    assert num_params(config) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("mixtral-8x7b", 12.88),
        ("qwen3-30b-a3b", 3.35),
        ("qwen3-235b-a22b", 22.19),
        ("deepseek-v3", 37.55),
        ("kimi-k2", 32.86),  # published: 32 B
        ("deepseek-v2-lite", 2.66),  # published: 2.4 B, without embeddings
        ("deepseek-v4-flash", 13.76),  # published: 13 B
        ("deepseek-v4-pro", 49.69),  # published: 49 B
    ],
)
def test_active_parameters(name: str, billions: float) -> None:
    assert round(active_params(model_config(name)) / 1e9, 2) == billions


def test_a_dense_model_is_all_active() -> None:
    assert active_params(model_config("llama-3-8b")) == PUBLISHED["llama-3-8b"]


def test_by_pencil() -> None:
    """llama-tiny: embedding and head 96 x 32 each; a layer q, o 32 x 32, k, v 32 x 16, three of 32 x 48, two norms."""
    layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48 + 2 * 32
    assert num_params(tiny.LLAMA) == 2 * 96 * 32 + 3 * layer + 32


@pytest.mark.parametrize("config", load_models(), ids=lambda config: str(config.name))
def test_every_number_has_a_source(config: ModelConfig) -> None:
    tables = {"experts", "latent", "indexer", "compressed"}
    plain = {item.name for item in fields(config)} - {"name", "family", "aliases", "sources"} - tables
    default = ModelConfig(
        name="", family="", vocab_size=0, hidden_size=0, num_layers=0, num_heads=0, intermediate_size=0, max_positions=0
    )
    given = {name for name in plain if getattr(config, name) != getattr(default, name)}
    assert given <= set(config.sources)
    assert all(len(source) > 10 for source in config.sources.values())
    for table in tables:
        part = getattr(config, table)
        if part is not None:
            needed = {item.name for item in fields(part) if item.default is MISSING}
            assert {f"{table}.{name}" for name in needed} <= set(config.sources)


@pytest.mark.parametrize(
    ("name", "latent", "heads", "experts", "top_k", "shared", "dense", "mtp"),
    [
        ("deepseek-v3", (1536, 512, 64, 128, 128), 128, 256, 8, 1, 3, 1),
        ("deepseek-v3.2", (1536, 512, 64, 128, 128), 128, 256, 8, 1, 3, 1),
        ("kimi-k2", (1536, 512, 64, 128, 128), 64, 384, 8, 1, 1, 0),
        ("deepseek-v2-lite", (0, 512, 64, 128, 128), 16, 64, 6, 2, 1, 0),
        ("qwen3-235b-a22b", None, 64, 128, 8, 0, 0, 0),
        ("deepseek-v4-flash", None, 64, 256, 6, 1, 0, 1),
        ("deepseek-v4-pro", None, 128, 384, 6, 1, 0, 1),
    ],
)
def test_shapes_of_published_mixtures_of_experts(
    name: str, latent: tuple[int, ...] | None, heads: int, experts: int, top_k: int, shared: int, dense: int, mtp: int
) -> None:
    config = model_config(name)
    assert config.experts is not None
    assert (None if config.latent is None else astuple(config.latent)) == latent
    found = (config.num_heads, config.experts.num_experts, config.experts.top_k, config.experts.num_shared)
    assert (*found, config.experts.num_dense_layers, config.mtp_depth) == (heads, experts, top_k, shared, dense, mtp)


@pytest.mark.parametrize(("name", "window", "csa", "hca"), [("deepseek-v4-flash", 2, 21, 20), ("v4-pro", 0, 30, 31)])
def test_layers_of_compressed_attention_add_up(name: str, window: int, csa: int, hca: int) -> None:
    config = model_config(name)
    kinds = config.compressed
    assert kinds is not None and config.indexer is not None
    assert (config.num_layers - csa - hca, kinds.num_csa_layers, kinds.num_hca_layers) == (window, csa, hca)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Llama-3-8B", "llama-3-8b"),
        ("bert_large", "bert-large"),
        ("qwen3-moe", "qwen3-30b-a3b"),
        ("mixtral", "mixtral-8x7b"),
        ("deepseek-r1", "deepseek-v3"),
    ],
)
def test_names(written: str, name: str) -> None:
    assert model_config(written).name == name


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(FlopsError, match="no model is called 'llama-9'; known: bert-base, bert-large"):
        model_config("llama-9")


OWN = """
[[model]]
name = "mine"
family = "llama"
source = "me"
vocab_size = 100
hidden_size = 8
num_layers = 1
num_heads = 2
intermediate_size = 16
max_positions = 32
"""


def test_own_file(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN, "utf-8")
    config = model_config("mine", path)
    assert config.kv_heads == 2 and config.head_size == 4
    assert num_params(config) == 2 * 800 + 4 * 64 + 3 * 128 + 3 * 8


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("num_heads = 2", "", "'num_heads' is missing"),
        ("num_heads = 2", "num_heads = -2", "num_heads = -2 is not a usable int"),
        ("num_heads = 2", "num_heads = 2\nheads = 2", "unknown key 'heads'"),
        ('family = "llama"', 'family = "lama"', "unknown family 'lama'"),
        ('family = "llama"', "", "'family' is missing"),
        ('family = "llama"', 'family = "deepseek"', r"needs \[model.experts\]"),
        ('source = "me"', "", "vocab_size has no source"),
        ('name = "mine"', "", "'name' is missing"),
        ("[[model]]", "[model]", "must be a list"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN.replace(old, new), "utf-8")
    with pytest.raises(FlopsError, match=said) as caught:
        load_models(path)
    assert str(path) in str(caught.value)


def test_without_torch() -> None:
    code = "import sys, weftrace.facts.models as m; m.model_config('gpt2'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
