"""The lane picture as an SVG file, for documents: bands with their SMs, boxes, what became of communication, arrows.

A lane is filled where it ran and nowhere else: boxes say who, the lane's stretches when. Light or dark follows the
reader's system.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from weftrace.render import palette
from weftrace.render.lane_types import BoxDocument, LaneDocument, LanePicture, PlannedPicture, number_of, sms_text
from weftrace.render.lanes_layout import joined_stretches, role_word, roles, round_up
from weftrace.render.svg_parts import FONT, THEMES, px, svg_text
from weftrace.units import MS, US, duration

WIDTH = 960
_LEFT, _RIGHT, _TOP = 118, 12, 58
_BAND, _STRIP, _GAP = 64, 14, 6
_FINEST = 0.04  # pixels: stretches that are nearer to each other are one, as full as they ran
_LEGEND, _FOOT = 30, 10
_TICK_PX = 84
_LETTER, _SMALL = 6.3, 5.2  # pixels of a letter at 11 px and at 10 px
_MOST_ARROWS = 120
_LOOK = (
    "text{font-size:11px;font-variant-numeric:tabular-nums}.title{font-size:14px;font-weight:650}"
    ".lane{font-weight:650;font-size:12.5px}.s{font-size:10px}.n{text-anchor:middle;font-weight:600}"
    ".x{text-anchor:end}.line{fill:none;stroke-width:1}.edge{fill:none;stroke-width:.6;stroke:rgb(0 0 0/.35)}"
    f".exposed{{fill:{palette.EXPOSED}}}.hidden{{fill:{palette.COMMUNICATION};opacity:.45}}.idle{{fill:{palette.IDLE}}}"
    f".red{{fill:{palette.EXPOSED};opacity:.3}}.arrow{{fill:none;stroke-width:1.2}}.faint{{opacity:.4}}"
    + "".join(f".r{role}{{fill:{colour}}}" for role, colour in palette.ROLE_COLOURS.items())
    + "".join(f".i{role}{{fill:{ink}}}" for role, ink in palette.ROLE_INKS.items())
)


def lanes_svg(
    picture: LanePicture | PlannedPicture,
    *,
    title: str,
    start_ns: int = 0,
    end_ns: int | None = None,
    width: int = WIDTH,
) -> str:
    """The lanes of a picture between two times, as the text of an SVG file."""
    end = min(picture["span_ns"], picture["span_ns"] if end_ns is None else end_ns)
    view = _View(start_ns, max(end, start_ns + 1), (width - _LEFT - _RIGHT) / max(1, end - start_ns))
    lanes = [lane for lane in picture["lanes"] if lane["boxes"]]
    tops, strip = _places(lanes)
    bottom = (tops[-1] if tops else _TOP) + _BAND
    height = bottom + _LEGEND + _FOOT
    colours = palette.lane_colours([lane["lane"].split(" ")[0] for lane in lanes])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {px(height)}" width="{width}" '
        f'height="{px(height)}" role="img" font-family="{FONT}">',
        f"<title>{svg_text(title)}</title>",
        f"<style>{_style(colours)}</style>",
        f'<rect class="panel" width="{width}" height="{px(height)}"/>',
        f'<text class="title" x="12" y="22">{svg_text(title)}</text>',
        f'<g transform="translate({_LEFT} 0)">',
        *_axis(view, bottom),
    ]
    for at, (lane, top) in enumerate(zip(lanes, tops, strict=True)):
        parts += _lane(lane, at, top, view)
    parts += _fates(picture, lanes, tops, strip, view)
    parts += _arrows(picture, tops, view)
    parts += [*_legend(picture, lanes, bottom + 20), "</g>", "</svg>"]
    return "\n".join(parts) + "\n"


class _View:
    """A stretch of time, and its scale in pixels a nanosecond."""

    def __init__(self, start_ns: int, end_ns: int, scale: float) -> None:
        self.start_ns, self.end_ns, self.scale = start_ns, end_ns, scale

    def x(self, time_ns: float) -> float:
        return (min(max(time_ns, self.start_ns), self.end_ns) - self.start_ns) * self.scale

    def stretches(self, busy: Sequence[Sequence[int]]) -> Iterator[tuple[float, float, float]]:
        """x, width and how full, of the stretches in view."""
        for start, end, ran in joined_stretches(busy, _FINEST / self.scale):
            if end > self.start_ns and start < self.end_ns:
                yield self.x(start), self.x(end) - self.x(start), ran / (end - start)


def _places(lanes: Sequence[LaneDocument]) -> tuple[list[float], float]:
    """Tops of the lanes, and of the strip below the last that computes."""
    between = max((at for at, lane in enumerate(lanes) if lane["lane"].startswith("compute")), default=0)
    tops = [_TOP + at * (_BAND + _GAP) + (_STRIP + _GAP) * (at > between) for at in range(len(lanes))]
    return [float(top) for top in tops], _TOP + (between + 1) * (_BAND + _GAP)


def _axis(view: _View, bottom: float) -> Iterator[str]:
    step = round_up(_TICK_PX / view.scale)
    for time in range(math.ceil(view.start_ns / step) * step, view.end_ns + 1, step):
        x = px(view.x(time))
        yield f'<path class="line" d="M{x} {_TOP - 8}V{px(bottom)}"/>'
        if view.x(time) + _TICK_PX / 2 < view.x(view.end_ns):
            yield f'<text class="muted s" x="{x}" y="{_TOP - 13}">{_tick(time, step)}</text>'


def _tick(time_ns: int, step_ns: int) -> str:
    """A time to the digit that tells ticks apart."""
    unit_ns, unit = next((each for each in ((MS, "ms"), (US, "µs")) if step_ns * 100 >= each[0]), (1, "ns"))
    digits = max(0, math.ceil(math.log10(unit_ns / step_ns) - 1e-9)) + (unit_ns / step_ns in (0.4, 4.0, 40.0))
    return f"{time_ns / unit_ns:,.{digits}f} {unit}"


def _lane(lane: LaneDocument, at: int, top: float, view: _View) -> Iterator[str]:
    yield f'<rect class="ground" y="{px(top)}" width="{px(view.x(view.end_ns))}" height="{_BAND}"/>'
    yield f'<text class="lane x" x="-10" y="{px(top + 26)}">{svg_text(lane["lane"])}</text>'
    if sms := sms_text(lane):
        yield f'<text class="x" x="-10" y="{px(top + 42)}">{svg_text(sms)}</text>'
    role_of = roles(lane["boxes"])
    seen = [box for box in lane["boxes"] if box["end_ns"] > view.start_ns and box["start_ns"] < view.end_ns]
    for box in seen:
        yield _ran(lane, box, role_of(box) or f"lane{at}", top, view)
    for box in seen:
        yield from _named(box, role_of(box) or f"lane{at}", top, view)


def _ran(lane: LaneDocument, box: BoxDocument, role: str, top: float, view: _View) -> str:
    """What the lane ran of a box's time, as one path, and the box's edge."""
    busy = lane["busy"]
    first = bisect_right(busy, box["start_ns"], key=lambda stretch: stretch[1])
    within = [
        [max(start, box["start_ns"]), min(end, box["end_ns"]), round(ran * _part(start, end, box))]
        for start, end, ran in takewhile(lambda stretch: stretch[0] < box["end_ns"], islice(busy, first, None))
    ]
    columns = [
        f"M{px(x)} {px(top + _BAND * (1 - full))}h{px(w)}V{px(top + _BAND)}h{px(-w)}z"
        for x, w, full in view.stretches(within)
    ]
    x0, x1 = view.x(box["start_ns"]), view.x(box["end_ns"])
    edge = f'<path class="edge" d="M{px(x1)} {px(top)}v{_BAND}"/>' if x1 - x0 > 3 else ""
    told = f"{box['name']} {number_of(box)}: {duration(box['start_ns'])} to {duration(box['end_ns'])}"
    return f'<path class="r{role}" d="{"".join(columns)}"><title>{svg_text(told)}</title></path>{edge}'


def _part(start: int, end: int, box: BoxDocument) -> float:
    return (min(end, box["end_ns"]) - max(start, box["start_ns"])) / (end - start)


def _named(box: BoxDocument, role: str, top: float, view: _View) -> Iterator[str]:
    """Its name where it fits, upright where only that does; of kernels that issue or receive messages a mark."""
    x0, x1 = view.x(box["start_ns"]), view.x(box["end_ns"])
    middle = (x0 + x1) / 2
    if box.get("part") in ("issue", "receive"):
        tip = top + _BAND + (5 if box.get("part") == "issue" else -1)
        base = tip - 5 if box.get("part") == "issue" else tip + 6
        yield f'<path class="ink" d="M{px(middle)} {px(tip)}L{px(middle - 3.5)} {px(base)}h7z"/>'
        return
    name, room = box["name"], x1 - x0
    if len(name) * _LETTER + 4 <= room:
        yield f'<text class="n i{role}" x="{px(middle)}" y="{px(top + _BAND / 2 + 4)}">{svg_text(name)}</text>'
    elif room >= 11 and len(name) * _SMALL + 6 <= _BAND:
        turned = f"rotate(-90 {px(middle + 3.5)} {px(top + _BAND / 2)})"
        place = f'x="{px(middle + 3.5)}" y="{px(top + _BAND / 2)}" transform="{turned}"'
        yield f'<text class="n s i{role}" {place}>{svg_text(name)}</text>'


def _fates(
    picture: LanePicture | PlannedPicture,
    lanes: Sequence[LaneDocument],
    tops: Sequence[float],
    strip: float,
    view: _View,
) -> Iterator[str]:
    """Exposed communication in red over the bands that compute; and the strip: hidden, exposed, idle."""
    exposed = list(view.stretches(picture["exposed"]))
    for lane, top in zip(lanes, tops, strict=True):
        if lane["lane"].startswith("compute"):
            yield from (_block("red", x, w, top, _BAND, full) for x, w, full in exposed)
    if len(lanes) < 2:
        return
    yield f'<text class="x s" x="-10" y="{px(strip + 11)}">communication is</text>'
    hidden = picture.get("hidden")
    for name, busy in (("hidden", hidden), ("exposed", picture["exposed"]), ("idle", _idle(picture))):
        for x, w, full in view.stretches(busy if isinstance(busy, list) else []):
            yield _block(name, x, w, strip, _STRIP, full)


def _block(name: str, x: float, w: float, top: float, height: float, full: float) -> str:
    y, high = px(top + height * (1 - full)), px(height * full)
    return f'<rect class="{name}" x="{px(x)}" y="{y}" width="{px(w)}" height="{high}"/>'


def _idle(picture: LanePicture) -> list[list[int]]:
    times = [0, *(time for start, end, _ in picture["busy"] for time in (start, end)), picture["span_ns"]]
    return [[start, end, end - start] for start, end in zip(times[::2], times[1::2], strict=True) if end > start]


def _arrows(picture: LanePicture | PlannedPicture, tops: Sequence[float], view: _View) -> Iterator[str]:
    """What waits for what, from the end of one to the start of the other; none where they would be a thicket."""
    told = picture.get("arrows") or []
    seen = (
        [a for a in told if a["to_ns"] >= view.start_ns and a["from_ns"] <= view.end_ns]
        if isinstance(told, list)
        else []
    )
    if len(seen) > _MOST_ARROWS:
        return
    for arrow in seen:
        down = arrow["to_lane"] > arrow["from_lane"]
        y0 = tops[arrow["from_lane"]] + _BAND * down
        y1 = tops[arrow["to_lane"]] + _BAND * (not down)
        x0, x1 = view.x(arrow["from_ns"]), view.x(arrow["to_ns"])
        middle, back = px((y0 + y1) / 2), -4 if down else 4
        faint = "" if arrow["held"] else " faint"
        curve = f"M{px(x0)} {px(y0)}C{px(x0)} {middle} {px(x1)} {middle} {px(x1)} {px(y1)}"
        head = f"M{px(x1)} {px(y1)}l-2.6 {back}h5.2z"
        yield f'<path class="arrow{faint}" d="{curve}"/><path class="ink{faint}" d="{head}"/>'


def _legend(picture: LanePicture | PlannedPicture, lanes: Sequence[LaneDocument], y: float) -> Iterator[str]:
    told = {role for lane in lanes for role in map(roles(lane["boxes"]), lane["boxes"]) if role}
    keys = [(f"r{role}", role_word(role)) for role in palette.ROLE_COLOURS if role in told]
    keys += [("hidden", "hidden")] * ("hidden" in picture) + [("exposed", "exposed"), ("idle", "idle")]
    x = 0.0
    for name, word in keys:
        yield f'<rect class="{name}" x="{px(x)}" y="{px(y - 9)}" width="11" height="11"/>'
        yield f'<text class="muted" x="{px(x + 16)}" y="{px(y)}">{word}</text>'
        x += 34 + _LETTER * len(word)
    if any(box.get("part") == "issue" for lane in lanes for box in lane["boxes"]):
        yield f'<text class="muted" x="{px(x)}" y="{px(y)}">▾ issued  ▴ received</text>'


def _style(colours: Sequence[str]) -> str:
    own = "".join(f".rlane{at}{{fill:{colour}}}.ilane{at}{{fill:#fff}}" for at, colour in enumerate(colours))
    light, dark = (
        f".panel{{fill:{of['panel']}}}text,.ink{{fill:{of['text']}}}.muted{{fill:{of['muted']}}}"
        f".line{{stroke:{of['line']}}}.arrow{{stroke:{of['text']}}}.ground{{fill:{of['line']};opacity:.5}}"
        for of in (THEMES["light"], THEMES["dark"])
    )
    # Inks of names come last: they are told by their box, not by the theme.
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}{_LOOK}{own}"
