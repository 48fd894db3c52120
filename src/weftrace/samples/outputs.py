"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from weftrace.outputs import Output
from weftrace.render.console_parts import print_blocks
from weftrace.samples.catalogue import summary
from weftrace.samples.values import Sample

if TYPE_CHECKING:
    from rich.console import Console


def _print(sample: Sample, console: Console) -> None:
    print_blocks([Text(summary(sample).rstrip())], console, console.width)


SAMPLE = Output(
    value=Sample,
    schema="weftrace.sample/1",
    title="A simulated sample, and what is planted in it",
    show=_print,
)

OUTPUTS: tuple[Output, ...] = (SAMPLE,)
