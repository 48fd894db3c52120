"""`weftrace flops MODEL`: count, time, predict a model; `weftrace flops --config JSON SCRIPT`: a step of a script."""

from __future__ import annotations

import sys
import traceback
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import outputs
from weftrace.errors import FlopsError
from weftrace.flops.cli import options as flops_options
from weftrace.flops.cli import run_options as flops_run_options
from weftrace.flops.cli import script as flops_script
from weftrace.flops.cli.output import Wanted, deliver, wanted

if TYPE_CHECKING:
    from weftrace.flops.run_spec import RunSpec

EPILOG = """[bold]Examples[/bold]

weftrace flops bert-large --input 80x128 --device meta                          no weights, no waiting

weftrace flops my_module:build --input 1x3x224x224 --backward -o page.html  your model, counted

weftrace flops ./net.py:Net --input 8x512 --backward --optimizer adamw --steps 10   … and timed

weftrace flops path/to/config.json --input 1x8192                               a Hugging Face model, nothing downloaded

weftrace flops deepseek-v3 --phase decode --batch 128 --context 4096 --hardware h800

weftrace flops llama-3-8b --phase decode --context 4096 --sweep batch=1,8,64 --hardware h100

weftrace flops --config ds_config.json train.py --lr 3e-4                       a step of any training script"""


def command(
    ctx: typer.Context,
    model: flops_run_options.Model = None,
    arguments: flops_run_options.Arguments = None,
    inputs: flops_run_options.Inputs = None,
    batch: flops_run_options.Batch = None,
    seq: flops_run_options.Seq = None,
    context: flops_run_options.Context = 0,
    phase: flops_run_options.PhaseName = None,
    masked_positions: flops_run_options.MaskedPositions = None,
    backward: flops_run_options.Backward = False,
    optimizer: flops_run_options.Optimizer = "none",
    device: flops_run_options.Device = None,
    dtype: flops_run_options.Dtype = None,
    attention: flops_run_options.Attention = "sdpa",
    experts: flops_run_options.Experts = "grouped_mm",
    parallel: flops_run_options.ParallelAxes = None,
    steps: flops_run_options.Steps = 0,
    warm_up: flops_run_options.WarmUp = 2,
    sweeps: flops_run_options.Sweeps = None,
    each_call: flops_run_options.EachCall = False,
    config: flops_run_options.Config = None,
    model_class: flops_run_options.ModelClass = None,
    hardware: flops_options.HardwareName = None,
    depth: flops_options.Depth = None,
    top: flops_options.Top = 5,
    text_layout: flops_options.TextLayout = None,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
    with_traceback: Annotated[
        bool,
        typer.Option("--traceback", help="Where your own code raised.", rich_help_panel="What to show"),
    ] = False,
) -> None:
    """What a model costs: parameters, FLOPs, bytes and time of every module, forward and backward."""
    from weftrace.flops.outputs import TRACE_SUFFIXES
    from weftrace.flops.run_spec import RunSpec, model_kind, parse_dtype, parse_input, parse_parallel

    if model is None:
        raise typer.BadParameter(
            "name a script" if config else "name a model; weftrace flops models lists some", param_hint="MODEL"
        )
    asked = wanted(
        output,
        inputs=[model, model.partition(":")[0], str(Path(model, "config.json")), *([str(config)] if config else [])],
        json=json,
        quiet=quiet,
        depth=depth,
        top=top,
        text_layout=text_layout,
        hardware=hardware,
        is_sweep=bool(sweeps),
    )
    if config is not None:
        flops_run_options.refuse_beside_a_script(ctx)
        flops_script.run(config, Path(model), list(arguments or ()), model_class, asked)
        return
    if model_class is not None:
        raise typer.BadParameter("is for a script, with --config", param_hint="--model")
    if arguments:
        raise typer.BadParameter(f"one model at a time; {arguments[0]!r} is too much", param_hint="MODEL")
    kind = model_kind(model)  # the first thing to be told about, even without torch
    if kind == "user":
        flops_run_options.refuse_beside_own_model(ctx)
    elif kind == "config" and not Path(model).exists():
        raise FlopsError(f"{model}: no such file; give a config.json or a folder that holds one")
    spec = RunSpec(
        model=model,
        inputs=tuple(parse_input(text) for text in inputs or ()),
        batch=batch,
        seq=seq,
        context=context,
        phase=phase,
        backward=backward,
        optimizer=optimizer,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        attention=attention,
        experts=experts,
        masked_positions=masked_positions,
        steps=steps,
        warm_up=warm_up,
        each_call=each_call,
        hardware="" if asked.hardware is None else asked.hardware.name,
        **({} if parallel is None else {"parallel": parse_parallel(parallel)}),
    )
    spec.check()
    if asked.to.has(*TRACE_SUFFIXES) and not steps:
        raise typer.BadParameter("a trace draws timed steps: say --steps 10", param_hint="--output")
    try:
        if sweeps:
            _sweep(spec, sweeps, asked)
        else:
            _count(spec, asked)
    except FlopsError as error:
        if with_traceback and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise


def _count(spec: RunSpec, asked: Wanted) -> None:
    run_model = flops_options.needs_torch()
    aside = redirect_stdout(sys.stderr) if asked.to.json else nullcontext()  # what the model itself prints
    with aside, flops_options.steps_bar("running") as on_step:
        report = run_model(spec, on_step=on_step)
    deliver(report, asked)


def _sweep(spec: RunSpec, texts: list[str], asked: Wanted) -> None:
    from weftrace.flops.outputs import SWEEP
    from weftrace.flops.several.sweep import sweep

    axes = flops_run_options.parse_sweeps(texts)
    run_model = flops_options.needs_torch()
    aside = redirect_stdout(sys.stderr) if asked.to.json else nullcontext()
    with aside, flops_options.steps_bar("sweeping") as on_point:
        result = sweep(spec, axes, run_model, hardware=asked.hardware, on_point=on_point)
    outputs.deliver(result, SWEEP, asked.to)
