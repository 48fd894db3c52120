"""Which text is read before its turn, by other processes, and what if it was read in vain?

Where text is sound, the next cut does not depend on what the text before it says, and who cuts need not decode: that a
piece is a list of events proves its cuts, and its reader finds that out. So pieces are handed over as soon as they are
cut, and put into the table in the file's order. At the first that is none, what was cut behind it is worth nothing: the
file is read in order from there, as if nothing had been handed over, and further ahead again a while later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from weftrace.trace.chrome.helpers import BATCH_BYTES, Batch, Helpers
from weftrace.trace.chrome.pieces import Reading, put_pieces, read_pieces
from weftrace.trace.chrome.table import Table

_MOST_PIECES = 8  # of a batch
_MOST_WAITING = 32  # batches that are read, or being read, and not in the table yet
_FIRST_PAUSE = 16  # pieces that are read in order after one that was none; twice as many after each further one


@dataclass(slots=True)
class _Cut:
    """A piece, buffer[:stop], and where it was cut from: behind buffer[:end] the next begins."""

    buffer: bytes
    stop: int
    end: int

    @property
    def text(self) -> tuple[bytes, memoryview, bytes]:
        """The piece as a list of events, in parts."""
        return b"[", memoryview(self.buffer)[: self.stop], b"]"


@dataclass(slots=True)
class _Turn:
    """Pieces that are read together. exact: how the first was."""

    cuts: list[_Cut]
    exact: bool
    batch: Batch


class Ahead:
    """Pieces on their way into a table.

    begin: makes helpers, or None where none can be had; asked once, when `begin_bytes` of text have been read.
    """

    def __init__(self, table: Table, begin: Callable[[], Helpers | None], begin_bytes: int) -> None:
        self._table, self._begin, self._begin_bytes = table, begin, begin_bytes
        self._helpers: Helpers | None = None
        self._num_bytes = 0
        self._pause = 1  # the first piece tells how times are to be read
        self._next_pause = _FIRST_PAUSE
        self._gathered: list[_Cut] = []
        self._turns: deque[_Turn] = deque()
        self._in_vain = False

    def take(self, buffer: bytes, start: int, end: int) -> bool:
        """Read a text up to the cut at `start`, behind which the next piece is to begin at `end`, before its turn.

        False where it must be read in order, after `settle`.
        """
        self._num_bytes += len(buffer)
        helpers = self._have_begun()
        if helpers is None:
            return False
        helpers.listen()
        self._put()
        cut = _Cut(buffer, start + 1, end)
        num_bytes = cut.stop + 2
        if self._in_vain or num_bytes > BATCH_BYTES or not (helpers.have_time or self._turns):
            return False
        if sum(other.stop + 2 for other in self._gathered) + num_bytes > BATCH_BYTES:
            self._read_gathered(helpers)
        self._gathered.append(cut)
        if len(self._gathered) == _MOST_PIECES or not helpers.have_time:
            self._read_gathered(helpers)
        return True

    def settle(self, buffer: bytes) -> tuple[bytes, list[bytes]] | None:
        """Wait until all that was taken is in the table. Where some was read in vain, what is to be read in order
        instead: the text that was at hand then, and the chunks that have come since, up to the end of `buffer`."""
        if self._helpers is None:
            return None
        if self._gathered and not self._in_vain:
            self._read_gathered(self._helpers)
        while self._turns and not self._in_vain:
            self._helpers.listen(self._turns[0].batch)
            self._put()
        if not self._in_vain:
            return None
        cuts = [cut for turn in self._turns for cut in turn.cuts] + self._gathered
        lengths = [len(cut.buffer) - cut.end for cut in cuts]  # of what each left to the next
        following = [*(cut.buffer for cut in cuts[1:]), buffer]
        chunks = [text[length:] for text, length in zip(following, lengths, strict=True)]
        self._turns.clear()
        self._gathered.clear()
        self._in_vain = False
        self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
        return cuts[0].buffer, [chunk for chunk in chunks if chunk]

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.close()

    def _have_begun(self) -> Helpers | None:
        """The helpers, if now is a time to use them."""
        if self._pause:
            self._pause -= 1
            return None
        if self._helpers is None and self._begin_bytes <= self._num_bytes:
            self._helpers = self._begin()
            self._begin_bytes = 1 << 62
        return self._helpers

    def _read_gathered(self, helpers: Helpers) -> None:
        """Hand over what was gathered, or read it here where nobody else has time."""
        cuts, self._gathered = self._gathered, []
        reading = Reading(self._table.exact, *self._table.options)
        texts = [cut.text for cut in cuts]
        if helpers.have_time:
            batch = helpers.hand_over(texts, reading)
        else:
            batch = Batch()
            batch.pieces = read_pieces([b"".join(text) for text in texts], reading)
        self._turns.append(_Turn(cuts, reading.exact, batch))
        if len(self._turns) > _MOST_WAITING:
            helpers.listen(self._turns[0].batch)

    def _put(self) -> None:
        """Put what is read, and whose turn it is, into the table."""
        while self._turns:
            turn = self._turns[0]
            pieces = turn.batch.pieces
            if pieces is None and not turn.batch.lost:
                return
            if pieces is not None and turn.exact == self._table.exact:
                put_pieces(self._table, pieces)
                del turn.cuts[: len(pieces.each)]
            if turn.cuts:
                self._in_vain = True
                return
            self._turns.popleft()
