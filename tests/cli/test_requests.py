"""A command is made of the request that it fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from msgspec import Meta
from typer.testing import CliRunner

from weftrace.cli.requests import command_of
from weftrace.files.schemas import Positive
from weftrace.options import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    kind: Annotated[Literal["train", "decode"], Option("Which profile.")]
    model: Annotated[str, Option(is_argument=True, metavar="MODEL", help="Which model.")]
    ep: Annotated[Positive | None, Meta(description="GPUs per group."), Option(metavar="N")] = None
    overlap: Annotated[tuple[str, ...], Option("Repeatable.")] = ()
    costs: Annotated[Literal["roofline", "published"], Option("What times rest on.")] = "published"
    inner: int = 3


def run(request: Request, quiet: Annotated[bool, typer.Option("-q", "--quiet")] = False) -> None:
    """Try it."""
    typer.echo(f"{request} {quiet}")


def result(*arguments: str, **how: object) -> str:
    app = typer.Typer(add_completion=False)
    app.command()(command_of(Request, run, fixed={"kind": "train"}, **how))  # type: ignore[arg-type]
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})
    return done.output


def test_a_command_fills_its_request() -> None:
    assert result("v3").strip() == f"{Request(kind='train', model='v3')} False"
    filled = Request(kind="train", model="v3", ep=4, overlap=("a", "b"), costs="roofline")
    assert (
        result("v3", "--ep", "4", "--overlap", "a", "--overlap", "b", "--costs", "roofline", "-q").strip()
        == f"{filled} True"
    )


def test_a_number_of_hundreds_of_digits_is_refused_and_not_repeated() -> None:
    said = result("v3", "--ep", "1" + 300 * "0")
    assert "Invalid value for --ep: 1.00e+300 is no number below 1e+20" in said


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    files: Annotated[list[str], typer.Argument(metavar="TRACE...")]
    workers: Annotated[int | None, typer.Option("--workers", min=1)] = None


def show(traces: Traces) -> None:
    typer.echo(f"{traces.files} {traces.workers}")


def test_a_field_may_be_an_option_that_commands_share() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command_of(Traces, show))
    assert CliRunner().invoke(app, ["a", "b", "--workers", "2"]).output.strip() == "['a', 'b'] 2"
    assert CliRunner().invoke(app, ["a", "--workers", "0"]).exit_code == 2


def test_help_bounds_and_choices_come_from_the_fields() -> None:
    text = result("--help")
    assert "GPUs per group." in text and "published" in text and "--inner" not in text and "Try it." in text
    assert "Invalid value for '--ep'" in result("v3", "--ep", "0")
    assert "Invalid value for '--costs'" in result("v3", "--costs", "guessed")
    assert "No such option" in result("v3", "--ep", "4", without={"ep"})


def test_a_command_may_take_fewer_values_and_asks_first_for_what_must_be_given() -> None:
    app = typer.Typer(add_completion=False)
    command = command_of(Request, run, fixed={"model": "v3"}, narrowed={"costs": Literal["roofline"]})
    app.command()(command)
    assert CliRunner().invoke(app, ["--kind", "train", "--costs", "published"]).exit_code == 2
