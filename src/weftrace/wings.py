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
    where it is not one with the folder's name.
    """

    name: str
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_shown: bool = True
    commands: tuple[str, ...] = ()

    def has_command(self, name: str) -> bool:
        return name in (self.commands or (self.name,))


# In the order of the commands in `weftrace --help`.
WINGS = (
    Wing("report", (("build", ("Report", "analyze")),), commands=("report", "lanes", "annotate", "convert", "demo")),
    Wing("experts", (("placement", ("Placement",)), ("", ("balance", "replan", "replay")))),
    Wing("flops", (("values", ("FlopsReport",)), ("", ("count", "profile")))),
    Wing("pipeline"),
    Wing("moe", commands=("profile",)),
    Wing("advice", commands=("advise", "critical-path", "whatif", "stragglers", "skill")),
    Wing("comparison", (("diffs", ("Diff", "diff")),), commands=("diff",)),
    Wing("memory"),
    Wing("questions", (("asking", ("query",)),), commands=("query",)),
    Wing("capture", is_shown=False),
)


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
        import_module(f"weftrace.{wing.name}.cli.app").add_to(app)
