"""Processes that run tests side by side compile each of Numba's functions once, and not once each.

The balancers' loops take more than a minute to compile, and Numba keeps what it compiled on disk, beside the source.
But two processes that need the same function at the same time would both compile it, and the one that is done last
would overwrite the other's index. Here whoever comes second waits, and then finds the result on the disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def share_compiled_functions() -> None:
    """From here on, this process compiles a function only while no other process compiles the same one."""
    from numba.core.dispatcher import Dispatcher

    compile_alone: Any = Dispatcher.compile

    def compiled(self: Any, signature: Any) -> Any:
        if not hasattr(self.stats, "cache_path") or not self.stats.cache_path:  # kept in memory only
            return compile_alone(self, signature)
        with _one_at_a_time(f"{self.stats.cache_path}/{self.py_func.__qualname__}"):
            return compile_alone(self, signature)

    setattr(Dispatcher, "compile", compiled)  # noqa: B010 - mypy takes no other function for a method


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Held by one process at a time. A function waits only for those that it calls, so nobody waits in a circle."""
    folder = Path(tempfile.gettempdir()) / f"weftrace-compiling-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    with (folder / hashlib.sha256(name.encode()).hexdigest()).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
