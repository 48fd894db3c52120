"""What could collectives reach? The link's peak within a node, the network's between nodes, beside their busbw."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from weftrace.errors import WeftraceError
from weftrace.facts import Hardware, hardware_of_device
from weftrace.units import S

#: Columns that `peaks_of` adds to rows of bandwidth.
PEAK_SCHEMA: dict[str, pl.DataType] = {
    "bound": pl.String(), "peak_GBps": pl.Float64(), "peak_share": pl.Float64(), "note": pl.String(),
}  # fmt: skip
#: Kinds whose data passes through each node in rings or trees, which use the NICs of all its members.
_RINGS = ("all_reduce", "all_gather", "reduce_scatter", "gather", "scatter")
#: Rates of a row that its peak bounds.
RATES = ("busbw_GBps", "best_busbw_GBps", "whole_busbw_GBps")
_IN_SWITCH = "a switch that reduces (NVLS, SHARP) needs fewer bytes than a ring"
_WRONG = "else size, clock or chip is another"


def chip_of(devices: Iterable[tuple[str, int | None, int | None]]) -> Hardware | None:
    """The accelerator that all ranks have; None where they differ or its peaks are not known. devices: of each its
    name, SMs and bytes of memory."""
    found = set(devices)
    try:
        return hardware_of_device(*found.pop())[0] if len(found) == 1 else None
    except WeftraceError:
        return None


def peaks_of(rows: pl.DataFrame, chip: Hardware | None, world_size: int | None) -> pl.DataFrame:
    """Rows of bandwidth with `PEAK_SCHEMA`. group: its name and all its ranks.

    Within a node the peak of busbw is the link's of one GPU, in one direction. Between nodes n ranks, at most g of them
    on a node, share NICs: of rings and trees at most g x NIC x (n-1)/(n-g), and no more than the link where g > 1; of
    all-to-all NIC x (n-1)/(n-g), as what does not stay on the node passes each rank's own NIC; of sends NIC.
    Ranks are assumed to be numbered node by node, and nodes to be full. Null where that does not tell where a group is.
    """
    found = [_peak(row, chip, world_size) for row in rows.iter_rows(named=True)]
    return rows.hstack(pl.DataFrame(found, schema=PEAK_SCHEMA, orient="row"))


def _peak(row: dict[str, Any], chip: Hardware | None, world_size: int | None) -> tuple[Any, ...]:
    rates = [row[name] for name in RATES if row[name] is not None]
    number = 2 if row["collective"] == "send_recv" else row["group_size"]
    if chip is None or not rates or not number:
        return None, None, None, None
    on_a_node = _members_of_a_node(row, number, chip, world_size)
    if on_a_node is None:
        return None, None, None, None
    bound, peak = bound_of(row["collective"], number, on_a_node, chip)
    rate = row["busbw_GBps"] if row["busbw_GBps"] is not None else row["whole_busbw_GBps"]
    return bound, peak, rate / peak if rate is not None else None, _note(row, bound, max(rates) > peak)


def bound_of(collective: str, number: int, on_a_node: int, chip: Hardware) -> tuple[str, float]:
    """What bounds busbw, and its peak in GB/s. on_a_node: the most of the group's members on one node."""
    link = chip.link_bytes_per_s / S
    if on_a_node < number:
        by_network = _network(collective, number, on_a_node, chip.nic_bytes_per_s / S)
        if on_a_node == 1 or by_network < link:
            return "network", by_network
    return "link", link


def _network(collective: str, number: int, on_a_node: int, nic: float) -> float:
    if collective == "send_recv":
        return nic
    away = (number - 1) / (number - on_a_node)
    if collective == "all_to_all":
        return nic * away
    return on_a_node * nic * (away if collective in _RINGS else 1)


def _members_of_a_node(row: dict[str, Any], number: int, chip: Hardware, world_size: int | None) -> int | None:
    """The most ranks of a group that stand on one node; None where nothing tells."""
    size = chip.gpus_per_node
    if world_size is not None and world_size <= size:
        return number
    listed = re.search(r"\[([\d, ]+)\]$", row["group"])
    ranks = {int(rank) for rank in listed[1].split(",") if rank.strip()} if listed else set()
    if len(ranks) == number:
        nodes = [rank // size for rank in ranks]
        return max(nodes.count(node) for node in set(nodes))
    return size if number > size and row["collective"] != "send_recv" else None


def _note(row: dict[str, Any], bound: str, is_above: bool) -> str | None:
    if not is_above:
        return None
    reasons = []
    if row["collective"] in ("all_reduce", "reduce_scatter", "reduce"):
        reasons.append(_IN_SWITCH)
    if bound == "network":
        reasons.append("the nodes may have more NICs, or hold other ranks than assumed")
    return f"above the {bound}'s peak: {', '.join([*reasons, _WRONG])}"
