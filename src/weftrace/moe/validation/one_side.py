"""What does a run, simulated or measured, tell of its phases? Per rank and step, in a form that two runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from weftrace.analysis.phase_times import phases
from weftrace.analysis.time_account import account_of
from weftrace.errors import TraceError
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, works_of

#: A row a phase as one layer of one step of a rank ran it. Times in ns.
SAMPLE_SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "step": pl.Int64(),  # null outside of steps
    "phase": pl.String(),
    "micro_batch": pl.Int32(),  # null where nothing tells
    "layer": pl.Int32(),
    "lane": pl.String(),
    "start_ns": pl.Int64(),  # since the rank's first start
    "busy_ns": pl.Int64(),  # |the events that it launched|, the union over streams
    "data_ns": pl.Int64(),  # |those that move data to other ranks|
    "exposed_ns": pl.Int64(),  # |its communication without computation beside it|
}

#: A row a rank and step: |X| as in `Breakdown`, of what the step launched; all of the rank where it has no steps.
TOTAL_SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "step": pl.Int64(),
    "span_ns": pl.Int64(),
    "compute_ns": pl.Int64(),
    "communication_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneSide:
    """One of two runs.

    samples: frame of `SAMPLE_SCHEMA`. totals: of `TOTAL_SCHEMA`. simulated: whether weftrace made the traces.
    bases: what stands for work: device, host, ranges. info: how it was made, as its first trace tells. failures: files
    that could not be used.
    """

    source: str
    samples: pl.DataFrame
    totals: pl.DataFrame
    simulated: bool
    bases: tuple[str, ...]
    info: Mapping[str, str]
    failures: tuple[str, ...] = ()

    @property
    def num_ranks(self) -> int:
        return int(self.totals.get_column("rank").n_unique())

    @property
    def num_steps(self) -> int:
        return int(self.totals.get_column("step").n_unique())

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches that the phases tell; 1 where they tell none."""
        return max(1, self.samples.get_column("micro_batch").drop_nulls().n_unique())

    @property
    def num_layers(self) -> int:
        """Layers of a step: how often its commonest phase ran, of one micro-batch; the median over ranks and steps."""
        keys = ("rank", "step")
        counts = self.samples.group_by(*keys, "phase", "micro_batch").len().group_by(keys).agg(pl.max("len"))
        return int(counts.get_column("len").median() or 0)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Part:
    """What travels from where a file was read."""

    rank: int | None
    simulated: bool
    basis: str
    info: dict[str, str]
    samples: pl.DataFrame
    totals: pl.DataFrame


def side_of(source: Trace | Job, *, workers: int | None = None) -> OneSide:
    """What traces tell of their phases; a trace without phases has totals alone.

    workers: processes that read them, as `Job.map` has it. Raises `TraceError` where none can be used.
    """
    failures: list[str] = []
    if isinstance(source, Trace):
        found, name = _parts(source), source.path
    else:
        found, name = [], source.source
        for outcome in source.map(_parts, workers=workers):
            found += outcome.value or []
            failures += [outcome.failure.error] if outcome.failure is not None else []
    if not any(part.totals.height for part in found):
        summary = f" {failures[0]}" if failures else ""
        raise TraceError(f"{name or 'the trace'}: it holds no work with a time to compare.{summary}")
    ranks = _numbered([part.rank for part in found])
    return OneSide(
        source=name or "in memory",
        samples=pl.concat(p.samples.with_columns(rank=pl.lit(r, pl.Int64)) for p, r in zip(found, ranks, strict=True)),
        totals=pl.concat(p.totals.with_columns(rank=pl.lit(r, pl.Int64)) for p, r in zip(found, ranks, strict=True)),
        simulated=all(part.simulated for part in found),
        bases=tuple(dict.fromkeys(part.basis for part in found)),
        info=found[0].info,
        failures=tuple(failures),
    )


def _numbered(ranks: Sequence[int | None]) -> list[int]:
    """Ranks as the traces tell them; numbered from 0 where one does not tell, or two tell the same."""
    summary = [rank for rank in ranks if rank is not None]
    return summary if len(set(summary)) == len(ranks) else list(range(len(ranks)))


def _parts(trace: Trace) -> list[_Part]:
    """Of each device, or each rank, of a file."""
    works = [work for work in works_of(trace) if not work.events.is_empty()]
    return [
        _Part(
            work.trace.rank if len(works) == 1 or trace.plain is not None else None,
            trace.simulated, work.basis, dict(trace.info), _samples(work), _totals(work),
        )
        for work in works
    ]  # fmt: skip


def _samples(work: Work) -> pl.DataFrame:
    """A phase that was launched in several ranges of one layer (a transfer's issue and its receipt) is one sample."""
    table = phases(work)
    counted = pl.int_range(pl.len()).over("phase", "micro_batch", "step")
    key = ("step", "phase", "micro_batch", "layer")
    first_ns = work.start_ns
    return (
        table.sort("start_ns", "phase")
        .drop("phase")
        .rename({"name": "phase"})
        .with_columns(layer=pl.coalesce(pl.col("layer"), counted), rank=pl.lit(0, pl.Int64))
        .group_by("rank", *key, maintain_order=True)
        .agg(
            pl.col("lane").sort_by("busy_ns").last(), start_ns=pl.col("start_ns").min() - first_ns,
            busy_ns=pl.sum("busy_ns"), data_ns=pl.sum("data_ns"), exposed_ns=pl.sum("exposed_ns"),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in SAMPLE_SCHEMA.items())
    )  # fmt: skip


def _totals(work: Work) -> pl.DataFrame:
    parts: list[tuple[int | None, Work]] = [(step, work.of_step(step, by="launch")) for step in work.steps]
    parts = parts or [(None, work)]
    rows = []
    for step, part in parts:
        summary = account_of(part).breakdown
        rows.append(
            (0, step, summary.span_ns, summary.compute_ns, summary.communication_ns, summary.exposed_communication_ns)
        )
    return pl.DataFrame(rows, schema=TOTAL_SCHEMA, orient="row")
