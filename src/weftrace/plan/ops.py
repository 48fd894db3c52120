"""Op, Wait and Resource: how a small plan is written by hand and a row of a large one is looked at; and the columns
that they are in a `Plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import polars as pl

from weftrace.notebook import InNotebook

Kind = Literal["compute", "communication", "memory", "host", "fused"]  # fused: computes and communicates in one
Since = Literal["end", "start"]
Why = Literal["data", "launch", "sm", "host", "vote"]
KINDS: tuple[str, ...] = get_args(Kind)

#: Columns of `Plan.ops`, one row an op. What a column holds where nothing is given is beside it; None is null.
OP_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),  # a label for people, unique where there is one
    "name": pl.Categorical(),  # what runs, for kernel tables: many ops may share it
    "phase": pl.Categorical(),  # the host range that the op is launched in
    "kind": pl.Enum(KINDS),
    "rank": pl.Int32(),
    "stream": pl.Int32(),  # of a device, or the number of a host thread where kind is host
    "duration_ns": pl.Int64(),
    "num_kernels": pl.Int32(),  # equal kernels back to back
    "num_sms": pl.Int32(),  # SMs that each kernel holds
    "meet": pl.Int32(),  # ops with the same number happen together
    "layer": pl.Int32(),  # which repetition of the phase this is
    "micro_batch": pl.Int32(),
    "step": pl.Int32(),
    "start_bytes": pl.Int64(),  # memory taken on the rank when the op starts, negative where it frees
    "end_bytes": pl.Int64(),  # the same when it ends
}
OP_DEFAULTS: dict[str, Any] = {
    "kind": "compute", "rank": 0, "stream": 0, "duration_ns": 0, "num_kernels": 1, "start_bytes": 0, "end_bytes": 0,
}  # fmt: skip

#: Columns of `Plan.waits`, one row a wait. op and on are row numbers of `Plan.ops`.
WAIT_SCHEMA: dict[str, pl.DataType] = {
    "op": pl.UInt32(),  # what waits
    "on": pl.UInt32(),  # what it waits for
    "since": pl.Enum(get_args(Since)),  # whether it waits for the other's end or its start
    "lag_ns": pl.Int64(),  # time that must have passed since; negative: how much earlier it may start
    "why": pl.Enum(get_args(Why)),
}
WAIT_DEFAULTS: dict[str, Any] = {"since": "end", "lag_ns": 0, "why": "data"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Resource(InNotebook):
    """One stream of one rank, or one thread of its host: it runs one op at a time, in the order of the plan."""

    rank: int = 0
    stream: int = 0

    def __str__(self) -> str:
        return f"rank {self.rank}, stream {self.stream}"


@dataclass(frozen=True, slots=True)
class Wait(InNotebook):
    """An op may start once `lag_ns` have passed since the end, or the start, of another.

    on: the other's id, or its row number. lag_ns: nanoseconds, a network's latency say; negative where the op may start
    that much before, as one that needs its input late. why: "data", it uses the result; "launch", the other is the host
    call that launches it; "sm", it found no free SMs before; "host", a host call that blocks until then; "vote",
    inferred from repeats.
    """

    on: str | int
    since: Since = "end"
    lag_ns: int = 0
    why: Why = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(InNotebook):
    """One piece of work on one stream: a row of `Plan.ops`, with its waits.

    id: unique in the plan where given. Other ops name it in their `after`, and errors name it too.
    name: what runs, for kernel tables: many ops may share it.
    duration_ns: time its kernels run, integer nanoseconds, 0 or more.
    kind: "host" for what runs on a host thread: a launch, a call that blocks. The ops of a stream all are, or none is.
    num_kernels: the op is this many equal kernels back to back; the stream idles `Plan.gap_ns` between them, so the
        op holds its stream for `duration_ns + (num_kernels - 1) * gap_ns`.
    after: what the op waits for: ids or row numbers of ops that must have ended before this one starts, or a `Wait`
        that says more.
    num_sms: SMs that each kernel holds; None where it is not known or holds none.
    meet: a number shared by ops, of several ranks as a rule, that happen together (a collective, a barrier, a blocking
        send and its receive): each starts when it can, and all end at the last start plus their own duration.
    phase: name of the host range that the op is launched in, such as "dispatch(F)"; None for no range.
    layer, micro_batch, step: which repetition of the phase this is.
    start_bytes, end_bytes: how the memory held on the rank changes when the op starts, and when it ends.
    """

    id: str | None = None
    name: str
    duration_ns: int
    resource: Resource = Resource()
    kind: Kind = "compute"
    after: tuple[str | int | Wait, ...] = ()
    num_sms: int | None = None
    num_kernels: int = 1
    meet: int | None = None
    phase: str | None = None
    layer: int | None = None
    micro_batch: int | None = None
    step: int | None = None
    start_bytes: int = 0
    end_bytes: int = 0
