"""What would kernels take under another split of the SMs between computation and communication?

The present split is read from the trace: a persistent kernel has one block on each SM that it may use. How a duration
follows the SMs is measured nowhere in a trace of one split, so each rule is an assumption, and says for how much time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.concurrency import concurrency_fraction
from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, percent

#: Families whose time goes with the SMs that they run on; others are taken as bound by memory.
BOUND_BY_SMS = r"^(gemm|attention|conv)"

_Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentSplit(InNotebook):
    """The SMs of a device (of a rank's, `num_sms`) as a run used them.

    communication: blocks of the persistent kernels that move data; compute: blocks of the persistent kernels that
    compute, or without such, what communication leaves. Where several numbers occur, the one with the most time.
    """

    num_sms: int
    compute: int
    communication: int


def present_split(inferred: Inferred) -> PresentSplit:
    """Raises `AdviceError` where the trace does not tell SMs, or no communication kernel holds SMs of its own."""
    known = {work.num_sms for work in inferred.works}
    num_sms = known.pop() if len(known) == 1 else None
    if num_sms is None:
        raise AdviceError("the traces do not tell one number of SMs for their devices, so there is none to split.")
    return _split_of(_kernels(inferred), num_sms)


def split_durations(inferred: Inferred, compute_sms: int, communication_sms: int) -> tuple[_Times, tuple[str, ...]]:
    """The duration of each op under another split, in ns, float64, [ops]; and what was done, with how much time it is.

    - Persistent kernels that compute: times compute SMs now / then.
    - Other GEMMs, convolutions and attention with a block or more for each SM: beside communication, times the SMs that
      it leaves now / then; alone they have all SMs, now and then.
    - Persistent communication kernels that move data: times communication SMs now / then. No bandwidths by number of
      SMs are on record for one kernel, so this is an assumption: a transfer that the network bounds gains nothing.
    - All else as measured: kernels that only wait for other ranks, that memory bounds, or too small for the SMs.

    Raises `AdviceError` where the split does not fit the device, where the trace does not tell the present one
    (`present_split`), and for a plan of phases, whose ops are no kernels.
    """
    now = present_split(inferred)
    if min(compute_sms, communication_sms) < 1 or compute_sms + communication_sms > now.num_sms:
        raise AdviceError(
            f"{compute_sms}/{communication_sms} does not split the device's {now.num_sms} SMs: each part has 1 or "
            f"more, and both together no more than that. Now it is {now.compute}/{now.communication}."
        )
    kernels = _kernels(inferred)
    rules = {
        "persistent": now.compute / compute_sms,
        "beside": (now.num_sms - now.communication) / (now.num_sms - communication_sms),
        "data": now.communication / communication_sms,
    }
    rule = _rule(kernels, now)
    beside = np.where(rule == "beside", _beside(kernels, rule), 1.0)
    factor = 1 + beside * (np.array([rules.get(each, 1.0) for each in rule.tolist()]) - 1)
    durations = inferred.plan.ops.get_column("duration_ns").to_numpy().astype(np.float64)
    durations[kernels.get_column("op").to_numpy()] *= factor
    return durations, tuple(_notes(kernels, rule, beside, now, rules, (compute_sms, communication_sms)))


def _kernels(inferred: Inferred) -> pl.DataFrame:
    """Ops on a device: op, at, kind, family, role, num_blocks, persistent, start_ns, end_ns, duration_ns."""
    measured = inferred.measured.select("event", "at", "start_ns", "end_ns").with_row_index("op")
    measured = measured.hstack(inferred.plan.ops.select("duration_ns")).filter(pl.col("event").is_not_null())
    if measured.height < sum(work.events.height for work in inferred.works):
        raise AdviceError("another split of SMs changes kernels, and this plan's ops are phases: infer one of kernels.")
    summary = ("kind", "family", "role", "num_blocks", "persistent")
    parts = []
    for at, work in enumerate(inferred.works):
        mine = measured.filter(at=at)
        parts.append(mine.hstack(work.events.select(summary)[mine.get_column("event")]))
    return pl.concat(parts)


def _split_of(kernels: pl.DataFrame, num_sms: int) -> PresentSplit:
    holds = kernels.filter(pl.col("persistent") & pl.col("num_blocks").is_between(1, num_sms))

    def most(kind: pl.Expr) -> int | None:
        by_blocks = holds.filter(kind).group_by("num_blocks").agg(pl.col("duration_ns").sum())
        ranked = by_blocks.sort("duration_ns", "num_blocks", descending=True).get_column("num_blocks")
        return int(ranked[0]) if len(ranked) else None

    communication = most((pl.col("kind") == "communication") & (pl.col("role") == "data"))
    if communication is None or communication >= num_sms:
        raise AdviceError(
            "no communication kernel here holds SMs of its own (one block on each, as DeepEP's and NCCL's), so the "
            "present split of the SMs is not known."
        )
    compute = most(pl.col("kind") == "compute")
    return PresentSplit(
        num_sms=num_sms, compute=num_sms - communication if compute is None else compute, communication=communication
    )


def _rule(kernels: pl.DataFrame, now: PresentSplit) -> NDArray[np.str_]:
    """By which rule each kernel changes: persistent, beside, data, barrier, memory or small."""
    computes, blocks = pl.col("kind") == "compute", pl.col("num_blocks").fill_null(0)
    is_bound = pl.col("family").cast(pl.String).str.contains(BOUND_BY_SMS).fill_null(False)
    persistent = pl.col("persistent").fill_null(False)
    moves = (pl.col("kind") == "communication") & (pl.col("role") == "data") & persistent
    fills = blocks >= now.compute
    rule = (
        pl.when(moves).then(pl.lit("data"))
        .when(pl.col("kind") == "communication").then(pl.lit("barrier"))
        .when(computes & persistent & fills).then(pl.lit("persistent"))
        .when(computes & is_bound & fills).then(pl.lit("beside"))
        .when(computes & is_bound).then(pl.lit("small"))
        .otherwise(pl.lit("memory"))
    )  # fmt: skip
    return kernels.select(rule).to_series().to_numpy().astype(str)


def _beside(kernels: pl.DataFrame, rule: NDArray[np.str_]) -> _Times:
    """Of each kernel, the part of its time during which communication held SMs on its device."""
    at, start, end = (kernels.get_column(name).to_numpy() for name in ("at", "start_ns", "end_ns"))
    return concurrency_fraction(at, start, end, np.isin(rule, ("data", "barrier")))


def _notes(
    kernels: pl.DataFrame, rule: NDArray[np.str_], beside: _Times, now: PresentSplit, rules: dict[str, float],
    then: tuple[int, int],
) -> list[str]:  # fmt: skip
    time = kernels.get_column("duration_ns").to_numpy()
    total = {each: int(time[rule == each].sum()) for each in np.unique(rule).tolist()}
    notes = [f"SMs now: {now.compute} compute, {now.communication} communicate, of {now.num_sms} (blocks of persistent "
             "kernels)"]  # fmt: skip
    if took := total.get("persistent"):
        notes.append(f"{duration(took)} of persistent kernels that compute: × {now.compute}/{then[0]}, assumed")
    if took := total.get("beside"):
        part = float((time * beside)[rule == "beside"].sum()) / took
        notes.append(
            f"{duration(took)} of other GEMMs, convolutions and attention: × {now.num_sms - now.communication}/"
            f"{now.num_sms - then[1]} for the {percent(part)} beside communication, assumed"
        )
    if took := total.get("data"):
        notes.append(
            f"{duration(took)} of communication that moves data: × {now.communication}/{then[1]}, assumed: no "
            "bandwidths by number of SMs are on record; what the network bounds gains nothing by more"
        )
    if rest := sum(total.get(each, 0) for each in ("barrier", "memory", "small")):
        notes.append(f"{duration(rest)} as measured: waits for other ranks, work bound by memory, too few blocks")
    return notes
