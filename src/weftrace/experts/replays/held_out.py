"""How balanced was the next window, which a plan had not seen?

A placement is balanced on the loads that it was fitted to nearly whatever they are; what a service gets is the window
after. So the same way of planning is played on windows of the past, and judged on the one that followed each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from msgspec import Meta

from weftrace.experts.arrays import Floats
from weftrace.experts.placement import Placement
from weftrace.experts.recorded.read import LoadHistory
from weftrace.files.schemas import Count, Fraction, Positive

MOST = 8  # windows judged: enough to tell a habit from an accident, a few seconds for a large model

Part = Literal["this", "baseline", "beside"]
_PARTS: tuple[Part, ...] = get_args(Part)  # of the first plan, of the second, and of those after them

Plan = Callable[[Floats], Placement]
"""Loads [L, N] in, the placement that is made for them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPlan:
    """A way of planning, judged on windows that it had not seen."""

    name: str
    part: Annotated[Part, Meta(description="this: as this placement was planned. baseline: what it is compared with.")]
    balancedness_W: Annotated[
        tuple[Fraction, ...],
        Meta(description="[W] mean over layers of mean / maximum GPU time in each judged window."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWindows:
    """Windows that came after those planned on; the figures to expect of a placement."""

    windows_W: Annotated[
        tuple[Count, ...], Meta(min_length=1, description="[W] the judged windows of the recording, from 0.")
    ]
    look_back: Annotated[
        Positive | None, Meta(description="Windows that each plan was made on, added up; null: all before the judged.")
    ]
    rows: Annotated[tuple[JudgedPlan, ...], Meta(min_length=1, description="The first is this placement's way.")]

    def __post_init__(self) -> None:
        if any(len(row.balancedness_W) != len(self.windows_W) for row in self.rows):
            raise ValueError("a way of `rows` has more or fewer numbers than there are `windows`")


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
    before it. None for a history of one window: it has no next. on_progress: is given windows judged, and to judge.
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
    rows = tuple(
        JudgedPlan(name=name, part=_PARTS[min(row, 2)], balancedness_W=tuple(balancedness_RW[row].tolist()))
        for row, name in enumerate(plans)
    )
    return NextWindows(windows_W=tuple(windows), look_back=look_back, rows=rows)
