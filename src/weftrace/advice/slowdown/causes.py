"""Which kinds of cause slow a job down? Each is found in the durations, and repaired: what they would be without it.

A finding never rests on times of waiting: durations of computation, transfers apart from waiting, and the time between
ranges, or of host threads, are each rank's own.
"""

from __future__ import annotations

import polars as pl

from weftrace.advice.slowdown.found import Found, added_by, added_to, scaled, with_durations
from weftrace.advice.slowdown.links_and_hosts import host_collections, late_hosts, slow_links
from weftrace.advice.slowdown.micro_batches import (
    held_up_forwards,
    lengths_of_kernels,
    named_collections,
    uneven_lengths,
)
from weftrace.advice.slowdown.slow_ranks import slow_at_times, slow_beside_lengths, slow_workers
from weftrace.advice.slowdown.uneven_stages import long_stages


def found_causes(ops: pl.DataFrame, *, is_pipeline: bool, are_ranges: bool) -> list[Found]:
    """All causes that the durations tell. ops: frame of `pace.PACED`."""
    for named in named_collections(ops) if are_ranges else ():
        even = with_durations(ops, named.repaired_ns)
        return [named, *(added_by(ops, even, each) for each in _others(even, is_pipeline, are_ranges))]
    return _others(ops, is_pipeline, are_ranges)


def _others(ops: pl.DataFrame, is_pipeline: bool, are_ranges: bool) -> list[Found]:
    """All but collections of garbage that ranges name."""
    rows = ops.with_row_index("row").with_columns(pl.col("type").fill_null(""))
    lengths_of = uneven_lengths if are_ranges else lengths_of_kernels
    collections = list(held_up_forwards(rows, rows)) if are_ranges else []
    base = rows
    for each in collections:
        base = with_durations(base, scaled(base, rows, each))
    lengths, slow = list(lengths_of(base)), slow_workers(base, 0.0)
    even = base
    if lengths:
        slow = slow_beside_lengths(base, lengths[0])
        repaired = with_durations(base, slow[0].repaired_ns) if slow else base
        lengths = [added_to(base, repaired, each) for each in lengths_of(repaired, by="stage")] or lengths
        even = with_durations(base, lengths[0].repaired_ns)
    clean = with_durations(base, added_to(base, even, slow[0], back=True).repaired_ns) if slow else even
    if are_ranges and not collections:
        collections = list(held_up_forwards(clean, rows))
        for each in collections:
            clean = with_durations(clean, scaled(clean, rows, each))
    at_times = slow_at_times(clean)
    found = [added_to(rows, base, each) for each in (*lengths, *slow)] + collections
    found += [added_to(rows, clean, each) for each in at_times]
    for each in at_times:
        clean = with_durations(clean, scaled(clean, clean, each))
    if is_pipeline:
        found += long_stages(clean, rows, are_ranges=are_ranges)
    found += slow_links(rows)
    stops = [] if are_ranges else list(host_collections(rows))
    running = with_durations(rows, stops[0].repaired_ns) if stops else rows
    return [*found, *stops, *(added_by(rows, running, each) for each in late_hosts(running, are_ranges=are_ranges))]
