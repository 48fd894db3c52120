"""The page's tab "Critical path": what decided how long a rank took, where it is found in a moment.

It stands on advice/, without which there is no tab. A job's ranks are joined by `weftrace critical-path` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weftrace.errors import WeftraceError
from weftrace.files.values import to_document
from weftrace.report.build import Report
from weftrace.trace.work import Work
from weftrace.wings import WINGS

#: Ops that the tab's picture holds at most: a report has its timeline besides.
MAX_OPS = 20_000


def path_blocks(report: Report) -> list[Mapping[str, Any] | None]:
    """Of each rank of the report the block of its critical path, or why there is none; None without a word where none
    is looked for: of a job, of what ran on no device, of too many events, without advice/."""
    if not any(wing.name == "advice" for wing in WINGS):
        return []
    return [None if work is None or work.basis != "device" else _block(work) for work in report.works]


def path_terms() -> Mapping[str, tuple[str, str]]:
    """The definitions that the tab refers to."""
    from weftrace.advice.render.words import PATH_TERMS

    return PATH_TERMS


def _block(work: Work) -> Mapping[str, Any]:
    from weftrace.advice.document import critical_path_report
    from weftrace.advice.jobs import infer_work
    from weftrace.advice.render.page import path_block

    try:
        block: Mapping[str, Any] = to_document(path_block(critical_path_report(infer_work(work)), max_ops=MAX_OPS))
        return block
    except WeftraceError as error:
        return {"reason": str(error)}
    except Exception as error:  # a bug of ours in what is beside the report must not cost the report
        return {"reason": f"weftrace could not find it because of a bug: {type(error).__name__}: {error}"}
