"""Bytes of a trace file, decompressed as a stream: plain, gzip, zstd, gzip of gzip, local or remote."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

from isal import isal_zlib

from weftrace.errors import TraceError, TraceTooLarge
from weftrace.files.plain_text import without_surrogates
from weftrace.files.standard_input import STANDARD_INPUT, STANDARD_INPUT_NAME, located
from weftrace.installing import install_command, packages_command
from weftrace.units import GIB, KIB, size

#: Decompressed bytes read from one file unless the caller says otherwise. Memory does not grow with it (reading is
#: streamed); it bounds the time that a hostile archive can take.
DEFAULT_MAX_BYTES = 64 * GIB

_CHUNK = 256 * KIB  # decoding is fastest while a chunk's objects stay in the processor's cache
_PIECE = 16 * KIB  # decompressed at a time: what precedes damage within a piece is lost with it
_SKIPPABLE = b"\x2a\x4d\x18"  # of zstd, after a first byte of 0x50 to 0x5f
_LONGEST_HEADER = 13
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_TRAILER = 8  # bytes: checksum and length
_GZIP_ERRORS: tuple[type[Exception], ...] = (isal_zlib.error, zlib.error)  # type: ignore[assignment] # isal's stub errs
_MAX_LAYERS = 4


@dataclass(slots=True)
class ByteStream:
    """Decompressed chunks of one file. `truncated` says, after the last chunk, whether the file ended early and how."""

    path: str
    chunks: Iterator[bytes]
    truncated: str | None = None


def file_name(path: str) -> str:
    """The last part of a path, as text: reports are passed around, and where a file lay is nobody's business."""
    return STANDARD_INPUT_NAME if path == STANDARD_INPUT else without_surrogates(PurePath(path).name or path)


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL that fsspec opens (`s3://`, `gs://`, `https://`, `memory://` ...)."""
    return "://" in str(path)


def open_bytes(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
) -> ByteStream:
    """The decompressed bytes of `path` in chunks of about 256 KiB.

    Compression is told from the content, not from the name; it may be up to three layers deep. `on_progress` gets the
    number of stored (compressed) bytes of each piece read.

    Nothing is read before the first chunk is asked for. Iterating raises TraceError if the file cannot be opened or
    read, and TraceTooLarge when it, or a layer of it, expands past `max_bytes`. Damage is no error: what precedes it is
    given, and `truncated` says what happened.
    """
    return unpacked(_stored(path, on_progress), str(path), max_bytes=max_bytes)


def unpacked(stored: Iterator[bytes], path: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> ByteStream:
    """`open_bytes` of stored bytes that are at hand; `path` is only what errors name."""
    stream = ByteStream(path=path, chunks=iter(()))
    stream.chunks = _gathered(_decompressed(stored, stream, max_bytes))
    return stream


# --- stored bytes -----------------------------------------------------------------------------------------------------


def _stored(path: str | os.PathLike[str], on_progress: Callable[[int], None] | None) -> Iterator[bytes]:
    with _open(path) as file:
        while True:
            try:
                chunk = file.read(_CHUNK)
            except Exception as error:  # a remote file's backend raises types of its own
                raise TraceError(
                    f"{path}: reading failed: {_said(error)}. Copy the file to a local disk, then try again."
                ) from error
            if not chunk:
                return
            if on_progress is not None:
                on_progress(len(chunk))
            yield chunk


def _open(path: str | os.PathLike[str]) -> IO[bytes]:
    try:
        if is_remote(path):
            return _open_remote(str(path))
        return Path(located(path)).open("rb")
    except FileNotFoundError as error:
        raise TraceError(
            f"{path}: no such file. Check the path, or give a folder or a quoted glob of traces."
        ) from error
    except IsADirectoryError as error:
        raise TraceError(f"{path}: is a folder; a single trace file is needed here.") from error
    except PermissionError as error:
        raise TraceError(
            f"{path}: cannot be opened: permission denied. Ask its owner for the right to read it."
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise TraceError(f"{path}: cannot be opened: {_said(error)}. Check the path.") from error


def _open_remote(path: str) -> IO[bytes]:
    import fsspec

    try:
        file: Any = fsspec.open(path, "rb").open()
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except ImportError as error:
        scheme = path.partition("://")[0].lower()
        extra = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}.get(scheme)
        if extra is None and scheme not in ("http", "https"):
            raise TraceError(f"{path}: to read {scheme}://, install the package that serves it ({error}).") from error
        helps = packages_command("requests", "aiohttp") if extra is None else install_command(extra)
        raise TraceError(f"{path}: to read {scheme}://, run: {helps}") from error
    except Exception as error:  # fsspec's backends raise types of their own; all mean that the path cannot be read
        raise TraceError(
            f"{path}: cannot be opened: {_said(error)}. Check the path and your credentials for it."
        ) from error
    return file  # type: ignore[no-any-return]


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


# --- layers of compression --------------------------------------------------------------------------------------------


def _decompressed(pieces: Iterator[bytes], stream: ByteStream, max_bytes: int) -> Iterator[bytes]:
    for _ in range(_MAX_LAYERS):
        pieces = _limited(pieces, stream.path, max_bytes)
        head, pieces = _peek(pieces)
        if head.startswith(_GZIP):
            pieces = _gunzip(pieces, stream)
        elif head.startswith(_ZSTD):
            pieces = _unzstd(pieces, stream)
        else:
            yield from pieces
            return
    raise TraceError(f"{stream.path}: is compressed more than {_MAX_LAYERS - 1} times over. Decompress it first.")


def _limited(pieces: Iterator[bytes], path: str, max_bytes: int) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            raise TraceTooLarge(
                f"{path}: expands past the limit of {size(max_bytes)}. If you trust the file, raise --max-bytes."
            )
        yield piece


def _peek(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first four bytes, and an iterator that still yields everything."""
    head = b""
    while len(head) < 4 and (piece := next(pieces, None)) is not None:
        head += piece

    def again() -> Iterator[bytes]:
        if head:
            yield head
        yield from pieces

    return head[:4], again()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces joined to chunks of about `_CHUNK`."""
    held: list[bytes] = []
    num_bytes = 0
    for piece in pieces:
        held.append(piece)
        num_bytes += len(piece)
        if num_bytes >= _CHUNK:
            yield b"".join(held)
            held, num_bytes = [], 0
    if held:
        yield b"".join(held)


def _gunzip(pieces: Iterator[bytes], stream: ByteStream) -> Iterator[bytes]:
    """Members one after the other. Of a damaged one all is given that precedes the damage, to within `_PIECE`."""
    member = None
    num_members = 0
    for data in _trailer_apart(pieces):
        full = False  # whether the member may have more to give without more data
        while data or full:
            if member is None:
                data = data.lstrip(b"\0")  # some writers pad a member with zeros
                if data and num_members and not _GZIP.startswith(data[:2]):
                    stream.truncated = "what follows the gzip data is none and was not read"
                    return
                member = isal_zlib.decompressobj(wbits=16 + zlib.MAX_WBITS) if data else None
            if member is None:
                break
            try:
                out = member.decompress(data, _PIECE)
            except _GZIP_ERRORS as error:
                stream.truncated = f"the gzip data is damaged ({error})"
                return
            if out:
                yield out
            full = len(out) == _PIECE
            data = member.unconsumed_tail
            if member.eof:
                data, member, full = member.unused_data, None, False
                num_members += 1
    if member is not None:
        stream.truncated = "the gzip data ends early"


def _trailer_apart(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at most `_PIECE`, the last of which is no more than a member's trailer: a checksum
    that fails is met when all else has been decompressed."""
    held = b""
    for piece in pieces:
        held += piece
        for at in range(0, len(held) - _GZIP_TRAILER, _PIECE):
            yield held[at : min(at + _PIECE, len(held) - _GZIP_TRAILER)]
        held = held[-_GZIP_TRAILER:]
    yield held


def _unzstd(pieces: Iterator[bytes], stream: ByteStream) -> Iterator[bytes]:
    import zstandard

    source = _Reader(pieces)
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
        source,  # type: ignore[arg-type]
        read_across_frames=True,
    )
    while True:
        try:
            out = reader.read(_PIECE)
        except zstandard.ZstdError as error:
            stream.truncated = f"the zstd data is damaged ({error})"
            return
        if not out:
            if not source.frames.is_whole:  # of which zstandard says nothing
                stream.truncated = "the zstd data ends early"
            return
        yield out


class _Reader:
    """A file over an iterator of pieces, as zstandard wants it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""
        self.frames = _ZstdFrames()

    def read(self, num_bytes: int = -1) -> bytes:
        assert num_bytes > 0, num_bytes
        if not self._left:
            self._left = next(self._pieces, b"")
        out, self._left = self._left[:num_bytes], self._left[num_bytes:]
        self.frames.pass_by(out)
        return out


class _ZstdFrames:
    """Whether zstd data that passes by ends where a frame ends: RFC 8878, sections 3.1.1 and 3.1.2."""

    def __init__(self) -> None:
        self._is_between = True
        self._parts = self._in_order()
        self._need, self._have, self._held = next(self._parts), 0, b""

    @property
    def is_whole(self) -> bool:
        return self._is_between and self._have == 0

    def pass_by(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            taken = min(self._need - self._have, len(data) - at)
            if self._need <= _LONGEST_HEADER:  # the content of a block says nothing
                self._held += data[at : at + taken]
            at, self._have = at + taken, self._have + taken
            if self._have == self._need:
                held, self._held, self._have = self._held, b"", 0
                self._need = self._parts.send(held)

    def _in_order(self) -> Generator[int, bytes, None]:
        """The length of each part of a frame; gets its bytes. None has length 0."""
        while True:
            self._is_between = True
            head = yield 5
            self._is_between = False
            if head[1:4] == _SKIPPABLE:
                if size := int.from_bytes(head[4:] + (yield 3), "little"):
                    yield size
                continue
            kind = head[4]  # the frame header's descriptor
            is_single = kind >> 5 & 1
            if length := (1 - is_single) + (0, 1, 2, 4)[kind & 3] + (is_single, 2, 4, 8)[kind >> 6]:
                yield length
            is_last = 0
            while not is_last:
                block = int.from_bytes((yield 3), "little")
                is_last = block & 1
                if length := 1 if block >> 1 & 3 == 1 else block >> 3:  # 1: one byte, repeated
                    yield length
            if kind >> 2 & 1:
                yield 4  # the checksum
