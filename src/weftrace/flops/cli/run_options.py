"""What `weftrace flops MODEL` runs beside a `RunSpec`, and which options exclude each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from weftrace.flops.run_spec import RUN, TIME
from weftrace.options import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """What is asked for beside a model's run: a script instead of it, many runs, where the user's code raised."""

    arguments: Annotated[
        tuple[str, ...],
        Option("With --config: the script's own.", is_argument=True, metavar="[ARGS]...", shows_default=False),
    ] = ()
    sweeps: Annotated[
        tuple[str, ...],
        Option(
            "Count at each of batch=1,8,64, seq=… or context=…; repeatable: every combination.", ("--sweep",),
            metavar="AXIS", panel=TIME,
        ),
    ] = ()  # fmt: skip
    config: Annotated[
        Path | None,
        Option(
            'Before a SCRIPT: profile as the "flops_profiler" block of this DeepSpeed JSON says.', metavar="JSON",
            panel=RUN,
        ),
    ] = None  # fmt: skip
    model_class: Annotated[
        str | None,
        Option(
            "With --config: class of the script's model, where weftrace's guess is wrong.", ("--model",),
            metavar="NAME", panel=RUN,
        ),
    ] = None  # fmt: skip
    with_traceback: Annotated[bool, Option("Where your own code raised.", ("--traceback",), panel="What to show")] = (
        False
    )


def refuse_beside_a_script(ctx: typer.Context) -> None:
    """Raises `typer.BadParameter` for options of a model's run: with --config the script itself decides."""
    own = {
        str(option.name)
        for option in ctx.command.params
        if getattr(option, "rich_help_panel", None) in (RUN, TIME) and option.name not in ("config", "model_class")
    }
    if said := _said(ctx, own):
        raise typer.BadParameter("the script itself decides that", param_hint=", ".join(said))


def refuse_beside_own_model(ctx: typer.Context) -> None:
    """Raises `typer.BadParameter` for implementations: a user's own model has its own."""
    if said := _said(ctx, {"attention", "experts"}):
        raise typer.BadParameter(
            "is for models by name (weftrace flops models) and Hugging Face configs; your own model decides itself",
            param_hint=", ".join(said),
        )


def parse_sweeps(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Axis -> its values, in the order given. Raises `FlopsError`, or `typer.BadParameter` for what cannot be run."""
    from weftrace.flops.several.sweep import parse_axis

    axes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, values = parse_axis(text)
        if name in axes:
            raise typer.BadParameter(f"{name} is given twice; write {name}=1,2,4 once", param_hint="--sweep")
        if name != "context" and 0 in values:
            raise typer.BadParameter(f"{text}: a {name} is at least 1", param_hint="--sweep")
        axes[name] = values
    return axes


def _said(ctx: typer.Context, names: Collection[str]) -> list[str]:
    """Those of the options that the command line gave."""
    return [
        option.opts[0]
        for option in ctx.command.params
        if option.name in names
        and (source := ctx.get_parameter_source(str(option.name))) is not None
        and source.name == "COMMANDLINE"  # by name: Typer brings a Click of its own in some versions
    ]
