"""What a sample is: files that were simulated, and what is planted in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from weftrace.notebook import InNotebook

Name = Literal["train", "job", "inference", "pair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted(InNotebook):
    """One thing that is planted in a sample.

    cost_ns: the mean step as it was simulated, minus the mean step of the same run without this.
    """

    what: Annotated[str, Meta(description="What is planted, in a sentence.")]
    finding: Annotated[str, Meta(description="The rule of weftrace advise that finds it; empty if no rule does.")]
    cost_ns: Annotated[int, Meta(description="How much longer a step takes for it: simulated with and without it.")]
    commands: Annotated[tuple[str, ...], Meta(description="Commands that name it, on the sample's files.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(InNotebook):
    """A simulated recording with planted causes."""

    name: Name
    what: Annotated[str, Meta(description="What was simulated, in a sentence.")]
    seed: Annotated[int, Meta(description="What the noise of the durations is drawn from.")]
    folder: Annotated[str, Meta(description="The folder that the files are in.")]
    files: Annotated[tuple[str, ...], Meta(description="The traces, by their paths in the folder.")]
    step_ns: Annotated[int, Meta(description="The mean step.", ge=1)]
    planted: Annotated[tuple[Planted, ...], Meta(description="What is planted, the most expensive first.")]
