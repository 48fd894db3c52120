"""Functions that run in a process of their own, with limits on memory and time, because what they call may end it.

A damaged Parquet file can make Polars abort: no `except` sees that, and the process that reads it is gone.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from weftrace.errors import WeftraceError
from weftrace.units import MIB

T = TypeVar("T")

_SECONDS = 60.0  # for a call; and one more per MB that it is given
_ROOM = 512 * MIB  # of memory for a call beside what it may hold
_THREADS = 4  # of Polars, each of which takes memory
_COPIES = 4  # of what a call may hold, while it is decoded, put together and sent
_BEGIN = "import sys; sys.path[:] = {path!r}; from weftrace.files.apart import serve; serve()"


class ApartError(Exception):
    """A function that ran apart failed, and how: it raised, its process ended, or it took too long."""


class Apart:
    """A process that runs one function after another, each with its arguments. End it with `with`.

    max_bytes: what a function may hold in memory, about.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, function: Callable[..., T], *args: Any, num_bytes: int = 0) -> T:
        """What a module's function gives. num_bytes: that it is to read, which gives it more time.

        Raises the function's WeftraceError, and ApartError where it fails in another way.
        """
        process = self._process = self._process or _started(self._max_bytes)
        assert process.stdin is not None and process.stdout is not None
        seconds = _SECONDS + num_bytes / 1e6
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump((function, args), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            is_fine, found = pickle.load(process.stdout)  # noqa: S301 # from our own process
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._end()
            timed_out = not timer.is_alive()
            how = f"takes more than {seconds:,.0f} s" if timed_out else "ends the process that reads it"
            raise ApartError(f"{how}: it is damaged, or needs more memory than --max-bytes allows") from error
        finally:
            timer.cancel()
        if is_fine:
            return found  # type: ignore[no-any-return]
        raise found if isinstance(found, WeftraceError) else ApartError(found)

    def _end(self) -> None:
        if (process := self._process) is not None:
            self._process = None
            process.kill()
            with process:  # closes its pipes and waits for it
                pass


def _started(max_bytes: int) -> subprocess.Popen[bytes]:
    code = _BEGIN.format(path=[os.path.abspath(each) for each in sys.path])
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(max_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # panics print there; what is wrong is said by whoever called
            bufsize=1 << 20,
            env={"POLARS_MAX_THREADS": str(_THREADS), **os.environ},
        )
    except OSError as error:
        raise ApartError(f"no process can be started to read it: {error.strerror or error}") from error


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line of at most 200 characters."""
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def serve() -> None:
    """Run what `Apart` sends, until it sends no more: the other process's whole life."""
    calls = os.fdopen(os.dup(0), "rb")
    results = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # whatever prints must not print between results
    is_limited = False
    while True:
        try:
            function, args = pickle.load(calls)  # noqa: S301 # from the process that began this one
        except (EOFError, KeyboardInterrupt):
            return
        if not is_limited:  # after the function's modules are there, and their threads' stacks
            _limit_memory(int(sys.argv[1]))
            is_limited = True
        try:
            result = pickle.dumps((True, function(*args)), pickle.HIGHEST_PROTOCOL)
        except WeftraceError as error:
            result = pickle.dumps((False, error))
        except BaseException as error:  # Polars' panics are no Exception
            result = pickle.dumps((False, first_line(error)))
        results.write(result)
        results.flush()


def _limit_memory(max_bytes: int) -> None:
    """So that asking for too much fails here, at once, and does not cost the machine its memory."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            own = int(file.read().split()[5]) * resource.getpagesize()  # what it may write to, stacks included
        half = os.sysconf("SC_PHYS_PAGES") * resource.getpagesize() // 2
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = own + min(_ROOM + _COPIES * max_bytes, half)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    except (ImportError, OSError, ValueError):
        return  # not on Linux
