"""Processes that work beside this one."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor


def process_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of `workers` fresh processes, each of which computes on one thread.

    Spawned, not forked: Polars runs threads, and a forked child could inherit a lock that nobody holds any more. One
    thread each: the ranks of a job are the parallelism, and threads of several processes only get in each other's way.
    """
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_on_one_thread)


def _on_one_thread() -> None:
    """Runs in the new process before it imports Polars, which reads this when it makes its threads."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
