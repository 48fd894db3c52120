"""`weftrace flops --config JSON SCRIPT`: profile a step of a script as DeepSpeed's JSON says."""

from __future__ import annotations

import sys
import traceback
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from weftrace.cli import outputs
from weftrace.errors import FlopsError, OutputError
from weftrace.flops.cli import options as flops_options
from weftrace.flops.cli.output import TEXT_LAYOUTS, WantedReport, deliver
from weftrace.outputs import DOCUMENT_SUFFIXES, refuse_inputs, suffix_of

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport

CRASHED = 1


def run(config: Path, script: Path, arguments: list[str], model_class: str | None, asked: WantedReport) -> None:
    """Run the script to its end. What it raises is shown as Python would, and exits with 1.

    With `--json` the document alone is on stdout, at the end; what the script and the profile print is on stderr.
    """
    from weftrace.flops.deepspeed.config import read_deepspeed_config

    block = read_deepspeed_config(config)
    flops_options.needs_torch()
    from weftrace.flops.deepspeed.runtime.script import own_traceback, run_script

    printed: list[FlopsReport] = []

    def save(report: FlopsReport) -> None:
        """Rank 0 writes what is wanted; the others their documents, for weftrace flops show to merge."""
        paths = asked.to.paths if not report.rank else of_rank(asked.to.paths, report.rank)
        refuse_inputs(paths, [config, script])
        deliver(report, replace(asked, to=outputs.Wanted(paths=paths, quiet=True)))
        if not report.rank:
            printed.append(report)

    try:
        with redirect_stdout(sys.stderr) if asked.to.json else nullcontext():
            run_script(
                script,
                arguments,
                block,
                model=model_class,
                layout=TEXT_LAYOUTS[asked.view.text_layout or "deepspeed"],
                on_report=save,
                inputs=[config],
            )
    except (SystemExit, KeyboardInterrupt, FlopsError, OutputError):
        raise
    except BaseException as error:  # the script's own, whatever it is
        sys.stdout.flush()
        traceback.print_exception(type(error), error, own_traceback(error, script))
        raise typer.Exit(CRASHED) from error
    finally:
        if asked.to.json and printed:
            deliver(printed[0], replace(asked, to=outputs.Wanted(json=True)))


def of_rank(paths: tuple[str, ...], rank: int) -> tuple[str, ...]:
    """The documents among the files, under a name of the rank's own: report.json.gz, 3 -> report.rank3.json.gz."""
    from weftrace.flops.outputs import TRACE_SUFFIXES

    result = []
    for path in paths:
        if path.lower().endswith(DOCUMENT_SUFFIXES) and not path.lower().endswith(TRACE_SUFFIXES):
            suffix = suffix_of(path, DOCUMENT_SUFFIXES)
            result.append(f"{path[: -len(suffix)]}.rank{rank}{path[-len(suffix) :]}")
    return tuple(result)
