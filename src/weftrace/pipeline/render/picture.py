"""What every drawing of a simulated schedule shows, worked out once: cells in time, what shades tell apart, memory.

The SVG, the page, the figure and the terminal's picture take a `Picture` and decide nothing but pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.files.values import filled
from weftrace.pipeline.held import changes_of_curve, holdings, in_chunks
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import Simulation

#: Columns of `Picture.cells`, one row an action, ranks ascending and in the order of time within a rank.
CELL_SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "kind": pl.String(),  # F, B, I, W or F&B
    "stage": pl.Int32(),  # of an F&B: of its forward
    "micro_batch": pl.Int32(),
    "back_stage": pl.Int32(),  # of an F&B: of its backward; null elsewhere
    "back_micro_batch": pl.Int32(),
    "shade": pl.Int32(),  # number of the direction or chunk, a position in `Picture.shades`
    "back_shade": pl.Int32(),  # of an F&B's backward; null elsewhere
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "cause": pl.Int64(),  # row of the cell that it stood waiting for; null where its rank did not wait
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """What a picture of a simulated schedule says of it as a whole. Numbers are of all ranks.

    bubble_ns: idle time of the rank that idles most; bubble_share: the part of that rank's step.
    unit_ns: the unit in which times are shown, where costs are units and no measurement; else 0.
    shades: names of what light and dark tell apart, the first drawn in full colour: the directions of a schedule with
        replicas, the chunks of one with several stages a rank; one empty name where there is nothing to tell apart.
    held_in: what memory counts: "chunks" whose activations are held, or "bytes". peak: the most that a rank, peak_rank,
        holds of it.
    """

    name: str
    num_ranks: int
    num_stages: int
    num_micro_batches: int
    boundary: str
    makespan_ns: int
    bubble_ns: int
    bubble_share: float
    unit_ns: int
    shades: tuple[str, ...]
    held_in: Literal["chunks", "bytes"]
    peak: int
    peak_rank: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture(PictureFacts):
    """A simulated schedule, ready to be drawn. Frames hold the ranks that are drawn.

    ranks: of each drawn rank rank, busy_ns, idle_ns, warm_up_ns, steady_ns, cool_down_ns and peak.
    memory: rank, time_ns, held: what each drawn rank holds from that time on.
    """

    ranks: pl.DataFrame
    cells: pl.DataFrame
    memory: pl.DataFrame

    def band(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Times at which a drawn rank takes or frees memory, and the least and the most that any holds from each on."""
        times = np.unique(np.append(self.memory.get_column("time_ns").to_numpy(), 0))
        low, high = np.full(len(times), np.iinfo(np.int64).max), np.zeros(len(times), np.int64)
        for curve in self.memory.partition_by("rank"):
            changes, held = (curve.get_column(name).to_numpy() for name in ("time_ns", "held"))
            now = np.append(0, held)[np.searchsorted(changes, times, side="right")]
            np.minimum(low, now, out=low)
            np.maximum(high, now, out=high)
        return times, np.minimum(low, high), high


def picture_of(simulation: Simulation, most_ranks: int) -> Picture:
    """What is drawn of a simulation. Of more than `most_ranks`: the first, the last and others evenly between, and the
    one that holds the most."""
    schedule, costs = simulation.schedule, simulation.costs
    in_bytes = holds_bytes(simulation)
    peak = "peak_bytes" if in_bytes else "peak_activations"
    ranks = simulation.ranks.with_columns(pl.col(peak).alias("peak"))
    peak_rank = ranks.get_column("peak").arg_max() or 0
    idlest = ranks.row(ranks.get_column("idle_ns").arg_max() or 0, named=True)
    chosen = _chosen(schedule.num_ranks, most_ranks, peak_rank)
    return filled(
        Picture,
        schedule,
        simulation,
        costs,
        bubble_share=idle_share(idlest),
        shades=shades_of(schedule)[0],
        held_in="bytes" if in_bytes else "chunks",
        peak=ranks["peak"][peak_rank],
        peak_rank=peak_rank,
        ranks=ranks.select("rank", "busy_ns", "idle_ns", "warm_up_ns", "steady_ns", "cool_down_ns", "peak")[chosen],
        cells=_cells(simulation, chosen),
        memory=memory_of(simulation, chosen, in_bytes),
    )


def idle_share(rank: dict[str, int]) -> float:
    """The part of its step in which a rank idles; rank: a row of `Simulation.ranks`."""
    return rank["idle_ns"] / max(1, rank["busy_ns"] + rank["idle_ns"])


def shades_of(schedule: Schedule) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """What shades tell apart, and the shade of each stage on each rank, int32 [ranks, stages].

    The direction where stages have replicas; else which of its rank's stages it is, in the model's order.
    """
    replica_of = schedule.replica_of_rank_stage
    if schedule.num_replicas > 1:
        return tuple(f"direction {replica}" for replica in range(schedule.num_replicas)), np.maximum(replica_of, 0)
    chunk_of = np.maximum(np.cumsum(replica_of >= 0, axis=1) - 1, 0).astype(np.int32)
    num_chunks = int(chunk_of.max()) + 1
    return tuple(f"chunk {chunk}" for chunk in range(num_chunks)) if num_chunks > 1 else ("",), chunk_of


def causes(simulation: Simulation, ranks: list[int] | None = None) -> NDArray[np.int64]:
    """For each action, of these ranks alone where some are named, the one for whose result, or for whose arrival at a
    message that blocks, it stood waiting, as a row of the schedule; -1 where its rank did not stand waiting."""
    times, num, rank = simulation.ran, len(simulation.schedule), simulation.schedule.rank_N
    is_asked = np.ones(num, bool) if ranks is None else np.isin(rank, ranks)
    waits = times.plan.waits
    if ranks is not None:
        op = waits.get_column("op").to_numpy()
        waits = waits.filter(pl.Series((op >= num) | is_asked[np.minimum(op, num - 1)]))
    op, on = (waits.get_column(name).to_numpy().astype(np.int64) for name in ("op", "on"))
    since = np.where((waits.get_column("since") == "start").to_numpy(), times.start_ns[on], times.end_ns[on])
    decides = since + waits.get_column("lag_ns").to_numpy() == times.start_ns[op]
    found = np.full(len(times.start_ns), -1, np.int32)
    sent, first = np.unique(op, return_index=True)
    found[sent[sent >= num]] = on[first[sent >= num]]  # a message that queues for its link: what made it
    found[op[decides]] = on[decides]
    while (through := found[:num] >= num).any():  # a message stands for what it waited for
        found[:num][through] = found[found[:num][through]]
    rows = np.flatnonzero(is_asked)
    before = np.maximum(rows - 1, 0)
    free = np.where((rows > 0) & (rank[before] == rank[rows]), times.end_ns[before], 0)
    return np.where(times.start_ns[rows] > free, found[rows], -1).astype(np.int64)


def holds_bytes(simulation: Simulation) -> bool:
    """Whether its costs say how large activations are, and not only that they are."""
    return simulation.costs.tells_sizes


def memory_of(simulation: Simulation, ranks: list[int], in_bytes: bool) -> pl.DataFrame:
    """What ranks hold, a row whenever it changes: rank, time_ns, held; in bytes as the simulation has it, else in
    chunks whose activations, or a part of them, are held."""
    counted = holdings(simulation.schedule, simulation.ran, in_chunks(simulation.schedule, simulation.costs))
    curves = []
    for rank in ranks:
        if in_bytes:
            curve = simulation.memory(rank).rename({"bytes": "held"})
        else:
            time_ns, held = changes_of_curve(*counted.curve(rank))
            curve = pl.DataFrame({"time_ns": time_ns, "held": held})
        curves.append(curve.select(pl.lit(rank, pl.Int32()).alias("rank"), pl.all()))
    return pl.concat(curves)


def _chosen(num_ranks: int, most: int, peak_rank: int) -> list[int]:
    if num_ranks <= most:
        return list(range(num_ranks))
    even = np.linspace(0, num_ranks - 1, max(most - 1, 1)).round().astype(int)
    return sorted({*even.tolist(), peak_rank})


def _cells(simulation: Simulation, ranks: list[int]) -> pl.DataFrame:
    schedule, ran = simulation.schedule, simulation.ran
    _, shade_of = shades_of(schedule)
    rows = np.flatnonzero(np.isin(schedule.rank_N, ranks))
    times = {"start_ns": pl.Series(ran.start_ns[rows]), "end_ns": pl.Series(ran.end_ns[rows])}
    actions = schedule.actions[rows].with_columns(**times)
    place = np.full(len(schedule) + 1, -1, np.int32)  # the last: of no action
    place[rows] = np.arange(len(rows))
    some = None if len(ranks) == schedule.num_ranks else ranks
    cause = pl.Series(place[causes(simulation, some)])
    rank, stage = (actions.get_column(name).to_numpy() for name in ("rank", "stage"))
    back = actions.get_column("back_stage")
    back_shade = pl.Series(shade_of[rank, back.fill_null(0).to_numpy()])
    return actions.with_columns(
        shade=pl.Series(shade_of[rank, stage]),
        back_shade=pl.when(back.is_not_null()).then(back_shade),
        cause=pl.when(cause >= 0).then(cause),
    ).select(pl.col(name).cast(dtype) for name, dtype in CELL_SCHEMA.items())
