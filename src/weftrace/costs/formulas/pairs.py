"""Pairs of a query and a key: how many there are, and how many a mask, causal or a window, lets through."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.costs.cost import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of a query and a key, summed over the batch and not over heads.

    seen: those that the mask lets through, as far as it is known. every: all, masked or not. queries: rows.
    skips: whether the kernel leaves out what is masked (causal, a window, blocks) or computes every pair.
    """

    seen: int
    every: int
    queries: int
    skips: bool = True
    status: Status = Status.EXACT
    note: str = ""

    @property
    def done(self) -> int:
        """Those that the kernel computes."""
        return self.seen if self.skips else self.every


def pairs_seen(num_q: int, num_k: int, *, offset: int = 0, left: int = -1, right: int = -1) -> int:
    """Pairs (i, j), i < num_q, j < num_k, with i + offset - left <= j <= i + offset + right; -1: no bound on that side.

    Causal from the top left: right=0. From the bottom right: right=0, offset=num_k - num_q.
    """
    upper = num_q * num_k if right < 0 else _clamped_sum(num_q, offset + right + 1, num_k)
    lower = 0 if left < 0 else _clamped_sum(num_q, offset - left, num_k)
    return max(upper - lower, 0)


def _clamped_sum(num: int, start: int, most: int) -> int:
    """Sum over i < num of start + i, each held within 0..most."""

    def below(end: int) -> int:  # sum over t < end of t, held within 0..most
        if end <= 0:
            return 0
        ramp = min(end, most + 1)
        return ramp * (ramp - 1) // 2 + (end - ramp) * most

    return below(start + num) - below(start)
