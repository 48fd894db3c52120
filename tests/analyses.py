"""The typed analysis of a trace or a job, for tests that look at values and not at the document."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from weftrace.analysis import Analysis
from weftrace.report import analyze


def analysed(source: Any, **options: Any) -> Analysis:
    """What `analyze` finds, without timelines and without the document, a fifth of the work."""
    with patch("weftrace.report.build.document_of"):
        analysis = analyze(source, timelines=False, **options).analysis
    assert analysis is not None
    return analysis
