"""What `weftrace flops MODEL` shall run, and how: its argument and options."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from weftrace.cli.options import complete_from
from weftrace.flops.cli.options import complete_model

_RUN = "What to run"
_TIME = "How to run it"

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A built-in name (weftrace flops models), package.module:build, ./file.py:build, a Hugging Face "
        "config.json; with --config, a script.",
        show_default=False,
        autocompletion=complete_model,
    ),
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="With --config: the script's own.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="An input tensor: 80x128, 1x3x224x224:bf16, input_ids=1x128; repeatable.",
        metavar="SHAPE",
        rich_help_panel=_RUN,
    ),
]
Batch = Annotated[
    int | None, typer.Option("--batch", help="Sequences, samples or requests.", min=1, rich_help_panel=_RUN)
]
Seq = Annotated[
    int | None,
    typer.Option("--seq", help="New tokens of each; in decode 1, or a few.", min=1, rich_help_panel=_RUN),
]
Context = Annotated[
    int,
    typer.Option(
        "--context",
        help="Decode: positions attended to, the new ones among them. Prefill: those in the cache before.",
        min=0,
        rich_help_panel=_RUN,
    ),
]
PhaseName = Annotated[
    str | None,
    typer.Option(
        "--phase",
        help="train (forward and backward), prefill or decode; default: the forward.",
        metavar="NAME",
        autocompletion=complete_from("train", "prefill", "decode"),
        rich_help_panel=_RUN,
    ),
]
MaskedPositions = Annotated[
    int | None,
    typer.Option(
        "--masked-positions", help="BERT: predicted positions in the batch; all.", min=1, rich_help_panel=_RUN
    ),
]
Backward = Annotated[bool, typer.Option("--backward/--forward", help="Run the backward too.", rich_help_panel=_RUN)]
Optimizer = Annotated[
    str,
    typer.Option(
        "--optimizer",
        help="adamw, sgd or none, stepped after a backward.",
        autocompletion=complete_from("adamw", "sgd", "none"),
        rich_help_panel=_RUN,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="meta, cpu, cuda…; default: meta for models by name, else cuda where there is one.",
        metavar="NAME",
        autocompletion=complete_from("meta", "cpu", "cuda"),
        rich_help_panel=_TIME,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Of parameters and inputs: fp32, bf16, fp16; fp8 for the linear layers of built-in models.",
        metavar="NAME",
        autocompletion=complete_from("fp32", "bf16", "fp16", "fp8"),
        rich_help_panel=_TIME,
    ),
]
Attention = Annotated[
    str,
    typer.Option(
        "--attention",
        help="sdpa or eager, of models by name.",
        autocompletion=complete_from("sdpa", "eager"),
        rich_help_panel=_TIME,
    ),
]
Experts = Annotated[
    str,
    typer.Option(
        "--experts",
        help="grouped_mm, bmm or eager, of models by name.",
        autocompletion=complete_from("grouped_mm", "bmm", "eager"),
        rich_help_panel=_TIME,
    ),
]
ParallelAxes = Annotated[
    str | None,
    typer.Option(
        "--parallel",
        help="GPUs of the job, tp=4,dp=8,pp=2,cp=1,ep=8; ep leaves one rank's experts.",
        metavar="AXES",
        rich_help_panel=_TIME,
    ),
]
Steps = Annotated[
    int, typer.Option("--steps", help="Time so many steps after the counted one.", min=0, rich_help_panel=_TIME)
]
WarmUp = Annotated[int, typer.Option("--warm-up", help="Steps between those, not timed.", min=0, rich_help_panel=_TIME)]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        help="Count at each of batch=1,8,64, seq=… or context=…; repeatable: every combination.",
        metavar="AXIS",
        rich_help_panel=_TIME,
    ),
]
EachCall = Annotated[
    bool,
    typer.Option("--each-call", help="A row of its own for each call of a module.", rich_help_panel=_TIME),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help='Before a SCRIPT: profile as the "flops_profiler" block of this DeepSpeed JSON says.',
        metavar="JSON",
        rich_help_panel=_RUN,
    ),
]
ModelClass = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="With --config: class of the script's model, where weftrace's guess is wrong.",
        metavar="NAME",
        rich_help_panel=_RUN,
    ),
]


def refuse_beside_a_script(ctx: typer.Context) -> None:
    """Raises `typer.BadParameter` for options of a model's run: with --config the script itself decides."""
    own = {
        str(option.name)
        for option in ctx.command.params
        if getattr(option, "rich_help_panel", None) in (_RUN, _TIME) and option.name not in ("config", "model_class")
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


def parse_sweeps(texts: list[str]) -> dict[str, tuple[int, ...]]:
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
