"""S of a job, its parts, and the causes in order of what their repair saves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.jobs import lanes_of
from weftrace.advice.slowdown.absent import AbsentRanks, absent_ranks, waiting_for
from weftrace.advice.slowdown.causes import found_causes
from weftrace.advice.slowdown.doubts import doubt_of
from weftrace.advice.slowdown.found import Found
from weftrace.advice.slowdown.pace import are_ranges, paced
from weftrace.advice.slowdown.replays import Replays
from weftrace.advice.slowdown.sentences import LITTLE, headline_of, sentence_of
from weftrace.advice.slowdown.slow_ranks import excess_of
from weftrace.advice.slowdown.stages import stages_of
from weftrace.analysis.job_slowdown import (
    Cause,
    JobSlowdown,
    OperationTypeRow,
    StageRow,
    WorkerRow,
)
from weftrace.analysis.waiting.cause_words import WORDS
from weftrace.analysis.waiting.idle_account import idle_account
from weftrace.errors import AdviceError
from weftrace.files.columns import frame_schema
from weftrace.plan.inference.values import Inferred
from weftrace.units import S, percent

_MOST_REPLAYED = 80_000_000  # ops that replays of each rank alone may take together
_EXACT = 16  # ranks, of more, that are replayed alone
_MOST_TYPES = 24
_WORST = 8  # ranks of which it is told what their repair saves
_SLOWEST = 0.03  # of the ranks
_NOT_THE_HOSTS = ("held", "turnaround", "launch_latency", "unknown")  # of the causes of idle time
_WORTH = 0.005  # of a step: a cause that neither saves nor adds as much is left out

_Floats = NDArray[np.float64]


def slowdown_of(inferred: Inferred) -> JobSlowdown:
    """How much slower a job is than with every operation at its peers' pace, and why.

    inferred: of `infer_job`, or of `infer_lanes_of`. By hand, after ByteDance's study of stragglers (OSDI 2025): replay
    the plan with measured durations, T, and with each at its ideal (`pace.paced`), T_ideal; S = T / T_ideal. S_w of a
    rank, S_t of a type of operation and S_s of a stage: with everything ideal but its own, over T_ideal; of more ranks
    than can be replayed, S_w is at most the lesser of that of its stage and that of the ranks at its place in all
    stages. M_w: (T - T without the slowest 3 % of ranks) / (T - T_ideal). What a cause's repair saves: T less T with
    that alone repaired.

    Raises `AdviceError` of fewer than two ranks, of ranks that do not communicate, and where nothing ran.
    """
    if len(inferred.works) < 2:
        raise AdviceError("one rank has no peers to compare its pace with: give the files of several ranks.")
    if not inferred.names:
        inferred = lanes_of(inferred.works, notes=inferred.notes)
    if inferred.plan.ops.get_column("meet").null_count() == inferred.plan.ops.height and not _are_linked(inferred):
        raise AdviceError("no rank here communicates with another, as far as their files tell: they make no one job.")
    stages, known = stages_of(inferred)
    absent = absent_ranks(inferred)
    ops = paced(inferred, stages, absent.is_open)
    if not (ops.get_column("pace") != "fixed").any():
        raise AdviceError("nothing ran that could be at its peers' pace.")
    return _Answer(inferred, ops, stages, known, absent).value()


def _are_linked(inferred: Inferred) -> bool:
    """Whether an op of some rank waits for another rank's."""
    at = inferred.measured.get_column("at").to_numpy()
    told = (inferred.edges.get_column("source").cast(pl.String) != "origin").to_numpy()
    op, on = (inferred.plan.waits.get_column(name).to_numpy()[told] for name in ("op", "on"))
    return bool((at[op] != at[on]).any())


class _Answer:
    """The replays that one answer needs, each made once."""

    def __init__(
        self, inferred: Inferred, ops: pl.DataFrame, stages: Sequence[int], are_stages_known: bool, absent: AbsentRanks
    ) -> None:
        self.inferred, self.ops, self.stages, self.known = inferred, ops, list(stages), are_stages_known
        self.absent = absent
        self.replays = Replays.of(inferred, ops.get_column("step"))
        self.measured_durations = ops.get_column("duration_ns").to_numpy()
        self.ideal_durations = ops.get_column("ideal_ns").to_numpy()
        self.at = ops.get_column("at").to_numpy()
        self.steps = self.replays.step_ns(self.measured_durations)
        self.ideal_steps = self.replays.step_ns(self.ideal_durations)
        self.num_steps = len(self.steps)
        self.replayed, self.ideal = float(self.steps.mean()), max(1.0, float(self.ideal_steps.mean()))
        self.names = list(inferred.names) or [f"rank {rank}" for rank in inferred.plan.ranks]

    def value(self) -> JobSlowdown:
        measured = self.replays.between(
            *(self.inferred.measured.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        )
        is_host = (self.ops.get_column("pace") == "host").to_numpy()
        bare, bare_ideal = (
            self._mean(np.where(is_host, 0, values)) for values in (self.measured_durations, self.ideal_durations)
        )
        workers, origin = self._workers()
        num_worst, worst_share = self._worst(workers)
        causes = self._causes()
        slowdown = self.replayed / self.ideal
        doubt = doubt_of(
            self.inferred, self.absent, slowdown=slowdown, error=abs(self.replayed / max(1.0, measured.mean()) - 1)
        )
        lost = (self.replayed - self.ideal) * self.num_steps * len(self.names)
        return JobSlowdown(
            headline=headline_of(causes, slowdown, doubt, self.absent.clause),
            absent=self.absent.clause,
            num_ranks=len(self.names),
            num_steps=self.num_steps,
            measured_ns=round(measured.mean()),
            replayed_ns=round(self.replayed),
            ideal_ns=round(self.ideal),
            slowdown=slowdown,
            without_hosts=bare / max(1.0, bare_ideal),
            is_trusted=not doubt,
            lost_gpu_hours=max(0.0, lost) / (3600 * S),
            worst_share=worst_share,
            num_worst=num_worst,
            causes=causes,
            workers=workers,
            types=self._types(),
            stages=self._stages(),
            steps=self._steps(measured),
            origin_ns=origin,
            notes=self.inferred.notes,
        )

    def _mean(self, durations: _Floats) -> float:
        return float(self.replays.step_ns(durations).mean())

    def _only(self, each: Iterable[NDArray[np.bool_]]) -> list[_Floats]:
        """Steps with all ideal but these ops, for each of several choices of ops."""
        return self.replays.each_step_ns(np.where(mine, self.measured_durations, self.ideal_durations) for mine in each)

    def _of_ranks(self, choices: Iterable[NDArray[np.bool_]]) -> list[_Floats]:
        """The same of ranks: choices of positions."""
        return self._only(chosen[self.at] for chosen in choices)

    # --- whose ---

    def _workers(self) -> tuple[pl.DataFrame, tuple[tuple[int, ...], ...]]:
        number = len(self.names)
        seen = excess_of(self.ops)
        of_rank = dict(zip(seen.ats.tolist(), (1 + seen.means()).tolist(), strict=True)) if len(seen.ats) else {}
        slowdowns, bounds = np.ones(number), np.zeros(number, bool)
        origin: dict[int, tuple[int, ...]] = {}
        every = number * len(self.ops) <= _MOST_REPLAYED
        order: Sequence[int] = range(number)
        if not every:
            slowdowns, bounds = self._bounds(), np.ones(number, bool)
            order = np.argsort(-slowdowns, kind="stable")[:_EXACT].tolist()
        for at, steps in zip(order, self._only(self.at == at for at in order), strict=True):
            slowdowns[at], bounds[at] = steps.mean() / self.ideal, False
            origin[at] = tuple(np.rint(np.maximum(steps - self.ideal_steps, 0)).astype(np.int64).tolist())
        rows = {
            "rank": [int(rank) for rank in self._numbers()],
            "name": self.names,
            "stage": self.stages if self.known else [None] * number,
            "slowdown": slowdowns.tolist(),
            "is_bound": bounds.tolist(),
            "compute_ratio": [of_rank.get(at, 1.0) for at in range(number)],
            "saved_ns": self._saved_by_rank(slowdowns),
        }
        return (
            pl.DataFrame(rows, schema=frame_schema(WorkerRow)),
            tuple(origin[at] for at in range(number)) if every else (),
        )

    def _saved_by_rank(self, slowdowns: _Floats) -> list[int | None]:
        """What each of the worst alone saves at its peers' pace."""
        worst = np.argsort(-slowdowns, kind="stable")[:_WORST]
        saved: list[int | None] = [None] * len(slowdowns)
        for at, ns in zip(worst.tolist(), self._saved(self.at == at for at in worst), strict=True):
            saved[at] = ns
        return saved

    def _saved(self, each: Iterable[NDArray[np.bool_]]) -> list[int]:
        """By how much a step is shorter with these ops alone at their peers' pace, for each of several choices."""
        repaired = (np.where(mine, self.ideal_durations, self.measured_durations) for mine in each)
        return [round(self.replayed - float(steps.mean())) for steps in self.replays.each_step_ns(repaired)]

    def _numbers(self) -> list[int]:
        rows = pl.DataFrame({"at": self.at}).hstack(self.inferred.plan.ops.select("rank")).unique()
        of_ops = dict(rows.iter_rows())  # a rank may have none: nothing there lasts long enough
        named = (work.trace.rank for work in self.inferred.works)
        return [of_ops.get(at, at if rank is None else rank) for at, rank in enumerate(named)]

    def _bounds(self) -> _Floats:
        """Of each rank the lesser S of its stage and of the ranks at its place in all stages."""
        place = pl.DataFrame({"stage": self.stages}).select(pl.int_range(pl.len()).over("stage")).to_series().to_numpy()
        stage = np.array(self.stages)
        stages, places = np.unique(stage), np.unique(place)
        of_stage = np.array([one.mean() for one in self._of_ranks(stage == each for each in stages)])
        of_place = np.array([one.mean() for one in self._of_ranks(place == each for each in places)])
        least: _Floats = np.minimum(of_stage[np.searchsorted(stages, stage)], of_place[np.searchsorted(places, place)])
        return least / self.ideal

    def _worst(self, workers: pl.DataFrame) -> tuple[int, float | None]:
        number = max(1, round(_SLOWEST * len(self.names)))
        worst = np.argsort(-workers.get_column("slowdown").to_numpy(), kind="stable")[:number]
        if self.replayed - self.ideal < _WORTH * self.ideal:
            return number, None
        without = self._mean(np.where(np.isin(self.at, worst), self.ideal_durations, self.measured_durations))
        return number, float(np.clip((self.replayed - without) / (self.replayed - self.ideal), 0, 1))

    def _types(self) -> pl.DataFrame:
        moving = self.ops.filter(pl.col("pace") != "fixed")
        sums = moving.group_by("type", pl.col("pace").cast(pl.String)).agg(pl.col("duration_ns").sum())
        sums = sums.sort("duration_ns", "type", descending=[True, False]).head(_MOST_TYPES)
        types, paces = self.ops.get_column("type"), self.ops.get_column("pace").cast(pl.String)
        shown = sums.select("type", pl.col("pace").cast(pl.String)).rows()
        mine = (((types == name) & (paces == pace)).fill_null(False).to_numpy() for name, pace in shown)
        per_rank = (sums.get_column("duration_ns") / (self.num_steps * len(self.names))).round().cast(pl.Int64)
        rows = [
            (*names, steps.mean() / self.ideal, time)
            for names, steps, time in zip(shown, self._only(mine), per_rank, strict=True)
        ]
        columns = ("type", "pace", "slowdown", "time_ns")
        schema = {name: frame_schema(OperationTypeRow)[name] for name in columns}
        return pl.DataFrame(rows, schema=schema, orient="row").sort("slowdown", "type", descending=[True, False])

    def _stages(self) -> pl.DataFrame:
        schema = frame_schema(StageRow)
        if not self.known:
            return pl.DataFrame(schema=schema)
        compute = self.ops.filter(pl.col("pace") == "compute")
        by_rank = compute.group_by("stage", "at").agg(pl.col("duration_ns").sum())
        sums = by_rank.group_by("stage").agg(pl.col("duration_ns").mean()).sort("stage")
        ratios = (sums.get_column("duration_ns") / (sums.get_column("duration_ns").mean() or 1)).to_list()
        stage = np.array(self.stages)
        numbers = sums.get_column("stage").to_list()
        alone = self._of_ranks(stage == each for each in numbers)
        saved = self._saved((stage == each)[self.at] for each in numbers)
        rows = [
            (each, steps.mean() / self.ideal, ratio, ns)
            for each, ratio, steps, ns in zip(numbers, ratios, alone, saved, strict=True)
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _steps(self, measured: _Floats) -> pl.DataFrame:
        columns = (measured, self.steps, self.ideal_steps)
        names = [None if step < 0 else step for step in self.replays.steps]
        data = {"step": names, **dict(zip(("measured_ns", "replayed_ns", "ideal_ns"), columns, strict=True))}
        frame = pl.DataFrame(data, schema_overrides={"step": pl.Int64})
        return frame.with_columns(pl.exclude("step").round().cast(pl.Int64))

    # --- why ---

    def _causes(self) -> tuple[Cause, ...]:
        found = found_causes(self.ops, is_pipeline=self.known, are_ranges=are_ranges(self.inferred))
        found = [self._with_gaps(each) for each in found] + list(waiting_for(self.absent, self.ops))
        weighed = [self._weighed(each) for each in found]
        weighed = [cause for cause in weighed if max(cause.saved_ns, cause.alone_ns) >= _WORTH * self.replayed]
        if self.absent.clause:  # what hosts seem to wait for may be absent ranks
            of_hosts = ("late host",) if are_ranges(self.inferred) else ("late host", "garbage collection")
            weighed = [cause for cause in weighed if cause.kind not in of_hosts]
        weighed.sort(key=lambda cause: (cause.share < LITTLE - 1, -(cause.saved_ns + cause.alone_ns)))
        left = self._left(found)
        if left.saved_ns >= 2 * _WORTH * self.replayed:
            weighed.append(left)
        return tuple(weighed)

    def _with_gaps(self, found: Found) -> Found:
        """A late host with what its device waited for, where that was recorded."""
        if found.kind != "late host" or not found.ranks or are_ranges(self.inferred):
            return found
        causes = idle_account(self.inferred.works[found.ranks[0]]).causes
        host = causes.filter(~pl.col("cause").is_in(_NOT_THE_HOSTS))
        if host.is_empty():
            return found
        cause, name = host.select("cause", "name").row(0)
        where = f" in {name}" if name else ""
        return replace(found, evidence=f"{found.evidence}; its device waited most for {WORDS[cause]}{where}")

    def _weighed(self, found: Found) -> Cause:
        saved = self.replayed - self._mean(found.repaired_ns)
        alone = self._mean(self.ideal_durations + self.measured_durations - found.repaired_ns) - self.ideal
        each = tuple(round(self.replayed - self._mean(one)) for one in found.each)
        numbers = self._numbers()
        return Cause(
            kind=found.kind,
            ranks=tuple(numbers[at] for at in found.ranks),
            stages=found.stages,
            saved_ns=round(saved),
            share=saved / self.replayed if self.replayed else 0.0,
            alone_ns=round(alone),
            saved_each_ns=each,
            first_step=found.first_step,
            evidence=found.evidence,
            sentence=sentence_of(
                found,
                [self.names[at] for at in found.ranks],
                saved,
                saved / self.replayed,
                each,
                alone / self.ideal,
                self.names,
            ),
        )

    def _left(self, found: Sequence[Found]) -> Cause:
        """What is left of the slowdown when all causes are repaired."""
        durations = self.measured_durations.copy()
        for each in found:
            durations -= self.measured_durations - each.repaired_ns
        left = self._mean(np.maximum(durations, 0)) - self.ideal
        share = left / self.replayed
        return Cause(
            kind="spread", ranks=(), stages=(), saved_ns=round(left), share=share, alone_ns=round(left),
            saved_each_ns=(), first_step=None, evidence="what is left with all other causes repaired",
            sentence=f"Single operations that differ without a pattern take {percent(share)} of the job's time.",
        )  # fmt: skip
