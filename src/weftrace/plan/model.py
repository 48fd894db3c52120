"""Plan: what must happen, in which order, on which resource. The mirror of a `Trace`: a frame of ops, a frame of waits.

The ops of one stream of one rank run first in, first out, in the order of the rows, as CUDA streams do; a host thread
is a stream too. A row of `waits` holds an op back until another op, on whatever stream or rank, has ended or started.
Ops that share a number in `meet` happen together, as the ranks of a collective do. That is all: no pool of SMs, no
contention and no decision is in a plan; durations hold them, and passes above make them.

`Op`, `Wait` and `Resource` are how a small plan is written by hand, and how a row of a large one is looked at.
`weftrace.plan.check` says whether a plan can run, `weftrace.plan.timetable` when each op does.

Phases and ops are named in the alphabet of `weftrace.alphabet`: "attn(F)", "mlp(B)".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.notebook import InNotebook
from weftrace.plan.ops import OP_DEFAULTS, OP_SCHEMA, WAIT_DEFAULTS, WAIT_SCHEMA, Op, Resource
from weftrace.plan.rows import frames_of, label_of, more, ops_of, row_of, rows_on

_NONE = type(None)
_FACTS: dict[str, tuple[type, ...]] = {
    "name": (str,), "source": (str,), "notes": (tuple,), "device_name": (str,), "num_sms": (int, _NONE),
    "world_size": (int, _NONE), "gap_ns": (int,),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan(InNotebook):
    """Ops in the order in which they are issued, what they wait for, and what they run on.

    ops: frame with the columns of `OP_SCHEMA`, a row an op, which its row number stands for. On one stream the order of
        the rows is the order of execution. Columns that are left out hold their default; integers of other widths, text
        for what is categorical and missing columns are put right here. Consecutive ops of a rank that share phase,
        layer and micro-batch are launched inside one host range.
    waits: frame with the columns of `WAIT_SCHEMA`, kept in the order of `op`; those of one op stay as they stood.
    gap_ns: idle time between two kernels back to back on one stream, and between two calls of a host thread, which is
        a stream as well; 0 for an ideal device.
    num_sms, device_name: of every rank's device, where known.
    world_size: ranks in the job, which may be more than the plan shows; None for the highest rank here plus one.
    source: where the durations and the order come from. notes: what to know before trusting the result.

    Raises `PlanError` for columns that are unknown, of another type, or null where they may not be, for waits of or on
    rows that `ops` does not have, and for other fields that hold another type than they should.
    """

    name: str
    source: str = ""
    notes: tuple[str, ...] = ()
    device_name: str = "device"
    num_sms: int | None = None
    world_size: int | None = None
    gap_ns: int = 0
    ops: pl.DataFrame
    waits: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __post_init__(self) -> None:
        _check_facts(self)
        of = f"plan {self.name!r}"
        ops = _in_schema(self.ops, OP_SCHEMA, OP_DEFAULTS, ("name",), f"{of}, ops")
        if ops.get_column("rank").is_sorted():
            ops = ops.with_columns(pl.col("rank").set_sorted())
        object.__setattr__(self, "ops", ops)
        waits = _in_schema(self.waits, WAIT_SCHEMA, WAIT_DEFAULTS, ("op", "on"), f"{of}, waits")
        _check_wait_rows(ops, waits, of)
        if not waits.get_column("op").is_sorted():
            waits = waits.sort("op", maintain_order=True)
        object.__setattr__(self, "waits", waits)

    @classmethod
    def of(cls, ops: Iterable[Op], *, name: str, **facts: Any) -> Plan:
        """A small plan from values written by hand; facts: the other fields of a `Plan`.

        Raises `PlanError` where two ops share an id, an op waits for an id that no op has, or a field holds another
        type than it should.
        """
        if not isinstance(ops, Iterable):
            raise PlanError(f"plan {name!r}: Plan.of takes a list of Ops, not {ops!r}.")
        op_frame, wait_frame = frames_of(tuple(ops), f"plan {name!r}")
        return cls(name=name, ops=op_frame, waits=wait_frame, **facts)

    def op(self, which: int | str) -> Op:
        """One op, by row number or id. Raises `PlanError` where there is none."""
        return ops_of(self.ops, self.waits, [row_of(self.ops, which, f"plan {self.name!r}")])[0]

    def listed(self) -> tuple[Op, ...]:
        """All ops as values, in the order of the rows; `Plan.of` of them is this plan. For small plans."""
        return tuple(ops_of(self.ops, self.waits, range(self.ops.height)))

    def rows_on(self, rank: int) -> NDArray[np.int64]:
        """The rows of a rank's ops, ascending. Raises `PlanError` where it has none."""
        return rows_on(self.ops, rank, f"plan {self.name!r}")

    def label(self, row: int) -> str:
        """What an op is called in messages: its id in quotes, else its name and where it stands."""
        return label_of(self.ops, row_of(self.ops, row, f"plan {self.name!r}"))

    def with_ops(self, **columns: pl.Expr | pl.Series | int | str | None) -> Plan:
        """The plan with columns of `ops` changed: a what-if. Times that come out as fractions are rounded. A str is the
        name of a column, as in Polars; `pl.lit` makes a constant of it.

        With `import polars as pl`, a network twice as fast is

            plan.with_ops(duration_ns=pl.when(kind="communication").then(pl.col("duration_ns") / 2)
                                        .otherwise(pl.col("duration_ns")))
        """
        try:
            changed = self.ops.with_columns(**columns)
            known = [name for name in columns if name in OP_SCHEMA]
            whole = [name for name in known if changed.schema[name].is_float() and OP_SCHEMA[name].is_integer()]
            changed = changed.with_columns(pl.col(whole).round().cast(pl.Int64))
        except (pl.exceptions.PolarsError, TypeError) as error:
            raise PlanError(f"plan {self.name!r}, its ops changed: {str(error).splitlines()[0]}") from error
        return replace(self, ops=changed)

    def __eq__(self, other: object) -> bool:
        """Same facts, same ops and waits in the same order."""
        if not isinstance(other, Plan):
            return NotImplemented
        same = all(getattr(self, fact) == getattr(other, fact) for fact in _FACTS)
        return same and self.ops.equals(other.ops) and self.waits.equals(other.waits)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.ops.height

    def __repr__(self) -> str:
        return f"Plan({self.name!r}, {len(self):,} ops, {len(self.ranks)} ranks, {len(self.resources)} streams)"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "name", self.name
        yield "ops", f"{len(self):,} on {len(self.resources):,} streams of {len(self.ranks):,} ranks"
        yield "waits", f"{self.waits.height:,}"
        yield "device", self.device_name
        if self.source:
            yield "source", self.source
        yield from (("note", note) for note in self.notes)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Streams and threads in use, by rank, then stream."""
        used = self.ops.select("rank", "stream").unique().sort("rank", "stream")
        return tuple(Resource(rank=rank, stream=stream) for rank, stream in used.iter_rows())

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks in use, ascending."""
        return tuple(self.ops.get_column("rank").unique().sort())


def need_plan(given: object) -> None:
    """Raise `PlanError` where something else stands for a plan."""
    if not isinstance(given, Plan):
        raise PlanError(f"a Plan is wanted here, not a {type(given).__name__}.")


def _check_facts(plan: Plan) -> None:
    """Raise `PlanError` where what is said of the plan is of another type; a list of notes becomes a tuple."""
    notes: object = plan.notes
    if isinstance(notes, list):
        object.__setattr__(plan, "notes", tuple(notes))
    for name, kinds in _FACTS.items():
        if type(found := getattr(plan, name)) not in kinds:
            wanted = " or ".join("None" if kind is _NONE else kind.__name__ for kind in kinds)
            raise PlanError(f"plan {plan.name!r}: {name} = {found!r}; it must be {wanted}.")
    if odd := [note for note in plan.notes if not isinstance(note, str)]:
        raise PlanError(f"plan {plan.name!r}: a note is {odd[0]!r}; notes are text.")


def _check_wait_rows(ops: pl.DataFrame, waits: pl.DataFrame, of: str) -> None:
    for column in ("op", "on") if len(waits) else ():
        if (highest := int(waits.get_column(column).to_numpy().max())) >= len(ops):
            numbered = f"its ops are numbered 0 to {len(ops) - 1:,}" if len(ops) else "it has no ops"
            raise PlanError(f"{of}: a wait has {column} = {highest:,}, but {numbered}.")


def _in_schema(
    frame: pl.DataFrame, schema: dict[str, pl.DataType], defaults: dict[str, Any], needed: tuple[str, ...], what: str
) -> pl.DataFrame:
    """The frame in the columns and types of a schema. Constant columns take no memory until they are used."""
    if not isinstance(frame, pl.DataFrame):
        raise PlanError(
            f"{what}: a Polars DataFrame is wanted here, not a {type(frame).__name__}. "
            "Plan.of([...], name=...) makes a plan of Ops written by hand."
        )
    if frame.schema == pl.Schema(schema):
        return _without_nulls(frame, defaults, needed, what)
    if unknown := [name for name in frame.columns if name not in schema]:
        raise PlanError(f"{what}: unknown column {unknown[0]!r}; the columns are {', '.join(schema)}.")
    if frame.width and (missing := [name for name in needed if name not in frame.columns]):
        raise PlanError(f"{what}: column {missing[0]!r} is missing.")
    if not frame.width:
        return pl.DataFrame(schema=schema)
    columns: list[pl.Expr] = []
    for name, dtype in schema.items():
        if name not in frame.columns:
            columns.append(pl.lit(defaults.get(name), dtype).alias(name))
        else:
            _check_type(name, frame.schema[name], dtype, what)
            columns.append(pl.col(name).cast(dtype))
    try:
        right = frame.with_columns(columns).select(*schema)
    except pl.exceptions.PolarsError as error:
        _raise_unfit(frame, schema, what)
        raise PlanError(f"{what}: {str(error).splitlines()[0]}") from error
    return _without_nulls(right, defaults, needed, what)


def _raise_unfit(frame: pl.DataFrame, schema: dict[str, pl.DataType], what: str) -> None:
    """Raise `PlanError` for the first value that its column's type cannot hold."""
    for column in frame:
        dtype = schema[column.name]
        unfit = (column.cast(dtype, strict=False).is_null() & column.is_not_null()).arg_true()
        if len(unfit):
            value = column[unfit[0]]
            rule = (
                f"one of {', '.join(dtype.categories)}" if isinstance(dtype, pl.Enum) else f"a number that fits {dtype}"
            )
            raise PlanError(
                f"{what}: {column.name} = {value!r} in row {unfit[0]:,}; it must be {rule}.{more(len(unfit))}"
            )


def _check_type(name: str, found: pl.DataType, wanted: pl.DataType, what: str) -> None:
    fits = found == wanted or found == pl.Null() or (wanted.is_integer() and found.is_integer())
    if not (fits or (not wanted.is_integer() and isinstance(found, pl.String | pl.Categorical | pl.Enum))):
        whole = " Round it: .round().cast(pl.Int64)." if found.is_float() else ""
        raise PlanError(f"{what}: column {name!r} is {found}, and should be {wanted}.{whole}")


def _without_nulls(frame: pl.DataFrame, defaults: dict[str, Any], needed: tuple[str, ...], what: str) -> pl.DataFrame:
    looked_at = frame.clone()  # a constant column takes memory in the frame in which it is looked at
    for name in (*needed, *defaults):
        if missing := looked_at.get_column(name).null_count():
            raise PlanError(f"{what}: {missing:,} {'row has' if missing == 1 else 'rows have'} no {name}.")
    return frame
