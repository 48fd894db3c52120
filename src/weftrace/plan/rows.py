"""Ops as values, and as rows: the two forms of a plan."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan.ops import KINDS, OP_SCHEMA, WAIT_SCHEMA, Op, Resource, Since, Wait, Why

_INTS = ("duration_ns", "num_kernels", "num_sms", "meet", "layer", "micro_batch", "step", "start_bytes", "end_bytes")
_MAY_BE_NONE = ("num_sms", "meet", "layer", "micro_batch", "step")
_TEXTS = ("id", "name", "phase")
_PLAIN = tuple(name for name in OP_SCHEMA if name not in ("rank", "stream"))  # fields of `Op` that are columns as well
_LIMITS = {8: 1 << 63, 4: 1 << 31}
_MAX_COMPARED = 10_000  # ids in which one looks for the nearest


def frames_of(ops: Sequence[Op], what: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The frames of ops and of waits. what: the plan, for errors. Raises `PlanError` as `Plan.of` does."""
    _check_forms(ops, what)
    columns: dict[str, list[Any]] = {name: [getattr(op, name) for op in ops] for name in _PLAIN}
    columns["rank"] = [op.resource.rank for op in ops]
    columns["stream"] = [op.resource.stream for op in ops]
    _check_types(ops, columns, what)
    try:
        frame = pl.DataFrame({name: pl.Series(columns[name], dtype=dtype) for name, dtype in OP_SCHEMA.items()})
    except UnicodeEncodeError as error:
        raise PlanError(f"{what}: an id, name or phase is {error.object!r}, which no file can hold.") from error
    return frame, _waits_of(ops, columns["id"], what)


def ops_of(ops: pl.DataFrame, waits: pl.DataFrame, rows: Sequence[int]) -> list[Op]:
    """The ops of these rows of a plan's frames, as values."""
    if len(rows) < ops.height:
        waits = waits.filter(pl.col("op").is_in(list(rows)))
    ids = ops.get_column("id").gather(waits.get_column("on")).to_list()
    after: dict[int, list[str | int | Wait]] = {}
    for (op, on, since, lag_ns, why), label in zip(waits.iter_rows(), ids, strict=True):
        other = on if label is None else label
        is_plain = (since, lag_ns, why) == ("end", 0, "data")
        after.setdefault(op, []).append(other if is_plain else Wait(other, since, lag_ns, why))
    return [
        Op(
            resource=Resource(rank=values.pop("rank"), stream=values.pop("stream")),
            after=tuple(after.get(row, ())),
            **values,
        )
        for row, values in zip(rows, ops[list(rows)].iter_rows(named=True), strict=True)
    ]


def row_of(ops: pl.DataFrame, which: int | str, what: str) -> int:
    """The row of an op, by row number or id. what: the plan, for errors. Raises `PlanError` where there is none."""
    if isinstance(which, str):
        found = ops.get_column("id").index_of(which)
        if found is None:
            raise PlanError(
                f"{what} has no op {which!r}.{_nearest(which, ops.get_column('id').drop_nulls().to_list())}"
            )
        return found
    if not isinstance(which, int | np.integer):
        raise PlanError(f"{what} has no op {which!r}: give a row number or an id.")
    if not 0 <= which < ops.height:
        raise PlanError(f"{what} has no op number {which}: it has {ops.height:,} ops, counted from 0.")
    return which


def rows_on(ops: pl.DataFrame, rank: int, what: str) -> NDArray[np.int64]:
    """The rows of a rank's ops, ascending. what: the plan, for errors. Raises `PlanError` where it has none."""
    if not isinstance(rank, int | np.integer):
        raise PlanError(f"{what} has no op on rank {rank!r}: ranks are numbers.")
    ranks = ops.get_column("rank")
    if ranks.flags["SORTED_ASC"]:  # a plan of a thousand ranks is not looked through a thousand times
        rows = np.arange(ranks.search_sorted(rank, "left"), ranks.search_sorted(rank, "right"))
    else:
        rows = (ranks == rank).arg_true().to_numpy().astype(np.int64)
    if not len(rows):
        raise PlanError(f"{what} has no op on rank {rank}; it has {ranks.n_unique():,} ranks.")
    return rows


def rows_by_rank(ops: pl.DataFrame) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
    """All rows, those of one rank together and in their order; the ranks, ascending; and where each begins."""
    column = ops.get_column("rank")
    rank_of = column.to_numpy()
    if column.is_sorted():
        rows: NDArray[Any] = np.arange(len(column), dtype=np.int32)
    else:
        rows = np.argsort(rank_of, kind="stable")
        rank_of = rank_of[rows]
    first = np.flatnonzero(np.append(True, rank_of[1:] != rank_of[:-1])[: len(rank_of)])
    return rows, rank_of[first], first


def label_of(ops: pl.DataFrame, row: int) -> str:
    """What an op is called in messages: its id in quotes, else its name and where it stands."""
    op = ops.row(row, named=True)
    if op["id"] is not None:
        return repr(op["id"])
    summary = {"layer": op["layer"], "micro-batch": op["micro_batch"], "rank": op["rank"], "row": row}
    return f"{op['name']!r} ({', '.join(f'{what} {value}' for what, value in summary.items() if value is not None)})"


def _waits_of(ops: Sequence[Op], ids: list[str | None], what: str) -> pl.DataFrame:
    index: dict[str | int, int] = {label: row for row, label in enumerate(ids) if label is not None}
    if len(index) != len(ids) - ids.count(None):
        _raise_duplicate(ids, what)
    rows: list[tuple[int, int, str, int, str]] = []
    for row, op in enumerate(ops):
        for each in op.after:
            wait = each if isinstance(each, Wait) else Wait(each)
            _check_wait(op, row, wait, what)
            on = index.get(wait.on, -1) if isinstance(wait.on, str) else wait.on
            if not 0 <= on < len(ops):
                _raise_unknown(ops, index, what)
            rows.append((row, on, wait.since, wait.lag_ns, wait.why))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(WAIT_SCHEMA)
    return pl.DataFrame(
        {name: pl.Series(values, dtype=WAIT_SCHEMA[name]) for name, values in zip(WAIT_SCHEMA, columns, strict=True)}
    )


# --- what is wrong, in words ------------------------------------------------------------------------------------------


def _called(op: Op, row: int) -> str:
    return repr(op.id) if op.id is not None else f"{op.name!r} (row {row})"


def more(num_found: int) -> str:
    """How many findings of a kind there are besides the one that is told."""
    return f" ({num_found - 1:,} more like it.)" if num_found > 1 else ""


def _check_forms(ops: Sequence[Op], what: str) -> None:
    """Raise `PlanError` where something else stands for an op, its resource or its tuple of waits."""
    for row, op in enumerate(ops):
        if not isinstance(op, Op):
            raise PlanError(f"{what}: row {row} is {op!r}, and should be an Op.")
        if not isinstance(op.resource, Resource):
            raise PlanError(
                f"{what}: op {_called(op, row)} has resource = {op.resource!r}; it is Resource(rank=0, stream=7), say."
            )
        after: object = op.after
        if not isinstance(after, tuple | list):
            summary = f"{after!r}, a string" if isinstance(after, str) else repr(after)
            help_ = f" Give a tuple of ids: ({after!r},)." if after is not None else " Give a tuple: ()."
            raise PlanError(f"{what}: op {_called(op, row)} has after = {summary}.{help_}")


def _check_types(ops: Sequence[Op], columns: dict[str, list[Any]], what: str) -> None:
    """Raise `PlanError` where a value is not of its field's type: a frame would turn some into others, in silence."""
    for name in (*_INTS, "rank", "stream"):
        values = columns[name]
        limit = _LIMITS[8 if OP_SCHEMA[name] == pl.Int64() else 4]
        allowed = {int, type(None)} if name in _MAY_BE_NONE else {int}
        if set(map(type, values)) - allowed:
            wrong = [row for row, v in enumerate(values) if type(v) not in allowed]
            raise PlanError(
                f"{what}: op {_called(ops[wrong[0]], wrong[0])} has {name} = {values[wrong[0]]!r}, which is not an "
                f"int. Use whole numbers (nanoseconds for times), for example int(round(x)).{more(len(wrong))}"
            )
        if big := [row for row, v in enumerate(values) if v is not None and not -limit <= v < limit]:
            raise PlanError(
                f"{what}: op {_called(ops[big[0]], big[0])} has {name} = {values[big[0]]:,}, which does not fit "
                f"{OP_SCHEMA[name]}.{more(len(big))}"
            )
    for name in _TEXTS:
        values = columns[name]
        for row, value in enumerate(values) if set(map(type, values)) - {str, type(None)} else ():
            if not isinstance(value, str | None):
                raise PlanError(f"{what}: op {_called(ops[row], row)} has {name} = {value!r}, which is not a str.")
    if odd := [row for row, kind in enumerate(columns["kind"]) if kind not in KINDS]:
        raise PlanError(
            f"{what}: op {_called(ops[odd[0]], odd[0])} has kind {columns['kind'][odd[0]]!r}; weftrace knows "
            f"{', '.join(KINDS)}."
        )


def _check_wait(op: Op, row: int, wait: Wait, what: str) -> None:
    if type(wait.lag_ns) is not int or abs(wait.lag_ns) >= _LIMITS[8]:
        raise PlanError(f"{what}: op {_called(op, row)} has a lag of {wait.lag_ns!r}; lags are ints of nanoseconds.")
    for name, value, known in (("since", wait.since, get_args(Since)), ("why", wait.why, get_args(Why))):
        if value not in known:
            raise PlanError(f"{what}: op {_called(op, row)} has a wait with {name} = {value!r}; it is one of "
                            f"{', '.join(known)}.")  # fmt: skip
    if type(wait.on) not in (str, int):
        raise PlanError(f"{what}: op {_called(op, row)} waits for {wait.on!r}, which is no id and no row number.")


def _raise_duplicate(ids: list[str | None], what: str) -> None:
    repeated = [(label, n) for label, n in Counter(ids).items() if n > 1 and label is not None]
    label, n = repeated[0]
    raise PlanError(
        f"{what}: {n} ops share the id {label!r}. Ids name one op each; add the layer, micro-batch or rank to it."
        f"{more(len(repeated))}"
    )


def _raise_unknown(ops: Sequence[Op], index: dict[str | int, int], what: str) -> None:
    unknown = [
        (op, row, on)
        for row, op in enumerate(ops)
        for on in (each.on if isinstance(each, Wait) else each for each in op.after)
        if (on not in index if isinstance(on, str) else not 0 <= on < len(ops))
    ]
    op, row, on = unknown[0]
    near = _nearest(on, [label for label in index if isinstance(label, str)]) if isinstance(on, str) else ""
    raise PlanError(
        f"{what}: op {_called(op, row)} waits for {on!r}, which is not among its {len(ops):,} ops.{near}"
        f"{more(len(unknown))}"
    )


def _nearest(label: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(label, known, n=1) if len(known) <= _MAX_COMPARED else []
    return f" Did you mean {near[0]!r}?" if near else ""
