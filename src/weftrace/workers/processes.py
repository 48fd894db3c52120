"""Fresh processes of this machine: how they begin, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

from weftrace.files.output import remove_unfinished
from weftrace.workers.main_script import main_hidden

_PATIENCE_S = 3.0  # for a worker to end by itself; it may be in a long computation, and deaf
_ENDING = (signal.SIGINT, signal.SIGTERM)


def usable_processors() -> int:
    """Those that this process may use: fewer than the machine has in a container or a job of a scheduler."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def fresh_processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes, each of which computes on one thread; they are ended at once where the block raises.

    Give it its work within `starting`. Spawned, not forked: Polars runs threads, and a forked child could inherit a
    lock that nobody holds any more. One thread each: the files are the parallelism, and threads of several processes
    only get in each other's way.
    """
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BaseException:  # Ctrl-C, a termination, a bug: nobody waits for the files that are left
        _end(list((pool._processes or {}).values()))  # public (`terminate_workers`) only from Python 3.14 on
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def starting(function: Callable[..., object], *, threads: int = 1) -> Iterator[None]:
    """Around handing a pool its first work: its processes start with so many threads for Polars, which reads how many
    it may make when it is imported; undisturbed by signals; and without our main script where the function does not
    need it.
    """
    own = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = own or str(threads)
    try:
        with _signals_held(), main_hidden(function):
            yield
    finally:
        if own is None:
            del os.environ["POLARS_MAX_THREADS"]


def _end(processes: Sequence[BaseProcess]) -> None:
    """End processes, politely first, so that they can remove what they have half written."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _PATIENCE_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C and terminations wait while processes are started: a pool that is made by halves cannot be ended.

    Blocked, too, for the processes that are started: until `_begin`, they would print tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in dict.fromkeys(came):
            signal.raise_signal(late)


def _begin() -> None:
    """Runs first in a new process, before anything can be half written.

    Ctrl-C reaches all processes of a terminal: the one that started this one decides, and when it is gone, so is this.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        # Waited for by a thread: a handler would run when the main thread next does, and writing a file can take long.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        threading.Thread(target=_leave_when_told, daemon=True).start()
    else:
        signal.signal(signal.SIGTERM, lambda *_: _leave())
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_when_told() -> None:
    signal.sigwait([signal.SIGTERM])
    _leave()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only workers wait for it"
    parent.join()
    _leave()


def _leave() -> None:
    remove_unfinished()
    os._exit(128 + signal.SIGTERM)
