"""What loads did a service really see? Recordings of engines, traces of tokens and plain tables, as one array; and
such an array written to a file that is read back."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from weftrace.errors import LoadsError, OutputError
from weftrace.experts.arrays import Floats, frozen, is_whole
from weftrace.experts.loads import refuse_wrong
from weftrace.experts.recorded.engines import is_sglang_records, json_values, sglang_records, steps_of
from weftrace.experts.recorded.files import RecordedFile, arrays_of, files_of, read_file
from weftrace.experts.recorded.steps import Steps, as_steps, numbered
from weftrace.experts.recorded.tables import csv_steps
from weftrace.experts.recorded.tensorrt import is_statistics, tensorrt_steps
from weftrace.experts.recorded.tokens import parquet_steps
from weftrace.experts.runtime.checkpoint import checkpoint_values
from weftrace.files.output import write_output
from weftrace.notebook import InNotebook
from weftrace.units import GIB

FORMATS = ("sglang", "vllm", "tensorrt-llm", "load-history", "tokens", "arrays", "table")
"""What a recording can be: SGLang's recorder, vLLM's load window, TensorRT-LLM's statistics, the load history of ADRS
and OpenEvolve (JSON), token-level choices (Parquet), arrays (JSON, .npy, .npz, .pt), tables (CSV, Parquet)."""

DEFAULT_MAX_BYTES = 8 * GIB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadHistory(InNotebook):
    """Expert loads, window by window.

    load_TLN: float64 [T, L, N], tokens of each expert in each window (a step of the engine, or several added up),
        oldest first; finite and not negative.
    layers: the number of each of the L layers in the model.
    source: the file, or what the loads are.
    notes: what was left out, and what was taken for granted, a sentence each.
    """

    load_TLN: Floats
    layers: tuple[int, ...]
    source: str
    notes: tuple[str, ...] = ()

    @property
    def num_windows(self) -> int:
        return int(self.load_TLN.shape[0])

    @property
    def num_layers(self) -> int:
        return int(self.load_TLN.shape[1])

    @property
    def num_experts(self) -> int:
        return int(self.load_TLN.shape[2])

    def total(self, last: int | None = None) -> Floats:
        """[L, N] the loads of all windows, or of the `last` ones, added up. Raises `LoadsError` for windows that are
        not there.
        """
        if last is not None and not (is_whole(last, least=1) and last <= self.num_windows):
            raise LoadsError(f"{self.source}: there are {self.num_windows} windows, not {last!r}")
        total_LN: Floats = self.load_TLN[-last if last is not None else 0 :].sum(axis=0)
        return total_LN

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "source", self.source
        yield "windows", f"{self.num_windows:,}"
        yield "experts", f"{self.num_experts:,} in each of {self.num_layers:,} layers"
        yield "tokens", f"{self.load_TLN.sum():,.0f}"
        yield from (("note", note) for note in self.notes)


def as_history(loads: object, *, source: str = "loads") -> LoadHistory:
    """Loads [T, L, N] (or one window, [L, N]) as a checked `LoadHistory`; a `LoadHistory` is given back as it is.

    loads: a list, an array or a tensor. Raises `LoadsError` for another shape, and where a value is NaN, infinite or
    negative, naming window, layer and expert.
    """
    if isinstance(loads, LoadHistory):
        return loads
    return _checked(numbered("arrays", as_steps(loads, source)), source)


def read_loads(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    format: str | None = None,
    num_experts: int | None = None,
    tokens_per_window: int | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> LoadHistory:
    """The loads in a file, several files or a folder (of local files), also gzip or zstd, and remote as fsspec opens.

    What a file is follows from its content; nothing in it is ever executed or unpickled but by torch.load(
    weights_only=True), for .pt files, which need torch. Files follow one another in time, in the order given (in a
    folder: natural order of names); but SGLang's and TensorRT-LLM's files of one rank each are added up.

    format: one of `FORMATS`, an error if the files are something else; None takes any.
    num_experts: N, for tokens and long tables, where experts that were never chosen are not named.
    tokens_per_window: rows of tokens that make a window; None makes one of each iteration.
    max_bytes: decompressed bytes of one file above which it is refused.
    Steps without any token are left out, and so are layers without any (dense ones); `notes` and `layers` tell.
    Raises `LoadsError`, naming the file, what is wrong with it and what helps.
    """
    if format is not None and format not in FORMATS:
        raise LoadsError(f"no format {format!r} of recorded loads; choose from {', '.join(FORMATS)}")
    for value, name in ((num_experts, "num_experts"), (tokens_per_window, "tokens_per_window")):
        if value is not None and not is_whole(value, least=1):
            raise LoadsError(f"{name} must be a whole number of at least 1, not {value!r}")
    paths = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else list(path_or_paths)
    names, notes = files_of(paths)
    statistics = [name for name in names if name.endswith(".safetensors") and not is_statistics(name)]
    if statistics:
        notes.append(f"{len(statistics)} files of raw choices or co-occurrences are not needed beside the counts")
    recordings = _recordings(
        [name for name in names if name not in statistics], num_experts, tokens_per_window, max_bytes
    )
    for name, steps in recordings:
        if format not in (None, steps.format):
            raise LoadsError(f"{name}: holds {steps.format} loads, and format says {format}")
    source = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    joined = _in_time(recordings)
    return _checked(replace(joined, notes=(*notes, *joined.notes)), source, drop_empty=True)


def windows_of(history: LoadHistory, steps_per_window: int) -> LoadHistory:
    """The same history in windows of `steps_per_window` steps added up; the last steps that fill none are left out.

    Engines record each forward pass, and plan for hundreds of them at a time. Raises `LoadsError` where not one
    window is full.
    """
    if not is_whole(steps_per_window, least=1):
        raise LoadsError(f"steps_per_window must be a whole number of at least 1, not {steps_per_window!r}")
    num_windows, left = divmod(history.num_windows, int(steps_per_window))
    if not num_windows:
        raise LoadsError(f"{history.source}: {history.num_windows} steps do not fill a window of {steps_per_window}")
    load_TLN = history.load_TLN[: num_windows * steps_per_window]
    added = load_TLN.reshape(num_windows, int(steps_per_window), *load_TLN.shape[1:]).sum(axis=1)
    note = (f"the last {left} steps fill no window of {steps_per_window} and are left out",) if left else ()
    return replace(history, load_TLN=frozen(added), notes=(*history.notes, *note))


def save_loads(history: object, path: str | os.PathLike[str]) -> None:
    """Write a `LoadHistory`, or loads [T, L, N] or [L, N]: .npz (compressed), or .json and .json.gz, by the name.

    Numbers that are all whole are written as int64; the layers' numbers go along. Raises `OutputError` for another
    suffix and where the file cannot be written, `LoadsError` for bad loads.
    """
    held = as_history(history)
    load_TLN = held.load_TLN
    whole = bool((load_TLN == np.floor(load_TLN)).all() and load_TLN.max() < 2**53)
    values = load_TLN.astype(np.int64) if whole else load_TLN
    name = os.fspath(path).lower()
    if name.endswith(".npz"):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, loads=values, layers=np.array(held.layers))
        write_output(path, [buffer.getvalue()])
    elif name.endswith((".json", ".json.gz", ".json.zst")):
        write_output(path, [msgspec.json.encode({"layers": held.layers, "loads": values.tolist()})])
    else:
        raise OutputError(f"{path}: loads are written as .npz or .json; name it so")


def _recordings(
    names: Sequence[str], num_experts: int | None, tokens_per_window: int | None, max_bytes: int
) -> list[tuple[str, Steps]]:
    """(file, its steps) in order; the files of a kind that belong together give one."""
    found: list[tuple[str, Steps]] = []
    parquet: list[RecordedFile] = []
    counts: list[RecordedFile] = []
    records: list[tuple[str, Any]] = []
    for name in names:
        file = read_file(name, max_bytes=max_bytes)
        if file.container == "parquet":
            parquet.append(file)
        elif file.container == "safetensors":
            counts.append(file)
        elif file.container == "csv":
            found.append((name, csv_steps(file.data, name, num_experts)))
        elif not _is_meta(file):
            values = _values(file, max_bytes)
            if is_sglang_records(values):
                records.append((name, values))
            else:
                found.append((name, steps_of(values, name)))
    if parquet:
        steps = parquet_steps(parquet, num_experts, tokens_per_window, max_bytes=max_bytes)
        pairs = (
            [(parquet[0].path, steps)]
            if isinstance(steps, Steps)
            else zip([f.path for f in parquet], steps, strict=True)
        )
        found.extend(pairs)
    if counts:
        found.append((counts[0].path, tensorrt_steps(counts)))
    if records:
        found.append((records[0][0], sglang_records(records)))
    if not found:
        raise LoadsError(f"{names[0] if names else 'no file'}: holds no loads")
    return found


def _values(file: RecordedFile, max_bytes: int) -> Any:
    if file.container == "json":
        return json_values(file.data, file.path)
    if file.container != "pt":
        return arrays_of(file, max_bytes=max_bytes)
    return checkpoint_values(file.data, file.path)


def _is_meta(file: RecordedFile) -> bool:
    """TensorRT-LLM's meta_info.json, which says nothing that the counts do not."""
    return file.container == "json" and os.path.basename(file.path) == "meta_info.json"


def _in_time(recordings: Sequence[tuple[str, Steps]]) -> Steps:
    """All steps one after another. Raises `LoadsError` where two recordings are of different layers or experts."""
    first_name, first = recordings[0]
    for name, steps in recordings:
        if steps.load_TLN.shape[1:] != first.load_TLN.shape[1:] or steps.layers != first.layers:
            (ours, us), (theirs, them) = first.load_TLN.shape[1:], steps.load_TLN.shape[1:]
            raise LoadsError(
                f"{name}: {theirs} layers of {them} experts, and {first_name} {ours} of {us}, or other numbers of "
                "layers; give recordings of one model"
            )
    notes = dict.fromkeys(note for _, steps in recordings for note in steps.notes)
    load_TLN = first.load_TLN if len(recordings) == 1 else np.concatenate([steps.load_TLN for _, steps in recordings])
    return Steps(format=first.format, load_TLN=load_TLN, layers=first.layers, notes=tuple(notes))


def _checked(steps: Steps, source: str, *, drop_empty: bool = False) -> LoadHistory:
    load_TLN = steps.load_TLN
    refuse_wrong(load_TLN, source, steps.layers)
    with np.errstate(over="ignore"):
        if not np.isfinite(load_TLN.sum()):
            raise LoadsError(f"{source}: the sum of the loads is above the range of float64")
    notes, layers = list(steps.notes), np.array(steps.layers)
    if drop_empty:
        has_token_T, has_token_L = load_TLN.any(axis=(1, 2)), load_TLN.any(axis=(0, 2))
        if not has_token_T.any():
            raise LoadsError(f"{source}: all loads are 0; was recording on while requests ran?")
        if not has_token_T.all():
            notes.append(f"{(~has_token_T).sum()} steps without a token are left out")
        if not has_token_L.all():
            empty = ", ".join(str(layer) for layer in layers[~has_token_L])
            notes.append(f"layers without a token, dense ones perhaps, are left out: {empty}")
        load_TLN, layers = load_TLN[has_token_T][:, has_token_L], layers[has_token_L]
    return LoadHistory(
        load_TLN=frozen(load_TLN), layers=tuple(int(layer) for layer in layers), source=source, notes=tuple(notes)
    )
