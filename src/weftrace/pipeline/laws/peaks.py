"""How many chunks' activations does a rank hold at most, by formula? From the start of F to the end of W, or of B.

Letters as in `weftrace.pipeline.laws.bubbles`; g is the longest round of an interleaved schedule, D where D divides M.
"""

from __future__ import annotations

from weftrace.pipeline.generators.looped import round_lengths
from weftrace.pipeline.laws.bubbles import Formula, Size


def _round(n: Size) -> int:
    return max(round_lengths(n.D, n.M))


ALL = Formula(text="M", of=lambda n, t: n.M)
WAY_TO_THE_END = Formula(text="min(PP, M)", of=lambda n, t: min(n.PP, n.M))
WAY_AND_BACK = Formula(text="min(2 PP, M)", of=lambda n, t: min(2 * n.PP, n.M))
OF_SLICES = Formula(text="min(PP + K - 1, K M)", of=lambda n, t: min(n.PP + n.K - 1, n.K * n.M))
OF_LOOPS = Formula(
    text="min((V - 1)g + 2D - 1, V M)", of=lambda n, t: min((n.V - 1) * _round(n) + 2 * n.D - 1, n.V * n.M)
)
OF_PAIRS = Formula(text="min((V - 1)g + 2D, V M)", of=lambda n, t: min((n.V - 1) * _round(n) + 2 * n.D, n.V * n.M))
OF_ZB_LOOPS = Formula(text="min((V - 1)g + D, V M)", of=lambda n, t: min((n.V - 1) * _round(n) + n.D, n.V * n.M))
V_WHOLE = Formula(text="min(2D, 2M)", of=lambda n, t: min(2 * n.D, 2 * n.M))
V_HALF = Formula(text="min(2⌊D/2⌋ + 2, 2M)", of=lambda n, t: min(2 * (n.D // 2 + 1), 2 * n.M))
V_MIN = Formula(text="min(2⌊(D + 1)/3⌋ + 2, 2M)", of=lambda n, t: min(2 * ((n.D + 1) // 3 + 1), 2 * n.M))
TWO_WAYS = Formula(text="PP + 1", of=lambda n, t: n.PP + 1)
