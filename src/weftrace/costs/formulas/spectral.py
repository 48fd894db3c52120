"""Fourier transforms: 5 N log2 N for N complex numbers, half of it for N real ones (Cooley and Tukey, as FFTW counts).

N is the product of the transformed sizes; a scaling is not counted. What a library executes for a size that is not a
power of two is more, so these are estimates. They run on no matrix unit.
"""

from __future__ import annotations

import math

from weftrace.costs.cost import Cost, Status
from weftrace.costs.registry import Call, Key, rule, vector_cost
from weftrace.costs.tensors import TensorLike


def _transform(call: Call, data: TensorLike, dims: list[int], per_point: float) -> Cost:
    """data: the larger of input and output; transforms of all of its elements along dims."""
    points = math.prod(data.shape[d] for d in dims)
    flops = per_point * data.numel() * math.log2(points) if points > 1 else 0
    return vector_cost(call, round(flops), status=Status.ESTIMATE, note="5 N log2 N, whatever N is made of")


@rule("aten::_fft_c2c", key=Key.ARGUMENTS)
def _complex(call: Call) -> Cost:
    return _transform(call, call.args[0], call.arg("dim"), 5)


@rule("aten::_fft_r2c", key=Key.ARGUMENTS)
def _real_to_complex(call: Call) -> Cost:
    return _transform(call, call.args[0], call.arg("dim"), 2.5)


@rule("aten::_fft_c2r", key=Key.ARGUMENTS)
def _complex_to_real(call: Call) -> Cost:
    return _transform(call, call.out, call.arg("dim"), 2.5)
