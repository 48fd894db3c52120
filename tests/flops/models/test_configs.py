"""Built-in configurations: published numbers, a source beside each, and readable complaints about a user's own file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
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
}


def test_published_counts() -> None:
    assert {config.name: num_params(config) for config in load_models()} == PUBLISHED
    assert {config.name: config.params for config in load_models()} == PUBLISHED
    assert known_models() == tuple(PUBLISHED)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("mixtral-8x7b", 12.88), ("qwen3-30b-a3b", 3.35), ("qwen3-235b-a22b", 22.19), ("deepseek-v3", 37.55)],
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
    plain = {item.name for item in fields(config)} - {"name", "family", "aliases", "sources", "experts", "latent"}
    default = ModelConfig(
        name="", family="", vocab_size=0, hidden_size=0, num_layers=0, num_heads=0, intermediate_size=0, max_positions=0
    )
    given = {name for name in plain if getattr(config, name) != getattr(default, name)}
    assert given <= set(config.sources)
    assert all(len(source) > 10 for source in config.sources.values())
    if config.experts is not None:
        assert "experts.top_k" in config.sources


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
