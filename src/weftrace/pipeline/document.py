"""A simulated schedule as a document (`weftrace.pipeline/1`): what was simulated, and what came of it.

The file that `weftrace.save` writes is the document and, under `traceEvents`, a Chrome trace of it: see
`render/perfetto.py`. What is read back is the schedule and its costs; the rest is simulated anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import polars as pl
from msgspec import Meta

from weftrace.errors import DocumentError, ScheduleError
from weftrace.files.documents import read_document
from weftrace.files.schemas import Count, Positive
from weftrace.files.values import As, filled, from_document, to_document
from weftrace.pipeline.costs_document import SavedCosts
from weftrace.pipeline.notation import from_text, to_text
from weftrace.pipeline.simulation import Boundary, RankRow, Simulation, simulate
from weftrace.version import __version__

SCHEMA: Final = "weftrace.pipeline/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the simulation found; it follows from the rest of the document."""

    makespan_ns: Annotated[Count, Meta(description="From the first action's start to the last one's end.")]
    step_ns: Annotated[Count, Meta(description="The longest step of a rank, by the boundary.")]
    bubble_ns: Annotated[Count, Meta(description="Idle time of the rank that idles most, by the boundary.")]
    ranks: Annotated[pl.DataFrame, As(list[RankRow])]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSimulation:
    """A schedule, what its chunks cost, and what came of it."""

    name: str
    num_ranks: Positive
    num_stages: Positive
    num_micro_batches: Positive
    boundary: Annotated[Boundary, Meta(description="Where a step ends: for all ranks, or for each by itself.")]
    schedule: Annotated[
        tuple[str, ...], Meta(description="The lines of its text: facts, then the actions of each rank.")
    ]
    costs: Annotated[SavedCosts, Meta(description="Of one chunk, a stage's work on one micro-batch.")]
    result: Result


def pipeline_document(simulation: Simulation) -> dict[str, Any]:
    """A simulation as JSON-able values."""
    schedule = simulation.schedule
    lines, result = tuple(to_text(schedule).splitlines()), filled(Result, simulation)
    saved = filled(SavedSimulation, schedule, simulation, schedule=lines, result=result)
    return {"schema": SCHEMA, "weftrace": __version__, **to_document(saved)}


def simulation_of(document: Mapping[str, Any], *, what: str = "the document") -> Simulation:
    """The simulation of a document, run anew. what: names it in errors, a file's path say.

    Raises `DocumentError` where it is another document or a field is broken, and where its schedule cannot run.
    """
    saved = from_document(SavedSimulation, document, schema=SCHEMA, what=what)
    try:
        schedule = from_text("\n".join(saved.schedule), what=f"{what}, schedule")
        return simulate(schedule, saved.costs, saved.boundary)
    except ScheduleError as error:
        raise DocumentError(f"{what}: {error}") from error


def read_simulation(path: str | os.PathLike[str]) -> Simulation:
    """A simulation from a file that weftrace wrote, plain or compressed. Raises `DocumentError`."""
    return simulation_of(read_document(path, schema=SCHEMA), what=os.fspath(path))
