"""`weft flops MODEL`: count, time, predict a model; `weft flops --config JSON SCRIPT`: profile a step of a script."""

from __future__ import annotations

import sys
import traceback
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import flops_options, flops_script, options
from weft.cli.flops_options import complete_from, complete_model
from weft.cli.flops_output import Wanted, deliver, write_text
from weft.errors import FlopsError

if TYPE_CHECKING:
    from weft.flops.run_spec import RunSpec
    from weft.hardware import Hardware

EPILOG = """[bold]Examples[/bold]

weft flops bert-large --input 80x128 --device meta                          no weights, no waiting

weft flops my_module:build --input 1x3x224x224 --backward --html page.html  your model, counted

weft flops ./net.py:Net --input 8x512 --backward --optimizer adamw --steps 10   … and timed

weft flops path/to/config.json --input 1x8192                               a Hugging Face model, nothing downloaded

weft flops deepseek-v3 --phase decode --batch 128 --context 4096 --hardware h800

weft flops llama-3-8b --phase decode --context 4096 --sweep batch=1,8,64 --hardware h100

weft flops --config ds_config.json train.py --lr 3e-4                       a step of a script that knows no weft"""

_RUN = "What to run"
_TIME = "How to run it"


def command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A built-in name (weft flops models), package.module:build, ./file.py:build, a Hugging Face "
            "config.json; with --config, a script.",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="With --config: the script's own.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="An input tensor: 80x128, 1x3x224x224:bf16, input_ids=1x128; repeatable.",
            metavar="SHAPE",
            rich_help_panel=_RUN,
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Sequences, samples or requests.", min=1, rich_help_panel=_RUN)
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option("--seq", help="New tokens of each; in decode 1, or a few.", min=1, rich_help_panel=_RUN),
    ] = None,
    context: Annotated[
        int,
        typer.Option(
            "--context",
            help="Decode: positions attended to, the new ones among them. Prefill: those in the cache before.",
            min=0,
            rich_help_panel=_RUN,
        ),
    ] = 0,
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase",
            help="train (forward and backward), prefill or decode; default: the forward.",
            metavar="NAME",
            autocompletion=complete_from("train", "prefill", "decode"),
            rich_help_panel=_RUN,
        ),
    ] = None,
    masked_positions: Annotated[
        int | None,
        typer.Option(
            "--masked-positions", help="BERT: predicted positions in the batch; all.", min=1, rich_help_panel=_RUN
        ),
    ] = None,
    backward: Annotated[
        bool, typer.Option("--backward/--forward", help="Run the backward too.", rich_help_panel=_RUN)
    ] = False,
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer",
            help="adamw, sgd or none, stepped after a backward.",
            autocompletion=complete_from("adamw", "sgd", "none"),
            rich_help_panel=_RUN,
        ),
    ] = "none",
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help="meta, cpu, cuda…; default: meta for models by name, else cuda where there is one.",
            metavar="NAME",
            autocompletion=complete_from("meta", "cpu", "cuda"),
            rich_help_panel=_TIME,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            help="Of parameters and inputs: fp32, bf16, fp16; fp8 for the linear layers of built-in models.",
            metavar="NAME",
            autocompletion=complete_from("fp32", "bf16", "fp16", "fp8"),
            rich_help_panel=_TIME,
        ),
    ] = None,
    attention: Annotated[
        str,
        typer.Option(
            "--attention",
            help="sdpa or eager, of models by name.",
            autocompletion=complete_from("sdpa", "eager"),
            rich_help_panel=_TIME,
        ),
    ] = "sdpa",
    experts: Annotated[
        str,
        typer.Option(
            "--experts",
            help="grouped_mm, bmm or eager, of models by name.",
            autocompletion=complete_from("grouped_mm", "bmm", "eager"),
            rich_help_panel=_TIME,
        ),
    ] = "grouped_mm",
    parallel: Annotated[
        str | None,
        typer.Option(
            "--parallel",
            help="GPUs of the job, tp=4,dp=8,pp=2,cp=1,ep=8; ep leaves one rank's experts.",
            metavar="AXES",
            rich_help_panel=_TIME,
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", help="Time so many steps after the counted one.", min=0, rich_help_panel=_TIME)
    ] = 0,
    warm_up: Annotated[
        int, typer.Option("--warm-up", help="Steps between those, not timed.", min=0, rich_help_panel=_TIME)
    ] = 2,
    sweeps: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            help="Count at each of batch=1,8,64, seq=… or context=…; repeatable: every combination.",
            metavar="AXIS",
            rich_help_panel=_TIME,
        ),
    ] = None,
    each_call: Annotated[
        bool,
        typer.Option("--each-call", help="A row of its own for each call of a module.", rich_help_panel=_TIME),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help='Before a SCRIPT: profile as the "flops_profiler" block of this DeepSpeed JSON says.',
            metavar="JSON",
            rich_help_panel=_RUN,
        ),
    ] = None,
    model_class: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="With --config: class of the script's model, where weft's guess is wrong.",
            metavar="NAME",
            rich_help_panel=_RUN,
        ),
    ] = None,
    hardware: flops_options.HardwareName = None,
    depth: flops_options.Depth = None,
    top: flops_options.Top = 5,
    text_layout: flops_options.TextLayout = None,
    html: flops_options.Html = None,
    json: flops_options.Json = None,
    csv: flops_options.Csv = None,
    markdown: flops_options.Markdown = None,
    trace: flops_options.TraceFile = None,
    quiet: flops_options.Quiet = False,
    with_traceback: Annotated[
        bool,
        typer.Option("--traceback", help="Where your own code raised.", rich_help_panel="What to show"),
    ] = False,
) -> None:
    """What a model costs: parameters, FLOPs, bytes and time of every module, forward and backward."""
    from weft.flops.run_spec import RunSpec, model_kind, parse_dtype, parse_input, parse_parallel

    wanted = Wanted(
        html=html, json=json, csv=csv, markdown=markdown, trace=trace, text_layout=text_layout, depth=depth, top=top,
        quiet=quiet,
    )  # fmt: skip
    wanted.check()
    chip = flops_options.find_hardware(hardware)
    if model is None:
        raise typer.BadParameter(
            "name a script" if config else "name a model; weft flops models lists some", param_hint="MODEL"
        )
    if config is not None:
        given = {
            "--input": inputs, "--batch": batch, "--seq": seq, "--context": context, "--phase": phase,
            "--masked-positions": masked_positions, "--backward": backward, "--device": device, "--dtype": dtype,
            "--parallel": parallel, "--steps": steps, "--sweep": sweeps, "--each-call": each_call,
        }  # fmt: skip
        if said := [name for name, value in given.items() if value]:
            raise typer.BadParameter("the script itself decides that", param_hint=", ".join(said))
        flops_script.run(config, Path(model), list(arguments or ()), model_class, wanted, chip)
        return
    if model_class is not None:
        raise typer.BadParameter("is for a script, with --config", param_hint="--model")
    if arguments:
        raise typer.BadParameter(f"one model at a time; {arguments[0]!r} is too much", param_hint="MODEL")
    model_kind(model)  # the first thing to be told about, even without torch
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
        hardware="" if chip is None else chip.name,
        **({} if parallel is None else {"parallel": parse_parallel(parallel)}),
    )
    spec.check()
    try:
        if sweeps:
            _sweep(spec, sweeps, wanted, chip)
        else:
            _count(spec, wanted, chip)
    except FlopsError as error:
        if with_traceback and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise


def _count(spec: RunSpec, wanted: Wanted, chip: Hardware | None) -> None:
    run_model = flops_options.needs_torch()
    aside = redirect_stdout(sys.stderr) if wanted.has_stdout() else nullcontext()  # what the model itself prints
    with aside, flops_options.steps_bar("running") as on_step:
        report = run_model(spec, on_step=on_step)
    deliver(report, wanted, chip)


def _sweep(spec: RunSpec, texts: list[str], wanted: Wanted, chip: Hardware | None) -> None:
    from weft.cli.flops_print import print_sweep
    from weft.flops.sweep import parse_axis, sweep, sweep_csv, sweep_document

    unused = {"--html": wanted.html, "--markdown": wanted.markdown, "--trace": wanted.trace}
    unused["--text-layout"] = wanted.text_layout
    if given := [name for name, value in unused.items() if value is not None]:
        raise typer.BadParameter("a sweep is written as --json or --csv", param_hint=", ".join(given))
    axes = dict(parse_axis(text) for text in texts)
    run_model = flops_options.needs_torch()
    with flops_options.steps_bar("sweeping") as on_point:
        result = sweep(spec, axes, run_model, hardware=chip, on_point=on_point)
    if not wanted.quiet and not wanted.has_stdout():
        print_sweep(result, options.stdout())
    if wanted.json is not None:
        options.write_json(sweep_document(result), wanted.json)
    if wanted.csv is not None:
        write_text(sweep_csv(result), wanted.csv)
