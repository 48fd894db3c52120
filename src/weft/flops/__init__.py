"""What a model costs: parameters, MACs, FLOPs, bytes and time of each module, forward and backward.

    from weft.flops import profile

    with profile(model) as p:
        loss(model(x)).backward()
    p.report()                                          # a FlopsReport: a value to print, compare, draw, save

Counting needs torch (`pip install 'weft[torch]'`); reading, comparing and drawing reports does not. Importing this
package is quick: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import FlopsError

if TYPE_CHECKING:
    from weft.flops.cost import Cost, Kind, Phase, Status, Tally
    from weft.flops.runtime.profile import Profile, add_cost, count, profile
    from weft.flops.runtime.registry import register_formula
    from weft.flops.values import Clock, FlopsReport, Module, OpCount, Parallel, Timing

_HOME = {
    "Cost": "weft.flops.cost",
    "Kind": "weft.flops.cost",
    "Phase": "weft.flops.cost",
    "Status": "weft.flops.cost",
    "Tally": "weft.flops.cost",
    "Clock": "weft.flops.values",
    "FlopsReport": "weft.flops.values",
    "Module": "weft.flops.values",
    "OpCount": "weft.flops.values",
    "Parallel": "weft.flops.values",
    "Timing": "weft.flops.values",
    "Profile": "weft.flops.runtime.profile",
    "add_cost": "weft.flops.runtime.profile",
    "count": "weft.flops.runtime.profile",
    "profile": "weft.flops.runtime.profile",
    "register_formula": "weft.flops.runtime.registry",
}

__all__ = [
    "Clock",
    "Cost",
    "FlopsError",
    "FlopsReport",
    "Kind",
    "Module",
    "OpCount",
    "Parallel",
    "Phase",
    "Profile",
    "Status",
    "Tally",
    "Timing",
    "add_cost",
    "count",
    "profile",
    "register_formula",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'weft.flops' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise FlopsError(f"weft.flops.{name} runs models and needs torch: pip install 'weft[torch]'") from missing
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
