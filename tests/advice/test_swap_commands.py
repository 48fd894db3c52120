"""`weftrace whatif --placement` and `--schedule` as a person meets them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import weftrace as wt
from tests.advice.test_cli import checked, summary
from tests.advice.test_schedules import COSTS
from tests.cli.test_cli import Run, run
from tests.pipeline.measured.rank_traces import write_ranks
from weftrace.experts import make_cluster, placement_report
from weftrace.experts.placement import make_placement
from weftrace.pipeline import Costs, generate, simulate
from weftrace.pipeline.as_plan import plan_of
from weftrace.plan import deepseek_training_layers, simulate_ranks

__all__ = ["run"]  # the fixture


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of ZB1P on 2 ranks."""
    folder = tmp_path_factory.mktemp("zb1p")
    for rank, trace in simulate_ranks(plan_of(generate("zb1p", num_ranks=2, num_micro_batches=4), COSTS)).items():
        wt.save(trace, folder / f"rank{rank}.json")
    return folder


def test_another_schedule_is_told_beside_the_simulations_error(run: Run, pipeline: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"swap.{ending}" for ending in ("json", "csv", "md")]
    written = [each for path in outputs for each in ("-o", path)]
    code, out, err = run("whatif", pipeline, "--schedule", "gpipe", "--workers", "1", *written)
    assert code == 0, err
    assert "GPipe instead of ZB1P:" in summary(out) and "ZB1P, simulated" in summary(out)
    document = checked(outputs[0])
    assert document["measured_schedule"] == "ZB1P" and abs(document["error"]) < 0.01 < document["change"]
    assert pl.read_csv(outputs[1])["after_ns"].to_list() == [document["after_ns"]]
    assert "| GPipe, simulated |" in outputs[2].read_text()


def test_a_run_without_a_device_is_told_by_its_ranges(run: Run, tmp_path: Path) -> None:
    schedule = generate("1f1b", num_ranks=2, num_micro_batches=4)
    costs = Costs(forward_ns=100_000, input_ns=200_000, weight_ns=0)
    times = simulate(schedule, costs).times
    folder = write_ranks(tmp_path / "runs", schedule, [(times.start_ns, times.end_ns)] * 2)
    code, out, err = run("whatif", folder, "--schedule", "gpipe", "--workers", "1", "-o", tmp_path / "swap.json")
    assert code == 0, err
    assert "GPipe instead of 1F1B:" in summary(out) and "as long as its range on the host" in summary(out)
    document = checked(tmp_path / "swap.json")
    assert (document["measured_ns"], document["step"]) == (times.makespan_ns, 1)
    assert abs(document["error"]) < 0.01


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of DeepSeek-V3's training layers, and a placement of 16 experts on 4 GPUs, the first of them hot."""
    folder = tmp_path_factory.mktemp("placement")
    wt.save(wt.simulate(deepseek_training_layers(1)), folder / "train.json.gz")
    loads = np.array([[400, 300, 200, 100, *[50] * 12]], np.float64)
    slots = [[gpu, (gpu + 1) % 4, *range(4 + 3 * gpu, 7 + 3 * gpu)] for gpu in range(4)]  # two copies of the hot ones
    placement = make_placement(np.array(slots).reshape(1, -1), make_cluster(20, 4), 16)
    wt.save(placement_report(placement, loads), folder / "placement.json")
    return folder


def test_another_placement_is_a_change_like_others(run: Run, layers: Path, tmp_path: Path) -> None:
    to = tmp_path / "what.json"
    placement = layers / "placement.json"
    code, out, err = run("whatif", layers / "train.json.gz", "--placement", placement, "-o", to)
    assert code == 0, err
    assert "experts in order, as many on each GPU (assumed)" in summary(out)
    document = checked(to)
    assert document["saved_ns"] > 0  # GPU 0 held the hot experts
    assert document["changes"] == [f"experts placed as in {placement}"]
    code, out, err = run(
        "whatif", layers / "train.json.gz", "--placement", placement, "--placed-as", placement, "-o", to
    )
    assert (code, checked(to)["saved_ns"]) == (0, 0), err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--schedule", "dualpipe"], 2, "another schedule needs phases of a pipeline's chunks"),
        (["--schedule", "dualpipe", "--no-host-gaps"], 2, "takes no other change"),
        (["--placed-as", "placement.json"], 2, "needs --placement"),
        (["--placement", "absent.json"], 3, "absent.json"),
    ],
)
def test_wrong_usage_says_what_helps(run: Run, layers: Path, arguments: list[str], code: int, says: str) -> None:
    got, out, err = run("whatif", layers / "train.json.gz", *arguments)
    assert (got, out) == (code, "")
    assert says in summary(err)
