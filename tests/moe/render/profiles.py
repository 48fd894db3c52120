"""Profiles small enough for a pencil, and the three published lists with prices near the published times."""

from __future__ import annotations

from collections.abc import Mapping

from weftrace.moe import Operation, Overlap, Piece, Prices, Profile, Setting, load_overlap, simulated
from weftrace.moe.profiles import PUBLISHED_OVERLAP

US = 1_000
#: µs of each work and part: near DeepSeek's published profiles.
COSTS = {
    "train": {
        "attn/F": 4_370, "mlp/F": 4_604, "attn/B": 9_341, "mlp/B": 5_306, "mlp/W": 5_063, "attn/W": 2_389,
        "dispatch/F": 6_690, "combine/F": 8_684, "dispatch/B": 7_487, "combine/B": 5_769,
    },
    "prefill": {"attn/F": 7_000, "mlp/F": 6_500, "shared/F": 1_200, "dispatch/F": 6_000, "combine/F": 7_800},
    "decode": {
        "attn-0/F": 120, "attn-1/F": 260, "shared/F": 30, "mlp/F": 110, "dispatch/F": 192, "combine/F": 369,
        "dispatch/issue": 5, "dispatch/receive": 5, "combine/issue": 5, "combine/receive": 5,
    },
}  # fmt: skip


def priced(overlap: Overlap, costs_us: Mapping[str, float], *, num_kernels: int = 3) -> Prices:
    return {each.name: (_piece(each, costs_us, num_kernels),) for each in overlap.operations}


def _piece(each: Operation, costs_us: Mapping[str, float], num_kernels: int) -> Piece:
    key = f"{each.work}/{each.part}" if each.part in ("issue", "receive") else f"{each.work}/{each.direction}"
    moves = each.moves_tokens
    return Piece(
        name=f"{each.work}_{each.part}",
        kind="communication" if moves else "compute",
        duration_ns=costs_us[key] * US * each.share,
        num_kernels=1 if moves else num_kernels,
        num_sms=None if each.lane == "network" else 20 if moves else 112,
        basis="near the published profile",
    )


def made(kind: str, *, num_layers: int = 4, num_ranks: int = 1, **setting: int) -> Profile:
    of = Setting.of(kind, num_layers=num_layers, **setting)  # type: ignore[arg-type]
    overlap = load_overlap(PUBLISHED_OVERLAP[of.kind])
    prices = priced(overlap, COSTS[kind])
    return simulated(of, overlap, prices, level="published", num_ranks=num_ranks, share_sms=False)
