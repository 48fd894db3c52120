"""What every document of the wing tells of an inferred plan: how far its replay is off, what it keeps, what waits.

A number that follows from a replay stands beside the replay's error.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.plan import Inferred, Replay
from weftrace.plan.inference.values import SOURCES


class ReplayTold(TypedDict):
    """A replay of the inferred plan beside the measurement."""

    span_ns: Annotated[Count, Meta(description="Measured: from the first start on a device to the last end.")]
    replayed_ns: Annotated[Count, Meta(description="The same of the replay.")]
    error: Annotated[float, Meta(description="replayed_ns / span_ns - 1.")]
    is_trustworthy: Annotated[bool, Meta(description="Whether there are no doubts.")]
    doubts: Annotated[list[str], Meta(description="Why the replay is not to be trusted, a clause each.")]
    worst_phase: Annotated[str | None, Meta(description="Phase and occurrence whose end is farthest off.")]
    worst_phase_ns: Annotated[int, Meta(description="By how much: replayed less measured end.")]
    late_starts: Annotated[Count, Meta(description="Starts more than 10 µs after stream and launch let them.")]
    late_ns: Count
    unexplained_starts: Annotated[Count, Meta(description="Of these, those that no other wait of the plan explains.")]
    unexplained_ns: Count


class KeptTold(TypedDict):
    """All that the replay keeps of the run besides measured durations and the waits."""

    gap_ns: Annotated[int, Meta(description="Between two ops back to back on a stream, the median.")]
    launch_latency_ns: Annotated[int, Meta(description="From a launch call's end to its op's start, the median.")]
    wait_latency_ns: Annotated[int, Meta(description="From an op's end to a waiter's start elsewhere, the median.")]
    graph_latency_ns: Annotated[int, Meta(description="From a graph's launch to its first kernel, the median.")]
    drain_ns: Annotated[int, Meta(description="How long before a kernel's end its SMs are free, the median.")]
    quiet_latency_ns: Annotated[
        int, Meta(description="From a kernel's end to when a thread that polled for it went on, the median.")
    ]
    num_pinned: Annotated[Count, Meta(description="Streams that start when they did, held up before the recording.")]


class WaitsRow(TypedDict):
    """The waits that come from one source."""

    source: str
    count: Count
    confidence: Annotated[float, Meta(description="The mean: 1 of what is recorded; of votes, what they leave.")]
    votes_for: Annotated[int | None, Meta(description="Of all of them together; null where nothing was voted on.")]
    votes_against: int | None


def headline_of(sentence: str, replay: Replay) -> str:
    """The answer; where the replay is not to be trusted, first that it is not, and by how much it is off."""
    if replay.is_trustworthy:
        return sentence
    return f"The replay is off, so the answer cannot be told from it: {'; '.join(replay.doubts)}. Untrusted: {sentence}"


def replay_told(replay: Replay) -> ReplayTold:
    """A replay as JSON-able values."""
    return {
        "span_ns": replay.span_ns,
        "replayed_ns": replay.replayed_ns,
        "error": replay.error,
        "is_trustworthy": replay.is_trustworthy,
        "doubts": list(replay.doubts),
        "worst_phase": replay.worst_phase,
        "worst_phase_ns": replay.worst_phase_ns,
        "late_starts": replay.late_starts,
        "late_ns": replay.late_ns,
        "unexplained_starts": replay.unexplained_starts,
        "unexplained_ns": replay.unexplained_ns,
    }


def kept_told(inferred: Inferred) -> KeptTold:
    """What a replay keeps as JSON-able values."""
    kept = inferred.kept
    return {
        "gap_ns": kept.gap_ns,
        "launch_latency_ns": kept.launch_latency_ns,
        "wait_latency_ns": kept.wait_latency_ns,
        "graph_latency_ns": kept.graph_latency_ns,
        "drain_ns": kept.drain_ns,
        "quiet_latency_ns": kept.quiet_latency_ns,
        "num_pinned": kept.num_pinned,
    }


def waits_told(inferred: Inferred) -> list[WaitsRow]:
    """A row a source, in the order of `SOURCES`; those that nothing comes from are left out."""
    votes = ("votes_for", "votes_against")
    rows = {
        row["source"]: row
        for row in inferred.edges.group_by(pl.col("source").cast(pl.String))
        .agg(
            pl.len().alias("count"),
            pl.col("confidence").mean(),
            *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in votes),
        )
        .rows(named=True)
    }
    return [rows[source] for source in SOURCES if source in rows]  # type: ignore[misc]
