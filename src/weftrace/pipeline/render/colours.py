"""The colour of a cell: its kind's, paler for later directions and chunks; and ink that is read on it."""

from __future__ import annotations

from weftrace.render import palette

#: Kind of an action -> colour. An F&B is drawn as an F and a B.
KINDS = {"F": palette.FORWARD, "B": palette.BACKWARD, "I": palette.INPUT, "W": palette.WEIGHT}
#: How far the palest shade is mixed into the ground; `static/schedule_paint.js` has the same.
PALEST = 0.5


def colour(kind: str, shade: int, num_shades: int, ground: str = palette.PAPER) -> str:
    """#rrggbb of a cell of a kind. shade: 0 is the full colour, num_shades - 1 the palest."""
    share = PALEST * shade / (num_shades - 1) if num_shades > 1 else 0.0
    mixed = (int(a + (b - a) * share + 0.5) for a, b in zip(_channels(KINDS[kind]), _channels(ground), strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def ink_on(ground: str) -> str:
    """Black or white, whichever is read better on a colour; white a little sooner, as in the pages' `theme.js`."""
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in (c / 255 for c in _channels(ground))]
    return (
        palette.INK if sum(k * c for k, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) > 0.32 else "#ffffff"
    )


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
