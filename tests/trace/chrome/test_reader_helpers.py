"""A file read by several processes gives the trace that one process gives: text in small pieces, sound and damaged."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz import for_each_case, thorough
from tests.trace.chrome.files import at, encoded, event, text_of
from tests.trace.chrome.test_reader_fuzz import SEEDS, mutated
from weftrace.errors import TraceError
from weftrace.files.sources import ByteStream
from weftrace.report import analyze
from weftrace.trace.chrome import ahead as chrome_ahead
from weftrace.trace.chrome import columns as chrome_columns
from weftrace.trace.chrome import reader as chrome_reader
from weftrace.trace.chrome.ahead import Ahead
from weftrace.trace.chrome.helpers import Batch, Helpers, helpers_can_be
from weftrace.trace.chrome.reader import read_chrome, read_stream
from weftrace.trace.model import Trace

DAMAGED = 1 / 12  # of a run's fuzz cases (tests/fuzz.py)


class Team(Helpers):
    """Two helpers that stay for the next test; what they were given is counted."""

    num_given = 0
    slow = False  # nothing comes back until it is waited for, as where this process is much the quicker

    def close(self) -> None: ...

    def end(self) -> None:
        super().close()

    def hand_over(self, *given: Any) -> Batch:
        self.num_given += 1
        return super().hand_over(*given)

    def listen(self, batch: Batch | None = None) -> None:
        if not self.slow or batch is not None:
            super().listen(batch)


@pytest.fixture(scope="module")
def two_helpers() -> Iterator[Team]:
    team = Team(2)
    team.wait_until_ready()
    yield team
    team.end()


@pytest.fixture
def team(two_helpers: Team, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Small batches, and hardly any pause after damage, so that small files show what large ones do."""
    monkeypatch.setattr(chrome_ahead, "_MOST_PIECES", 3)
    monkeypatch.setattr(chrome_ahead, "_FIRST_PAUSE", 1)
    two_helpers.num_given = 0
    two_helpers.slow = False
    return two_helpers


def read_by(team: Team | None, data: bytes, chunk: int, **options: Any) -> Trace | str:
    """The trace, or what the reader says of a file that is none. chunk: bytes of a piece, about."""

    def opened() -> ByteStream:
        return ByteStream(path="trace.json", chunks=(data[at : at + chunk] for at in range(0, len(data), chunk)))

    ahead = None if team is None else partial(Ahead, begin=lambda: team, begin_bytes=0)
    try:
        return read_stream(opened(), opened, ahead=ahead, **options)
    except TraceError as error:
        return str(error)


def summary(trace: Trace | str) -> Any:
    """All that a trace says, in the order in which it says it."""
    if isinstance(trace, str):
        return trace
    quality = {key: list(v.items()) if isinstance(v, dict) else v for key, v in asdict(trace.quality).items()}
    frames = None if trace.frames is None else trace.frames.rows()
    plain = None if trace.plain is None else (trace.plain.workers, trace.plain.notes, trace.plain.rows.rows())
    facts = (trace.rank, trace.world_size, trace.devices, trace.tracks, trace.window_ns, trace.backend, trace.simulated)
    memory = None if trace.memory is None else trace.memory.rows()
    return trace.events.rows(), memory, frames, plain, quality, facts, list(trace.info.items())


def assert_same(team: Team, data: bytes, chunk: int, **options: Any) -> None:
    one = summary(read_by(None, data, chunk, **options))
    assert summary(read_by(team, data, chunk, **options)) == one


def repeated(seed: list[str], times: int) -> list[str]:
    """A file of the fuzz tests with its events several times over."""
    head, *events, tail = seed
    return [head, *([*events, events[1]] * times)[:-1], tail]


# --- sound files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_a_file_in_many_pieces_is_the_same_by_two_helpers(team: Team, number: int, slow: bool) -> None:
    team.slow = slow
    data = "".join(repeated(SEEDS[number], 20)).encode()
    for chunk in (300, 1000, 3000):
        for options in ({}, {"frames": True}, {"python_functions": True}):
            assert_same(team, data, chunk, **options)
    assert team.num_given


def test_what_files_rarely_say_is_told_in_the_same_order(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes of each kind, names and launches that appear late, and parts that end within a batch."""
    monkeypatch.setattr(chrome_columns, "_PART_ROWS", 7)
    chance = random.Random(1)
    wide = {120: {"Collective name": "c", "Group size": 1 << 41}, 135: {"device": 1 << 40}}  # in different parts
    events: list[Any] = [event(f"k{n}", args=wide.get(n, {"stream": 7})) for n in range(160)]
    for n in range(300):
        args = {"device": 0, "stream": n % 3, "grid": [n % 11 + 1, 2, 1], "block": [32, n % 5 + 1, 1], "correlation": n}
        events.append(event(f"k{n // 7}", ts=n, args=args))
        events.append(
            chance.choice(
                (
                    event("no time", ts=None), event(f"negative {n}", dur=-1), event("huge", ts=1e300),
                    event("wide", args={"stream": 7, "device": 1 << 40}), event("far", args={"stream": 7, "grid": "?"}),
                    event("id", args={"correlation": 1 << 70}), {"ph": "i", "name": f"mark {n}"}, {"ph": "C"},
                    {"ph": "?", "name": f"odd {n}"}, {"ph": "s", "id": n}, {"ph": "M", "name": "other"},
                    {"ph": "M", "name": "thread_name", "pid": n % 9, "tid": n, "args": {"name": f"thread {n}"}},
                    {"ph": "i", "name": "Record Window End", "ts": 1000 + n},
                    {"ph": "i", "name": "[memory]", "tid": n % 3, "ts": n % 50, "args": {"Bytes": n, "Addr": n << 58}},
                    event("profiler", cat="Trace", ts=n, dur=3), event(f"f{n}", cat="python_function", ts=n),
                    event("frame", cat="python_function", ts=None), event("op", cat="cpu_op", args={"grid": [n]}),
                    event("op", cat="cpu_op", args={"Module Hierarchy": f"A.b{n % 4}", "Input Dims": [[n % 6]]}),
                    event("op", cat="cpu_op", args={"Concrete Inputs": [str(n % 7)], "Input Dims": [[n % 6]]}),
                    event("op", cat="cpu_op", args={"Concrete Inputs": n, "Input Strides": [[n % 5]]}),
                )
            )
        )  # fmt: skip
    data = text_of(*events).encode()
    for chunk in (400, 1700):
        for frames in (False, True):
            assert_same(team, data, chunk, frames=frames)
    assert team.num_given


def test_times_that_floats_cannot_hold_are_exact_wherever_they_begin(team: Team) -> None:
    """Floats do until the first time that is too fine; decimals do from there on, also where that shows late."""
    for first in (0, 1, 40, 99):
        times = [at(f"{n}.25") if n == first else n * 0.5 for n in range(100)]
        events = [event(f"k{n}", ts=ts, dur=Decimal("2.0005")) for n, ts in enumerate(times)]  # a float is above
        assert_same(team, text_of(*events).encode(), 700)


def test_begin_and_end_events_find_each_other_across_pieces(team: Team) -> None:
    begins = [{"ph": "B", "name": f"b{n}", "pid": 1, "tid": n % 2, "ts": n} for n in range(40)]
    ends = [{"ph": "E", "pid": 1, "tid": n % 2, "ts": 100 + n} for n in range(40)]
    assert_same(team, text_of(*begins, *(event(f"k{n}") for n in range(40)), *ends).encode(), 500)


def test_a_file_of_plain_ranges_is_the_same(team: Team) -> None:
    events = [
        {"ph": "X", "name": name, "pid": f"rank {rank}", "tid": 0, "ts": 10 * n + at, "dur": 2, "args": {"step": n}}
        for n in range(30) for rank in range(2) for at, name in ((0, "forward"), (3, "backward"), (6, "all_reduce"))
    ]  # fmt: skip
    data = text_of(*events).encode()
    assert_same(team, data, 900)
    trace = read_by(team, data, 900)
    assert isinstance(trace, Trace) and trace.plain is not None


@thorough
def test_recorded_traces_are_the_same_by_two_and_by_three_processes(team: Team, recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        data = gzip.decompress(path.read_bytes())
        one, some = (read_by(who, data, 1 << 16, frames=True) for who in (None, team))
        assert summary(some) == summary(one), path
        assert isinstance(one, Trace) and isinstance(some, Trace)
        assert analyze(some, timelines=False).document == analyze(one, timelines=False).document, path
    assert team.num_given


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [False, True])
def test_damaged_files_are_the_same_by_two_helpers(team: Team, slow: bool) -> None:
    """Cuts that were none, events that are none, ends that are early: what was read ahead in vain leaves no trace."""
    team.slow = slow

    def case(seed: str) -> None:
        chance = random.Random(f"helpers {slow} {seed}")
        pieces = repeated(chance.choice(SEEDS), chance.choice((3, 10)))
        for _ in range(chance.choice((1, 1, 2, 5))):
            place = chance.randrange(len(pieces))
            pieces[place] = mutated(pieces[place], chance)
        data = "".join(pieces).encode("utf-8", "surrogatepass")
        if chance.random() < 0.2:
            data = data[: chance.randrange(len(data) + 1)]
        assert_same(team, data, chance.randrange(40, 1200), frames=chance.random() < 0.5)

    late = repeated(SEEDS[0], 20)
    late[-2] = '{"ph": "X", ,},'  # chance may damage all others before any piece can be handed over
    assert_same(team, "".join(late).encode(), 300)
    assert team.num_given
    for_each_case(case, share=DAMAGED / 2)


def test_a_cut_within_an_event_is_found_out(team: Team) -> None:
    """Objects listed within an event, and texts that look like a cut, where pieces happen to end."""
    inner = [{"ph": "X", "name": "no event", "ts": 1, "dur": 1}] * 9
    events = [event(f"k{n}", args={"list": inner, "text": "}, {" * 40}) for n in range(40)]
    for chunk in (200, 333, 700):
        assert_same(team, text_of(*events).encode(), chunk)


def test_a_second_list_and_what_stands_between_are_the_same(team: Team) -> None:
    events = ",".join(encoded(event(f"k{n}")) for n in range(60))
    facts = '"deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]'
    assert_same(team, f'{{"traceEvents": [{events}], {facts}, "traceEvents": [{events}], {facts}}}'.encode(), 500)


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_helper_that_is_killed_costs_nothing_but_time(team: Team) -> None:
    data = text_of(*(event(f"k{n}") for n in range(400))).encode()
    mortal = Team(2)
    mortal.wait_until_ready()
    try:
        for pid in mortal.pids:
            os.kill(pid, signal.SIGKILL)
        one = summary(read_by(None, data, 500))
        assert summary(read_by(mortal, data, 500)) == one
        deadline = time.monotonic() + 60  # a busy machine may take a while to end a process
        while mortal.pids and time.monotonic() < deadline:
            assert summary(read_by(mortal, data, 500)) == one
        assert not mortal.pids
        assert summary(read_by(mortal, data, 500)) == one
    finally:
        mortal.end()


def test_a_file_is_read_by_helpers_where_that_is_asked_for_or_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for: from the beginning. By default: from so many bytes on. Never by one process, nor by one of a pool."""
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text_of(*(event(f"k{n}", ts=n) for n in range(20_000))).encode()))
    begun: list[int] = []

    class Noted(Helpers):
        def __init__(self, num: int) -> None:
            begun.append(num)
            super().__init__(num)
            self.wait_until_ready()

    monkeypatch.setattr(chrome_reader, "Helpers", Noted)
    monkeypatch.setattr(chrome_reader, "default_workers", lambda: 2)
    one = summary(read_chrome(path, workers=1))
    assert summary(read_chrome(path)) == one
    assert not begun
    assert summary(read_chrome(path, workers=3)) == one
    assert begun == [2]
    monkeypatch.setattr(chrome_reader, "MANY_BYTES", 1_000_000)
    assert summary(read_chrome(path)) == one
    assert begun == [2, 1]
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "a pool's")
    assert summary(read_chrome(path, workers=3)) == one
    assert begun == [2, 1]


def test_however_many_are_asked_for_sixteen_read_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--workers 64` is meant for the ranks of a job, and may find a single file."""
    begun: list[int] = []

    def refused(num: int) -> Helpers:
        begun.append(num)
        raise OSError("no processes to be had")

    monkeypatch.setattr(chrome_reader, "Helpers", refused)
    path = tmp_path / "trace.json"
    path.write_text(text_of(*(event(f"k{n}", ts=n) for n in range(6000))))
    assert len(read_chrome(path, workers=64)) == 6000
    assert begun == [15]


def test_no_helper_where_no_python_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen program would start itself, which reads the file, which starts itself …; an embedded Python has none."""
    assert helpers_can_be()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "frozen", True, raising=False)
        assert not helpers_can_be()
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: None)
    assert not helpers_can_be()


def test_a_helper_begins_whatever_stands_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for modules in texts alone, and passes over all else."""
    monkeypatch.setattr(sys, "path", ["", 'it\'s "here"', ROOT, *sys.path])
    helpers = Helpers(1)
    try:
        helpers.wait_until_ready()
        assert helpers.have_time
    finally:
        helpers.close()


def test_a_read_that_is_stopped_leaves_no_process_behind() -> None:
    """Ctrl-C, where the next chunk is waited for; the helpers have ended when the caller hears of it."""
    data = text_of(*(event(f"k{n}") for n in range(2000))).encode()
    mortal = Helpers(2)
    mortal.wait_until_ready()
    pids = mortal.pids

    def chunks() -> Iterator[bytes]:
        yield from (data[at : at + 1000] for at in range(0, 100_000, 1000))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_stream(
            ByteStream(path="trace.json", chunks=chunks()),
            lambda: ByteStream(path="", chunks=iter(())),
            ahead=partial(Ahead, begin=lambda: mortal, begin_bytes=0),
        )
    assert len(pids) == 2
    assert not any(is_running(pid) for pid in pids)


def test_a_process_that_is_killed_leaves_no_process_behind() -> None:
    """Nor does a script need `if __name__ == "__main__"`: helpers do not run it."""
    script = """
import os
from weftrace.trace.chrome.helpers import Helpers
helpers = Helpers(1)
helpers.wait_until_ready()
print(*helpers.pids, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -9, done.stderr
    (pid,) = map(int, done.stdout.split())
    until = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    """False of one that has ended, though nobody may have asked how."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip().startswith("Z") and bool(state.strip())
