"""Mixture-of-experts layers across GPUs: training, prefill and decode profiles, simulated and executed.

    setting = wt.moe.Setting.of("prefill", ep=32)          # DeepSeek's published profile, but for what is given
    overlap = wt.moe.load_overlap("two-micro-batches")     # the operation list: data
    profile = wt.moe.simulated(setting, overlap, prices, level="...")
    profile.layer_ns, profile.times

`weftrace.moe.runtime` executes a list, and is the only part that needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.moe.as_plan import plan_of as plan_of
    from weftrace.moe.operations import Operation as Operation
    from weftrace.moe.operations import Overlap as Overlap
    from weftrace.moe.overlap_files import known_overlaps as known_overlaps
    from weftrace.moe.overlap_files import load_overlap as load_overlap
    from weftrace.moe.pieces import Piece as Piece
    from weftrace.moe.pieces import Prices as Prices
    from weftrace.moe.profiles import Profile as Profile
    from weftrace.moe.profiles import simulated as simulated
    from weftrace.moe.routing.load import Load as Load
    from weftrace.moe.routing.load import balanced as balanced
    from weftrace.moe.routing.load import from_loads as from_loads
    from weftrace.moe.routing.random_draw import drawn as drawn
    from weftrace.moe.setting import Setting as Setting

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "weftrace.moe.as_plan": ("plan_of",),
            "weftrace.moe.operations": ("Operation", "Overlap"),
            "weftrace.moe.overlap_files": ("known_overlaps", "load_overlap"),
            "weftrace.moe.pieces": ("Piece", "Prices"),
            "weftrace.moe.profiles": ("Profile", "simulated"),
            "weftrace.moe.routing.load": ("Load", "balanced", "from_loads"),
            "weftrace.moe.routing.random_draw": ("drawn",),
            "weftrace.moe.setting": ("Setting",),
        },
    )
