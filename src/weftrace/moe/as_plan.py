"""An operation list with its prices as a `Plan`: repeated for every layer, on every rank.

Rows of the plan are by rank, then by repetition of the list, then in issue order, piece by piece. Everything is made of
columns: 61 layers of 64 ranks take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
#: Times are below this, so that sums of them fit int64.
MAX_NS = 1 << 61

_Ints = NDArray[np.int64]
_Edge = tuple[int, int, int]  # a piece waits for another's end, of so many repetitions before


@dataclass(frozen=True, slots=True)
class _Unit:
    """One repetition of the list: K rows, pieces in issue order.

    operations, pieces: of each row. first, last: row of an operation's first and last piece.
    """

    operations: tuple[Operation, ...]
    pieces: tuple[Piece, ...]
    first: dict[str, int]
    last: dict[str, int]


def plan_of(
    overlap: Overlap,
    prices: Prices,
    setting: Setting,
    *,
    num_ranks: int = 1,
    gap_ns: int = GAP_NS,
    share_sms: bool = True,
) -> Plan:
    """The plan of `setting.num_layers` layers on `num_ranks` ranks.

    prices: of every operation of the list, with arrays that broadcast to [num_layers, num_ranks]. Pieces that meet do
    so with those of the other ranks of their group of `setting.ep`. share_sms: kernels of the compute and the side lane
    that ask together for more SMs than communication leaves run one after another, in issue order (waits of why="sm");
    false where durations were measured side by side: they hold already what sharing cost.

    Raises `ProfileError` where a price is missing, has another shape, or is below 0.
    """
    if num_ranks < 1:
        raise ProfileError(f"num_ranks = {num_ranks}: a plan has one rank at least")
    unit = _unit_of(overlap, prices)
    grid = _grid_of(unit, setting.num_layers, num_ranks)
    k, rank, layer = grid.k, grid.rank, grid.layer
    duration_KLR = np.stack([_durations(piece, name, setting.num_layers, num_ranks) for piece, name in _named(unit)])
    sm_waits = list(_sm_waits(unit, setting, overlap)) if share_sms else []
    return Plan(
        name=f"{setting.model.name}, {setting.kind}, {overlap.name}",
        source="; ".join(dict.fromkeys(piece.basis for piece in unit.pieces if piece.basis)),
        notes=overlap.notes,
        device_name=setting.hardware.name,
        num_sms=setting.hardware.num_sms,
        world_size=max(num_ranks, setting.ep),
        gap_ns=gap_ns,
        ops=_ops(unit, k, rank, layer, duration_KLR, _meets(unit, k, rank, layer, setting.ep, num_ranks)),
        waits=_waits(unit, sm_waits, grid.row_at, num_ranks, grid.num_units),
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
    if not ((given >= 0) & (given < MAX_NS)).all():
        wrong = given[~((given >= 0) & (given < MAX_NS))]
        raise ProfileError(f"{name!r}, {piece.name}: a time of {wrong[0]:,} ns")
    return np.rint(given).astype(np.int64)


def _ops(unit: _Unit, k: _Ints, rank: _Ints, layer: _Ints, duration_KLR: _Ints, meet: pl.Series) -> pl.DataFrame:
    """k: which piece of the unit each row is."""

    def gathered(values: Sequence[object], dtype: pl.DataType) -> pl.Series:
        return pl.Series(values, dtype=dtype).gather(k)

    text, number = pl.Categorical(), pl.Int32()
    pieces, operations = unit.pieces, unit.operations
    return pl.DataFrame(
        {
            "name": gathered([piece.name for piece in pieces], text),
            "phase": gathered([each.phase for each in operations], text),
            "kind": gathered([piece.kind for piece in pieces], pl.String()),
            "rank": pl.Series(rank, dtype=pl.Int32),
            "stream": gathered([STREAMS[each.lane] for each in operations], number),
            "duration_ns": pl.Series(duration_KLR[k, layer, rank]),
            "num_kernels": gathered([piece.num_kernels for piece in pieces], number),
            "num_sms": gathered([piece.num_sms for piece in pieces], number),
            "meet": meet,
            "layer": pl.Series(layer, dtype=pl.Int32),
            "micro_batch": gathered([each.micro_batch for each in operations], number),
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


def _waits(unit: _Unit, sm_waits: Iterable[_Edge], row_at: _Ints, num_ranks: int, num_units: int) -> pl.DataFrame:
    rows = len(unit.pieces)
    edges: list[_Edge] = []
    for each in dict.fromkeys(unit.operations):
        for others, units in ((each.after, 0), (each.after_previous, 1)):
            edges += [(unit.first[each.name], unit.last[other], units) for other in others]
    num_data = len(edges)
    edges += sm_waits
    op, on, back = np.array(edges, np.int64).reshape(-1, 3).T
    base = np.arange(num_ranks * num_units)[:, None] * rows
    unit_of = np.tile(np.arange(num_units), num_ranks)[:, None]
    has = (unit_of >= back[None, :]).ravel()
    waiting = row_at[(base + op).ravel()[has]]
    awaited = row_at[(base + on - back * rows).ravel()[has]]
    both = (waiting >= 0) & (awaited >= 0)
    is_data = np.broadcast_to(np.arange(len(edges)) < num_data, (len(base), len(edges))).ravel()[has][both]
    why = pl.select(pl.when(pl.Series(is_data)).then(pl.lit("data")).otherwise(pl.lit("sm"))).to_series()
    return pl.DataFrame({"op": waiting[both], "on": awaited[both], "why": why})


def _sm_waits(unit: _Unit, setting: Setting, overlap: Overlap) -> Iterator[_Edge]:
    """Kernels of the compute and the side lane that ask together for more SMs than there are: in issue order.

    Both lanes then run as one queue would, and neither takes longer than it does alone. SMs of communication kernels
    are set aside. A kernel that does not say its SMs shares them with any other.
    """
    free = setting.hardware.num_sms if overlap.all_sms else setting.compute_sms
    lanes = ("compute", "side")
    asking = [
        (k, each.lane, piece.num_sms)
        for k, (piece, each) in enumerate(zip(unit.pieces, unit.operations, strict=True))
        if each.lane in lanes and piece.num_sms
    ]
    if len({lane for _, lane, _ in asking}) < len(lanes):
        return
    earlier = _earlier(overlap)
    awaited: dict[str, tuple[int, int]] = {}  # by lane: what it has waited for last
    for again in (0, 1):  # the second time as the next repetition, which knows what was waited for before
        for at, (k, lane, sms) in enumerate(asking):
            before = [(again, j) for j, other, asked in asking[:at] if other != lane and sms + asked > free]
            if again and not before:
                before = [(0, j) for j, other, asked in asking if other != lane and sms + asked > free]
            if not before or before[-1] == awaited.get(lane):
                continue
            awaited[lane] = repetition, j = before[-1]
            is_told = bool(repetition) if again else unit.operations[k].name in earlier[unit.operations[j].name]
            if not is_told:
                yield k, j, again - repetition


def _earlier(overlap: Overlap) -> dict[str, set[str]]:
    """Of each operation, those of its repetition that have ended before it starts, by waits and by its lane."""
    direct: dict[str, set[str]] = {}
    last: dict[str, str] = {}
    for each in overlap.operations:
        direct[each.name] = {*each.after, *filter(None, [last.get(each.lane)])}
        last[each.lane] = each.name
    found: dict[str, set[str]] = {}

    def all_before(name: str) -> set[str]:
        if name not in found:
            found[name] = set().union(*({other} | all_before(other) for other in direct[name]))
        return found[name]

    return {name: all_before(name) for name in direct}
