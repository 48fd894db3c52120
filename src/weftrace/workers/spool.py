"""Results kept on disk as they come, so that a second call continues where the first one ended.

Results are pickled, so only what this user alone can have written is ever opened: the folder and each file in it belong
to the user, and nobody else may write there. A digest over each file tells damage.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import zstandard

from weftrace.files.sources import is_remote
from weftrace.units import GIB, MIB, counted
from weftrace.version import __version__
from weftrace.workers.losses import Lost

#: What all results in a folder may take together, and how long one is kept after its call has ended without the others.
MOST_BYTES, KEPT_DAYS = 2 * GIB, 7
#: What has to stay free on the disk.
_LEAST_FREE = 512 * MIB
_MAGIC = b"weftrace spool 1\n"
_ENDING = ".result"
#: By which file systems of fsspec tell one state of a file from another; a size alone does not.
_REMOTE_STATES = ("ETag", "etag", "LastModified", "last_modified", "mtime", "modified", "updated", "generation", "md5")

T = TypeVar("T")
R = TypeVar("R")


class Spool:
    """Results of tasks in a folder of the user's own, for one call: `with Spool(folder) as spool:`.

    The results of this call are removed when the block ends, unless it raises or a worker was lost: then they stay for
    a week, or until 2 GiB are kept, and `tell` says so. tell: gets sentences about what is kept and was damaged.
    The folder is made when it is first used. None stands for a user without a home, whose results are not kept.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, tell: Callable[[str], object] = lambda _: None) -> None:
        self._folder, self._tell = Path(folder or "."), tell
        self._refused = "there is no home folder" if folder is None else ""  # why nothing can be kept
        self._mine: set[Path] = set()
        self._held = 0
        self._num_lost = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        is_done = error is None or isinstance(error, BrokenPipeError)  # whose reader has seen enough
        if is_done and not self._num_lost:
            for path in self._mine:
                _remove(path)
        elif left := sum(map(os.path.exists, self._mine)):
            num = counted(left, "result")
            more = f" (no more of them, because {self._refused})" if self._refused else ""
            self._tell(f"{num} kept in {self._folder}{more}: the same command continues from there")
        elif self._num_lost and self._refused:
            self._tell(f"no results are kept, because {self._refused}")

    def resumed(
        self,
        tasks: Sequence[T],
        keys: Sequence[bytes | None],
        share_out: Callable[[Sequence[T]], Iterable[tuple[T, R | Lost]]],
        *,
        named: Callable[[T], str],
        is_kept: Callable[[R], bool],
    ) -> Iterator[tuple[T, R | Lost]]:
        """Tasks with their results: those kept by an earlier call, then those that `share_out` gives for the others.

        keys: of each task, all that its result depends on; None for one that is not kept. named: what a task is called,
        also where `share_out` gives it back changed. is_kept: whether a result is worth keeping.
        """
        self._refused = self._refused or _made(self._folder)
        if not self._refused:
            self._held = self._pruned(MOST_BYTES)
        key_of = {named(task): key for task, key in zip(tasks, keys, strict=True) if key is not None}
        left: list[T] = []
        num_damaged, num_found = 0, 0
        for task in tasks:
            key = key_of.get(named(task))
            found = None if key is None or self._refused else self._taken(key)
            if found is None or isinstance(found, _Damaged):
                left.append(task)
                num_damaged += found is not None
            else:
                num_found += 1
                yield task, found[0]
        if num_damaged:
            self._tell(f"{counted(num_damaged, 'result')} in {self._folder} damaged: computed again")
        if num_found:
            self._tell(f"{num_found:,} of {counted(len(tasks), 'result')} kept by an earlier call that did not end")
        for task, result in share_out(left) if left else ():
            if isinstance(result, Lost):
                self._num_lost += 1
            elif (key := key_of.get(named(task))) is not None and not self._refused and is_kept(result):
                self._keep(key, result)
            yield task, result

    def _path(self, key: bytes) -> Path:
        return self._folder / (hashlib.sha256(key).hexdigest() + _ENDING)

    def _taken(self, key: bytes) -> tuple[Any] | _Damaged | None:
        """What is kept under the key, in a tuple; None where nothing is."""
        path = self._path(key)
        try:
            text = _read(path)
        except FileNotFoundError:
            return None
        except OSError:
            return _Damaged()
        payload = text[len(_MAGIC) + 32 :]
        found: tuple[Any] | _Damaged = _Damaged()
        if text == _sealed(key, payload):
            with suppress(Exception):  # what a type raises is up to it
                found = (pickle.loads(zstandard.decompress(payload)),)  # noqa: S301 # written by this user alone, and whole
        if isinstance(found, _Damaged):
            _remove(path)
        else:
            self._mine.add(path)
        return found

    def _keep(self, key: bytes, result: object) -> None:
        path = self._path(key)
        temporary = path.with_suffix(f".{secrets.token_hex(6)}.part")
        try:
            text = _sealed(key, zstandard.compress(pickle.dumps(result, protocol=5), -1))
            if self._held + len(text) > MOST_BYTES:
                self._held = self._pruned(MOST_BYTES // 2)
            if self._held + len(text) > MOST_BYTES:
                self._refused = f"{self._folder} would hold more than {MOST_BYTES // GIB} GiB"
            elif _free(self._folder) < len(text) + _LEAST_FREE:
                self._refused = f"the disk of {self._folder} is almost full"
            else:
                with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                    file.write(text)
                os.replace(temporary, path)
                self._held += len(text)
                self._mine.add(path)
        except OSError as error:
            self._refused = f"{self._folder} cannot be written: {error.strerror or error}"
        except Exception as error:  # a result that cannot be pickled; what is raised is up to its type
            self._refused = f"a result cannot be pickled: {error}"
        finally:
            _remove(temporary)

    def _pruned(self, most: int) -> int:
        """Remove what other calls left long ago, and the oldest of it over `most` bytes; the bytes left."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            if path.suffix in (_ENDING, ".part"):
                with suppress(OSError):  # another call may have removed it
                    found.append(((at := path.lstat()).st_mtime, at.st_size, path))
        held = sum(size for _, size, _ in found)
        for when, size, path in sorted(found):
            if path not in self._mine and (held > most or when < time.time() - KEPT_DAYS * 86_400):
                _remove(path)
                held -= size
        return held


class _Damaged:
    pass


@cache
def code_key() -> bytes:
    """Which code computes a result: weftrace's own files as they are now, Python, and the libraries of the numbers."""
    from importlib.metadata import version  # which takes longer to import than all of this file

    root = Path(__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if "__pycache__" not in path.parts and path.is_file())
    seen = [(str(path), (at := path.stat()).st_size, at.st_mtime_ns) for path in files]
    libraries = [version(name) for name in ("polars", "numpy")]
    return hashlib.sha256(repr((__version__, platform.python_version(), libraries, seen)).encode()).digest()


def file_keys(paths: Sequence[str]) -> list[bytes | None]:
    """What tells each file's content from any other that it had: size, time and place. None where nothing does."""
    if any(map(is_remote, paths)):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(16, len(paths))) as pool:  # each may be a question over the network
            return list(pool.map(_file_key, paths))
    return [_file_key(path) for path in paths]


def _file_key(path: str) -> bytes | None:
    try:
        if is_remote(path):
            import fsspec

            fs, name = fsspec.core.url_to_fs(path)
            summary = fs.info(name)
            state = {key: str(summary[key]) for key in _REMOTE_STATES if summary.get(key)}
            return repr((path, summary.get("size"), state)).encode() if state else None
        at = os.stat(path)
    except Exception:  # each backend raises types of its own; who reads the file tells
        return None
    if not stat.S_ISREG(at.st_mode):
        return None
    return repr((os.path.abspath(path), at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_dev, at.st_ino)).encode()


def _made(folder: Path) -> str:
    """Make the folder; why it is not one that this user alone can write to, or ""."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        at = folder.lstat()
        if not stat.S_ISDIR(at.st_mode):
            return f"{folder} is no folder"
        if why := _others(at):
            return f"{folder} {why}"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"{folder} cannot be written"
    except (OSError, ValueError) as error:
        return f"{folder} cannot be made: {getattr(error, 'strerror', None) or error}"
    return ""


def _others(at: os.stat_result) -> str:
    """Who else than this user could have written a file or into a folder; "" for nobody."""
    if hasattr(os, "geteuid") and at.st_uid != os.geteuid():
        return f"belongs to another user ({at.st_uid})"
    if os.name == "posix" and at.st_mode & 0o077:
        return "is open to other users: chmod go= would close it"
    return ""


def _read(path: Path) -> bytes:
    """A file's content. Raises OSError where it is none of ours."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        at = os.fstat(file.fileno())
        if not stat.S_ISREG(at.st_mode) or _others(at) or at.st_size > MOST_BYTES:
            raise PermissionError(path)
        return file.read()


def _sealed(key: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(len(key).to_bytes(8, "big") + key)
    digest.update(payload)
    return b"".join((_MAGIC, digest.digest(), payload))


def _remove(path: Path) -> None:
    with suppress(OSError):  # another call may have removed it, or it was never made
        path.unlink()


def _free(folder: Path) -> int:
    import shutil

    return shutil.disk_usage(folder).free
