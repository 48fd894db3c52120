"""The document of a report: JSON values with a schema, and back."""

from weftrace.flops.document.read import read_flops, report_of
from weftrace.flops.document.types import SCHEMA, TITLE, FlopsDocument
from weftrace.flops.document.write import flops_document

__all__ = ["SCHEMA", "TITLE", "FlopsDocument", "flops_document", "read_flops", "report_of"]
