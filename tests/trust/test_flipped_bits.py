"""Of each kind of file that weftrace writes, flipped bits are refused, reported, or harmless; none is just believed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import weftrace
from tests.conftest import ROOT
from tests.fuzz import fuzz_seed, is_thorough
from weftrace.plan import deepseek_training_layers


def test_a_flipped_bit_is_not_believed(tmp_path: Path) -> None:
    """Damage in a trace's JSON is compressed: of plain text, nobody can know."""
    plan = deepseek_training_layers(2)
    trace = weftrace.simulate(plan)
    files = [tmp_path / name for name in ("trace.parquet", "trace.json.gz", "trace.json.zst")]
    weftrace.save(trace, *files)
    weftrace.save(plan, tmp_path / "plan.parquet")
    weftrace.save(weftrace.analyze(trace), tmp_path / "report.json")
    number = 1_000 if is_thorough() else 5
    paths = [str(path) for path in (*files, tmp_path / "plan.parquet", tmp_path / "report.json")]
    command = [sys.executable, "-m", "tests.flipped_bits", str(fuzz_seed()), str(number), *paths]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)
    assert len(found) == 5
    for name, outcomes in found.items():
        assert set(outcomes) <= {"refused", "told", "equal"}, (name, outcomes)
        assert sum(outcomes.values()) == number
