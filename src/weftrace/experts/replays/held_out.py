"""How balanced was the next window, which a plan had not seen?

A placement is balanced on the loads that it was fitted to nearly whatever they are; what a service gets is the window
after. So the same way of planning is played on windows of the past, and judged on the one that followed each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from weftrace.experts.arrays import Floats, frozen
from weftrace.experts.placement import Placement
from weftrace.experts.recorded.read import LoadHistory
from weftrace.notebook import InNotebook

MOST = 8  # windows judged: enough to tell a habit from an accident, a few seconds for a large model

Plan = Callable[[Floats], Placement]
"""Loads [L, N] in, the placement that is made for them out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NextWindows(InNotebook):
    """Ways of planning, each judged on windows that came after those it planned on.

    names_R: the ways. windows_W: numbers of the judged windows, from 0. look_back: windows before each that its plan
    was made on, added up; None: all before it.
    balancedness_RW: mean over layers of mean / maximum GPU time, in each judged window, of the placement that was
    planned on the windows before it.
    """

    names_R: tuple[str, ...]
    windows_W: tuple[int, ...]
    look_back: int | None
    balancedness_RW: Floats

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "next windows", f"{len(self.windows_W):,}, each planned on those before it"
        for name, balancedness_W in zip(self.names_R, self.balancedness_RW, strict=True):
            yield name, f"balancedness {balancedness_W.mean():.4f}"


def judge_next_windows(
    history: LoadHistory,
    plans: Mapping[str, Plan],
    *,
    look_back: int | None = None,
    most: int = MOST,
    on_progress: Callable[[int, int], None] | None = None,
) -> NextWindows | None:
    """The last windows of a history, up to `most`, under plans made on the `look_back` windows before each.

    Only windows with `look_back` windows before them are judged; where there is none, the last one is, planned on all
    before it. None for a history of one window: it has no next. on_progress: is told windows judged, and to judge.
    """
    if history.num_windows < 2:
        return None
    first = min(look_back or 1, history.num_windows - 1)
    windows = range(max(first, history.num_windows - most), history.num_windows)
    balancedness_RW = np.empty((len(plans), len(windows)))
    for at, window in enumerate(windows):
        seen_LN = history.load_TLN[max(0, window - look_back) if look_back else 0 : window].sum(axis=0)
        for row, plan in enumerate(plans.values()):
            balancedness_RW[row, at] = plan(seen_LN).balancedness(history.load_TLN[window]).mean()
        if on_progress is not None:
            on_progress(at + 1, len(windows))
    return NextWindows(
        names_R=tuple(plans), windows_W=tuple(windows), look_back=look_back, balancedness_RW=frozen(balancedness_RW)
    )
