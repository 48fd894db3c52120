"""A sweep in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.files.values import to_document
from weftrace.moe.sweeps.break_even import Pays
from weftrace.moe.sweeps.many_settings import Sweep, SweepRow, named
from weftrace.moe.sweeps.summaries import Summary
from weftrace.render.console_parts import DIM, opening, print_blocks, rows_table, section
from weftrace.render.console_text import clean, shorten_middle
from weftrace.units import counted, percent, unit_for

MAX_WIDTH = 140
MAX_ROWS = 60
_WIDEST_HEAD = 8  # what a first column has at least
MAX_NAMED = 3
MAX_ASSUMED = 6
_LIMITS = {"compute": "compute", "communication": "comm.", "fused": "fused", "ranks": "ranks"}


def print_sweep(sweep: Sweep, console: Console) -> None:
    """Print the fastest combination, all of them ranked, and what is impossible."""
    width, ranked = min(console.width, MAX_WIDTH), sweep.ranked
    blocks = opening_of("sweep", sweep)
    if ranked:
        blocks.append(_ranked(list(sweep.axes), ranked, width))
        blocks.append(assumed_in({named(row): row.summary.assumed for row in ranked if row.summary}))
    if sweep.impossible:
        blocks.append(_impossible(sweep.impossible))
    print_blocks(blocks, console, width)


def opening_of(name: str, found: Sweep | Pays) -> list[RenderableType]:
    """The command, what all profiles have alike, and the headline."""
    shared = ", ".join(f"{name} {value}" for name, value in found.shared.items())
    return opening(f"profile {name}", [shared], found.headline)


def _ranked(axes: list[str], rows: Sequence[SweepRow], width: int) -> RenderableType:
    summaries = [row.summary for row in rows if row.summary]
    unit = unit_for(max(round(each.layer_ns) for each in summaries))
    flat = [
        {**to_document(each), **{name: str(value) for name, value in row.values.items()}}
        for row, each in zip(rows[:MAX_ROWS], summaries, strict=False)
    ]

    def exposed(row: dict[str, Any]) -> str:
        return "–" if row["exposed_ns"] is None else percent(row["exposed_ns"] / (row["layer_ns"] or 1))

    table = rows_table(
        Summary, flat, width,
        [*axes, "tokens_per_gpu", "layer_ns", "communication_ns", "exposed_ns", "limit", "without_limit_ns"],
        heads={**{name: shorten_middle(name, _WIDEST_HEAD) for name in axes}, "layer_ns": "layer",
               "communication_ns": "comm.", "limit": "limit", "without_limit_ns": "without"},
        cells={"tokens_per_gpu": lambda row: f"{row['tokens_per_gpu']:,.0f}", "exposed_ns": exposed,
               "limit": lambda row: _LIMITS[row["limit"]]},
        left=[shorten_middle(name, _WIDEST_HEAD) for name in axes], unit=unit,
    )  # fmt: skip
    keys = (
        f"tokens/s: of a GPU; times in {unit.name}; comm.: communication of a layer; exposed: of it under no "
        "computation, share of the layer (–: it is inside a fused kernel); limit: without which the "
        "layer would be shortest, and how short"
    )
    notes = [Text(keys, style=DIM)]
    costs = sorted({each.costs for each in summaries})
    notes.append(Text(clean(f"costs: {'; '.join(costs)}; all layers alike"), style=DIM))
    if len(rows) > MAX_ROWS:
        notes.append(Text(f"and {len(rows) - MAX_ROWS} slower ones", style=DIM))
    return Group(section("Combinations", "fastest first"), table, *notes)


def assumed_in(by_name: Mapping[str, Sequence[str]]) -> RenderableType:
    """What prices assume, each once, of all or of the first that does; the rest is in the documents."""
    resting: dict[str, list[str]] = {}
    for name, assumed in by_name.items():
        for text in assumed:
            resting.setdefault(text.removeprefix("assumed: "), []).append(name)
    lines = []
    for text, names in list(resting.items())[:MAX_ASSUMED]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        whose = "" if len(names) == len(by_name) else f"  {names[0]}{more}"
        lines.append(Text.assemble(clean(text), (clean(whose), DIM)))
    if len(resting) > MAX_ASSUMED:
        lines.append(Text(f"and {len(resting) - MAX_ASSUMED} more, in the document (--json)", style=DIM))
    return Group(section("Assumed", "by the costs"), *lines) if lines else Text("nothing is assumed", style=DIM)


def _impossible(rows: Sequence[SweepRow]) -> RenderableType:
    """Each reason once, with the combinations that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(named(row))
    lines = []
    for reason, names in by_reason.items():
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        lines.append(Text.assemble(clean(reason), (clean(f"  {'; '.join(names[:MAX_NAMED])}{more}"), DIM)))
    return Group(section("Impossible here", counted(len(rows), "combination")), *lines)
