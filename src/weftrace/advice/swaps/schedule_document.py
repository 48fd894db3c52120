"""Another pipeline schedule for a measured run, as JSON values, versioned (`weftrace.schedule_swap/1`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.advice.document import source_of
from weftrace.advice.swaps.schedules import ScheduleSwap
from weftrace.files.schemas import Count, DocumentSchema, Positive
from weftrace.notebook import InNotebook
from weftrace.plan import Inferred
from weftrace.version import __version__

if TYPE_CHECKING:
    from weftrace.pipeline.measured.runs import MeasuredRun

SCHEMA: Final = "weftrace.schedule_swap/1"


class ScheduleSwapDocument(TypedDict):
    """What a measured pipeline would take in another order. Makespans go from the first chunk's start to the last's
    end, over all ranks."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    source: Annotated[str, Meta(description="The traces.")]
    device_name: str
    ranks: list[int]
    headline: str
    schedule: Annotated[str, Meta(description="The one that was tried.")]
    measured_schedule: Annotated[
        str, Meta(description='The one that was measured; "as measured" where it has no name.')
    ]
    step: Annotated[Count, Meta(description="Which of the recorded steps.")]
    num_ranks: Positive
    num_stages: Annotated[Positive, Meta(description="Of the measured schedule.")]
    num_micro_batches: Positive
    measured_ns: Count
    simulated_ns: Annotated[Count, Meta(description="The measured order, simulated with the means of its chunks.")]
    error: Annotated[float, Meta(description="simulated_ns / measured_ns - 1.")]
    after_ns: Annotated[Count, Meta(description="The other order, simulated with the same.")]
    change: Annotated[float, Meta(description="after_ns / simulated_ns - 1.")]
    notes: Annotated[list[str], Meta(description="What was assumed.")]


SCHEDULE_SWAP_SCHEMA = DocumentSchema(
    document=ScheduleSwapDocument,
    schema=SCHEMA,
    title="What a measured pipeline would take with another schedule",
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScheduleSwapReport(InNotebook):
    """A swapped schedule as its document: what is shown and saved."""

    document: ScheduleSwapDocument

    def _told(self) -> list[tuple[str, str]]:
        return [("headline", self.document["headline"])]


def schedule_swap_report(found: ScheduleSwap, measured: Inferred | MeasuredRun) -> ScheduleSwapReport:
    """A swapped schedule as a value that can be shown and saved. measured: what it was tried on."""
    source, device, ranks, notes = _measured(measured)
    return ScheduleSwapReport(
        document={
            "schema": SCHEMA,
            "weftrace": __version__,
            "source": source,
            "device_name": device,
            "ranks": ranks,
            "headline": found.sentence,
            "schedule": found.schedule,
            "measured_schedule": found.measured_schedule,
            "step": found.step,
            "num_ranks": found.num_ranks,
            "num_stages": found.num_stages,
            "num_micro_batches": found.num_micro_batches,
            "measured_ns": found.measured_ns,
            "simulated_ns": found.simulated_ns,
            "error": found.error,
            "after_ns": found.after_ns,
            "change": found.change,
            "notes": [*found.notes, *notes],
        }
    )


def _measured(measured: Inferred | MeasuredRun) -> tuple[str, str, list[int], tuple[str, ...]]:
    """Its source, device, ranks and notes."""
    if isinstance(measured, Inferred):
        ranks = [int(rank) for rank in measured.plan.ranks]
        return source_of(measured), measured.plan.device_name, ranks, measured.notes
    return measured.source, "no device", list(range(measured.num_ranks)), ()


def schedule_swap_table(document: ScheduleSwapDocument) -> pl.DataFrame:
    """A row: all but notes and ranks."""
    return pl.DataFrame([{name: value for name, value in document.items() if name not in ("notes", "ranks")}])
