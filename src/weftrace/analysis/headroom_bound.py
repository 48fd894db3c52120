"""How much faster the step could be if everything that may run at the same time did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import polars as pl
from msgspec import Meta

from weftrace.analysis.time_account import Source, account_of
from weftrace.files.schemas import Ns
from weftrace.files.values import UNSAVED
from weftrace.notebook import InNotebook
from weftrace.plan.inference.streams.recorded import recorded_waits

Bound = Literal["compute", "communication", "chain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom(InNotebook):
    """Span against perfect overlap."""

    span_ns: Annotated[int, UNSAVED]
    ideal_ns: Annotated[
        Ns, Meta(description="The largest of compute, communication and the longest dependent chain, at most the span.")
    ]
    bound_by: Annotated[Bound, Meta(description="Which of the three is the largest.")]
    longest_chain_ns: Annotated[
        Ns,
        Meta(
            description="Longest path through the device events, each after its predecessor on its stream and after "
            "the waits between streams that the trace records."
        ),
    ]
    assumption: Annotated[str, Meta(description="What that leaves out, in words.")]

    @property
    def headroom_ns(self) -> Annotated[int, Meta(ge=0, description="span_ns - ideal_ns.")]:
        return self.span_ns - self.ideal_ns


def headroom(source: Source) -> Headroom:
    """Distance of a device's span from perfect overlap. Durations are taken as they are, contention included."""
    account = account_of(source)
    work, b = account.work, account.breakdown
    waits = recorded_waits(work.trace.events, work.events, device=work.device).streams
    chain_ns = min(_longest_chain(work.events, waits), b.span_ns)
    bounds: dict[Bound, int] = {"compute": b.compute_ns, "communication": b.communication_ns, "chain": chain_ns}
    bound_by = max(bounds, key=lambda bound: bounds[bound])
    known = (
        f"and of {waits.height:,} recorded wait{'s' if waits.height > 1 else ''} between streams"
        if waits.height
        else "only: no waits between streams are recorded"
    )
    return Headroom(
        span_ns=b.span_ns,
        ideal_ns=bounds[bound_by],
        bound_by=bound_by,
        longest_chain_ns=chain_ns,
        assumption=f"durations stay as measured; the chain knows the order on each stream {known}",
    )


def _longest_chain(events: pl.DataFrame, waits: pl.DataFrame) -> int:
    """Longest sum of durations along stream order and waits. Events that overlap on a stream add only their union."""
    ended = pl.col("end_ns").cum_max().shift(1).over("stream")  # null, and so passed over, at the first
    own = events.select("stream", (pl.col("end_ns") - pl.max_horizontal("start_ns", ended)).clip(0).alias("dur_ns"))
    if waits.is_empty():
        return int(own.group_by("stream").agg(pl.col("dur_ns").sum()).get_column("dur_ns").max() or 0)  # type: ignore[arg-type]
    awaited: dict[int, list[int]] = {}
    for op, on in waits.select("op", "on").iter_rows():
        awaited.setdefault(op, []).append(on)
    reached: list[int] = []  # the longest chain that ends with each event ...
    last: dict[int, int] = {}  # ... and with the last on each stream
    for op, (stream, dur) in enumerate(own.iter_rows()):
        before = max((reached[on] for on in awaited.get(op, ())), default=0)
        last[stream] = max(last.get(stream, 0), before) + dur
        reached.append(last[stream])
    return max(reached)
