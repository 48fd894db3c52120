"""Which processes read pieces beside this one, and how do texts get there and pieces back?

A helper is a fresh Python that reads what stands in memory that it shares with this process, and writes the pieces over
it; only a few bytes go through pipes. It ends when its pipe does, so that nothing is left behind however this process
ends. One that dies costs nothing but time: this process reads what it had.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from multiprocessing import spawn
from multiprocessing.connection import Connection
from typing import IO

from weftrace.trace.chrome.pieces import Pieces, Reading, read_pieces
from weftrace.units import MIB
from weftrace.workers.processes import usable_processors

#: Of texts that are handed over at once. Their pieces take about a third of that.
BATCH_BYTES = 2 * MIB
_MOST_BY_DEFAULT = 4
#: Processes that read a file: more wait for the one that cuts, and take longer to begin than they save.
MOST_WORKERS = 16
_NUM_PARTS = 2  # of the shared memory, for each helper: one is filled while the other is read

_GONE = (EOFError, OSError)  # what a pipe says whose other end is closed


def helpers_can_be() -> bool:
    """Whether this process may have helpers: not where it shares the machine with others of a pool already, nor where
    the system hands no open files on to a new process, nor where no Python can be started: a program that was frozen
    would start itself."""
    can_start = bool(spawn.get_executable()) and not getattr(sys, "frozen", False)
    return os.name == "posix" and can_start and multiprocessing.parent_process() is None


def default_workers() -> int:
    """One a processor that this process may use, but no more than can be kept busy by one that cuts."""
    return min(usable_processors(), _MOST_BY_DEFAULT)


class Batch:
    """Texts that were handed over. pieces: what came of them (`read_pieces`), None before. lost: nothing will come."""

    def __init__(self, part: int = 0) -> None:
        self.part = part
        self.pieces: Pieces | None = None
        self.lost = False


class Helpers:
    """Some helpers, to be ended by `close`. They may read for one file after another."""

    def __init__(self, num: int) -> None:
        """Raises OSError where the system does not give what is needed."""
        self._helpers: dict[int, _Helper] = {}  # by the descriptors of their replies
        self._replies = select.poll()
        num_bytes = num * _NUM_PARTS * BATCH_BYTES
        with _shared_file(num_bytes) as file:
            self._memory = mmap.mmap(file.fileno(), num_bytes)
            try:
                for at in range(0, num * _NUM_PARTS, _NUM_PARTS):
                    helper = _Helper(file.fileno(), num_bytes, range(at, at + _NUM_PARTS))
                    self._helpers[helper.replies.fileno()] = helper
                    self._replies.register(helper.replies.fileno(), select.POLLIN)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End them at once: they hold nothing that must be kept."""
        for helper in self._helpers.values():
            helper.end()
        self._helpers.clear()
        self._memory.close()

    @property
    def pids(self) -> list[int]:
        return [helper.process.pid for helper in self._helpers.values()]

    def wait_until_ready(self) -> None:
        """Until all have begun to listen, or died."""
        while any(not helper.ready for helper in self._helpers.values()):
            self._hear(None)

    @property
    def have_time(self) -> bool:
        return any(helper.has_time for helper in self._helpers.values())

    def hand_over(self, texts: Sequence[Iterable[bytes | memoryview]], reading: Reading) -> Batch:
        """Let the one with the least to do read texts, each in parts, of at most `BATCH_BYTES` in all."""
        helper = min((h for h in self._helpers.values() if h.has_time), key=lambda h: len(h.at_work))
        batch = Batch(helper.free.pop())
        at = batch.part * BATCH_BYTES
        bounds = [at]
        for text in texts:
            for part in text:
                self._memory[at : at + len(part)] = part
                at += len(part)
            bounds.append(at)
        helper.at_work.append(batch)
        try:
            helper.orders.send((bounds, reading))
        except _GONE:
            self._lose(helper)
        return batch

    def listen(self, batch: Batch | None = None) -> None:
        """Take what has come back. batch: wait for this one."""
        self._hear(0)
        while batch is not None and not (batch.pieces or batch.lost):
            self._hear(None)

    def _hear(self, timeout: int | None) -> None:
        for descriptor, _ in self._replies.poll(timeout):
            self._listen_to(self._helpers[descriptor])

    def _listen_to(self, helper: _Helper) -> None:
        try:
            sizes: list[int] | None = helper.replies.recv()
            if not helper.ready:
                helper.ready = True
                return
            batch = helper.at_work[0]
            start = batch.part * BATCH_BYTES
            summary = helper.replies.recv_bytes() if sizes is None else self._memory[start : start + sum(sizes)]
        except _GONE:
            self._lose(helper)
            return
        batch.pieces = _unpacked(summary, sizes or [len(summary)])
        helper.at_work.popleft()
        helper.free.append(batch.part)

    def _lose(self, helper: _Helper) -> None:
        """Killed, for lack of memory most likely. What it had to read is read in order, as what is no piece."""
        descriptor = helper.replies.fileno()
        self._replies.unregister(descriptor)
        del self._helpers[descriptor]
        helper.end()
        for batch in helper.at_work:
            batch.lost = True


class _Helper:
    """One process. free: parts of the memory that wait for texts. ready: whether it has begun to listen."""

    def __init__(self, memory: int, num_bytes: int, parts: Sequence[int]) -> None:
        self.free = list(parts)
        self.at_work: deque[Batch] = deque()
        self.ready = False
        orders, own_orders = os.pipe()
        own_replies, replies = os.pipe()
        self.orders = Connection(own_orders, readable=False)
        self.replies = Connection(own_replies, writable=False)
        given = memory, num_bytes, orders, replies
        paths = [path for path in sys.path if isinstance(path, str)]  # Python itself looks nowhere else
        program = f"import sys; sys.path[:] = {paths!r}; from {__name__} import _serve; _serve{given}"
        try:
            self.process = subprocess.Popen(
                [os.fsdecode(spawn.get_executable()), "-c", program],
                pass_fds=(memory, orders, replies),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for the process that was started there
            )
        except BaseException:
            self.orders.close()
            self.replies.close()
            raise
        finally:
            os.close(orders)
            os.close(replies)

    @property
    def has_time(self) -> bool:
        return self.ready and bool(self.free)

    def end(self) -> None:
        self.orders.close()
        self.replies.close()
        self.process.kill()
        self.process.wait()


def _shared_file(num_bytes: int) -> IO[bytes]:
    """A file without a name, in memory where the system has such. Its room is set aside: nobody dies for lack of it."""
    in_memory = getattr(os, "memfd_create", None)
    file: IO[bytes] = (
        os.fdopen(in_memory("weftrace"), "r+b", 0) if in_memory else tempfile.TemporaryFile()  # noqa: SIM115 # returned
    )
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, num_bytes)
        else:
            file.truncate(num_bytes)
    except BaseException:
        file.close()
        raise
    return file


# --- in the other process -------------------------------------------------------------------------------------------


def _serve(memory_file: int, num_bytes: int, orders_pipe: int, replies_pipe: int) -> None:
    """Read what is ordered until the pipe ends."""
    memory = mmap.mmap(memory_file, num_bytes)
    view = memoryview(memory)
    orders, replies = Connection(orders_pipe, writable=False), Connection(replies_pipe, readable=False)
    try:
        replies.send([])
        while True:
            bounds, reading = orders.recv()
            texts = [view[start:end] for start, end in pairwise(bounds)]
            try:
                pieces = read_pieces(texts, reading)
            except Exception:  # whatever it is, the process that asked meets it again in order, and tells it
                pieces = read_pieces([], reading)
            _reply(replies, memory, bounds[0], pieces)
    except _GONE:
        return


def _reply(replies: Connection, memory: mmap.mmap, start: int, pieces: Pieces) -> None:
    """Pieces as a pickle and the bytes of their arrays: where their texts were or, if they take more, in the pipe."""
    arrays: list[pickle.PickleBuffer] = []
    summary: list[bytes | memoryview] = [pickle.dumps(pieces, 5, buffer_callback=arrays.append)]
    summary += [array.raw() for array in arrays]
    sizes = [len(part) for part in summary]
    if sum(sizes) > BATCH_BYTES:
        replies.send(None)
        replies.send_bytes(pickle.dumps(pieces, 5))
        return
    for part, size in zip(summary, sizes, strict=True):
        memory[start : start + size] = part
        start += size
    replies.send(sizes)


def _unpacked(summary: bytes, sizes: Sequence[int]) -> Pieces:
    view, at, parts = memoryview(summary), 0, []
    for size in sizes:
        parts.append(view[at : at + size])
        at += size
    pieces: Pieces = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 # of our own process
    return pieces
