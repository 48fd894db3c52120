"""A sweep in a terminal; drawn from its document, so a saved JSON prints the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.sweeps.document import SweepDocument
from weftrace.render.console_parts import BOLD, DIM, Unit, print_blocks, section, table, unit_for
from weftrace.render.console_text import clean, joined, shorten_middle
from weftrace.units import counted, percent

MAX_WIDTH = 140
MAX_ROWS = 60
_WIDEST_HEAD = 8  # what a first column has at least
MAX_NAMED = 3
MAX_ASSUMED = 6
_LIMITS = {"compute": "compute", "communication": "comm.", "fused": "fused", "ranks": "ranks"}


def print_sweep(document: SweepDocument, console: Console) -> None:
    """Print a `weftrace.profile.sweep/1` document: the fastest, the combinations ranked, what is impossible."""
    width = min(console.width, MAX_WIDTH)
    rows: list[Mapping[str, Any]] = [dict(row) for row in document["rows"]]  # type: ignore[call-overload]
    possible = sorted((row for row in rows if row["summary"]), key=lambda row: -row["summary"]["tokens_per_gpu"])
    impossible = [row for row in rows if not row["summary"]]
    shared = ", ".join(f"{name} {value}" for name, value in document["shared"].items())
    blocks: list[RenderableType] = [
        joined([Text("weftrace profile sweep", style=BOLD), clean(shared)], " · "),
        Text(clean(document["headline"]), style=BOLD),
    ]
    if possible:
        blocks.append(_ranked(list(document["axes"]), possible, width))
        blocks.append(assumed_in({_named(row): row["summary"]["assumed"] for row in possible}))
    if impossible:
        blocks.append(_impossible(impossible))
    print_blocks(blocks, console, width)


def _ranked(axes: list[str], rows: list[Mapping[str, Any]], width: int) -> RenderableType:
    unit = unit_for(max(round(row["summary"]["layer_ns"]) for row in rows))
    shown = [shorten_middle(name, _WIDEST_HEAD) for name in axes]
    heads = [*shown, "tokens/s", "layer", "comm.", "exposed", "limit", "without"]
    lines = [
        [
            *(str(row["values"][name]) for name in axes),
            f"{row['summary']['tokens_per_gpu']:,.0f}",
            unit(round(row["summary"]["layer_ns"])),
            *_communication(row["summary"], unit),
            _LIMITS[row["summary"]["limit"]],
            unit(round(row["summary"]["without_limit_ns"])),
        ]
        for row in rows[:MAX_ROWS]
    ]
    keys = (
        f"tokens/s: of a GPU; times in {unit.name}; comm.: communication of a layer; exposed: of it under no "
        "computation, share of the layer (–: it is inside a fused kernel); limit: without which the "
        "layer would be shortest, and how short"
    )
    notes = [Text(keys, style=DIM)]
    costs = sorted({row["summary"]["costs"] for row in rows})
    notes.append(Text(clean(f"costs: {'; '.join(costs)}; all layers alike"), style=DIM))
    if len(rows) > MAX_ROWS:
        notes.append(Text(f"and {len(rows) - MAX_ROWS} slower ones", style=DIM))
    return Group(section("Combinations", "fastest first"), table(heads, lines, width, left=shown), *notes)


def _communication(summary: Mapping[str, Any], unit: Unit) -> tuple[str, str]:
    """Dashes where a fused kernel holds it: nothing then says how much there is."""
    if summary["communication_ns"] is None:
        return "–", "–"
    return unit(summary["communication_ns"]), percent(summary["exposed_ns"] / (summary["layer_ns"] or 1))


def assumed_in(by_name: Mapping[str, Sequence[str]]) -> RenderableType:
    """What prices assume, each once, of all or of the first that does; the rest is in the documents."""
    told: dict[str, list[str]] = {}
    for name, assumed in by_name.items():
        for text in assumed:
            told.setdefault(text.removeprefix("assumed: "), []).append(name)
    lines = []
    for text, names in list(told.items())[:MAX_ASSUMED]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        whose = "" if len(names) == len(by_name) else f"  {names[0]}{more}"
        lines.append(Text.assemble(clean(text), (clean(whose), DIM)))
    if len(told) > MAX_ASSUMED:
        lines.append(Text(f"and {len(told) - MAX_ASSUMED} more, in the document (--json)", style=DIM))
    return Group(section("Assumed", "by the costs"), *lines) if lines else Text("nothing is assumed", style=DIM)


def _impossible(rows: list[Mapping[str, Any]]) -> RenderableType:
    """Each reason once, with the combinations that it is told of."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row["reason"], []).append(_named(row))
    lines = []
    for reason, names in by_reason.items():
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        lines.append(Text.assemble(clean(reason), (clean(f"  {'; '.join(names[:MAX_NAMED])}{more}"), DIM)))
    return Group(section("Impossible here", counted(len(rows), "combination")), *lines)


def _named(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row["values"].items())
