"""DeepSeek-V3's published overlap of a forward and a backward layer, as a plan.

Lanes, and what waits for what (F forward, B backward for the input, W backward for the weights):

    compute        attn(F)  mlp(B)  mlp(W)  mlp(F)  attn(B)  attn(W)      112 SMs, half of mlp(W) on a side stream
    communication  combine(B)  dispatch(F)  dispatch(B)  combine(F)        20 SMs

    forward    attn(F) -> dispatch(F) -> mlp(F) -> combine(F) -> attn(F) of the next layer
    backward   combine(B) -> mlp(B) -> dispatch(B) -> attn(B) -> combine(B) of the next layer
    weights    mlp(B) -> mlp(W), attn(B) -> attn(W)
"""

from __future__ import annotations

from collections.abc import Mapping

from weftrace.plan.model import Plan
from weftrace.plan.recipe import load_recipe, repeat

RECIPE = "deepseek_training"


def deepseek_training_layers(num_layers: int = 4, costs: Mapping[str, int] | None = None) -> Plan:
    """DeepSeek-V3's training layer pair, `num_layers` times, with the phase times of the published profile.

    costs: phase name -> busy nanoseconds, in place of the measured mean, for example `{"dispatch(F)": 3_345_000}` for a
    network twice as fast; the parts of the phase are scaled alike. Data, source and notes: `deepseek_training.toml`.
    Raises `PlanError` for fewer than one layer, an unknown phase, or a cost that is not an int of 0 or more.
    """
    return repeat(load_recipe(RECIPE), num_layers, costs)
