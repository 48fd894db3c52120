"""Documents: a report, a comparison and a sweep as JSON values with a schema, and back."""

from weftrace.flops.document.diff import DIFF_SCHEMA, diff_document, diff_of
from weftrace.flops.document.read import read_flops, report_of
from weftrace.flops.document.sweep import SWEEP_SCHEMA, sweep_document, sweep_of
from weftrace.flops.document.types import FLOPS_SCHEMA, SCHEMA, FlopsDocument
from weftrace.flops.document.write import flops_document

__all__ = [
    "DIFF_SCHEMA",
    "FLOPS_SCHEMA",
    "SCHEMA",
    "SWEEP_SCHEMA",
    "FlopsDocument",
    "diff_document",
    "diff_of",
    "flops_document",
    "read_flops",
    "report_of",
    "sweep_document",
    "sweep_of",
]
