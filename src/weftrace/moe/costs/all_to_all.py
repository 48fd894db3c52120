"""How fast does an all-to-all move tokens? DeepEP's published figures, and stated rules between and beyond them.

Normal kernels are published as bandwidth: copies to distinct nodes, the own one counted, x bytes / seconds; inside
one NVLink domain copies to distinct GPUs. Of n nodes one n-th of the copies stays at home, so of a bandwidth b the
part b (1 - 1 / n) crosses the NIC. Low-latency kernels are published as times.

- between two published groups: linear in the logarithm of their number of nodes
- beyond the largest: normal kernels move the same bytes a second through the NIC, low-latency ones take the same time
- other links than H800's (NIC 50 GB/s, NVLink 160 GB/s): in proportion to theirs
- fewer SMs than needed: in proportion. V1, published with 24, is taken to need the training profile's 20
- fewer or more than 8 GPUs of one domain, or of a node: as 8
- DeepEP V2 inside one domain: as fast as V1, with its own 12 SMs

What of this was used stands in the `basis` of the rate, and of every piece priced with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path

from weftrace.errors import ProfileError, WeftraceError
from weftrace.facts import Hardware, hardware
from weftrace.facts.tables import read_tables
from weftrace.moe.operations import Move
from weftrace.moe.setting import Setting

PUBLISHED = Path(__file__).with_suffix(".toml")
#: SMs of the training profile's communication, with which V1 is taken to be as fast as with the published 24.
ENOUGH_SMS_V1 = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRates:
    """A published row: fields as in `all_to_all.toml`."""

    kernels: str
    gpus: int
    nodes: int
    sms: int
    dispatch: float
    combine: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """value: bytes a second of copies, or microseconds of low-latency kernels. basis: where it is from."""

    value: float
    basis: str


@cache
def published(kernels: str) -> tuple[PublishedRates, ...]:
    """The rows of one kind of kernels, smallest group first."""
    rows = read_tables(PUBLISHED, "measured", what="published times of all-to-alls", error=WeftraceError)
    return tuple(sorted((PublishedRates(**row) for row in rows if row["kernels"] == kernels), key=lambda row: row.gpus))


def normal_rate(setting: Setting, move: Move) -> Rate:
    """Bytes a second of kernels that hold SMs. Raises `ProfileError` where no SM is left for them."""
    if setting.comm_sms < 1:
        raise ProfileError(
            f"{setting.comm} moves tokens by kernels on SMs, and comm_sms = {setting.comm_sms} leaves them none"
        )
    nodes, notes = setting.num_domains, []
    rows = published(setting.comm)
    needed = (
        ENOUGH_SMS_V1
        if setting.comm == "deepep-v1"
        else next((row.sms for row in rows if row.nodes >= nodes), rows[-1].sms)
    )
    if nodes < rows[0].nodes:  # V2 is not published for one domain
        rows = published("deepep-v1")
        notes.append("as V1 inside a domain")
    last = rows[-1].nodes
    gb_per_s, note = _between({row.nodes: getattr(row, move) for row in rows}, nodes)
    if nodes > last:
        gb_per_s *= (1 - 1 / last) / (1 - 1 / nodes)
        note = f"extrapolated from {last} nodes: the same rate of the NIC"
    if setting.comm_sms < needed:
        gb_per_s *= setting.comm_sms / needed
        notes.append(f"assumed in proportion to SMs below {needed}")
    elif setting.comm_sms < rows[-1].sms:
        notes.append(f"with {rows[-1].sms} SMs, assumed alike with {setting.comm_sms}")
    scale, scaled = _scale_of_links(setting)
    if setting.bandwidth_reached != 1:
        notes.append(f"{setting.bandwidth_reached:g} of it reached")
    return Rate(
        value=gb_per_s * 1e9 * scale * setting.bandwidth_reached,
        basis=_joined(f"published, {setting.comm}", note, *notes, scaled),
    )


def low_latency_us(setting: Setting, move: Move) -> Rate:
    """Microseconds for the published 128 tokens, hidden 7,168 and 8 experts a token."""
    rows = published("deepep-v1-low-latency")
    nodes = setting.num_domains
    points = {row.nodes: getattr(row, move) for row in rows}
    us, note = _between(points, nodes)
    if nodes > rows[-1].nodes:
        note = f"beyond {rows[-1].nodes} nodes taken as there"
    scale, scaled = _scale_of_links(setting)
    return Rate(value=us / scale, basis=_joined("published, low-latency kernels", note, scaled))


def _between(points: Mapping[int, float], at: int) -> tuple[float, str]:
    """The value at a number of nodes, linear in its logarithm, and what to say of that."""
    known = sorted(points)
    if at in points:
        return points[at], ""
    if at < known[0] or at > known[-1]:
        end = known[0] if at < known[0] else known[-1]
        return points[end], f"extrapolated: as {end} nodes"
    below, above = max(n for n in known if n < at), min(n for n in known if n > at)
    part = log2(at / below) / log2(above / below)
    return points[below] * (1 - part) + points[above] * part, f"interpolated between {below} and {above} nodes"


def _scale_of_links(setting: Setting) -> tuple[float, str]:
    """How much faster the link that matters is than H800's, for which all was published, and what to say of that."""
    ours, theirs = setting.hardware, _published_on()
    inside = setting.num_domains == 1
    a_node = setting.ep // setting.num_domains
    scale = ours.link_bytes_per_s / theirs.link_bytes_per_s if inside else ours.nic_bytes_per_s / theirs.nic_bytes_per_s
    assumed = (
        f"assumed as {theirs.gpus_per_node} GPUs of a domain" if inside else f"assumed the same for nodes of {a_node}"
    )
    note = "" if a_node == theirs.gpus_per_node else assumed
    if scale == 1:
        return 1.0, note
    return scale, _joined(f"scaled to the {'link' if inside else 'NIC'} of {ours.name}", note)


@cache
def _published_on() -> Hardware:
    return hardware("H800")


def _joined(*notes: str) -> str:
    return ", ".join(filter(None, notes))
