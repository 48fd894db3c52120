"""A run compared with itself: nothing changed, in no row and by no effect, and the command ends with 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.comparison.truth.random_runs import random_job
from tests.fuzz import few
from weftrace.cli.main import program
from weftrace.comparison import diff, judged, parse_gate
from weftrace.comparison.alignment.movers import movers_of
from weftrace.comparison.explanations import causes, headline
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request
from weftrace.plan import simulate_ranks

RECORDED = (
    "deepseek-v3-train", "hta-cpu-only-rank34", "hta-event-sync-multi-stream", "hta-mi250-minitoy", "hta-rank-non-gpu",
    "hta-triton-example", "tracelens-h100-bert-small", "tracelens-mi300-bert-small", "tracelens-vllm-decode-graph",
)  # fmt: skip


def nothing_changed(before: Any, after: Any) -> None:
    found = diff(before, after, workers=1)
    assert found.verdict.word == "comparable", found.verdict.reasons
    assert found.change_ns == found.remainder_ns == 0
    assert found.changes.select(pl.col("^.*change_ns$|^by_.*$").abs().sum()).row(0) == (0,) * 5
    gates = [parse_gate(text, "above") for text in ("span=0%", "idle=0ns")]
    assert all(gate["is_met"] for gate in judged(found, gates))
    assert causes(found) == () and headline(found).startswith("Nothing changed")
    for level in ("family", "kernel", "operator", "phase"):
        movers = movers_of(found, level)
        assert movers.get_column("status").unique().to_list() in ([], ["both"]), level


@pytest.mark.parametrize("name", few(RECORDED, 5))
def test_a_recorded_trace(name: str, shared_data: Path) -> None:
    path = shared_data / f"{name}.json.gz"
    nothing_changed(path, path)


def test_the_command_ends_with_0(shared_data: Path) -> None:
    path = str(shared_data / "hta-mi250-minitoy.json.gz")
    done = CliRunner().invoke(program(), ["diff", path, path, "--fail-above", "span=0%", "--fail-above", "idle=0ns"])
    assert done.exit_code == 0, done.output


def test_a_recorded_job(shared_data: Path) -> None:
    nothing_changed(str(shared_data / "hta-two-ranks"), str(shared_data / "hta-two-ranks"))


def test_two_ranks_of_one_job_are_no_before_and_after(shared_data: Path) -> None:
    paths = [str(shared_data / "hta-two-ranks" / f"sampled_rank-{rank}.json.gz") for rank in (0, 1)]
    assert diff(*paths).verdict.word == "not comparable"
    done = CliRunner().invoke(program(), ["diff", *paths])
    assert done.exit_code == 3 and "different ranks" in done.output


@pytest.mark.parametrize("kind", ["train", "prefill", "decode"])
def test_a_simulated_job(kind: Any) -> None:
    profile = profile_of(Request(kind=kind, layers=1, ranks=2, ep=2))
    nothing_changed(simulate_ranks(profile.plan), simulate_ranks(profile.plan))


@pytest.mark.parametrize("seed", range(3))
def test_a_random_job(seed: int) -> None:
    traces = random_job(seed)
    nothing_changed(traces, traces)
