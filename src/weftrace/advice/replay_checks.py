"""How far is each of many files from a replay of the plan that is inferred from it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import polars as pl
from msgspec import Meta

from weftrace.advice.document import WaitsRow, waits_by_source
from weftrace.advice.jobs import infer_job
from weftrace.errors import WeftraceError
from weftrace.files.schemas import Count
from weftrace.files.sources import DEFAULT_MAX_BYTES
from weftrace.files.values import to_document
from weftrace.notebook import InNotebook
from weftrace.plan import Kept, Replay
from weftrace.plan.inference.values import SOURCES
from weftrace.trace import Trace, read
from weftrace.units import signed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCheck:
    """One file: its replay, or the reason why no plan could be inferred."""

    name: str
    reason: Annotated[str | None, Meta(description="Why there is no plan; null where there is one.")] = None
    num_ops: Annotated[Count, Meta(description="On devices and on host threads.")] = 0
    num_events: Annotated[Count, Meta(description="Of these, on devices.")] = 0
    waits: Annotated[tuple[WaitsRow, ...], Meta(description="Those of the plan, by where they come from.")] = ()
    kept: Kept | None = None
    replay: Replay | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReplayChecks(InNotebook):
    """Many files, each replayed by itself."""

    files: tuple[ReplayCheck, ...]

    @property
    def replays(self) -> dict[str, Replay]:
        """File -> its replay, of those that gave a plan."""
        return {file.name: file.replay for file in self.files if file.replay is not None}

    @property
    def are_trustworthy(self) -> bool:
        """Whether the replay of every file that gave a plan is to be trusted."""
        return all(replay.is_trustworthy for replay in self.replays.values())

    def _describe(self) -> list[tuple[str, str]]:
        return [(name, signed(replay.error, 2)) for name, replay in self.replays.items()]


def check_replays(
    sources: Iterable[str | Trace],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReplayChecks:
    """Infer the plan of each source and replay it.

    sources: files or open traces, each by itself with all its devices: the ranks of a job are not joined. max_bytes:
    as `weftrace.open` has it. on_progress: gets how many are done, and of how many. A file that cannot be used stands
    in the result with its reason.
    """
    listed, files = list(sources), list[ReplayCheck]()
    for number, source in enumerate(listed, 1):
        files.append(_check(source, max_bytes))
        if on_progress is not None:
            on_progress(number, len(listed))
    return ReplayChecks(files=tuple(files))


def checks_table(checks: ReplayChecks) -> pl.DataFrame:
    """One row per file: its ops, how many waits come from each source, and its replay."""
    rows = []
    for file in checks.files:
        counts = {row["source"]: row["count"] for row in file.waits}
        own = {name: getattr(file, name) for name in ("name", "reason", "num_ops", "num_events")}
        waits = {f"waits_{source}": counts.get(source, 0) for source in SOURCES}
        replay = {**to_document(file.replay), "doubts": "; ".join(file.replay.doubts)} if file.replay else {}
        rows.append({**own, **waits, **replay})
    return pl.DataFrame(rows, infer_schema_length=None)


def _check(source: str | Trace, max_bytes: int) -> ReplayCheck:
    name = source if isinstance(source, str) else source.path or "trace"
    try:
        inferred = infer_job(read(source, max_bytes=max_bytes) if isinstance(source, str) else source)
    except WeftraceError as error:
        return ReplayCheck(name=name, reason=str(error).removeprefix(f"{name}: "))
    return ReplayCheck(
        name=name,
        num_ops=len(inferred.plan),
        num_events=int(inferred.measured.get_column("event").count()),
        waits=tuple(waits_by_source(inferred)),
        kept=inferred.kept,
        replay=inferred.replay,
    )
