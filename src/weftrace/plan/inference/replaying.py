"""How far is a plan, replayed, from the run that it was inferred from?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.notebook import InNotebook
from weftrace.plan.times import Timetable
from weftrace.units import US, duration, percent, signed

#: A start is late from here on after all that is known to have held it back.
LATE_NS = 10 * US
#: A replay that is off by more than this share of the span is not to be trusted.
MOST_ERROR = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(InNotebook):
    """A replay of an inferred plan beside the measurement. Times in ns."""

    span_ns: Annotated[int, Meta(ge=0, description="Measured: first start to last end on a device, of all ranks.")]
    replayed_ns: Annotated[int, Meta(ge=0, description="The same for the replay.")]
    worst_phase: Annotated[
        str | None, Meta(description="Phase and occurrence with the end that is farthest off; null without phases.")
    ]
    worst_phase_ns: Annotated[
        int, Meta(description="Its error: replayed less measured end, from the first start on a device.")
    ]
    late_starts: Annotated[
        int, Meta(ge=0, description="Starts on a device more than 10 µs after stream and launch let them, as measured.")
    ]
    late_ns: Annotated[int, Meta(ge=0, description="Sum of their lateness.")]
    unexplained_starts: Annotated[
        int, Meta(ge=0, description="Of these, those that no other wait of the plan holds until within 10 µs.")
    ]
    unexplained_ns: Annotated[int, Meta(ge=0)]

    @property
    def error(self) -> Annotated[float, Meta(description="replayed_ns / span_ns - 1; 0 without work.")]:
        """Replayed span over measured span, less 1; 0 without work."""
        return self.replayed_ns / self.span_ns - 1 if self.span_ns else 0.0

    @property
    def is_trustworthy(self) -> Annotated[bool, Meta(description="Whether there are no doubts.")]:
        """Whether span and phases end within 3 % of the span of where they did, and the plan's waits explain most of
        what was late, or what they do not explain is less than that."""
        return not self.doubts

    @property
    def doubts(
        self,
    ) -> Annotated[tuple[str, ...], Meta(description="Why the replay is not to be trusted, a clause each.")]:
        """Why the replay is not to be trusted, a clause each; none where it is."""
        clauses = []
        most = MOST_ERROR * self.span_ns
        if abs(self.error) > MOST_ERROR:
            clauses.append(f"its span is {signed(self.error)} off")
        if abs(self.worst_phase_ns) > most:
            clauses.append(f"{self.worst_phase} ends {duration(abs(self.worst_phase_ns))} off")
        if self.unexplained_ns > max(most, self.late_ns / 2):
            part = percent(self.unexplained, 0)
            clauses.append(f"no wait explains {part} of the {duration(self.late_ns)} by which ops were late")
        return tuple(clauses)

    @property
    def unexplained(self) -> float:
        """Share of late time that no wait explains; 0 where nothing was late."""
        return self.unexplained_ns / self.late_ns if self.late_ns else 0.0


def replay_of(times: Timetable, measured: pl.DataFrame) -> Replay:
    """times: of the replayed plan. measured: frame of `MEASURED_SCHEMA`, in the order of its ops."""
    on_device = measured.get_column("event").is_not_null().to_numpy()
    start, end = (measured.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    if not on_device.any():
        return Replay(span_ns=0, replayed_ns=0, worst_phase=None, worst_phase_ns=0,
                      late_starts=0, late_ns=0, unexplained_starts=0, unexplained_ns=0)  # fmt: skip
    first, first_replayed = int(start[on_device].min()), int(times.start_ns[on_device].min())
    phase, phase_ns = _worst_phase(times, measured, first, first_replayed)
    late, unexplained = _late(times, start, end, on_device)
    return Replay(
        span_ns=int(end[on_device].max()) - first,
        replayed_ns=int(times.end_ns[on_device].max()) - first_replayed,
        worst_phase=phase,
        worst_phase_ns=phase_ns,
        late_starts=int((late > 0).sum()),
        late_ns=int(late.sum()),
        unexplained_starts=int((unexplained > 0).sum()),
        unexplained_ns=int(unexplained.sum()),
    )


def lateness_ns(times: Timetable, start: NDArray[Any], end: NDArray[Any], on_device: NDArray[Any]) -> NDArray[Any]:
    """By how much each op started after its stream was free and its launch had come, as measured, int64, [ops]; 0 of a
    host's."""
    ready = ready_ns(times, start, end, np.isin(_whys(times), ("launch",)))
    return np.where(on_device, np.maximum(start - ready, 0), 0)


def ready_ns(times: Timetable, start: NDArray[Any], end: NDArray[Any], counted: NDArray[Any]) -> NDArray[Any]:
    """When the op before on its stream and the counted waits (a mask over `plan.waits`) let each op start: measured."""
    plan = times.plan
    before = pl.DataFrame({"end": end}).hstack(plan.ops.select("rank", "stream"))
    free = before.select(pl.col("end").shift(1).over("rank", "stream") + plan.gap_ns).to_series()
    ready = free.fill_null(0).to_numpy().copy()  # as the engine has it: from the plan's start
    waits = plan.waits.filter(pl.Series(counted))
    on = waits.get_column("on").to_numpy()
    since = np.where((waits.get_column("since") == "start").to_numpy(), start[on], end[on])
    np.maximum.at(ready, waits.get_column("op").to_numpy(), since + waits.get_column("lag_ns").to_numpy())
    return ready


def _whys(times: Timetable) -> NDArray[Any]:
    return times.plan.waits.get_column("why").cast(pl.String).to_numpy()


def _late(
    times: Timetable, start: NDArray[Any], end: NDArray[Any], on_device: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    late = lateness_ns(times, start, end, on_device)
    late[late <= LATE_NS] = 0
    every = ready_ns(times, start, end, np.ones(times.plan.waits.height, bool))
    unexplained = np.where(late > 0, np.maximum(start - every, 0), 0)
    unexplained[unexplained <= LATE_NS] = 0
    return late, unexplained


def _worst_phase(times: Timetable, measured: pl.DataFrame, first: int, first_replayed: int) -> tuple[str | None, int]:
    """Name and number of the phase whose last end on a device is farthest off, and by how much."""
    ends = measured.select("at", "phase_number", "event", pl.col("end_ns") - first).with_columns(
        times.plan.ops.get_column("phase"), replayed=pl.Series(times.end_ns - first_replayed)
    )
    ends = ends.filter(pl.col("phase_number").is_not_null(), pl.col("event").is_not_null())
    if ends.is_empty():
        return None, 0
    phases = (
        ends.group_by("at", "phase_number", maintain_order=True)
        .agg(pl.col("phase").first(), pl.col("end_ns").max(), pl.col("replayed").max())
        .with_columns(
            pl.int_range(pl.len()).over("at", "phase").alias("index"), off=pl.col("replayed") - pl.col("end_ns")
        )
    )
    worst = phases.row(int(phases.get_column("off").abs().arg_max() or 0), named=True)
    return f"{worst['phase']} {worst['index']}", int(worst["off"])
