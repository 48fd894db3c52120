"""`weftrace flops show`: draw a saved report again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weftrace.cli.outputs import Destination
from weftrace.cli.requests import command_of
from weftrace.flops.cli.output import View, deliver, wanted
from weftrace.options import Option

EPILOG = """[bold]Examples[/bold]

weftrace flops show report.json

weftrace flops show report.json -o report.html --hardware h100

weftrace flops show rank0.json rank1.json rank2.json rank3.json               ranks of one job, merged"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which reports to show."""

    reports: Annotated[
        tuple[str, ...],
        Option(
            "JSON that weftrace flops -o report.json wrote; several ranks are merged.", is_argument=True,
            metavar="REPORT...",
        ),
    ]  # fmt: skip


def run(request: Request, view: View, to: Destination) -> None:
    """Print or write saved reports, without torch and without running anything."""
    from weftrace.flops.document import read_flops
    from weftrace.flops.several.merge import merge

    asked = wanted(to, view, inputs=request.reports)
    read = [read_flops(path) for path in request.reports]
    deliver(read[0] if len(read) == 1 else merge(read), asked)


command = command_of((Request, View, Destination), run)
