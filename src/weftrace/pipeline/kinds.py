"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weftrace.files.documents import document_as
from weftrace.files.output import write_output
from weftrace.kinds import Kind
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.comparing.document import (
    COMPARISON_SCHEMA,
    ComparisonDocument,
    comparison_document,
    comparison_table,
)
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.costs_document import COSTS_SCHEMA, costs_document, costs_of
from weftrace.pipeline.render.comparison_terminal import print_comparison

SCHEMAS = (COSTS_SCHEMA, COMPARISON_SCHEMA)

COSTS = Kind(
    value=Costs,
    schema=COSTS_SCHEMA.schema,
    document=costs_document,
    load=lambda document, what: costs_of(document, what=what),
    show=lambda costs, console: console.print(costs.in_lines(), highlight=False, markup=False),
)


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """A comparison as its document, which is what is shown and saved; made of a `Comparison` or read from a file."""

    document: ComparisonDocument


def _comparison_report(comparison: Comparison) -> ComparisonReport:
    return ComparisonReport(comparison_document(comparison))


COMPARISON_REPORT = Kind(
    value=ComparisonReport,
    schema=COMPARISON_SCHEMA.schema,
    document=lambda report: report.document,
    load=lambda document, what: ComparisonReport(
        document_as(document, ComparisonDocument, schema=COMPARISON_SCHEMA.schema, what=what)
    ),
    show=lambda report, console: print_comparison(report.document, console),
    save={".csv": lambda report, path: write_output(path, [comparison_table(report.document).write_csv().encode()])},
)

COMPARISON = replace(COMPARISON_REPORT, value=Comparison, schema="", load=None, prepared=_comparison_report)

KINDS: tuple[Kind, ...] = (COSTS, COMPARISON_REPORT, COMPARISON)
