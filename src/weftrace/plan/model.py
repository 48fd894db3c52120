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

import polars as pl

from weftrace.errors import PlanError
from weftrace.notebook import InNotebook
from weftrace.plan.ops import OP_DEFAULTS, OP_SCHEMA, WAIT_DEFAULTS, WAIT_SCHEMA, Op, Resource
from weftrace.plan.rows import frames_of, label_of, ops_of, row_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan(InNotebook):
    """Ops in the order in which they are issued, what they wait for, and what they run on.

    ops: frame with the columns of `OP_SCHEMA`, a row an op, which its row number stands for. On one stream the order of
        the rows is the order of execution. Columns that are left out hold their default; integers of other widths, text
        for what is categorical and missing columns are put right here. Consecutive ops of a rank that share phase,
        layer and micro-batch are launched inside one host range.
    waits: frame with the columns of `WAIT_SCHEMA`, kept in the order of `op`; those of one op stay as they stood.
    gap_ns: device idle time between two kernels, back to back on one stream; 0 for an ideal device.
    num_sms, device_name: of every rank's device, where known.
    world_size: ranks in the job, which may be more than the plan shows; None for the highest rank here plus one.
    source: where the durations and the order come from. notes: what to know before trusting the result.

    Raises `PlanError` for columns that are unknown, of another type, or null where they may not be.
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
        of = f"plan {self.name!r}"
        ops = _in_schema(self.ops, OP_SCHEMA, OP_DEFAULTS, ("name",), f"{of}, ops")
        if (ranks := ops.get_column("rank")).is_sorted():  # said once, so that a rank's rows are found by bisection
            ops = ops.with_columns(ranks.set_sorted())
        object.__setattr__(self, "ops", ops)
        waits = _in_schema(self.waits, WAIT_SCHEMA, WAIT_DEFAULTS, (), f"{of}, waits")
        if not waits.get_column("op").is_sorted():
            waits = waits.sort("op", maintain_order=True)
        object.__setattr__(self, "waits", waits)

    @classmethod
    def of(cls, ops: Iterable[Op], *, name: str, **facts: Any) -> Plan:
        """A small plan from values written by hand; facts: the other fields of a `Plan`.

        Raises `PlanError` where two ops share an id, an op waits for an id that no op has, or a field holds another
        type than it should.
        """
        op_frame, wait_frame = frames_of(tuple(ops), f"plan {name!r}")
        return cls(name=name, ops=op_frame, waits=wait_frame, **facts)

    def op(self, which: int | str) -> Op:
        """One op, by row number or id. Raises `PlanError` where there is none."""
        return ops_of(self.ops, self.waits, [row_of(self.ops, which, f"plan {self.name!r}")])[0]

    def listed(self) -> tuple[Op, ...]:
        """All ops as values, in the order of the rows; `Plan.of` of them is this plan. For small plans."""
        return tuple(ops_of(self.ops, self.waits, range(self.ops.height)))

    def label(self, row: int) -> str:
        """What an op is called in messages: its id in quotes, else its name and where it stands."""
        return label_of(self.ops, row)

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
        except pl.exceptions.PolarsError as error:
            raise PlanError(f"plan {self.name!r}, its ops changed: {str(error).splitlines()[0]}") from error
        return replace(self, ops=changed)

    def __eq__(self, other: object) -> bool:
        """Same facts, same ops and waits in the same order."""
        if not isinstance(other, Plan):
            return NotImplemented
        facts = ("name", "source", "notes", "device_name", "num_sms", "world_size", "gap_ns")
        same = all(getattr(self, fact) == getattr(other, fact) for fact in facts)
        return same and self.ops.equals(other.ops) and self.waits.equals(other.waits)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.ops.height

    def __repr__(self) -> str:
        return f"Plan({self.name!r}, {len(self):,} ops, {len(self.ranks)} ranks, {len(self.resources)} streams)"

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "name", self.name
        yield "ops", f"{len(self):,} on {len(self.resources):,} streams of {len(self.ranks):,} ranks"
        yield "waits", f"{self.waits.height:,}"
        yield "device", self.device_name
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


def _in_schema(
    frame: pl.DataFrame, schema: dict[str, pl.DataType], defaults: dict[str, Any], needed: tuple[str, ...], what: str
) -> pl.DataFrame:
    """The frame in the columns and types of a schema. Constant columns take no memory until they are used."""
    if frame.schema == pl.Schema(schema):
        return _without_nulls(frame, schema, defaults, needed, what)
    if unknown := [name for name in frame.columns if name not in schema]:
        raise PlanError(f"{what}: unknown column {unknown[0]!r}; the columns are {', '.join(schema)}.")
    if frame.width and (missing := [name for name in needed if name not in frame.columns]):
        raise PlanError(f"{what}: column {missing[0]!r} is missing.")
    columns: list[pl.Expr] = []
    for name, dtype in schema.items():
        if name not in frame.columns:
            columns.append(pl.lit(defaults.get(name), dtype).alias(name))
        else:
            _check_type(name, frame.schema[name], dtype, what)
            columns.append(pl.col(name).cast(dtype))
    try:
        right = frame.with_columns(columns).select(*schema) if frame.width else pl.DataFrame(schema=schema)
    except pl.exceptions.PolarsError as error:
        raise PlanError(f"{what}: {str(error).splitlines()[0]}") from error
    return _without_nulls(right, schema, defaults, needed, what)


def _check_type(name: str, found: pl.DataType, wanted: pl.DataType, what: str) -> None:
    fits = found == wanted or found == pl.Null() or (wanted.is_integer() and found.is_integer())
    if not (fits or (not wanted.is_integer() and isinstance(found, pl.String | pl.Categorical | pl.Enum))):
        whole = " Round it: .round().cast(pl.Int64)." if found.is_float() else ""
        raise PlanError(f"{what}: column {name!r} is {found}, and should be {wanted}.{whole}")


def _without_nulls(
    frame: pl.DataFrame, schema: dict[str, pl.DataType], defaults: dict[str, Any], needed: tuple[str, ...], what: str
) -> pl.DataFrame:
    never = [name for name in schema if name in defaults or name in needed or name in ("op", "on")]
    for name in never:
        if missing := frame.get_column(name).null_count():
            raise PlanError(f"{what}: {missing:,} rows have no {name}.")
    return frame
