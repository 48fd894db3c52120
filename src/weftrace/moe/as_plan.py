"""An operation list with its prices as a `Plan`: repeated for every layer, on every rank.

Rows of the plan are by rank, then by repetition of the list, then in issue order, piece by piece. Everything is made of
columns: 61 layers of 64 ranks take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ProfileError
from weftrace.moe.operations import Lane, Operation, Overlap
from weftrace.moe.pieces import Piece, Prices
from weftrace.moe.setting import Setting
from weftrace.plan import Plan

#: Streams of the lanes, numbered as in DeepSeek's training profile, and one more for what travels without a kernel.
STREAMS: dict[Lane, int] = {"compute": 7, "side": 23, "communication": 27, "network": 28}
#: Idle time between kernels back to back: the commonest gap on stream 7 of the training profile (505 of 926).
GAP_NS = 2_000

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Unit:
    """One repetition of the list: K rows, pieces in issue order.

    operations, pieces: of each row. first, last: row of an operation's first and last piece.
    """

    operations: tuple[Operation, ...]
    pieces: tuple[Piece, ...]
    first: dict[str, int]
    last: dict[str, int]


def plan_of(overlap: Overlap, prices: Prices, setting: Setting, *, num_ranks: int = 1, gap_ns: int = GAP_NS) -> Plan:
    """The plan of `setting.num_layers` layers on `num_ranks` ranks.

    prices: of every operation of the list, with arrays that broadcast to [num_layers, num_ranks]. Pieces that meet do
    so with those of the other ranks of their group of `setting.ep`. Raises `ProfileError` where a price is missing, has
    another shape, or is below 0.
    """
    if num_ranks < 1:
        raise ProfileError(f"num_ranks = {num_ranks}: a plan has one rank at least")
    unit = _unit_of(overlap, prices)
    grid = _grid_of(unit, setting.num_layers, num_ranks)
    k, rank, layer = grid.k, grid.rank, grid.layer
    duration_KLR = np.stack([_durations(piece, name, setting.num_layers, num_ranks) for piece, name in _named(unit)])
    return Plan(
        name=f"{setting.model.name}, {setting.kind}, {overlap.name}",
        source="; ".join(dict.fromkeys(piece.basis for piece in unit.pieces if piece.basis)),
        notes=overlap.notes,
        device_name=setting.hardware.name,
        num_sms=setting.hardware.num_sms,
        world_size=max(num_ranks, setting.ep),
        gap_ns=gap_ns,
        ops=_ops(unit, k, rank, layer, duration_KLR, _meets(unit, k, rank, layer, setting.ep, num_ranks)),
        waits=_waits(unit, grid.row_at, num_ranks, grid.num_units),
    )


def operation_of_rows(overlap: Overlap, prices: Prices, setting: Setting, *, num_ranks: int = 1) -> pl.DataFrame:
    """What each row of `plan_of`'s plan is a piece of: `repetition` of the list, and `operation`, its place in it."""
    unit = _unit_of(overlap, prices)
    grid = _grid_of(unit, setting.num_layers, num_ranks)
    place = {each.name: at for at, each in enumerate(overlap.operations)}
    of_piece = np.array([place[each.name] for each in unit.operations])
    return pl.DataFrame({"repetition": grid.at_unit, "operation": of_piece[grid.k]})


@dataclass(frozen=True, slots=True)
class _Grid:
    """Rows of the plan: repetition and piece of each, its rank and layer. row_at: the row of each piece of the whole
    grid [ranks, repetitions, pieces], flat; -1 of those that would work on a layer that is not there."""

    at_unit: _Ints
    k: _Ints
    rank: _Ints
    layer: _Ints
    row_at: _Ints
    num_units: int


def _grid_of(unit: _Unit, num_layers: int, num_ranks: int) -> _Grid:
    shift_K = np.array([each.layer_shift for each in unit.operations])
    first_unit = -max(0, int(shift_K.max()))
    num_units = num_layers - min(0, int(shift_K.min())) - first_unit
    layer_UK = (np.arange(num_units) + first_unit)[:, None] + shift_K[None, :]
    runs_UK = (layer_UK >= 0) & (layer_UK < num_layers)
    kept_at = np.flatnonzero(np.tile(runs_UK.ravel(), num_ranks))
    row_at = np.full(num_ranks * runs_UK.size, -1, np.int64)
    row_at[kept_at] = np.arange(len(kept_at))
    rank, within = np.divmod(kept_at, runs_UK.size)
    at_unit, k = np.divmod(within, len(unit.pieces))
    return _Grid(at_unit, k, rank, layer_UK[at_unit, k], row_at, num_units)


def _unit_of(overlap: Overlap, prices: Prices) -> _Unit:
    operations: list[Operation] = []
    pieces: list[Piece] = []
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for each in overlap.operations:
        own = prices.get(each.name, ())
        if not own:
            raise ProfileError(f"overlap {overlap.name!r}: nobody says what {each.name!r} costs")
        first[each.name] = len(pieces)
        operations += [each] * len(own)
        pieces += own
        last[each.name] = len(pieces) - 1
    return _Unit(tuple(operations), tuple(pieces), first, last)


def _named(unit: _Unit) -> list[tuple[Piece, str]]:
    return [(piece, operation.name) for piece, operation in zip(unit.pieces, unit.operations, strict=True)]


def _durations(piece: Piece, name: str, num_layers: int, num_ranks: int) -> _Ints:
    """[L, R] int64 nanoseconds."""
    try:
        given = np.broadcast_to(np.asarray(piece.duration_ns, np.float64), (num_layers, num_ranks))
    except ValueError as error:
        raise ProfileError(
            f"{name!r}, {piece.name}: times of shape {np.shape(piece.duration_ns)} do not fit {num_layers} layers of "
            f"{num_ranks} ranks"
        ) from error
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise ProfileError(f"{name!r}, {piece.name}: a time of {given.min():,} ns")
    return np.rint(given).astype(np.int64)


def _ops(unit: _Unit, k: _Ints, rank: _Ints, layer: _Ints, duration_KLR: _Ints, meet: pl.Series) -> pl.DataFrame:
    """k: which piece of the unit each row is."""

    def told(values: Sequence[object], dtype: pl.DataType) -> pl.Series:
        return pl.Series(values, dtype=dtype).gather(k)

    text, number = pl.Categorical(), pl.Int32()
    pieces, operations = unit.pieces, unit.operations
    return pl.DataFrame(
        {
            "name": told([piece.name for piece in pieces], text),
            "phase": told([each.phase for each in operations], text),
            "kind": told([piece.kind for piece in pieces], pl.String()),
            "rank": pl.Series(rank, dtype=pl.Int32),
            "stream": told([STREAMS[each.lane] for each in operations], number),
            "duration_ns": pl.Series(duration_KLR[k, layer, rank]),
            "num_kernels": told([piece.num_kernels for piece in pieces], number),
            "num_sms": told([piece.num_sms for piece in pieces], number),
            "meet": meet,
            "layer": pl.Series(layer, dtype=pl.Int32),
            "micro_batch": told([each.micro_batch for each in operations], number),
        }
    )


def _meets(unit: _Unit, k: _Ints, rank: _Ints, layer: _Ints, ep: int, num_ranks: int) -> pl.Series:
    """The number of the meet of each row, null for none: of one rank alone there is nobody to meet."""
    meeting = np.cumsum([piece.meets for piece in unit.pieces]) - 1
    num_meets = int(meeting[-1]) + 1
    group = rank // ep
    number = (group * (int(layer.max()) + 1) + layer) * num_meets + meeting[k]
    meets = np.array([piece.meets for piece in unit.pieces])[k] & (num_ranks > 1)
    return pl.select(pl.when(pl.Series(meets)).then(pl.Series(number))).to_series().cast(pl.Int32)


def _waits(unit: _Unit, row_at: _Ints, num_ranks: int, num_units: int) -> pl.DataFrame:
    rows = len(unit.pieces)
    by_name = {each.name: each for each in unit.operations}
    op, on, back = [], [], []
    for name, each in by_name.items():
        for others, units in ((each.after, 0), (each.after_previous, 1)):
            for other in others:
                op.append(unit.first[name])
                on.append(unit.last[other])
                back.append(units)
    base = np.arange(num_ranks * num_units)[:, None] * rows
    unit_of = np.tile(np.arange(num_units), num_ranks)[:, None]
    has = (unit_of >= np.array(back, np.int64)[None, :]).ravel()
    waiting = row_at[(base + np.array(op, np.int64)).ravel()[has]]
    awaited = row_at[(base + np.array(on, np.int64) - np.array(back, np.int64) * rows).ravel()[has]]
    both = (waiting >= 0) & (awaited >= 0)
    return pl.DataFrame({"op": waiting[both], "on": awaited[both]})
