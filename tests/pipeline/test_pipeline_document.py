"""The document of a simulated schedule: by its schema, and back to the same simulation."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.pipeline.render import simulations
from weftrace.errors import DocumentError
from weftrace.files.schemas import schemas
from weftrace.pipeline.document import SCHEMA, pipeline_document, simulation_of
from weftrace.pipeline.simulation import simulate


def decoded(simulation: Any) -> Any:
    return json.loads(json.dumps(pipeline_document(simulation)))


@pytest.mark.parametrize("made", [simulations.f1b, simulations.dual, simulations.vee])
def test_a_document_fits_its_schema_and_comes_back(made: Any) -> None:
    simulation = made()
    document = decoded(simulation)
    (schema,) = [each for each in schemas() if each.schema == SCHEMA]
    jsonschema.Draft202012Validator(schema.json_schema()).validate(document)
    again = simulation_of(document)
    assert (again.schedule, again.costs, again.boundary) == (simulation.schedule, simulation.costs, "barrier")
    assert again.schedule.name == simulation.schedule.name
    assert decoded(again) == document


def test_numbers_of_the_result_are_the_simulation_s() -> None:
    span = simulate(simulations.f1b().schedule, simulations.UNITS, boundary="span")
    result = decoded(span)["result"]
    assert (result["makespan_ns"], result["bubble_ns"], result["step_ns"]) == (33_000, 9_000, 33_000)
    assert [rank["peak_activations"] for rank in result["ranks"]] == [4, 3, 2, 1]
    assert simulation_of(decoded(span)).boundary == "span"


def test_a_broken_document_names_the_file_and_what_is_wrong() -> None:
    document = decoded(simulations.f1b(2, 2))
    with pytest.raises(DocumentError, match=r"plan.json: not a weftrace.pipeline/1 document"):
        simulation_of(document | {"schema": "weftrace.plan/2"}, what="plan.json")
    with pytest.raises(DocumentError, match=r"plan.json: a weftrace.pipeline/1 document with a broken field"):
        simulation_of(document | {"schedule": 3}, what="plan.json")
    lines = [line.replace("1B0", "") for line in document["schedule"]]
    with pytest.raises(DocumentError, match=r"plan.json: .*"):
        simulation_of(document | {"schedule": lines}, what="plan.json")
