"""examples/pipeline_train.py: it trains, its gradients are those of one process, and its recording is read again."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

import weftrace as wt
from tests.fuzz import thorough_case
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.measured.runs import run_of
from weftrace.pipeline.notation import from_text

ROOT = Path(__file__).resolve().parents[3]


def told_by(warm: Path, num_ranks: int, *options: str, fails: bool = False) -> str:
    """What rank 0 of the example printed, or what it said where it fails. Processes are started as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [
        str(warm / "python"),
        "examples/pipeline_train.py",
        "--width",
        "16",
        "--length",
        "16",
        "--check",
        *options,
    ]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    common |= {"WORLD_SIZE": str(num_ranks), "LOCAL_WORLD_SIZE": str(num_ranks)}
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(num_ranks)
    ]  # fmt: skip
    said = [process.communicate(timeout=120) for process in processes]
    assert {process.returncode for process in processes} == {int(fails)}, said
    return said[0][1 if fails else 0]


@pytest.fixture(scope="module")
def told_and_recorded(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the example printed, and the folder of its profiles."""
    folder = tmp_path_factory.mktemp("example") / "run"
    return told_by(warm, 2, "--schedule", "dualpipe", "--steps", "4", "--profile", str(folder)), folder


def test_the_example_trains_and_its_gradients_are_those_of_one_process(told_and_recorded: tuple[str, Path]) -> None:
    summary, _ = told_and_recorded
    losses = [float(found) for found in re.findall(r"loss ([\d.]+)", summary)]
    assert len(losses) == 4
    assert losses[3] < losses[0]
    assert "check: the gradients on all ranks are those of one process, bit by bit" in summary


def test_wrong_options_are_told_in_a_line(warm: Path) -> None:
    said = told_by(warm, 1, "--schedule", "dualpipe", "--micro-batches", "3", fails=True)
    assert "Traceback" not in said
    assert "--schedule dualpipe: DualPipe" in said


def test_the_only_step_is_recorded_too(warm: Path, tmp_path: Path) -> None:
    told_by(warm, 1, "--schedule", "1f1b", "--steps", "1", "--profile", str(tmp_path / "run"))
    assert len(run_of(wt.open(tmp_path / "run")).steps) == 1


def test_each_action_is_a_range_in_the_profile_in_the_order_of_the_schedule(
    told_and_recorded: tuple[str, Path],
) -> None:
    _, folder = told_and_recorded
    run = run_of(wt.open(folder))
    schedule = generate("dualpipe", num_ranks=2, num_micro_batches=4)
    assert from_text((folder / "schedule.txt").read_text()) == schedule
    assert run.has_waits
    assert len(run.steps) == 2
    for step in run.steps:
        assert run.of_step(step).actions.select(schedule.actions.columns).equals(schedule.actions)
    report = wt.analyze(folder)
    assert [rank["rank"] for rank in report.document["ranks"]] == [0, 1]


@pytest.mark.parametrize("data", ["fsdp", thorough_case("ddp")])
def test_pipelines_that_share_experts_have_the_gradients_of_one_process(warm: Path, data: str) -> None:
    how = ("--schedule", "dualpipev", "--model", "moe", "--pipelines", "2", "--data", data)
    summary = told_by(warm, 4, *how, "--steps", "1")
    assert "check: the gradients on all ranks are those of one process, but for" in summary
