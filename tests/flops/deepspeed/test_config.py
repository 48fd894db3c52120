"""The JSON block: defaults, what beside it counts, and what is said where it is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weftrace.errors import FlopsError
from weftrace.flops.deepspeed.config import DeepSpeedFlopsConfig, parse_deepspeed_config, read_deepspeed_config

SAMPLE = """{"flops_profiler": {"enabled": true, "profile_step": 1, "module_depth": -1, "top_modules": 1,
                                "detailed": true, "output_file": null}}"""


def test_the_published_sample(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(SAMPLE)
    assert read_deepspeed_config(tmp_path / "ds.json") == DeepSpeedFlopsConfig(enabled=True)


def test_defaults() -> None:
    config = parse_deepspeed_config({"flops_profiler": {}})
    assert (config.enabled, config.recompute_fwd_factor, config.profile_step) == (False, 0.0, 1)
    assert (config.module_depth, config.top_modules, config.detailed, config.output_file) == (-1, 1, True, None)


def test_sizes_are_read_and_other_blocks_left_alone() -> None:
    document = {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": 4,
        "zero_optimization": {"stage": 3, "anything": ["at", "all"]},
        "flops_profiler": {"enabled": True, "recompute_fwd_factor": 1, "output_file": ""},
    }
    assert parse_deepspeed_config(document) == DeepSpeedFlopsConfig(
        enabled=True, recompute_fwd_factor=1.0, train_batch_size=64, gradient_accumulation_steps=4
    )


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"profle_step": 2}, "ds.json: flops_profiler.profle_step: no such key; did you mean 'profile_step'?"),
        ({"zzz": 2}, "no such key; there are enabled, detailed, profile_step"),
        ({"enabled": "true"}, 'flops_profiler.enabled: true or false, not "true"'),
        ({"detailed": 1}, "flops_profiler.detailed: true or false, not 1"),
        ({"profile_step": 1.5}, "flops_profiler.profile_step: a whole number, not 1.5"),
        ({"profile_step": True}, "flops_profiler.profile_step: a whole number, not true"),
        ({"profile_step": -1}, "flops_profiler.profile_step: -1 is below 0"),
        ({"top_modules": 0}, "flops_profiler.top_modules: 0 is below 1"),
        ({"module_depth": -2}, "flops_profiler.module_depth: -2 is below -1"),
        ({"recompute_fwd_factor": None}, "flops_profiler.recompute_fwd_factor: a number, not null"),
        ({"recompute_fwd_factor": -1}, "-1 is no factor"),
        ({"output_file": 3}, "flops_profiler.output_file: a path or null, not 3"),
        ([], "flops_profiler is a JSON object, not []"),
    ],
)
def test_mistakes_are_named(block: Any, says: str) -> None:
    with pytest.raises(FlopsError) as error:
        parse_deepspeed_config({"flops_profiler": block}, "ds.json")
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, 'no block \'flops_profiler\'; add "flops_profiler": {"enabled": true}'),
        ({"flop_profiler": {}}, "did you mean 'flops_profiler' where it says 'flop_profiler'?"),
        ([], "a DeepSpeed configuration is a JSON object, not []"),
        ({"flops_profiler": {}, "train_batch_size": "many"}, 'train_batch_size: a whole number above 0 or "auto"'),
    ],
)
def test_documents_that_are_none(document: Any, says: str) -> None:
    with pytest.raises(FlopsError) as error:
        parse_deepspeed_config(document)
    assert says in str(error.value)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FlopsError, match=r"none\.json: cannot be read"):
        read_deepspeed_config(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text('{"flops_profiler": {},}')
    with pytest.raises(FlopsError, match=r"broken\.json: not JSON: .*no trailing commas"):
        read_deepspeed_config(broken)
    broken.write_text('{"flops_profiler": {"enabled": true, "enabled": false}}')
    with pytest.raises(FlopsError, match="the key 'enabled' stands twice"):
        read_deepspeed_config(broken)


def test_a_block_written_by_json_comes_back(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"flops_profiler": {"enabled": True, "output_file": "a/b.txt"}}))
    assert read_deepspeed_config(tmp_path / "ds.json").output_file == "a/b.txt"
