"""`weftrace skill`: a skill file, from which coding agents learn when to call weftrace and how to read its answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option

SKILL = Path(__file__).parents[1] / "skill.md"

EPILOG = """[bold]Examples[/bold]

weftrace skill                                          prints it

weftrace skill -o .claude/skills/weftrace/SKILL.md      where an agent looks for it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where the file goes."""

    output: Annotated[
        tuple[str, ...],
        Option("File to write, repeatable, ending in .md.", ("-o", "--output"), metavar="FILE", panel=outputs.PANEL,
               shows_default=False),
    ] = ()  # fmt: skip


def run(request: Request) -> None:
    """Write a skill file for coding agents: which command when, how to read answers, what not to conclude."""
    wanted = outputs.wanted(request.output, writes=(".md",), inputs=(SKILL,))
    for path in wanted.paths:
        Path(path).write_bytes(SKILL.read_bytes())
        outputs.tell_written(path)
    if not wanted.paths:
        typer.echo(SKILL.read_text("utf-8"), nl=False)


command = command_of((Request,), run)
