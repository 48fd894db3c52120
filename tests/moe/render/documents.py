"""Sweeps, what pays, and validations: small, and with names and numbers that strain a page."""

from __future__ import annotations

from functools import cache

from weftrace.moe import Setting
from weftrace.moe.profiles import make_profile
from weftrace.moe.requests import Request
from weftrace.moe.sweeps.break_even import Pays, pays
from weftrace.moe.sweeps.many_settings import Sweep, sweep
from weftrace.moe.validation.comparison import Validation, validate


@cache
def swept() -> Sweep:
    """Two axes, one of numbers; EP200 is impossible."""
    axes = {"ep": (8, 32, 200), "overlap": ("none", "two-micro-batches")}
    return sweep(Request(kind="prefill", layers=3), axes)


@cache
def swept_words() -> Sweep:
    """Words alone, and a fused kernel, of which nothing is exposed or hidden."""
    return sweep(Request(kind="prefill", layers=3), {"overlap": ("none", "two-micro-batches", "waves")})


@cache
def paying() -> Pays:
    return pays(Request(kind="decode", layers=3), (8, 16, 64, 65, 128, 512), overlaps=("two-batch", "waves"))


@cache
def validated() -> Validation:
    """Published rates against the roofline, as if that were measured."""
    sides = [
        make_profile(Setting.of("decode", num_layers=3), level=level).trace() for level in ("published", "roofline")
    ]
    return validate(*sides)
