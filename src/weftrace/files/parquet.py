"""Parquet that tells its own damage, and Parquet of others that cannot hurt.

Formats that compress have checksums; Parquet as Polars writes it has none, and one flipped bit may change the rows in
silence, or abort the process. So what is written here holds a SHA-256 of the whole file, computed with the field of the
digest zeroed, among its key-value metadata. The file stays ordinary Parquet. The digest is compared before anything is
parsed. A file without one is parsed in a process of its own (`weftrace.files.apart`).
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from weftrace.errors import TraceError, TraceTooLarge, WeftraceError
from weftrace.files.apart import Apart, ApartError, first_line
from weftrace.files.sources import DEFAULT_MAX_BYTES
from weftrace.units import KIB, size

#: Before what Polars says of a file that it cannot read: its error, its panic, or those of what it reads from.
BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError)
MAGIC = b"PAR1"
UNCHECKED = "weftrace saved it before files had a digest, so damage would go unnoticed; make it again from its source"

_SIZE = "weftrace.bytes"  # of the rows in memory; a file with it had a digest when it was written
_DIGEST = "weftrace.sha256"
_DIGITS = 64
_FIELD = _DIGEST.encode() + b"\x18\x40"  # Thrift's compact protocol: a string of 64 bytes follows
_TAIL = 64 * KIB  # of a file, which holds the field: after it come a few bytes per column


@dataclass(frozen=True, slots=True)
class Table:
    """A Parquet file's rows and key-value metadata. is_checked: its digest proves that it is as it was written."""

    rows: pl.DataFrame
    metadata: Mapping[str, str]
    is_checked: bool


def parquet_bytes(rows: pl.DataFrame, metadata: Mapping[str, str]) -> bytes:
    """A Parquet file (zstd) of these rows, with its digest."""
    buffer = io.BytesIO()
    own = {_SIZE: str(bytes_in_memory(rows)), _DIGEST: "0" * _DIGITS}
    rows.write_parquet(buffer, compression="zstd", metadata={**metadata, **own})
    stored = buffer.getbuffer()
    at = bytes(stored[-_TAIL:]).rfind(_FIELD)
    assert at >= 0, "Polars wrote no digest's field"
    at += max(0, len(stored) - _TAIL) + len(_FIELD)
    stored[at : at + _DIGITS] = _digest(stored, at)
    stored.release()
    return buffer.getvalue()


def read_table(
    stored: bytes,
    path: str,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    error: type[WeftraceError] = TraceError,
    too_large: type[WeftraceError] = TraceTooLarge,
    remedy: str = "",
) -> Table:
    """What a Parquet file holds. path: for errors. max_bytes: limit on its rows in memory, strings included.

    Raises `too_large` past the limit, `error` for what is damaged, or no Parquet, followed by the remedy.
    """
    at = stored.rfind(_FIELD, max(0, len(stored) - _TAIL)) + len(_FIELD)
    is_checked = at >= len(_FIELD)
    try:
        if not (stored.startswith(MAGIC) and stored.endswith(MAGIC)):
            raise ValueError("it does not begin and end as Parquet does")
        if is_checked:
            if stored[at : at + _DIGITS] != _digest(memoryview(stored), at):
                raise ValueError("its digest is of another content")
            rows, metadata = decoded(stored, max_bytes)
        else:
            with Apart(max_bytes) as apart:
                sent, metadata = apart(_sent, stored, max_bytes, num_bytes=len(stored))
            rows = pl.read_ipc(io.BytesIO(sent))
            if _SIZE in metadata:
                raise ValueError("its digest is gone")
    except TraceTooLarge as found:
        raise too_large(f"{path}: {found}") from found
    except (*BROKEN, ApartError) as found:
        why = f"is damaged, cut short or changed, and Parquet cannot be read in part ({first_line(found)}). {remedy}"
        raise error(f"{path}: {why.rstrip()}") from found
    return Table(rows, metadata, is_checked)


def decoded(stored: bytes, max_bytes: int) -> tuple[pl.DataFrame, dict[str, str]]:
    """A Parquet file's rows and metadata. Raises TraceTooLarge, which names no file, and what Polars raises.

    Only for a file with a digest that is right, or within `Apart`.
    """
    metadata = pl.read_parquet_metadata(io.BytesIO(stored))
    if (stated := metadata.get(_SIZE)) is not None:
        _need_room(int(stated), max_bytes)
        return pl.read_parquet(io.BytesIO(stored)), metadata
    rows = scanned(stored, max_bytes).collect()
    _need_room(bytes_in_memory(rows), max_bytes)
    return rows, metadata


def scanned(stored: bytes, max_bytes: int) -> pl.LazyFrame:
    """A Parquet file's rows, not read yet, with as much memory as so many nulls need. Raises as `decoded` does."""
    scan = pl.scan_parquet(io.BytesIO(stored))
    nulls = pl.DataFrame(
        {name: pl.repeat(None, 64, dtype=of, eager=True) for name, of in scan.collect_schema().items()}
    )
    _need_room(scan.select(pl.len()).collect().item() * int(nulls.estimated_size()) // 64, max_bytes)
    return scan


def _sent(stored: bytes, max_bytes: int) -> tuple[bytes, dict[str, str]]:
    """What `decoded` gives, in the form that travels fastest."""
    rows, metadata = decoded(stored, max_bytes)
    buffer = io.BytesIO()
    rows.write_ipc(buffer, compression="lz4")
    return buffer.getvalue(), metadata


def _need_room(num_bytes: int, max_bytes: int) -> None:
    if num_bytes > max_bytes:
        raise TraceTooLarge(
            f"its rows expand to {size(num_bytes)}, past the limit of {size(max_bytes)}. If you trust the file, raise "
            "--max-bytes."
        )


def bytes_in_memory(rows: pl.DataFrame) -> int:
    """What rows take, strings and the values of categories included."""
    texts = sum(
        int(each.unique().cast(pl.String).str.len_bytes().sum()) for each in rows if each.dtype == pl.Categorical
    )
    return texts + sum(int(each.estimated_size()) for each in rows)  # the frame's own leaves out rows that are alike


def lacks_digest(path: str | os.PathLike[str], key: str) -> bool:
    """Whether the bytes of a file of this machine are Parquet with this key in its metadata, and without a digest."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stored:
            return (
                stored[: len(MAGIC)] == MAGIC
                and stored.rfind(_FIELD, max(0, len(stored) - _TAIL)) < 0
                and stored.rfind(key.encode()) >= 0
            )
    except (OSError, ValueError):  # ValueError: an empty file
        return False


def _digest(stored: memoryview, at: int) -> bytes:
    """SHA-256 of a file in which the digits from `at` on are zeros."""
    sha256 = hashlib.sha256(stored[:at])
    sha256.update(b"0" * _DIGITS)
    sha256.update(stored[at + _DIGITS :])
    return sha256.hexdigest().encode()
