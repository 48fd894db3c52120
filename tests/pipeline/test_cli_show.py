"""`weftrace pipeline show` as a person meets it: what it prints and writes, and what it says of mistakes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from rich.console import Console

import weftrace as wt
from tests.cli.test_cli import run as command
from weftrace.cli.main import program
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.simulation import Simulation, simulate

__all__ = ["command"]  # the fixture


class Ended(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


Run = Callable[..., Ended]


@pytest.fixture
def run(command: Callable[..., tuple[int, str, str]]) -> Run:
    """Run `weftrace ARGS`, which must end with `code`."""

    def ended(*arguments: object, code: int = 0) -> Ended:
        found, out, err = command(*arguments)
        assert found == code, err
        return Ended(out, err)

    return ended


DUAL = ("pipeline", "show", "dualpipe", "--stages", "8", "--micro-batches", "20")


def test_show_prints_a_headline_with_the_boundary_named_and_the_picture(run: Run) -> None:
    printed = run(*DUAL).stdout
    assert "DualPipe takes 66 units of time; bubble 6 (9.1 %; boundary: barrier, all ranks" in printed
    assert "FFFFFFFfiwfiwfiwfF&b" in printed and "holds at most 9 chunks' activations" in " ".join(printed.split())
    spans = run("pipeline", "show", "zb2p", "--stages", "4", "--micro-batches", "8", "--boundary", "span").stdout
    assert "bubble 0 (0.0 %; boundary: span" in spans


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_shown(run: Run, name: str) -> None:
    assert "idle%" in run("pipeline", "show", name, "--devices", "4", "--micro-batches", "16").stdout


def test_show_writes_what_the_endings_say_and_shows_it_again(run: Run, tmp_path: Path) -> None:
    names = [str(tmp_path / f"plan{suffix}") for suffix in (".svg", ".html", ".txt", ".json", ".json.gz")]
    first = run(*DUAL, *(part for name in names for part in ("-o", name)))
    assert first.stderr.count("wrote ") == len(names)
    assert Path(names[0]).read_text().startswith("<svg ") and "weftrace-schedules" in Path(names[1]).read_text()
    for name in names[2:]:
        assert run("pipeline", "show", name).stdout == first.stdout
    assert wt.load(names[4]).schedule == generate("dualpipe", num_stages=8, num_micro_batches=20)


def test_torch_s_csv_is_written_where_it_can_say_the_schedule_and_shown(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.csv")
    refused = run(*DUAL, "-o", path, code=2)
    assert "DualPipeV says the same with one" in refused.stderr and not Path(path).exists()
    run("pipeline", "show", "dualpipev", "--devices", "4", "--micro-batches", "12", "-q", "-o", path)
    assert "OVERLAP_F_B" in Path(path).read_text()
    assert "Plan takes 78 units of time; bubble 6" in run("pipeline", "show", path).stdout


def test_costs_of_a_file_are_used_and_kept(run: Run, tmp_path: Path) -> None:
    costs, plan = tmp_path / "costs.json", tmp_path / "plan.json.gz"
    costs.write_text(json.dumps({"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0}))
    printed = run(*DUAL, "--costs", str(costs), "-o", str(plan)).stdout
    assert "DualPipe takes 4.143 s; bubble 574.8 ms (13.9 %" in printed
    assert run("pipeline", "show", str(plan)).stdout == printed
    summary = json.loads(run("pipeline", "show", str(plan), "--json").stdout)
    assert summary["schema"] == "weftrace.pipeline/1" and "traceEvents" not in summary
    assert summary["costs"]["overlapped_ns"] == 129_000_000


def test_options_of_families(run: Run) -> None:
    shown = ("pipeline", "show", "interleaved", "--devices", "2", "--micro-batches", "4")
    assert "lower case: chunk 1, chunk 2" in run(*shown, "--stages-per-rank", "3").stdout
    refused = run(*DUAL, "--slices", "2", code=2)
    assert "has no option 'num_slices'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("dualpip", "--stages", "8", "--micro-batches", "20"), "Is 'dualpipe' meant?", 2),
        (("dualpipe", "--stages", "7", "--micro-batches", "20"), "7 stages", 2),
        (("dualpipe", "--micro-batches", "20"), "how large the pipeline is", 2),
        (("dualpipe", "--stages", "8"), "how many a step has", 2),
        (("nowhere.json.gz",), "nowhere.json.gz: cannot be read", 3),
        (("nowhere.csv",), "nowhere.csv: cannot be read", 3),
        (("nowhere.txt", "--stages", "8"), "holds a schedule with its own numbers", 2),
        (("1f1b", "--stages", "2", "--micro-batches", "2", "-o", "a.png"), "a.png: its ending does not say", 2),
    ],
)
def test_mistakes_are_told_with_what_helps(run: Run, arguments: tuple[str, ...], said: str, code: int) -> None:
    result = run("pipeline", "show", *arguments, code=code)
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_file_that_holds_no_schedule_is_an_unusable_input(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for text, said in (
        ("", "x.txt holds no line such as"),
        ("rank 0: 0F0 ?", "x.txt, line 1: '?' is no action"),
        ("micro-batches: 1\nrank 0: 0F1", "x.txt: schedule 'schedule': 0F1 on rank 0 is of micro-batch 1"),
    ):
        path.write_text(text)
        assert said in run("pipeline", "show", str(path), code=3).stderr


def test_the_help_says_what_is_taken_by_default() -> None:
    options = {
        "--slices": FAMILIES["seq1f1b"].options["num_slices"],
        "--stages-per-rank": FAMILIES["interleaved"].options["stages_per_rank"],
    }
    shown = typer.main.get_command(program()).commands["pipeline"].commands["show"]  # type: ignore[attr-defined]
    summary = {name: option.show_default for option in shown.params for name in option.opts if name in options}
    assert summary == {name: str(value) for name, value in options.items()}


def test_an_input_is_never_overwritten(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.txt"
    run(*DUAL, "-q", "-o", str(path))
    before = path.read_text()
    assert "is an input, which is never overwritten" in " ".join(
        run("pipeline", "show", str(path), "-o", str(path), code=2).stderr.replace("│", " ").split()
    )
    assert path.read_text() == before


def test_the_terminal_page_s_picture_is_what_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "terminal.md").read_text(encoding="utf-8")
    (example,) = (block for block in page.split("```")[1::2] if "1F1B takes" in block)
    printed = printed_at_80(simulate(generate("1f1b", num_stages=4, num_micro_batches=8), Costs.units(FB=3)))
    assert [line.rstrip() for line in printed.splitlines()[2:]] == example.strip().splitlines()[1:]


def printed_at_80(simulation: Simulation) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    wt.show(simulation, console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]
