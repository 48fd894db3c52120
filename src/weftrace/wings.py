"""The wings: one capability, one folder, one line here. Deleting the folder and its line leaves a working house."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from weftrace.outputs import Output


@dataclass(frozen=True, slots=True)
class Wing:
    """name: the folder. names: what it gives to `weftrace` itself, by module; the rest is at `weftrace.<name>`.
    is_shown: False of one that only programs use: it has neither outputs nor commands. commands: what they are called,
    where it is not one with the folder's name. heading: above them in `weftrace --help`.
    """

    name: str
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_shown: bool = True
    commands: tuple[str, ...] = ()
    heading: str = ""

    def has_command(self, name: str) -> bool:
        return name in (self.commands or (self.name,))


_RUN, _FASTER, _PLAN = "Where a step went", "What would make it faster", "What a model costs, and how to run it"

# In the order of the commands in `weftrace --help`.
WINGS = (
    Wing("report", (("build", ("Report", "analyze")),), commands=("report", "lanes", "annotate", "convert", "demo"),
         heading=_RUN),
    Wing("experts", (("placement", ("Placement",)), ("", ("balance", "replan", "replay"))), heading=_PLAN),
    Wing("flops", (("values", ("FlopsReport",)), ("", ("count", "profile"))), heading=_PLAN),
    Wing("pipeline", heading=_PLAN),
    Wing("moe", commands=("profile",), heading=_PLAN),
    Wing("advice", commands=("advise", "critical-path", "whatif", "stragglers", "skill"), heading=_FASTER),
    Wing("comparison", (("diffs", ("Diff", "diff")),), commands=("diff",), heading=_RUN),
    Wing("memory", heading=_RUN),
    Wing("samples", commands=("sample",), heading=_RUN),
    Wing("questions", (("asking", ("query",)),), commands=("query",), heading=_RUN),
    Wing("capture", is_shown=False),
)  # fmt: skip


SHOWN = tuple(wing for wing in WINGS if wing.is_shown)


def public_names() -> dict[str, tuple[str, ...]]:
    """Module -> names that wings give to `weftrace` itself."""
    return {
        ".".join(("weftrace", wing.name, *filter(None, [module]))): names
        for wing in WINGS
        for module, names in wing.names
    }


def outputs() -> Iterator[Output]:
    """What wings can do with values: the list `OUTPUTS` of each wing's `outputs.py`."""
    for wing in SHOWN:
        yield from import_module(f"weftrace.{wing.name}.outputs").OUTPUTS


def add_commands(app: typer.Typer, name: str = "") -> None:
    """Add the commands of the wing that has this one; of all wings where none has. By the function `add_to` of a wing's
    `cli/app.py`."""
    for wing in [wing for wing in SHOWN if wing.has_command(name)] or SHOWN:
        before = len(app.registered_commands), len(app.registered_groups)
        import_module(f"weftrace.{wing.name}.cli.app").add_to(app)
        for command in app.registered_commands[before[0] :]:
            command.rich_help_panel = wing.heading
        for group in app.registered_groups[before[1] :]:
            group.rich_help_panel = wing.heading
