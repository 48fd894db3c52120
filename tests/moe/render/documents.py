"""Documents of sweeps, of what pays, and of validations: small, and with names and numbers that strain a page."""

from __future__ import annotations

from functools import cache

from weftrace.moe import Setting
from weftrace.moe.profiles import make_profile
from weftrace.moe.requests import Request
from weftrace.moe.sweeps.crossings import pays
from weftrace.moe.sweeps.document import PaysDocument, SweepDocument, pays_document, sweep_document
from weftrace.moe.sweeps.many_settings import sweep
from weftrace.moe.validation.comparison import validate
from weftrace.moe.validation.document import ValidationDocument, validation_document


@cache
def swept() -> SweepDocument:
    """Two axes, one of numbers; EP200 is impossible."""
    axes = {"ep": (8, 32, 200), "overlap": ("none", "two-micro-batches")}
    return sweep_document(sweep(Request(kind="prefill", layers=3), axes))


@cache
def swept_words() -> SweepDocument:
    """Words alone, and a fused kernel, of which nothing is exposed or hidden."""
    return sweep_document(sweep(Request(kind="prefill", layers=3), {"overlap": ("none", "two-micro-batches", "waves")}))


@cache
def paying() -> PaysDocument:
    return pays_document(
        pays(Request(kind="decode", layers=3), (8, 16, 64, 65, 128, 512), overlaps=("two-batch", "waves"))
    )


@cache
def validated() -> ValidationDocument:
    """Published rates against the roofline, as if that were measured."""
    sides = [
        make_profile(Setting.of("decode", num_layers=3), level=level).trace() for level in ("published", "roofline")
    ]
    return validation_document(validate(*sides))
