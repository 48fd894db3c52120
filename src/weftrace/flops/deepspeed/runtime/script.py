"""Run a training script as its own program, one optimizer step profiled: `weftrace flops --config ds.json train.py`."""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TextIO

import torch
from torch import nn

from weftrace.errors import FlopsError
from weftrace.flops.deepspeed.config import DeepSpeedFlopsConfig
from weftrace.flops.deepspeed.runtime.engine import engine_sizes
from weftrace.flops.deepspeed.runtime.output import layout_of, write_text
from weftrace.flops.deepspeed.runtime.watch import Watch
from weftrace.flops.deepspeed.text import deepspeed_text
from weftrace.flops.values import FlopsReport
from weftrace.outputs import refuse_inputs


def run_script(
    script: Path,
    argv: list[str],
    config: DeepSpeedFlopsConfig,
    *,
    model: str | None = None,
    layout: str = "present",
    messages: TextIO | None = None,
    on_report: Callable[[FlopsReport], None] | None = None,
    inputs: Iterable[str | Path] = (),
) -> FlopsReport | None:
    """Run script as `python script *argv` would, and print the profile of one step in DeepSpeed's layout, once.

    The script runs to its end. Rank 0 prints, to config.output_file or standard output, as soon as the step that
    follows the profiled one is over (that one is timed), or at the script's end. model: class of the model, where
    weftrace's guess is wrong. messages: where a sentence goes when there is no profile (standard error). on_report:
    called with the report when it is printed, on every rank: a script that ends with sys.exit() does not return here.
    inputs: files that the profile must not replace, besides the script.

    Returns the report, None where there is none. What the script raises, SystemExit too, passes through;
    `own_traceback` is its part of the traceback. Raises `FlopsError` where the script cannot be read, `OutputError`
    where config.output_file is one of the inputs.
    """
    stream = sys.stderr if messages is None else messages
    found: list[FlopsReport] = []

    def say(text: str) -> None:
        stream.write(f"weftrace flops: {text}\n")
        stream.flush()

    def finished(report: FlopsReport, module: nn.Module, notes: tuple[str, ...]) -> None:
        found.append(report)
        if _rank() == 0:
            sizes = engine_sizes(module, batch=config.train_micro_batch_size_per_gpu)
            text = deepspeed_text(
                report,
                profile_step=watch.profile_step,
                module_depth=config.module_depth,
                top_modules=config.top_modules,
                detailed=config.detailed,
                recomputation=config.recompute_fwd_factor > 0,
                sizes=sizes,
                layout=chosen,
                notes=(*notes, *_disagreements(config, report, sizes.data)),
            )
            write_text(text, output)
        if on_report is not None:
            on_report(report)

    chosen = layout_of(layout)
    code = _compiled(script)
    output = None if config.output_file is None else str(Path(config.output_file).absolute())  # the script may chdir
    if output is not None:
        refuse_inputs([output], [script, *inputs])
    watch = Watch(config.profile_step, finished, say, model_name=model)
    with _as_main(script, argv) as main:
        if not config.enabled:
            say('nothing is profiled: "flops_profiler" has "enabled": false')
            exec(code, main.__dict__)
            return None
        watch.start()
        crashed = True
        try:
            exec(code, main.__dict__)
            crashed = False
        except SystemExit:
            crashed = False
            raise
        finally:
            watch.close(crashed=crashed)
            if not found and not crashed and not watch.failed:
                say(f"no profile of {script}: {watch.why_nothing()}")
    return found[0] if found else None


def own_traceback(error: BaseException, script: Path) -> TracebackType | None:
    """The part of an exception's traceback that is the script's own: what `python script` would have shown.

    None where the script has no part in it, because it could not be compiled.
    """
    name = str(script.absolute())
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    uncompiled = isinstance(error, SyntaxError) and error.filename == name
    return None if uncompiled else trace or error.__traceback__


def _compiled(script: Path) -> CodeType:
    try:
        with io.open_code(str(script.absolute())) as file:
            source = file.read()
    except OSError as error:
        raise FlopsError(f"{script}: the script cannot be read: {error.strerror or error}") from error
    return compile(source, str(script.absolute()), "exec", dont_inherit=True)


@contextmanager
def _as_main(script: Path, argv: list[str]) -> Iterator[ModuleType]:
    """A fresh __main__ with the script's arguments and, first on the import path, its folder; put back afterwards."""
    main = ModuleType("__main__")
    main.__file__ = str(script.absolute())  # as Python does: the script may change folder
    main.__dict__["__builtins__"] = builtins
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    sys.modules["__main__"], sys.argv = main, [str(script), *argv]
    sys.path.insert(0, str(script.absolute().parent))
    try:
        yield main
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


def _disagreements(config: DeepSpeedFlopsConfig, report: FlopsReport, data: int) -> Iterator[str]:
    steps = config.gradient_accumulation_steps
    if steps is not None and steps != report.micro_batches:
        yield (
            f"the configuration says gradient_accumulation_steps {steps}; the model was called "
            f"{report.micro_batches} times in the step"
        )
    micro, whole = config.train_micro_batch_size_per_gpu, config.train_batch_size
    if micro is not None and report.samples is not None and micro * report.micro_batches != report.samples:
        yield (
            f"the configuration says {micro} samples a micro-batch; the inputs of the step suggest {report.samples} in "
            f"{report.micro_batches}"
        )
    elif whole is not None and report.samples is not None and whole != report.samples * data:
        yield f"the configuration says train_batch_size {whole}; the inputs of the step suggest {report.samples * data}"


def _rank() -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", "0") or 0)
