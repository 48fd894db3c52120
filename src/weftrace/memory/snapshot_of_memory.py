"""What an allocator held when a snapshot was taken, what stood free in it, and which stacks held most at the peak."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import polars as pl
from msgspec import Meta

from weftrace.analysis.memory.curves import CHANGE_SCHEMA, CurveRow, alive_at, bounded_curve
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count, Share
from weftrace.files.sources import file_name
from weftrace.files.values import As
from weftrace.memory.snapshots import (
    ACTIVE,
    ALLOCATES,
    DEFAULT_MAX_BYTES,
    FAILED,
    INACTIVE,
    PENDING,
    RESERVES,
    RawSnapshot,
    read_raw,
)
from weftrace.notebook import InNotebook
from weftrace.units import size

_MOST_ROWS = 40
BEFORE, OTHERS = "(before the history)", "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRow:
    """Blocks that one Python stack allocated, innermost frame first. The rows add up to what is held, to the byte."""

    stack: Annotated[
        str,
        Meta(
            description="Up to six frames outside of torch, the innermost first. (before the history): of blocks that "
            "were allocated before it began. (others): the rows that follow."
        ),
        Shown("allocated by", wide=True),
    ]
    num_blocks: Annotated[Count | None, Meta(description="Null if only the sum is known."), Shown("blocks")]
    held_bytes: Annotated[int, Shown("bytes")]
    share: Annotated[float, Meta(description="Of all that is held then."), Shown("share")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """Memory that the allocator took from the device in one piece, cut into blocks."""

    kind: Annotated[str, Meta(description="small: of blocks up to 1 MiB; large.")]
    stream: str
    num_segments: Annotated[Count, Shown("segments")]
    total_bytes: Annotated[Count, Shown("size")]
    active_bytes: Annotated[Count, Meta(description="In blocks that are in use."), Shown("active")]
    free_bytes: Annotated[Count, Meta(description="In blocks that are free, or will be soon."), Shown("free")]
    largest_free_bytes: Annotated[Count, Meta(description="The largest free block."), Shown("largest free")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AllocatorHistory(InNotebook):
    """What was allocated over the recorded history, in bytes as they were requested: the allocator rounds them up, to
    512 bytes at least, so that `torch.cuda.max_memory_allocated` is a little more.

    By hand: what is allocated after the last event is the requested bytes of all active blocks; going back, each
    `alloc` takes its size away and each `free_requested` adds it. The largest is the peak.
    """

    num_events: Annotated[Count, Meta(description="Allocations and frees of the history.")]
    span_ns: Annotated[Count | None, Meta(description="From the first to the last; null if times are not recorded.")]
    first_bytes: Annotated[int, Meta(description="Allocated when it began.")]
    peak_bytes: Annotated[int, Meta(description="The most that was allocated at a time.")]
    peak_ns: Annotated[Count | None, Meta(description="When, from the first event.")]
    peak_event: Annotated[int, Meta(description="After which of the events, from 0; -1: before the first.")]
    reserved_bytes: Annotated[int, Meta(description="Reserved at that moment.")]
    most_reserved_bytes: Annotated[int, Meta(description="The most that was reserved at a time.")]
    curve: Annotated[
        pl.DataFrame,
        As(list[CurveRow]),
        Meta(description="Over time, or over the number of the event if times are not recorded."),
    ]
    held: Annotated[pl.DataFrame, As(list[StackRow]), Meta(description="At the peak, most bytes first.")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DeviceMemory(InNotebook):
    """The allocator of one device when the snapshot was taken. active + pending + free = reserved, where blocks fill
    their segments."""

    device: Count
    num_segments: Count
    num_blocks: Count
    reserved_bytes: Annotated[Count, Meta(description="Size of all segments.")]
    active_bytes: Annotated[Count, Meta(description="Blocks that are in use: `torch.cuda.memory_allocated`.")]
    requested_bytes: Annotated[
        Count, Meta(description="What was asked for of these; the rest of active_bytes is rounding.")
    ]
    pending_bytes: Annotated[Count, Meta(description="Blocks that were freed and that another stream still uses.")]
    free_bytes: Annotated[Count, Meta(description="Blocks that are free: fragmentation, as far as nobody fits in.")]
    largest_free_bytes: Annotated[
        Count, Meta(description="The largest free block: what fits without asking the device for more.")
    ]
    stuck_bytes: Annotated[
        Count,
        Meta(description="Free blocks in segments with other blocks in use: empty_cache() does not return them."),
    ]
    num_failed: Annotated[Count, Meta(description="Allocations in the history that failed: out of memory.")]
    failed_bytes: Annotated[Count | None, Meta(description="Bytes that the last of these asked for.")]
    device_free_bytes: Annotated[Count | None, Meta(description="What the device itself had free then.")]
    segments: Annotated[pl.DataFrame, As(list[SegmentRow]), Meta(description="By kind and stream, largest first.")]
    held: Annotated[
        pl.DataFrame, As(list[StackRow]), Meta(description="What is in use at the snapshot, most bytes first.")
    ]
    history: Annotated[AllocatorHistory | None, Meta(description="Null if not recorded.")]

    @property
    def fragmentation_share(
        self,
    ) -> Annotated[Share | None, Meta(description="1 - largest free block / free bytes; null if nothing is free.")]:
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else None

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "device", str(self.device)
        yield "reserved", size(self.reserved_bytes)
        yield "active", size(self.active_bytes)
        yield "free", f"{size(self.free_bytes)}, the largest block {size(self.largest_free_bytes)}"
        if self.history:
            yield "peak", size(self.history.peak_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemorySnapshot(InNotebook):
    """A snapshot of torch's caching allocator (`torch.cuda.memory._dump_snapshot`), device by device."""

    source: Annotated[str, Meta(description="Name of its file.")]
    devices: Annotated[tuple[DeviceMemory, ...], Meta(description="That have segments or a history.")]

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        for device in self.devices:
            yield f"device {device.device}", f"{size(device.active_bytes)} active of {size(device.reserved_bytes)}"


def read_snapshot(path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> MemorySnapshot:
    """A snapshot that `torch.cuda.memory._dump_snapshot` wrote, plain or compressed.

    Nothing of the file is run: only plain values are read of the pickle. Raises `WeftraceError` where it holds anything
    else, or is no snapshot.
    """
    return snapshot_of(read_raw(path, max_bytes=max_bytes), file_name(str(path)))


def snapshot_of(raw: RawSnapshot, source: str) -> MemorySnapshot:
    """The same of what a snapshot holds."""
    every = {*raw.segments.get_column("device").unique(), *raw.entries.get_column("device").unique()}
    return MemorySnapshot(source=source, devices=tuple(_device(raw, device) for device in sorted(every)))


def _device(raw: RawSnapshot, device: int) -> DeviceMemory:
    segments, blocks, entries = (
        each.filter(pl.col("device") == device) for each in (raw.segments, raw.blocks, raw.entries)
    )
    state, total = pl.col("state"), pl.col("size_bytes")
    active = blocks.filter(state == ACTIVE)
    free = blocks.filter(state == INACTIVE)
    used = blocks.filter(state != INACTIVE).get_column("segment").unique().implode()
    failed = entries.filter(pl.col("action") == FAILED)
    held = active.select("stack", pl.col("size_bytes").alias("bytes"))
    return DeviceMemory(
        device=device,
        num_segments=segments.height,
        num_blocks=blocks.height,
        reserved_bytes=_sum(segments),
        active_bytes=_sum(active),
        requested_bytes=_sum(active, "requested_bytes"),
        pending_bytes=_sum(blocks.filter(state == PENDING)),
        free_bytes=_sum(free),
        largest_free_bytes=int(free.select(total.max()).item() or 0),
        stuck_bytes=_sum(free.filter(pl.col("segment").is_in(used))),
        num_failed=failed.height,
        failed_bytes=int(failed.item(-1, "size_bytes")) if failed.height else None,
        device_free_bytes=int(failed.item(-1, "address")) if failed.height else None,
        segments=_segments(segments, blocks),
        held=_stacks(held, raw.stacks, {}),
        history=_history(entries, _sum(active, "requested_bytes"), _sum(segments), raw.stacks),
    )


def _sum(frame: pl.DataFrame, column: str = "size_bytes") -> int:
    return int(frame.get_column(column).sum())


def _segments(segments: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    total, is_active = pl.col("size_bytes"), pl.col("state") == ACTIVE
    inside = blocks.group_by("segment").agg(
        total.filter(is_active).sum().alias("active_bytes"),
        total.filter(~is_active).sum().alias("free_bytes"),
        total.filter(pl.col("state") == INACTIVE).max().alias("largest_free_bytes"),
    )
    rows = segments.join(inside, on="segment", how="left").group_by("kind", "stream").agg(
        pl.len().alias("num_segments"), total.sum().alias("total_bytes"),
        pl.col("active_bytes", "free_bytes").sum(), pl.col("largest_free_bytes").max().fill_null(0),
    )  # fmt: skip
    rows = rows.sort("total_bytes", "kind", "stream", descending=[True, False, False]).head(_MOST_ROWS)
    return rows.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(SegmentRow).items())


def _stacks(held: pl.DataFrame, stacks: tuple[str, ...], known: dict[str, int]) -> pl.DataFrame:
    """`StackRow`s of blocks with stack and bytes, and of sums that no block tells."""
    rows = held.group_by("stack").agg(
        pl.len().cast(pl.Int64).alias("num_blocks"), pl.col("bytes").sum().alias("held_bytes")
    )
    texts = pl.Series("text", stacks, dtype=pl.String)
    rows = rows.select(texts.gather(rows.get_column("stack")).alias("stack"), "num_blocks", "held_bytes")
    rows = rows.sort("held_bytes", "stack", descending=[True, False])
    rest = rows[_MOST_ROWS:]
    told = [{"stack": name, "num_blocks": None, "held_bytes": count} for name, count in known.items() if count]
    if rest.height:
        number = int(rest.get_column("num_blocks").sum())
        told.append({"stack": OTHERS, "num_blocks": number, "held_bytes": _sum(rest, "held_bytes")})
    every = pl.concat([rows.head(_MOST_ROWS), pl.DataFrame(told, schema=rows.schema)])
    share = (pl.col("held_bytes") / max(1, _sum(every, "held_bytes"))).alias("share")
    every = every.with_columns(share).sort("held_bytes", descending=True, maintain_order=True)
    return every.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(StackRow).items())


def _history(
    entries: pl.DataFrame, now_bytes: int, reserved_now: int, stacks: tuple[str, ...]
) -> AllocatorHistory | None:
    signed = [
        pl.col("size_bytes") * pl.col("action").replace_strict(signs, default=0, return_dtype=pl.Int64)
        for signs in (ALLOCATES, RESERVES)
    ]
    entries = entries.filter(pl.col("action") != FAILED).with_columns(bytes=signed[0], taken=signed[1])
    if not entries.filter(pl.col("bytes") != 0).height:
        return None
    is_timed = entries.get_column("time_ns").null_count() == 0
    since = pl.col("time_ns") - pl.col("time_ns").first()
    time = since.cum_max() if is_timed else pl.int_range(pl.len())
    first, first_reserved = (
        _begun(entries.get_column(column), now) for column, now in (("bytes", now_bytes), ("taken", reserved_now))
    )
    changes = entries.select(
        time.alias("time_ns"), pl.col("address").reinterpret(signed=True), "bytes",
        (first + pl.col("bytes").cum_sum()).alias("allocated_bytes"),
        (first_reserved + pl.col("taken").cum_sum()).alias("reserved_bytes"), "stack",
    ).cast(CHANGE_SCHEMA)  # type: ignore[arg-type]  # fmt: skip
    begun = changes.head(1).with_columns(
        pl.lit(first, pl.Int64).alias("allocated_bytes"), pl.lit(first_reserved, pl.Int64).alias("reserved_bytes")
    )
    row = int(changes.get_column("allocated_bytes").arg_max())  # type: ignore[arg-type]
    peak = changes.row(row, named=True)
    if first >= peak["allocated_bytes"]:
        row, peak = -1, begun.row(0, named=True)
    of_blocks = changes.with_row_index("at").filter(pl.col("bytes") != 0)
    until = int((of_blocks.get_column("at").cast(pl.Int64) <= row).sum()) - 1
    blocks, _ = alive_at(of_blocks.drop("at"), until)
    return AllocatorHistory(
        num_events=of_blocks.height,
        span_ns=int(changes.item(-1, "time_ns")) if is_timed else None,
        first_bytes=first,
        peak_bytes=peak["allocated_bytes"],
        peak_ns=peak["time_ns"] if is_timed else None,
        peak_event=row,
        reserved_bytes=peak["reserved_bytes"],
        most_reserved_bytes=max(first_reserved, int(changes.get_column("reserved_bytes").max())),  # type: ignore[arg-type]
        curve=bounded_curve(pl.concat([begun, changes])),
        held=_stacks(blocks, stacks, {BEFORE: peak["allocated_bytes"] - _sum(blocks, "bytes")}),
    )


def snapshot_table(snapshot: MemorySnapshot) -> pl.DataFrame:
    """`StackRow`s with their device and when they are of: the peak of the history, or the moment of the snapshot."""
    parts = [
        held.select(pl.lit(each.device).alias("device"), pl.lit(when).alias("when"), pl.all())
        for each in snapshot.devices
        for when, held in (("snapshot", each.held), *([("peak", each.history.held)] if each.history else []))
    ]
    none = pl.DataFrame(schema={"device": pl.Int32(), "when": pl.String(), **frame_schema(StackRow)})
    return pl.concat([none, *parts], how="vertical_relaxed")


def _begun(changes: pl.Series, now: int) -> int:
    """What there was before the changes: what there is after them less their sum, but never so little that it would
    have been less than nothing in between (of a file that holds the history without the blocks)."""
    return max(now - int(changes.sum()), -min(0, int(changes.cum_sum().min() or 0)))  # type: ignore[arg-type]
