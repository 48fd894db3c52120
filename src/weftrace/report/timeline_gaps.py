"""Gaps of a device as the page's timeline tells them: what each waited for, packed like the events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from weftrace.analysis.waiting.gap_parts import PARTS
from weftrace.analysis.waiting.host_paths import Paths
from weftrace.analysis.waiting.idle_pieces import CAUSES, IdlePieces, idle_pieces
from weftrace.analysis.waiting.naming import may_name
from weftrace.render.packed import packed
from weftrace.report.timeline_types import TimelineGaps
from weftrace.trace.work import Work

#: Gaps that are told: the longest, and stretches that are drawn as unrecorded.
MOST_GAPS, MOST_STRETCHES = 3_000, 5_000
_MAX_NAME_CHARS = 300

_Array = npt.NDArray[np.int64]


def timeline_gaps(work: Work, start_ns: int, *, most: int = MOST_GAPS) -> TimelineGaps | None:
    """The longest gaps of a device, with what each waited for; None where there are none, and of plain ranges.

    start_ns: what times count from, as in `timeline_payload`.
    """
    if work.basis == "ranges":
        return None
    pieces = idle_pieces(work)
    if not len(pieces.gap):
        return None
    hidden = np.isin(pieces.cause, [CAUSES.index(cause) for cause in ("unrecorded", "file_cut")])
    length = pieces.length
    of_gap = np.bincount(pieces.gap, length).astype(np.int64)
    longest = np.sort(np.argsort(-of_gap, kind="stable")[: min(most, int((of_gap > 0).sum()))])
    first_ns = int(pieces.start[0])
    chosen = np.isin(pieces.gap, longest)
    begin = np.full(len(of_gap), np.iinfo(np.int64).max)
    np.minimum.at(begin, pieces.gap, pieces.start)
    names = _Names()
    rows = _rows(pieces, chosen)
    gaps = pieces.gaps.events
    drawn = np.flatnonzero(hidden)
    drawn = np.sort(drawn[np.argsort(-length[drawn], kind="stable")[:MOST_STRETCHES]])
    return {
        "first_ns": first_ns - start_ns,
        "start": packed(begin[longest] - first_ns),
        "dur": packed(of_gap[longest]),
        "before": packed(names.of(gaps.get_column("before_name").gather(longest))),
        "after": packed(names.of(gaps.get_column("name").gather(longest))),
        "call": packed(names.of(gaps.get_column("call").gather(longest))),
        "rows": packed(np.bincount(np.searchsorted(longest, rows["gap"].to_numpy()), minlength=len(longest))),
        "part": packed(rows["part"].to_numpy()),
        "cause": packed(rows["cause"].to_numpy()),
        "ns": packed(rows["ns"].to_numpy()),
        "name": packed(names.of(_innermost(pieces.paths, rows["path"].to_numpy()))),
        "parts": list(PARTS),
        "causes": list(CAUSES),
        "names": names.texts,
        "unrecorded_start": packed(pieces.start[drawn] - first_ns),
        "unrecorded_dur": packed(length[drawn]),
        "left_out": int((of_gap > 0).sum()) - len(longest),
    }


class _Names:
    """Texts, each once; 0 stands for none, else 1 + the place of a text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def of(self, names: pl.Series) -> _Array:
        codes = []
        for name in names.cast(pl.String).to_list():
            if name and name not in self._known:
                self.texts.append(name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 1] + "…")
                self._known[name] = len(self.texts)
            codes.append(self._known[name] if name else 0)
        return np.array(codes, np.int64)


def _rows(pieces: IdlePieces, chosen: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """Of each gap its parts by cause, in order of time: gap, part, cause, ns, path (of most of it, -1: none)."""
    frame = pl.DataFrame(
        {name: getattr(pieces, name)[chosen] for name in ("gap", "part", "cause", "start")}
        | {"path": pieces.named[chosen], "ns": pieces.length[chosen]}
    )
    key = ("gap", "part", "cause")
    by_path = frame.group_by(*key, "path").agg(pl.col("ns").sum(), pl.col("start").min())
    rows = by_path.sort("ns", "path").group_by(key).agg(
        pl.col("ns").sum(), pl.col("path").last(), pl.col("start").min()
    )  # fmt: skip
    return rows.sort("gap", "start", "part", "cause")


def _innermost(paths: Paths, path: _Array) -> pl.Series:
    """The deepest of what was open that a person can act on; else the deepest; null where nothing was."""
    names = paths.names.to_list()
    known: dict[int, str | None] = {-1: None}
    for node in np.unique(path[path >= 0]).tolist():
        at = node
        while at >= 0 and not may_name(names[paths.name[at]], int(paths.kind[at])):
            at = int(paths.parent[at])
        known[node] = names[paths.name[at if at >= 0 else node]]
    return pl.Series([known[node] for node in path.tolist()], dtype=pl.String)
