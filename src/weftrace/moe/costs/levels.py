"""Prices of an operation list: computation and communication are asked for theirs, at one level."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from weftrace.errors import ProfileError
from weftrace.moe.calibration import pricing
from weftrace.moe.calibration.values import Calibration
from weftrace.moe.costs import communication, compute
from weftrace.moe.costs.rates import Level
from weftrace.moe.operations import Operation, Overlap
from weftrace.moe.pieces import Piece, Prices
from weftrace.moe.routing.load import Load, balanced
from weftrace.moe.setting import Setting
from weftrace.plan import Slowdown, load_slowdowns

#: roofline: peaks of the device; published: rates that others measured and published; or what a trace was found to
#: cost.
AnyLevel = Level | Calibration
LEVELS: tuple[Level, ...] = get_args(Level)


def price(overlap: Overlap, setting: Setting, load: Load | None = None, level: AnyLevel = "published") -> Prices:
    """What each operation of a list costs. load: a `Load`; balanced routing where it is None.

    Where the list never computes beside kernels that move tokens, computation has every SM. Raises `ProfileError` for a
    level that is none, and where a level knows no price.
    """
    if not isinstance(level, Calibration) and level not in LEVELS:
        raise ProfileError(f"level = {level!r}; it is {', '.join(LEVELS)}, or a calibration")
    load = balanced(setting) if load is None else load
    alone = replace(setting, comm_sms=0) if overlap.all_sms else setting
    return {
        each.name: _pieces(each, setting if each.moves_tokens else alone, load, level) for each in overlap.operations
    }


def level_name(level: AnyLevel) -> str:
    """How the level is named where its numbers are shown."""
    return level.name if isinstance(level, Calibration) else str(level)


def was_measured(level: AnyLevel) -> bool:
    """Whether durations were measured side by side, and so hold already what sharing SMs cost."""
    return isinstance(level, Calibration)


def slowdowns_at(level: AnyLevel, *, contention: bool) -> tuple[Slowdown, ...]:
    """What ops that run side by side cost each other: a calibration's own table, as it was fitted with it."""
    if isinstance(level, Calibration):
        return pricing.slowdowns_of(level)
    return load_slowdowns() if contention else ()


def _pieces(operation: Operation, setting: Setting, load: Load, level: AnyLevel) -> tuple[Piece, ...]:
    if isinstance(level, Calibration):
        return pricing.pieces_of(level, operation, setting, load)
    if operation.moves_tokens or operation.work == "moe":
        return communication.pieces_of(operation, setting, load, level)
    return compute.pieces_of(operation, setting, load, level)
