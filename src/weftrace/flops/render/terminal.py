"""What a model costs, in a terminal: the headline, the tree of modules, the dearest, operators, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.costs.cost import NOTHING, Phase, Status
from weftrace.facts import Hardware
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.render.facts import (
    exact_line,
    facts_of,
    flops_headline,
    headline_numbers,
    of_one,
    remarks_of,
    warnings_of,
)
from weftrace.flops.render.fold import TreeRow, repeated_modules, tree_rows, worst_of
from weftrace.flops.render.predictions import prediction_block
from weftrace.flops.values import FlopsReport
from weftrace.render.console_parts import BOLD, DIM, WARNING, frame, print_blocks, section, table
from weftrace.render.console_text import clean, joined
from weftrace.units import counted, duration, percent, si

MAX_WIDTH = 160
MAX_OPERATORS = 15
MAX_ROWS = 200


def print_flops(
    report: FlopsReport | Account,
    console: Console,
    *,
    depth: int | None = None,
    top: int = 5,
    hardware: Hardware | str | None = None,
) -> None:
    """Print a report.

    depth: levels of the tree below the root; None: all. top: rows of each table of the dearest modules. hardware: the
    accelerator whose peaks count; by default the one that was counted on, where weftrace knows it.
    Raises `WeftraceError` for a name that weftrace does not know.
    """
    account = account_of(report, hardware)
    width = min(console.width, MAX_WIDTH)
    blocks = _opening(account, width)
    if (summary := prediction_block(account, width)) is not None:
        blocks.append(summary)
    blocks += [*_phases(account, width), *_tree(account, width, depth)]
    if top:
        blocks += _dearest(account, width, top)
    blocks += [*_operators(account, width), *_missing(account)]
    print_blocks(blocks, console, width)
    console.print()
    console.print(Text(clean(exact_line(account)), style=DIM), width=width)


def _opening(account: Account, width: int) -> list[RenderableType]:
    title = joined([Text("weftrace flops", style=BOLD), *map(clean, facts_of(account))], " · ")
    lines: list[RenderableType] = []
    shown = headline_numbers(account)
    name_room = max(cell_len(number.label) for number in shown) + 2
    value_room = max(cell_len(number.value) for number in shown) + 2
    for number in shown:
        note = number.note if name_room + value_room + cell_len(number.note) <= width else ""
        lines.append(
            joined(
                [
                    Text(f"{number.label:{name_room}}"),
                    Text(f"{number.value:{value_room}}", style=BOLD),
                    Text(note, style=DIM),
                ]
            )
        )
        if number.note and not note:
            lines.append(Text(" " * 4 + number.note, style=DIM))
    blocks: list[RenderableType] = [title, Text(clean(flops_headline(account)), style=BOLD), Group(*lines)]
    if flags := warnings_of(account):
        blocks.append(frame("Numbers that cannot be right", [Text(clean(flag)) for flag in flags], WARNING))
    if account.coverage.unknown:
        names = [f"{clean(op.op)} ({counted(op.calls, 'call')})" for op in account.coverage.unknown]
        summary = [Text(", ".join(names)), Text("They add nothing to any total below.", style=DIM)]
        blocks.append(frame(f"{counted(len(names), 'operator')} without a formula", summary, WARNING))
    return blocks


def _phases(account: Account, width: int) -> list[RenderableType]:
    """The four totals and the bytes by phase."""
    totals, lines = account.totals, []
    heads = ["phase", "FLOP", "full att.", "executed", "vector", "bytes", "FLOP/B"]
    if account.timed:
        heads += ["time", "FLOP/s"]
    model = replace(totals.step, flops=totals.flops, full_flops=totals.full_flops)
    parts = [(str(phase), tally, account.times.by_phase.get(phase)) for phase, tally in totals.by_phase.items()]
    for name, tally, took in (*parts, ("step", model, account.step)):
        cells = [name, si(tally.flops), si(tally.full_flops), si(tally.executed_flops), si(tally.vector_flops)]
        cells += [si(tally.moved_bytes, "B"), "–" if tally.intensity is None else si(tally.intensity)]
        if account.timed:
            cells += _time_and_rate(account, None if took is None else took.typical, tally.executed_flops)
        lines.append(cells)
    note = "model FLOPs of the step are those of forward and backward" if len(totals.by_phase) > 1 else ""
    if account.timed and (summary := of_one(account, "FLOP/s: ")):
        note += f"; {summary}" if note else summary
    return [
        Group(
            section("Phases", note),
            _fitting(heads, lines, width, ("FLOP/B", "full att.", "bytes"), bold=len(lines) - 1),
        )
    ]


def _time_and_rate(account: Account, time_ns: int | None, executed: int) -> list[str]:
    rate = si(account.rate(executed, time_ns)) if time_ns and executed else "–"
    return ["–" if time_ns is None else duration(time_ns), rate]


def _tree(account: Account, width: int, depth: int | None) -> list[RenderableType]:
    rows = tree_rows(account, depth=depth)
    phases = [phase for phase in (Phase.FORWARD, Phase.BACKWARD) if phase in account.totals.by_phase]
    heads = ["module", "params", *(f"{phase} FLOP" for phase in phases), "vector", "bytes"]
    if account.timed:
        heads += ["time", "share", "FLOP/s"]
    else:
        heads += ["share"]
    if account.roofline is not None:
        heads += ["bound", "by"]
    lines = [_tree_line(account, row, phases) for row in rows[:MAX_ROWS]]
    about = "share: of the time of all modules" if account.timed else "nothing was timed; share: of the model FLOPs"
    about += of_one(account, "; FLOP/s: ") if account.timed else ""
    if any(len(row.members) > 1 for row in rows):
        about += "; ×n: equal siblings, together; below, the first one's parts"
    parts: list[RenderableType] = [
        section("Modules", about),
        _fitting(heads, lines, width, ("vector", "bytes", "by", "bound"), shorten=_shorten_tree),
    ]
    if len(rows) > MAX_ROWS:
        parts.append(Text(f"… and {len(rows) - MAX_ROWS:,} more rows: --depth shows fewer levels", style=DIM))
    return [Group(*parts)]


def _tree_line(account: Account, row: TreeRow, phases: Sequence[Phase]) -> list[str]:
    module = account.report.modules[row.first]
    number = len(row.members)
    name = "  " * row.depth + clean(row.label)
    name += f" ×{number}" if number > 1 else ""
    name += f" {clean(module.class_name)}" if module.class_name and row.depth else ""
    tally = NOTHING
    for index in row.members:
        tally = tally.plus(account.over_phases(account.inclusive, index))
    line = [name, si(sum(account.module_params[index].total for index in row.members))]
    line += [si(sum(account.inclusive.get((index, phase), NOTHING).flops for index in row.members)) for phase in phases]
    line += [si(tally.vector_flops), si(tally.moved_bytes, "B")]
    times = [time for index in row.members if (time := account.time_of(index)) is not None]
    whole = sum(account.time_of(root) or 0 for root in account.children[None])
    if account.timed:
        line += [duration(sum(times)) if times else "–", percent(sum(times) / whole if whole else None)]
        line += [si(account.rate(tally.executed_flops, sum(times))) if sum(times) and tally.executed_flops else "–"]
    else:
        model = account.totals.flops
        own = sum(account.inclusive.get((i, phase), NOTHING).flops for i in row.members for phase in phases)
        line += [percent(own / model if model else None)]
    if account.roofline is not None:
        bounds = [account.bound_of(index) for index in row.members]
        bound_ns, kind = sum(bound for bound, _ in bounds), bounds[0][1]
        line += [duration(bound_ns) if bound_ns else "–", kind or "–"]
    return line


def _dearest(account: Account, width: int, top: int) -> list[RenderableType]:
    """The modules that themselves take most time, FLOPs and bytes, and those furthest above their roofline."""
    indices = range(len(account.report.modules))
    own = {index: account.over_phases(account.exclusive, index) for index in indices}
    wanted: list[tuple[str, Callable[[int], float], Callable[[float], str]]] = [
        ("executed FLOPs", lambda index: own[index].executed_flops, lambda value: si(value, "FLOP")),
        ("bytes", lambda index: own[index].moved_bytes, lambda value: si(value, "B")),
    ]
    if account.timed:
        wanted.insert(0, ("time", lambda index: account.time_of(index, own=True) or 0, duration))
    blocks: list[RenderableType] = []
    groups = repeated_modules(account)
    for name, value, text in wanted:
        sums = sorted(((sum(map(value, members)), label) for label, members in groups), key=lambda pair: -pair[0])
        whole = sum(value for value, _ in sums)
        lines = [[clean(label), text(amount), percent(amount / whole)] for amount, label in sums[:top] if amount > 0]
        if lines:
            title = section(f"Most {name}", "outside children; equal modules together")
            blocks.append(Group(title, table(("module", name, "share"), lines, width, left=("module",))))
    lines = [
        [
            f"{clean(each.path)}, {each.phase}",
            *map(duration, (each.measured_ns, each.bound_ns, each.above_ns)),
            each.kind or "–",
        ]
        for each in worst_of(account, top)
    ]
    if lines:
        heads = ("module", "measured", "bound", "above", "by")
        title = section("Most time above the roofline", "measured minus the least that the device needs")
        blocks.append(Group(title, table(heads, lines, width, left=("module",))))
    return blocks


def _operators(account: Account, width: int) -> list[RenderableType]:
    rows = [*account.ops]
    unknown = [row for row in rows if row.status is Status.UNKNOWN]
    shown = [row for row in rows if row.status is not Status.UNKNOWN][:MAX_OPERATORS] + unknown
    lines = []
    for row in shown:
        missing = row.status is Status.UNKNOWN
        numbers_ = ["?", "?"] if missing else [si(row.tally.executed_flops), si(row.tally.vector_flops)]
        lines.append(
            [
                clean(row.op),
                str(row.phase),
                f"{row.tally.calls:,}",
                *numbers_,
                si(row.tally.moved_bytes, "B"),
                str(row.status),
            ]
        )
    heads = ["operator", "phase", "calls", "FLOP", "vector", "bytes", "status"]
    parts: list[RenderableType] = [
        section("Operators", "executed FLOPs, most first"),
        _fitting(heads, lines, width, ("bytes", "vector"), left=("operator", "phase", "status")),
    ]
    if len(rows) > len(shown):
        parts.append(Text(f"… and {len(rows) - len(shown):,} more in the JSON and on the page", style=DIM))
    return [Group(*parts)] if lines else []


def _missing(account: Account) -> list[RenderableType]:
    return [
        Group(section(title), *(Text(f"- {clean(line)}") for line in lines))
        for title, lines in remarks_of(account)
        if lines
    ]


# --- shared --------------------------------------------------------------------------------------------------------


def _fitting(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    width: int,
    least: Sequence[str],
    *,
    bold: int | None = None,
    left: Sequence[str] = (),
    shorten: Callable[[str, int], str] | None = None,
) -> RenderableType:
    """A table without those columns of `least`, first ones first, that leave no room for the first column's names."""
    wanted = min(max((cell_len(line[0]) for line in lines), default=0), max(24, width // 3))
    columns = list(range(len(heads)))

    def room() -> int:
        return width - sum(max(cell_len(row[c]) for row in (heads, *lines)) + 2 for c in columns[1:])

    for name in least:
        if room() < wanted and name in heads:
            columns.remove(heads.index(name))
    more: dict[str, Any] = {} if shorten is None else {"shorten": shorten}
    return table(
        [heads[c] for c in columns],
        [[line[c] for c in columns] for line in lines],
        width,
        left=left or (heads[0],),
        bold=bold,
        **more,
    )


def _shorten_tree(text: str, room: int) -> str:
    """A row of the tree cut at its end: the indent and the name are at its start."""
    return text if cell_len(text) <= room else f"{text[: max(room - 1, 0)]}…"
