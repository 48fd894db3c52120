"""Comparison of two runs: what changed in a step, by how much, and whether it is more than noise.

import weftrace as wt

found = wt.diff("before/", "after/")
found.verdict                       # may they be compared?
found.by("part", "cause")           # where a step's time changed, in whole nanoseconds that add up
found.by("family")                  # and whose time it is
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.comparison.alignment.movers import movers_of as movers_of
    from weftrace.comparison.diffs import Diff as Diff
    from weftrace.comparison.diffs import diff as diff
    from weftrace.comparison.document import DiffReport as DiffReport
    from weftrace.comparison.document import diff_report as diff_report
    from weftrace.comparison.gates import Gate as Gate
    from weftrace.comparison.gates import judged as judged
    from weftrace.comparison.gates import parse_gate as parse_gate
    from weftrace.comparison.runs import Run as Run
    from weftrace.comparison.runs import run_of as run_of
    from weftrace.comparison.verdicts import Verdict as Verdict

    __all__: list[str]

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazily(__name__)
