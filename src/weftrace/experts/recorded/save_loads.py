"""Loads written to a file that `read_loads` reads back."""

from __future__ import annotations

import io
import os

import msgspec
import numpy as np

from weftrace.errors import OutputError
from weftrace.experts.recorded.read import as_history
from weftrace.files.output import write_output


def save_loads(history: object, path: str | os.PathLike[str]) -> None:
    """Write a `LoadHistory`, or loads [T, L, N] or [L, N]: .npz (compressed), or .json and .json.gz, by the name.

    Numbers that are all whole are written as int64. Raises `OutputError` for another suffix and where the file cannot
    be written, `LoadsError` for bad loads.
    """
    load_TLN = as_history(history).load_TLN
    whole = bool((load_TLN == np.floor(load_TLN)).all() and load_TLN.max() < 2**53)
    values = load_TLN.astype(np.int64) if whole else load_TLN
    name = os.fspath(path).lower()
    if name.endswith(".npz"):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, loads=values)
        write_output(path, [buffer.getvalue()])
    elif name.endswith((".json", ".json.gz", ".json.zst")):
        write_output(path, [msgspec.json.encode({"loads": values.tolist()})])
    else:
        raise OutputError(f"{path}: loads are written as .npz or .json; name it so")
