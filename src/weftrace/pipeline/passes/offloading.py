"""Which activations go to the host's memory, so that no rank holds more chunks than it may?"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

import numpy as np
import polars as pl

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs, need_costs, of_stages, transfer_ns
from weftrace.pipeline.dependencies import chunk_rows
from weftrace.pipeline.schedule import Schedule, need_schedule, needed_count
from weftrace.pipeline.simulation import Simulation, simulate
from weftrace.units import si

#: Copies share a link, and wait for each other on it, so each is given so many times its own time: as little as keeps
#: the cap.
_ROOM = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The activations of one chunk on its rank: times without any offloading.

    row: of its forward. taken_ns, freed_ns: while it is held. away_ns: when its copy to the host has ended, if it
    starts with the forward's end. back_ns: when its copy back has to begin, to be there if the rank does not pause.
    """

    row: int
    taken_ns: int
    freed_ns: int
    away_ns: int
    back_ns: int


def offload_activations(schedule: Schedule, costs: Costs, most_activations: int) -> Schedule:
    """Mark the forwards whose activations wait for their backward in the host's memory.

    most_activations: chunks whose activations a rank may hold at once. A chunk that is offloaded is held during its
    forward and the copy that follows, and from the start of the copy back to the end of W (or B), as
    `weftrace.pipeline.simulate` has it. `costs.offload_bytes_per_s` says how long copies take.

    Where a rank holds too many, the chunk whose backward is furthest away goes, of those that have been copied by then
    and need not be back yet: it stays away longest, so the fewest have to go. What is held only for a moment never
    goes: a copy that would delay its backward is not begun. Marks that are there already are made anew.

    Raises `ScheduleError` where costs do not say how fast copies are, and where no choice keeps the cap: what runs,
    waits for its W, or is on its way is held.
    """
    need_schedule(schedule)
    need_costs(costs)
    needed_count("offload", "most_activations", most_activations)
    if costs.offload_bytes_per_s is None:
        raise ScheduleError("offload: costs need offload_bytes_per_s, the rate at which activations are copied.")
    unmarked = schedule.with_actions(schedule.actions.with_columns(offload=pl.lit(False)))
    simulation = simulate(unmarked, costs)
    if _peak(simulation) <= most_activations:
        return unmarked
    for room in _ROOM:
        rows = [row for chunks in _chunks(simulation, room) for row in _to_offload(chunks, most_activations, unmarked)]
        marks = np.zeros(len(schedule), np.bool_)
        marks[rows] = True
        marked = unmarked.with_actions(unmarked.actions.with_columns(offload=pl.Series(marks)))
        if (peak := _peak(simulate(marked, costs))) <= most_activations:
            return marked
    raise ScheduleError(
        f"schedule {schedule.name!r}: a rank may hold {most_activations} chunks of activations, but holds {peak} even "
        f"with offloading, because copies at {si(costs.offload_bytes_per_s, 'B/s')} are not done in time."
    )


def _peak(simulation: Simulation) -> int:
    return int(simulation.ranks["peak_activations"].max())  # type: ignore[arg-type]


def _chunks(simulation: Simulation, room: int) -> list[list[_Chunk]]:
    """The chunks of each rank, in the order of their forwards."""
    schedule, costs = simulation.schedule, simulation.costs
    size_S = of_stages(costs, "activation_bytes", schedule.num_stages)
    copy_ns_S = transfer_ns(room * size_S, costs, "offload_bytes_per_s")
    is_kept = of_stages(costs, "pending_bytes", schedule.num_stages).any()
    parts: tuple[Literal["F", "I", "W"], ...] = ("F", "I", "W" if is_kept else "I")
    forward, backward, last = (chunk_rows(schedule, part)[0] for part in parts)
    num, rank = len(schedule), schedule.actions["rank"].to_numpy()
    start, end = simulation.ran.start_ns[:num], simulation.ran.end_ns[:num]
    clock = np.cumsum(end - start) - (end - start)  # stands still while a rank idles
    by = clock[backward] - copy_ns_S[:, None]
    beside = np.maximum(np.searchsorted(clock, by, side="right") - 1, 0)
    columns = {
        "row": forward,
        "taken_ns": start[forward],
        "freed_ns": end[last],
        "away_ns": end[forward] + copy_ns_S[:, None],
        "back_ns": np.where(rank[beside] == rank[backward], start[beside] + by - clock[beside], 0),
    }
    order = np.argsort(forward, axis=None)
    of_rank: list[list[_Chunk]] = [[] for _ in range(schedule.num_ranks)]
    rows = zip(*(column.reshape(-1)[order].tolist() for column in columns.values()), strict=True)
    for values in rows:
        of_rank[rank[values[0]]].append(_Chunk(*values))
    return of_rank


def _to_offload(chunks: list[_Chunk], most: int, schedule: Schedule) -> list[int]:
    """Rows of the forwards to mark. Time is gone through once; where there are too many, who is held longest goes."""
    comes = [(chunk.taken_ns, number) for number, chunk in enumerate(chunks)]  # a chunk is taken, or comes back
    goes = sorted((chunk.freed_ns, number) for number, chunk in enumerate(chunks))[::-1]
    held: set[int] = set()
    offloaded: list[int] = []
    while comes:
        now, number = heappop(comes)
        while goes and goes[-1][0] <= now:
            held.discard(goes.pop()[1])
        if chunks[number].freed_ns > now:  # else nothing of it takes time
            held.add(number)
        if len(held) <= most:
            continue
        can_go = [each for each in held if chunks[each].away_ns <= now < chunks[each].back_ns]
        if not can_go:
            action = schedule.action(chunks[number].row)
            raise ScheduleError(
                f"schedule {schedule.name!r}: rank {action.rank} may hold {most} chunks of activations, but at "
                f"{now:,} ns it holds {len(held)}, and none can be away: each runs, is copied, or waits for its W. "
                "Allow more, or copy faster."
            )
        furthest = max(can_go, key=lambda each: chunks[each].back_ns)
        held.remove(furthest)
        offloaded.append(chunks[furthest].row)
        heappush(comes, (chunks[furthest].back_ns, furthest))
    return offloaded
