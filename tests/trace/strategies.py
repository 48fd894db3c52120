"""Random traces: every column, nulls, hostile texts, extreme numbers; what a reader settles is settled."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st

from weftrace.trace.chrome.facts import DEVICE_LIMITS
from weftrace.trace.model import (
    DEVICE_CATEGORIES,
    EVENT_SCHEMA,
    LAUNCH_CATEGORIES,
    MEMORY_SCHEMA,
    Device,
    Trace,
    Track,
    events_frame,
)

HOSTILE = (
    "", " ", '"', "\\", '\\"', "\0", "\x1f\x7f", "\n", "},{", "}]", "]}", '"traceEvents":[', "</script><img onerror=x>",
    "\u2028", "é", "核", "🧵", "\ufeff", "NaN", "null", "-0", "007", "1e5", "٣", "9" * 30,
)  # fmt: skip
LIMIT_NS = 4_611_686_018_427_386_000  # times and ends that a reader keeps lie within it (chrome_times.MAX_NS)

_texts = st.sampled_from(HOSTILE) | st.text(max_size=8)
_idents = st.sampled_from(("0", "7", "-1", "-12", "1166", "stream 7", "Spans", "", *HOSTILE)).map(str.strip) | st.text(
    max_size=6
).map(str.strip)
_categories = st.sampled_from(
    (
        *DEVICE_CATEGORIES,
        *LAUNCH_CATEGORIES,
        "cpu_op",
        "user_annotation",
        "gpu_user_annotation",
        "cuda_sync",
        "overhead",
        "mtia_ccp_events",
        "",
        '"}]',
    )
)
_int64 = st.integers(0, 9) | st.integers(-(2**63), 2**63 - 1).filter(lambda n: n != -(1 << 62))
_int32 = st.integers(0, 9) | st.integers(-(2**31) + 1, 2**31 - 1)
_any_time = st.integers(1_740_461_679_470_630_000, 1_740_461_679_603_007_123) | st.integers(
    -LIMIT_NS // 2, LIMIT_NS // 2
)
_counts = st.integers(0, 2**31 - 1)
_limits = st.integers(1, 2**31 - 1)
_lists = ("[[1,512],[],[]]", '["long int","c10::BFloat16",""]', "[5]", "[[[2,3],[4]],1.5,null]", '["\\"}]"]')
_called = st.sampled_from(_lists) | _texts.map(str.strip).filter(lambda text: text and not text.startswith("["))
#: Launch dimensions that are more than [n, 1, 1], and their product.
_dims = st.sampled_from(
    (("[8,16,5]", 640), ("[7]", 7), ("[2,1]", 2), ("[1,1,3]", 3), ("[]]", None), ("grid(9,)", None))
)
_OWN_TEXTS = dict.fromkeys(("input_shapes", "input_types", "input_strides", "input_values", "call_stack"), _called)


@st.composite
def _rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    times = draw(
        st.sampled_from(
            (
                st.integers(0, 40),
                st.integers(-(10**9), 10**9),
                st.integers(1_740_461_679_470_630_000, 1_740_461_679_603_007_123),
                st.integers(-LIMIT_NS, LIMIT_NS),
            )
        )
    )
    lengths = st.integers(0, 5000) | st.integers(0, LIMIT_NS)
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row: dict[str, Any] = {"name": draw(_texts), "cat": draw(_categories)}
        row |= {"pid": draw(_idents), "tid": draw(_idents), "ts_ns": draw(times)}
        row["dur_ns"] = min(draw(lengths), LIMIT_NS - max(0, row["ts_ns"]))
        for column, dtype in EVENT_SCHEMA.items():
            if column not in row and column != "flow_id" and draw(st.booleans()):
                values = {pl.Int64(): _int64, pl.Int32(): _int32, pl.Categorical(): _texts}[dtype]
                row[column] = draw(_OWN_TEXTS.get(column, values))
        for text, product in (("grid", "num_blocks"), ("block", "num_threads")):
            if text in row:
                row[text], row[product] = draw(_dims)
                if row[product] is None:
                    del row[product]
        rows.append(_settled(row))
    return rows


def _settled(row: dict[str, Any]) -> dict[str, Any]:
    """As the reader leaves it: device events have a device and a stream, host calls have no place on a device (but may
    tell grids, bytes and waits), graphs have ids above 0, an operator's collective has a name or a group."""
    if row["cat"] in DEVICE_CATEGORIES:
        row.setdefault("device", 0)
        row.setdefault("stream", 7)
    elif row["cat"] in (*LAUNCH_CATEGORIES, "cpu_op", "user_annotation"):
        _drop(row, "device", "stream")
    if row["cat"] == "cpu_op":
        _drop(row, "moved_bytes", "graph_id", "graph_node_id", "wait_stream", "wait_correlation")
        _drop(row, "registers", "shared_bytes", "occupancy")
        if "num_blocks" not in row:
            _drop(row, "num_threads")
            if "grid" not in row:
                _drop(row, "block")
        if not row.keys() & {"collective", "group"}:
            _drop(row, "in_elems", "out_elems", "dtype", "group_size", "group_ranks", "comm_seq",
                  "src_rank", "dst_rank")  # fmt: skip
    if row.get("graph_id", 0) <= 0:
        _drop(row, "graph_id", "graph_node_id")
    return row


def _drop(row: dict[str, Any], *columns: str) -> None:
    for column in columns:
        row.pop(column, None)


def _with_flows(draw: st.DrawFn, rows: list[dict[str, Any]]) -> None:
    """Flow ids where the reader finds them: on device work without a correlation, and on launches of such work."""
    places = [(row["ts_ns"], row["pid"], row["tid"]) for row in rows]
    alone = [row for row, place in zip(rows, places, strict=True) if places.count(place) == 1]
    ids = st.integers(1, 5) | st.integers(-(1 << 62) + 1, (1 << 62) - 1)
    used = []
    for row in alone:
        if row["cat"] in DEVICE_CATEGORIES and row.get("correlation", 0) <= 0 and draw(st.booleans()):
            row["flow_id"] = draw(ids)
            used.append(row["flow_id"])
    for row in alone:
        if used and row["cat"] in LAUNCH_CATEGORIES and draw(st.booleans()):
            row["flow_id"] = draw(st.sampled_from(used))


@st.composite
def _memory(draw: st.DrawFn) -> pl.DataFrame:
    """Memory events in order of time, as the reader leaves them."""
    values = {pl.Int64(): st.none() | _int64, pl.Int32(): st.none() | _int32, pl.Categorical(): _idents}
    columns: dict[str, st.SearchStrategy[Any]] = {column: values[dtype] for column, dtype in MEMORY_SCHEMA.items()}
    columns |= {"ts_ns": _any_time, "bytes": _int64}
    rows = draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4))
    return pl.DataFrame(rows, schema=MEMORY_SCHEMA).sort("ts_ns", maintain_order=True)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(_rows())
    _with_flows(draw, rows)
    window = st.tuples(_any_time, _any_time).map(lambda times: (min(times), max(times)))
    tracks = st.builds(
        Track,
        pid=_idents,
        tid=st.none() | _idents,
        name=_texts,
        sort_index=st.none() | st.integers(-1, 1 << 40),
    ) | st.builds(Track, pid=_idents, name=_texts, labels=_texts)
    return Trace(
        events=events_frame({c: [row.get(c) for row in rows] for c in EVENT_SCHEMA}, len(rows)),
        rank=draw(st.none() | _counts),
        world_size=draw(st.none() | _counts),
        memory=draw(st.none() | _memory()),
        devices=tuple(
            draw(
                st.lists(
                    st.builds(
                        Device,
                        id=_counts,
                        name=_texts,
                        num_sms=st.none() | _counts,
                        memory_bytes=st.none() | st.integers(0, (1 << 62) - 1),
                        capability=st.none() | st.tuples(_limits, _counts),
                        **{field: st.none() | _limits for field in DEVICE_LIMITS},
                    ),
                    max_size=2,
                )
            )
        ),
        tracks=tuple(draw(st.lists(tracks, max_size=4, unique_by=lambda track: (track.pid, track.tid)))),
        window_ns=draw(st.none() | window if rows else window),
        backend=draw(st.none() | _texts.filter(bool)),
        simulated=draw(st.booleans()),
        info=draw(
            st.dictionaries(_texts, _texts, max_size=3)
            | st.sampled_from(("0", "1740461679000000000", "9" * 19, "-1", "x")).map(
                lambda v: {"baseTimeNanoseconds": v}
            )
        ),
    )
