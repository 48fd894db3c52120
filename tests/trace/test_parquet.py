"""A saved trace comes back equal, and a file that is not one of ours is refused with a remedy."""

from __future__ import annotations

import base64
import json
import os
import random
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

from tests.trace.strategies import traces
from weftrace.errors import OutputError, TraceError, TraceTooLarge
from weftrace.files.parquet import parquet_bytes
from weftrace.trace.chrome.reader import read_chrome
from weftrace.trace.model import EVENT_SCHEMA, MEMORY_SCHEMA, Device, ReadQuality, Trace, Track, events_frame
from weftrace.trace.parquet import FORMAT, load_parquet, save_parquet


def full_trace() -> Trace:
    columns = {
        "name": ["</script>", "µ\0"], "cat": ["kernel", "cpu_op"], "pid": ["0", "-1"], "tid": ["7", "x"],
        "ts_ns": [1, -(2**63)], "dur_ns": [0, 2**63 - 1], "device": [0, None], "stream": [7, None],
    }  # fmt: skip
    return Trace(
        events=events_frame(columns, 2),
        path="a.json",
        rank=3,
        world_size=8,
        devices=(
            Device(id=0, name="H800", num_sms=132, memory_bytes=80 << 30, capability=(9, 0), warp_size=32),
            Device(id=1),
        ),
        tracks=(Track(pid="0", name="gpu", labels="l", sort_index=-1), Track(pid="0", tid="7")),
        window_ns=(-5, 2**62),
        backend="nccl",
        simulated=True,
        info={"traceName": "\ud800 lone", '"': "\\"},
        quality=ReadQuality(
            dropped={"a": 1}, repaired={"b": 2}, skipped={"c": 3}, truncated="early", examples={"a": "<\0>"}
        ),
    )


def test_everything_comes_back(tmp_path: Path) -> None:
    trace = full_trace()
    save_parquet(trace, tmp_path / "t.parquet")
    again = load_parquet(tmp_path / "t.parquet")
    assert again == trace
    assert again.events.schema == trace.events.schema
    assert again.info == trace.info
    assert again.quality == trace.quality
    assert again.path == str(tmp_path / "t.parquet")


def test_an_empty_trace_comes_back(tmp_path: Path) -> None:
    trace = Trace(events=pl.DataFrame(schema=EVENT_SCHEMA))
    save_parquet(trace, tmp_path / "t.parquet")
    assert load_parquet(tmp_path / "t.parquet") == trace


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=traces())
def test_random_traces_come_back(trace: Trace, tmp_path: Path) -> None:
    save_parquet(trace, tmp_path / "t.parquet")
    again = load_parquet(tmp_path / "t.parquet")
    assert again == trace
    assert again.info == trace.info


def test_recorded_traces_come_back(recorded_traces: list[Path], tmp_path: Path) -> None:
    for path in recorded_traces:
        trace = read_chrome(path)
        save_parquet(trace, tmp_path / "t.parquet")
        again = load_parquet(tmp_path / "t.parquet")
        assert (again, again.info, again.quality) == (trace, trace.info, trace.quality), path.name


def test_a_saved_file_is_ordinary_parquet(tmp_path: Path) -> None:
    """Other tools read it: columns by name, and the facts as JSON."""
    save_parquet(full_trace(), tmp_path / "t.parquet")
    assert pl.read_parquet(tmp_path / "t.parquet").columns == list(EVENT_SCHEMA)
    facts = json.loads(pl.read_parquet_metadata(tmp_path / "t.parquet")["weftrace.trace"])
    assert (facts["format"], facts["rank"], facts["devices"][0]["num_sms"]) == (FORMAT, 3, 132)


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Without the columns that came later: what they would say is not known."""
    later = [
        "grid", "block", "registers", "shared_bytes", "occupancy",
        "input_shapes", "input_types", "input_strides", "input_values", "call_stack",
    ]  # fmt: skip
    save_parquet(full_trace(), tmp_path / "t.parquet")
    text = pl.read_parquet_metadata(tmp_path / "t.parquet")["weftrace.trace"]
    full_trace().events.drop(later).write_parquet(tmp_path / "t.parquet", metadata={"weftrace.trace": text})
    again = load_parquet(tmp_path / "t.parquet")
    assert again == full_trace() and again.quality.unchecked


def test_remote(tmp_path: Path) -> None:
    save_parquet(full_trace(), tmp_path / "t.parquet")
    with fsspec.open("memory://weftrace-test/t.parquet", "wb") as file:
        file.write((tmp_path / "t.parquet").read_bytes())
    assert load_parquet("memory://weftrace-test/t.parquet") == full_trace()
    with pytest.raises(OutputError, match="local file"):
        save_parquet(full_trace(), "memory://weftrace-test/u.parquet")


def test_a_name_is_no_pattern(tmp_path: Path) -> None:
    save_parquet(full_trace(), tmp_path / "t[0]*.parquet")
    assert load_parquet(tmp_path / "t[0]*.parquet") == full_trace()


# --- refusals -----------------------------------------------------------------------------------------------------


def saved(folder: Path, events: pl.DataFrame, facts: object) -> Path:
    """A Parquet file with any events and any facts, and its digest."""
    path = folder / "t.parquet"
    text = facts if isinstance(facts, str) else json.dumps(facts)
    path.write_bytes(parquet_bytes(events, {"weftrace.trace": text}))
    return path


def facts(**changed: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"dropped": {}, "repaired": {}, "skipped": {}, "truncated": None, "examples": {}}
    return {
        "format": FORMAT, "rank": None, "world_size": None, "devices": [], "tracks": [], "window_ns": None,
        "backend": None, "simulated": False, "info": {}, "quality": empty,
    } | changed  # fmt: skip


def test_the_facts_of_these_tests_are_sound(tmp_path: Path) -> None:
    events = full_trace().events
    assert load_parquet(saved(tmp_path, events, facts())) == Trace(events=events)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "not what weftrace writes"),
        ("[" * 100_000, "not what weftrace writes"),
        ([], "not what weftrace writes"),
        ({}, "not what weftrace writes"),
        (facts(format=FORMAT + 1), "Update weftrace"),
        (facts(format="1"), "not what weftrace writes"),
        (facts(rank="0"), "not what weftrace writes"),
        (facts(rank=2**63), "not what weftrace writes"),
        (facts(window_ns=[1]), "not what weftrace writes"),
        (facts(window_ns=[0, 2**63]), "not what weftrace writes"),
        (facts(devices=[{"name": "no id"}]), "not what weftrace writes"),
        (facts(devices=[{"id": 0, "warp_size": 0}]), "not what weftrace writes"),
        (facts(tracks=[{"pid": 7}]), "not what weftrace writes"),
        (facts(info={"a": {}}), "not what weftrace writes"),
        (facts(quality={"dropped": {"a": "b"}}), "not what weftrace writes"),
    ],
)
def test_facts_are_checked(wrong: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=rf"t\.parquet: .*{said}"):
        load_parquet(saved(tmp_path, full_trace().events, wrong))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.col("ts_ns").cast(pl.Float64), "column ts_ns is Float64, where weftrace writes Int64"),
        (pl.col("name").cast(pl.String), "column name is String"),
        (pl.lit(None, dtype=pl.Int64).alias("ts_ns"), "2 events have no ts_ns"),
        (pl.lit(None, dtype=pl.Categorical()).alias("name"), "2 events have no name"),
        (pl.lit(-1, dtype=pl.Int64).alias("dur_ns"), "2 events have a negative duration"),
    ],
)
def test_events_are_checked(change: pl.Expr, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=said):
        load_parquet(saved(tmp_path, full_trace().events.with_columns(change), facts()))


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="column stream is missing"):
        load_parquet(saved(tmp_path, full_trace().events.drop("stream"), facts()))


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(TraceError, match="no such file"):
        load_parquet(path)
    path.write_bytes(b'{"traceEvents": []}')
    with pytest.raises(TraceError, match="is not Parquet"):
        load_parquet(path)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(TraceError, match="neither a trace that weftrace saved"):
        load_parquet(path)
    save_parquet(full_trace(), path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(TraceError, match="damaged, cut short or changed"):
        load_parquet(path)


def test_a_file_that_expands_too_far_is_refused(tmp_path: Path) -> None:
    """A million equal events take some kilobytes."""
    events = full_trace().events.head(1)
    path = saved(tmp_path, events.select(pl.all().repeat_by(1_000_000).explode()), facts())
    assert path.stat().st_size < 100_000
    with pytest.raises(TraceTooLarge, match="its rows expand to"):
        load_parquet(path, max_bytes=10_000_000)


def test_a_text_that_no_json_gives_is_refused(tmp_path: Path) -> None:
    """200 MB of a name take some kilobytes; with a digest, weftrace cut it when it read the JSON."""
    ranges = {"name": ["forward" + "x" * 100_000], "start_ns": [1], "end_ns": [2], "rank": [0]}
    pl.DataFrame(ranges).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="a text of column name has 100,007 characters"):
        load_parquet(tmp_path / "t.parquet")


def test_nothing_but_our_errors_escapes_from_mutated_files(tmp_path: Path) -> None:
    """Seeded, so that each run tries the same 200 files."""
    path = tmp_path / "t.parquet"
    save_parquet(full_trace(), path)
    sound = path.read_bytes()
    rng = random.Random(7)
    num_refused = 0
    for _ in range(200):
        mutated = bytearray(sound)
        for _ in range(rng.randrange(1, 6)):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        path.write_bytes(mutated[: rng.choice((len(mutated), rng.randrange(len(mutated))))])
        try:
            load_parquet(path)
        except TraceError as error:
            num_refused += 1
            assert str(error).startswith(str(path))
    assert num_refused > 190


def test_outputs_are_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="mkdir -p"):
        save_parquet(full_trace(), tmp_path / "missing" / "t.parquet")
    if os.path.exists("/dev/full"):
        with pytest.raises(OutputError, match="the disk is full"):
            save_parquet(full_trace(), "/dev/full")
    assert not list(tmp_path.iterdir())


def test_memory_events_are_checked(tmp_path: Path) -> None:
    """They are Parquet in base64, and their rows count against the limit too."""
    row = dict.fromkeys(MEMORY_SCHEMA, 1) | {"pid": "1", "tid": "1"}
    sound = pl.DataFrame([row], schema=MEMORY_SCHEMA)

    def stored(memory: pl.DataFrame | None, text: str = "") -> Path:
        if memory is not None:
            text = base64.b64encode(parquet_bytes(memory, {})).decode()
        metadata = {"weftrace.trace": json.dumps(facts()), "weftrace.memory": text}
        (tmp_path / "m.parquet").write_bytes(parquet_bytes(full_trace().events, metadata))
        return tmp_path / "m.parquet"

    memory = load_parquet(stored(sound)).memory
    assert memory is not None and memory.equals(sound)
    for wrong, text, said in (
        (None, "é", "damaged"),
        (None, "UEFSMQ==", "damaged"),
        (sound.drop("bytes"), "", "memory events are not what weftrace writes"),
        (sound.with_columns(pl.col("bytes").cast(pl.Float64)), "", "memory events are not what weftrace writes"),
        (sound.with_columns(bytes=pl.lit(None, pl.Int64)), "", "1 memory events have no bytes"),
    ):
        with pytest.raises(TraceError, match=said):
            load_parquet(stored(wrong, text))
    with pytest.raises(TraceTooLarge, match="memory events: its rows expand"):
        load_parquet(stored(pl.concat([sound] * 9_000)), max_bytes=200_000)
