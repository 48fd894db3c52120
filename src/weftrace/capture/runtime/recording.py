"""The loop's side of a recording: which step is recorded, when the profiler starts and stops, and what that costs."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite
from types import MappingProxyType, TracebackType
from typing import Any

from torch.profiler import record_function

from weftrace.capture.captured import Captured, Overhead
from weftrace.capture.pace import Pace
from weftrace.capture.places import prepared
from weftrace.capture.runtime.profilers import (
    Session,
    distributed_info,
    load_profiler,
    somebody_else_records,
    somebody_else_waits,
    this_process,
    versions,
)
from weftrace.capture.schedule import Action, Schedule, as_schedule
from weftrace.capture.signals import undisturbed
from weftrace.capture.writer import MOST_WAITING, Taken, Window, Writer
from weftrace.errors import CaptureError, CaptureWarning
from weftrace.units import MIB, S

_REST = "after the last step"  # the range of what follows the last call of `step`


def record(
    folder: str | os.PathLike[str],
    *,
    schedule: Schedule | Callable[[int], Any] | None = None,
    parallel: Mapping[str, int] | None = None,
    info: Mapping[str, str] | None = None,
    shapes: bool = False,
    stacks: bool = False,
    max_mb: float = 256,
    longest_pause: float = 1.0,
    ranks: Collection[int] | None = None,
) -> Recording:
    """A recording of this process' steps: `with record("traces/") as recording: for ...: ...; recording.step()`.

    folder: gets `rank3.json.gz` of rank 3, or `step20/rank3.json.gz` where the schedule repeats.
    schedule: a `Schedule`, or what `torch.profiler.schedule` returns; `Schedule()` where none is given.
    parallel: sizes of the parallel groups, such as {"ep": 8, "dp": 4}. info: more that the file is to tell of itself,
    such as {"profile.model": "my-model"}; names begin with "profile." or "capture.".
    shapes, stacks: of operators, recorded too: larger files, slower steps.
    max_mb: on disk, of all files of a rank; the oldest steps are dropped, and counted. longest_pause: how long the run
    may stand still at once, in steps: a recording whose end would take longer is stopped and started again between its
    steps; `inf` never does that. ranks: those that record, all by default.

    Raises `CaptureError`, before anything runs, where a file of this rank is there already, where the folder cannot be
    written, and for arguments that mean nothing. After that nothing raises: see `Recording.result`.
    """
    if not (isfinite(max_mb) and int(max_mb * MIB) > 0):
        raise CaptureError(f"max_mb={max_mb}: it is a number above 0, of at least a byte; all that a rank may write")
    if not longest_pause > 0:
        raise CaptureError(f"longest_pause={longest_pause}: it is a number of steps above 0, or inf")
    if strange := [key for key in info or {} if not key.startswith(("profile.", "capture."))]:
        raise CaptureError(f'info: {strange[0]!r}: names of metadata begin with "profile.…" or "capture.…"')
    asked = Schedule() if schedule is None else schedule
    action = as_schedule(asked)
    world = this_process()
    has_one_file = isinstance(asked, Schedule) and asked.has_one_file
    takes_part = ranks is None or world.rank in ranks
    if ranks is not None and not any(0 <= rank < world.world_size for rank in ranks):
        raise CaptureError(
            f"ranks={sorted(ranks)}: the run has ranks 0 to {world.world_size - 1}, so none would record"
        )
    summary = {
        **(info or {}),
        **({"capture.parallel": ", ".join(f"{name}={size}" for name, size in parallel.items())} if parallel else {}),
        **versions(),
        "capture.schedule": str(asked) if isinstance(asked, Schedule) else "the program's own",
        "capture.with": ", ".join(["shapes"] * shapes + ["stacks"] * stacks) or "neither shapes nor stacks",
    }
    return Recording(
        prepared(folder, world, has_one_file=has_one_file).of if takes_part else None,
        action, {"weftrace": summary, "distributedInfo": distributed_info(world)}, world.rank, world.world_size,
        lambda: Session(shapes=shapes, stacks=stacks), int(max_mb * MIB), longest_pause,
    )  # fmt: skip


class Recording:
    """A running recording. Made by `record`; its state is what the profiler is doing."""

    def __init__(
        self,
        path_of: Callable[[int], Any] | None,
        action: Callable[[int], Action],
        facts: dict[str, Any],
        rank: int,
        world_size: int,
        new_session: Callable[[], Session],
        max_bytes: int,
        longest_pause: float,
    ) -> None:
        """path_of: the file of a recording that begins with a step; None where this rank records nothing."""
        self._path_of, self._action, self._facts = path_of, action, facts
        self._rank, self._world_size, self._new_session = rank, world_size, new_session
        self._pace = Pace(longest_pause)
        self._problems: list[str] = []
        self._writer = Writer(max_bytes, self._tell)
        self._thread: int | None = None  # that entered the block or called `step` last; None outside of the block
        self._was_entered = False
        self._step = 0  # the one that is running
        self._began_ns = 0
        self._range: record_function | None = None
        self._session: Session | None = None
        self._trial = False  # whether the session is one of a warm-up, to be thrown away
        self._taken: list[Taken] = []  # stretches of the file that is being recorded
        self._steps: list[int] = []  # of the session
        self._failed = False  # in this file's steps: not tried again before the next

    @property
    def result(self) -> Captured:
        """What there is by now; all of it once the block has ended."""
        files = self._writer.files
        return Captured(
            rank=self._rank, world_size=self._world_size, max_bytes=self._writer.max_bytes,
            files=tuple(str(file.path) for file in files), steps=tuple(step for file in files for step in file.steps),
            dropped_steps=tuple(self._writer.dropped), num_bytes=sum(file.num_bytes for file in files),
            overhead=self._overhead(), problems=tuple(self._problems),
        )  # fmt: skip

    def __enter__(self) -> Recording:
        if self._was_entered:
            raise CaptureError("this recording has ended: call record() again, with a folder of its own")
        self._was_entered, self._thread = True, threading.get_ident()
        if self._path_of is not None:
            with self._unharmed("the profiler could not be loaded"):
                if not somebody_else_records():
                    load_profiler()
            self._begin()
        return self

    def step(self) -> None:
        """Ends a step of the loop, and begins the next."""
        if self._path_of is None:
            self._step += 1
            return
        if not self._is_heard():
            return
        ended_ns = time.perf_counter_ns()
        with self._unharmed(f"step {self._step}"):
            self._end(ended_ns)
        self._step += 1
        self._begin(ended_ns)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever ended the loop, what was recorded is written; an exception passes."""
        if self._path_of is not None:
            with undisturbed():
                self._finish(kind)
        self._thread = None

    def _finish(self, kind: type[BaseException] | None) -> None:
        """kind: of the exception that ended the loop."""
        with self._unharmed("the end of the recording"):
            if self._session is not None and threading.get_ident() != self._thread:
                self._tell("the block ended on another thread than its last step: what that one recorded is lost")
                self._session = self._range = None
            self._close_range()
            renamed: dict[str, str] = {}
            if self._session is not None and not self._trial:
                if kind is None:
                    renamed[f"ProfilerStep#{self._step}"] = _REST
                else:  # the step that failed is worth seeing
                    self._steps.append(self._step)
            if self._session is not None:
                self._stop()
            self._give(renamed, {"capture.cut_short": f"step {self._step}, by {kind.__name__}"} if kind else {})
        self._writer.close()
        if not (self._writer.files or self._problems):
            self._tell(f"nothing was recorded: the loop ended in step {self._step}, before the schedule's first one")

    def _is_heard(self) -> bool:
        """Whether a call of `step` ends a step of this recording; what is wrong is told.

        A session of torch's profiler belongs to the thread that started it: another one cannot end it.
        """
        thread = threading.get_ident()
        if self._thread is None:
            self._tell("step() was called outside of the recording's with block, and does nothing there")
        elif thread != self._thread and self._session is not None:
            self._tell("step() was called on another thread than the one that began the step: steps were not recorded")
        else:
            self._thread = thread
            return True
        return False

    # --- a step ---------------------------------------------------------------------------------------------------

    def _begin(self, ended_ns: int | None = None) -> None:
        """Starts what the step needs, and its range. ended_ns: when the last step did."""
        with self._unharmed(f"step {self._step}"):
            action = self._action(self._step)
            self._trial = action == "warm up" and self._action(self._step + 1) in ("record", "save")
            if action in ("wait", "warm up") and not self._trial:
                self._failed = False
            elif self._session is None and not self._failed:
                self._start()
            if self._session is not None:
                self._range = record_function(f"ProfilerStep#{self._step}")
                self._range.__enter__()
        self._began_ns = time.perf_counter_ns()
        if ended_ns is not None:
            self._pace.paused(self._began_ns - ended_ns)

    def _end(self, ended_ns: int) -> None:
        took_ns = ended_ns - self._began_ns
        self._close_range()
        if self._session is None:
            if self._action(self._step) == "wait" and not self._writer.num_waiting and self._step:
                self._pace.plain.append(took_ns)  # but of the first: it is the program's start
            elif self._action(self._step) == "save":
                self._give({})
            return
        if self._trial:
            self._pace.tried_ns = took_ns  # no recorded step: the first one is slow
            self._stop()
            return
        self._pace.recorded.append(took_ns)
        self._steps.append(self._step)
        is_last = self._action(self._step) == "save"
        if somebody_else_waits():
            self._tell("another profiler of torch began: the recording ended for it")
            self._stop()
            self._give({})
            self._failed = True
            return
        if is_last or len(self._steps) >= self._pace.num_steps_at_once:
            self._stop()
        if is_last:
            self._give({})

    # --- the profiler ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._writer.num_waiting >= MOST_WAITING:
            self._failed = True
            self._tell("writing is slower than recording: a recording was left out")
        elif somebody_else_records():
            self._tell("another profiler of torch is running: steps were not recorded")
        else:
            self._failed = True
            session = self._new_session()
            session.start()
            self._session, self._steps, self._failed = session, [], False

    def _stop(self) -> None:
        session, steps, self._session = self._session, tuple(self._steps), None
        assert session is not None
        began = time.perf_counter_ns()
        self._failed = True
        save = session.stop()
        self._failed = False
        self._pace.stopped(time.perf_counter_ns() - began, len(steps))
        if not self._trial:
            self._taken.append(Taken(steps, save))

    def _close_range(self) -> None:
        opened, self._range = self._range, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def _give(self, renamed: Mapping[str, str], more: Mapping[str, str] = MappingProxyType({})) -> None:
        """Hands what was recorded to the thread that writes. more: what this file alone tells."""
        taken, self._taken = [each for each in self._taken if each.steps], []
        if not taken or self._path_of is None:
            return
        num_stretches = len(taken)

        def facts() -> dict[str, Any]:
            summary = {**self._facts["weftrace"], **more, "capture.overhead": self._overhead().summary()}
            if num_stretches > 1:
                summary["capture.stretches"] = (
                    f"{num_stretches}: between them the profiler was stopped, and the run with it"
                )
            if self._problems:
                summary["capture.problems"] = "; ".join(self._problems)
            return {**self._facts, "weftrace": summary}

        path = self._path_of(taken[0].steps[0])
        self._writer.give(Window(path=path, taken=taken, facts=facts, pace_s=self._pace.step_ns / S, renamed=renamed))

    # --- what it cost, and what went wrong ------------------------------------------------------------------------

    def _overhead(self) -> Overhead:
        return self._pace.overhead(self._writer.held_ns, self._writer.write_ns)

    @contextmanager
    def _unharmed(self, what: str) -> Iterator[None]:
        """An error of profiling is told, and the run goes on."""
        try:
            yield
        except Exception as error:
            self._tell(f"{what}: {error or type(error).__name__}")

    def _tell(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)
            with suppress(CaptureWarning):  # where warnings are made errors, the result alone tells it
                warnings.warn(f"weftrace.capture: {problem}. The run continues.", CaptureWarning, stacklevel=3)
