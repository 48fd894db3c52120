"""Where the step goes, and what would be saved: the measured span as bars that add up to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.advice.bounds import tried_without
from weftrace.advice.critical_paths import critical_path_of
from weftrace.files.columns import frame_schema
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, of_whole


class BarRow(TypedDict):
    """A bar of the waterfall. All bars add up to the measured span."""

    name: Annotated[str, Meta(description="A class on the critical path, or the replay's error.")]
    time_ns: Annotated[int, Meta(description="On the critical path; of the error, measured less replayed.")]
    share: Annotated[float, Meta(description="Of the measured span.")]
    alone_ns: Annotated[int | None, Meta(description="What the span would lose with none of it, all else as it is.")]
    least_ns: Annotated[int | None, Meta(description="That at least, whatever absent ranks do.")]
    most_ns: Annotated[int | None, Meta(description="That at most, whatever absent ranks do.")]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Waterfall(InNotebook):
    """The measured span as the classes on the critical path and the replay's error; `time_ns` add up to `span_ns`.

    bars: frame of `BarRow`s. What removing each alone would save does not add up: where one thing is gone, another
    decides.
    """

    span_ns: int
    replayed_ns: int
    bars: pl.DataFrame

    @property
    def sentence(self) -> str:
        """What is worth removing most."""
        return sentence_of(self)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "span", duration(self.span_ns)
        yield from ((name, duration(ns)) for name, ns in self.bars.select("name", "time_ns").iter_rows())


def waterfall(inferred: Inferred) -> Waterfall:
    """Raises `AdviceError` where nothing ran on a device."""
    path, replay = critical_path_of(inferred), inferred.replay
    rows: list[tuple[str, int, float, int | None, int | None, int | None]] = []
    for name, time_ns in path.by_class.select("name", "time_ns").iter_rows():
        if name == "unrecorded":  # what ran there is not known, so that nothing of it can be left out
            rows.append((name, time_ns, time_ns / max(replay.span_ns, 1), None, None, None))
            continue
        gone = tried_without(inferred, name)
        alone, least, most = (path.span_ns - ns for ns in (gone.span_ns, gone.high_ns, gone.low_ns))
        rows.append((name, time_ns, time_ns / max(replay.span_ns, 1), alone, least, most))
    error_ns = replay.span_ns - replay.replayed_ns
    rows.append(("replay error", error_ns, error_ns / max(replay.span_ns, 1), None, None, None))
    bars = pl.DataFrame(rows, schema=frame_schema(BarRow), orient="row")
    return Waterfall(span_ns=replay.span_ns, replayed_ns=replay.replayed_ns, bars=bars)


def sentence_of(found: Waterfall) -> str:
    """Which bar is worth removing most, and what the bars are."""
    bars = found.bars.drop_nulls("alone_ns")
    if bars.is_empty():
        return "Nothing on the device took time."
    best = bars.sort("alone_ns", descending=True, maintain_order=True).row(0, named=True)
    largest = bars.row(0, named=True)
    other = f"{largest['name']} has the largest part of the path, {of_whole(largest['time_ns'], found.span_ns)}"
    saved = duration(best["alone_ns"])
    if best["least_ns"] < best["most_ns"]:
        saved = f"between {duration(best['least_ns'])} and {duration(best['most_ns'])}"
    return (
        f"No {best['name']} at all would save {saved} alone; {other}. "
        "What each saves alone does not add up: where one is gone, another decides."
    )
