"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.kinds import Kind
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.costs_document import COSTS_SCHEMA, costs_document, costs_of

SCHEMAS = (COSTS_SCHEMA,)

COSTS = Kind(
    value=Costs,
    schema=COSTS_SCHEMA.schema,
    document=costs_document,
    load=lambda document, what: costs_of(document, what=what),
    show=lambda costs, console: console.print(costs.in_lines(), highlight=False, markup=False),
)

KINDS: tuple[Kind, ...] = (COSTS,)
