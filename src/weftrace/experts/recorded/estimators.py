"""What will the next window's loads be? Estimates from the windows seen so far.

Every window counts as it is: one with more tokens weighs more, and nothing is normalised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats, is_whole
from weftrace.experts.loads import as_loads


class Estimator(Protocol):
    """Sees windows of loads one by one and says at any time what to plan for."""

    def update(self, loads: object) -> None:
        """Take in one more window, [L, N]; raises `LoadsError` for bad loads or another shape than before."""

    def estimate(self) -> Floats:
        """[L, N] loads to plan for, the caller's own array; raises `LoadsError` before the first window."""


class LastWindow:
    """The last window as it was: nothing follows fast drift sooner, and nothing smooths its noise. State: L·N."""

    def __init__(self) -> None:
        self._last_LN: Floats | None = None

    def update(self, loads: object) -> None:
        self._last_LN = _next(loads, self._last_LN)

    def estimate(self) -> Floats:
        return _seen(self._last_LN).copy()


class WindowMean:
    """The mean of the last `window` windows (of all, while there are fewer). State: window·L·N, the windows themselves,
    because an exact mean must know what to forget; `MovingAverage` has about the same memory of the past in 2·L·N."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._num_seen = 0
        self._ring_WLN: Floats | None = None

    def update(self, loads: object) -> None:
        load_LN = _next(loads, None if self._ring_WLN is None else self._ring_WLN[0])
        if self._ring_WLN is None:
            self._ring_WLN = np.zeros((self._window, *load_LN.shape))
        self._ring_WLN[self._num_seen % self._window] = load_LN
        self._num_seen += 1

    def estimate(self) -> Floats:
        mean_LN: Floats = _seen(self._ring_WLN)[: self._num_seen].mean(axis=0)
        return mean_LN


class MovingAverage:
    """The mean of all windows with weights that halve every `half_life` windows: sum d^age · load / sum d^age with
    d = 2^(-1 / half_life), so the first windows are not drawn to zero. Squared deviations are kept under the same
    weights, updated as by West (1979), who never subtracts squares. State: 2·L·N."""

    def __init__(self, half_life: float) -> None:
        self._decay = 0.0 if half_life == 0 else 2.0 ** (-1.0 / half_life)
        self._weight = 0.0
        self._mean_LN: Floats | None = None
        self._squares_LN: Floats = np.zeros((0, 0))

    def update(self, loads: object) -> None:
        load_LN = _next(loads, self._mean_LN)
        if self._mean_LN is None:
            self._mean_LN, self._squares_LN = np.zeros_like(load_LN), np.zeros_like(load_LN)
        self._weight = self._decay * self._weight + 1.0
        step_LN = load_LN - self._mean_LN
        # the first window's weight is 1: the mean becomes the window itself and the deviation stays 0
        self._mean_LN = load_LN.copy() if self._weight == 1.0 else self._mean_LN + step_LN / self._weight
        self._squares_LN = self._decay * self._squares_LN + step_LN * (load_LN - self._mean_LN)

    def estimate(self) -> Floats:
        return _seen(self._mean_LN).copy()


class RiskWeighted(MovingAverage):
    """Mean + risk · standard deviation, both with `MovingAverage`'s weights: an expert whose load jumps is planned for
    as if it were hotter (the idea of FlashLB in vLLM-Ascend)."""

    def __init__(self, half_life: float, risk: float) -> None:
        super().__init__(half_life)
        self._risk = risk

    def estimate(self) -> Floats:
        mean_LN = super().estimate()
        deviation_LN: Floats = np.sqrt(self._squares_LN / self._weight)
        return mean_LN + self._risk * deviation_LN


_MAKERS: dict[str, Callable[[int, float, float], Estimator]] = {
    "last": lambda window, half_life, risk: LastWindow(),
    "mean": lambda window, half_life, risk: WindowMean(window),
    "ema": lambda window, half_life, risk: MovingAverage(half_life),
    "risk": lambda window, half_life, risk: RiskWeighted(half_life, risk),
}

ESTIMATORS = tuple(_MAKERS)


def make_estimator(name: str, *, window: int = 8, half_life: float | None = None, risk: float = 1.0) -> Estimator:
    """A fresh estimator.

    name: "last" (`LastWindow`), "mean" (`WindowMean`), "ema" (`MovingAverage`) or "risk" (`RiskWeighted`).
    window: windows that "mean" averages. half_life: of the weights of "ema" and "risk", in windows; None takes the one
    whose weights are as old on average as those of "mean" with that window: (window - 1) / 2. risk: standard deviations
    that "risk" adds.
    Raises `LoadsError` for a name that is none of these (listing them), a window below 1, a half-life or risk below 0.
    """
    if name not in _MAKERS:
        raise LoadsError(f"no estimator {name!r}; choose from {', '.join(ESTIMATORS)}")
    if not is_whole(window, least=1):
        raise LoadsError(f"an estimator's window is a whole number of at least 1, not {window!r}")
    if half_life is None:
        half_life = half_life_of_window(int(window))
    for value, what in ((half_life, "half-life"), (risk, "risk")):
        if not (math.isfinite(value) and value >= 0):
            raise LoadsError(f"an estimator's {what} must be a number of at least 0, not {value!r}")
    return _MAKERS[name](int(window), float(half_life), float(risk))


def half_life_of_window(window: int) -> float:
    """The half-life whose decaying weights have a mean age of (window - 1) / 2, as the mean of `window` windows has.

    Weights d^age have the mean age d / (1 - d), so d = (window - 1) / (window + 1), the "span" of an exponential mean.
    """
    return 0.0 if window == 1 else math.log(0.5) / math.log((window - 1) / (window + 1))


def _next(loads: object, like_LN: Floats | None) -> Floats:
    load_LN = as_loads(loads)
    if like_LN is not None and load_LN.shape != like_LN.shape:
        raise LoadsError(
            f"this window has {load_LN.shape[0]} layers of {load_LN.shape[1]} experts, "
            f"and the windows before it {like_LN.shape[0]} of {like_LN.shape[1]}"
        )
    return load_LN


def _seen(array: Floats | None) -> Floats:
    if array is None:
        raise LoadsError("an estimator that has seen no window has no estimate; update it first")
    return array
