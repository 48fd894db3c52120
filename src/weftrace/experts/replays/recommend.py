"""Which row of a replay should a service run, and how sure is that?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.replays.bootstrap import band
from weftrace.experts.replays.replay import SOLVERS, Replay, Row
from weftrace.files.schemas import Count
from weftrace.notebook import InNotebook
from weftrace.units import grouped

CLEARLY_FEWER = 0.9  # of the best row's written slots: a row that saves less is not worth a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation(InNotebook):
    """The best row of a replay against its baseline, in points of balancedness.

    row: highest mean balancedness of the rows considered. baseline_row: what it is compared with.
    gain_points: balancedness of `row` minus that of `baseline_row`, times 100. gain_low, gain_high: its 95 % band, both
        rows resampled by the same blocks of windows.
    cheaper_row: the row that writes fewest slots, of those whose balancedness is not below the low end of the best
        row's band and which write less than 0.9 of its slots; None where there is none.
    text: all of this in a sentence or two.
    """

    row: Count
    baseline_row: Count
    gain_points: float
    gain_low: float
    gain_high: float
    cheaper_row: int | None
    text: str

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "recommended", f"row {self.row}: {self.text}"
        yield "gain", f"{self.gain_points:.1f} points over row {self.baseline_row}"


def recommend(
    replay: Replay, *, solvers: Iterable[str] | None = None, baseline_row: int | None = None
) -> Recommendation:
    """The row to run.

    solvers: those to choose from, all by default; leave out "balance+resplit" where the engine cannot give copies of an
    expert different shares. baseline_row: a row of the replay, today's say; by default the published EPLB ("deepseek"),
    re-planned as often on the same estimate, or where that was not played, or is best, planned once, never again.
    The best of many rows looks a little better than it is: its band knows of windows, not of the choice.
    Raises `PlacementError` for a row that does not exist and solvers that were not replayed.
    """
    if baseline_row is not None and not 0 <= baseline_row < len(replay.rows):
        raise PlacementError(f"row {baseline_row} does not exist; the replay has rows 0 to {len(replay.rows) - 1}")
    allowed = set(SOLVERS if solvers is None else solvers)
    candidates = [index for index, row in enumerate(replay.rows) if row.solver in allowed and row.solver in SOLVERS]
    if not candidates:
        played = ", ".join(dict.fromkeys(row.solver for row in replay.rows))
        raise PlacementError(f"none of {', '.join(sorted(allowed))} was replayed; there are {played}")
    mean_R = replay.balancedness_RT[:, 1:].mean(axis=1)
    written_R = np.nansum(replay.moved_RT, axis=1)
    best = max(candidates, key=lambda index: (mean_R[index], -written_R[index]))
    baseline = _baseline(replay, best) if baseline_row is None else baseline_row
    resampled_RB = replay.resampled()
    low, high = band(resampled_RB[best])
    gain_low, gain_high = (100 * end for end in band(resampled_RB[best] - resampled_RB[baseline]))
    cheaper = [
        index for index in candidates if mean_R[index] >= low and written_R[index] < CLEARLY_FEWER * written_R[best]
    ]
    cheapest = min(cheaper, key=lambda index: (written_R[index], -mean_R[index]), default=best)
    gain = 100 * float(mean_R[best] - mean_R[baseline])
    text = (
        f"{in_words(replay.rows[best])} would have reached a balancedness of {mean_R[best]:.4f} "
        f"({low:.4f} to {high:.4f}), {abs(gain):.1f} points {'more' if gain >= 0 else 'less'} "
        f"({grouped(gain_low, 1)} to {grouped(gain_high, 1)}) than {in_words(replay.rows[baseline])}."
    )
    if cheapest != best:
        per_window_R = 100 * written_R / max(replay.num_windows - 1, 1)
        text += (
            f" Within its band and cheaper: {in_words(replay.rows[cheapest])}, {mean_R[cheapest]:.4f}, which writes "
            f"{per_window_R[cheapest]:.1f} % of the slots a window instead of {per_window_R[best]:.1f} %."
        )
    return Recommendation(
        row=best,
        baseline_row=baseline,
        gain_points=gain,
        gain_low=gain_low,
        gain_high=gain_high,
        cheaper_row=None if cheapest == best else cheapest,
        text=text,
    )


def _baseline(replay: Replay, best: int) -> int:
    """The published algorithm planned as often on the same estimate; planned once where that was not played, or won."""
    row = replay.rows[best]
    published = Row(solver="deepseek", estimator=row.estimator, window=row.window, interval=row.interval)
    return replay.rows.index(published) if published in replay.rows and published != row else replay.baseline_row


def in_words(row: Row) -> str:
    """A row as a phrase: "balance every 4 windows on the mean of 16"."""
    if row.solver == "once":
        return "a plan on the first window, kept"
    if row.solver == "oracle":
        return "a plan for each window on itself"
    every = "every window" if row.interval == 1 else f"every {row.interval} windows"
    seen = {
        "last": "the last window",
        "mean": f"the mean of {row.window}",
        "ema": f"a moving average as long as {row.window}",
        "risk": f"mean and deviation as long as {row.window}",
    }
    return f"{row.solver} {every} on {seen.get(row.estimator, row.estimator)}"
