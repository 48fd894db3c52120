"""`weftrace profile calibrate` and `validate`: from a shell, with their files and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import weftrace as wt
from tests.moe.test_calibration import layers
from tests.moe.test_validation import run as run_of
from weftrace.cli.main import program
from weftrace.errors import NOT_MET, UNUSABLE_INPUT, USAGE, WeftraceError
from weftrace.moe.calibration.values import Calibration
from weftrace.moe.validation.comparison import Validation
from weftrace.trace import write_chrome

DOCS = Path(__file__).parents[3] / "docs" / "profiles-costs.md"


def run(*arguments: str | Path, width: int = 80) -> Result:
    return CliRunner().invoke(program(), ["profile", *map(str, arguments)], env={"COLUMNS": str(width)})


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    write_chrome(run_of(attn=100), tmp_path / "measured.json.gz")
    return tmp_path / "measured.json.gz"


def test_a_gate_that_is_met_ends_well_and_one_that_is_not_says_by_what(measured: Path, tmp_path: Path) -> None:
    write_chrome(run_of(attn=90), tmp_path / "simulated.json")
    assert run("validate", tmp_path / "simulated.json", measured, "--max-error", "10%").exit_code == 0
    failed = run("validate", tmp_path / "simulated.json", measured, "--max-error", "5%")
    assert failed.exit_code == NOT_MET
    assert "is off by more than 5%: attn(F) by −10.0 %" in failed.output
    wrong = run("validate", tmp_path / "simulated.json", measured, "--max-error", "five")
    assert wrong.exit_code == USAGE and "'five' is no part of a whole" in wrong.output


def test_a_validation_is_written_and_loaded(measured: Path, tmp_path: Path) -> None:
    done = run("validate", measured, measured, "--json", "-o", tmp_path / "v.json", "-o", tmp_path / "v.csv")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads((tmp_path / "v.json").read_text())
    assert isinstance(wt.load(tmp_path / "v.json"), Validation)
    assert (tmp_path / "v.csv").read_text().splitlines()[1].startswith("attn(F),F,")


def test_a_calibration_is_written_loaded_and_priced_with(tmp_path: Path) -> None:
    write_chrome(layers(), tmp_path / "measured.json")
    costs = tmp_path / "costs.json"
    done = run("calibrate", tmp_path / "measured.json", "--layers", "0,2", "--tokens", "2048", "-o", costs)
    assert done.exit_code == 0, done.output
    assert "Layers that a fit had not seen" in done.stdout
    found = wt.load(costs)
    assert isinstance(found, Calibration) and (found.layers, found.tokens) == ((0, 2), 2048)
    refused = run("train", "--costs", costs)
    assert "calibrated on no phase 'combine(B)'" in str(refused.exception)


def test_a_trace_without_phases_is_an_input_that_cannot_be_used(shared_data: Path) -> None:
    done = run("calibrate", shared_data / "tracelens-h100-bert-small.json.gz")
    assert isinstance(done.exception, WeftraceError) and done.exception.exit_code == UNUSABLE_INPUT
    assert "it has no named ranges" in str(done.exception)


def test_costs_are_of_one_rank(measured: Path, tmp_path: Path) -> None:
    write_chrome(run_of(), tmp_path / "rank1.json")
    done = run("calibrate", tmp_path)
    assert "2 traces; costs are calibrated from the trace of one rank" in str(done.exception)


def test_profiles_are_made_of_costs_of_the_published_profile(shared_data: Path, tmp_path: Path) -> None:
    """Calibrated on all four layers, simulated with balanced rows; mlp(F) is 5.1 % above its median of other rows."""
    measured = shared_data / "deepseek-v3-train.json.gz"
    assert run("calibrate", measured, "-q", "-o", tmp_path / "costs.json").exit_code == 0
    made = run("train", "--costs", tmp_path / "costs.json", "-q", "-o", f"{tmp_path / 'simulated'}/")
    assert made.exit_code == 0, made.output
    done = run("validate", tmp_path / "simulated", measured, "--max-error", "6%")
    assert done.exit_code == 0, done.output
    assert "profile.overlap   training | –" in done.stdout
    assert "compute, the same: attn(F) mlp(B) mlp(W) mlp(F) attn(B) attn(W)" in done.stdout


def test_the_table_of_errors_in_the_docs_is_what_the_command_prints(shared_data: Path) -> None:
    done = run("calibrate", shared_data / "deepseek-v3-train.json.gz", width=100)
    (quoted,) = re.findall(r"weftrace profile calibrate [^`]*?```\n\n```text\n(.*?)```", DOCS.read_text(), re.DOTALL)
    printed = {line.rstrip() for line in done.stdout.splitlines()}
    assert [line for line in quoted.splitlines() if line and line not in printed] == []
    assert sum("…" in line for line in quoted.splitlines()) >= 10


def test_the_first_example_of_the_docs_is_what_the_command_prints() -> None:
    (quoted,) = re.findall(r"```sh\nweftrace profile decode\n```\n\n```text\n(.*?)```", DOCS.read_text(), re.DOTALL)
    printed = {line.rstrip() for line in run("decode", width=100).stdout.splitlines()}
    assert [line for line in quoted.splitlines() if line not in printed | {"…"}] == []
