"""Bytes of a trace file, decompressed as a stream: plain, gzip, zstd, gzip of gzip, local or remote."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from isal import isal_zlib

from weft.errors import TraceError, TraceTooLarge
from weft.units import GIB, size

#: Decompressed bytes read from one file unless the caller says otherwise. Memory does not grow with it (reading is
#: streamed); it bounds the time that a hostile archive can take.
DEFAULT_MAX_BYTES = 64 * GIB

_CHUNK = 1 << 18  # decoding is fastest while a chunk's objects stay in the processor's cache
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAX_LAYERS = 4


@dataclass(slots=True)
class ByteStream:
    """Decompressed chunks of one file. `truncated` says, after the last chunk, whether the file ended early and how."""

    path: str
    chunks: Iterator[bytes]
    truncated: str | None = None


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

    Compression is told from the content, not from the name. `on_progress` gets the number of stored (compressed)
    bytes of each chunk read.

    Raises TraceError if the file cannot be opened and, while iterating, TraceTooLarge past `max_bytes`.
    """
    stream = ByteStream(path=str(path), chunks=iter(()))
    stream.chunks = _limited(_decompressed(_stored(path, on_progress), stream), stream.path, max_bytes)
    return stream


def _stored(path: str | os.PathLike[str], on_progress: Callable[[int], None] | None) -> Iterator[bytes]:
    file = _open(path)
    with file:
        while True:
            try:
                chunk = file.read(_CHUNK)
            except OSError as error:
                raise TraceError(f"{path}: reading failed: {error}") from error
            if not chunk:
                return
            if on_progress is not None:
                on_progress(len(chunk))
            yield chunk


def _open(path: str | os.PathLike[str]) -> IO[bytes]:
    try:
        if is_remote(path):
            return _open_remote(str(path))
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file. Check the path, or give a folder or a quoted glob of traces.") from error
    except IsADirectoryError as error:
        raise TraceError(f"{path}: is a folder; a single trace file is needed here.") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be opened: {error.strerror or error}") from error


def _open_remote(path: str) -> IO[bytes]:
    import fsspec

    try:
        file: Any = fsspec.open(path, "rb").open()
    except FileNotFoundError:
        raise
    except ImportError as error:
        raise TraceError(f"{path}: {error}. Install the package that serves this kind of path, then try again.") from error
    except Exception as error:  # fsspec's backends raise types of their own; all mean that the path cannot be read
        raise TraceError(f"{path}: cannot be opened: {error}") from error
    return file  # type: ignore[no-any-return]


def _decompressed(chunks: Iterator[bytes], stream: ByteStream) -> Iterator[bytes]:
    for _ in range(_MAX_LAYERS):
        head, chunks = _peek(chunks)
        if head.startswith(_GZIP):
            chunks = _gunzip(chunks, stream)
        elif head.startswith(_ZSTD):
            chunks = _unzstd(chunks, stream)
        else:
            return chunks
    raise TraceError(f"{stream.path}: compressed more than {_MAX_LAYERS - 1} times over; decompress it first.")


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first four bytes, and an iterator that still yields everything."""
    head: list[bytes] = []
    while sum(map(len, head)) < 4:
        chunk = next(chunks, None)
        if chunk is None:
            break
        head.append(chunk)

    def again() -> Iterator[bytes]:
        yield from (piece for piece in head if piece)
        yield from chunks

    return b"".join(head)[:4], again()


def _gunzip(chunks: Iterator[bytes], stream: ByteStream) -> Iterator[bytes]:
    member = None
    data = b""
    while True:
        if not data:
            data = next(chunks, b"")
            if not data:
                break
        if member is None:
            data = data.lstrip(b"\0")  # some writers pad a member with zeros
            if not data:
                continue
            member = isal_zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            out = member.decompress(data, _CHUNK)
        except (isal_zlib.error, zlib.error) as error:
            stream.truncated = f"gzip data is damaged ({error})"
            return
        if out:
            yield out
        if member.eof:
            data, member = member.unused_data, None
        else:
            data = member.unconsumed_tail
            if not out and not data:
                data = next(chunks, b"")
                if not data:
                    break
    if member is not None:
        # What the decompressor still holds; a truncated member has no checksum to verify it.
        rest = member.flush() if not member.eof else b""
        if rest:
            yield rest
        stream.truncated = "the gzip stream ends early"


def _unzstd(chunks: Iterator[bytes], stream: ByteStream) -> Iterator[bytes]:
    import zstandard

    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
        _Reader(chunks), read_across_frames=True  # type: ignore[arg-type]
    )
    while True:
        try:
            out = reader.read(_CHUNK)
        except zstandard.ZstdError as error:
            stream.truncated = f"zstd data is damaged ({error})"
            return
        if not out:
            return
        yield out


class _Reader:
    """A file over an iterator of chunks, as zstandard wants it."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def read(self, num_bytes: int = -1) -> bytes:
        assert num_bytes > 0, num_bytes
        if not self._left:
            self._left = next(self._chunks, b"")
        out, self._left = self._left[:num_bytes], self._left[num_bytes:]
        return out


def _limited(chunks: Iterator[bytes], path: str, max_bytes: int) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > max_bytes:
            raise TraceTooLarge(
                f"{path}: expands past the limit of {size(max_bytes)}. If you trust the file, raise --max-bytes."
            )
        yield chunk
