"""How fast were copies and fills of memory, and what could they reach? Per direction and kinds of memory."""

from __future__ import annotations

from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.efficiency.chips import chip_of
from weftrace.analysis.intervals import of_events
from weftrace.facts import Hardware
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Amount, Count, Ns
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import MIB, S

#: Family of kernel rules -> direction, what bounds it, and how often each byte passes there: a copy inside of a device
#: reads its memory and writes it.
_DIRECTIONS: dict[str, tuple[str, str | None, int]] = {
    "memcpy_h2d": ("HtoD", "PCIe", 1),
    "memcpy_d2h": ("DtoH", "PCIe", 1),
    "memcpy_d2d": ("DtoD", "HBM", 2),
    "memcpy_p2p": ("PtoP", "link", 1),
    "memset": ("memset", "HBM", 1),
}
_OTHER = ("other", None, 1)
#: In shorter copies the time to start one counts for more than the bytes.
_LARGE_BYTES = MIB
_BETWEEN = r"\((.+)\)"
_WHY_ABOVE = {
    "HBM": "the bytes stayed in a cache, or the recorded times are rounded",
    "PCIe": "the host is joined by a faster link, or the recorded times are rounded",
    "link": "the peers are joined by a faster link, or the recorded times are rounded",
}


class CopyRow(TypedDict):
    """Copies of one direction and kinds of memory, or fills; the most time first. GB are 10^9 bytes.

    By hand: GBps = moved_bytes / busy_ns; peak_share = large_GBps / peak_GBps, twice that of DtoD, where bytes are read
    from HBM and written to it.
    """

    direction: Annotated[
        str,
        Meta(
            description="HtoD: host to device. DtoH: device to host. DtoD: within the device. PtoP: between two "
            "devices. memset: a fill. other: the name does not say."
        ),
        Shown("copies"),
    ]
    memory: Annotated[
        str,
        Meta(
            description="Kinds of memory. From pageable memory the driver copies through pinned memory of its own, "
            "which is slower and holds up the host."
        ),
        Shown("memory"),
    ]
    num_calls: Annotated[Count, Shown("calls")]
    moved_bytes: Annotated[Count | None, Meta(description="Recorded; null if no event has a size."), Shown("bytes")]
    num_unsized: Annotated[
        Count | None, Meta(description="Calls without a recorded size; in no rate. Null for none."), Shown("no size")
    ]
    median_bytes: Annotated[Count | None, Meta(description="Median size."), Shown("median")]
    busy_ns: Annotated[Ns, Meta(description="Time in which at least one ran (union)."), Shown("time")]
    GBps: Annotated[
        Amount | None,
        Meta(description="Bytes of the calls with a size over the time in which one of these ran."),
        Shown("GB/s"),
    ]
    large_GBps: Annotated[
        Amount | None,
        Meta(description="The same for calls that move 1 MiB or more: in small ones the start takes most of the time."),
        Shown("GB/s ≥ 1 MiB"),
    ]
    bound: Annotated[str | None, Meta(description="What bounds it: PCIe, HBM, or the link between devices.")]
    peak_GBps: Annotated[
        Amount | None, Meta(description="Its peak in one direction; null if unknown."), Shown("peak GB/s")
    ]
    peak_share: Annotated[
        Amount | None,
        Meta(
            description="Part of the peak that calls of 1 MiB or more reached, DtoD counted twice: it is read and "
            "written. Null if no call is that large."
        ),
        Shown("of peak"),
    ]
    note: Annotated[str | None, Meta(description="Why a rate above the peak is possible."), Shown("note", wide=True)]


def copies(source: Trace | Work) -> pl.DataFrame:
    """A frame of `CopyRow`, the most time first; empty of a host's work. Copies are counted where they start, whole.

    Raises TraceError when a Trace holds several devices.
    """
    work, schema = as_work(source), frame_schema(CopyRow)
    if work.basis != "device":
        return pl.DataFrame(schema=schema)
    name, family = pl.col("name").cast(pl.String), pl.col("family").cast(pl.String)
    memory = name.str.extract(_BETWEEN).fill_null("").alias("memory")
    events = work.started.filter(pl.col("kind") == "memory").select("start_ns", "end_ns", "moved_bytes", family, memory)
    chip, _ = chip_of(work)
    rows = [_row(str(key[0]), str(key[1]), part, chip) for key, part in events.group_by("family", "memory")]
    order = ("busy_ns", "direction", "memory")
    return pl.DataFrame(rows, schema=schema).sort(order, descending=[True, False, False])


def _row(family: str, memory: str, events: pl.DataFrame, chip: Hardware | None) -> CopyRow:
    direction, bound, passes = _DIRECTIONS.get(family, _OTHER)
    sized = events.filter(pl.col("moved_bytes") > 0)
    rate, large = _rate(sized), _rate(sized.filter(pl.col("moved_bytes") >= _LARGE_BYTES))
    peak = _peak(chip, bound)
    share, most = (passes * each / peak if each and peak else None for each in (large, max(rate or 0, large or 0)))
    num_unsized = events.height - sized.height
    return CopyRow(
        direction=direction,
        memory=memory,
        num_calls=events.height,
        moved_bytes=int(sized.get_column("moved_bytes").sum()) if sized.height else None,
        num_unsized=num_unsized or None,
        median_bytes=round(sized.get_column("moved_bytes").median()) if sized.height else None,  # type: ignore[arg-type]
        busy_ns=_busy_ns(events),
        GBps=rate,
        large_GBps=large,
        bound=bound,
        peak_GBps=peak,
        peak_share=share,
        note=_note(bound, most or 0),
    )


def _busy_ns(events: pl.DataFrame) -> int:
    return of_events(events).total_ns


def _rate(events: pl.DataFrame) -> float | None:
    """Bytes a nanosecond, which are GB a second."""
    busy_ns = _busy_ns(events)
    return int(events.get_column("moved_bytes").sum()) / busy_ns if busy_ns else None


def _note(bound: str | None, share: float) -> str | None:
    return f"above the peak: {_WHY_ABOVE[bound]}" if bound and share > 1 else None


def _peak(chip: Hardware | None, bound: str | None) -> float | None:
    """In bytes a nanosecond."""
    if chip is None or bound is None:
        return None
    to_host = chip.pcie_bytes_per_s
    rate = {"HBM": chip.hbm_bytes_per_s, "link": chip.link_bytes_per_s, "PCIe": to_host}[bound]
    return rate / S if rate else None
