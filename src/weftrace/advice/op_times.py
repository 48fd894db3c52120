"""Other durations for chosen events of a device: what a change does that no selector can name.

A kernel at another rate, a chain of kernels as one, collectives of another message size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weftrace.advice.named_ranges import device_rows
from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.trace.work import Work
from weftrace.units import counted

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimesOfWork(InNotebook):
    """Durations of events of one device. path, rank, device: of its trace. event: rows of `Work.events`; duration_ns:
    what each takes then."""

    path: str
    rank: int | None
    device: int | None
    event: _Ints
    duration_ns: _Floats

    def is_of(self, work: Work) -> bool:
        return (self.path, self.rank, self.device) == (work.trace.path, work.trace.rank, work.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTimes(InNotebook):
    """Events of a device take other times. Two are equal if their labels are.

    times: of each device. frees_launches: what takes no time then is not launched either, as `Remove` has it.
    notes: what was assumed, for the reader.
    """

    label: str
    times: tuple[TimesOfWork, ...] = field(compare=False)
    frees_launches: bool = field(default=False, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return self.label

    def __add__(self, other: OpTimes) -> OpTimes:
        """Both, under this label: of several devices, or chains."""
        return OpTimes(
            label=self.label,
            times=self.times + other.times,
            frees_launches=self.frees_launches or other.frees_launches,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )


def op_times(
    label: str,
    work: Work,
    rows: ArrayLike,
    duration_ns: ArrayLike,
    *,
    frees_launches: bool = False,
    notes: Sequence[str] = (),
) -> OpTimes:
    """rows: of `Work.events`, of a whole work. duration_ns: of each, or one for all. Raises `AdviceError` where rows
    are none of the work's, one is named twice, or a duration is no number of 0 or more."""
    event = np.atleast_1d(np.asarray(rows, np.int64))
    lasts = np.broadcast_to(np.asarray(duration_ns, np.float64), event.shape)
    if not (np.isfinite(lasts).all() and (lasts >= 0).all()):
        raise AdviceError(f"{label}: durations are numbers of 0 or more, in ns.")
    if len(np.unique(event)) < len(event) or ((event < 0) | (event >= work.events.height)).any():
        raise AdviceError(f"{label}: rows are those of the work's {work.events.height:,} events, each once.")
    times = TimesOfWork(
        path=work.trace.path, rank=work.trace.rank, device=work.device, event=event, duration_ns=lasts.copy()
    )
    return OpTimes(label=label, times=(times,), frees_launches=frees_launches, notes=tuple(notes))


def ratios_of(inferred: Inferred, change: OpTimes) -> _Floats:
    """Of each op its duration after over before, [ops]: 1 of those that the change does not name. Of collectives that
    meet, a plan has the transfer alone, and so does the change.

    Raises `AdviceError` where a device of the change is none of the plan's, or two of the plan are that one.
    """
    took = inferred.plan.ops.get_column("duration_ns").to_numpy().astype(np.float64)
    ratios = np.ones(len(took))
    for times in change.times:
        found = [at for at, work in enumerate(inferred.works) if times.is_of(work)]
        if len(found) != 1:
            where = f"{times.path or 'a trace without a path'}, rank {times.rank}, device {times.device}"
            raise AdviceError(f"{change}: {where} is {counted(len(found), 'device')} of this plan; it must be one.")
        rows, events = device_rows(inferred, found[0])
        then = np.full(inferred.works[found[0]].events.height, np.nan)
        then[times.event] = times.duration_ns
        named = ~np.isnan(then[events])
        rows, lasts = rows[named], then[events[named]]
        ratios[rows] = np.divide(lasts, took[rows], out=(lasts > 0).astype(np.float64), where=took[rows] > 0)
    if (ratios == 1).all():
        raise AdviceError(f"{change}: it changes no op of this plan.")
    return ratios
