"""`weftrace flops MODEL`: count, time, predict a model; `weftrace flops --config JSON SCRIPT`: a step of a script."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from shlex import quote

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.errors import FlopsError
from weftrace.files.sources import open_bytes
from weftrace.flops.cli import options as flops_options
from weftrace.flops.cli import run_options as flops_run_options
from weftrace.flops.cli import script as flops_script
from weftrace.flops.cli.output import View, WantedReport, deliver, wanted
from weftrace.flops.cli.run_options import ScriptRequest
from weftrace.flops.run_spec import RunSpec, model_kind

EPILOG = """[bold]Examples[/bold]

weftrace flops bert-large --input 80x128 --device meta                          no weights, no waiting

weftrace flops my_module:build --input 1x3x224x224 --backward -o page.html  your model, counted

weftrace flops ./net.py:Net --input 8x512 --backward --optimizer adamw --steps 10   … and timed

weftrace flops path/to/config.json --input 1x8192                               a Hugging Face model, nothing downloaded

weftrace flops deepseek-v3 --phase decode --batch 128 --context 4096 --hardware h800

weftrace flops llama-3-8b --phase decode --context 4096 --sweep batch=1,8,64 --hardware h100

weftrace flops --config ds_config.json train.py --lr 3e-4                       a step of any training script"""


def run(spec: RunSpec, script: ScriptRequest, view: View, to: outputs.Destination, ctx: typer.Context) -> None:
    """What a model costs: parameters, FLOPs, bytes and time of every module, forward and backward."""
    from weftrace.flops.outputs import TRACE_SUFFIXES

    model, config = spec.model, script.config
    inputs = [model, model.partition(":")[0], str(Path(model, "config.json")), *([str(config)] if config else [])]
    asked = wanted(to, view, inputs=inputs, is_sweep=bool(script.sweeps))
    if config is not None:
        flops_run_options.refuse_beside_a_script(ctx)
        flops_script.run(config, Path(model), list(script.arguments), script.model_class, asked)
        return
    if script.model_class is not None:
        raise typer.BadParameter("is for a script, with --config", param_hint="--model")
    if script.arguments:
        raise typer.BadParameter(f"one model at a time; {script.arguments[0]!r} is too much", param_hint="MODEL")
    _refuse_a_trace(model)
    kind = model_kind(model)  # the first thing to say, even without torch
    if kind == "user":
        flops_run_options.refuse_beside_own_model(ctx)
    elif kind == "config" and not Path(model).exists():
        raise FlopsError(f"{model}: no such file; give a config.json or a folder that holds one")
    spec = replace(spec, hardware="" if asked.hardware is None else asked.hardware.name)
    spec.check()
    if asked.to.has(*TRACE_SUFFIXES) and not spec.steps:
        raise typer.BadParameter("a trace draws timed steps: say --steps 10", param_hint="--output")
    try:
        if script.sweeps:
            _sweep(spec, script.sweeps, asked)
        else:
            _count(spec, asked)
    except FlopsError as error:
        if script.with_traceback and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise


def _refuse_a_trace(model: str) -> None:
    if not Path(model).is_file() or not model.endswith((".json", ".json.gz", ".json.zst")):
        return
    if b'"traceEvents"' in next(open_bytes(model).chunks, b""):
        raise FlopsError(f"{model} is a trace, not a model's config.json: weftrace report {quote(model)}")


command = command_of((RunSpec, ScriptRequest, View, outputs.Destination), run)


def _count(spec: RunSpec, asked: WantedReport) -> None:
    run_model = flops_options.needs_torch(model_kind(spec.model))
    aside = redirect_stdout(sys.stderr) if asked.to.json else nullcontext()  # what the model itself prints
    with aside, outputs.progress_bar("running") as on_step:
        report = run_model(spec, on_step=on_step)
    deliver(report, asked)


def _sweep(spec: RunSpec, texts: Sequence[str], asked: WantedReport) -> None:
    from weftrace.flops.outputs import SWEEP
    from weftrace.flops.several.sweep import sweep

    axes = flops_run_options.parse_sweeps(texts)
    run_model = flops_options.needs_torch(model_kind(spec.model))
    aside = redirect_stdout(sys.stderr) if asked.to.json else nullcontext()
    with aside, outputs.progress_bar("sweeping") as on_point:
        result = sweep(spec, axes, run_model, hardware=asked.hardware, on_point=on_point)
    outputs.deliver(result, SWEEP, asked.to)
