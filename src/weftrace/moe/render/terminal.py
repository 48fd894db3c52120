"""A simulated profile in a terminal: what it loses, how it was made, its lanes, its phases, its ranks."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.derived.late_ranks import RankRow
from weftrace.moe.derived.phase_times import PhaseRow
from weftrace.moe.profiles import Profile
from weftrace.moe.render.view import ProfileView, profile_view
from weftrace.moe.render.words import first_view, headline, rank_words, shape
from weftrace.render.configuration import in_words
from weftrace.render.console_parts import BOLD, DIM, print_blocks, rows_table, section, settings_table, table
from weftrace.render.console_text import clean, joined
from weftrace.render.lanes_text import print_lanes
from weftrace.units import counted, percent, unit_for

MAX_WIDTH = 140
MAX_RANKS = 8


def print_profile(profile: Profile, console: Console) -> None:
    """Print a simulated profile. Width: all of the console's up to 140 columns."""
    summary, width = profile_view(profile), min(console.width, MAX_WIDTH)
    title = joined([Text("weftrace profile", style=BOLD), clean(profile.plan.name)], " · ")
    opening: list[RenderableType] = [Group(title, Text(shape(summary), style=DIM)), Text(headline(summary), style=BOLD)]
    opening += [settings_table(in_words(summary.configuration), width)]
    print_blocks(opening, console, width)
    console.print()
    start, end = first_view(summary)
    print_lanes(summary.picture, console, width, start_ns=start, end_ns=end)
    console.print()
    print_blocks(_closing(summary, width), console, width)


def _closing(summary: ProfileView, width: int) -> list[RenderableType]:
    blocks = [_layer(summary, width), _tokens(summary), _phases(summary, width)]
    if summary.ranks.height > 1:
        blocks.append(_ranks(summary, width))
    return blocks


def _layer(summary: ProfileView, width: int) -> RenderableType:
    """A layer and its parts, which add up to it."""
    unit = unit_for(round(summary.layer_ns))
    parts = [("computes", summary.compute_ns), ("exposed communication", summary.exposed_ns), ("idle", summary.idle_ns)]
    lines = [[name, unit(time_ns), percent(time_ns / (summary.layer_ns or 1))] for name, time_ns in parts]
    lines.append(["a layer", unit(summary.layer_ns), ""])
    return Group(
        section("Where a layer goes"), table(("part", unit.name, "share"), lines, width, left=("part",), bold=3)
    )


def _tokens(summary: ProfileView) -> RenderableType:
    rates = summary.throughput
    line = f"{rates.tokens_per_gpu:,.0f} per GPU, {rates.tokens_per_node:,.0f} per node of {rates.gpus_per_node}"
    return Group(
        section("Tokens per second"), Text(line, style=BOLD), *(Text(text, style=DIM) for text in rates.assumed)
    )


def _phases(summary: ProfileView, width: int) -> RenderableType:
    rows = summary.phases.to_dicts()
    names = ["phase", "micro_batch", "busy_ns", "hidden_ns", "exposed_ns"]
    if summary.phases.get_column("micro_batch").n_unique() < 2:
        names.remove("micro_batch")
    num = int(rows[0]["num_layers"]) if rows else 0
    inner = ", without the first and the last" if num != summary.profile.setting.num_layers else ""
    note = f"means of {counted(num, 'layer')}{inner}"
    bases = [
        Text(clean(f"{', '.join(phases)}: {basis}" if len(summary.bases()) > 1 else basis), style=DIM)
        for basis, phases in summary.bases()
    ]
    unit = unit_for(round(max((row["busy_ns"] for row in rows), default=0)))
    return Group(section("Phases of a layer", note), rows_table(PhaseRow, rows, width, names, unit=unit), *bases)


def _ranks(summary: ProfileView, width: int) -> RenderableType:
    if not summary.ranks.get_column("waiting_ns").sum():
        return Group(section("Ranks"), Text(rank_words(summary)))
    first = summary.ranks.head(MAX_RANKS).to_dicts()
    rows = rows_table(
        RankRow, first, width, ["rank", "compute_ns", "communication_ns", "waiting_ns", "last_in"],
        unit=unit_for(max(summary.ranks.get_column("compute_ns").to_list())),
        cells={"last_in": lambda row: f"{row['last_in']:,} of {row['meets']:,}"},
    )  # fmt: skip
    left = summary.ranks.height - len(first)
    note = "waited for most first" + (f"; {left:,} more in the JSON and on the page" if left else "")
    return Group(section("Ranks", note), Text(rank_words(summary)), rows)
