"""The colour of a cell: its kind's, paler for later directions and chunks; and ink that is read on it."""

from __future__ import annotations

from weftrace.render import palette

#: Kind of an action -> colour. An F&B is drawn as an F and a B.
KINDS = {"F": palette.FORWARD, "B": palette.BACKWARD, "I": palette.INPUT, "W": palette.WEIGHT}
#: How far the palest shade is mixed into the ground; `static/schedule_paint.js` has the same.
PALEST = 0.5


def colour(kind: str, shade: int, num_shades: int, ground: str = palette.PAPER) -> str:
    """#rrggbb of a cell of a kind. shade: 0 is the full colour, num_shades - 1 the palest."""
    return palette.mixed(KINDS[kind], ground, PALEST * shade / (num_shades - 1) if num_shades > 1 else 0.0)
