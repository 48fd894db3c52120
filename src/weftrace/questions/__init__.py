"""Questions to a trace or a job that no report answers: SQL over its events, kernels, gaps, phases and steps.

import weftrace as wt

wt.query("train.json.gz", "select family, sum(dur_ns) / 1e6 as ms from work group by family order by ms desc")
wt.questions.tables(trace, "work")["work"]      # the same tables, for Polars' own expressions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.questions.asking import Answer as Answer
    from weftrace.questions.asking import ask as ask
    from weftrace.questions.asking import query as query
    from weftrace.questions.asking import tables as tables
    from weftrace.questions.columns import TABLES as TABLES

    __all__: list[str]

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
