"""Snapshots of torch's allocator, by pencil: blocks, fragmentation, the peak of the history and who held it."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.memory.snapshots import ADAM, LINEAR, MIB, block, entry, segment, snapshot
from tests.saved_documents import run
from weftrace.memory import MemorySnapshot, read_snapshot
from weftrace.memory.pickles import PickleError
from weftrace.memory.snapshot_of_memory import snapshot_of
from weftrace.memory.snapshots import raw_of


def read(value: Any) -> MemorySnapshot:
    return snapshot_of(raw_of(value, "x"), "x")


def test_what_is_in_use_waits_and_is_free_adds_up_to_what_is_reserved() -> None:
    (device,) = read(snapshot()).devices
    assert (device.reserved_bytes, device.active_bytes, device.pending_bytes) == (22 * MIB, 12 * MIB, MIB)
    assert (device.free_bytes, device.largest_free_bytes, device.stuck_bytes) == (9 * MIB, 7 * MIB, 7 * MIB)
    assert device.requested_bytes == 12 * MIB - 100
    assert device.fragmentation_share == pytest.approx(2 / 9)
    assert (device.num_failed, device.failed_bytes, device.device_free_bytes) == (1, 100 * MIB, 3 * MIB)
    assert device.segments.rows() == [
        ("large", "0", 1, 20 * MIB, 12 * MIB, 8 * MIB, 7 * MIB), ("small", "0", 1, 2 * MIB, 0, 2 * MIB, 2 * MIB),
    ]  # fmt: skip
    model, optimizer = "model.py:10 forward < train.py:90 main", "optimizer.py:5 step < train.py:95 main"
    assert device.held.select("stack", "held_bytes").rows() == [(model, 8 * MIB), (optimizer, 4 * MIB)]


def test_the_peak_of_the_history_and_who_held_it_to_the_byte() -> None:
    history = read(snapshot()).devices[0].history
    assert history is not None
    assert (history.peak_bytes, history.peak_ns, history.first_bytes) == (18 * MIB - 100, 5_000, 4 * MIB)
    assert (history.reserved_bytes, history.num_events, history.peak_event) == (22 * MIB, 3, 2)
    assert history.held.get_column("held_bytes").sum() == history.peak_bytes
    assert history.held.get_column("stack").to_list()[-1] == "(before the history)"
    assert history.curve.get_column("allocated_bytes").max() == history.peak_bytes
    assert history.curve.item(-1, "allocated_bytes") == 12 * MIB - 100


def test_a_history_without_times_or_of_a_peak_before_its_start() -> None:
    value = snapshot()
    value["device_traces"] = [[{"action": "free_requested", "addr": 5, "size": 9 * MIB, "frames": []}]]
    history = read(value).devices[0].history
    assert history is not None and history.span_ns is None and history.peak_ns is None
    assert (history.peak_bytes, history.peak_event) == (21 * MIB - 100, -1)
    assert history.held.rows() == [("(before the history)", None, 21 * MIB - 100, 1.0)]


def test_a_history_without_blocks_is_never_below_nothing() -> None:
    """8 MiB are allocated and 9 of before are freed, while no block is told: there was 1 before at least."""
    history = [entry("alloc", 1, 8 * MIB, 0, LINEAR), entry("free_requested", 2, 9 * MIB, 1, ADAM)]
    (device,) = read({"segments": [], "device_traces": [history]}).devices
    assert device.history is not None
    assert (device.history.first_bytes, device.history.peak_bytes) == (MIB, 9 * MIB)


def test_snapshots_of_old_torch_and_of_several_devices() -> None:
    old = {"size": MIB, "state": "active_allocated", "history": [{"addr": 0, "real_size": 1000, "frames": ADAM}]}
    value = {"segments": [segment(0, block(MIB, "inactive", []), device=3), {**segment(1 << 30, old, device=1)}]}
    one, three = read(value).devices
    assert (one.device, one.requested_bytes, three.device, three.history) == (1, 1000, 3, None)
    assert one.held.item(0, "stack").startswith("optimizer.py:5 step")
    assert read({"segments": []}).devices == ()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_file_plain_or_compressed_is_shown_saved_and_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: int
) -> None:
    path = tmp_path / "dump.pickle"
    path.write_bytes(gzip.compress(pickle.dumps(snapshot(), protocol)))
    run("memory", path, "-o", tmp_path / "memory.json", "-o", tmp_path / "memory.svg")
    shown = capsys.readouterr().out
    assert "Device 0 has 12.0 MiB in use of 22.0 MiB reserved; the peak was 18.0 MiB, 44.4 %" in shown
    document = json.loads((tmp_path / "memory.json").read_text())
    assert document["devices"][0]["history"]["peak_bytes"] == 18 * MIB - 100
    loaded = wt.load(tmp_path / "memory.json")
    assert isinstance(loaded, MemorySnapshot) and loaded.devices[0].held.equals(read(snapshot()).devices[0].held)
    assert "at most 18.0 MiB allocated" in (tmp_path / "memory.svg").read_text()


def shared(number: int) -> dict[str, Any]:
    """The same segment `number` times over, with the same block as often, with the same frame as often: number^3."""
    held = block(1, "active_allocated", [LINEAR[0]] * number)
    return {"segments": [segment(0, *[held] * number)] * number}


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {"segments": []}
    value["segments"].append(value["segments"])
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (shared(2_000), "is in the file twice"),
        ({"segments": [], "device_traces": [snapshot()["device_traces"][0]] * 50_000}, "is in the file twice"),
        (cyclic(), "segment 0 is no dict"),
        ([], "holds no `segments`"), ({"segments": {}}, "segments is no list"), ({"segments": [[]]}, "is no dict"),
        ({"segments": [{"total_size": -1, "blocks": []}]}, "`total_size` is missing or no size"),
        ({"segments": [{"total_size": 1 << 60, "blocks": []}]}, "`total_size` is missing or no size"),
        ({"segments": [{"total_size": (1 << 53) - 1, "blocks": []} for _ in range(600)]}, "more than any memory"),
        ({"segments": [{"total_size": 8, "blocks": [block(2 << 30, "inactive", [])]}]}, "its blocks 2,147,483,648"),
        ({"segments": [{"total_size": 8, "blocks": [{"size": 1, "state": "odd"}]}]}, "no state that is known"),
        ({"segments": [{"total_size": 8, "blocks": [{"size": True, "state": "inactive"}]}]}, "`size` is missing"),
        ({"segments": [{"total_size": 8, "blocks": [block(1, "inactive", 5)]}]}, "frames that are no list"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_is_no_snapshot_or_would_take_long_to_walk_ends_in_a_sentence(
    tmp_path: Path, value: Any, words: str
) -> None:
    path = tmp_path / "dump.pickle"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(PickleError, match=words):
        read_snapshot(path)


def test_a_cut_file_and_what_is_no_pickle_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps(snapshot()))[:-40])
    with pytest.raises(PickleError, match="ends early"):
        read_snapshot(path)
    path.write_bytes(b"no pickle")
    with pytest.raises(PickleError, match="no pickle of protocol 2 to 5"):
        read_snapshot(path)
