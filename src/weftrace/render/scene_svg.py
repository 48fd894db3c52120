"""Scenes as one SVG file, for documents, below each other on one scale of time. Light or dark follows the reader's
system. A rectangle's place and width are its start and duration, to the hundredth of a pixel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from weftrace.render import palette
from weftrace.render.console_text import clean
from weftrace.render.scene import FRAME, Arrow, Curve, Key, Look, Mark, Ran, Rect, Row, Scene, joined_stretches, ticks

_HEAD, _FACTS, _AXIS, _FOOT, _LEGEND = 30, 16, 18, 12, 30
_TICK_PX = 80  # between two ticks, at least
_FINEST = 0.04  # pixels: stretches that are nearer to each other are one, as full as they ran
_EDGED = 3  # pixels: wider boxes end with an edge
_LETTERS = ((6.6, 11, ""), (5.2, 9.2, " s"))  # pixels that a letter takes, its font's, and the class of that
_UPRIGHT = 11  # pixels of width that a text on its side needs
_MOST_ARROWS = 120
_FONT = "Inter,-apple-system,'Segoe UI',Roboto,'Noto Sans','Liberation Sans',Arial,sans-serif"
_THEMES = {
    "light": {"panel": "#ffffff", "text": "#15181d", "muted": "#5a6270", "line": "#e2e5ea"},
    "dark": {"panel": "#14181f", "text": "#e8ebf0", "muted": "#9aa4b2", "line": "#262c36"},
}
#: The ground in the dark.
DARK = _THEMES["dark"]["panel"]
_LOOK = (
    "text{font-size:11px;font-variant-numeric:tabular-nums}.name{font-size:15px;font-weight:650}"
    ".lane{font-weight:650;font-size:12.5px}.small{font-weight:400;font-size:11px}.n{text-anchor:middle}"
    ".n .s{font-size:9.2px}.x{text-anchor:end}.line{fill:none}.c,.edge{stroke:rgb(0 0 0/.3);stroke-width:.6}"
    f".{FRAME}{{fill:none;stroke-width:1.2}}.arrow{{fill:none;stroke-width:1.2}}.faint{{opacity:.4}}"
    f".band{{fill:{palette.MEMORY};opacity:.3}}.held{{fill:none;stroke:{palette.MEMORY};stroke-width:1.6}}"
)


def scene_svg(scenes: Sequence[Scene], plot: float) -> str:
    """Scenes as the text of an SVG file. plot: pixels from the start to the end of the longest."""
    longest = max((scene.end_ns - scene.start_ns for scene in scenes), default=0) or 1
    drawings = [_Drawing(scene, plot, plot / longest) for scene in scenes]
    left, right = (max((getattr(scene, side) for scene in scenes), default=0) for side in ("left", "right"))
    width, height = px(left + plot + right), px(sum(drawing.height for drawing in drawings) + _LEGEND)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{_FONT}">',
        f"<title>{svg_text(' '.join(scene.title for scene in scenes))}</title>",
        f"<style>{_style({name: look for scene in scenes for name, look in scene.looks.items()})}</style>",
        f'<rect class="panel" width="{width}" height="{height}"/>',
    ]
    top = 0.0
    for drawing in drawings:
        parts += [f'<g class="picture" transform="translate({px(left)} {px(top)})">', *drawing.parts(), "</g>"]
        top += drawing.height
    most_looks_first = sorted(scenes, key=lambda scene: -len(scene.looks))
    keys = {key.words: key for scene in reversed(most_looks_first) for key in scene.keys}
    parts += [f'<g transform="translate({px(left)} {px(top)})">', *_legend(list(keys.values())), "</g>", "</svg>"]
    return "\n".join(parts) + "\n"


def px(value: float) -> str:
    """Pixels to the hundredth, in the fewest characters."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def svg_text(text: str) -> str:
    """A text, as it may stand between tags."""
    return escape(clean(text), quote=False)


class _Drawing:
    """A scene at a scale, in pixels a nanosecond."""

    def __init__(self, scene: Scene, plot: float, scale: float) -> None:
        self.scene, self.plot, self.scale = scene, plot, scale
        self.head = _HEAD + (_FACTS if scene.facts else 0)
        self.tops: list[float] = []
        self.bottom = float(self.head + _AXIS)
        for row in scene.rows:
            self.tops.append(self.bottom + row.lead)
            self.bottom += row.lead + row.height + row.gap
        self.height = self.bottom + _FOOT

    def x(self, time_ns: float) -> float:
        return (min(max(time_ns, self.scene.start_ns), self.scene.end_ns) - self.scene.start_ns) * self.scale

    def parts(self) -> Iterator[str]:
        scene = self.scene
        yield f'<text class="name" x="0" y="20">{svg_text(scene.name)}</text>'
        if scene.facts:
            yield f'<text class="muted" x="0" y="37">{svg_text(scene.facts)}</text>'
        for time, label in ticks(scene.start_ns, scene.end_ns, _TICK_PX / self.scale, scene.unit_ns):
            x = px(self.x(time))
            yield f'<path class="line" d="M{x} {self.head + 10}V{px(self.bottom)}"/>'
            if self.x(time) + _TICK_PX / 2 < self.plot + scene.right:
                yield f'<text class="muted" x="{x}" y="{self.head + 7}">{label}</text>'
        for at, word in enumerate(scene.side_heads):
            yield f'<text class="muted x" x="{px(self.plot + 52 + 50 * at)}" y="{self.head + 7}">{word}</text>'
        rects: list[list[Rect]] = [[] for _ in scene.rows]
        for rect in scene.rects:
            rects[rect.row].append(rect)
        for row, within, top in zip(scene.rows, rects, self.tops, strict=True):
            yield f'<g class="{"curves" if row.curves else "row"}" transform="translate(0 {px(top)})">'
            yield from self.row(row, within)
            yield "</g>"
        yield from (self.mark(mark) for mark in scene.marks)
        arrows = [a for a in scene.arrows if a.to_ns >= scene.start_ns and a.from_ns <= scene.end_ns]
        yield from (self.arrow(arrow) for arrow in arrows if len(arrows) <= _MOST_ARROWS)

    def row(self, row: Row, rects: Sequence[Rect]) -> Iterator[str]:
        if row.grounded:
            yield f'<rect class="ground" width="{px(self.x(self.scene.end_ns))}" height="{px(row.height)}"/>'
        elif row.gap:
            yield f'<path class="line" d="M0 {px(row.height + row.gap - 1)}H{px(self.plot)}"/>'
        if row.head:
            yield f'<text class="name small" x="0" y="-5">{svg_text(row.head)}</text>'
        middle = row.height / 2 + 4 - 8 * bool(row.note)
        lines = [(row.label, "lane x" if row.note else "muted x", middle), (row.note, "x", middle + 16)]
        if row.curves:
            lines = [(row.label, "muted x", 4), ("0", "muted x", row.height)]
        for text, look, y in lines:
            if text:
                yield f'<text class="{look}" x="-8" y="{px(y)}">{svg_text(text)}</text>'
        for curve in row.curves:
            yield self.curve(curve, row)
        for rect in rects:
            yield from self.rect(rect, row.height)
        if texts := [self.text(rect, row.height) for rect in rects if rect.text]:
            yield f'<g class="n">{"".join(texts)}</g>'
        for at, text in enumerate(row.sides):
            yield f'<text class="muted x" x="{px(self.plot + 52 + 50 * at)}" y="{px(middle)}">{svg_text(text)}</text>'

    def rect(self, rect: Rect, height: float) -> Iterator[str]:
        x, y, high = self.x(rect.start_ns), height * rect.top, height * (rect.foot - rect.top)
        wide = self.x(rect.end_ns) - x
        title = f"<title>{svg_text(rect.title)}</title>" if rect.title else ""
        if rect.look == FRAME:
            if wide > 2 * _EDGED:
                yield _rect(FRAME, x + 0.6, y + 0.6, wide - 1.2, high - 1.2)
        elif rect.ran is None:
            yield _rect(f"c {rect.look}", x, y, wide, high, title)
        else:
            columns = "".join(
                f"M{px(at)} {px(y + high * (1 - full))}h{px(w)}V{px(y + high)}h{px(-w)}z"
                for at, w, full in self.stretches(rect.ran)
            )
            yield f'<path class="{rect.look}" d="{columns}">{title}</path>'
            if title and wide > _EDGED:
                yield f'<path class="edge" d="M{px(x + wide)} {px(y)}v{px(high)}"/>'

    def stretches(self, ran: Ran) -> Iterator[tuple[float, float, float]]:
        """x, width and how full, of the stretches in view."""
        for start, end, busy in joined_stretches(ran, _FINEST / self.scale):
            if end > self.scene.start_ns and start < self.scene.end_ns:
                yield self.x(start), self.x(end) - self.x(start), busy / (end - start)

    def text(self, rect: Rect, height: float) -> str:
        """Its text where it fits: as large as the rest, smaller, or on its side; else nothing."""
        x0, x1, high = self.x(rect.start_ns), self.x(rect.end_ns), height * (rect.foot - rect.top)
        x, y = (x0 + x1) / 2, height * rect.top + high / 2
        for letter, size, small in _LETTERS:
            if len(rect.text) * letter + 2 <= x1 - x0 and size <= high - 1:
                place = f'x="{px(x)}" y="{px(y + 0.36 * size)}"'
                return f'<text class="i{rect.look}{small}" {place}>{svg_text(rect.text)}</text>'
        if x1 - x0 >= _UPRIGHT and len(rect.text) * letter + 6 <= high:
            place = f'transform="translate({px(x + 3.5)} {px(y)})rotate(-90)"'
            return f'<text class="i{rect.look} s" {place}>{svg_text(rect.text)}</text>'
        return ""

    def mark(self, mark: Mark) -> str:
        foot, x = self.tops[mark.row] + self.scene.rows[mark.row].height, self.x(mark.at_ns)
        tip, base = (foot + 5, foot) if mark.away else (foot - 1, foot + 5)
        return f'<path class="ink" d="M{px(x)} {px(tip)}L{px(x - 3.5)} {px(base)}h7z"/>'

    def arrow(self, arrow: Arrow) -> str:
        down = arrow.to_row > arrow.from_row
        y0 = self.tops[arrow.from_row] + self.scene.rows[arrow.from_row].height * down
        y1 = self.tops[arrow.to_row] + self.scene.rows[arrow.to_row].height * (not down)
        x0, x1, faint = px(self.x(arrow.from_ns)), px(self.x(arrow.to_ns)), " faint" * arrow.faint
        middle = px((y0 + y1) / 2)
        curve = f"M{x0} {px(y0)}C{x0} {middle} {x1} {middle} {x1} {px(y1)}"
        head = f"M{x1} {px(y1)}l-2.6 {-4 if down else 4}h5.2z"
        return f'<path class="arrow{faint}" d="{curve}"/><path class="ink{faint}" d="{head}"/>'

    def curve(self, curve: Curve, row: Row) -> str:
        def points(amounts: Sequence[int]) -> list[tuple[str, str]]:
            heights = (px(row.height * (1 - amount / (row.most or 1))) for amount in amounts)
            return list(zip((px(self.x(time)) for time in curve.times_ns), heights, strict=True))

        steps = "".join(f"H{x}V{y}" for x, y in points(curve.high)) + f"H{px(self.x(self.scene.end_ns))}"
        back = "" if curve.low is None else "".join(f"V{y}H{x}" for x, y in reversed(points(curve.low))) + "Z"
        return f'<path class="{curve.look}" d="M0 {px(row.height)}{steps}{back}"/>'


def _rect(look: str, x: float, y: float, wide: float, high: float, title: str = "") -> str:
    place = f' x="{px(x)}"' * (px(x) != "0") + f' y="{px(y)}"' * (px(y) != "0")
    body = f">{title}</rect>" if title else "/>"
    return f'<rect class="{look}"{place} width="{px(wide)}" height="{px(high)}"{body}'


def _legend(keys: Sequence[Key]) -> Iterator[str]:
    """A swatch and a word for each colour that is drawn."""
    x = 0.0
    for key in keys:
        wide = 13.0 * len(key.looks)
        yield from (_rect(f"c {look}", x + 13 * at, 4, 13, 13) for at, look in enumerate(key.looks))
        if key.framed:
            yield _rect(FRAME, x + 0.6, 4.6, wide - 1.2, 11.8)
        gap = 6 * bool(key.looks)
        yield f'<text class="muted" x="{px(x + wide + gap)}" y="15">{svg_text(key.words)}</text>'
        x += wide + gap + 18 + 5.8 * len(key.words)


def _style(looks: Mapping[str, Look]) -> str:
    """Colours by role, once for the light and once for the dark."""
    light, dark = (_colours(theme, looks) for theme in ("light", "dark"))
    return f"{_LOOK}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _colours(theme: str, looks: Mapping[str, Look]) -> str:
    of = _THEMES[theme]
    parts = [
        f".panel{{fill:{of['panel']}}}text,.ink{{fill:{of['text']}}}.muted{{fill:{of['muted']}}}.line{{stroke:"
        f"{of['line']}}}.arrow,.{FRAME}{{stroke:{of['text']}}}.ground{{fill:{of['line']};opacity:.5}}"
    ]
    for name, look in looks.items():
        if name == FRAME:
            continue
        fill = look.dark or look.fill if theme == "dark" else look.fill
        faint = f";opacity:{look.opacity:g}" if look.opacity < 1 else ""
        parts.append(f".{name}{{fill:{fill}{faint}}}.i{name}{{fill:{palette.ink_on(fill)}}}")
    return "".join(parts)
