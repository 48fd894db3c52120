"""What changed from one run to another: `diff`, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypedDict

import polars as pl

from weftrace.comparison.alignment.aligning import Alignment, aligned
from weftrace.comparison.alignment.kernel_status import with_status
from weftrace.comparison.exact_changes import changes_by_rank, changes_of, summed
from weftrace.comparison.noise import Difference, StepSpread, difference_of, is_noise, spread_of
from weftrace.comparison.runs import Source, run_of
from weftrace.comparison.sides import Side, notes_of, of_rank, sides_of
from weftrace.comparison.verdicts import Verdict, verdict_of
from weftrace.files.columns import frame_schema
from weftrace.notebook import InNotebook
from weftrace.trace.kernels import KernelRules
from weftrace.units import duration


class RankRow(TypedDict):
    """A rank that both runs have, in order: its mean step, and what changed most of it."""

    rank: int | None
    device: int | None
    before_ns: int
    after_ns: int
    change_ns: int
    part: str | None
    cause: str | None
    part_change_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Diff(InNotebook):
    """What changed in a step, from the one run to the other. Times in ns, of a step, mean over ranks.

    before, after: the two sides. verdict: whether they may be compared. spans: of each side the median step, with its
    spread. changes: a row a kernel of one part, cause, operator and phase, see `changes_of`; sum them with `by`.
    remainder_ns: change of the median step - change of the mean step, which is what the changes add up to.
    is_noise: whether the steps' lengths differ by no more than they do within a run, asked at once with every family's
    time; None where one step tells nothing.
    """

    before: Side
    after: Side
    verdict: Verdict
    spans: tuple[StepSpread, StepSpread]
    changes: pl.DataFrame
    alignment: Alignment
    is_noise: bool | None

    @property
    def change_ns(self) -> int:
        """Of the median step."""
        return self.spans[1].median_ns - self.spans[0].median_ns

    @property
    def remainder_ns(self) -> int:
        return self.change_ns - int(self.changes.get_column("change_ns").sum())

    @property
    def difference(self) -> Difference | None:
        """Of the mean step, with its interval; None where one step tells nothing."""
        return difference_of(self.before.spans_ns, self.after.spans_ns) if self.before.ranks else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the runs say of themselves: what is missing or left out; ranks that one alone has."""
        return notes_of(self.before, self.after)

    def by(self, *columns: str) -> pl.DataFrame:
        """The changes summed over all but these columns of `changes`, the largest first."""
        return summed(self.changes, columns)

    def of_rank(self, at: int) -> pl.DataFrame:
        """The changes of one rank, by its position in `before.ranks`: as `changes`, of a step of this rank."""
        return with_status(changes_of(of_rank(self.before, at), of_rank(self.after, at)))

    def by_rank(self) -> pl.DataFrame:
        """Whose step changed: a row a rank that both have, in order: `RankRow`. before_ns, after_ns, change_ns: of
        its mean step; part, cause and part_change_ns: what changed most of it. Of a pipeline, ranks are stages."""
        parts = changes_by_rank(self.before, self.after)
        times = [pl.col(name).sum() for name in ("before_ns", "after_ns", "change_ns")]
        most = parts.sort(pl.col("change_ns").abs(), "part", "cause", descending=[True, False, False], nulls_last=True)
        rows = most.group_by("at", maintain_order=True).agg(
            *times, pl.col("part", "cause").first(), pl.col("change_ns").first().alias("part_change_ns")
        )
        ranks = pl.DataFrame({
            "at": range(len(self.before.ranks)),
            "rank": [rank.rank for rank in self.before.ranks],
            "device": [rank.device for rank in self.before.ranks],
        }, schema_overrides={"at": pl.Int32})  # fmt: skip
        every = ranks.join(rows, on="at", how="left", maintain_order="left")
        return every.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(RankRow).items()).with_columns(
            pl.col(r"^.*_ns$").fill_null(0)
        )

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "verdict", self.verdict.word
        yield "step", " → ".join(duration(spread.median_ns) for spread in self.spans)
        for part, change_ns in self.by("part").select("part", "change_ns").iter_rows():
            yield part, duration(change_ns)


def diff(
    before: Source,
    after: Source,
    *,
    rules: KernelRules | None = None,
    workers: int | None = None,
    steps_by: str | None = None,
    advises: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> Diff:
    """Compare two runs: traces, jobs of many ranks, or paths of these.

    rules: kernel rules, weftrace's own by default. workers, on_done: see `Job.map`. steps_by: name of the ranges that
    stand for steps, see `with_steps`. advises: also tell which findings are new and gone, of runs of up to 50,000
    device events. Raises TraceError where one of them cannot be read, ComparisonError where steps_by names no two
    ranges, DocumentError of a saved report that holds too little.

    Of single traces, and of traces in memory, the events stay with the result, for the page draws them; those of a job
    are read again for it. `run_of` keeps none.
    """
    runs = [
        run_of(
            source, rules=rules, workers=workers, keep_work=True, steps_by=steps_by, advises=advises, on_done=on_done
        )
        for source in (before, after)
    ]
    one, other, alignment = aligned(*sides_of(*runs))
    changes = with_status(changes_of(one, other))
    return Diff(
        before=one,
        after=other,
        verdict=verdict_of(one, other),
        spans=(spread_of(one.spans_ns), spread_of(other.spans_ns)),
        changes=changes,
        alignment=alignment,
        is_noise=is_noise(one.spans_ns, other.spans_ns, num_asked=1 + changes.get_column("family").n_unique()),
    )
