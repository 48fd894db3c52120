"""Tasks shared out to workers: each comes back, when it is done, with its result or with why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from queue import SimpleQueue
from threading import TIMEOUT_MAX
from typing import TypeVar

from weftrace.errors import ClusterError
from weftrace.workers.losses import Lost, is_death, killed, loss_of
from weftrace.workers.processes import fresh_processes, starting

T = TypeVar("T")
R = TypeVar("R")


def in_processes(call: Callable[[T], R], tasks: Sequence[T], count: int) -> Iterator[tuple[T, R | Lost]]:
    """By fresh processes of this machine. The call can be pickled: see `only_here`."""
    unfinished = dict(enumerate(tasks))
    try:
        with fresh_processes(count) as pool:
            with starting(call):
                futures = {pool.submit(call, task): number for number, task in enumerate(tasks)}
            for future in as_completed(futures):
                result = _result(future)
                yield unfinished.pop(futures[future]), result
    except BrokenProcessPool:
        # A worker was killed, by lack of memory most likely, and took the pool with it. A process a task tells whose.
        for task in unfinished.values():
            yield task, _alone(call, task)


def _alone(call: Callable[[T], R], task: T) -> R | Lost:
    try:
        with fresh_processes(1) as pool:
            with starting(call):
                future = pool.submit(call, task)
            return _result(future)
    except BrokenProcessPool:
        return killed()


def _result(future: Future[R]) -> R | Lost:
    """Raises BrokenProcessPool, which is not about one task."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise
    except Exception as error:  # a result that cannot be pickled, say
        return loss_of(error)


def through(
    executor: Executor, call: Callable[[T], R], tasks: Sequence[T], at_once: int | None = None
) -> Iterator[tuple[T, R | Lost]]:
    """By an executor, at most `at_once` of them handed over at a time; all by default.

    A task whose worker died is tried again when the others are done: as often as the executor says (`num_retries`; none
    for those that try again by themselves), then once with none beside it. For which of several tasks killed a worker a
    cluster does not always know, and memory that is too little for two may do for one. Where the caller stops
    waiting, what has not begun is cancelled. Raises ClusterError where a worker can do none of it.
    """
    rounds = [at_once or len(tasks)] * (1 + getattr(executor, "num_retries", 0))
    for number, most in enumerate((*rounds, 1)):
        died: list[T] = []
        for task, future in _handed_over(executor, call, tasks, most):
            result = _result_or_error(future)
            if isinstance(result, Exception) and is_death(result) and number < len(rounds):
                died.append(task)
            else:
                yield task, loss_of(result) if isinstance(result, Exception) else result
        tasks = died


def _handed_over(
    executor: Executor, call: Callable[[T], R], tasks: Sequence[T], at_once: int
) -> Iterator[tuple[T, Future[R]]]:
    """Tasks and their futures, as these are done."""
    waiting = iter(tasks)
    under_way: dict[Future[R], T] = {}
    done: SimpleQueue[Future[R]] = SimpleQueue()
    try:
        while True:
            for task in islice(waiting, at_once - len(under_way)):
                future = _submitted(executor, call, task)
                under_way[future] = task
                future.add_done_callback(done.put)
            if not under_way:
                return
            future = done.get(timeout=TIMEOUT_MAX)  # without one, Ctrl-C is not heard: Polars has it restart such waits
            yield under_way.pop(future), future
    finally:
        for future in under_way:
            future.cancel()


def _submitted(executor: Executor, call: Callable[[T], R], task: T) -> Future[R]:
    try:
        return executor.submit(call, task)
    except Exception as error:  # the executor is broken, or shut down
        failed: Future[R] = Future()
        failed.set_exception(error)
        return failed


def _result_or_error(future: Future[R]) -> R | Exception:
    try:
        return future.result()
    except ClusterError:
        raise
    except (Exception, CancelledError) as error:
        return error
