"""What rules look at, each computed once and only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar, cast

import polars as pl

from weftrace.advice.critical_paths import CriticalPath, critical_path_of
from weftrace.advice.findings.frameworks import frameworks_of
from weftrace.advice.jobs import infer_work
from weftrace.analysis.efficiency import Efficiency
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.rank import Analysis, RankAnalysis, analyze_rank
from weftrace.analysis.step_times import Step
from weftrace.analysis.waiting.idle_account import IdleAccount
from weftrace.analysis.waiting.idle_pieces import IdlePieces, idle_pieces
from weftrace.errors import WeftraceError
from weftrace.facts import Hardware, hardware_of_device
from weftrace.plan.inference.values import Inferred
from weftrace.trace.model import Trace
from weftrace.trace.work import Work
from weftrace.units import duration

_T = TypeVar("_T")

#: Operators that a training has and an inference has not.
_BACKWARD = r"^autograd::engine::|Backward|^Optimizer\."


@dataclass(kw_only=True, eq=False)
class Evidence:
    """One device's work, and all that is known of it. `work` is of the whole recording, never of a part."""

    work: Work
    given: RankAnalysis | None = None
    asked_hardware: Hardware | None = None

    def __post_init__(self) -> None:
        self._known: dict[Callable[[Evidence], object], object] = {}

    @property
    def trace(self) -> Trace:
        return self.work.trace

    @cached_property
    def analysis(self) -> RankAnalysis:
        """Every analysis of the device, as reports have it."""
        return self.given or analyze_rank(self.work, hardware=self.asked_hardware)

    @cached_property
    def inferred(self) -> Inferred:
        """The plan that the device followed."""
        return infer_work(self.work)

    @cached_property
    def path(self) -> CriticalPath:
        """What decided the span."""
        return critical_path_of(self.inferred)

    @property
    def idle(self) -> IdleAccount:
        """Why the device waited, by cause. Its parts and causes each add up to the idle time."""
        return self.analysis.idle_account

    @cached_property
    def idle_pieces(self) -> IdlePieces:
        """The same, piece by piece."""
        return idle_pieces(self.work)

    @property
    def efficiency(self) -> Efficiency | None:
        """FLOPs, bytes and rates by shape; None where no operators are recorded."""
        return self.analysis.efficiency

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """`weftrace.analysis.rank_tables`: blocking_calls, copies, host_operators, engine_steps …; empty ones left
        out."""
        return self.analysis.tables

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.analysis.steps

    @property
    def span_ns(self) -> int:
        """First start to last end on the device."""
        return self.work.end_ns - self.work.start_ns

    @cached_property
    def num_steps(self) -> int:
        """Profiler steps that launched work, else steps of a serving engine, else 0."""
        if self.steps:
            return len(self.steps)
        engine = self.tables.get("engine_steps")
        return 0 if engine is None else engine.height

    @property
    def step_ns(self) -> int:
        return self.span_ns // max(1, self.num_steps)

    @cached_property
    def hardware(self) -> Hardware | None:
        """The accelerator, where the trace names one that is known, or the user did."""
        if self.asked_hardware is not None or self.work.device is None:
            return self.asked_hardware
        device = self.trace.device(self.work.device)
        try:
            return hardware_of_device(device.name, device.num_sms, device.memory_bytes)[0]
        except WeftraceError:
            return None

    @cached_property
    def frameworks(self) -> tuple[str, ...]:
        """What the trace shows, the most specific first; "pytorch" is always last."""
        return frameworks_of(self.trace)

    @cached_property
    def is_training(self) -> bool:
        """Whether anything of a backward or an optimizer is recorded."""
        names = self.trace.events.get_column("name").unique().cast(pl.String)
        return bool(names.str.contains(_BACKWARD).any())

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """`Work.events` with `dur_ns`, `at` (its position there), and `operator`: row of the innermost operator that
        launched it, in the trace's events; null where none is recorded."""
        events = self.work.events
        return events.with_row_index("at").with_columns(
            (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"), operator_rows(self.trace.events, events)
        )

    def once(self, look: Callable[[Evidence], _T]) -> _T:
        """What several rules look at, by a function of theirs, called once."""
        if look not in self._known:
            self._known[look] = look(self)
        return cast(_T, self._known[look])

    def share(self, time_ns: float) -> float:
        """Of the span."""
        return time_ns / self.span_ns if self.span_ns else 0.0

    def per_step(self, time_ns: float) -> int:
        return round(time_ns / max(1, self.num_steps))

    def time(self, time_ns: float) -> str:
        """ "8.1 ms per step"; of the recording "8.1 ms" where no steps are known."""
        return f"{duration(self.per_step(time_ns))}{' per step' * bool(self.num_steps)}"


@dataclass(kw_only=True, eq=False)
class JobEvidence:
    """A job of several ranks: the ranks' analyses, put together. `inferred` is their joined plan, None where it was too
    large, or no plan could be made. works: of the ranks, where they were kept; empty elsewhere."""

    analysis: Analysis
    inferred: Inferred | None = None
    slowdown: JobSlowdown | None = None
    works: Sequence[Work] = ()
    frameworks: tuple[str, ...] = ("pytorch",)
    num_steps: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ranks(self) -> tuple[RankAnalysis, ...]:
        """Those that are in sums."""
        return tuple(rank for rank in self.analysis.ranks if rank.apart is None)

    @cached_property
    def path(self) -> CriticalPath | None:
        return None if self.inferred is None else critical_path_of(self.inferred)

    @property
    def span_ns(self) -> int:
        return max((rank.breakdown.span_ns for rank in self.ranks), default=0)

    @property
    def step_ns(self) -> int:
        return self.span_ns // max(1, self.num_steps)

    def share(self, time_ns: float) -> float:
        return time_ns / self.span_ns if self.span_ns else 0.0
