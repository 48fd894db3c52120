"""`weftrace pipeline recommend`, `step` and `slip` as a person meets them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import polars as pl
import pytest
from rich.console import Console

import weftrace
import weftrace.errors
from tests.cli.test_cli import Run, run
from tests.pages import page_blocks
from tests.pipeline.measured.rank_traces import write_ranks
from tests.pipeline.measured.test_flops_costs import saved as saved_flops
from tests.pipeline.measured.test_phase_costs import PAIR, trace_of
from weftrace.files.documents import read_document, write_document
from weftrace.files.schemas import schemas
from weftrace.pipeline import Costs, Simulation, generate, recommend, run_of, simulate, slip, to_text
from weftrace.pipeline.document import pipeline_document

__all__ = ["run"]  # the fixture

SCHEMA_OF = {schema.schema: schema for schema in schemas()}
ON_FOUR = ("--devices", "4", "--micro-batches", "8")


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    path = tmp_path / "costs.json"
    path.write_text('{"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0}')
    return path


@pytest.fixture
def simulation() -> Simulation:
    times = Costs(forward_ns=10_000, input_ns=11_000, weight_ns=8_000, overlapped_ns=24_000, latency_ns=500)
    return simulate(generate("dualpipe", num_ranks=4, num_micro_batches=8), times)


@pytest.fixture
def measured(tmp_path: Path, simulation: Simulation) -> Path:
    """A run that took a tenth longer, after each action."""
    num = len(simulation.schedule)
    start, end = (times[:num] * 11 // 10 for times in (simulation.times.start_ns, simulation.times.end_ns))
    rank = simulation.schedule.actions["rank"].to_numpy()
    free = np.where(np.diff(rank, prepend=-1) != 0, 0, np.roll(end, 1))
    return write_ranks(tmp_path / "measured", simulation.schedule, [(start, end)], [(free, start)])


def checked(path: Path) -> dict[str, Any]:
    document = read_document(path)
    jsonschema.validate(document, SCHEMA_OF[document["schema"]].json_schema())
    return document


def test_numbers_and_names_of_any_length_make_short_errors(run: Run, costs: Path, tmp_path: Path) -> None:
    long, shape = 300 * "9", ("--stages", 4, "--micro-batches", 8)
    written = tmp_path / "long.json"
    written.write_text(f'{{"F_ms": {long}, "I_ms": 1, "W_ms": 1}}')
    step = ("step", "--costs", costs, *shape, "--ranks", 8)
    cases = [
        (("recommend", "--costs", costs, *ON_FOUR, "--latency-us", "inf"), "inf is no number below 1e+20"),
        ((*step, "--optimizer-ms", "1e300"), "1e+300 is no number below 1e+20"),
        ((*step, "--latency-us", "9" * 19), "holds 1.00e+22; it must be a whole number of nanoseconds"),
        (("compare", *shape, "--costs", written), "F_ms holds 1.00e+300; it must be a number from 0 to 1e200"),
        (("compare", *shape, "--schedule", 400 * "x"), "there is no schedule 'xxx"),
    ]
    for command, said in cases:
        code, out, err = run("pipeline", *command)
        told = " ".join((out + err).replace("│", " ").split())
        assert code and said in told and len(told) < 600, (command, told)


def test_recommend_from_a_trace_prints_and_writes_the_choice(run: Run, tmp_path: Path) -> None:
    trace_of(tmp_path, PAIR).write(tmp_path / "train.json")
    output, table, page = (tmp_path / f"choice.{ending}" for ending in ("json.gz", "csv", "html"))
    written = ("-o", output, "-o", table, "-o", page)
    given = (*ON_FOUR, "--layers", 8, "--search-seconds", 0)
    code, out, err = run("pipeline", "recommend", "--trace", tmp_path / "train.json", *given, *written)
    assert code == 0, err
    summary = " ".join(out.split())
    assert summary.split(" · ")[0] == "weftrace pipeline recommend"
    assert "With a barrier at the step's end, interleaved F&B takes" in summary
    assert "F 35.0 µs, I 60.0 µs, W 10.0 µs (serial upper bounds), F&B 70.0 µs = 0.67 (F + B)" in summary
    assert "\x1b[" not in out
    document = checked(output)
    assert document["choice"] == "interleaved-fb" and document["costs"]["basis"] == "phases"
    assert pl.read_csv(table)["name"][0] == "dualpipe+w"
    html = page.read_text()
    assert html.lower().startswith("<!doctype html>")
    assert "DualPipe with placed W would take" in str(page_blocks(html))
    with pytest.raises(weftrace.errors.OutputError, match="holds no schedules to draw"):
        weftrace.save(weftrace.load(output), tmp_path / "again.html")


def test_recommend_takes_flops_and_a_cap_in_bytes(run: Run, tmp_path: Path, costs: Path) -> None:
    flops = saved_flops(tmp_path, [2] * 4)
    code, out, err = run(
        "pipeline", "recommend", "--flops", flops, "--hardware", "H800", *ON_FOUR, "--json", "--no-flips"
    )
    assert code == 0, err
    document = json.loads(out)
    assert (
        document["costs"]["basis"] == "flops" and document["costs"]["overlapped_ns"] is None and not document["flips"]
    )
    sized = json.loads(costs.read_text()) | {"activation_gib": 1, "weight_gib": 2}
    costs.write_text(json.dumps(sized))
    code, out, _ = run(
        "pipeline", "recommend", "--costs", costs, *ON_FOUR, "--memory-cap", "8GiB", "--no-flips", "--json"
    )
    assert code == 0 and json.loads(out)["cap_bytes"] == 8 << 30


@pytest.mark.parametrize(
    ("given", "summary"),
    [
        ((), "give one of the three; none is given"),
        (("--costs", "costs.json", "--trace", "x.json"), "--trace and --costs are given"),
        (("--flops", "model.json"), "name it"),
        (("--costs", "costs.json", "--memory-cap", "much"), "'much' is no cap"),
        (("--costs", "costs.json", "--schedule", "dualpip"), "no schedule 'dualpip'"),
        (("--costs", "costs.json", "--memory-cap", "1GB"), "activation_bytes"),
        (("--costs", "costs.json", "-o", "choice.xml"), "choice.xml"),
        (("--costs", "zero.json"), "F, I and W take no time"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, costs: Path, given: tuple[str, ...], summary: str) -> None:
    (costs.parent / "zero.json").write_text(json.dumps(dict.fromkeys(("F_ms", "I_ms", "W_ms"), 0)))
    named = [str(costs.parent / each) if each in ("costs.json", "zero.json") else each for each in given]
    code, _, err = run("pipeline", "recommend", *ON_FOUR, *named)
    assert code == 2 and summary in " ".join(err.replace("│", " ").split())


def test_traces_that_tell_no_costs_end_with_3_and_the_reason(run: Run, tmp_path: Path) -> None:
    trace_of(tmp_path, PAIR[:1]).write(tmp_path / "forward.json")
    code, _, err = run("pipeline", "recommend", "--trace", tmp_path / "forward.json", *ON_FOUR)
    assert code == 3 and "no phase of an input gradient or a weight gradient" in " ".join(err.split())
    code, _, err = run("pipeline", "recommend", "--trace", tmp_path / "none.json", *ON_FOUR)
    assert code == 3 and "none.json" in err


def test_recommend_reads_the_costs_of_a_measured_run(run: Run, measured: Path) -> None:
    code, out, err = run("pipeline", "recommend", "--trace", measured, *ON_FOUR, "--no-flips", "--json")
    assert code == 0, err
    summary = json.loads(out)["costs"]
    assert (summary["forward_ns"], summary["weight_ns"], summary["basis"]) == (11_000, 8_800, "actions")


def test_step_beside_the_published_one(run: Run, tmp_path: Path, costs: Path) -> None:
    output = tmp_path / "step.json"
    shape = ("--stages", "16", "--micro-batches", "120", "--ranks", "2048", "--optimizer-ms", "290")
    code, out, err = run("pipeline", "step", "--costs", costs, *shape, "-o", output)
    assert code == 0, err
    summary = " ".join(out.split())
    for part in ("A step of DualPipe on 2,048 ranks takes 19.0 s", "97–103", "97–103 13.9 s −7.2 %", "272.80 B",
                 "38.94 % 38.94 %", "Of the published bubble of 2.06 s"):  # fmt: skip
        assert part in summary, part
    assert checked(output)["published"] == "DeepSeek-V3 on 2,048 H800"


def test_slip_tells_planned_and_measured(run: Run, tmp_path: Path, simulation: Simulation, measured: Path) -> None:
    plan, output, table, page = (tmp_path / name for name in ("plan.json", "slip.json", "slip.csv", "slip.html"))
    write_document(pipeline_document(simulation), plan)
    code, out, err = run("pipeline", "slip", plan, measured, "--workers", "1", "-o", output, "-o", table, "-o", page)
    assert code == 0, err
    assert "10.0 % longer than planned" in " ".join(out.split())
    document = checked(output)
    assert "DualPipe: planned and measured" in page.read_text()
    with pytest.raises(weftrace.errors.OutputError, match="holds no schedule to draw"):
        weftrace.save(weftrace.load(output), tmp_path / "again.html")
    causes = document["causes"]
    assert document["measured_ns"] - document["planned_ns"] == (
        causes["own_ns"] + causes["p2p_ns"] + causes["between_ns"] - causes["slack_ns"]
    )
    assert len(pl.read_csv(table)) == len(simulation.schedule) == len(document["actions"]["rank"])


def test_slip_of_a_plan_without_costs_predicts_from_the_run(
    run: Run, tmp_path: Path, simulation: Simulation, measured: Path
) -> None:
    plan = tmp_path / "plan.txt"
    plan.write_text(to_text(simulation.schedule))
    code, out, err = run("pipeline", "slip", plan, measured, "--workers", "1")
    assert code == 0, err
    assert "from the medians of its own actions" in " ".join(out.split())
    other = generate("dualpipe", num_ranks=4, num_micro_batches=10)
    plan.write_text(to_text(other))
    code, _, err = run("pipeline", "slip", plan, measured, "--workers", "1")
    assert code == 3 and "Is it the plan that was run?" in " ".join(err.split())


def test_what_was_saved_prints_the_same_and_fits_80_columns(
    run: Run, tmp_path: Path, costs: Path, simulation: Simulation, measured: Path
) -> None:
    write_document(pipeline_document(simulation), plan := tmp_path / "plan.json")
    shape = ("--stages", "16", "--micro-batches", "120", "--ranks", "2048")
    for command in (
        ("recommend", "--costs", costs, *ON_FOUR, "--no-flips"), ("step", "--costs", costs, *shape),
        ("slip", plan, measured, "--workers", "1"),
    ):  # fmt: skip
        output = tmp_path / f"{command[0]}.json"
        code, out, err = run("pipeline", *command, "-o", output)
        assert code == 0, err
        assert printed(output, width=100) == out
        assert max(map(len, printed(output, width=80).splitlines())) <= 80


def printed(path: Path, width: int) -> str:
    text = io.StringIO()
    weftrace.show(weftrace.load(path), Console(width=width, file=text))
    return text.getvalue()


def test_values_are_shown_and_saved_as_their_reports(tmp_path: Path, simulation: Simulation, measured: Path) -> None:
    found = recommend(simulation.costs, num_devices=4, num_micro_batches=8, with_flips=False)
    summary = slip(simulation.schedule, run_of(weftrace.open(measured), workers=1), simulation.costs)
    for value, name, title in ((found, "choice", "recommend"), (summary, "slip", "slip")):
        weftrace.save(value, tmp_path / f"{name}.json")
        checked(tmp_path / f"{name}.json")
        weftrace.show(value, Console(width=80, file=(text := io.StringIO())))
        assert f"weftrace pipeline {title}" in text.getvalue()


def test_help_tells_what_stands_in_for_what_is_not_given(run: Run) -> None:
    """Not in square brackets within the text, which the help's markup would swallow."""
    for command, summary in (("step", "[default: those of one sequence]"), ("slip", "[default: the last]")):
        code, out, _ = run("pipeline", command, "--help")
        assert code == 0 and summary in " ".join(out.replace("│", " ").split())


def test_stages_that_differ_are_told_as_their_mean(run: Run, tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text('{"F_ms": [1, 2, 3, 4], "I_ms": 1, "W_ms": 1}')
    code, out, err = run("pipeline", "recommend", "--costs", costs, *ON_FOUR, "--no-flips")
    summary = " ".join(out.split())
    assert code == 0 and "F 2.50 ms" in summary, err
    assert "the means of 4 stages; each stage is simulated with its own costs" in summary


def test_pairs_that_did_not_run_are_taken_to_overlap_as_those_that_did(run: Run, measured: Path) -> None:
    """Each that ran took 1.1 x 24 of 1.1 x 29 µs: 0.83, which is neither diluted nor kept from other schedules."""
    code, out, err = run("pipeline", "recommend", "--trace", measured, *ON_FOUR, "--no-flips", "--json")
    assert code == 0, err
    document = json.loads(out)
    costs, steps = document["costs"], {row["name"]: row["step_ns"] for row in document["rows"]}
    assert costs["overlapped_ns"] == pytest.approx(26_400, abs=2)
    assert steps["interleaved-fb"] < steps["interleaved"]
