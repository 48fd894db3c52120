"""Random numbers: bytes written. The integer arithmetic of a generator is not counted as FLOPs."""

from __future__ import annotations

from weftrace.flops.cost import Cost, Kind
from weftrace.flops.runtime.formulas.elementwise import written_only
from weftrace.flops.runtime.formulas.registry import Call, rule, vector_cost

FILLS = """
    rand rand_like randn randn_like randint randint_like randperm normal normal_functional bernoulli multinomial poisson
    binomial _standard_gamma _sample_dirichlet uniform exponential geometric cauchy log_normal random _philox_normal
    _philox_uniform _philox_key_split _philox_key_fold_in _cudnn_init_dropout_state _fill_mem_eff_dropout_mask_
"""
IN_PLACE = (
    "normal_ uniform_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ random_ _philox_normal_ _philox_uniform_"
)


@rule(*(f"aten::{name}" for name in FILLS.split()))
def _fill(call: Call) -> Cost:
    return vector_cost(call, 0, kind=Kind.MOVE)


@rule(*(f"aten::{name}" for name in IN_PLACE.split()))
def _fill_in_place(call: Call) -> Cost:
    return written_only(call)
