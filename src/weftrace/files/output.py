"""Files written whole or not at all: a temporary file beside the target, made durable, then moved into its place.

Whoever opens the target sees the old content or the complete new one, never a part, also when the disk fills, the
program is interrupted, or the file being written is the one being read.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from weftrace.errors import OutputError
from weftrace.files.sources import is_remote

_BUFFER = 1 << 20
_GZIP_LEVEL = 2  # of ISA-L's four: several times faster than zlib at a third more size; .zst is smaller and as fast
_ZSTD_LEVEL = 3
_MAX_NAME = 96  # bytes of the target's name that the temporary name keeps: names end at 255 on most systems


class Sink(Protocol):
    """Something that takes bytes."""

    def write(self, data: bytes, /) -> int: ...


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the target's folder; moved onto `path` when the block ends, removed when it raises.

    For writers that want a path. A link is followed, so its target is replaced and the link stays; an existing file's
    permissions are kept. A device or a pipe (`/dev/null`, `>(…)`) cannot be replaced: its own path is handed out.

    Raises OutputError, naming the path and the remedy, when the file cannot be made or moved. Whatever the block
    raises passes unchanged.
    """
    target = _target(path)
    if _is_special(target):
        yield target
        return
    temporary = _beside(target)
    _unfinished.add(temporary)
    try:
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except OSError as error:
            raise _failure(path, error) from error
        yield temporary
        try:
            _make_durable(temporary)
            _keep_mode(target, temporary)
            os.replace(temporary, target)
        except OSError as error:
            raise _failure(path, error) from error
    finally:
        _remove(temporary)
    with suppress(OSError):  # not every file system syncs a folder; the content itself is safe by now
        _make_durable(target.parent, os.O_RDONLY)


@contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[Sink]:
    """A sink for bytes that become the file `path` when the block ends, and leave no trace when it raises.

    `.gz` is compressed with gzip, without a name or a time in its header, so that equal content makes equal files;
    `.zst` with zstd, checksummed; any other name is written as it is.

    Raises OutputError for a missing folder, missing permission, a full disk, a remote path.
    """
    with replacing(path) as temporary:
        try:
            file = temporary.open("wb", buffering=_BUFFER)
        except OSError as error:
            raise _failure(path, error) from error
        sink = _FileSink(file, path)
        try:
            compressed = _compressed(sink, os.fspath(path))
            yield compressed
            if isinstance(compressed, _CompressedSink):
                compressed.finish()
            sink.close()
        finally:
            with suppress(OSError):  # on success it is closed already; on failure the first error is the one to tell
                file.close()


def write_output(path: str | os.PathLike[str], chunks: Iterable[bytes | str]) -> int:
    """Write chunks (texts as UTF-8) to `path`, compressed as its suffix says; the number of bytes before compression.

    A lone surrogate in a text, which UTF-8 cannot hold, is written as `?`. Raises OutputError as `open_output` does.
    """
    total = 0
    with open_output(path) as sink:
        for chunk in chunks:
            data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
            sink.write(data)
            total += len(data)
    return total


_unfinished: set[Path] = set()  # temporary files of this process


def remove_unfinished() -> None:
    """Remove what is half written, for a process that ends at once, in whatever it was doing."""
    for temporary in list(_unfinished):
        _remove(temporary)


# --- where --------------------------------------------------------------------------------------------------------


def _target(path: str | os.PathLike[str]) -> Path:
    """The file that a path means, links followed. Raises OutputError where no file can be."""
    if is_remote(path):
        raise OutputError(f"{path}: remote outputs are not written. Write to a local file, then copy it there.")
    if not os.fspath(path):
        raise OutputError("an empty output path: give the name of a file.")
    try:
        target = Path(path) if _is_special(path) else Path(os.path.realpath(path))
        is_folder, is_there = target.is_dir(), target.exists()
    except OSError as error:
        raise _failure(path, error) from error
    except ValueError as error:  # a NUL character
        raise OutputError(f"{os.fspath(path)!r}: cannot be written: {error}. Choose another path.") from error
    if is_folder:
        raise OutputError(f"{path}: is a folder. Give the name of a file in it.")
    if is_there and not os.access(target, os.W_OK):
        raise OutputError(f"{path}: is write-protected. Choose another name, or allow writing: chmod u+w '{target}'")
    return target


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether there is something at `path` that is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _beside(target: Path) -> Path:
    """The path of a hidden file in the target's folder, which is not there yet."""
    name = os.fsdecode(os.fsencode(target.name)[:_MAX_NAME])
    return target.with_name(f".{name}.{secrets.token_hex(6)}.part")


def _remove(temporary: Path) -> None:
    with suppress(OSError):  # it may have been moved, or never made
        temporary.unlink()
    _unfinished.discard(temporary)


def _keep_mode(target: Path, temporary: Path) -> None:
    with suppress(FileNotFoundError):
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))


def _make_durable(path: Path, flags: int = os.O_RDWR) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- what went wrong ----------------------------------------------------------------------------------------------

_REMEDIES = {
    errno.ENOSPC: "the disk is full. Free some space or choose another disk; nothing was left behind",
    errno.EDQUOT: "your disk quota is used up. Free some space or choose another disk; nothing was left behind",
    errno.EFBIG: "the file would exceed the size that is allowed here. Choose another disk, or a .gz or .zst name",
    errno.EROFS: "the file system is read-only. Choose another folder",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    errno.EACCES: "no permission to write in this folder. Choose another, or change its permissions",
    errno.EPERM: "no permission to write in this folder. Choose another, or change its permissions",
    errno.ENOTDIR: "a part of the path is a file, not a folder. Correct the path",
}


def _failure(path: str | os.PathLike[str], error: OSError) -> OutputError:
    """What to tell the user about an operating system's refusal to write `path`."""
    if error.errno == errno.ENOENT:
        folder = Path(os.path.realpath(path)).parent
        if folder.is_dir():  # /proc answers so
            return OutputError(f"{path}: cannot be written: no file can be made in {folder}. Choose another folder.")
        return OutputError(f"{path}: the folder {folder} does not exist. Make it first: mkdir -p '{folder}'")
    remedy = _REMEDIES.get(error.errno or 0)
    return OutputError(f"{path}: cannot be written: {remedy or error.strerror or error}.")


# --- compression --------------------------------------------------------------------------------------------------


class _FileSink:
    """A file whose failures name the output and the remedy."""

    def __init__(self, file: IO[bytes], path: str | os.PathLike[str]) -> None:
        self._file = file
        self._path = path

    def write(self, data: bytes, /) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise _failure(self._path, error) from error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise _failure(self._path, error) from error


class _CompressedSink:
    """A sink before a sink: what is written goes through a compressor object (`compress`, `flush`)."""

    def __init__(self, sink: Sink, compressor: Any) -> None:
        self._sink = sink
        self._compressor = compressor

    def write(self, data: bytes, /) -> int:
        self._sink.write(self._compressor.compress(data))
        return len(data)

    def finish(self) -> None:
        self._sink.write(self._compressor.flush())


def _compressed(sink: Sink, path: str | bytes) -> Sink:
    name = os.fsdecode(path).lower()
    if name.endswith(".gz"):
        from isal import isal_zlib

        gzip_bits = 16 + isal_zlib.MAX_WBITS
        return _CompressedSink(sink, isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, gzip_bits))
    if name.endswith((".zst", ".zstd")):
        import zstandard

        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return _CompressedSink(sink, compressor.compressobj())
    return sink
