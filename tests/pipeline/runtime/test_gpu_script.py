"""examples/pipeline_gpu.py: its checks on processors, and what it writes where one fails."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.checkpoint.filesystem import FileSystemReader

from tests.fuzz import is_thorough
from tests.living import ROOT, Ranks
from tests.pipeline.runtime.script_cases import checks, script

CHECKS = checks()
#: DualPipe with replicas, saved by shards, and one that loads them.
SAMPLE = [check for check in CHECKS if check.kind == "training" and check.split == script.Split("dualpipe", 2, "fsdp")]


def name_of(check: Any) -> str:
    return "-".join((check.kind, check.split.family, check.split.way))


def test_training_checks_have_every_family_in_every_way_with_two_and_four_ranks() -> None:
    splits = [each for check in CHECKS if check.kind == "training" for each in (check.split, check.then)]
    wanted = {(family, num, way) for family in script.FAMILIES for num in (2, 4) for way in script.WAYS}
    assert len(splits) == len(wanted) == 104
    assert {(split.family, split.num_ranks, split.way) for split in splits} == wanted


@pytest.mark.parametrize("check", CHECKS if is_thorough() else SAMPLE, ids=name_of)
def test_training_goes_on_in_another_split_as_one_process(ranks: Ranks, check: Any, tmp_path: Path) -> None:
    """Gradients, then parameters after steps of AdamW, half of them in each split; the second one's rate would be 1. Of
    replicas one copy is saved, of sharded parameters their two parts."""
    steps = 20 if is_thorough() else 4
    facts = {"at": CHECKS.index(check), "folder": str(tmp_path), "steps": steps}
    for found in ranks.run("tests.pipeline.runtime.script_cases:checked", 4, **facts):
        assert max(found.values()) < 1e-12
    if check.split == script.Split("dualpipe", 2, "fsdp"):
        written = [index.fqn for index in FileSystemReader(tmp_path).read_metadata().storage_data]
        assert written.count("pipeline.model.1.attention.qkv.weight") == 2


def test_a_failed_check_is_a_row_and_the_next_one_runs(warm: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "found.json"
    command = [str(warm / "python"), "examples/pipeline_gpu.py", "--processes", "2", "--steps", "1", "-o", str(output)]
    command += ["--families", "dualpipe", "--ways", "ddp", "--checks", "training", "dualpipe", "--most-apart", "1e-18"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done
    assert "| training | DualPipe | 2 x 1 | ddp | DualPipe, 2 ranks, ddp | 1 | " in done.stdout
    rows = json.loads(output.read_text())["rows"]
    assert [row["check"] for row in rows] == ["training", "dualpipe"]
    assert rows[0]["error"] == "more than 1e-18 apart" and 0 < rows[0]["gradients"] < 1e-12
