"""A report to wherever it is wanted: tables on stdout, DeepSpeed's text, JSON, CSV, Markdown, HTML, a Chrome trace."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from weftrace.cli import outputs

if TYPE_CHECKING:
    from weftrace.facts import Hardware
    from weftrace.flops import FlopsReport

TEXT_LAYOUTS = {"deepspeed": "present", "deepspeed-old": "earlier"}
"""Values of --text-layout -> weftrace's names of DeepSpeed's two layouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Files to write, "-" for stdout; what to print.

    Raises `typer.BadParameter` where two things want stdout, or a name is unknown: before a run, not after.
    """

    html: str | None = None
    json: str | None = None
    csv: str | None = None
    markdown: str | None = None
    trace: str | None = None
    text_layout: str | None = None
    depth: int | None = None
    top: int = 5
    quiet: bool = False

    def __post_init__(self) -> None:
        if len(self._on_stdout()) > 1:
            raise typer.BadParameter("only one of them can have stdout", param_hint=" and ".join(self._on_stdout()))
        if self.trace == "-":
            raise typer.BadParameter("a trace is written to a file", param_hint="--trace")
        if self.text_layout is not None and self.text_layout not in TEXT_LAYOUTS:
            raise typer.BadParameter(
                f"{self.text_layout!r} is no layout; choose from {', '.join(TEXT_LAYOUTS)}", param_hint="--text-layout"
            )

    def has_stdout(self) -> bool:
        """Whether a file is to be written to stdout, which then holds nothing else."""
        return bool(self._on_stdout())

    def _on_stdout(self) -> list[str]:
        named = {"--html": self.html, "--json": self.json, "--csv": self.csv, "--markdown": self.markdown}
        return [name for name, path in named.items() if path == "-"]


def deliver(report: FlopsReport, wanted: Wanted, device: Hardware | None) -> None:
    """Write a report's files, then print it: a reader of stdout that has seen enough, `head` say, costs no file."""
    from weftrace.flops.derived.device import device_of
    from weftrace.flops.render.terminal import print_flops

    own, _ = device_of(report, device)  # None: numbers that need peaks are left out, and shown so
    if wanted.json is not None:
        from weftrace.flops.document import flops_document

        outputs.write_json(flops_document(report, own), wanted.json)
    if wanted.csv is not None:
        from weftrace.flops.tables import to_csv

        write_text(to_csv(report, own), wanted.csv)
    if wanted.markdown is not None:
        from weftrace.flops.tables import to_markdown

        depth = 2 if wanted.depth is None else wanted.depth
        write_text(to_markdown(report, own, depth=depth), wanted.markdown)
    if wanted.html is not None:
        from weftrace.flops.render.page import render_flops_html

        write_text(render_flops_html(report, device), wanted.html)
    if wanted.trace is not None:
        from weftrace.flops.join.counters import write_counters

        write_counters(report, wanted.trace, device)
        outputs.tell_written(wanted.trace)
    if not wanted.quiet and not wanted.has_stdout():
        if wanted.text_layout is not None:
            sys.stdout.write(deepspeed(report, wanted.text_layout, wanted.depth, wanted.top))
        else:
            from weftrace.flops.render.predictions import print_exact, print_prediction

            console = outputs.stdout()
            print_flops(report, console, depth=wanted.depth, top=wanted.top, hardware=device)
            print_prediction(report, device, console)
            print_exact(report, console)


def deepspeed(report: FlopsReport, name: str, depth: int | None, top: int) -> str:
    """The report in DeepSpeed's layout."""
    from weftrace.flops.deepspeed.numbers import Sizes
    from weftrace.flops.deepspeed.strings import LAYOUTS
    from weftrace.flops.deepspeed.text import deepspeed_text

    parallel = report.parallel
    sizes = Sizes(
        world=parallel.world,
        data=parallel.data,
        model=parallel.tensor * parallel.pipeline * parallel.context,
        batch=None if report.samples is None else report.samples // report.micro_batches,
    )
    return deepspeed_text(
        report,
        module_depth=-1 if depth is None else depth,
        top_modules=max(top, 1),
        sizes=sizes,
        layout=LAYOUTS[TEXT_LAYOUTS[name]],
    )


def write_text(text: str, path: str) -> None:
    """To a file, whole or not at all, or to stdout for "-"."""
    from weftrace.trace import write_output

    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_output(path, [text])
    outputs.tell_written(path)
