"""Another placement of experts for a measured run: what each GPU's share of the tokens does to its kernels.

A rank's time in its experts goes with the rows that come to them, and so does what dispatch brings and combine takes
back. How many those are is told by the loads of the GPUs under the old placement and the new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration

#: Phases that hold experts' work, by their name without direction.
EXPERT_PHASES = r"(?i)^(mlp|moe|experts?|routed[ _]?experts?)\d*\b"
#: Phases of which the data moves to experts and back.
ROW_PHASES = r"(?i)^(dispatch|combine)"
_DENSE = r"^(gemm|attention)"
_GROUPED = "gemm_grouped"

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementSwap(InNotebook):
    """Loads of the GPUs that experts are placed on, `[layers][GPUs]`, tokens or any unit that both share.

    before: under the placement that was measured; after: under the other. layers: their numbers in the model; of a
    trace that does not tell its layers, all are taken together. name, before_name: what the two are called.
    """

    name: str
    before_name: str
    before_LG: _Floats
    after_LG: _Floats
    layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("before_LG", "after_LG"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        before, after = self.before_LG, self.after_LG
        if before.ndim != 2 or before.shape != after.shape or not before.size:
            raise AdviceError(
                f"loads before and after are {_shape(before)} and {_shape(after)}: both are layers x GPUs, of the same."
            )
        if not (np.isfinite(before).all() and np.isfinite(after).all() and (before >= 0).all() and (after >= 0).all()):
            raise AdviceError("loads of GPUs are finite numbers of 0 or more.")

    @property
    def num_gpus(self) -> int:
        return int(self.before_LG.shape[1])

    def __str__(self) -> str:
        return f"experts placed as in {self.name}"


def placement_swap(
    document: Mapping[str, Any], before: Mapping[str, Any] | None = None, *, name: str = "placement"
) -> PlacementSwap:
    """From documents of placements (`weftrace.placement/1`, as `weftrace experts balance -o placement.json` writes
    them): the loads that the new one was judged on, under it, and under the one before.

    before: the document of the placement that was measured. Without it, it is the one that `document` replaced, where
    it tells the moves from that; else experts in order, as many on each GPU. Raises `AdviceError` where the documents
    are of different clusters, or nothing tells the placement before.
    """
    after_LG = _loads(document["gpu_load"]["after"])
    if before is not None:
        before_LG, called = _loads(before["gpu_load"]["after"]), "the placement given for before"
        if np.abs(before_LG.sum() / max(after_LG.sum(), 1e-300) - 1) > 1e-6:
            raise AdviceError(
                "the two placements were scored on different loads, so their GPUs' loads do not compare: make both "
                "from the same loads."
            )
    elif document.get("moves") is not None and document["gpu_load"].get("before"):
        before_LG, called = _loads(document["gpu_load"]["before"]), "the placement that it replaced"
    else:
        before_LG, called = _in_order(document, after_LG.shape[1]), "experts in order, as many on each GPU (assumed)"
    return PlacementSwap(
        name=name, before_name=called, before_LG=before_LG, after_LG=after_LG, layers=tuple(document.get("layers", ()))
    )


def placed_durations(inferred: Inferred, swap: PlacementSwap) -> tuple[_Floats, tuple[str, ...]]:
    """The duration of each op with experts placed otherwise, in ns, float64, [ops]; and what was done and assumed.

    - Experts' kernels (grouped GEMMs; other compute in phases called mlp, moe or experts, but for dense GEMMs beside
      grouped ones in phases of one name, which are a shared expert's), and communication that moves data in dispatch
      and combine, times the load of the rank's GPU after / before: in the layer that the trace tells, else over all.
    - All else as measured. Waiting for the slowest rank changes where ranks are joined by their collectives; in the
      kernels of one rank that only wait (barriers) it stays.

    Raises `AdviceError` where nothing in the trace is experts' work.
    """
    ops = _ops_with_roles(inferred)
    expert, rows = _experts(ops), _moves_rows(ops)
    if not expert.any() and not rows.any():
        raise AdviceError(
            "nothing here is experts' work: no grouped GEMM, no phase called mlp, moe or experts, no dispatch or "
            "combine. Name it with record_function, or try --scale on what it is."
        )
    factor, notes = _factors(ops, swap)
    durations = inferred.plan.ops.get_column("duration_ns").to_numpy().astype(np.float64)
    changes = expert | rows
    return np.where(changes, durations * factor, durations), (
        *_said(durations, expert, rows, factor),
        *notes,
        *_waits(inferred),
    )


def _shape(loads: _Floats) -> str:
    return " x ".join(map(str, loads.shape)) or "one number"


def _loads(summary: Mapping[str, Any]) -> _Floats:
    return np.asarray(summary["load"], np.float64)


def _in_order(document: Mapping[str, Any], num_gpus: int) -> _Floats:
    """Loads [L, G] where each GPU has as many experts, in order."""
    load_LN = np.asarray(document["loads"], np.float64)
    if load_LN.shape[1] % num_gpus:
        raise AdviceError(
            f"{load_LN.shape[1]} experts do not spread evenly over {num_gpus} GPUs, so it is not known how they were "
            "placed: give the placement before as well."
        )
    load_LG: _Floats = load_LN.reshape(len(load_LN), num_gpus, -1).sum(axis=2)
    return load_LG


def _ops_with_roles(inferred: Inferred) -> pl.DataFrame:
    """Of each op: rank, phase, layer (null where the trace does not tell it), what, family, role."""
    ops = inferred.plan.ops.select("rank", pl.col("phase").cast(pl.String), "duration_ns", "name")
    measured = inferred.measured.select("at", "phase_number", "what", "event", pl.col("family", "role").cast(pl.String))
    layers = [
        work.phases.select(pl.col("phase").alias("phase_number"), "layer", pl.lit(at, pl.Int32).alias("at"))
        for at, work in enumerate(inferred.works)
    ]
    return ops.hstack(measured).join(
        pl.concat(layers), on=("at", "phase_number"), how="left", maintain_order="left"
    )  # fmt: skip


def _experts(ops: pl.DataFrame) -> NDArray[np.bool_]:
    computes = (pl.col("what") == "compute") & pl.col("event").is_not_null()
    grouped = computes & (pl.col("family") == _GROUPED).fill_null(False)
    in_phase = computes & pl.col("phase").str.contains(EXPERT_PHASES).fill_null(False)
    dense = pl.col("family").str.contains(_DENSE).fill_null(False) & (pl.col("family") != _GROUPED)
    in_phase = in_phase & ~(dense & grouped.any().over("phase"))  # a shared expert's, which every token passes
    mask: NDArray[np.bool_] = ops.select(grouped | in_phase).to_series().to_numpy()
    return mask


def _moves_rows(ops: pl.DataFrame) -> NDArray[np.bool_]:
    moves = (pl.col("what") == "communication") & (pl.col("role").fill_null("data") == "data")
    in_phase = pl.col("phase").str.contains(ROW_PHASES).fill_null(False)
    named = pl.col("name").cast(pl.String).str.contains(r"(?i)\b(dispatch|combine)\b").fill_null(False)
    mask: NDArray[np.bool_] = ops.select(moves & (in_phase | named)).to_series().to_numpy()
    return mask


def _factors(ops: pl.DataFrame, swap: PlacementSwap) -> tuple[_Floats, Iterator[str]]:
    """Of each op, the load of its rank's GPU after over before, in its layer; and what was assumed."""
    gpu = ops.get_column("rank").to_numpy() % swap.num_gpus
    whole = _ratio(swap.after_LG.sum(axis=0), swap.before_LG.sum(axis=0))[gpu]
    row_of = {layer: row for row, layer in enumerate(swap.layers)}
    layer = ops.get_column("layer").cast(pl.Int64)  # a document's numbers may be larger than a trace's
    row = layer.replace_strict(row_of, default=-1, return_dtype=pl.Int32).fill_null(-1).to_numpy()
    by_layer = _ratio(swap.after_LG, swap.before_LG)[np.maximum(row, 0), gpu]
    factor: _Floats = np.where(row >= 0, by_layer, whole)
    return factor, _assumed(ops, swap, bool((row >= 0).any()))


def _ratio(after: _Floats, before: _Floats) -> _Floats:
    ratio: _Floats = np.divide(after, before, out=np.ones_like(after), where=before > 0)
    return ratio


def _assumed(ops: pl.DataFrame, swap: PlacementSwap, is_by_layer: bool) -> Iterator[str]:
    yield f"loads before: {swap.before_name}"
    ranks = ops.get_column("rank").unique().sort()
    if int(ranks.max()) >= swap.num_gpus:  # type: ignore[arg-type]
        yield f"rank r has the experts of GPU r mod {swap.num_gpus} (assumed): groups of ranks in a row"
    else:
        yield f"rank r has the experts of GPU r of {swap.num_gpus}"
    if not is_by_layer:
        num = len(swap.before_LG)
        yield f"the trace does not name the layers that it shows: the loads of all {num} together (assumed)"


def _said(durations: _Floats, expert: NDArray[np.bool_], rows: NDArray[np.bool_], factor: _Floats) -> Iterator[str]:
    for mask, what in ((expert, "experts' computation"), (rows, "dispatch and combine that move data")):
        if took := durations[mask].sum():
            mean = float((durations * factor)[mask].sum() / took)
            yield f"{duration(took)} of {what}: in proportion to rows (assumed), × {mean:.3f} in all"


def _waits(inferred: Inferred) -> Iterator[str]:
    if inferred.plan.ops.get_column("meet").null_count() == len(inferred.plan):
        yield (
            "the time that this rank waits for others is as measured: their loads change too, and only the traces of "
            "all ranks, joined by their collectives, show how much that saves"
        )
