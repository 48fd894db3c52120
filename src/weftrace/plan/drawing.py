"""A small timetable as text: a line a stream, so that a plan can be seen where it is written.

    time       0         5 ns      10 ns     15 ns
    rank 0, 7  |attn--|x0~~~~~~~~~~~~---------|mlp-
    rank 1, 7  |attn----------------|x1-------|mlp-

An op is a bar and its label. "~" is waiting inside an op: of a member of a meet for the others, of a host call that
blocks. Idle time is blank.
"""

from __future__ import annotations

import math
import unicodedata

import numpy as np

from weftrace.errors import PlanError
from weftrace.plan.graph import hold_ns
from weftrace.plan.times import Timetable, need_timetable, reached_ns
from weftrace.units import duration

_MAX_STREAMS = 200
_CELLS_A_TICK = 10


def drawn(times: Timetable, width: int = 80) -> str:
    """The timetable as text, no line longer than `width`: each op from its start to its end, to the cell.

    A cell is a round number of nanoseconds. Bars that end inside a cell are drawn to its end, and of ops that share a
    cell the last is seen; the label (an op's id, else its name) is cut where the bar ends. Raises `PlanError` where
    there are more streams than a person can look at, or no room.
    """
    need_timetable(times)
    if not isinstance(width, int):
        raise PlanError(f"a drawing is a whole number of columns wide, not {width!r}.")
    plan = times.plan
    lanes = plan.ops.select("rank", "stream", "kind").unique(["rank", "stream"]).sort("rank", "stream").rows()
    if len(lanes) > _MAX_STREAMS:
        raise PlanError(f"plan {plan.name!r} has {len(lanes):,} streams; a drawing shows up to {_MAX_STREAMS}.")
    names = {
        (rank, stream): f"rank {rank}, {'host ' if kind == 'host' else ''}{stream}" for rank, stream, kind in lanes
    }
    margin = max(map(len, (*names.values(), "time"))) + 2
    if (room := width - margin) < _CELLS_A_TICK:
        raise PlanError(f"a drawing needs {margin + _CELLS_A_TICK} columns, and has {width}.")
    cell_ns = _round_up(times.makespan_ns / room)
    num_cells = min(room, max(1, math.ceil(times.makespan_ns / cell_ns)))
    rows = {lane: [" "] * num_cells for lane in names}
    work_ns = times.end_ns - hold_ns(plan.ops, plan.gap_ns)
    labels = plan.ops.select(label=plan.ops["id"].fill_null(plan.ops["name"].cast(str)))["label"].to_list()
    start_ns = times.start_ns.copy()
    on_host = np.flatnonzero(plan.ops.get_column("kind") == "host")
    start_ns[on_host] = reached_ns(times, on_host)
    for i, lane in enumerate(plan.ops.select("rank", "stream").rows()):
        _draw(rows[lane], labels[i], int(start_ns[i]), int(work_ns[i]), int(times.end_ns[i]), cell_ns)
    ruler = "".join(
        f"{duration(at * cell_ns) if at else '0':{_CELLS_A_TICK}}" for at in range(0, num_cells, _CELLS_A_TICK)
    )
    lines = [f"{'time':{margin}}{ruler[:room]}"]
    lines += [f"{names[lane]:{margin}}{''.join(row)}" for lane, row in rows.items()]
    return "\n".join(line.rstrip() for line in lines)


def _draw(row: list[str], label: str, start_ns: int, work_ns: int, end_ns: int, cell_ns: int) -> None:
    first, work, last = start_ns // cell_ns, work_ns // cell_ns, -(-end_ns // cell_ns)
    bar = ["~" if first <= at < work else "-" for at in range(first, max(last, first + 1))]
    for at, character in enumerate(_cells(f"|{label}")[: len(bar)]):
        bar[at] = character
    if bar[-1] and _is_wide(bar[-1]):
        bar[-1] = "-"  # the other half of it has no room
    for at, character in enumerate(bar, start=first):
        if at < len(row):
            if not row[at] and character:  # half of the wide character before it goes
                row[at - 1] = "-"
            row[at] = character


def _cells(label: str) -> list[str]:
    """A label cell by cell: a wide character (CJK, emoji) takes two, the second empty; what breaks lines is a "?"."""
    cells: list[str] = []
    for character in label:
        cells += [character, ""] if _is_wide(character) else [character if character.isprintable() else "?"]
    return cells


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def _round_up(time_ns: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50 ... nanoseconds."""
    steps = (first * 10**power for power in range(19) for first in (1, 2, 5))
    return next(int(step) for step in steps if step >= time_ns)
