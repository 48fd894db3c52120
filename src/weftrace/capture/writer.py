"""The thread that writes: files of a rank, within a bound on what they take, the oldest steps given up first."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from weftrace.capture.captured import dropped_in_words, listed
from weftrace.capture.joined import Stretch, file_of, stretch_of, without_oldest
from weftrace.errors import OutputError
from weftrace.files.output import replacing

MOST_WAITING = 2  # recordings that wait to be written, and are in memory as long


@dataclass(slots=True)
class Taken:
    """A stretch as the profiler holds it. save: writes its JSON to a path, once; holds Python's lock meanwhile."""

    steps: tuple[int, ...]
    save: Callable[[str], object]


@dataclass(slots=True, kw_only=True)
class Window:
    """What becomes one file. facts: its top-level members, those of "weftrace" texts; asked for when the profiler's
    share of the writing is done, for they tell what it cost. pace_s: time that the run is given between two stretches'
    saves. renamed: names of ranges to replace: the rest of a loop is no step."""

    path: Path
    taken: list[Taken]
    facts: Callable[[], Mapping[str, Any]]
    pace_s: float
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Written:
    """A file that is there."""

    path: Path
    steps: tuple[int, ...]
    num_bytes: int


class Writer:
    """Writes windows in the order in which they are given, on a thread of its own. max_bytes: of all files together."""

    def __init__(self, max_bytes: int, on_problem: Callable[[str], None]) -> None:
        self.max_bytes = max_bytes
        self.files: list[Written] = []
        self.dropped: list[int] = []
        self.held_ns = 0
        self.write_ns = 0
        self.num_waiting = 0
        self._on_problem = on_problem
        self._windows: SimpleQueue[Window | None] = SimpleQueue()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None

    def give(self, window: Window) -> None:
        """Returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="weftrace capture", daemon=True)
            self._thread.start()
        self.num_waiting += 1
        self._windows.put(window)

    def close(self) -> None:
        """Waits until everything is written. The run is over: no pause between stretches."""
        if self._thread is not None:
            self._hurry.set()
            self._windows.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (window := self._windows.get()) is not None:
            began = time.perf_counter_ns()
            steps = listed([step for taken in window.taken for step in taken.steps])
            try:
                self._write(window)
            except Exception as error:  # whatever it is, the run goes on
                self._on_problem(f"steps {steps} were not written: {error}")
            finally:
                window.taken.clear()
                self.write_ns += time.perf_counter_ns() - began
                self.num_waiting -= 1

    def _write(self, window: Window) -> None:
        stretches: list[Stretch] = []
        while window.taken:
            if stretches:
                self._hurry.wait(window.pace_s)
            taken = window.taken.pop(0)  # what the profiler holds of it is freed as soon as it is saved
            stretches.append(stretch_of(self._saved(taken, window.renamed), taken.steps))
        facts = window.facts()
        while True:
            data, kept, dropped = fitted(stretches, facts, window.path.name, self.max_bytes, self.dropped)
            if not self.files or sum(file.num_bytes for file in self.files) + len(data) <= self.max_bytes:
                break
            self._give_up(self.files.pop(0))
        self.dropped += dropped
        if not data:
            self._on_problem(f"step {dropped[-1]} alone is larger than {self.max_bytes:,} bytes: nothing was written")
            return
        window.path.parent.mkdir(parents=True, exist_ok=True)
        if window.path.exists():
            raise OutputError(
                f"{window.path} was written meanwhile, by another recording of the same rank, and is not overwritten"
            )
        with replacing(window.path) as temporary:
            temporary.write_bytes(data)
        self.files.append(Written(window.path, tuple(kept), len(data)))

    def _saved(self, taken: Taken, renamed: Mapping[str, str]) -> bytes:
        with tempfile.TemporaryDirectory(prefix="weftrace-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "stretch.json"  # beside which Kineto makes one of its own, and may leave it
            began = time.perf_counter_ns()
            taken.save(str(path))
            self.held_ns = max(self.held_ns, time.perf_counter_ns() - began)
            text = path.read_bytes() if path.exists() else b""
        for old, new in renamed.items():
            text = text.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
        return text

    def _give_up(self, file: Written) -> None:
        file.path.unlink(missing_ok=True)
        with suppress(OSError):  # other ranks' files may lie there
            file.path.parent.rmdir()
        self.dropped += file.steps


def fitted(
    stretches: Sequence[Stretch], facts: Mapping[str, Any], name: str, max_bytes: int, gone: Sequence[int] = ()
) -> tuple[bytes, list[int], list[int]]:
    """The file of at most max_bytes, the steps in it, and the oldest ones, which had to go; no bytes where not even the
    last step fits. gone: steps that went before, which the file tells too."""
    left, dropped = list(stretches), list[int]()
    while left:
        steps = [step for stretch in left for step in stretch.steps]
        summary = {"capture.steps": listed(steps)}
        if gone or dropped:
            summary["capture.dropped_steps"] = dropped_in_words([*gone, *dropped], max_bytes)
        data = file_of(left, {**facts, "weftrace": {**facts.get("weftrace", {}), **summary}}, name)
        if len(data) <= max_bytes:
            return data, steps, dropped
        number = max(1, int(len(steps) * (1 - max_bytes / len(data))))
        left = without_oldest(left, number)
        dropped += steps[:number]
    return b"", [], dropped
