"""Operations priced with a calibration: its parts, by the rows and tokens that there are to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ProfileError
from weftrace.moe.calibration.parts import size_of_part
from weftrace.moe.calibration.values import CalibratedPart, Calibration
from weftrace.moe.operations import Operation
from weftrace.moe.pieces import Piece
from weftrace.moe.setting import Setting
from weftrace.plan.contention import Slowdown

if TYPE_CHECKING:
    from weftrace.moe.routing.load import Load

_Floats = NDArray[np.float64]
#: Kernels that communicate are called as in all simulations, whatever library the trace had.
_WAITS = "notify_"
_NAMES = {"wait": _WAITS + "{}", "data": "{}"}


def pieces_of(calibration: Calibration, operation: Operation, setting: Setting, load: Load) -> tuple[Piece, ...]:
    """What an operation consists of, each piece as long as with nothing beside it: `slowdowns_of` says what is.

    Routed rows are those of `load`, where the trace told its own; tokens those of `setting`, by the trace's. On one
    rank waits for others are as long as in the trace, on average; where several are simulated they meet, and a wait
    is the shortest of the trace, where nobody was late. Operations that share their work with another lane last as long
    as both did, side by side.

    Raises `ProfileError` for a phase that the trace did not have, for parts of a transfer, which it does not tell
    apart, and where it tells that another model ran.
    """
    asked = setting.model.name
    if (model := dict(calibration.info).get("profile.model", asked)) != asked:
        raise ProfileError(f"{calibration.source}: calibrated on {model}; it does not say what {asked} costs")
    if operation.part != "whole":
        raise ProfileError(
            f"{calibration.source}: it has no separate time for the {operation.part} of {operation.phase}; choose "
            "an overlap with whole transfers, or other costs"
        )
    phase = calibration[operation.phase]
    rows_LR = np.atleast_2d(np.asarray(load.of(operation.micro_batch).rows_LR, np.float64))
    tokens = setting.tokens / calibration.tokens if calibration.tokens else 1.0
    share = 1.0 if operation.num_chunks == 1 else operation.share
    return tuple(_piece(calibration, operation, part, setting, rows_LR, tokens, share) for part in phase.parts)


def slowdowns_of(calibration: Calibration) -> tuple[Slowdown, ...]:
    """What communication costs the kernels beside it, for `weftrace.plan.with_contention`."""
    moves_data = (pl.col("kind") == "communication") & ~pl.col("name").cast(pl.String).str.starts_with(_WAITS)
    computes = pl.col("kind") == "compute"
    return tuple(
        Slowdown(
            name=f"{each.group} kernels beside data that moves",
            of=computes & pl.col("family").is_in(each.families) if each.families else computes,
            beside=moves_data,
            factor=each.factor,
            source=calibration.basis,
        )
        for each in calibration.slowed
    )


def _piece(
    calibration: Calibration,
    operation: Operation,
    part: CalibratedPart,
    setting: Setting,
    rows_LR: _Floats,
    tokens: float,
    share: float,
) -> Piece:
    phase = calibration[operation.phase]
    communicates = part.group in ("data", "wait")
    waits = part.group == "wait"
    sms = part.num_sms or (setting.comm_sms if communicates else setting.compute_sms)
    alone_ns = part.least_ns if waits and rows_LR.shape[1] > 1 else part.alone_ns
    size_LR = size_of_part(part.follows, rows_LR, phase.rows or 1.0, tokens, calibration.tokens or 0)
    return Piece(
        name=_NAMES.get(part.group, "").format(operation.move) or part.name,
        kind="communication" if communicates else "compute",
        duration_ns=alone_ns * share * phase.union * size_LR,
        num_kernels=part.num_kernels,
        num_sms=sms or None,
        meets=waits,
        basis=calibration.basis + ("" if tokens == 1 else f", scaled from {calibration.tokens:,} tokens"),
    )
