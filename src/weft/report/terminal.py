"""The report in a terminal: where the step went, what hides what, what is left to save, and how far to trust it.

Drawn from the report document (schema weft.report/1) alone, so that a saved JSON prints the same. What the data does
not hold is left out; what is partial is said in a frame above the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from weft.report import palette
from weft.report.console_text import clean, joined, kernel_label, shorten_middle, suited
from weft.units import MS, US, S, duration, percent

MAX_WIDTH = 140
TOP_KERNELS = 12
TOP_UNNAMED = 5
MAX_PHASES = 20
MAX_MATRIX_ROWS = 12
MAX_STEPS = 16
MAX_RANKS = 24
MAX_FAILURES = 10
MAX_STREAMS = 8

_BOLD = Style(bold=True)
_DIM = Style(dim=True)
_WARNING = Style(color="yellow", bold=True)
_ERROR = Style(color=palette.EXPOSED, bold=True)

# The parts of a span, in the order of the bar: key in the document, name, fill of the bar, colour.
_PARTS = (
    ("compute_ns", "compute", "█", palette.COMPUTE),
    ("exposed_communication_ns", "exposed communication", "▒", palette.EXPOSED),
    ("exposed_memory_ns", "exposed memory", "▞", palette.MEMORY),
    ("idle_ns", "idle", "░", palette.IDLE),
)
_ACCOUNT_HEADS = ("compute", "exposed comm.", "exp. memory", "idle", "hidden")
_ACCOUNT_KEYS = ("span_ns", "compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
_CAUSES = (
    ("host_wait_ns", "host wait"),
    ("dependency_wait_ns", "dependency wait"),
    ("kernel_gap_ns", "kernel gap"),
    ("unknown_ns", "unknown"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The unit of a table: one for all its rows, so that they can be compared at a glance."""

    name: str
    ns: int
    decimals: int

    def __call__(self, time_ns: float) -> str:
        return f"{time_ns / self.ns:,.{self.decimals}f}"


_MILLISECONDS = Unit(name="ms", ns=MS, decimals=2)
_LONG = Unit(name="ms", ns=MS, decimals=0)
_SHORT = Unit(name="µs", ns=US, decimals=1)


def unit_for(span_ns: int) -> Unit:
    """Microseconds for a span under 20 ms, milliseconds above."""
    return _SHORT if span_ns < 20 * MS else _MILLISECONDS if span_ns < 100 * S else _LONG


def print_report(document: Mapping[str, Any], console: Console) -> None:
    """Print a report document: the headline, its quality, the ranks of a job, and one rank in full.

    Of several ranks the one with the longest span is shown in full, for it sets the pace; `print_rank` prints another.
    Width: all of the console's up to 140 columns.
    """
    width = min(console.width, MAX_WIDTH)
    ranks = document["ranks"]
    blocks: list[RenderableType] = [*_opening(document)]
    if ranks:
        slowest = max(ranks, key=lambda rank: rank["span_ns"])
        blocks += _job(document, slowest, width)
        blocks += _rank(slowest, width)
    _print(blocks, console, width)


def print_rank(rank: Mapping[str, Any], console: Console) -> None:
    """Print one member of `ranks` of a report document in full."""
    width = min(console.width, MAX_WIDTH)
    _print(_rank(rank, width), console, width)


def _print(blocks: Iterable[RenderableType], console: Console, width: int) -> None:
    spaced = [part for block in blocks for part in (block, Text())]
    console.print(suited(Group(*spaced[:-1]), console), width=width)


# ---- the whole document


def _opening(document: Mapping[str, Any]) -> list[RenderableType]:
    title = joined([Text("weft", style=_BOLD), clean(document.get("source") or ""), _scope(document)], " · ")
    blocks: list[RenderableType] = [title, Text(clean(document.get("headline") or ""), style=_BOLD)]
    failures = document.get("failures") or []
    if failures:
        shown = [joined([clean(f["path"]), ": ", clean(f["error"])]) for f in failures[:MAX_FAILURES]]
        if len(failures) > MAX_FAILURES:
            shown.append(Text(f"… and {len(failures) - MAX_FAILURES:,} more, listed in the JSON report"))
        head = f"{len(failures):,} of {len(failures) + len(document['ranks']):,} files could not be used"
        blocks.append(_frame(head, shown, _ERROR))
    return blocks


def _scope(document: Mapping[str, Any]) -> str:
    ranks, world = document["ranks"], document.get("world_size")
    if len(ranks) != 1:
        return f"{len(ranks):,} of {world:,} ranks" if world else f"{len(ranks):,} ranks"
    rank = ranks[0]
    who = "rank unknown" if rank.get("rank") is None else f"rank {rank['rank']}"
    return f"{who} of {world:,}" if world else who


def _job(document: Mapping[str, Any], slowest: Mapping[str, Any], width: int) -> list[RenderableType]:
    ranks = document["ranks"]
    if len(ranks) < 2:
        return []
    blocks: list[RenderableType] = [_rank_table(ranks, document.get("clocks") or [], width)]
    partial = [rank for rank in ranks if rank is not slowest and _concerns(rank)]
    if partial:
        lines = [joined([Text(_rank_name(rank), style=_BOLD), ": ", "; ".join(_concerns(rank))]) for rank in partial]
        left = len(lines) - MAX_FAILURES
        more = [Text(f"… and {left:,} more ranks, listed in the JSON report")] if left > 0 else []
        blocks.append(_frame("Other ranks are partial", [*lines[:MAX_FAILURES], *more], _WARNING))
    blocks.append(Text(f"In full: {_rank_name(slowest)}, which has the longest span.", style=_BOLD))
    return blocks


def _rank_table(ranks: Sequence[Mapping[str, Any]], clocks: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    ordered = sorted(ranks, key=lambda rank: -rank["span_ns"])
    fastest_kept = 3 if len(ordered) > MAX_RANKS else 0
    shown = ordered if not fastest_kept else ordered[: MAX_RANKS - fastest_kept]
    unit = unit_for(ordered[0]["span_ns"])
    several_devices = len({rank.get("rank") for rank in ranks}) < len(ranks)
    rows: list[list[str]] = []
    for place, rank in enumerate(shown + (ordered[-fastest_kept:] if fastest_kept else [])):
        if fastest_kept and place == len(shown):
            rows.append(["…", *[""] * (len(_ACCOUNT_KEYS) + 1), f"{len(ordered) - MAX_RANKS:,} more"])
        name = _rank_name(rank, with_device=several_devices).removeprefix("rank ")
        marks = ["slowest"] * (place == 0) + ["partial"] * bool(_concerns(rank))
        rows.append([name, *(unit(rank[key]) for key in _ACCOUNT_KEYS), _hidden(rank), ", ".join(marks)])
    heads = ("rank", f"span {unit.name}", *_ACCOUNT_HEADS, "")
    table = _table(heads, rows, width, left=("rank", ""), bold=0)
    slowest, fastest = ordered[0]["span_ns"], ordered[-1]["span_ns"]
    note = f"longest span first; the slowest takes {slowest / fastest:.2f}× the time of the fastest" if fastest else ""
    parts: list[RenderableType] = [_section("Ranks", note), table]
    offsets = [clock["offset_ns"] for clock in clocks if clock["offset_ns"] is not None]
    if offsets:
        matched = _counted(sum(clock["num_matched"] for clock in clocks), "matched collective")
        text = f"By {matched}, clocks differ by {duration(max(map(abs, offsets)))} at most."
        parts.append(Text(text, style=_DIM))
    return Group(*parts)


# ---- one rank


def _rank(rank: Mapping[str, Any], width: int) -> list[RenderableType]:
    blocks: list[RenderableType | None] = [_quality_frame(rank)]
    if rank.get("basis") == "none" or not rank["span_ns"]:
        text = "There is no work in this file that could be accounted for: neither on a device nor in host operators."
        return [block for block in (*blocks, Text(text), _quality_line(rank)) if block is not None]
    blocks += [
        _span(rank, width),
        _accounts(rank),
        _collectives(rank, width),
        _phase_means(rank, width),
        _matrix(rank, width),
        _kernels(rank, width),
        _unnamed(rank, width),
        _idle_causes(rank, width),
        _launch(rank),
        _steps(rank, width),
        _quality_line(rank),
    ]
    return [block for block in blocks if block is not None]


def _span(rank: Mapping[str, Any], width: int) -> RenderableType:
    """The bar, whose parts add up to the span, and the parts in exact microseconds."""
    span = rank["span_ns"]
    parts = [(name, rank[key], fill, colour) for key, name, fill, colour in _PARTS]
    bar, at, column = Text(), 0, 0
    for _, time_ns, fill, colour in parts:
        at += time_ns
        until = round(at / span * width)
        bar.append(fill * (until - column), style=Style(color=colour))
        column = until
    decimals = _decimals(rank)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    absent = {"exposed communication": not rank["communication_ns"], "exposed memory": not rank["memory_ns"]}
    for name, time_ns, fill, colour in parts:
        if absent.get(name):
            continue
        share = Text(percent(time_ns / span))
        table.add_row(Text(fill * 2, style=Style(color=colour)), Text(name), Text(_us(time_ns, decimals)), share)
    table.add_row(Text(), Text("span", style=_BOLD), Text(_us(span, decimals), style=_BOLD), Text(percent(1.0)))
    device = clean(rank.get("device_name") or "")
    about = [device, f"{rank['num_sms']} SMs" if rank.get("num_sms") else "", _step_name(rank)]
    return Group(_section("Where the time went", " · ".join(part for part in about if part)), bar, table)


def _accounts(rank: Mapping[str, Any]) -> RenderableType:
    """Communication, overlap, headroom and streams, a line of facts each."""
    decimals = _decimals(rank)

    def us(time_ns: int) -> str:
        return _us(time_ns, decimals)

    total = rank["communication_ns"]
    rows: list[tuple[str, str]] = []
    if total:
        hidden, exposed = rank["hidden_communication_ns"], rank["exposed_communication_ns"]
        rows.append(("communication", f"{us(total)}: {us(hidden)} hidden ({_hidden(rank)}), {us(exposed)} exposed"))
        data, barrier = rank.get("data_ns") or 0, rank.get("barrier_ns") or 0
        if barrier:
            rows.append(("", f"{us(data)} move data, {us(barrier)} ({percent(barrier / total)}) only notify or wait"))
    else:
        rows.append(("communication", "none ran, so the hidden share is undefined"))
    speedup = rank.get("overlap_speedup")
    if speedup:
        rows.append(("overlap", f"{us(rank['serial_ns'])} of work in {us(rank['busy_ns'])}: {speedup:.2f}× as fast"))
    headroom = rank.get("headroom")
    if headroom:
        bound = {"chain": "the longest chain"}.get(headroom["bound_by"], clean(headroom["bound_by"]))
        share = percent(headroom["headroom_ns"] / rank["span_ns"])
        best = f"at best {us(headroom['ideal_ns'])}, bound by {bound}"
        rows.append(("headroom", f"{us(headroom['headroom_ns'])} ({share}); {best}"))
        if headroom.get("assumption"):
            rows.append(("", clean(headroom["assumption"])))
    streams = rank.get("streams") or []
    for place, stream in enumerate(streams[:MAX_STREAMS]):
        busy = f"{us(stream['busy_ns'])} busy ({percent(stream['busy_ns'] / rank['span_ns'])})"
        text = f"{clean(stream['kind'])}, {busy}, {_counted(stream['num_events'], 'event')}"
        rows.append(("" if place else "streams", f"{clean(stream['stream'])}  {text}"))
    if len(streams) > MAX_STREAMS:
        rows.append(("", f"… and {len(streams) - MAX_STREAMS:,} more"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name, style=_BOLD), Text(text))
    return table


def _collectives(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    rows = rank.get("collectives") or []
    if not rows:
        return None
    with_barrier = any(row.get("barrier_ns") for row in rows)
    with_bandwidth = any(row.get("algbw_GBps") is not None for row in rows)
    unit = unit_for(rank["span_ns"])
    heads = ["collective", "count", f"busy {unit.name}", "hidden", "exposed"]
    heads += ["waits"] * with_barrier + ["algbw GB/s", "busbw GB/s"] * with_bandwidth
    lines = []
    for row in rows:
        hidden = percent(row["hidden_ns"] / row["busy_ns"] if row["busy_ns"] else None)
        cells = [clean(row["collective"]), f"{row['num_events']:,}", unit(row["busy_ns"]), hidden]
        cells += [unit(row["exposed_ns"])] + [unit(row["barrier_ns"])] * with_barrier
        lines.append(cells + [_rate(row.get(key)) for key in ("algbw_GBps", "busbw_GBps") if with_bandwidth])
    table = _table(heads, lines, width, left=("collective",))
    return Group(_section("Collectives"), table)


def _phase_means(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    rows = rank.get("phase_means") or []
    if not rows:
        return None
    sms = {phase["name"]: phase["sms"] for phase in rank.get("phases") or [] if phase.get("sms")}
    kept = sorted(rows, key=lambda row: -row["mean_busy_ns"] * row["count"])[:MAX_PHASES]
    with_communication = any(row["lane"] == "communication" for row in kept)
    us = Unit(name="µs", ns=US, decimals=0 if max(row["mean_busy_ns"] for row in kept) >= MS else 1)
    heads = ["phase", "lane", "count", "busy", *["moves data", "hidden", "exposed"] * with_communication]
    lines = []
    for row in (row for row in rows if row in kept):
        moving = row["lane"] == "communication"
        cells = [clean(row["name"]), "comm." if moving else "compute", f"{row['count']:,}", us(row["mean_busy_ns"])]
        if with_communication:
            keys = ("mean_data_ns", "mean_hidden_ns", "mean_exposed_ns")
            cells += [us(row[key]) if moving else "" for key in keys]
        lines.append([*cells, *[str(sms.get(row["name"], ""))] * bool(sms)])
    table = _table([*heads, *["SMs"] * bool(sms)], lines, width, left=("phase", "lane"))
    left = len(rows) - len(kept)
    note = f"mean of each, in µs{f'; {left:,} shorter phases are in the JSON report' if left else ''}"
    return Group(_section("Phases", note), table)


def _matrix(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    """Which communication phase is hidden behind which compute phase. Phases that hide nothing are left out."""
    matrix = rank.get("overlap_matrix") or {}
    names, heads, values = matrix.get("communication") or [], matrix.get("compute") or [], matrix.get("ns") or []
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
    table = _table(["", *head, "hidden", "exposed"], lines, width, left=("",), gap=1)
    note = f"{unit.name} of communication (rows) behind computation (columns)"
    left = len(rows) - len(longest)
    return Group(_section("What hides what", note + (f"; {left:,} shorter rows in the JSON" if left else "")), table)


def _kernels(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    rows = (rank.get("kernels") or [])[:TOP_KERNELS]
    if not rows:
        return None
    unit = unit_for(rank["span_ns"])
    spread = ["p50", "p99"] * (width >= 110)
    heads = ["kernel", "count", f"total {unit.name}", "mean µs", *(f"{key} µs" for key in spread)]
    sms = [_kernel_sms(row) for row in rows]
    heads += ["share", "class", *["SMs"] * any(sms)]
    lines = []
    for row, blocks in zip(rows, sms, strict=True):
        cells = [kernel_label(row["name"]), f"{row['num_events']:,}", unit(row["total_ns"]), _SHORT(row["mean_ns"])]
        cells += [_SHORT(row[f"{key}_ns"]) for key in spread]
        lines.append([*cells, percent(row["share"]), shorten_middle(clean(row["family"]), 18), *[blocks] * any(sms)])
    colours = [palette.KIND_COLOURS.get(row["kind"]) for row in rows]
    table = _table(heads, lines, width, left=("kernel", "class"), coloured=("class", colours), shorten=kernel_label)
    total = len(rank["kernels"])
    note = f"the top {len(rows)} of {total:,} by total time" if total > len(rows) else "by total time"
    upper = "; ≤ marks an upper bound of the SMs" if any(text.startswith("≤") for text in sms) else ""
    return Group(_section("Kernels", note + upper), table)


def _unnamed(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    rows, share = rank.get("unnamed") or [], rank.get("unnamed_share")
    if not rows or not share:
        return None
    unit = unit_for(rank["span_ns"])
    lines = [[kernel_label(row["name"]), f"{row['num_events']:,}", unit(row["total_ns"])] for row in rows[:TOP_UNNAMED]]
    table = _table(["kernel", "count", f"total {unit.name}"], lines, width, left=("kernel",), shorten=kernel_label)
    note = f"{percent(share)} of compute time, {_counted(len(rows), 'name')}; a rules file can name them"
    return Group(_section("No rule names", note), table)


def _idle_causes(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    causes = rank.get("idle_causes") or {}
    streams = [stream for stream in causes.get("by_stream") or [] if stream["idle_ns"]]
    if not streams:
        return None
    unit = unit_for(rank["span_ns"])
    present = [(key, name) for key, name in _CAUSES if causes[key] or any(stream[key] for stream in streams)]
    lines = [
        [clean(stream["stream"]), *(unit(stream[key]) for key in ("idle_ns", *(key for key, _ in present)))]
        for stream in streams[:MAX_STREAMS]
    ]
    lines.append(["whole device", unit(rank["idle_ns"]), *(unit(causes[key]) for key, _ in present)])
    heads = ["stream", f"idle {unit.name}", *(name for _, name in present)]
    table = _table(heads, lines, width, left=("stream",), bold=len(lines) - 1)
    note = f"back to back, under {duration(causes['threshold_ns'])}, is a kernel gap"
    return Group(_section("Why streams were idle", note), table)


def _launch(rank: Mapping[str, Any]) -> RenderableType | None:
    launch = rank.get("launch") or {}
    if not launch.get("num_linked"):
        return None
    median, late, most = (duration(launch[f"delay_{key}_ns"]) for key in ("p50", "p99", "max"))
    lines = [
        f"A kernel started {median} after its launch call (median); 99 % within {late}, all within {most}.",
        f"The queue held {launch['queue_mean']:,.1f} launches on average, {launch['queue_max']:,} at most.",
    ]
    blocked = [
        f"{clean(call['name'])} {duration(call['total_ns'])} ({call['num_events']:,}×)"
        for call in (launch.get("host_blocked") or [])[:4]
    ]
    if blocked:
        lines.append("The host was blocked in " + ", ".join(blocked) + ".")
    return Group(_section("Launches", f"{launch['num_linked']:,} linked to their calls"), *map(Text, lines))


def _steps(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    steps = rank.get("steps") or []
    if len(steps) < 2:
        return None
    slowest = max(steps, key=lambda step: step["span_ns"])
    kept = sorted(steps, key=lambda step: -step["span_ns"])[:MAX_STEPS]
    unit = unit_for(rank["span_ns"])
    chosen = [step for step in steps if step in kept]
    lines = []
    for step in chosen:
        times = (unit(step[key]) for key in _ACCOUNT_KEYS)
        hidden = percent(step["hidden_fraction"])
        lines.append([clean(step["step"]), *times, hidden, "slowest" if step is slowest else ""])
    heads = ("step", f"span {unit.name}", *_ACCOUNT_HEADS, "")
    table = _table(heads, lines, width, left=("step", ""), bold=chosen.index(slowest))
    left = len(steps) - len(kept)
    return Group(_section("Steps", f"the {len(kept)} longest of {len(steps):,}" if left else ""), table)


# ---- quality

_FLAGS = {"simulated": "simulated", "host": "host operators instead of device work", "none": "no work"}
_COUNTS = {
    "dropped": "dropped",
    "repaired": "repaired",
    "clipped": "clipped",
    "unlinked": "unlinked (no launch call)",
    "out_of_window": "outside of the recording",
}


def _flags(rank: Mapping[str, Any]) -> list[str]:
    """What makes a rank's numbers other than a whole measurement of a device."""
    truncated = (rank.get("quality") or {}).get("truncated")
    present = ["simulated"] * bool(rank.get("simulated")) + [rank.get("basis", "device")]
    return [_FLAGS[key] for key in present if key in _FLAGS] + ["file cut short"] * bool(truncated)


def _counts(rank: Mapping[str, Any]) -> list[str]:
    """Events that were lost or mended, by what happened to them. A simulated event has no launch call to miss."""
    quality = rank.get("quality") or {}
    keys = [key for key in _COUNTS if quality.get(key) and not (key == "unlinked" and rank.get("simulated"))]
    return [f"{quality[key]:,} {_COUNTS[key]}" for key in keys]


def _concerns(rank: Mapping[str, Any]) -> list[str]:
    """Why the numbers of a rank are partial, in short; empty when they are not."""
    verdict = (rank.get("quality") or {}).get("verdict", "good")
    found = _flags(rank) + _counts(rank)
    return found or ([] if verdict == "good" else [f"quality {clean(verdict)}"])


def _quality_frame(rank: Mapping[str, Any]) -> RenderableType | None:
    """A frame before the numbers, where they are partial or no measurement; nothing where all is well."""
    if not _concerns(rank):
        return None
    quality = rank.get("quality") or {}
    verdict, counts = quality.get("verdict", "good"), _counts(rank)
    notes = [clean(note) for note in quality.get("notes") or []]
    if quality.get("truncated") and not any(clean(quality["truncated"]) in note for note in notes):
        notes.append(f"the file is cut short: {clean(quality['truncated'])}")
    lines = [Text("Events: " + ", ".join(counts), style=_BOLD)] * bool(counts)
    lines += [Text(f"- {note}") for note in notes]
    style = _ERROR if verdict == "doubtful" or rank.get("basis") == "none" else _WARNING
    flags = f" ({'; '.join(_flags(rank))})" if _flags(rank) else ""
    return _frame(f"Data quality: {clean(verdict)}{flags}", lines, style)


def _quality_line(rank: Mapping[str, Any]) -> RenderableType | None:
    """The last line: that all is well, when it is; and what was read and not used, by kind."""
    quality = rank.get("quality") or {}
    skipped = [f"{count:,} {clean(kind)}" for kind, count in (quality.get("skipped") or {}).items() if count]
    lines = []
    if quality and not _concerns(rank):
        lines.append("Data quality: good; nothing was dropped, clipped or left unlinked.")
        lines += [clean(note) for note in quality.get("notes") or []]
    if skipped:
        lines.append("Events read and not used: " + ", ".join(skipped) + ".")
    return Text("\n".join(lines), style=_DIM) if lines else None


def _frame(title: str, lines: Sequence[Text], style: Style) -> Panel:
    heading = Text(title, style=style)
    return Panel(Group(*lines), title=heading, title_align="left", border_style=style, box=box.HEAVY)


# ---- small parts


def _rank_name(rank: Mapping[str, Any], *, with_device: bool = False) -> str:
    name = f"rank {rank['rank']}" if rank.get("rank") is not None else clean(rank.get("path") or "rank unknown")
    return f"{name}, device {rank.get('device')}" if with_device else name


def _step_name(rank: Mapping[str, Any]) -> str:
    return "" if rank.get("step") is None else f"step {rank['step']}"


def _hidden(rank: Mapping[str, Any]) -> str:
    fraction = rank.get("hidden_fraction")
    return "undefined" if fraction is None else percent(fraction)


def _kernel_sms(kernel: Mapping[str, Any]) -> str:
    if kernel.get("sms") is None:
        return ""
    return f"{'' if kernel.get('sms_exact') else '≤'}{kernel['sms']}"


def _section(title: str, note: str = "") -> Text:
    heading = Text().append(title, style=_BOLD)
    return heading.append(f"  {note}", style=_DIM) if note else heading


def _table(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    width: int,
    *,
    left: Sequence[str] = (),
    gap: int = 2,
    bold: int | None = None,
    coloured: tuple[str, Sequence[str | None]] = ("", ()),
    shorten: Callable[[str, int], str] = shorten_middle,
) -> Table:
    """A table of plain strings, never read for markup; the first column gives way where the width is short.

    left: heads of columns set to the left. bold: the line that stands out. coloured: the head of a column and the
    colour of each of its cells. shorten: makes a cell of the first column fit.
    """
    others = [max(cell_len(text) for text in column) for column in list(zip(heads, *lines, strict=True))[1:]]
    room = max(width - sum(others) - gap * len(others), 8)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for head in heads:
        justify: Literal["left", "right"] = "left" if head in left else "right"
        table.add_column(Text(head, style=_DIM), justify=justify, no_wrap=True, overflow="ellipsis")
    for at, line in enumerate(lines):
        cells = [Text(text, style=_BOLD if at == bold else "") for text in (shorten(line[0], room), *line[1:])]
        if coloured[0]:
            cells[heads.index(coloured[0])].stylize(Style(color=coloured[1][at]))
        table.add_row(*cells)
    return table


def _decimals(rank: Mapping[str, Any]) -> int:
    """Decimals that microseconds need to be exact: none where the trace has whole ones, as old traces do."""
    times = [rank[key] for key in (*_ACCOUNT_KEYS, "communication_ns", "busy_ns", "serial_ns")]
    return 0 if all(time_ns % US == 0 for time_ns in times) else 3


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _us(time_ns: int, decimals: int) -> str:
    return f"{time_ns / US:,.{decimals}f} µs"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
