"""`weftrace flops --config JSON SCRIPT`: profile a step of a script as DeepSpeed's JSON says."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from weftrace.errors import FlopsError
from weftrace.flops.cli import options as flops_options
from weftrace.flops.cli.output import TEXT_LAYOUTS, Wanted, deliver

if TYPE_CHECKING:
    from weftrace.facts import Hardware
    from weftrace.flops import FlopsReport


def run(
    config: Path, script: Path, arguments: list[str], model_class: str | None, wanted: Wanted, chip: Hardware | None
) -> None:
    """Run the script to its end. What it raises is shown as Python would, and exits with 1."""
    from weftrace.flops.deepspeed.config import read_deepspeed_config

    asked = read_deepspeed_config(config)
    flops_options.needs_torch()
    from weftrace.flops.deepspeed.runtime.script import own_traceback, run_script

    def save(report: FlopsReport) -> None:
        """Rank 0 writes what is wanted; the others their JSON, for weftrace flops show to merge."""
        if not report.rank:
            deliver(report, replace(wanted, quiet=True), chip)
        elif wanted.json not in (None, "-"):
            path = Path(str(wanted.json))
            deliver(report, Wanted(json=str(path.with_stem(f"{path.stem}.rank{report.rank}")), quiet=True), chip)

    try:
        run_script(
            script,
            arguments,
            asked,
            model=model_class,
            layout=TEXT_LAYOUTS[wanted.text_layout or "deepspeed"],
            on_report=save,
        )
    except (SystemExit, KeyboardInterrupt, FlopsError):
        raise
    except BaseException as error:  # the script's own, whatever it is
        sys.stdout.flush()
        traceback.print_exception(type(error), error, own_traceback(error, script))
        raise typer.Exit(1) from error
