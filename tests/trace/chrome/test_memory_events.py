"""What was allocated and freed is a table beside the events, however the file is read and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.trace.chrome.files import at, event, read_file, read_text, text_of
from weftrace.trace.chrome.reader import read_chrome
from weftrace.trace.chrome.writer import write_chrome
from weftrace.trace.model import MEMORY_SCHEMA, Trace
from weftrace.trace.parquet import load_parquet, save_parquet

FULL = {"Total Reserved": 4096, "Total Allocated": 512, "Bytes": 512, "Addr": 1 << 46, "Device Id": 0, "Device Type": 1}
LOST = "memory event without usable time or bytes"


def memory(ts: Any, args: Any = FULL, **more: Any) -> dict[str, Any]:
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 5, "tid": 6, "ts": ts,
            "args": args, **more}  # fmt: skip


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Times, and the numbers of each event."""
    assert trace.memory is not None
    assert dict(trace.memory.schema) == MEMORY_SCHEMA
    return trace.memory.drop("pid", "tid").rows()


def test_by_hand() -> None:
    """A tensor of the device, one of the host, and the first given back; old versions write no totals and addresses."""
    host = {"Total Reserved": 0, "Total Allocated": 8, "Bytes": 8, "Addr": 16, "Device Id": -1, "Device Type": 0}
    freed = FULL | {"Bytes": -512, "Total Allocated": 0, "Ev Idx": 9}
    old = {"Device Type": 6, "Device Id": 3, "Bytes": 64}
    mark = {"ph": "i", "name": "mark", "ts": 1, "pid": 5, "tid": 6}
    file = [memory(2, host), event(), memory(4, freed), memory(at("0.25"), old, ph="I"), memory(1), mark]
    trace = read_text(text_of(*file, baseTimeNanoseconds=7))
    late_ns = 1_740_461_679_470_630_250 + 7
    assert rows(trace) == [
        (1_007, 1, 0, 1 << 46, 512, 512, 4096),
        (2_007, 0, -1, 16, 8, 8, 0),
        (4_007, 1, 0, 1 << 46, -512, 0, 4096),
        (late_ns, 6, 3, None, 64, None, None),
    ]
    assert trace.memory is not None
    assert trace.memory.select(pl.col("pid", "tid").cast(pl.String)).unique().rows() == [("5", "6")]
    assert trace.quality.skipped == {"instant": 1}
    assert len(trace) == 1


def test_a_file_without_them_has_none() -> None:
    named_so = event("[memory]", cat="cpu_op")  # an operator
    counter = {"ph": "C", "name": "[memory]", "ts": 1, "pid": 5, "args": {"Bytes": 1}}
    trace = read_text(text_of(named_so, counter))
    assert trace.memory is None
    assert (len(trace), trace.quality.skipped) == (1, {"counter": 1})


@pytest.mark.parametrize(
    ("args", "read"),
    [
        (FULL | {"Bytes": "512", "Addr": str(1 << 46)}, (1, 0, 1 << 46, 512, 512, 4096)),
        (FULL | {"Bytes": 512.0}, (1, 0, 1 << 46, 512, 512, 4096)),
        (FULL | {"Addr": 2**64 - 1}, (1, 0, None, 512, 512, 4096)),
        (FULL | {"Total Reserved": 2**70}, (1, 0, 1 << 46, 512, 512, None)),
        (FULL | {"Total Reserved": float("nan")}, (1, 0, 1 << 46, 512, 512, None)),
        (FULL | {"Device Id": 1 << 40, "Device Type": -(1 << 31)}, (-(1 << 31), None, 1 << 46, 512, 512, 4096)),
        (FULL | {"Device Id": None, "Total Allocated": [1]}, (1, None, 1 << 46, 512, None, 4096)),
        (FULL | {"Bytes": 2**70}, None),
        (FULL | {"Bytes": float("nan")}, None),
        (FULL | {"Bytes": {"a": 1}}, None),
        ({"bytes": 512}, None),
        ({}, None),
        (None, None),
        ("Bytes: 512", None),
        ([512], None),
    ],
)
def test_odd_arguments(args: Any, read: tuple[int | None, ...] | None) -> None:
    trace = read_text(text_of(memory(1), memory(2, args), event()))
    assert [row[1:] for row in rows(trace)[1:]] == ([] if read is None else [read])
    assert trace.quality.dropped == ({LOST: 1} if read is None else {})
    without = memory(3)
    del without["args"]
    assert read_text(text_of(event(), without)).memory is None


def test_odd_times() -> None:
    trace = read_text(text_of(*(memory(ts) for ts in ("3", None, "x", 1e300, [1], 2)), event()))
    assert [row[0] for row in rows(trace)] == [2_000, 3_000]
    assert trace.quality.dropped == {LOST: 4}


def test_damage_around_them_costs_none() -> None:
    file = [memory(n, FULL | {"Bytes": n + 1}) for n in range(50)]
    whole = text_of(event(), *file)
    damaged = text_of(event(), *file[:20], '{"ph": "i", "name": "[memory]", "args": {"Bytes"', *file[20:])
    assert rows(read_text(damaged, chunk=900)) == rows(read_text(whole)) == rows(read_text(whole, chunk=900))


def test_they_are_kept(tmp_path: Path) -> None:
    """As Chrome JSON and as Parquet; a trace without them is not equal."""
    trace = read_file(tmp_path, text_of(event(), memory(at("0.001")), memory(1, {"Bytes": -3}), memory(1)))
    write_chrome(trace, tmp_path / "again.json.gz")
    save_parquet(trace, tmp_path / "again.parquet")
    again = [read_chrome(tmp_path / "again.json.gz"), load_parquet(tmp_path / "again.parquet")]
    assert all(one == trace and rows(one) == rows(trace) for one in again)
    assert trace != read_text(text_of(event()))
    assert trace != read_text(text_of(event(), memory(1)))


def test_totals_of_a_recorded_run_follow_from_its_sizes(shared_data: Path) -> None:
    """OWL-v2 on an H100: each total is the one before it and what was allocated since."""
    trace = read_chrome(shared_data / "tracelens-h100-owlv2.json.gz")
    assert trace.memory is not None
    counts = trace.memory.group_by("device_type", "device").len().sort("device_type").rows()
    assert counts == [(0, -1, 1204), (1, 0, 12270)]
    assert "instant" not in trace.quality.skipped or trace.quality.skipped["instant"] < 100
    device = trace.memory.filter(pl.col("device_type") == 1)
    step = device.get_column("allocated_bytes").diff().drop_nulls()
    assert (step == device.get_column("bytes")[1:]).mean() == 1
