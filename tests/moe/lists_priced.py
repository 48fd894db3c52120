"""Prices of a test: so many microseconds for each work, by its share."""

from __future__ import annotations

from collections.abc import Mapping

from weftrace.moe import Overlap, Piece, Prices, Profile, Setting, simulated

US = 1_000


def priced(overlap: Overlap, cost_us: Mapping[str, float], default_us: float = 0.0) -> Prices:
    """One piece an operation; cost_us: by the name of its work. Kernels that issue and receive take no time."""
    return {
        each.name: (
            Piece(
                name=each.name,
                kind="communication" if each.moves_tokens else "compute",
                duration_ns=each.share * US * cost_us.get(each.work, default_us) * (each.part in ("whole", "transfer")),
                basis="a test",
            ),
        )
        for each in overlap.operations
    }


def laid_out(overlap: Overlap, cost_us: Mapping[str, float], *, layers: int = 6) -> Profile:
    """A profile of these prices, without gaps between kernels."""
    setting = Setting.of(overlap.kinds[0], comm="fused" if overlap.is_fused else "deepep-v1", num_layers=layers)
    return simulated(setting, overlap, priced(overlap, cost_us), level="a test", gap_ns=0)
