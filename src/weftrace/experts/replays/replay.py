"""Which estimator, interval and strategy would have balanced recorded loads best? Played window by window.

Next-window balance hangs on what is planned for far more than on the packing: fast drift wants the last window, noise
wants the mean of many. So the answer is not guessed but replayed.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.errors import LoadsError, PlacementError
from weftrace.experts.arrays import Floats, frozen, is_whole
from weftrace.experts.cluster import make_cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.moves.replan import MAX_MOVES
from weftrace.experts.placement import Placement
from weftrace.experts.recorded.estimators import ESTIMATORS, make_estimator
from weftrace.experts.recorded.read import LoadHistory, as_history
from weftrace.experts.replays.bootstrap import band, block_length, resampled_means
from weftrace.experts.replays.planners import PLANNERS, Setting, moved_fraction, plan_balance
from weftrace.files.columns import Shown, frame_of
from weftrace.files.schemas import Amount, Count, Fraction
from weftrace.files.values import filled
from weftrace.notebook import InNotebook

SOLVERS = tuple(PLANNERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to run a service.

    solver: one of `SOLVERS`; "once" plans on the first window and never again, "oracle" plans each window on itself.
    estimator: one of `estimators.ESTIMATORS`; "first window" and "oracle" for those two.
    """

    solver: str
    estimator: Annotated[str, Shown(term="estimator")]
    window: Annotated[
        int | None,
        Meta(description="Windows the estimator looks back over; null where it has none."),
        Shown("look-back", term="look_back"),
    ]
    interval: Annotated[
        int | None, Meta(description="Windows between re-plans; null where it plans once."), Shown(term="interval")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow(Row):
    """One combination of solver, estimator, window and interval, and what it would have reached."""

    balancedness: Annotated[
        Fraction, Meta(description="Mean over layers and scored windows."), Shown(term="balancedness")
    ]
    low: Annotated[Fraction, Meta(description="95 % moving-block bootstrap."), Shown("95 % band", term="band")]
    high: Fraction
    moved_fraction: Annotated[
        Amount,
        Meta(description="Mean share of slots rewritten by a re-plan; 0 without one."),
        Shown("moved a re-plan", "number", "moved"),
    ]
    num_plans: Count
    plan_ms: Annotated[
        float | None,
        Meta(description="Mean time of a plan; null where not measured."),
        Shown("plan ms", term="plan_time"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay(InNotebook):
    """What every row would have reached.

    balancedness_RT: [R, T] in each window, mean over layers of mean / maximum GPU load, under the placement and the
        shares made from earlier windows alone ("oracle" apart); NaN in the first window, which has none before it.
    moved_RT: [R, T] part of the slots written by the re-plan that each window began with; NaN where there was none. The
        first placement is loaded, not moved.
    num_plans_R: placements made, the first included. plan_ms_R: mean wall time of making one, on this machine.
    baseline_row, oracle_row: rows of "once" and "oracle", the last two.
    policy: of every solver's placements ("deepseek" follows its own rule). block, num_resamples, seed: of the bands.
    """

    rows: tuple[Row, ...]
    balancedness_RT: Floats
    moved_RT: Floats
    num_plans_R: tuple[int, ...]
    plan_ms_R: tuple[float, ...]
    source: str
    num_layers: int
    num_experts: int
    num_slots: int
    num_gpus: int
    policy: str
    block: int
    num_resamples: int
    seed: int

    @property
    def num_windows(self) -> int:
        return int(self.balancedness_RT.shape[1])

    @property
    def baseline_row(self) -> int:
        return len(self.rows) - 2

    @property
    def oracle_row(self) -> int:
        return len(self.rows) - 1

    def resampled(self) -> Floats:
        """[R, B] means over the scored windows, of the same blocks of windows for every row."""
        return resampled_means(
            self.balancedness_RT[:, 1:], num_resamples=self.num_resamples, block=self.block, seed=self.seed
        )

    @property
    def results(self) -> tuple[ReplayRow, ...]:
        """What each of `rows` would have reached."""
        bands = [band(mean_B) for mean_B in self.resampled()]
        mean_R = self.balancedness_RT[:, 1:].mean(axis=1).tolist()
        moved = [row[~np.isnan(row)] for row in self.moved_RT]
        return tuple(
            filled(
                ReplayRow, row, balancedness=mean_R[at], low=bands[at][0], high=bands[at][1],
                moved_fraction=float(moved[at].mean()) if len(moved[at]) else 0.0,
                num_plans=self.num_plans_R[at], plan_ms=self.plan_ms_R[at],
            )
            for at, row in enumerate(self.rows)
        )  # fmt: skip

    @property
    def table(self) -> pl.DataFrame:
        """A `ReplayRow` for each of `rows`."""
        return frame_of(ReplayRow, self.results)

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "loads", f"{self.source}: {self.num_windows:,} windows"
        yield "experts", f"{self.num_experts:,} in each of {self.num_layers:,} layers"
        yield "slots", f"{self.num_slots:,} on {self.num_gpus:,} GPUs"
        yield "combinations", f"{len(self.rows):,}"
        for at, balancedness in enumerate(self.balancedness_RT[:, 1:].mean(axis=1).tolist()):
            row = self.rows[at]
            every = "once" if row.interval is None else f"every {row.interval}"
            window = "" if row.window is None else f" {row.window}"
            yield f"{row.solver}, {row.estimator}{window}, {every}", f"balancedness {balancedness:.4f}"


def replay(
    history: object,
    *,
    num_slots: int,
    num_gpus: int,
    num_nodes: int = 1,
    num_groups: int = 1,
    estimators: Sequence[str] = ("last", "mean", "ema"),
    windows: Sequence[int] = (4, 16),
    intervals: Sequence[int] = (4, 16),
    solvers: Sequence[str] = SOLVERS,
    policy: str = "auto",
    split: str = "even",
    max_moves: float = MAX_MOVES,
    num_resamples: int = 1000,
    block: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Every combination played over a history, in the order of time: what is in force in window t was made from windows
    before t. Re-plans happen after the first window and every `interval` windows from then on.

    history: a `LoadHistory`, or loads [T, L, N] as `as_history` takes them; at least two windows.
    num_slots, num_gpus, num_nodes, num_groups: as `balance` takes them.
    estimators: names of `make_estimator`; each but "last" with every window of `windows` ("ema" and "risk" take the
        half-life whose weights are as old on average). solvers: of `SOLVERS`, see `replay_planners.PLANNERS`.
    policy: of `balance`; "auto" is decided on the first window and kept. split: of "balance", "replan", "once" and
        "oracle"; "deepseek" is always even and "balance+resplit" never. max_moves: of "replan", part of all slots.
    num_resamples, block, seed: of the moving-block bootstrap; block None takes `block_length`.
    workers: threads, as many as processors by default; the answer does not depend on it.
    on_progress: is called with windows played and windows to play, over all rows, from any thread but one at a time.

    Raises `LoadsError` for a bad history, estimator or window, `PlacementError` where numbers disagree.
    """
    past = as_history(history)
    if past.num_windows < 2:
        raise LoadsError(f"{past.source}: a replay needs a window to plan on and one to score; there is one in all")
    _check(solvers, "solver", SOLVERS)
    _check(estimators, "estimator", ESTIMATORS)
    for value, name in ((windows, "windows"), (intervals, "intervals")):
        for each in value:
            if not is_whole(each, least=1):
                raise PlacementError(f"{name} are whole numbers of at least 1, not {each!r}")
    if not solvers or not intervals:
        raise PlacementError("a replay needs at least one solver and one interval")
    if num_resamples < 1 or (block is not None and block < 1):
        raise PlacementError(f"num_resamples and block must be at least 1, not {num_resamples} and {block}")
    cluster = make_cluster(num_slots, num_gpus, num_nodes)
    first_LN = past.load_TLN[0]
    make_problem(first_LN, cluster, num_groups=num_groups, split=split)  # raises what is wrong with the numbers
    setting = Setting(
        cluster=cluster, num_experts=past.num_experts, num_groups=num_groups, policy=policy, split=split,
        max_moves=max_moves,
    )  # fmt: skip
    if policy == "auto":
        setting = replace(setting, policy=plan_balance(setting, first_LN).policy)
    jobs = [
        _Job(solver, estimator, window, tuple(int(interval) for interval in dict.fromkeys(intervals)))
        for solver in dict.fromkeys(solvers)
        for estimator, window in dict.fromkeys(_pairs(estimators, windows))
    ]
    played = _played(past, setting, jobs, workers or os.cpu_count() or 1, on_progress)
    return filled(
        Replay,
        past,
        setting,
        rows=tuple(each.row for each in played),
        balancedness_RT=frozen(np.array([each.balancedness_T for each in played])),
        moved_RT=frozen(np.array([each.moved_T for each in played])),
        num_plans_R=tuple(each.num_plans for each in played),
        plan_ms_R=tuple(1e3 * each.plan_s / each.num_plans for each in played),
        num_slots=num_slots,
        num_gpus=num_gpus,
        block=block or block_length(past.num_windows - 1),
        num_resamples=num_resamples,
        seed=seed,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """Rows that see the same estimates: one for each interval."""

    solver: str
    estimator: str
    window: int | None
    intervals: tuple[int, ...]


class _Played:
    """A row while it is played, and its series."""

    def __init__(self, row: Row, num_windows: int) -> None:
        self.row = row
        self.now: Placement | None = None
        self.balancedness_T = np.full(num_windows, math.nan)
        self.moved_T = np.full(num_windows, math.nan)
        self.num_plans = 0
        self.plan_s = 0.0

    def take(self, placement: Placement, plan_s: float, window: int) -> None:
        """Put a placement in force from `window` on."""
        if self.now is not None:
            self.moved_T[window] = moved_fraction(self.now, placement)
        self.now = placement
        self.num_plans += 1
        self.plan_s += plan_s

    def score(self, load_LN: Floats, window: int) -> None:
        assert self.now is not None, window
        self.balancedness_T[window] = self.now.balancedness(load_LN).mean()


def _played(
    history: LoadHistory,
    setting: Setting,
    jobs: Sequence[_Job],
    workers: int,
    on_progress: Callable[[int, int], None] | None,
) -> list[_Played]:
    """All rows: of the jobs in their order, then the baseline and the oracle."""
    total = (history.num_windows - 1) * (sum(len(job.intervals) for job in jobs) + 2)
    lock, done = threading.Lock(), 0

    def on_done(num: int) -> None:
        nonlocal done
        with lock:
            done += num
            if on_progress is not None:
                on_progress(done, total)

    # Threads suffice: nearly all time is spent in compiled code, which runs without Python's lock.
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_play, history, setting, job, on_done) for job in jobs]
        futures.append(pool.submit(_play_bounds, history, setting, on_done))
        try:
            return [played for future in futures for played in future.result()]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _play(history: LoadHistory, setting: Setting, job: _Job, on_done: Callable[[int], None]) -> list[_Played]:
    """The rows of a job, which share estimates, and plans where the placement in force does not matter."""
    planner, estimator = PLANNERS[job.solver], make_estimator(job.estimator, window=job.window or 1)
    rows = [
        _Played(
            Row(solver=job.solver, estimator=job.estimator, window=job.window, interval=interval), history.num_windows
        )
        for interval in job.intervals
    ]
    for seen in range(history.num_windows - 1):
        estimator.update(history.load_TLN[seen])
        estimate_LN = estimator.estimate()
        shared: tuple[Placement, float] | None = None
        for row, interval in zip(rows, job.intervals, strict=True):
            if seen % interval == 0:
                if shared is None or not planner.is_memoryless:
                    start = time.perf_counter()
                    placement = planner.plan(setting, estimate_LN, row.now)
                    shared = placement, time.perf_counter() - start
                row.take(*shared, seen + 1)
            elif planner.between is not None:
                assert row.now is not None
                row.now = planner.between(row.now, estimate_LN)
            row.score(history.load_TLN[seen + 1], seen + 1)
        on_done(len(rows))
    return rows


def _play_bounds(history: LoadHistory, setting: Setting, on_done: Callable[[int], None]) -> list[_Played]:
    """The floor and the ceiling: planned once on the first window, and for each window on itself."""
    once = _Played(Row(solver="once", estimator="first window", window=None, interval=None), history.num_windows)
    oracle = _Played(Row(solver="oracle", estimator="oracle", window=None, interval=1), history.num_windows)
    start = time.perf_counter()
    once.take(plan_balance(setting, history.load_TLN[0]), time.perf_counter() - start, 1)
    for window in range(1, history.num_windows):
        start = time.perf_counter()
        oracle.take(plan_balance(setting, history.load_TLN[window]), time.perf_counter() - start, window)
        for row in (once, oracle):
            row.score(history.load_TLN[window], window)
        on_done(2)
    return [once, oracle]


def _pairs(estimators: Iterable[str], windows: Sequence[int]) -> Iterator[tuple[str, int | None]]:
    for estimator in estimators:
        if estimator == "last":
            yield estimator, None
        else:
            for window in windows:
                yield estimator, int(window)


def _check(names: Iterable[str], what: str, known: Sequence[str]) -> None:
    for name in [names] if isinstance(names, str) else names:
        if isinstance(names, str) or name not in known:
            raise PlacementError(f"no {what} {name!r} to replay; give a list, and choose from {', '.join(known)}")
