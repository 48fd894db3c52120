"""After how many steps has a re-plan paid for the time that it takes to move weights?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Floats
from weftrace.experts.loads import as_loads
from weftrace.experts.placement import Placement
from weftrace.notebook import InNotebook
from weftrace.units import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven(InNotebook):
    """When moving weights has paid.

    moving_s: seconds in which the weights move and no step runs.
    before_s, after_s: expert computation of a step, under the old and the new placement: over layers the sum of the
        time of the latest GPU.
    num_steps: smallest number of steps whose saving is at least moving_s; None where a step saves nothing.
    """

    moving_s: float
    before_s: float
    after_s: float
    num_steps: int | None

    @property
    def saved_s(self) -> float:
        """Seconds that a step saves; below 0 where the new placement is slower."""
        return self.before_s - self.after_s

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "moving takes", duration(self.moving_s * 1e9)
        yield "a step saves", duration(self.saved_s * 1e9)
        yield "pays after", "never" if self.num_steps is None else f"{self.num_steps:,} steps"


def break_even(
    old: Placement,
    new: Placement,
    loads: object,
    *,
    moving_s: float,
    token_s: float,
    steps_in_loads: float = 1.0,
) -> BreakEven:
    """How long a new placement has to serve these loads before it was worth moving to.

    loads: [L, N] tokens that each expert gets in `steps_in_loads` steps; what is to come, which an estimate of the past
    may miss. moving_s: `Moves.time_s`, or what of it is not hidden behind serving. token_s: seconds for a token in an
    expert on a GPU of speed 1 (`CostModel.row_s`); a GPU's time is its tokens times that over its speed. Communication
    counts for nothing.
    Raises `LoadsError` for bad loads, `PlacementError` for another shape or an option that is out of range.
    """
    for value, name, least in (
        (moving_s, "moving_s", 0.0),
        (steps_in_loads, "steps_in_loads", None),
        (token_s, "token_s", None),
    ):
        if not math.isfinite(value) or value < 0 or (least is None and value == 0):
            raise PlacementError(
                f"{name} must be a number {'above' if least is None else 'of at least'} 0, not {value!r}"
            )
    load_LN = as_loads(loads)
    before_s, after_s = (_step_s(placement, load_LN / steps_in_loads, token_s) for placement in (old, new))
    # below rounding a saving is none: it would promise a pay-off after 10^15 steps
    saves = before_s - after_s > 1e-12 * before_s
    num_steps = math.ceil(moving_s / (before_s - after_s)) if saves else 0 if moving_s == 0 else None
    return BreakEven(moving_s=moving_s, before_s=before_s, after_s=after_s, num_steps=num_steps)


def _step_s(placement: Placement, load_LN: Floats, token_s: float) -> float:
    """Seconds of expert computation in a step: over layers the sum of the time of the latest GPU."""
    return float(placement.cluster.worst_time(placement.gpu_load(load_LN)).sum()) * token_s
