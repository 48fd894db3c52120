"""A slip in a terminal; a saved one prints the same."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.pipeline.plan_vs_measured.document import ActionRow, SlipReport
from weftrace.render.console_parts import DIM, notes_block, opening, print_blocks, section, table
from weftrace.units import signed, unit_for

MAX_WIDTH = 140
MAX_RANKS = 32
MAX_OPS = 8
_BAR = 13


def print_slip(report: SlipReport, console: Console) -> None:
    """Print a slip: planned and measured, the causes, the ranks, what differs most."""
    width = min(console.width, MAX_WIDTH)
    of = "of" if report.step < report.num_steps else "of those recorded, which are"  # a timeline numbers its own
    step = f"step {report.step}" + (f" {of} {report.num_steps}" if report.num_steps > 1 else "")
    blocks: list[RenderableType] = [
        *opening("pipeline slip", (report.schedule, report.source, step), report.headline),
        _causes(report, width),
        _ranks(report, width),
        _ops(report, width),
        _path(report, width),
        *notes_block(report.notes),
    ]
    print_blocks(blocks, console, width)


def _causes(report: SlipReport, width: int) -> RenderableType:
    unit = unit_for(report.measured_ns)
    causes = report.causes
    lines = [
        ["planned" if report.costs_from == "plan" else "predicted", unit(report.planned_ns)],
        ["actions took longer", unit.signed(causes.own_ns)],
        ["messages took longer", unit.signed(causes.p2p_ns)],
        ["between actions", unit.signed(causes.between_ns)],
        ["less what the plan had to spare", unit.signed(-causes.slack_ns)],
        ["measured", unit(report.measured_ns)],
    ]
    rests = "the plan's costs" if report.costs_from == "plan" else "the step's own means per kind and stage"
    heads = (f"along the critical path, {unit.name}", "")
    return Group(section("Slip", f"planned times from {rests}"), table(heads, lines, width, left=heads[:1], bold=5))


def _ranks(report: SlipReport, width: int) -> RenderableType:
    unit = unit_for(report.measured_ns)
    rows = report.ranks[:MAX_RANKS]
    whole = report.measured_ns or 1
    lines = []
    for row in rows:
        busy = round(_BAR * row.busy_ns / whole)
        waited = "–" if row.waited_ns is None else unit(row.waited_ns)
        lines.append(
            [
                str(row.rank),
                "█" * busy + "░" * (_BAR - busy),
                unit(row.idle_ns),
                unit(row.planned_idle_ns),
                unit(row.idle_span_ns),
                waited,
                *(unit.signed(getattr(row, name)) for name in ("own_ns", "p2p_ns", "between_ns")),
            ]
        )
    heads = ("rank", "█ busy ░ idle", "idle", "planned", "span", "waited", "own", "p2p", "between")
    note = (
        f"{unit.name}; idle: the bubble with a barrier; span: with the rank's own first and last action as its ends; "
        "own, p2p, between: of the slip, on this rank"
    )
    parts: list[RenderableType] = [section("Ranks", note), table(heads, lines, width, left=("rank", "█ busy ░ idle"))]
    if left := len(report.ranks) - len(rows):
        parts.append(Text(f"… and {left:,} more in the JSON", style=DIM))
    return Group(*parts)


def _ops(report: SlipReport, width: int) -> RenderableType:
    """Planned beside measured; where the plan is of the means, the mean beside the longest."""
    rows = report.ops[:MAX_OPS]
    of_plan = report.costs_from == "plan"
    pairs = [(row.planned_ns, row.measured_ns) if of_plan else (row.measured_ns, row.longest_ns) for row in rows]
    unit = unit_for(max((after for _, after in pairs), default=0))
    lines = [
        [
            _named(row),
            str(row.rank),
            f"{row.count:,}",
            unit(before),
            unit(after),
            signed(after / before - 1 if before else None),
        ]
        for row, (before, after) in zip(rows, pairs, strict=True)
    ]
    names = ("planned", "measured") if of_plan else ("mean", "longest")
    heads = ("actions", "rank", "number", f"{names[0]}, {unit.name}", names[1], "")
    first = "those that took most longer in sum first" if of_plan else "largest gap between longest and mean first"
    note = f"of one kind, stage and rank{': means over micro-batches' if of_plan else ''}; {first}"
    return Group(section("Actions", note), table(heads, lines, width, left=heads[:1]))


def _named(row: ActionRow) -> str:
    return f"stage {row.stage} {row.kind}" if row.back_stage is None else f"{row.stage}F & {row.back_stage}B"


def _path(report: SlipReport, width: int) -> RenderableType:
    """What added most, in the order of the path."""
    path = report.path

    def added(at: int) -> int:
        return max(abs(path[at].own_ns), abs(path[at].p2p_ns), abs(path[at].between_ns))

    largest = [path[at] for at in sorted(sorted(range(len(path)), key=added, reverse=True)[:MAX_OPS])]
    unit = unit_for(max((added(at) for at in range(len(path))), default=0))
    waits = {"start": "nothing", "rank": "its rank", "input": "a message"}
    lines = [
        [
            row.action,
            str(row.rank),
            waits[row.reason],
            *(unit.signed(getattr(row, name)) for name in ("own_ns", "p2p_ns", "between_ns")),
            unit(row.slack_ns),
        ]
        for row in largest
    ]
    heads = ("action", "rank", "waited for", f"own, {unit.name}", "p2p", "between", "slack")
    note = f"{len(path):,} actions; those that added most, in their order"
    return Group(section("Critical path", note), table(heads, lines, width, left=("action", "waited for")))
