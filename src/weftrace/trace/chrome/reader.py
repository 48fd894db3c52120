"""Chrome trace JSON, as Kineto writes it, into a `Trace`: one pass, bounded memory, nothing lost without being counted.

Each file answers one question, in the order in which bytes become a trace:

    files/sources   the bytes of a file, decompressed          foreign         what it seems to be, if it is no trace
    cut             sound text, cut between events             walk            damaged text, event by event
    events          one event, decoded or repaired             json_text       JSON as it is written in the wild
    mend            what was meant, where it is not JSON       tally           what was left out, and why
    table           what becomes of each event                 gather          events into arrays
    argument_texts  arguments in which few events differ       columns         arrays into columns
    times           microseconds into exact nanoseconds        frames          Python frames, where they are asked for
    facts           what the file says of itself               flows           arrows, where correlation fails
    ahead           text read before its turn                  stated          arguments of files that no Kineto wrote
    helpers         processes that do that                     pieces          what they send back, put in order
    memory_events   what was allocated and freed           recorders       which other tool wrote a file

The way back: writer (a trace as such a file), annotate (a file's copy with events added), lane_events (those of lanes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial

from weftrace.errors import TraceError
from weftrace.files.sources import DEFAULT_MAX_BYTES, ByteStream, open_bytes
from weftrace.trace.chrome.ahead import Ahead
from weftrace.trace.chrome.cut import read_events
from weftrace.trace.chrome.facts import (
    base_ns,
    devices,
    distributed,
    facts_of,
    info,
    rank_in_name,
    small_count,
    text_of,
)
from weftrace.trace.chrome.flows import has_orphans, with_flows
from weftrace.trace.chrome.helpers import MOST_WORKERS, Helpers, default_workers, helpers_can_be
from weftrace.trace.chrome.peers import with_ranks_of_the_job
from weftrace.trace.chrome.recorders import jax, rocprof_1
from weftrace.trace.chrome.stated import StatedTable, is_plain
from weftrace.trace.chrome.table import Table
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.model import Trace
from weftrace.trace.plain.reading import read_plain

#: Of text, from which on a file is worth other processes: they take a third of a second to begin.
MANY_BYTES = 100_000_000

__all__ = ["rank_in_name", "read_chrome"]


def read_chrome(
    path: str | os.PathLike[str],
    *,
    rank: int | None = None,
    python_functions: bool = False,
    frames: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
    workers: int | None = None,
) -> Trace:
    """Read one rank's Chrome/Kineto JSON, plain or compressed, local or remote.

    rank: overrides what the file says. frames: keep `with_stack`'s Python frames, which are most of such a file, as
    `Trace.frames`; time by module and by function needs them. python_functions: keep them among the events instead,
    with all columns, which takes much memory. max_bytes: limit on the decompressed size. on_progress: gets the number
    of stored bytes of each piece read. workers: processes that read it, this one included, at most 16; by default one,
    and as many as there are processors, up to four, from the first 100 MB of text on. The trace does not depend on it.

    Raises TraceError when the file is not a trace or nothing of it can be kept, TraceTooLarge past `max_bytes`.
    """

    def opened(on_progress: Callable[[int], None] | None = None) -> ByteStream:
        return open_bytes(path, max_bytes=max_bytes, on_progress=on_progress)

    begin_bytes = MANY_BYTES if workers is None else 0
    number = min(workers or default_workers(), MOST_WORKERS)

    def begin() -> Helpers | None:
        try:
            return Helpers(number - 1)
        except OSError:  # no memory or no processes to be had: this one reads alone
            return None

    ahead = partial(Ahead, begin=begin, begin_bytes=begin_bytes) if number > 1 and helpers_can_be() else None
    return read_stream(
        opened(on_progress), opened, rank=rank, python_functions=python_functions, frames=frames, ahead=ahead
    )


def read_stream(
    stream: ByteStream,
    again: Callable[[], ByteStream],
    *,
    rank: int | None = None,
    python_functions: bool = False,
    frames: bool = False,
    ahead: Callable[[Table], Ahead] | None = None,
) -> Trace:
    """`read_chrome` of bytes in chunks of any size. again: opens the same bytes once more, for a second pass. ahead:
    what reads text for a table before its turn."""
    tally = Tally()
    table = Table(tally, python_functions=python_functions, frames=frames)
    with closing(ahead(table)) if ahead else nullcontext() as others:
        facts = facts_of(read_events(stream, table, others), tally)
    table.close()
    origin_ns = base_ns(facts)
    events = table.columns.frame(origin_ns)
    memory = table.memory.frame(origin_ns)
    window = table.window_ns
    if events.is_empty() and window is None:
        raise TraceError(f"{stream.path}: {_nothing_kept(tally, stream.truncated)}")
    world = distributed(facts)
    in_file = small_count(world.get("rank"))
    number = next((r for r in (rank, in_file, rank_in_name(stream.path)) if r is not None), None)
    trace = Trace(
        events=with_ranks_of_the_job(events, world, number),
        path=stream.path,
        rank=number,
        world_size=small_count(world.get("world_size")),
        devices=tuple(devices(facts)),
        tracks=tuple(table.tracks()),
        window_ns=window and (window[0] + origin_ns, window[1] + origin_ns),
        backend=text_of(world.get("backend")) or None,
        simulated=facts.get("weftrace_simulated") is True,
        info=info(facts, tally),
        quality=tally.quality(stream.truncated),
        frames=None if table.frames is None else table.frames.frame(origin_ns),
        memory=memory,
    )
    if tally.skipped["flow"] and has_orphans(events):
        return with_flows(trace, again(), facts, exact=table.exact)
    has_frames = tally.skipped["python_function"] or (trace.frames is not None and trace.frames.height)
    if window is None and not has_frames and is_plain(events):
        if other := rocprof_1(track.name for track in trace.tracks):
            raise TraceError(f"{stream.path}: {other}")
        with_plain = _with_plain(trace, again(), exact=table.exact)
        if with_plain.plain is None and (other := jax(track.name for track in trace.tracks)):
            raise TraceError(f"{stream.path}: {other}")
        return with_plain
    return trace


def _with_plain(trace: Trace, stream: ByteStream, *, exact: bool) -> Trace:
    """The trace with what its events are, where no profiler of devices wrote it: read once more, with all arguments."""
    table = StatedTable(exact=exact)
    read_events(stream, table)
    table.close()
    stated = table.stated.stated_frame()
    assert stated.height == len(trace), (stated.height, len(trace))
    plain = read_plain(trace.events, stated, trace.tracks, rank=trace.rank)
    if plain is None:
        return trace
    return replace(trace, plain=plain, rank=plain.workers[0].rank if len(plain.workers) == 1 else None)


def _nothing_kept(tally: Tally, truncated: str | None) -> str:
    """Why a file with a list of events makes no trace, and what helps."""
    parts = ["holds no event that can be kept"]
    if truncated:
        parts.append(f"it is damaged: {truncated}")
    if tally.dropped:
        number = sum(tally.dropped.values())
        parts.append(f"{number:,} {'was' if number == 1 else 'were'} dropped ({tally.main_losses()})")
    if tally.skipped:
        skipped = ", ".join(f"{count:,} {kind}" for kind, count in tally.skipped.most_common(3))
        parts.append(f"of no use here: {skipped}")
    return (
        "; ".join(parts)
        + ". Record the run again with torch.profiler, and let the profiler stop before the process ends."
    )
