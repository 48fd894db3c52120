"""How large is the bubble of each schedule, by formula? In integers, in times of one chunk, without messages.

The bubble is the idle time of the rank that idles most: with a barrier at the step's end, makespan - busy; with a span,
from the start of its own first action to the end of its last, - busy. A formula with SPAN in its name is for the
second, others for the first; where a rank is the first to begin and the last to end, they are the same.

D devices, PP stages, M micro-batches, V stages a device, K slices; F, I, W, B and F&B times of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Times(NamedTuple):
    """Of one chunk, in nanoseconds; or in any unit of which all are whole numbers."""

    F: int
    I: int  # noqa: E741 - the alphabet's letter
    W: int
    B: int
    FB: int


class Size(NamedTuple):
    """Of a schedule, letters as above."""

    D: int
    PP: int
    M: int
    V: int = 1
    K: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """text: as people write it. of: what it gives. needs: where it holds, and how that is told.

    otherwise: the formula for where it does not; None where none is known.
    """

    text: str
    of: Callable[[Size, Times], int]
    needs: tuple[tuple[str, Callable[[Size, Times], bool]], ...] = ()
    otherwise: Formula | None = None

    def unmet(self, size: Size, times: Times) -> str | None:
        """What it needs and does not find here; None where all is well."""
        return next((summary for summary, met in self.needs if not met(size, times)), None)

    def here(self, size: Size, times: Times) -> Formula:
        """This one where it holds, or else the first that does; the last where none does."""
        return self if self.otherwise is None or not self.unmet(size, times) else self.otherwise.here(size, times)


_ENOUGH = ("M ≥ PP", lambda n, t: n.M >= n.PP)
_TWICE = ("M ≥ 2 PP", lambda n, t: n.M >= 2 * n.PP)
_A_ROUND = ("M ≥ D", lambda n, t: n.M >= n.D)
_TWICE_D = ("M ≥ 2 D", lambda n, t: n.M >= 2 * n.D)
_FULL_V = ("M ≥ 2 D - 1", lambda n, t: n.M >= 2 * n.D - 1)
_SUM = ("B = I + W", lambda n, t: t.B == t.I + t.W)
_OVERLAP = ("F ≤ F&B ≤ F + B", lambda n, t: t.F <= t.FB <= t.F + t.B)
_EQUAL = ("F = I = W", lambda n, t: t.F == t.I == t.W)
_LONG = ("F&B ≥ B", lambda n, t: t.FB >= t.B)
_MANY_OR_LONG = ("F&B ≥ B or M ≥ 2 D - 1", lambda n, t: t.FB >= t.B or n.M >= 2 * n.D - 1)
_NOT_SHORT = ("F&B ≥ B or F&B ≥ F + W", lambda n, t: min(t.B, t.F + t.W) <= t.FB)

#: Where nobody waits, but for the ends.
NOTHING = Formula(text="0", of=lambda n, t: 0)

# --- forwards and full backwards --------------------------------------------------------------------------------------

#: The last rank has nothing to do while the first forward comes, nor after the last backward has left it.
ENDS = Formula(text="(PP - 1)(F + B)", of=lambda n, t: (n.PP - 1) * (t.F + t.B))
ENDS_OF_LOOPS = Formula(text="(D - 1)(F + B)", of=lambda n, t: (n.D - 1) * (t.F + t.B), needs=(_A_ROUND,))
ENDS_OF_PAIRS = Formula(
    text="(D - 1)(F + max(B, 2B - F&B))",
    of=lambda n, t: (n.D - 1) * (t.F + max(t.B, 2 * t.B - t.FB)),
    needs=(_OVERLAP, _A_ROUND, _MANY_OR_LONG),
)

#: The first rank waits for the way to the last rank and back, in which chunks are F&B, not F and B.
SPAN_OF_PAIRS = Formula(
    text="(D - 1)(2 F&B - F - B)", of=lambda n, t: (n.D - 1) * (2 * t.FB - t.F - t.B), needs=(_OVERLAP, _LONG, _TWICE_D)
)

# --- zero bubble ------------------------------------------------------------------------------------------------------

ZB1P_PUBLISHED = Formula(text="(PP - 1)(F + B - 2W)", of=lambda n, t: (n.PP - 1) * (t.F + t.B - 2 * t.W))
ZB1P = Formula(
    text="(PP - 1)(F + I - min(W, F, I))",
    of=lambda n, t: (n.PP - 1) * (t.F + t.I - min(t.W, t.F, t.I)),
    needs=(_ENOUGH,),
)
ZB1P_SPAN = Formula(
    text="(PP - 1)(F + I - min(W, F))", of=lambda n, t: (n.PP - 1) * (t.F + t.I - min(t.W, t.F)), needs=(_ENOUGH,)
)
ZB_OF_LOOPS = Formula(
    text="(D - 1)(F + I - min(W, F, I))",
    of=lambda n, t: (n.D - 1) * (t.F + t.I - min(t.W, t.F, t.I)),
    needs=(_A_ROUND,),
)
ZB_OF_LOOPS_SPAN = Formula(
    text="(D - 1)(F + I - min(W, F))", of=lambda n, t: (n.D - 1) * (t.F + t.I - min(t.W, t.F)), needs=(_A_ROUND,)
)
ZB2P = Formula(
    text="(PP - 1) max(F, I - F, F + I - 2W)",
    of=lambda n, t: (n.PP - 1) * max(t.F, t.I - t.F, t.F + t.I - 2 * t.W),
    needs=(_TWICE,),
)
ZB2P_SPAN = Formula(
    text="(PP - 1) max(0, I - F, F + I - 2W)",
    of=lambda n, t: (n.PP - 1) * max(0, t.I - t.F, t.F + t.I - 2 * t.W),
    needs=(_TWICE,),
)


def _zbv(n: Size, t: Times) -> int:
    F, I, W = t.F, t.I, t.W  # noqa: E741
    d = n.D - 1
    ways = (
        d * I,
        I + (d - 1) * W,
        F + (d - 1) * W,
        2 * d * (I - W),
        d * (2 * F - I) + I - F,
        d * (2 * F - I) - W,
        2 * d * (F - W) + I - F,
        2 * d * (F - W) - W,
    )
    return max(ways) if d else 0


def _zbv_span(n: Size, t: Times) -> int:
    F, I, W = t.F, t.I, t.W  # noqa: E741
    d = n.D - 1
    ways = (
        0,
        d * (I - F),
        (d - 1) * (F - I),
        I + (d - 1) * W - d * F,
        (d - 1) * (W - F),
        2 * d * (I - W),
        d * (2 * F - I - W),
        2 * d * (F - W) + I - F,
        2 * d * (F - W) - W,
    )
    return max(ways) if d else 0


ZBV = Formula(
    text="max{dI, I+(d-1)W, F+(d-1)W, 2d(I-W), d(2F-I)+I-F, d(2F-I)-W, 2d(F-W)+I-F, 2d(F-W)-W}, d = D - 1",
    of=_zbv,
    needs=(_FULL_V,),
)
ZBV_SPAN = Formula(
    text="max{0, d(I-F), (d-1)(F-I), I+(d-1)W-dF, (d-1)(W-F), 2d(I-W), d(2F-I-W), 2d(F-W)+I-F, 2d(F-W)-W}, d = D - 1",
    of=_zbv_span,
    needs=(_FULL_V,),
)
V_HALF = Formula(
    text="(3D - 7)F, (3D - 4)F where D is odd, (D - 1)F for D ≤ 2",
    of=lambda n, t: t.F * (n.D - 1 if n.D <= 2 else 3 * n.D - (4 if n.D % 2 else 7)),
    needs=(_EQUAL, _TWICE_D),
)
V_MIN = Formula(
    text="(4D - 5)F, (4D - 7)F where 3 divides D, 0 for D = 1",
    of=lambda n, t: t.F * (0 if n.D == 1 else 4 * n.D - (5 if n.D % 3 else 7)),
    needs=(_EQUAL, _TWICE_D),
)

# --- two directions ---------------------------------------------------------------------------------------------------

DUALPIPE_PUBLISHED = Formula(text="(PP/2 - 1)(F&B + B - 3W)", of=lambda n, t: (n.PP // 2 - 1) * (t.FB + t.B - 3 * t.W))


def _dualpipe(n: Size, t: Times) -> int:
    """What a rank in the middle waits for: the first F0, the first I1, who runs F&B while it runs B, the last I0."""
    d = n.PP // 2 - 1
    first = d * t.F + max(0, d * (t.I - t.F) - t.F)
    return first + d * abs(t.FB - t.B) + d * max(0, t.I - t.W) if d else 0


def _dualpipe_beside(n: Size, t: Times) -> int:
    """What a rank beside the middle waits for, where F&B is much shorter than B, if that is more."""
    d = n.PP // 2 - 1
    return max(_dualpipe(n, t), (d - 1) * t.F + (2 * d - 1) * (t.B - t.FB) + d * max(0, t.I - t.W)) if d else 0


def _dualpipe_span(n: Size, t: Times) -> int:
    """What the first rank waits for: it is the first to begin and the last to end."""
    d = n.PP // 2 - 1
    first = t.F + max(0, d * (t.I - t.F) - t.F)
    return first + (2 * d - 1) * (t.FB - t.B) + d * max(0, t.I - t.W) if d else 0


def _dualpipe_span_beside(n: Size, t: Times) -> int:
    """What the first rank or the one beside it waits for, where F&B is shorter than B."""
    d, short, gap = n.PP // 2 - 1, t.B - t.FB, max(0, t.I - t.W)
    first = t.F + max(0, d * (t.I - t.F) - t.F)
    return first + max(short + d * gap, d * short + gap) if d else 0


_D = ", d = PP/2 - 1"
DUALPIPE = Formula(
    text=f"dF + max(0, d(I - F) - F) + d|F&B - B| + d max(0, I - W){_D}",
    of=_dualpipe,
    needs=(_SUM, _OVERLAP, _NOT_SHORT),
    otherwise=Formula(
        text=f"max{{dF + max(0, d(I - F) - F) + d(B - F&B), (d-1)F + (2d-1)(B - F&B)}} + d max(0, I - W){_D}",
        of=_dualpipe_beside,
        needs=(_SUM, _OVERLAP),
    ),
)
DUALPIPE_SPAN = Formula(
    text=f"F + max(0, d(I - F) - F) + (2d-1)(F&B - B) + d max(0, I - W){_D}",
    of=_dualpipe_span,
    needs=(_SUM, _OVERLAP, _LONG),
    otherwise=Formula(
        text=f"F + max(0, d(I - F) - F) + max{{B - F&B + d max(0, I - W), d(B - F&B) + max(0, I - W)}}{_D}",
        of=_dualpipe_span_beside,
        needs=(_SUM, _OVERLAP, _NOT_SHORT),
    ),
)
