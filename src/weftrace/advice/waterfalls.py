"""Where the step goes, and what would be saved: the measured span as bars that add up to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration

#: Columns of `Waterfall.bars`.
BAR_SCHEMA: dict[str, pl.DataType] = {
    "name": pl.String(),  # a class of the critical path, or "replay error"
    "time_ns": pl.Int64(),  # of it on the critical path; of the replay error, measured less replayed: may be negative
    "share": pl.Float64(),  # of the measured span
    "alone_ns": pl.Int64(),  # what the span would lose with none of it anywhere, all else as it is; null of the error
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Waterfall(InNotebook):
    """The measured span as the classes on the critical path and the replay's error; `time_ns` add up to `span_ns`.

    bars: frame of `BAR_SCHEMA`. What removing each alone would save does not add up: where one thing is gone, another
    decides.
    """

    span_ns: int
    replayed_ns: int
    bars: pl.DataFrame

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "span", duration(self.span_ns)
        yield from ((name, duration(ns)) for name, ns in self.bars.select("name", "time_ns").iter_rows())


def waterfall(inferred: Inferred) -> Waterfall:
    """Raises `AdviceError` where nothing ran on a device."""
    from weftrace.advice.critical_paths import critical_path_of

    path, replay = critical_path_of(inferred), inferred.replay
    error = pl.DataFrame({"name": ["replay error"], "time_ns": [replay.span_ns - replay.replayed_ns]})
    bars = pl.concat([path.by_class.select("name", "time_ns"), error]).with_columns(
        share=pl.col("time_ns") / max(replay.span_ns, 1), alone_ns=pl.lit(None, pl.Int64)
    )
    return Waterfall(span_ns=replay.span_ns, replayed_ns=replay.replayed_ns, bars=bars)
