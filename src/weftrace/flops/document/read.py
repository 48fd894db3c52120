"""A FLOPs report back from its document, or why it is none. What follows from the report is not read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from weftrace.errors import FlopsError
from weftrace.files.documents import read_document
from weftrace.files.values import filled, from_document
from weftrace.flops.document.types import SCHEMA, CallColumns, SavedReport
from weftrace.flops.values import FlopsReport, OpCount, Timing


def report_of(document: Mapping[str, Any], *, what: str = "report") -> FlopsReport:
    """The report that a document holds, equal to the one it was made of.

    what: how an error names it, a file's path say. Raises `FlopsError` where it is no `weftrace.flops/1`, or a field is
    missing or of the wrong kind.
    """
    saved = from_document(SavedReport, document, schema=SCHEMA, what=what, error=FlopsError)

    def calls(columns: CallColumns) -> tuple[OpCount, ...]:
        rows = zip(columns.module, columns.phase, columns.signature, columns.calls, strict=True)
        found = ((module, phase, saved.signatures[number], calls) for module, phase, number, calls in rows)
        return tuple(
            OpCount(
                module=module, phase=phase, op=each.op, signature=each.signature, calls=calls,
                cost=saved.costs[each.cost],
            )
            for module, phase, each, calls in found
        )  # fmt: skip

    rows = zip(saved.times.module, saved.times.phase, saved.times.samples_ns, strict=True)
    return filled(
        FlopsReport,
        saved,
        global_partial="" if saved.global_partial is UNSET else saved.global_partial,
        ops=calls(saved.ops),
        global_ops=calls(saved.global_ops),
        times=tuple(Timing(module=module, phase=phase, samples_ns=tuple(samples)) for module, phase, samples in rows),
    )


def read_flops(path: str | os.PathLike[str]) -> FlopsReport:
    """The report of a JSON file (plain, .gz or .zst) that `weftrace flops -o report.json` made.

    Raises `FlopsError`, naming the file and what is wrong, where it cannot be read, is cut off, is not JSON or holds no
    report.
    """
    return report_of(read_document(path, error=FlopsError, schema=SCHEMA), what=str(path))
