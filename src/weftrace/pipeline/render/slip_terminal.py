"""A slip in a terminal; a saved one prints the same."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.pipeline.plan_vs_measured.document import ActionRow, SlipReport
from weftrace.render.console_parts import DIM, notes_block, opening, print_blocks, section, table
from weftrace.units import percent, signed, unit_for

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
        *_outliers(report, width),
        _path(report, width),
        *_steps(report, width),
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
    rests = "the plan's costs" if report.costs_from == "plan" else "the step's own medians per kind and stage"
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
    """Planned beside measured; where the plan is of the medians, the median beside the longest."""
    rows = report.ops[:MAX_OPS]
    of_plan = report.costs_from == "plan"
    usual = [row.measured_ns if row.usual_ns is None else row.usual_ns for row in rows]
    pairs = [(row.planned_ns, at) if of_plan else (at, row.longest_ns) for row, at in zip(rows, usual, strict=True)]
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
    names = ("planned", "measured") if of_plan else ("median", "longest")
    heads = ("actions", "rank", "number", f"{names[0]}, {unit.name}", names[1], "")
    first = "those that took most longer in sum first" if of_plan else "largest gap between longest and median first"
    note = f"of one kind, stage and rank{': medians over micro-batches' if of_plan else ''}; {first}"
    return Group(section("Actions", note), table(heads, lines, width, left=heads[:1]))


def _outliers(report: SlipReport, width: int) -> list[RenderableType]:
    """Rare events, by name."""
    if not report.outliers:
        return []
    unit = unit_for(report.outliers[0].took_ns)
    lines = [
        [row.action, str(row.rank), unit(row.usual_ns), unit(row.took_ns), unit.signed(row.longer_ns),
         f"{row.num_peers:,}", "yes" if row.on_path else "no"]
        for row in report.outliers
    ]  # fmt: skip
    heads = ("action", "rank", f"median, {unit.name}", "took", "longer", "peers", "on the path")
    note = "much longer than others of the same rank, kind and stage"
    return [Group(section("Outliers", note), table(heads, lines, width, left=heads[:1]))]


def _steps(report: SlipReport, width: int) -> list[RenderableType]:
    """All recorded steps, each beside its forecast."""
    if len(report.steps) < 2:
        return []
    rows = report.steps[:MAX_RANKS]
    measured = [row.measured_ns for row in report.steps]
    unit = unit_for(max(measured))
    forecasts = ["–" if row.forecast_ns is None else unit(row.forecast_ns) for row in rows]
    lines = [
        [str(row.step), unit(row.measured_ns), forecast, signed(row.error)]
        for row, forecast in zip(rows, forecasts, strict=True)
    ]
    errors = [abs(row.error) for row in report.steps if row.error is not None]
    note = f"{unit(min(measured))} to {unit(max(measured))} {unit.name}"
    if errors:
        note += f"; each forecast from the costs of the others: {percent(sum(errors) / len(errors))} off in the mean"
    heads = ("step", f"measured, {unit.name}", "forecast", "")
    parts: list[RenderableType] = [section("Steps", note), table(heads, lines, width)]
    if left := len(report.steps) - len(rows):
        parts.append(Text(f"… and {left:,} more in the JSON", style=DIM))
    return [Group(*parts)]


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
