"""A report to wherever it is wanted: files by their endings, the document or a summary, DeepSpeed's text, on stdout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Meta

from weftrace.cli import outputs
from weftrace.options import Option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from weftrace.facts import Hardware
    from weftrace.flops.derived.account import Account
    from weftrace.flops.values import FlopsReport

_SHOW = "What to show"

TEXT_LAYOUTS = {"deepspeed": "present", "deepspeed-old": "earlier"}
"""Values of --text-layout -> weftrace's names of DeepSpeed's two layouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a report is shown. depth: in Markdown 2 by default. text_layout: one of `TEXT_LAYOUTS`."""

    hardware: Annotated[
        str | None,
        Option(
            "Accelerator to compare with: roofline, MFU, predicted time. Default: the one it ran on.", metavar="NAME",
            completes="weftrace.cli.options:complete_hardware", panel=_SHOW,
        ),
    ] = None  # fmt: skip
    depth: Annotated[
        int | None, Meta(ge=0), Option("Levels of the tree of modules; all.", metavar="N", panel=_SHOW)
    ] = None
    top: Annotated[int, Meta(ge=0), Option("Rows of the tables of dearest modules.", panel=_SHOW)] = 5
    text_layout: Annotated[
        str | None,
        Option(
            "Print DeepSpeed's text instead: deepspeed, or deepspeed-old as in older documents.", metavar="NAME",
            completes="deepspeed deepspeed-old", panel=_SHOW,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReport:
    """Where a report goes, and how it is shown. hardware: the accelerator that was named, None: the report's own."""

    to: outputs.Wanted
    view: View
    hardware: Hardware | None = None


def wanted(to: outputs.Destination, view: View, *, inputs: Iterable[str], is_sweep: bool = False) -> WantedReport:
    """What the options ask for, checked before the run. inputs: files that must not be overwritten.

    Raises `typer.BadParameter`, or `WeftraceError` for an accelerator that is not known.
    """
    from weftrace.facts import hardware as find_hardware
    from weftrace.flops.outputs import ACCOUNT, SWEEP

    layout = view.text_layout
    if layout is not None and is_sweep:
        raise typer.BadParameter("is for one run, not for a sweep", param_hint="--text-layout")
    if layout is not None and layout not in TEXT_LAYOUTS:
        raise typer.BadParameter(
            f"{layout!r} is no layout; choose from {', '.join(TEXT_LAYOUTS)}", param_hint="--text-layout"
        )
    return WantedReport(
        to=to.wanted(writes=SWEEP if is_sweep else ACCOUNT, inputs=inputs),
        view=view,
        hardware=None if view.hardware is None else find_hardware(view.hardware),
    )


def deliver(report: FlopsReport, asked: WantedReport) -> None:
    """Write a report's files, then print it."""
    from weftrace.files.output import write_output
    from weftrace.flops.derived.account import account_of
    from weftrace.flops.outputs import ACCOUNT
    from weftrace.flops.tables import to_markdown

    def save_markdown(account: Account, path: str) -> None:
        write_output(path, [to_markdown(account, depth=2 if asked.view.depth is None else asked.view.depth)])

    def show(account: Account, console: Console) -> None:
        if asked.view.text_layout is None:
            _show(account, console, asked)
        else:
            sys.stdout.write(deepspeed(account, asked.view.text_layout, asked.view.depth, asked.view.top))

    outputs.deliver(account_of(report, asked.hardware), ACCOUNT, asked.to, show=show, save={".md": save_markdown})


def _show(account: Account, console: Console, asked: WantedReport) -> None:
    from weftrace.flops.render.terminal import print_flops

    print_flops(account, console, depth=asked.view.depth, top=asked.view.top)


def deepspeed(account: Account, name: str, depth: int | None, top: int) -> str:
    """The report in DeepSpeed's layout."""
    from weftrace.flops.deepspeed.numbers import Sizes
    from weftrace.flops.deepspeed.strings import LAYOUTS
    from weftrace.flops.deepspeed.text import deepspeed_text

    report, parallel = account.report, account.report.parallel
    sizes = Sizes(
        world=parallel.world,
        data=parallel.data,
        model=parallel.tensor * parallel.pipeline * parallel.context,
        batch=None if report.samples is None else report.samples // report.micro_batches,
    )
    return deepspeed_text(
        account,
        module_depth=-1 if depth is None else depth,
        top_modules=max(top, 1),
        sizes=sizes,
        layout=LAYOUTS[TEXT_LAYOUTS[name]],
    )
