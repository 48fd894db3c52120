"""Help that fits a terminal of 80 columns, and the ways in that need no command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.test_cli import Run, run, small
from weftrace.cli.apps import RENAMED
from weftrace.cli.help_pages import help_lines
from weftrace.cli.main import program, with_report

__all__ = ["run"]  # a fixture

MOST_OPTIONS = 12


def every(command: Any, name: str = "weftrace", parent: Any = None) -> Iterator[tuple[Any, Any]]:
    """Each command below this one, and its context."""
    context = command.context_class(command, info_name=name, parent=parent)
    yield command, context
    for below, found in getattr(command, "commands", {}).items():
        yield from every(found, below, context)


COMMANDS = list(every(typer.main.get_command(program())))


def lines_of(command: Any, context: Any) -> list[str]:
    return [line.plain for line in help_lines(command, context, 80)]


def test_every_help_fits_80_columns_and_names_values_by_what_they_are() -> None:
    assert len(COMMANDS) > 30
    for command, context in COMMANDS:
        lines = lines_of(command, context)
        where = context.command_path
        assert [line for line in lines if len(line) > 80] == [], where
        assert not re.search(r"<(bool|str|int|float|list|path)|\[x?[<>]=|\d<=x", "\n".join(lines)), where
        for param in command.get_params(context):
            is_flag = getattr(param, "is_flag", False)
            assert param.metavar or is_flag, f"{where}: what is the value of {param.opts} called?"
            if getattr(param, "multiple", False):
                term = next(line for line in lines if param.opts[-1] in line)
                assert "repeatable" in " ".join(lines[lines.index(term) :]).lower(), f"{where} {term}"


def test_options_are_grouped_where_there_are_many_and_commands_have_examples() -> None:
    for command, context in COMMANDS:
        lines = lines_of(command, context)
        heads = [at for at, line in enumerate(lines) if re.fullmatch(r"\w[^#]*:", line)]
        for at, end in zip(heads, [*heads[1:], len(lines)], strict=True):
            options = [line for line in lines[at:end] if re.match(r"  -", line)]
            assert len(options) <= MOST_OPTIONS, (context.command_path, lines[at])
        if not hasattr(command, "commands"):
            assert "Examples:" in lines, context.command_path


def test_examples_can_be_pasted_from_the_help() -> None:
    """A long one is broken before an option, with what a shell takes for one line; its comment stands above it."""
    (lines,) = [lines_of(*found) for found in COMMANDS if found[1].command_path == "weftrace whatif"]
    text = "\n".join(lines)
    assert "  # several at once\n  weftrace whatif train.json.gz --scale gemm=0.8 --no-host-gaps\n" in text
    assert "  weftrace whatif train.json.gz --scale 'phase:attn(F)=0.5' \\\n      --scale kernel:notify=0\n" in text


def test_a_file_needs_no_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = small().write(tmp_path / "train.json")
    expected = run("report", train, "--json")
    assert expected[0] == 0
    assert run(train, "--json") == expected == run("--json", train)
    assert run(tmp_path / "*.json", "--step", 1)[0] == 0
    code, _, err = run("nowhere.json")
    assert code == 3 and "no such file" in err
    code, _, err = run("reprot")
    assert code == 2 and "Did you mean report" in err


def test_a_command_wins_over_a_file_of_its_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory").mkdir()
    small().write(tmp_path / "memory" / "rank0.json")
    code, _, err = run("memory")
    assert code == 2 and "weftrace ./memory" in err
    assert run("./memory", "--workers", 1)[0] == 0
    os.rename("memory", "some-run")
    assert run("some-run", "--workers", 1)[0] == 0
    assert with_report(["s3://bucket/trace.json"])[0] == "report"
    assert with_report(["flops", "config.json"]) == ["flops", "config.json"]
    assert with_report(["--version"]) == ["--version"]


def test_options_that_were_renamed_are_still_understood(run: Run, tmp_path: Path) -> None:
    train = small().write(tmp_path / "train.json")
    new = run("report", train, "--step", 1, "--step-events", "launch", "--json")
    assert new[0] == 0
    assert run("report", train, "--step", 1, "--step-by", "launch", "--json") == new
    assert run("report", train, "--step=1", "--step-by=launch", "--json") == new
    assert run("diff", train, train, "--steps-by", "none")[2] == run("diff", train, train, "--steps-named", "none")[2]
    text = "\n".join(line for found in COMMANDS for line in lines_of(*found))
    assert all(new in text and f"{old} " not in text for old, new in RENAMED.items())
