"""What can be done with a report of what a model costs: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.flops.document import flops_document, report_of
from weftrace.flops.read_document import SCHEMA
from weftrace.flops.values import FlopsReport
from weftrace.kinds import Kind

KINDS = (
    Kind(
        value=FlopsReport,
        schema=SCHEMA,
        document=flops_document,
        load=lambda document, what: report_of(document, what=what),
    ),
)
