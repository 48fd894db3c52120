"""What a plain Chrome trace was taken for: whose each event is, what it does, and how all that was inferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl

#: Places in a job, the slowest to change first where ranks are numbered; and what they are called.
PLACES = {"pp": "PP", "ep": "EP", "dp": "DP", "cp": "CP", "tp": "TP"}
SHOWN = ("dp", "pp", "cp", "ep", "tp")  # in a name: "DP 0 PP 3"

#: Columns of `Plain.rows`, a row an event of the trace. Null worker: the event is of none, and is left out.
PLAIN_SCHEMA: dict[str, pl.DataType] = {
    "worker": pl.Int32(),  # in Plain.workers
    "stream": pl.Int64(),  # which thread of the worker's
    "shift_ns": pl.Int64(),  # added to its times, where steps are laid one after another
    "step": pl.Int64(),
    "micro_batch": pl.Int32(),
    "chunk": pl.Int32(),
    "phase": pl.String(),  # its name without the numbers that the other columns hold
    "kind": pl.String(),  # the class of its name, as in WORK_SCHEMA
    "family": pl.String(),
    "collective": pl.String(),
    "role": pl.String(),
    "rule": pl.String(),
    "group": pl.String(),  # who takes part in a communication, in words
    "group_size": pl.Int32(),  # ranks of it; null where they are in other files
    "comm_seq": pl.Int64(),  # which communication of its group it is
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One rank of the job. places: its coordinates that the file tells, ("pp", 3) and so on."""

    rank: int | None
    name: str
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plain:
    """A file of ranges that no profiler of devices wrote, read as a job.

    rows: a frame of `PLAIN_SCHEMA`, a row an event of `Trace.events`. notes: what was inferred, and from what.
    moved: whether times were changed, so that steps follow one another. step_shifts: of each step what was added to its
    times, where the events of `Trace.events` are those of one rank and moved already (`workers_of`).
    """

    workers: tuple[Worker, ...]
    rows: pl.DataFrame
    notes: tuple[str, ...] = ()
    moved: bool = False
    step_shifts: Mapping[int, int] = field(default_factory=dict)

    def of_ranks(self, ranks: frozenset[int]) -> Plain:
        """Only these ranks; the events of the others are of none."""
        kept = {at: new for new, at in enumerate(at for at, w in enumerate(self.workers) if w.rank in ranks)}
        worker = pl.col("worker").replace_strict(kept, default=None, return_dtype=pl.Int32)
        return replace(self, workers=tuple(self.workers[at] for at in kept), rows=self.rows.with_columns(worker))
