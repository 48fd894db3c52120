"""The typed analysis of a trace or a job, for tests that look at values and not at the document."""

from __future__ import annotations

from typing import Any

from weftrace.analysis import Analysis
from weftrace.report import analyze


def analysed(source: Any, **options: Any) -> Analysis:
    """What `analyze` finds, without timelines."""
    analysis = analyze(source, timelines=False, **options).analysis
    assert analysis is not None
    return analysis
