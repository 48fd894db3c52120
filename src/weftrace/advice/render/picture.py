"""What the picture of a critical path is drawn from: all ops on their streams and threads, and the path through them.

Times count from the first start on a device, as replayed.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import polars as pl

from weftrace.advice.critical_paths import CLASSES, CriticalPath, own_class
from weftrace.advice.render.colours import CLASS_ROLES
from weftrace.advice.render.overlay import stream_name
from weftrace.render.packed import PackedColumn, packed

#: Ops that a page holds at most: those on devices stay first, then the longest of host threads.
MAX_OPS = 200_000
#: Streams and threads that it draws at most: those that the path goes through stay first, then those of devices.
MAX_ROWS = 40
#: Names longer than this are cut: a kernel can spell out 4,000 characters of template arguments.
MAX_NAME = 300


class PathRow(TypedDict):
    """A stream or host thread. first, count: its ops; path_first, path_count: its ops on the path."""

    name: str
    rank: int
    on_device: bool
    first: int
    count: int
    path_first: int
    path_count: int


#: Ops by row and in order of time within a row. start, dur: ns; name: position in `names`; class: in `classes`; slack:
#: ns by which it could start later.
OpColumns = TypedDict(
    "OpColumns",
    {"start": PackedColumn, "dur": PackedColumn, "name": PackedColumn, "class": PackedColumn, "slack": PackedColumn},
)
#: The part of each op that is on the path, by row and in order of time. cause: how it came to run, a position in
#: `causes`; waited_for: 1 + position in `names`, 0 for none; sure: of the wait by which it
#: was reached, in per cent.
PathColumns = TypedDict(
    "PathColumns",
    {"start": PackedColumn, "dur": PackedColumn, "name": PackedColumn, "class": PackedColumn, "cause": PackedColumn,
     "waited_for": PackedColumn, "sure": PackedColumn},
)  # fmt: skip
#: The path's parts, which lie end to end from 0 on.
PartColumns = TypedDict("PartColumns", {"dur": PackedColumn, "name": PackedColumn, "class": PackedColumn})


class HopColumns(TypedDict):
    """Where the path passes from one row to another: positions in `rows`, and times."""

    from_row: list[int]
    from_ns: list[int]
    to_row: list[int]
    to_ns: list[int]


class PathPicture(TypedDict):
    """A critical path on its streams. roles: colour of each class. left_out: ops, and rows, that are not drawn."""

    span_ns: int
    classes: list[str]
    roles: list[str]
    names: list[str]
    causes: list[str]
    rows: list[PathRow]
    ops: OpColumns
    path: PathColumns
    parts: PartColumns
    hops: HopColumns
    left_out_ops: int
    left_out_rows: int


def path_picture(path: CriticalPath, *, before: CriticalPath | None = None, max_ops: int = MAX_OPS) -> PathPicture:
    """A critical path as `path_picture.js` draws it.

    before: of a changed plan the path of the plan that was changed, whose ops are the same: a change may take threads
    apart, and each op of the host is drawn on the thread that it was on.
    """
    begin = int(path.parts.item(0, "from_ns"))
    streams = _streams(path, before)
    ops, on_path = _ops(path, streams, begin), _on_path(path, streams, begin)
    rows, num_rows = _rows(ops, on_path)
    ops = ops.join(rows.select("rank", "stream", "row"), on=("rank", "stream"), maintain_order="left")
    on_path = on_path.join(rows.select("rank", "stream", "row"), on=("rank", "stream"), maintain_order="left")
    kept = ops.sort("on_device", "dur", descending=True).head(max_ops).sort("row", "start", "op")
    ordered = on_path.sort("row", "start", "place")
    parts = path.parts.select(
        pl.col("name").cast(pl.String), class_=pl.col("class_").to_physical(),
        dur=pl.col("until_ns") - pl.col("from_ns"),
    )  # fmt: skip
    named = pl.concat([kept["name"], ordered["name"], ordered["waited_for"].drop_nulls(), parts["name"]])
    names = named.unique(maintain_order=True)
    codes = pl.DataFrame({"name": names, "code": np.arange(len(names))})
    causes = ordered.get_column("cause").unique(maintain_order=True)
    return {
        "span_ns": path.span_ns,
        "classes": list(CLASSES),
        "roles": [CLASS_ROLES[name] for name in CLASSES],
        "names": [name[:MAX_NAME] for name in names],
        "causes": causes.to_list(),
        "rows": _counted(rows, kept, ordered),
        "ops": {
            **_columns(kept, codes),
            "start": _starts(kept),
            "slack": packed(kept.get_column("slack_ns").to_numpy()),
        },
        "path": {
            **_columns(ordered, codes),
            "start": _starts(ordered),
            "cause": packed(_position(ordered.get_column("cause"), causes)),
            "waited_for": packed(_position(ordered.get_column("waited_for"), names) + 1),
            "sure": packed((100 * ordered.get_column("confidence").fill_null(1)).round().to_numpy().astype(np.int64)),
        },
        "parts": _columns(parts, codes),
        "hops": _hops(on_path.sort("place")),
        "left_out_ops": len(ops) - len(kept),
        "left_out_rows": num_rows - len(rows),
    }


def _streams(path: CriticalPath, before: CriticalPath | None) -> pl.Series:
    """The stream or thread of each op, [ops]."""
    own = path.times.plan.ops.get_column("stream")
    if before is None or len(before.times.plan) != len(own):
        return own
    on_device = path.measured.get_column("event").is_not_null()
    return own.zip_with(on_device, before.times.plan.ops.get_column("stream"))


def _ops(path: CriticalPath, streams: pl.Series, begin: int) -> pl.DataFrame:
    """All ops within the span, cut at its ends: op, rank, stream, on_device, name, class_, start, dur, slack_ns."""
    ops = path.times.ops.select("rank", streams, pl.col("name").cast(pl.String), "start_ns", "end_ns").hstack(
        path.measured.select(class_=own_class().to_physical(), on_device=pl.col("event").is_not_null())
    )
    cut = ops.with_row_index("op").with_columns(
        pl.col("start_ns", "end_ns").clip(begin, begin + path.span_ns) - begin, slack_ns=pl.Series(path.slack_ns)
    )
    seen = cut.filter((pl.col("end_ns") > 0) & (pl.col("start_ns") < path.span_ns))
    return seen.with_columns(
        pl.col("slack_ns").clip(0), start=pl.col("start_ns"), dur=pl.col("end_ns") - pl.col("start_ns")
    )


def _on_path(path: CriticalPath, streams: pl.Series, begin: int) -> pl.DataFrame:
    """The part of each op that lies on the path, in the path's order, which `place` keeps."""
    names = path.times.plan.ops.get_column("name").cast(pl.String)
    ops = path.path.with_row_index("place").select(
        "place", "op", "rank", streams.gather(path.path.get_column("op")), "confidence",
        pl.col("name").cast(pl.String), cause="reached_by",
        class_=pl.col("class_").to_physical(), start=pl.col("from_ns").clip(begin) - begin,
        end=pl.col("until_ns").clip(begin) - begin, waited_for=names.gather(path.path.get_column("cause")),
    )  # fmt: skip
    return ops.with_columns(dur=pl.col("end") - pl.col("start")).filter(pl.col("dur") >= 0, pl.col("end") > 0)


def _rows(ops: pl.DataFrame, on_path: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows that are drawn, by rank, devices first: rank, stream, on_device, row; and how many there are."""
    each = ops.group_by("rank", "stream").agg(pl.col("on_device").any())
    held = on_path.group_by("rank", "stream").agg(pl.col("dur").sum().alias("held"))
    ranked = each.join(held, on=("rank", "stream"), how="left").sort(
        pl.col("held").is_not_null(), "on_device", "held", "rank", "stream",
        descending=[True, True, True, False, False], nulls_last=True,
    )  # fmt: skip
    kept = ranked.head(MAX_ROWS).sort("rank", "on_device", "stream", descending=[False, True, False])
    return kept.with_row_index("row"), len(ranked)


def _counted(rows: pl.DataFrame, ops: pl.DataFrame, on_path: pl.DataFrame) -> list[PathRow]:
    several = rows.get_column("rank").n_unique() > 1
    counts = [dict(frame.group_by("row").len().iter_rows()) for frame in (ops, on_path)]
    found: list[PathRow] = []
    first, path_first = 0, 0
    for row in rows.iter_rows(named=True):
        count, path_count = (each.get(row["row"], 0) for each in counts)
        name = stream_name(row["stream"])
        found.append(
            {
                "name": f"rank {row['rank']}, {name}" if several else name,
                "rank": row["rank"], "on_device": row["on_device"], "first": first, "count": count,
                "path_first": path_first, "path_count": path_count,
            }
        )  # fmt: skip
        first, path_first = first + count, path_first + path_count
    return found


def _columns(frame: pl.DataFrame, codes: pl.DataFrame) -> PartColumns:
    code = frame.select("name").join(codes, on="name", how="left", maintain_order="left").get_column("code")
    return {
        "dur": packed(frame.get_column("dur").to_numpy()),
        "name": packed(code.to_numpy()),
        "class": packed(frame.get_column("class_").to_numpy()),
    }


def _starts(frame: pl.DataFrame) -> PackedColumn:
    return packed(frame.get_column("start").to_numpy())


def _position(values: pl.Series, among: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of each value its position among others, -1 for null."""
    codes = pl.DataFrame({"value": among, "code": np.arange(len(among))})
    found = values.rename("value").to_frame().join(codes, on="value", how="left", maintain_order="left")
    return found.get_column("code").fill_null(-1).to_numpy()


def _hops(on_path: pl.DataFrame) -> HopColumns:
    """on_path: in the path's order."""
    hops = on_path.select(
        from_row=pl.col("row").shift(1), from_ns=pl.col("end").shift(1), to_row="row", to_ns="start"
    ).filter(pl.col("from_row") != pl.col("to_row"))  # fmt: skip
    return hops.to_dict(as_series=False)  # type: ignore[return-value]
