"""Steps of training that were published with their parts: `published.toml`, a source beside each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weftrace.errors import WeftraceError
from weftrace.facts.tables import read_tables
from weftrace.notebook import InNotebook

BUILT_IN = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStep(InNotebook):
    """A published step: what ran, how long its parts took in ns, and the rates that were stated of it.

    parts_ns: part -> time; they add up to the step but for rounding. flops_per_s: of a GPU, and mfu: "causal" and
    "full" attention -> number. model, hardware, dtype: names of `weftrace.facts`.
    """

    name: str
    source: str
    schedule: str
    num_stages: int
    num_micro_batches: int
    num_ranks: int
    model: str
    hardware: str
    dtype: str
    tokens: int
    sequence: int
    step_ns: int
    parts_ns: Mapping[str, int]
    tokens_per_day: float
    flops_per_s: Mapping[str, float]
    mfu: Mapping[str, float]


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    """All that weftrace knows."""
    return tuple(
        PublishedStep(
            name=entry["name"],
            source=entry["source"],
            schedule=entry["schedule"],
            num_stages=entry["stages"],
            num_micro_batches=entry["micro_batches"],
            num_ranks=entry["ranks"],
            model=entry["model"],
            hardware=entry["hardware"],
            dtype=entry["dtype"],
            tokens=entry["tokens"],
            sequence=entry["sequence"],
            step_ns=_ns(entry["step_s"]),
            parts_ns={part: _ns(seconds) for part, seconds in entry["parts"].items()},
            tokens_per_day=entry["tokens_per_day"],
            flops_per_s=entry["flops_per_s"],
            mfu=entry["mfu"],
        )
        for entry in read_tables(BUILT_IN, "step", what="published steps", error=WeftraceError)
    )


def published_step(
    schedule: str, num_stages: int, num_micro_batches: int, num_ranks: int, **others: str | int | None
) -> PublishedStep | None:
    """The published step of that shape; None where there is none. others: further fields that it must be alike in,
    None where they are not given; names are compared without regard to case."""
    wanted: dict[str, str | int | None] = {
        "schedule": schedule, "num_stages": num_stages, "num_micro_batches": num_micro_batches, "num_ranks": num_ranks,
        **others,
    }  # fmt: skip
    given = {name: value for name, value in wanted.items() if value is not None}
    return next(
        (each for each in published_steps() if all(_same(getattr(each, name), given[name]) for name in given)), None
    )


def _same(one: object, other: object) -> bool:
    return str(one).lower() == str(other).lower()


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
