"""TensorRT-LLM's expert statistics: a folder with meta_info.json and rank*.safetensors.

Each safetensors file is of one rank and holds a tensor "<iteration>_<layer>" [N] for each iteration and layer. A
rank counts the tokens that it routed itself, so ranks are added up, as TensorRT-LLM's own reader does. Files
rank*_raw (the chosen experts of each token) and cooccurrence_rank* hold the same again and are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

import msgspec
import numpy as np
from numpy.typing import NDArray

from weftrace.errors import LoadsError
from weftrace.experts.recorded.files import RecordedFile
from weftrace.experts.recorded.steps import Steps, refuse_size

_DTYPES = {"I64": "<i8", "I32": "<i4", "I16": "<i2", "U8": "|u1", "F64": "<f8", "F32": "<f4", "F16": "<f2"}
_KEY = re.compile(r"(\d+)_(\d+)")


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def is_statistics(path: str) -> bool:
    """Whether a safetensors file holds counts: neither the tokens' own choices nor co-occurrences."""
    stem = PurePath(path).stem
    return not stem.endswith("_raw") and not stem.startswith("cooccurrence")


def tensorrt_steps(files: Sequence[RecordedFile]) -> Steps:
    """The iterations of a statistics folder; those that lack a layer are left out and counted.

    Raises `LoadsError` where a file is damaged, or counts are of different numbers of experts.
    """
    load_of: dict[tuple[int, int], NDArray[np.float64]] = {}
    for file in files:
        for name, array in _tensors(file):
            match = _KEY.fullmatch(name)
            if match is None or array.ndim != 1:
                raise LoadsError(
                    f"{file.path}: tensor {name!r} of shape {list(array.shape)} is no count of a layer's experts; "
                    "TensorRT-LLM names them <iteration>_<layer>"
                )
            key = (int(match[1]), int(match[2]))
            held = load_of.get(key)
            if held is not None and held.shape != array.shape:
                raise LoadsError(f"{file.path}: {name} counts {len(array)} experts, and another rank {len(held)}")
            load_of[key] = array.astype(np.float64) if held is None else held + array.astype(np.float64)
    if not load_of:
        raise LoadsError(f"{files[0].path}: holds no counts")
    layers = sorted({layer for _, layer in load_of})
    iterations = sorted({iteration for iteration, _ in load_of})
    whole = [iteration for iteration in iterations if all((iteration, layer) in load_of for layer in layers)]
    widths = {len(load_N) for load_N in load_of.values()}
    if len(widths) > 1 or not whole:
        raise LoadsError(
            f"{files[0].path}: layers count {sorted(widths)} experts, and {len(whole)} of {len(iterations)} iterations "
            f"have all {len(layers)} layers; is a file missing?"
        )
    refuse_size((len(whole), len(layers), widths.pop()), files[0].path)
    load_TLN = np.array([[load_of[iteration, layer] for layer in layers] for iteration in whole])
    lost = len(iterations) - len(whole)
    notes = (f"{lost} iterations that lack a layer are left out",) if lost else ()
    return Steps(format="tensorrt-llm", load_TLN=load_TLN, layers=tuple(layers), notes=notes)


def _tensors(file: RecordedFile) -> Iterable[tuple[str, NDArray[np.generic]]]:
    """Name and array of each tensor. Layout of the format: 8 bytes length of the header, the header in JSON, data."""
    start = 8 + int.from_bytes(file.data[:8], "little")
    try:
        header = msgspec.json.decode(file.data[8:start], type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in header.items()}
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise LoadsError(f"{file.path}: a safetensors file with a broken header: {error}") from error
    for name, tensor in tensors.items():
        begin, end = tensor.data_offsets
        dtype = np.dtype(_DTYPES[tensor.dtype]) if tensor.dtype in _DTYPES else None
        count = int(np.prod(tensor.shape, dtype=object))
        if (
            dtype is None
            or min(tensor.shape, default=0) < 0
            or not 0 <= begin <= end <= len(file.data) - start
            or end - begin != count * dtype.itemsize
        ):
            raise LoadsError(
                f"{file.path}: tensor {name!r}, {tensor.dtype} {list(tensor.shape)}, does not fit its bytes "
                f"{begin} to {end} of {len(file.data) - start}; was the file cut off?"
            )
        yield name, np.frombuffer(file.data, dtype, count, start + begin).reshape(tensor.shape)
