"""Which change of cost would make another schedule the choice? One factor at a time, all others as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np

from weftrace.notebook import InNotebook
from weftrace.pipeline.comparing.comparison import SIMPLER_WITHIN, Candidate, chunk_costs
from weftrace.pipeline.comparing.comparison import chosen_of as chosen_of
from weftrace.pipeline.comparing.variants import changed as order_for
from weftrace.pipeline.comparing.variants import made
from weftrace.pipeline.costs import Costs, durations_ns
from weftrace.pipeline.measured.sourced_costs import mean_ns
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import Boundary, simulate

#: What is changed: the part of F + B that F&B takes, the part of B that W takes, the part of F that a message needs on
#: its way.
Factor = Literal["overlapped", "weight", "latency"]

#: A factor is moved in steps of this: what is printed is exact to it.
STEPS_IN_ONE = 100
_LOOKS = 6  # values looked at on either side, before the step is found between two of them
_MOST_ACTIONS = 20_000  # with more than that, only half as many


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip(InNotebook):
    """The nearest value of a factor, below or above today's, at which another schedule is the choice.

    now, at: hundredths. winner: the name of the candidate that is the choice there. Between the values that were looked
    at a choice that changes twice is not seen; the value itself is exact: one hundredth nearer, the choice is today's.
    """

    factor: Factor
    now: int
    at: int
    winner: str


def flips(
    chosen: Candidate,
    rivals: Sequence[Candidate],
    costs: Costs,
    boundary: Boundary = "barrier",
    on_done: Callable[[], object] | None = None,
) -> tuple[Flip, ...]:
    """The flips of each factor, where there are any, nearest first.

    Fitted orders stay as they are, and W are placed anew.
    rivals: the other candidates that the memory allows: what a device holds depends on the order alone, not on times.
    on_done: called after each value that was looked at. Costs by stage are changed alike.
    """
    rivals = [each for each in rivals if each.variant != replace(chosen.variant, change="")]  # its own published order
    size = sum(len(_schedule(each)) for each in (chosen, *rivals))
    looks = _LOOKS if size < _MOST_ACTIONS else _LOOKS // 2
    known: dict[tuple[str, int, bytes], int] = {}
    found: list[Flip] = []
    for factor, (now, lowest, highest, changed) in _factors(costs).items():

        def winner(at: int, changed: Callable[[int], Costs] = changed) -> str:
            if on_done is not None:
                on_done()
            return _winner(chosen, rivals, changed(at), boundary, known)

        for end in (highest, lowest):
            change = _first_change(winner, chosen.name, now, end, looks)
            if change is not None:
                found.append(Flip(factor=factor, now=now, at=change[0], winner=change[1]))
    return tuple(sorted(found, key=lambda flip: abs(flip.at - flip.now)))


def _first_change(winner: Callable[[int], str], chosen: str, now: int, end: int, looks: int) -> tuple[int, str] | None:
    """The value nearest to `now`, on the way to `end`, at which another wins, and which; None where none was found."""
    if end == now:
        return None
    step = 1 if end > now else -1
    distances = sorted({max(1, round(abs(end - now) * look / looks)) for look in range(1, looks + 1)})
    same = 0
    for distance in distances:
        if (name := winner(now + step * distance)) == chosen:
            same = distance
            continue
        other, other_name = distance, name
        while other - same > 1:
            middle = (same + other) // 2
            if (name := winner(now + step * middle)) == chosen:
                same = middle
            else:
                other, other_name = middle, name
        return now + step * other, other_name
    return None


def _winner(
    chosen: Candidate,
    rivals: Sequence[Candidate],
    costs: Costs,
    boundary: Boundary,
    known: dict[tuple[str, int, bytes], int],
) -> str:
    """The name of the choice; where two take the same, today's, then the order of the rivals. Those that take longer by
    their busiest rank's work alone are not simulated."""
    able, steps = [chosen], [_step_ns(chosen, costs, boundary, known)]
    for rival in rivals:
        of_chunk = _costs(rival, costs)
        if boundary == "barrier" and _least_ns(_schedule(rival), of_chunk) > min(steps) * (1 + SIMPLER_WITHIN):
            continue
        able.append(rival)
        steps.append(_step_ns(rival, costs, boundary, known))
    return chosen_of(able, steps).name


def _least_ns(schedule: Schedule, of_chunk: Costs) -> int:
    """Of the busiest rank: all that it does."""
    return int(np.bincount(schedule.rank_N, durations_ns(schedule, of_chunk)).max())


def _costs(candidate: Candidate, costs: Costs) -> Costs:
    schedule = _schedule(candidate)
    return chunk_costs(costs, schedule, candidate.layers, schedule.num_stages // schedule.num_ranks)


def _step_ns(candidate: Candidate, costs: Costs, boundary: Boundary, known: dict[tuple[str, int, bytes], int]) -> int:
    """costs: of one device's share of the model, as those of the candidates. known: the steps that were simulated, by
    candidate and by what a factor changes of it: many schedules have no action whose time it is."""
    schedule, of_chunk = _schedule(candidate), _costs(candidate, costs)
    key = (candidate.name, of_chunk.latency_ns, durations_ns(schedule, of_chunk).tobytes())
    if key not in known:
        if candidate.name.endswith("+w"):
            own = made(
                replace(candidate.variant, change=""),
                num_stages=None,
                num_devices=schedule.num_ranks,
                num_micro_batches=schedule.num_micro_batches,
            )
            schedule = order_for(own, "w", of_chunk, boundary)
        known[key] = simulate(schedule, of_chunk, boundary).step_ns
    return known[key]


def _schedule(candidate: Candidate) -> Schedule:
    assert candidate.schedule is not None, candidate.reason
    return candidate.schedule


def _factors(costs: Costs) -> dict[Factor, tuple[int, int, int, Callable[[int], Costs]]]:
    """Factor -> today's value, the lowest and the highest that are looked at, in hundredths, and costs of a value."""
    forward, gradient, weight = (mean_ns(getattr(costs, name)) for name in ("forward_ns", "input_ns", "weight_ns"))
    backward = gradient + weight
    whole = forward + backward
    if not whole or not forward or not backward:
        return {}
    overlapped = whole if costs.overlapped_ns is None else mean_ns(costs.overlapped_ns)
    found: dict[Factor, tuple[int, int, int, Callable[[int], Costs]]] = {
        "overlapped": (
            round(STEPS_IN_ONE * overlapped / whole), ceil(STEPS_IN_ONE * max(forward, backward) / whole),
            STEPS_IN_ONE, lambda at: _with_pair(costs, at),
        ),
        "weight": (
            round(STEPS_IN_ONE * weight / backward), 0, 2 * STEPS_IN_ONE // 3, lambda at: _with_weight(costs, at),
        ),
        "latency": (
            round(STEPS_IN_ONE * costs.latency_ns / forward), 0, STEPS_IN_ONE,
            lambda at: replace(costs, latency_ns=round(forward * at / STEPS_IN_ONE)),
        ),
    }  # fmt: skip
    return {
        name: (now, min(lowest, now), max(highest, now), changed)
        for name, (now, lowest, highest, changed) in found.items()
    }


def _with_weight(costs: Costs, at: int) -> Costs:
    """I and W of the same sum, W that part of it."""
    both: Any = np.add(costs.input_ns, costs.weight_ns)
    weight = _part(both, at)
    return replace(costs, weight_ns=weight, input_ns=both - weight, backward_ns=None)


def _with_pair(costs: Costs, at: int) -> Costs:
    """F&B as that part of F + B, by pair where stages differ."""
    forward, backward = np.broadcast_arrays(costs.forward_ns, np.add(costs.input_ns, costs.weight_ns))
    return replace(costs, overlapped_ns=_part(np.add.outer(forward, backward), at))


def _part(times: Any, at: int) -> Any:
    """So many hundredths of times, rounded."""
    return np.rint(times * at / STEPS_IN_ONE).astype(np.int64)
