"""On which hosts do the ranks of a job run? By names that files hold, or by clocks that differ."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import polars as pl

from weftrace.analysis.clocks import ClockOffset
from weftrace.analysis.collective_peaks import bound_of
from weftrace.facts import Hardware
from weftrace.trace.work import Work
from weftrace.units import MS

#: torch's own name of a file: host_pid.time.pt.trace.json.
_FILE = re.compile(r"(?P<host>.+)_\d+\.\d+\.pt\.trace\.json(\.gz)?")
_NO_HOST = re.compile(r"(?i)(.*[^a-z])?(rank|worker|gpu|device|dp|tp|pp|ep|step)[_-]?\d*")
_APART_NS = MS  # of clocks of one host: profilers read them more exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """of: the host of each rank, a number; empty where nothing tells it. how: what tells it."""

    of: Mapping[int, int] = field(default_factory=dict)
    how: str = ""

    @property
    def number(self) -> int:
        return len(set(self.of.values()))

    def bounded(self, rows: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
        """Rows of bandwidth whose bound and peak_GBps are by the hosts of each group's ranks, where they are known."""
        if chip is None or not self.of:
            return rows
        told = [
            self._bound(row["collective"], row["group"], row["group_size"], chip) for row in rows.iter_rows(named=True)
        ]
        known = pl.DataFrame(told, {"bound": pl.String(), "peak_GBps": pl.Float64()}, orient="row")
        return rows.with_columns(
            pl.coalesce(known.get_column(name), name).alias(name) for name in ("bound", "peak_GBps")
        )

    def _bound(
        self, collective: str, group: str | None, size: int | None, chip: Hardware
    ) -> tuple[str | None, float | None]:
        listed = re.search(r"\[([\d, ]+)\]$", group or "")
        ranks = {int(rank) for rank in listed[1].split(",") if rank.strip()} if listed else set(self.of)
        if not size or len(ranks) != size or not ranks <= set(self.of):
            return None, None
        hosts = [self.of[rank] for rank in ranks]
        return bound_of(collective, size, max(hosts.count(host) for host in set(hosts)), chip)


def hosts_of(works: Sequence[Work], clocks: Sequence[ClockOffset]) -> Hosts:
    """The hosts of ranks: by names if each has one; else by clocks, where some are too far apart for one host."""
    names = {work.trace.rank: _name_of(work) for work in works if work.trace.rank is not None}
    if names and all(names.values()):
        order = sorted({name for name in names.values() if name})
        return Hosts(of={rank: order.index(name or "") for rank, name in names.items()}, how="by the hosts' names")
    offsets = sorted((clock.offset_ns, clock.rank) for clock in clocks if clock.offset_ns is not None)
    if len(offsets) < len(names) or len(offsets) < 2:
        return Hosts()
    of, number = {offsets[0][1]: 0}, 0
    for (before, _), (offset, rank) in itertools.pairwise(offsets):
        number += offset - before > _APART_NS
        of[rank] = number
    return Hosts(of=of, how="by clocks that are apart") if number else Hosts()


def _name_of(work: Work) -> str | None:
    if name := work.trace.info.get("host_name"):
        return str(name)
    found = _FILE.fullmatch(PurePath(work.trace.path).name)
    return found["host"] if found and not _NO_HOST.fullmatch(found["host"]) else None
