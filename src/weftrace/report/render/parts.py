"""The parts of a span and of idle time, as every picture of a report names and colours them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from weftrace.render import palette
from weftrace.render.console_text import clean
from weftrace.report.document_types import Block, RankDocument
from weftrace.report.render.idle_words import PART_WORDS

PartKey = Literal["compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]
AccountKey = Literal["span_ns", "compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]

#: The parts of a span, in the order of the bar: key in the document, name, colour. They add up to the span.
PARTS: tuple[tuple[PartKey, str, str], ...] = (
    ("compute_ns", "compute", palette.COMPUTE),
    ("exposed_communication_ns", "exposed communication", palette.EXPOSED),
    ("exposed_memory_ns", "exposed memory", palette.MEMORY),
    ("idle_ns", "idle", palette.IDLE),
)

#: The columns of a table of spans, and what each is called; the hidden share of communication goes last.
ACCOUNT_KEYS: tuple[AccountKey, ...] = (
    "span_ns", "compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns",
)  # fmt: skip
ACCOUNT_HEADS = ("compute", "exposed comm.", "exp. memory", "idle", "hidden")

#: The parts of idle time, in the order of the bar: key in `idle_account`, name, colour. They add up to it.
IDLE_PARTS: tuple[tuple[str, str, str], ...] = tuple(
    (f"{part}_ns", name.lower(), palette.IDLE_PART_COLOURS[part]) for part, (name, _) in PART_WORDS.items()
)


def several_devices(ranks: Sequence[RankDocument]) -> bool:
    """Whether some process drove several devices, so that its rank alone does not name one."""
    devices = {(rank["rank"], rank["path"], rank["device"]) for rank in ranks}
    return len({(number, path) for number, path, _ in devices}) < len(devices)


def rank_name(rank: RankDocument | Block, *, with_device: bool = False) -> str:
    """What a rank is called where nothing else tells it."""
    name = f"rank {rank['rank']}" if rank["rank"] is not None else clean(rank["path"] or "rank unknown")
    name = clean(rank["name"]) or name
    return f"{name}, device {rank['device']}" if with_device else name
