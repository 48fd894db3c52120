"""Which files does a path stand for, and what is in them? Told from the content, not from the name."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weftrace.errors import LoadsError, TraceError
from weftrace.files.sources import is_remote, open_bytes
from weftrace.units import size

SUFFIXES = (".json", ".csv", ".tsv", ".txt", ".npy", ".npz", ".pt", ".pth", ".parquet", ".safetensors")
_PACKED = (".gz", ".zst")
_NAMES = "JSON, CSV, .npy, .npz, .pt, Parquet or safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """One file: container is "json", "csv", "npy", "npz", "pt", "parquet" or "safetensors"."""

    path: str
    container: str
    data: bytes


def files_of(paths: Iterable[str | os.PathLike[str]]) -> tuple[list[str], list[str]]:
    """The files that paths and folders stand for, in natural order (step_9 before step_10), and what was passed over.

    A folder gives the files below it with a known suffix. Raises `LoadsError` where one does not exist or holds none.
    """
    found: list[str] = []
    num_other = 0
    for path in paths:
        if is_remote(path) or not Path(path).is_dir():
            found.append(str(path))
            continue
        try:
            inside = [file for file in Path(path).rglob("*") if file.is_file() and not file.name.startswith(".")]
        except OSError as error:
            what = f"{error.filename or path}: {error.strerror or error}"
            raise LoadsError(f"{path}: a folder that cannot be searched for recordings: {what}") from error
        known = [file for file in inside if _suffix(file) in SUFFIXES and file.stem.upper() != "README"]
        if not known:
            raise LoadsError(f"{path}: a folder without recorded loads; they are {_NAMES}")
        num_other += len(inside) - len(known)
        found += sorted((str(file) for file in known), key=_natural)
    if not found:
        raise LoadsError("no file of loads was given")
    return found, [f"{num_other} files of the folder are no recordings, by their names"] if num_other else []


def read_file(path: str, *, max_bytes: int) -> RecordedFile:
    """A file's bytes, decompressed, and their container. Raises `LoadsError`, naming the file."""
    if not is_remote(path) and not Path(path).exists():
        raise LoadsError(f"{path}: no such file; check the path, or give a folder of recordings")
    try:
        stream = open_bytes(path, max_bytes=max_bytes)
        data = b"".join(stream.chunks)
    except TraceError as error:  # its texts speak of files alone, and name them
        raise LoadsError(str(error)) from error
    if stream.truncated:
        raise LoadsError(f"{path}: {stream.truncated}; copy or record it again")
    if not data.strip():
        raise LoadsError(f"{path}: is empty")
    return RecordedFile(path=path, container=_container(path, data), data=data)


def arrays_of(file: RecordedFile, *, max_bytes: int) -> Any:
    """What a .npy file holds (an array) or a .npz file (a dict of arrays); nothing is unpickled."""
    try:
        if file.container == "npz":
            expanded = sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(file.data)).infolist())
            if expanded > max_bytes:
                raise LoadsError(f"{file.path}: expands past the limit of {size(max_bytes)}; raise max_bytes")
        loaded = np.load(io.BytesIO(file.data), allow_pickle=False)
        return {name: loaded[name] for name in loaded.files} if file.container == "npz" else loaded
    except LoadsError:
        raise
    except Exception as error:  # a damaged file can make NumPy and zipfile raise anything, SyntaxError included
        what = str(error) or type(error).__name__
        if "allow_pickle" in what:
            what = "it holds Python objects, which are not unpickled; save plain arrays"
        raise LoadsError(f"{file.path}: not a readable .{file.container} file: {what}") from error


def _container(path: str, data: bytes) -> str:
    if data.startswith(b"PK\x03\x04"):
        names = re.findall(rb"[\w./-]+\.(?:npy|pkl)", data[:512] + data[-(1 << 16) :])
        return "pt" if any(name.endswith(b"data.pkl") for name in names) else "npz"
    if data.startswith(b"\x93NUMPY"):
        return "npy"
    if data.startswith(b"PAR1"):
        return "parquet"
    if data[8:9] == b"{" and 2 <= int.from_bytes(data[:8], "little") <= len(data) - 8:
        return "safetensors"
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return "json"
    if data.startswith(b"\x80\x02") and path.lower().endswith((".pt", ".pth")):  # torch before 1.6
        return "pt"
    if b"\0" not in data[:4096]:
        return "csv"
    raise LoadsError(f"{path}: not a recording that is known: {_NAMES}")


def _suffix(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
