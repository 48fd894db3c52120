"""A comparison of pipeline schedules in a terminal; drawn from its document, so a saved JSON prints the same."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.pipeline.comparing.document import ComparisonDocument
from weftrace.pipeline.render.comparison_words import (
    comparison_headline,
    costs_in,
    formulas,
    law_cell,
    setting,
    shares,
    time_in,
)
from weftrace.render.console_parts import BOLD, DIM, print_blocks, section, table
from weftrace.render.console_text import clean, joined
from weftrace.units import percent

MAX_WIDTH = 140


def print_comparison(document: ComparisonDocument, console: Console) -> None:
    """Print a `weftrace.pipeline.comparison/1` document: the best, the table, the laws, what is impossible."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        joined([Text("weftrace pipeline compare", style=BOLD), clean(setting(document))], " · "),
        Text(clean(comparison_headline(document)), style=BOLD),
    ]
    if document["rows"]:
        blocks += [_schedules(document, width), _laws(document)]
    if document["impossible"]:
        lines = [Text(clean(row["reason"])) for row in document["impossible"]]
        blocks.append(Group(section("Impossible here"), *lines))
    print_blocks(blocks, console, width)


def _schedules(document: ComparisonDocument, width: int) -> RenderableType:
    unit = document["unit_ns"]
    heads = ["", "step", "idle", "bubble", "law", "off", "published", "act.", "param.", "devices"]
    lines = [
        [
            row["title"] + ("" if row["fits"] else " (no room)"),
            time_in(row["step_ns"], unit),
            percent(row["bubble_share"]),
            time_in(row["bubble_ns"], unit),
            "–" if row["exact"] is None else time_in(row["exact"]["bubble_ns"], unit),
            "–" if row["exact"] is None else time_in(row["exact"]["difference_ns"], unit),
            law_cell(row["published"], unit),
            shares(row["peak_activations"]),
            shares(row["parameters"]) + "x",
            str(row["num_devices"]),
        ]
        for row in document["rows"]
    ]
    if document["equal"] == "devices":
        heads, lines = heads[:-1], [line[:-1] for line in lines]
    told = Text(costs_in(document), style=DIM)
    keys = (
        "law: of the bubble, exact; off: law less simulation; *: the published law is not so here; act.: activations"
        " held at most"
    )
    return Group(
        section("Schedules", "least idle first"), told, table(heads, lines, width, left=[""]), Text(keys, style=DIM)
    )


def _laws(document: ComparisonDocument) -> RenderableType:
    lines = [section("Laws of the bubble", "of the device that idles most, without messages")]
    for row in document["rows"]:
        for which, formula, holding in formulas(row):
            lines.append(Text.assemble((f"{row['title']}, {which}: ", DIM), clean(formula), (f"  {holding}", DIM)))
    return Group(*lines)
