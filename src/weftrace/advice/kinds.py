"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.advice.render.checks_terminal import checks_markdown, print_checks
from weftrace.advice.replay_checks import CHECKS_SCHEMA, ChecksDocument, ReplayChecks, checks_table
from weftrace.files.documents import document_as
from weftrace.kinds import Kind, text_writer

SCHEMAS = (CHECKS_SCHEMA,)

CHECKS = Kind(
    value=ReplayChecks,
    schema=CHECKS_SCHEMA.schema,
    document=lambda checks: checks.document,
    load=lambda document, what: ReplayChecks(
        document=document_as(document, ChecksDocument, schema=CHECKS_SCHEMA.schema, what=what)
    ),
    show=lambda checks, console: print_checks(checks.document, console),
    save={
        ".csv": text_writer(lambda checks: checks_table(checks.document).write_csv()),
        ".md": text_writer(lambda checks: checks_markdown(checks.document)),
    },
)

KINDS: tuple[Kind, ...] = (CHECKS,)
