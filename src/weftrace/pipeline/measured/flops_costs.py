"""What would a chunk cost on hardware that is not at hand? An estimate, from a saved report of FLOPs.

Each operator takes the longest of its matrix work, its vector work and its bytes, each at the part of the hardware's
peak that `weftrace.facts.efficiency` states. The document (`weftrace.flops/1`) is read as plain values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from weftrace.errors import DocumentError
from weftrace.facts import Hardware, efficiency
from weftrace.files.documents import read_document
from weftrace.files.schemas import Count
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.measured.sourced_costs import SourcedCosts
from weftrace.units import counted

SCHEMA = "weftrace.flops/1"

_Floats = NDArray[np.float64]
_MOST_LAYERS = 1_000_000
_FORWARD, _INPUT, _WEIGHT = 0, 1, 2
_WITH_WEIGHTS = ("matmul", "conv")  # whose backward is a product for the input's gradient, and one for the weights'
_NEAREST = {
    "fp4": ("fp8", "bf16", "fp16"), "fp8": ("bf16", "fp16"), "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"), "tf32": ("fp32",), "fp32": ("tf32",),
}  # fmt: skip


class _Module(TypedDict):
    path: str


class _Cost(TypedDict):
    kind: str
    dtype: str
    executed_flops: Count
    vector_flops: Count
    read_bytes: Count
    written_bytes: Count


class _Signature(TypedDict):
    cost: Count


class _Ops(TypedDict):
    module: list[Count]
    phase: list[Literal["forward", "backward", "recompute", "optimizer"]]
    signature: list[Count]
    calls: list[Count]


class _Report(TypedDict):
    """What of a report is needed here."""

    name: str
    tf32: bool
    micro_batches: Count
    modules: list[_Module]
    costs: list[_Cost]
    signatures: list[_Signature]
    ops: _Ops


def costs_of_flops(path: str | os.PathLike[str], hardware: Hardware, num_stages: int) -> SourcedCosts:
    """The costs of each of so many stages, into which the model's layers are cut so that the slowest takes least.

    path: what `weftrace flops MODEL --phase train -o model.json` wrote; its batch is taken as one micro-batch.
    Raises `DocumentError` where it is no such document, counts no backward, or has fewer layers than stages.
    """
    document = read_document(path, schema=SCHEMA)
    what = os.fspath(path)
    try:
        msgspec.convert(document, _Report)
        times_MK = _times(document, hardware)
        layer_M = _layers(document, times_MK.sum(axis=1))
    except msgspec.ValidationError as error:
        raise DocumentError(f"{what}: a {SCHEMA} document with a broken field: {error}") from error
    except (IndexError, ValueError, OverflowError) as error:
        raise DocumentError(f"{what}: a {SCHEMA} document with a broken field: {error!r}") from error
    if not times_MK[:, _INPUT:].any():
        raise DocumentError(f"{what}: it counts no backward; make it with `weftrace flops MODEL --phase train`.")
    times_SK, cut = _cut(times_MK, layer_M, num_stages, what)
    per_stage = [tuple(round(value) for value in times_SK[:, kind]) for kind in (_FORWARD, _INPUT, _WEIGHT)]
    return SourcedCosts(
        costs=Costs(
            forward_ns=per_stage[_FORWARD], input_ns=per_stage[_INPUT], weight_ns=per_stage[_WEIGHT],
            activation_bytes=1, source=what,
        ),
        basis="flops",
        source=f"{document.get('name', '')} on {hardware.name} ({what})",
        notes=(
            f"an estimate: matrix work at {efficiency('matrix'):.2f} of the peak, attention at "
            f"{efficiency('attention'):.2f} (backward {efficiency('attention backward'):.2f}), memory at "
            f"{efficiency('bandwidth'):.2f} of its bandwidth; communication, launches and overlap are not in it",
            "W is half of the products of a backward that have weights; I is the rest",
            cut,
        ),
    )  # fmt: skip


def _times(document: Mapping[str, Any], hardware: Hardware) -> _Floats:
    """ns of each module's own operators of one micro-batch, [modules, F I W]."""
    ops, signatures, costs = document["ops"], document["signatures"], document["costs"]
    times = np.zeros((len(document["modules"]), 3))
    for module, phase, signature, calls in zip(
        ops["module"], ops["phase"], ops["signature"], ops["calls"], strict=True
    ):
        if phase == "optimizer":
            continue
        cost = costs[signatures[signature]["cost"]]
        time_ns = calls * _ns(cost, phase, hardware, tf32=document["tf32"])
        if phase == "forward":
            times[module, _FORWARD] += time_ns
        elif phase == "backward" and cost["kind"] in _WITH_WEIGHTS:
            times[module, [_INPUT, _WEIGHT]] += time_ns / 2
        else:  # the rest of a backward, and what is computed again for it
            times[module, _INPUT] += time_ns
    return times / max(int(document["micro_batches"]), 1)


def _ns(cost: Mapping[str, Any], phase: str, hardware: Hardware, *, tf32: bool) -> float:
    """Of one call."""
    if cost["kind"] in ("free", "communication"):
        return 0.0
    work = "attention" if cost["kind"] == "attention" else "matrix"
    if work == "attention" and phase == "backward":
        work = "attention backward"
    dtype = "tf32" if tf32 and cost["dtype"] == "fp32" else cost["dtype"]
    matrix = cost["executed_flops"] / (_peak(hardware, dtype) * efficiency(work))
    vector = cost["vector_flops"] / (hardware.peak_flops.get("fp32", np.inf) * efficiency("matrix"))
    memory = (cost["read_bytes"] + cost["written_bytes"]) / (hardware.hbm_bytes_per_s * efficiency("bandwidth"))
    return 1e9 * float(max(matrix, vector, memory))


def _peak(hardware: Hardware, dtype: str) -> float:
    """Of a dtype; of the nearest that the chip lists; of its slowest, where none is near."""
    for each in (dtype, *_NEAREST.get(dtype, ())):
        if each in hardware.peak_flops:
            return hardware.peak_flops[each]
    return min(hardware.peak_flops.values())


def _layers(document: Mapping[str, Any], time_M: _Floats) -> NDArray[np.int64] | None:
    """The layer that each module counts with, [modules]: what stands before the layers with the first, what stands
    after them with the last. None where the model has no list of layers. The list is the one that takes most time, the
    outermost of nested ones.
    """
    paths = [module["path"] for module in document["modules"]]
    found: dict[str, float] = {}
    for path, time_ns in zip(paths, time_M.tolist(), strict=True):
        for part in re.finditer(r"\.\d+(?=\.|$)", path):
            name = path[: part.start()]
            found[name] = found.get(name, 0.0) + time_ns
    if not found:
        return None
    name = max(found, key=lambda each: (found[each], -len(each)))
    inside = re.compile(re.escape(name) + r"\.(\d+)(?:\.|$)")
    numbers = [int(match[1]) if (match := inside.match(path)) else -1 for path in paths]
    if max(numbers) > _MOST_LAYERS:
        raise ValueError(f"a module of layer {max(numbers):,}")
    first = next(at for at, number in enumerate(numbers) if number >= 0)
    return np.array([number if number >= 0 else 0 if at < first else max(numbers) for at, number in enumerate(numbers)])


def _cut(times_MK: _Floats, layer_M: NDArray[np.int64] | None, num_stages: int, what: str) -> tuple[_Floats, str]:
    """Times by stage, [stages, F I W], and in words how the model was cut."""
    if layer_M is None:
        return np.repeat(times_MK.sum(axis=0)[None] / num_stages, num_stages, axis=0), (
            "the model has no list of layers: its work is shared out evenly"
        )
    num_layers = int(layer_M.max()) + 1
    times_LK = np.zeros((num_layers, times_MK.shape[1]))
    np.add.at(times_LK, layer_M, times_MK)
    if num_stages > num_layers:
        raise DocumentError(f"{what}: the model has {counted(num_layers, 'layer')}, too few for {num_stages} stages.")
    sizes = _sizes(times_LK.sum(axis=1), num_stages)
    first = np.cumsum([0, *sizes[:-1]])
    spread = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
    return np.add.reduceat(times_LK, first, axis=0), (
        f"{counted(num_layers, 'layer')} in {counted(num_stages, 'stage')} of {spread}, cut so that the slowest takes "
        "least; modules before and after the layers are in the first and the last"
    )


def _sizes(time_L: Sequence[float] | _Floats, num_stages: int) -> list[int]:
    """Layers of each stage, one or more, so that the largest sum is least."""
    before = np.concatenate(([0.0], np.cumsum(time_L)))
    num = len(before) - 1
    best = before[1:].copy()  # of the first l layers in the stages so far
    cuts = []
    for stage in range(1, num_stages):
        chosen = np.zeros(num, np.int64)
        updated = np.full(num, np.inf)
        for end in range(stage, num):
            starts = np.arange(stage, end + 1)
            longest = np.maximum(best[starts - 1], before[end + 1] - before[starts])
            at = int(np.argmin(longest))
            chosen[end], updated[end] = starts[at], longest[at]
        cuts.append(chosen)
        best = updated
    ends, end = [], num - 1
    for chosen in reversed(cuts):
        start = int(chosen[end])
        ends.append(end - start + 1)
        end = start - 1
    return [end + 1, *reversed(ends)]
