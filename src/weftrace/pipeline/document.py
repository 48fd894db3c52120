"""A simulated schedule as a document (`weftrace.pipeline/1`): what was simulated, and what came of it.

The file that `weftrace.save` writes is the document and, under `traceEvents`, a Chrome trace of it: see
`render/perfetto.py`. What is read back is the schedule and its costs; the rest is simulated anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

from msgspec import Meta

from weftrace.errors import DocumentError, ScheduleError
from weftrace.files.documents import document_as, read_document
from weftrace.files.schemas import Count, DocumentSchema, Positive
from weftrace.pipeline.costs_document import CostsDocument, costs_document, costs_of
from weftrace.pipeline.notation import from_text, to_text
from weftrace.pipeline.simulation import Boundary, Simulation, simulate
from weftrace.version import __version__

SCHEMA: Final = "weftrace.pipeline/1"


class RankTold(TypedDict):
    """A rank's step: busy, and idle in warm-up, steady state and cool-down; the most that it holds at once."""

    rank: Count
    busy_ns: Count
    idle_ns: Count
    warm_up_ns: Count
    steady_ns: Count
    cool_down_ns: Count
    peak_bytes: Count
    peak_activations: Annotated[Count, Meta(description="Chunks whose activations, or a part of them, are held.")]
    weight_bytes: Count


class ResultTold(TypedDict):
    """What the simulation found; it follows from the rest of the document."""

    makespan_ns: Annotated[Count, Meta(description="From the first action's start to the last one's end.")]
    step_ns: Annotated[Count, Meta(description="The longest step of a rank, by the boundary.")]
    bubble_ns: Annotated[Count, Meta(description="Idle time of the rank that idles most, by the boundary.")]
    ranks: list[RankTold]


class PipelineDocument(TypedDict):
    """A schedule, what its chunks cost, and what came of it."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    name: str
    num_ranks: Positive
    num_stages: Positive
    num_micro_batches: Positive
    boundary: Annotated[Boundary, Meta(description="Where a step ends: for all ranks, or for each by itself.")]
    schedule: Annotated[list[str], Meta(description="The lines of its text: facts, then the actions of each rank.")]
    costs: Annotated[CostsDocument, Meta(description="Of one chunk, a stage's work on one micro-batch.")]
    result: ResultTold


PIPELINE_SCHEMA = DocumentSchema(
    document=PipelineDocument,
    schema=SCHEMA,
    title="A simulated pipeline schedule",
)


def pipeline_document(simulation: Simulation) -> PipelineDocument:
    """A simulation as JSON-able values."""
    schedule = simulation.schedule
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "name": schedule.name,
        "num_ranks": schedule.num_ranks,
        "num_stages": schedule.num_stages,
        "num_micro_batches": schedule.num_micro_batches,
        "boundary": simulation.boundary,
        "schedule": to_text(schedule).splitlines(),
        "costs": costs_document(simulation.costs),
        "result": {
            "makespan_ns": simulation.makespan_ns,
            "step_ns": simulation.step_ns,
            "bubble_ns": simulation.bubble_ns,
            "ranks": simulation.ranks.to_dicts(),  # type: ignore[typeddict-item]
        },
    }


def simulation_of(document: Mapping[str, Any], *, what: str = "the document") -> Simulation:
    """The simulation of a document, run anew. what: names it in errors, a file's path say.

    Raises `DocumentError` where it is another document or a field is broken, and where its schedule cannot run.
    """
    told = document_as(document, PipelineDocument, schema=SCHEMA, what=what)
    try:
        schedule = from_text("\n".join(told["schedule"]), what=f"{what}, schedule")
        return simulate(schedule, costs_of(told["costs"], what=f"{what}, costs"), told["boundary"])
    except ScheduleError as error:
        raise DocumentError(f"{what}: {error}") from error


def read_simulation(path: str | os.PathLike[str]) -> Simulation:
    """A simulation from a file that weftrace wrote, plain or compressed. Raises `DocumentError`."""
    return simulation_of(read_document(path, schema=SCHEMA), what=os.fspath(path))
