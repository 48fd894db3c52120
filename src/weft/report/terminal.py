"""The report in a terminal: where the step went, what hides what, what is left to save, and how far to trust it.

Drawn from the report document (schema weft.report/1) alone, so that a saved JSON prints the same. What the data does
not hold is left out; what is partial is said in a frame above the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich import box
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
_ACCOUNT_HEADS = ("span ms", "compute", "exposed comm.", "exp. memory", "idle", "hidden")
_CAUSES = (
    ("host_wait_ns", "host wait"),
    ("dependency_wait_ns", "dependency wait"),
    ("kernel_gap_ns", "kernel gap"),
    ("unknown_ns", "unknown"),
)


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
        blocks += _job(document, slowest)
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


def _job(document: Mapping[str, Any], slowest: Mapping[str, Any]) -> list[RenderableType]:
    ranks = document["ranks"]
    if len(ranks) < 2:
        return []
    blocks: list[RenderableType] = [_rank_table(ranks, document.get("clocks") or [])]
    partial = [rank for rank in ranks if rank is not slowest and _concerns(rank)]
    if partial:
        lines = [joined([Text(_rank_name(rank), style=_BOLD), ": ", "; ".join(_concerns(rank))]) for rank in partial]
        left = len(lines) - MAX_FAILURES
        more = [Text(f"… and {left:,} more ranks, listed in the JSON report")] if left > 0 else []
        blocks.append(_frame("Other ranks are partial", [*lines[:MAX_FAILURES], *more], _WARNING))
    blocks.append(Text(f"In full: {_rank_name(slowest)}, which has the longest span.", style=_BOLD))
    return blocks


def _rank_table(ranks: Sequence[Mapping[str, Any]], clocks: Sequence[Mapping[str, Any]]) -> RenderableType:
    ordered = sorted(ranks, key=lambda rank: -rank["span_ns"])
    fastest_kept = 3 if len(ordered) > MAX_RANKS else 0
    shown = ordered if not fastest_kept else ordered[: MAX_RANKS - fastest_kept]
    table = _table("rank", *_ACCOUNT_HEADS, "", left=("rank", ""))
    several_devices = len({rank.get("rank") for rank in ranks}) < len(ranks)

    def add(rank: Mapping[str, Any], mark: str) -> None:
        name = _rank_name(rank, with_device=several_devices).removeprefix("rank ")
        cells = [_ms(rank[key]) for key in ("span_ns", "compute_ns", "exposed_communication_ns")]
        cells += [_ms(rank["exposed_memory_ns"]), _ms(rank["idle_ns"]), _hidden(rank)]
        marks = ", ".join(part for part in (mark, "partial" if _concerns(rank) else "") if part)
        _add(table, [name, *cells, marks], style=_BOLD if mark == "slowest" else Style())

    for place, rank in enumerate(shown):
        add(rank, "slowest" if place == 0 else "")
    if fastest_kept:
        _add(table, ["…", f"{len(ordered) - MAX_RANKS:,} more", "", "", "", "", "", ""], style=_DIM)
        for rank in ordered[-fastest_kept:]:
            add(rank, "")
    spans = [rank["span_ns"] for rank in ordered]
    title = f"longest span first; the slowest takes {_times(spans[0], spans[-1])} the time of the fastest"
    parts: list[RenderableType] = [_section("Ranks", title), table]
    if clocks:
        offsets = [abs(clock["offset_ns"]) for clock in clocks]
        matched = sum(clock["num_matched"] for clock in clocks)
        parts.append(
            Text(
                f"Clocks of {len(clocks):,} ranks were compared by {matched:,} matched collectives; "
                f"they differ by up to {duration(max(offsets))}.",
                style=_DIM,
            )
        )
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
        _collectives(rank),
        _phase_means(rank),
        _matrix(rank, width),
        _kernels(rank, width),
        _unnamed(rank, width),
        _idle_causes(rank),
        _launch(rank),
        _steps(rank),
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
    decimals = 0 if all(part[1] % US == 0 for part in parts) else 3
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for name, time_ns, fill, colour in parts:
        share = Text(percent(time_ns / span))
        table.add_row(Text(fill * 2, style=Style(color=colour)), Text(name), Text(_us(time_ns, decimals)), share)
    table.add_row(Text(), Text("span", style=_BOLD), Text(_us(span, decimals), style=_BOLD), Text(percent(1.0)))
    device = clean(rank.get("device_name") or "")
    about = [device, f"{rank['num_sms']} SMs" if rank.get("num_sms") else "", _step_name(rank)]
    return Group(_section("Where the time went", " · ".join(part for part in about if part)), bar, table)


def _accounts(rank: Mapping[str, Any]) -> RenderableType:
    """Communication, headroom and streams, one line of facts each."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    total = rank["communication_ns"]
    rows: list[tuple[str, str]] = []
    if total:
        hidden, exposed = rank["hidden_communication_ns"], rank["exposed_communication_ns"]
        rows.append(("communication", f"{_us(total)}: {_us(hidden)} hidden ({_hidden(rank)}), {_us(exposed)} exposed"))
        data, barrier = rank.get("data_ns") or 0, rank.get("barrier_ns") or 0
        if barrier:
            rows.append(("", f"{_us(data)} move data, {_us(barrier)} ({percent(barrier / total)}) only notify or wait"))
    else:
        rows.append(("communication", "none ran, so the hidden share is undefined"))
    speedup = rank.get("overlap_speedup")
    if speedup:
        text = f"{_us(rank['serial_ns'])} of work in {_us(rank['busy_ns'])}: {speedup:.2f}× as fast as in series"
        rows.append(("overlap", text))
    headroom = rank.get("headroom")
    if headroom:
        rows += _headroom(headroom, rank["span_ns"])
    for place, stream in enumerate((rank.get("streams") or [])[:MAX_STREAMS]):
        text = (
            f"{clean(stream['stream'])}  {clean(stream['kind'])}, {_us(stream['busy_ns'])} busy "
            f"({percent(stream['busy_ns'] / rank['span_ns'])}), {stream['num_events']:,} events"
        )
        rows.append(("" if place else "streams", text))
    more = len(rank.get("streams") or []) - MAX_STREAMS
    if more > 0:
        rows.append(("", f"… and {more:,} more"))
    for name, text in rows:
        table.add_row(Text(name, style=_BOLD), Text(text))
    return table


def _headroom(headroom: Mapping[str, Any], span_ns: int) -> list[tuple[str, str]]:
    bound = {"chain": "the longest chain of dependent work"}.get(headroom["bound_by"], clean(headroom["bound_by"]))
    saved, ideal = headroom["headroom_ns"], headroom["ideal_ns"]
    rows = [("headroom", f"{_us(saved)} ({percent(saved / span_ns)}); at best {_us(ideal)}, bound by {bound}")]
    return rows + ([("", clean(headroom["assumption"]))] if headroom.get("assumption") else [])


def _collectives(rank: Mapping[str, Any]) -> RenderableType | None:
    rows = rank.get("collectives") or []
    if not rows:
        return None
    with_barrier = any(row.get("barrier_ns") for row in rows)
    with_bandwidth = any(row.get("algbw_GBps") is not None for row in rows)
    heads = ["collective", "count", "busy ms", "hidden", "exposed ms"]
    heads += ["waits ms"] * with_barrier + ["algbw GB/s", "busbw GB/s"] * with_bandwidth
    table = _table(*heads, left=("collective",))
    for row in rows:
        cells = [clean(row["collective"]), f"{row['num_events']:,}", _ms(row["busy_ns"])]
        cells += [percent(row["hidden_ns"] / row["busy_ns"] if row["busy_ns"] else None), _ms(row["exposed_ns"])]
        cells += [_ms(row["barrier_ns"])] * with_barrier
        if with_bandwidth:
            cells += [_rate(row.get("algbw_GBps")), _rate(row.get("busbw_GBps"))]
        _add(table, cells)
    return Group(_section("Collectives"), table)


def _phase_means(rank: Mapping[str, Any]) -> RenderableType | None:
    rows = rank.get("phase_means") or []
    if not rows:
        return None
    sms = {phase["name"]: phase["sms"] for phase in rank.get("phases") or [] if phase.get("sms")}
    heads = ("phase", "lane", "count", "busy µs", "moves data", "hidden", "exposed", "SMs")
    table = _table(*heads, left=("phase", "lane"))
    kept = sorted(rows, key=lambda row: -row["mean_busy_ns"] * row["count"])[:MAX_PHASES]
    for row in (row for row in rows if row in kept):
        moving = row["lane"] == "communication"
        communication = [_number(row[key]) for key in ("mean_data_ns", "mean_hidden_ns", "mean_exposed_ns")]
        cells = [shorten_middle(clean(row["name"]), 28), "comm." if moving else "compute", f"{row['count']:,}"]
        cells += [_number(row["mean_busy_ns"]), *(communication if moving else ["", "", ""])]
        _add(table, [*cells, str(sms.get(row["name"], ""))])
    left = len(rows) - len(kept)
    note = f"mean of each, in µs{f'; {left:,} shorter phases are in the JSON report' if left else ''}"
    return Group(_section("Phases", note), table)


def _matrix(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    """Which communication phase is hidden behind which compute phase. Phases that hide nothing are left out."""
    matrix = rank.get("overlap_matrix") or {}
    names, heads, values = matrix.get("communication") or [], matrix.get("compute") or [], matrix.get("ns") or []
    least = 5 * MS // 1000  # prints as 0.00 below
    totals = {c: sum(row[c] for row in values) for c in range(len(heads))}
    columns = [c for c in totals if totals[c] >= least]
    rows = [r for r in range(len(names)) if matrix["hidden_ns"][r] + matrix["exposed_ns"][r] >= least]
    if not rows or not columns:
        return None
    room = width - 14 - 2 * 9  # the name, and the sums at the right
    labels = {c: shorten_middle(clean(heads[c]), 12) for c in columns}
    shown: list[int] = []
    for c in sorted(columns, key=lambda c: -totals[c]):
        if sum(max(6, len(labels[s])) + 1 for s in [*shown, c]) > room - 8 * (len(shown) + 1 < len(columns)):
            break
        shown.append(c)
    rest = [c for c in columns if c not in shown]
    shown.sort()
    longest = sorted(rows, key=lambda r: -matrix["hidden_ns"][r] - matrix["exposed_ns"][r])[:MAX_MATRIX_ROWS]
    head = [labels[c] for c in shown] + [f"{len(rest)} more"] * bool(rest)
    table = _table("", *head, "hidden", "exposed", left=("",), gap=1)
    for r in (r for r in rows if r in longest):
        times = [values[r][c] for c in shown] + ([sum(values[r][c] for c in rest)] if rest else [])
        cells = [_ms(time_ns) if time_ns >= least else "·" for time_ns in times]
        sums = [_ms(matrix["hidden_ns"][r]), _ms(matrix["exposed_ns"][r])]
        _add(table, [shorten_middle(clean(names[r]), 14), *cells, *sums])
    note = "ms of communication (rows) behind computation (columns)"
    left = len(rows) - len(longest)
    return Group(_section("What hides what", note + (f"; {left:,} shorter rows in the JSON" if left else "")), table)


def _kernels(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    rows = (rank.get("kernels") or [])[:TOP_KERNELS]
    if not rows:
        return None
    spread = width >= 110
    heads = ["kernel", "count", "total ms", "mean µs", *(["p50 µs", "p99 µs"] * spread), "share", "class", "SMs"]
    table = _table(*heads, left=("kernel", "class"))
    sms = [_kernel_sms(row) for row in rows]
    families = [shorten_middle(clean(row["family"]), 16) for row in rows]
    fixed = [
        [f"{row['num_events']:,}", _ms(row["total_ns"]), _number(row["mean_ns"], 1)]
        + ([_number(row["p50_ns"], 1), _number(row["p99_ns"], 1)] if spread else [])
        + [percent(row["share"])]
        for row in rows
    ]
    columns = [max(len(head), *(len(line[n]) for line in fixed)) for n, head in enumerate(heads[1:-2])]
    columns += [max(5, *map(len, families)), max(3, *map(len, sms))]
    room = width - sum(columns) - 2 * len(columns) - 1
    for row, cells, family, blocks in zip(rows, fixed, families, sms, strict=True):
        style = Style(color=palette.KIND_COLOURS.get(row["kind"]))
        name = kernel_label(row["name"], max(room, 12))
        table.add_row(Text(name), *map(Text, cells), Text(family, style=style), Text(blocks))
    total = len(rank["kernels"])
    note = f"the top {len(rows)} of {total:,} by total time" if total > len(rows) else "by total time"
    upper = "; ≤ marks an upper bound of the SMs" if any(text.startswith("≤") for text in sms) else ""
    return Group(_section("Kernels", note + upper), table)


def _unnamed(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    rows, share = rank.get("unnamed") or [], rank.get("unnamed_share")
    if not rows or not share:
        return None
    table = _table("kernel", "count", "total ms", left=("kernel",))
    for row in rows[:TOP_UNNAMED]:
        _add(table, [kernel_label(row["name"], max(width - 24, 12)), f"{row['num_events']:,}", _ms(row["total_ns"])])
    note = f"{percent(share)} of compute time, {len(rows):,} names; a rules file can name them"
    return Group(_section("No rule names", note), table)


def _idle_causes(rank: Mapping[str, Any]) -> RenderableType | None:
    causes = rank.get("idle_causes") or {}
    streams = [stream for stream in causes.get("by_stream") or [] if stream["idle_ns"]]
    if not streams:
        return None
    present = [(key, name) for key, name in _CAUSES if any(stream.get(key) for stream in streams)]
    table = _table("stream", "idle ms", *(name for _, name in present), left=("stream",))
    for stream in streams[:MAX_STREAMS]:
        _add(table, [clean(stream["stream"]), _ms(stream["idle_ns"]), *(_ms(stream[key]) for key, _ in present)])
    if len(streams) > 1:
        total = sum(stream["idle_ns"] for stream in streams)
        _add(table, ["all", _ms(total), *(_ms(causes[key]) for key, _ in present)], style=_BOLD)
    note = f"in ms; back to back, under {duration(causes['threshold_ns'])}, is a kernel gap"
    return Group(_section("Why streams were idle", note), table)


def _launch(rank: Mapping[str, Any]) -> RenderableType | None:
    launch = rank.get("launch") or {}
    if not launch.get("num_linked"):
        return None
    median, late, most = (duration(launch[f"delay_{key}_ns"]) for key in ("p50", "p99", "max"))
    lines = [
        f"A kernel started {median} after its launch call (median); 99 % within {late}, all within {most}.",
        f"The queue held {launch['queue_mean']:,.0f} launches on average, {launch['queue_max']:,} at most.",
    ]
    blocked = [
        f"{clean(call['name'])} {duration(call['total_ns'])} ({call['num_events']:,}×)"
        for call in (launch.get("host_blocked") or [])[:4]
    ]
    if blocked:
        lines.append("The host was blocked in " + ", ".join(blocked) + ".")
    return Group(_section("Launches", f"{launch['num_linked']:,} linked to their calls"), *map(Text, lines))


def _steps(rank: Mapping[str, Any]) -> RenderableType | None:
    steps = rank.get("steps") or []
    if len(steps) < 2:
        return None
    slowest = max(steps, key=lambda step: step["span_ns"])
    kept = sorted(steps, key=lambda step: -step["span_ns"])[:MAX_STEPS]
    table = _table("step", *_ACCOUNT_HEADS, "", left=("step", ""))
    for step in (step for step in steps if step in kept):
        keys = ("span_ns", "compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
        cells = [clean(step["step"]), *(_ms(step[key]) for key in keys), percent(step["hidden_fraction"])]
        is_slowest = step is slowest
        _add(table, [*cells, "slowest" if is_slowest else ""], style=_BOLD if is_slowest else Style())
    left = len(steps) - len(kept)
    return Group(_section("Steps", f"the {len(kept)} longest of {len(steps):,}" if left else "in ms"), table)


# ---- quality

_FLAGS = {
    "simulated": "simulated: a plan's times, not a measurement",
    "host": "no device work in this file: host operators stand in for it",
    "none": "no work at all in this file",
}
_COUNTS = {
    "dropped": "dropped",
    "repaired": "repaired",
    "clipped": "clipped",
    "unlinked": "without a launch call",
    "out_of_window": "outside of the recording",
}


def _flags(rank: Mapping[str, Any]) -> list[str]:
    """What makes a rank's numbers other than a whole measurement of a device."""
    truncated = (rank.get("quality") or {}).get("truncated")
    present = ["simulated"] * bool(rank.get("simulated")) + [rank.get("basis", "device")]
    return [_FLAGS[key] for key in present if key in _FLAGS] + ["the file is cut short"] * bool(truncated)


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
    if not notes and quality.get("truncated"):
        notes.append(f"the file is cut short: {clean(quality['truncated'])}")
    lines = [Text(flag, style=_BOLD) for flag in _flags(rank)]
    lines += [Text("Events: " + ", ".join(counts))] * bool(counts)
    lines += [Text(f"- {note}") for note in notes]
    style = _ERROR if verdict == "doubtful" or rank.get("basis") == "none" else _WARNING
    return _frame(f"Data quality: {clean(verdict)}", lines, style)


def _quality_line(rank: Mapping[str, Any]) -> RenderableType | None:
    """The last line: that all is well, when it is; and what was read and not used, by kind."""
    quality = rank.get("quality") or {}
    skipped = [f"{count:,} {clean(kind)}" for kind, count in (quality.get("skipped") or {}).items() if count]
    lines = []
    if quality and not _concerns(rank):
        lines.append("Data quality: good. Nothing was dropped, clipped or left without its launch call.")
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


def _table(*heads: str, left: Sequence[str] = (), gap: int = 2) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style=_DIM)
    for head in heads:
        justify: Literal["left", "right"] = "left" if head in left else "right"
        table.add_column(Text(head), justify=justify, no_wrap=True, overflow="ellipsis")
    return table


def _add(table: Table, cells: Iterable[str], style: Style | None = None) -> None:
    """A row of plain strings: never read for markup."""
    table.add_row(*(Text(cell) for cell in cells), style=style)


def _us(time_ns: int, decimals: int | None = None) -> str:
    """Exact microseconds: with three decimals where there are nanoseconds."""
    digits = decimals if decimals is not None else 0 if time_ns % US == 0 else 3
    return f"{time_ns / US:,.{digits}f} µs"


def _number(time_ns: float, decimals: int = 0) -> str:
    """Microseconds without their unit, which the head of the column has."""
    return f"{time_ns / US:,.{decimals}f}"


def _ms(time_ns: float) -> str:
    """Milliseconds without their unit, which the head of the table has."""
    return f"{time_ns / MS:,.2f}" if abs(time_ns) < 10 * S else f"{time_ns / MS:,.0f}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _times(longer: int, shorter: int) -> str:
    return f"{longer / shorter:.2f}×" if shorter else "–"
