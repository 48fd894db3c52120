"""One rank in the terminal, section by section. A section that the document has nothing for is left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from weftrace.analysis.hidden_communication import CollectiveRow
from weftrace.analysis.kernel_times import KernelRow, UnnamedRow
from weftrace.analysis.operator_times import OperatorRow
from weftrace.analysis.phase_times import PhaseMeanRow
from weftrace.analysis.rank_tables import TABLES
from weftrace.render import palette
from weftrace.render.configuration import in_words
from weftrace.render.console_parts import BOLD, DIM, plain_grid, rows_table, section, settings_table, table
from weftrace.render.console_text import clean, kernel_label, shorten_middle
from weftrace.render.memory_blocks import memory_blocks
from weftrace.report.document_types import RankDocument, StepDocument
from weftrace.report.render.parts import ACCOUNT_HEADS, ACCOUNT_KEYS, PARTS
from weftrace.report.render.terminal_code import code_blocks
from weftrace.report.render.terminal_efficiency import efficiency_block
from weftrace.report.render.terminal_idle import idle_block, unrecorded_ns
from weftrace.report.render.terminal_quality import quality_frame, quality_line
from weftrace.units import Unit, adding_up, counted, duration, percent, unit_for

TOP_KERNELS = 12
TOP_OPERATORS = 6
TOP_UNNAMED = 5
MAX_PHASES = 20
MAX_MATRIX_ROWS = 12
MAX_STEPS = 16
MAX_STREAMS = 8
MAX_TABLE_ROWS = 12
MAX_SETTINGS = 24

#: Columns of the table of steps that are left out where they are empty; on a narrow console there is room for one.
_APART: tuple[tuple[Literal["from_other_steps_ns", "spilled_ns"], str, str], ...] = (
    ("from_other_steps_ns", "others'", "time of the span in which work of other steps, or of no step, ran"),
    ("spilled_ns", "spilled", "time after the window in which work of the step ran"),
)

_FILLS = "█▒▞░"  # of the parts of the bar, in their order


def rank_blocks(rank: RankDocument, width: int) -> list[RenderableType]:
    blocks: list[RenderableType | None] = [quality_frame(rank)]
    if rank["basis"] == "none" or not rank["span_ns"]:
        text = "This file has no work to report: no device events and no host operators."
        return [block for block in (*blocks, Text(text), quality_line(rank)) if block is not None]
    blocks += [
        _span(rank, width),
        _accounts(rank),
        efficiency_block(rank, width),
        _configuration(rank, width),
        _flops(rank, width),
        *code_blocks(rank, width),
        _collectives(rank, width),
        _phase_means(rank, width),
        _matrix(rank, width),
        _kernels(rank, width),
        _operators(rank, width),
        _unnamed(rank, width),
        idle_block(rank, width),
        _launch(rank),
        *_tables(rank, width),
        *(block for use in rank.get("memory", []) for block in memory_blocks(use, width)),
        _steps(rank, width),
        quality_line(rank),
    ]
    return [block for block in blocks if block is not None]


def _span(rank: RankDocument, width: int) -> RenderableType:
    """The bar and its parts, all in one unit, rounded so that they add up to the span."""
    span = rank["span_ns"]
    parts = [(name, rank[key], fill, colour) for (key, name, colour), fill in zip(PARTS, _FILLS, strict=True)]
    bar, at, column = Text(), 0, 0
    for _, time_ns, fill, colour in parts:
        at += time_ns
        until = round(at / span * width)
        bar.append(fill * (until - column), style=Style(color=colour))
        column = until
    unit = unit_for(span)
    grid = plain_grid(*({"justify": justify, "no_wrap": True} for justify in ("left", "left", "right", "right")))

    def line(swatch: Text, name: str, text: str, time_ns: int, style: Style | str = "") -> None:
        share = Text(percent(time_ns / span))
        grid.add_row(swatch, Text(name, style=style), Text(f"{text} {unit.name}", style=style), share)

    absent = {"exposed communication": not rank["communication_ns"], "exposed memory": not rank["memory_ns"]}
    shown = adding_up((time_ns for _, time_ns, _, _ in parts), unit)
    for (name, time_ns, fill, colour), text in zip(parts, shown, strict=True):
        if not absent.get(name):
            line(Text(fill * 2, style=Style(color=colour)), name, text, time_ns)
        if name == "compute" and (fused := rank["fused_ns"]):
            line(Text(), "  fused kernels", unit(fused), fused)
        if name == "idle" and (unrecorded := unrecorded_ns(rank)):
            line(Text(), "  unrecorded", unit(unrecorded), unrecorded)
    line(Text(), "span", unit(span), span, BOLD)
    sms = f"{rank['num_sms']} {rank['sm_unit']}" if rank["num_sms"] else ""
    about = filter(None, [clean(rank["device_name"]), sms, _step_name(rank)])
    return Group(section("Where the time went", " · ".join(about)), bar, grid)


def _accounts(rank: RankDocument) -> RenderableType:
    """Communication, overlap, headroom and streams, a line of facts each."""
    grid = plain_grid({"no_wrap": True}, {"overflow": "fold"})

    def tell(name: str, text: str) -> None:
        grid.add_row(Text(name, style=BOLD), Text(text))

    span = rank["span_ns"]
    if total := rank["communication_ns"]:
        hidden, exposed = duration(rank["hidden_communication_ns"]), duration(rank["exposed_communication_ns"])
        tell("communication", f"{duration(total)}: {hidden} hidden ({hidden_share(rank)}), {exposed} exposed")
        if barrier := rank["barrier_ns"]:
            waits = f"{duration(barrier)} ({percent(barrier / total)}) only notify or wait"
            tell("", f"{duration(rank['data_ns'])} move data, {waits}")
    else:
        tell("communication", "none ran, so there is no hidden share")
    if fused := rank["fused_ns"]:
        tell("fused", f"{duration(fused)} in kernels that compute and communicate in one; it cannot be separated")
    if speedup := rank["overlap_speedup"]:
        times = f"{duration(rank['serial_ns'])} of work in {duration(rank['busy_ns'])}"
        tell("overlap", f"{times}: {speedup:.2f}× as fast")
    headroom = rank["headroom"]
    ideal = duration(headroom["ideal_ns"])
    bound = f"at best {ideal}, bound by {'the longest chain' if headroom['bound_by'] == 'chain' else 'compute'}"
    if headroom["bound_by"] == "communication":  # NCCL waits for other ranks inside its kernels
        bound = f"communication alone took {ideal}, including waits for other ranks, so there is no bound"
    saved = f"{duration(headroom['headroom_ns'])} ({percent(headroom['headroom_ns'] / span)})"
    tell("headroom", f"{saved} by overlap alone, with idle time filled; {bound}")
    if headroom["assumption"]:
        tell("", clean(headroom["assumption"]))
    for place, stream in enumerate(rank["streams"][:MAX_STREAMS]):
        busy = f"{duration(stream['busy_ns'])} busy ({percent(stream['busy_ns'] / span)})"
        text = f"{clean(stream['kind'])}, {busy}, {counted(stream['num_events'], 'event')}"
        tell("" if place else "streams", f"{clean(stream['stream'])}  {text}")
    if (left := len(rank["streams"]) - MAX_STREAMS) > 0:
        tell("", f"… and {left:,} more")
    return grid


def _configuration(rank: RankDocument, width: int) -> RenderableType | None:
    """How the trace was made, where it says so."""
    if "configuration" not in rank:
        return None
    summary = list(in_words(rank["configuration"]).items())
    body = settings_table(dict(summary[:MAX_SETTINGS]), width)
    left = len(summary) - MAX_SETTINGS
    more = [Text(f"… and {left:,} more, in the JSON report", style=DIM)] if left > 0 else []
    return Group(section("Configuration", "as recorded in the trace"), body, *more)


def _flops(rank: RankDocument, width: int) -> RenderableType | None:
    if "flops" not in rank:
        return None
    from weftrace.flops.render.rank import flops_block  # only where a report of FLOPs was joined

    return flops_block(rank, width)


def _collectives(rank: RankDocument, width: int) -> RenderableType | None:
    rows = rank["collectives"]
    if not rows:
        return None
    with_barrier = any(row["barrier_ns"] for row in rows)
    with_bandwidth = any(row["algbw_GBps"] is not None for row in rows)
    unit = unit_for(rank["span_ns"])
    names = ["collective", "num_events", "busy_ns", "hidden_ns", "exposed_ns"]
    names += ["barrier_ns"] * with_barrier + ["algbw_GBps", "busbw_GBps"] * with_bandwidth
    body = rows_table(
        CollectiveRow, rows, width, names, heads={"num_events": "count"}, unit=unit,
        cells={
            "hidden_ns": lambda row: percent(row["hidden_ns"] / row["busy_ns"] if row["busy_ns"] else None),
            "algbw_GBps": lambda row: _rate(row["algbw_GBps"]),
            "busbw_GBps": lambda row: _rate(row["busbw_GBps"]),
        },
    )  # fmt: skip
    return Group(section("Collectives", "algbw and busbw include waiting" if with_bandwidth else ""), body)


def _phase_means(rank: RankDocument, width: int) -> RenderableType | None:
    rows = rank["phase_means"]
    if not rows:
        return None
    sms = {phase["name"]: f"{phase['sms']}" for phase in rank["phases"] if phase["sms"]}
    kept = sorted(rows, key=lambda row: -row["mean_busy_ns"] * row["count"])[:MAX_PHASES]
    unit = unit_for(max(row["mean_busy_ns"] for row in kept))
    moves = ("mean_data_ns", "mean_hidden_ns", "mean_exposed_ns")
    shown = moves if any(row["lane"] == "communication" for row in kept) else ()
    body = rows_table(
        PhaseMeanRow, [row for row in rows if row in kept], width,
        ["name", "lane", "count", "mean_busy_ns", *shown, *["sms"] * bool(sms)],
        heads={"count": "count", "mean_busy_ns": "busy", "sms": rank["sm_unit"]}, left=("phase", "lane"),
        cells={
            "lane": lambda row: "comm." if row["lane"] == "communication" else "compute",
            "mean_busy_ns": lambda row: unit(row["mean_busy_ns"]),
            **{name: partial(_where_moving, name=name, unit=unit) for name in moves},
            "sms": lambda row: sms.get(row["name"], ""),
        },
    )  # fmt: skip
    left = f"; {len(rows) - len(kept):,} shorter phases are in the JSON report" if len(rows) > len(kept) else ""
    return Group(section("Phases", f"mean of each, in {unit.name}{left}"), body)


def _matrix(rank: RankDocument, width: int) -> RenderableType | None:
    """Which communication phase is hidden behind which compute phase. Phases that hide nothing are left out."""
    matrix = rank["overlap_matrix"]
    names, heads, values = matrix["communication"], matrix["compute"], matrix["ns"]
    unit = unit_for(rank["span_ns"])
    least = unit.ns / 10**unit.decimals / 2  # prints as zero below
    totals = {c: sum(row[c] for row in values) for c in range(len(heads))}
    columns = [c for c in totals if totals[c] >= least]
    rows = [r for r in range(len(names)) if matrix["hidden_ns"][r] + matrix["exposed_ns"][r] >= least]
    if not rows or not columns:
        return None
    longest = sorted(rows, key=lambda r: -matrix["hidden_ns"][r] - matrix["exposed_ns"][r])[:MAX_MATRIX_ROWS]
    name_width = min(24, max(cell_len(clean(names[r])) for r in longest))
    room = width - name_width - 2 * 9  # left of the two sums
    labels = {c: shorten_middle(clean(heads[c]), max(12, room // len(columns) - 1)) for c in columns}
    widths = {c: 1 + max(cell_len(labels[c]), *(len(unit(values[r][c])) for r in longest)) for c in columns}
    shown = list(columns)
    if sum(widths.values()) > room:  # those of most time, and a column for the rest
        shown = []
        for c in sorted(columns, key=lambda c: -totals[c]):
            if shown and sum(widths[s] for s in [*shown, c]) > room - 9:
                break
            shown.append(c)
    rest = [c for c in columns if c not in shown]
    shown.sort()
    head = [labels[c] for c in shown] + [f"{len(rest)} more"] * bool(rest)
    lines = []
    for r in (r for r in rows if r in longest):
        times = [values[r][c] for c in shown] + ([sum(values[r][c] for c in rest)] if rest else [])
        cells = [unit(time_ns) if time_ns >= least else "·" for time_ns in times]
        sums = [unit(matrix["hidden_ns"][r]), unit(matrix["exposed_ns"][r])]
        lines.append([shorten_middle(clean(names[r]), name_width), *cells, *sums])
    body = table(["", *head, "hidden", "exposed"], lines, width, left=("",), gap=1)
    note = f"{unit.name} of communication (rows) behind computation (columns)"
    left = len(rows) - len(longest)
    return Group(section("What hides what", note + (f"; {left:,} shorter rows in the JSON" if left else "")), body)


def _kernels(rank: RankDocument, width: int) -> RenderableType | None:
    rows = rank["kernels"][:TOP_KERNELS]
    if not rows:
        return None
    unit, each = unit_for(rank["span_ns"]), unit_for(max(max(row["mean_ns"], row["p99_ns"]) for row in rows))
    spread = ("p50_ns", "p99_ns") if width >= 110 else ()
    sms = [_kernel_sms(row) for row in rows]
    body = rows_table(
        KernelRow, rows, width,
        ["name", "num_events", "total_ns", "mean_ns", *spread, "share", "family", *["sms"] * any(sms)], unit=unit,
        units=dict.fromkeys(("mean_ns", *spread), each),
        heads={
            "family": "class",
            "sms": rank["sm_unit"],
        },
        cells={
            "name": lambda row: kernel_label(row["name"]),
            "family": lambda row: shorten_middle(clean(row["family"]), 18),
            "sms": _kernel_sms,
        },
        coloured=("class", [palette.KIND_COLOURS.get(row["kind"]) for row in rows]),
        shorten=kernel_label,
    )  # fmt: skip
    total = len(rank["kernels"])
    note = f"the top {len(rows)} of {total:,} by total time" if total > len(rows) else "by total time"
    upper = f"; ≤ marks an upper bound of the {rank['sm_unit']}" if any(text.startswith("≤") for text in sms) else ""
    return Group(section("Kernels", note + upper), body)


def _operators(rank: RankDocument, width: int) -> RenderableType | None:
    rows = rank["operators"][:TOP_OPERATORS]
    if not rows:
        return None
    unit = unit_for(rank["span_ns"])
    body = rows_table(OperatorRow, rows, width, heads={"num_events": "kernels"}, unit=unit, shorten=shorten_middle)
    total = len(rank["operators"])
    note = f"the top {len(rows)} of {total:,} by device time" if total > len(rows) else "by device time"
    parts: list[RenderableType] = [section("Operators", note), body]
    if without := rank["num_without_operator"]:
        share = percent(rank["without_operator_ns"] / rank["serial_ns"]) if rank["serial_ns"] else "–"
        summary = f"Launched outside every operator: {counted(without, 'device event')}, {share} of device time."
        parts.append(Text(summary, style=DIM))
    return Group(*parts)


def _unnamed(rank: RankDocument, width: int) -> RenderableType | None:
    rows, share = rank["unnamed"], rank["unnamed_share"]
    if not rows or not share:
        return None
    unit = unit_for(rank["span_ns"])
    label: dict[str, Any] = {"name": lambda row: kernel_label(row["name"])}
    body = rows_table(UnnamedRow, rows[:TOP_UNNAMED], width, cells=label, unit=unit, shorten=kernel_label)
    note = f"{percent(share)} of compute time, {counted(len(rows), 'name')}; name them in a rules file (--kernels)"
    return Group(section("Kernels without a rule", note), body)


def _launch(rank: RankDocument) -> RenderableType | None:
    launch = rank["launch"]
    if not launch["num_linked"]:
        return None
    median, late, most = (duration(launch[f"delay_{name}_ns"]) for name in ("p50", "p99", "max"))
    lines = [
        f"A kernel started {median} after its launch call (median); 99 % within {late}, all within {most}.",
        f"The queue held {launch['queue_mean']:,.1f} launches on average, {launch['queue_max']:,} at most.",
    ]
    blocked = [f"{_took(call)} ({call['num_events']:,}×)" for call in launch["host_blocked"][:4]]
    if blocked:
        lines.append("The host waited or polled in " + ", ".join(blocked) + ".")
    stalls = [
        f"{_took(stall)} ({stall['num_events']:,}×, {duration(stall['longest_ns'])} at most)"
        for stall in launch["host_stalls"][:3]
    ]
    if stalls:
        lines.append("It recorded nothing (it computed or polled) in " + ", ".join(stalls) + ".")
    return Group(section("Launches", f"{launch['num_linked']:,} linked to their calls"), *map(Text, lines))


def _tables(rank: RankDocument, width: int) -> Iterator[RenderableType]:
    """The analyses that are one table each."""
    for name, each in TABLES.items():
        if rows := rank.get("tables", {}).get(name):
            note = f"the first {MAX_TABLE_ROWS} of {len(rows):,}" if len(rows) > MAX_TABLE_ROWS else ""
            body = rows_table(each.row, rows[:MAX_TABLE_ROWS], width, each.in_terminal)
            said = rank.get("table_notes", {}).get(name)
            yield Group(section(each.title, note), *([Text(said)] if said else []), body)


def _steps(rank: RankDocument, width: int) -> RenderableType | None:
    steps, outside = rank["steps"], rank["outside_steps"]
    if len(steps) + len(outside) < 2:
        return None
    slowest = max(steps, key=lambda step: step["span_ns"])
    kept = sorted(steps, key=lambda step: -step["span_ns"])[:MAX_STEPS]
    before, after = ([{"step": p["place"], **p} for p in outside if p["place"] == at] for at in ("before", "after"))
    rows: list[Any] = [*before, *(step for step in steps if step in kept), *after]
    unit = unit_for(rank["span_ns"])
    apart = [column for column in _APART if any(step[column[0]] for step in steps)]
    narrow = bool(apart) and width < 100
    apart = apart[:1] if narrow else apart
    body = rows_table(
        StepDocument, rows, width, ["step", *ACCOUNT_KEYS, "hidden_fraction", *(key for key, _, _ in apart), ""],
        heads={**dict(zip(ACCOUNT_KEYS[1:], ACCOUNT_HEADS, strict=False)), "hidden_fraction": ACCOUNT_HEADS[-1],
               **{key: head for key, head, _ in apart}},
        cells={
            "step": lambda row: clean(row["step"]), "hidden_fraction": lambda row: percent(row["hidden_fraction"]),
            **{key: partial(_time_or_nothing, name=key, unit=unit) for key, _, _ in apart},
            "": lambda row: "slowest" if row is slowest and len(steps) > 1 else "",
        },
        unit=unit, left=("step", ""), bold=rows.index(slowest), gap=1 if narrow else 2,
    )  # fmt: skip
    notes = [Text(f"{head}: {meaning}", style=DIM) for _, head, meaning in apart]
    left = f"; the {len(kept)} longest of {len(steps):,}" if len(steps) > len(kept) else ""
    return Group(section("Steps", "from a step's first device event to that of the next step" + left), body, *notes)


def _time_or_nothing(row: Any, *, name: str, unit: Unit) -> str:
    return unit(row[name]) if name in row else ""


def _where_moving(row: Any, *, name: str, unit: Unit) -> str:
    return unit(row[name]) if row["lane"] == "communication" else ""


def _took(row: Any) -> str:
    return f"{clean(row['name'])} {duration(row['total_ns'])}"


def _step_name(rank: RankDocument) -> str:
    if rank["step"] is None:
        return ""
    return f"step {rank['step']}" + (", what it launched" if rank["step_by"] == "launch" else "")


def hidden_share(rank: RankDocument) -> str:
    fraction = rank["hidden_fraction"]
    return "undefined" if fraction is None else percent(fraction)


def _kernel_sms(kernel: KernelRow) -> str:
    if kernel["sms"] is None:
        return ""
    return f"{'' if kernel['sms_exact'] else '≤'}{kernel['sms']}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
