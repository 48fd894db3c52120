"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.outputs import Output
from weftrace.samples.catalogue import summary
from weftrace.samples.values import Sample

if TYPE_CHECKING:
    from rich.console import Console


def _print(sample: Sample, console: Console) -> None:
    console.print(summary(sample), markup=False, highlight=False, end="")


SAMPLE = Output(
    value=Sample,
    schema="weftrace.sample/1",
    title="A simulated sample, and what is planted in it",
    show=_print,
)

OUTPUTS: tuple[Output, ...] = (SAMPLE,)
