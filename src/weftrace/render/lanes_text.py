"""The lane picture in a terminal: what the compute lane runs while the communication lane moves data, or whatever bands
there are.

One row of bands is a stretch of time, by preference one repetition of the phases (a layer); all rows have one scale. A
box is as wide as its phase is long; below the boxes stands how much of each column the lane was busy. A box's fill
tells the direction, or the micro-batch where phases have none, in characters as well as in colour, so that the picture
survives a pipe; a box that was idle for most of its time has none. Under the bands, red marks where communication ran
and no compute did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, Group
from rich.style import Style
from rich.text import Text

from weftrace.alphabet import stem_of
from weftrace.render import palette
from weftrace.render.console_text import clean, fitted, joined, shorten_middle, suited
from weftrace.render.lane_types import LanePicture, sms_text
from weftrace.render.lanes_layout import (
    MAX_ROWS,
    MAX_TRACKS,
    Band,
    Box,
    TextPicture,
    TextRow,
    lane_picture,
    role_word,
)
from weftrace.render.scene import round_up
from weftrace.units import counted, duration, of_whole, percent, tick

MIN_WIDTH = 60
MAX_WIDTH = 200
MARGIN = 12  # columns left of the bands, for a lane's name and SMs
MIN_MARK = 0.05  # a smaller part of a column exposed is not marked: kernels leave microseconds between them

_LEVELS = "▁▂▃▄▅▆▇█"
_TRACE = "·"  # busy, but for less than half a level
_IDLE_WORDS = {"host": " idle: no thread recorded an operator", "ranges": " idle: no range was recorded"}
_DENSE = 0.5  # a box that was busy for less of its time is not filled
_WHOLE = 0.95  # a box that was busy for less of its time says so
_FILL: dict[str | None, str] = {None: " ", **dict(zip(palette.ROLE_COLOURS, "░▒▓░▓▒ ", strict=True))}
_LANE_NAMES = {"compute": "compute", "communication": "communic."}
_NOTE = Style(dim=True)
_EXPOSED = Style(color=palette.EXPOSED, bold=True)
_IDLE = Style(color=palette.IDLE)


def print_lanes(
    rank: LanePicture,
    console: Console,
    width: int | None = None,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    with_device: bool = False,
) -> None:
    """Print the lane picture of one rank of a report.

    rank: a member of `ranks` in a report document (schema weftrace.report/1). width: columns to use, the console's when
    None. start_ns, end_ns: the stretch to draw, in nanoseconds from the rank's first device event; all of it when None.
    with_device: name the device too, as its rank has several.
    """
    columns = max(min(width or console.width, MAX_WIDTH), MIN_WIDTH)
    picture = lane_picture(rank, num_columns=columns - MARGIN, start_ns=start_ns, end_ns=end_ns)
    words = [line for text in _heading(rank, picture, with_device=with_device) for line in text.wrap(console, columns)]
    notes = [line for text in _left_out(rank, picture) for line in text.wrap(console, columns)]
    drawn, coded = _drawn(picture)
    lines = [*words, Text(), *drawn, *_legend(picture, rank["basis"], coded, columns), *notes]
    # The lines are as wide as asked, which may be more than the console's own width: it must not fold them again.
    console.print(suited(Group(*lines), console), soft_wrap=True)


def _heading(rank: LanePicture, picture: TextPicture, *, with_device: bool) -> list[Text]:
    name = clean(rank["name"]) or ("" if rank["rank"] is None else f"rank {rank['rank']}")
    who = f"lanes of {name}" if name else "lanes"
    device = clean(rank["device_name"])
    parts = [
        who,
        f"device {rank['device']}" if with_device else "",
        device,
        "simulated" if rank["simulated"] and "simulated" not in device else "",
    ]
    lines = [joined([Text(parts[0], style="bold"), *[p for p in parts[1:] if p]], " · ")]
    if rank["basis"] == "host":
        lines.append(Text("No device work in this file: the lanes show host operators instead.", style="bold yellow"))
    if not picture.rows:
        start, end = picture.start_ns, picture.asked_end_ns
        copied = start < end and any(a < end and b > start for a, b, _ in rank["busy"])
        ran = f"{'Only memory copies' if copied else 'Nothing'} ran in this interval."
        lines.append(Text(ran if rank["lanes"] else "There is no work to draw."))
        return lines
    for lane in rank["lanes"]:
        if not lane["boxes"]:
            continue
        sms = sms_text(lane)
        busy = f"{of_whole(lane['busy_ns'], rank['span_ns'])} busy"
        line = f"{lane['lane']}: {busy}{f' on {sms}' if sms else ''}"
        if lane["lane"] == "communication":
            hidden = percent(rank["hidden_fraction"])
            line += f", {hidden} of it hidden, {duration(rank['exposed_communication_ns'])} exposed"
        lines.append(Text(line))
    if not rank["communication_ns"] and any(lane["lane"] == "communication" for lane in rank["lanes"]):
        lines.append(Text("No communication ran, so there is nothing to hide."))
    whole = (picture.start_ns, picture.end_ns) == (0, rank["span_ns"])
    span = duration(rank["span_ns"])
    drawn = f"All {span} drawn"
    if not whole:
        begun = f"{duration(picture.start_ns)} to" if picture.start_ns else "The first"
        drawn = f"{begun} {duration(picture.end_ns)} of {span} drawn"
    lines.append(Text(f"{drawn}; one column is {duration(picture.ns_per_column)}", style=_NOTE))
    return lines


def _drawn(picture: TextPicture) -> tuple[list[Text], set[str]]:
    """All rows as lines, and the names for which only their code had room."""
    used: set[str] = set()
    lines: list[Text] = []
    bands = picture.rows[0].bands if picture.rows else ()
    any_communication = any(band.lane == "communication" for band in bands) or any(any(r.exposed) for r in picture.rows)
    silent: list[TextRow] = []  # rows in which nothing ran share a line
    for row in [*picture.rows, None]:
        if row is not None and min(row.idle) == 1:
            silent.append(row)
            continue
        if silent:
            stretch = f"{duration(silent[0].start_ns)} to {duration(silent[-1].end_ns)}"
            lines += [Text(f"{'':{MARGIN}}╌╌ idle from {stretch}", style=_IDLE), Text()]
            silent = []
        if row is not None:
            lines.append(_axis(row, picture.ns_per_column))
            for band in row.bands:
                lines.extend(_band_lines(band, row.num_columns, picture.codes, used))
            lines += [_marks(row, "exposed" if any_communication else "idle"), Text()]
    return lines, used


def _axis(row: TextRow, scale: float) -> Text:
    """Tick marks at round times, each with its time to the right of it; the first also has the unit."""
    step = max(round_up(10 * scale), 1)
    cells = ["─"] * row.num_columns
    free = 0
    for time in range(-(-row.start_ns // step) * step, row.end_ns, step):
        column = int((time - row.start_ns) / scale)
        number, unit = tick(time, step, row.end_ns - row.start_ns).split()
        label = f"┬{number}{'' if free else f' {unit}'}"
        if column >= free and column + len(label) <= row.num_columns:
            cells[column : column + len(label)] = label
            free = column + len(label) + 1
    return Text(" " * MARGIN + "".join(cells), style=_NOTE)


def _band_lines(band: Band, num_columns: int, codes: Mapping[str, str], used: set[str]) -> list[Text]:
    """A line of boxes for each track, and one that says how busy each column was."""
    lines: list[Text] = []
    for track in band.tracks:
        line = Text()
        column = 0
        for at, box in enumerate(track):
            line.append(_gap(column, box.left, track[at - 1] if at else None))
            room = max(0, box.right - box.left - 1 - box.after)
            line.append_text(_box_text(box, band.colour, _label(box, room, codes, used), room))
            column = box.right
        line.append(_gap(column, num_columns, track[-1] if track else None))
        lines.append(line)
    lines.append(_busy_line(band))
    heads = [_LANE_NAMES.get(band.lane) or shorten_middle(clean(band.lane), MARGIN - 1), band.sms]
    heads = heads + [""] * (len(lines) - 2)
    for line, head, bold in zip(lines, heads, (True, *[False] * len(lines)), strict=False):
        _prepend(line, head, Style(bold=bold))
    return lines


def _busy_line(band: Band) -> Text:
    """How much of each column the lane was busy, in the colour of the box above it."""
    colours = [band.colour] * len(band.busy)
    for box in reversed([box for track in band.tracks for box in track]):
        if box.role:
            colours[box.left : box.right] = [palette.ROLE_COLOURS[box.role]] * (box.right - box.left)
    line = Text()
    for level, colour in zip(levels(band.busy), colours, strict=False):
        line.append(level, style=Style(color=colour))
    return line


def levels(busy: Sequence[float]) -> list[str]:
    """A character for each column: a bar as high as the part of it that is busy, in eighths.

    What rounding takes from a column is given to the next busy one, so that the bars of any stretch show its busy time
    within half an eighth of a column.
    """
    owed = 0.0
    drawn = []
    for part in busy:
        if not part:
            drawn.append(" ")
            continue
        eighths = min(len(_LEVELS), max(0, round(part * len(_LEVELS) + owed)))
        owed += part * len(_LEVELS) - eighths
        drawn.append(_LEVELS[eighths - 1] if eighths else _TRACE)
    return drawn


def _prepend(line: Text, head: str, style: Style) -> None:
    body = line.copy()
    line.plain = ""
    line.spans = []
    line.append(fitted(head, MARGIN), style=style)
    line.append_text(body)


def _gap(column: int, until: int, last: Box | None) -> str:
    """Nothing ran; where there is room, a thin edge ends the box before, so that fills need not tell."""
    length = until - column
    closes = last is not None and last.right - last.left > 1 and length > 1
    return "▏" + " " * (length - 1) if closes else " " * length


def _box_text(box: Box, colour: str, text: str, room: int) -> Text:
    """An edge, the text and the fill: one piece as wide as the box. A box that was mostly idle has its text only."""
    ink, shade = _box_styles(box.role, colour)
    fill = _FILL.get(box.role, " ")
    if box.density < _DENSE:
        ink = shade = Style(color=palette.ROLE_COLOURS.get(box.role or "", colour))
        fill = " "
    used = cell_len(text)
    padding = " " if text and used < room else ""
    edge = "‹" if box.before else "┃" if box.right - box.left == 1 else "│"
    piece = Text(edge, style=ink)
    piece.append(text + padding, style=ink)
    piece.append(fill * max(0, room - used - len(padding)), style=shade)
    return piece.append("›" if box.after and box.right - box.left > 1 else "", style=ink)


def _box_time(box: Box) -> str:
    """How long the phase took, and what of it the lane worked where that is less."""
    if not box.duration_ns:
        return ""
    return duration(box.duration_ns) if box.density >= _WHOLE else of_whole(box.busy_ns, box.duration_ns)


def _box_styles(role: str | None, colour: str = palette.COMPUTE) -> tuple[Style, Style]:
    """Styles of a box's text and of its fill: the fill is the ground a little darker, plain without colours.

    colour: the ground of a box without a direction.
    """
    ground = palette.ROLE_COLOURS.get(role or "", colour)
    red, green, blue = (int(ground[n : n + 2], 16) * 4 // 5 for n in (1, 3, 5))
    ink = palette.ROLE_INKS.get(role or "", palette.PAPER)
    return Style(color=ink, bgcolor=ground), Style(color=f"#{red:02x}{green:02x}{blue:02x}", bgcolor=ground)


def _marks(row: TextRow, head: str) -> Text:
    """The last line of a row: how much of each column is exposed communication; dashes where the device was idle for
    half of it or more, c where it copied."""
    line = Text(fitted(head, MARGIN), style=_EXPOSED if head == "exposed" else _IDLE)
    bars = levels(row.exposed)
    for bar, exposed, idle, elsewhere in zip(bars, row.exposed, row.idle, row.elsewhere, strict=True):
        if exposed >= MIN_MARK and not idle >= 0.5 > exposed:
            line.append(bar, style=_EXPOSED)
        elif idle >= 0.5:
            line.append("╌", style=_IDLE)
        elif elsewhere >= 0.5:
            line.append("c", style=_IDLE)
        else:
            line.append(" ")
    return line


def _legend(picture: TextPicture, basis: str, coded: set[str], width: int) -> list[Text]:
    shown = [box for row in picture.rows for band in row.bands for track in band.tracks for box in track]
    chips = [joined([Text("▁▄█"), " busy, as a share of the column"])] if shown else []
    for role in palette.ROLE_COLOURS:
        if any(box.role == role for box in shown):
            ink, shade = _box_styles(role)
            chip = Text(f"│{role} ", style=ink).append(_FILL[role] * 2, style=shade)
            chips.append(joined([chip, f" {role_word(role)}"]))
    if any(level >= MIN_MARK for row in picture.rows for level in row.exposed):
        chips.append(joined([Text("▂▅█", style=_EXPOSED), " exposed, as a share of the column"]))
    if any(level >= 0.5 for row in picture.rows for level in row.idle):
        chips.append(joined([Text("╌╌", style=_IDLE), _IDLE_WORDS.get(basis, " idle: the device ran nothing")]))
    if any(c >= 0.5 > i for row in picture.rows for c, i in zip(row.elsewhere, row.idle, strict=True)):
        chips.append(joined([Text("cc", style=_IDLE), " memory copies only"]))
    if any(box.before or box.after for box in shown):
        chips.append(Text("‹ › continues in the row before or after"))
    explained = [Text(f"{picture.codes[name]} = {shorten_middle(name, 40)}") for name in coded]
    return _flowed(chips, width) + _flowed(sorted(explained, key=str), width)


def _flowed(chips: Sequence[Text], width: int) -> list[Text]:
    """Chips on as few lines as hold them; none is broken."""
    lines: list[Text] = []
    for chip in chips:
        if lines and lines[-1].cell_len + 3 + chip.cell_len <= width:
            lines[-1] = joined([lines[-1], chip], "   ")
        else:
            lines.append(chip)
    return lines


def _left_out(rank: LanePicture, picture: TextPicture) -> list[Text]:
    """What the picture does not show, and what helps."""
    notes = []
    if picture.end_ns < picture.asked_end_ns:
        notes.append(
            f"Not drawn: {duration(picture.asked_end_ns - picture.end_ns)} after "
            f"{duration(picture.end_ns)} (at most {MAX_ROWS} rows are drawn). Choose a later interval to see "
            "it."
        )
    if picture.num_narrow:
        notes.append(
            f"Narrower than a column ({duration(picture.ns_per_column)}): "
            f"{counted(picture.num_narrow, 'box')}; only the longest in a column is drawn. Choose a shorter "
            "interval to see them."
        )
    if picture.num_covered:
        notes.append(f"Not drawn: {counted(picture.num_covered, 'box')} overlapping more than {MAX_TRACKS - 1} others.")
    listed, total = len(rank["exposed"]), rank["num_exposed"]
    if total > listed:
        notes.append(f"The {listed:,} longest of {total:,} exposed intervals are marked.")
    return [Text(note, style=_NOTE) for note in notes]


def _label(box: Box, width: int, codes: Mapping[str, str], used_codes: set[str]) -> str:
    """The longest that fits of: name, index and time, without time, name, a telling part of it, its code; a code is
    explained below."""
    stem, direction = stem_of(box.name)
    bare = box.name.strip("#* ") or box.name  # some frameworks frame their phases: ## forward ##
    numbered, time = f"{box.name} {box.number}" if box.number else box.name, _box_time(box)
    named = [f"{numbered}  {time}"] * bool(time) + [numbered, box.name, bare]
    if direction:
        telling = max(4, len(codes.get(box.name, "")) - len(direction))  # letters that can be read, and tell it apart
        named += [stem + direction, stem[:telling] + direction]
    for label in named:
        if cell_len(label) <= width:
            return label
    if not direction and width >= 8 and cell_len(bare) <= 3 * width:
        return shorten_middle(bare, width)
    code = codes.get(box.name, "")
    if code and cell_len(code) <= width:
        used_codes.add(box.name)
        return code
    return ""
