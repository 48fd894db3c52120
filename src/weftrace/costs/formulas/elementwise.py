"""Elementwise operators: vector FLOPs for each element of the output.

One for each add, multiply, divide, compare, absolute value, sign change, minimum, square root, exp, log, sine, tanh,
erf ... that the definition has, however many instructions a device takes for it. Integer and boolean arithmetic counts
alike.
"""

from __future__ import annotations

from typing import Any

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import Call, Formula, Key, rule, vector_cost
from weftrace.costs.tensors import is_tensor, tensors_in

_ONE = """
    add sub rsub mul div floor_divide remainder fmod neg abs sign sgn reciprocal sqrt rsqrt exp exp2 expm1 log log2
    log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma
    ceil floor round trunc frac maximum minimum fmax fmin clamp_min clamp_max relu threshold eq ne lt le gt ge
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift
    bitwise_right_shift __lshift__ __rshift__ __ilshift__ __irshift__ isnan isinf isposinf isneginf signbit copysign
    heaviside nextafter angle hypot gcd lcm ldexp deg2rad rad2deg conj_physical threshold_backward hardtanh_backward
    hardshrink_backward softshrink_backward where masked_fill special_xlog1py equal allclose
"""
PER_ELEMENT: dict[str, int] = dict.fromkeys(_ONE.split(), 1) | {
    "clamp": 2,
    "hardtanh": 2,
    "nan_to_num": 3,
    "lerp": 3,  # a + w (b - a)
    "addcmul": 3,
    "addcdiv": 3,
    "xlogy": 2,
    "logaddexp": 4,  # max + log1p(exp(-|a - b|))
    "logaddexp2": 4,
    "logit": 3,  # log(x / (1 - x))
    "logit_backward": 3,
    "sinc": 3,
    "sigmoid": 4,  # 1 / (1 + exp(-x)): negate, exp, add, divide
    "sigmoid_backward": 3,  # g (1 - y) y
    "tanh_backward": 3,  # g (1 - y y)
    "silu": 5,  # x sigmoid(x)
    "silu_backward": 9,  # s = sigmoid(x): g s (1 + x (1 - s))
    "mish": 4,  # x tanh(log1p(exp(x)))
    "mish_backward": 13,
    "leaky_relu": 2,  # compare, multiply
    "leaky_relu_backward": 2,
    "rrelu_with_noise": 2,
    "rrelu_with_noise_functional": 2,
    "rrelu_with_noise_backward": 1,
    "_prelu_kernel": 2,
    "_prelu_kernel_backward": 4,  # two for the input, two for the weight before its sum
    "elu": 4,  # compare, exp, subtract, multiply
    "elu_backward": 4,  # compare, exp (or add), two multiplies
    "celu": 5,
    "softplus": 5,  # log1p(exp(b x)) / b, beside x above a threshold
    "softplus_backward": 6,
    "log_sigmoid_forward": 5,  # min(x, 0) - log1p(exp(-|x|))
    "log_sigmoid_backward": 7,
    "hardsigmoid": 4,  # min(max(x + 3, 0), 6) / 6
    "hardsigmoid_backward": 3,
    "hardswish": 5,
    "hardswish_backward": 5,
    "hardshrink": 2,
    "softshrink": 3,
    "glu": 5,  # a sigmoid(b), for each element of the output
    "glu_backward": 5,  # for each element of the input's gradient, half of them 4 + 1, half 4 + ...
    "polar": 4,
    "native_dropout": 3,  # compare a random number, multiply by the mask and by the scale
    "native_dropout_backward": 2,
    "_fused_dropout": 3,
    "_masked_scale": 2,
    "_add_relu": 2,
    "_weight_norm_interface": 4,  # square and sum, then the quotient of the norms and a multiply
    "_weight_norm_interface_backward": 8,
    "linalg_cross": 3,  # two multiplies and a subtract
}
_FOREACH = """
    abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp
    lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan
    tanh trunc
"""
_COMPLEX = {"mul": 6, "div": 11, "abs": 4, "neg": 2, "add": 2, "sub": 2, "rsub": 2, "conj_physical": 1, "angle": 1}
GELU = {"none": (5, 11), "tanh": (9, 19)}  # x/2 (1 + erf(x / sqrt 2)), and the tanh form; their gradients


def elements(tensors: Any) -> int:
    """Elements of a tensor or of each tensor of a list."""
    if is_tensor(tensors):
        return tensors.numel()
    return sum(elements(item) for item in tensors) if isinstance(tensors, (list, tuple)) else 0


def in_place_cost(call: Call, flops: int, *, status: Status = Status.EXACT, note: str = "") -> Cost:
    """A vector cost; what an operator without a result writes in place is written too."""
    cost = vector_cost(call, flops, status=status, note=note)
    if call.out is not None and call.out != ():
        return cost
    written = written_in_place(call)
    return Cost(
        vector_flops=cost.vector_flops,
        read_bytes=cost.read_bytes,
        written_bytes=written,
        dtype=cost.dtype,
        status=status,
        note=note,
    )


def written_in_place(call: Call) -> int:
    """Bytes of the arguments that the operator's schema marks as written."""
    tensors = tensors_in(call.written_arguments())
    return sum(int(tensor.numel() * tensor.element_size()) for tensor in tensors)


def written_only(call: Call) -> Cost:
    """What costs the bytes it writes alone: what stood there before is not read."""
    cost = vector_cost(call, 0, kind=Kind.MOVE)
    written = cost.written_bytes or written_in_place(call)
    return Cost(written_bytes=written, dtype=cost.dtype, kind=Kind.MOVE)


def output_elements(call: Call) -> int:
    """Elements of the first result; of the largest input where there is no tensor among the results."""
    first = next(call.outputs(), None)
    if first is None or (not first.ndim and not is_tensor(call.out)):
        return max((tensor.numel() for tensor in call.inputs()), default=0)
    return first.numel()


def _formula(name: str, flops: int) -> Formula:
    def formula(call: Call) -> Cost:
        first = next(call.inputs(), None)
        if first is not None and first.dtype.is_complex:
            each = _COMPLEX.get(name, 2 * flops)
            known = Status.EXACT if name in _COMPLEX else Status.ESTIMATE
            note = "" if name in _COMPLEX else "complex: twice the operations of the real one"
            return vector_cost(call, each * output_elements(call), status=known, note=note)
        return vector_cost(call, flops * output_elements(call))

    return formula


def _foreach(flops: int) -> Formula:
    def formula(call: Call) -> Cost:
        return in_place_cost(call, flops * elements(call.args[0]))

    return formula


for _name, _flops in PER_ELEMENT.items():
    rule(f"aten::{_name}", f"aten::{_name}_")(_formula(_name, _flops))
for _name in _FOREACH.split():
    rule(f"aten::_foreach_{_name}", f"aten::_foreach_{_name}_")(_foreach(PER_ELEMENT[_name]))


@rule("aten::gelu", "aten::gelu_", "aten::gelu_backward", key=Key.ARGUMENTS)
def _gelu(call: Call) -> Cost:
    forward, backward = GELU[call.arg("approximate", "none")]
    return vector_cost(call, (backward if "backward" in call.name else forward) * output_elements(call))


@rule(
    *("aten::_amp_foreach_non_finite_check_and_unscale", "aten::_amp_foreach_non_finite_check_and_unscale_"),
    *("aten::_amp_update_scale", "aten::_amp_update_scale_"),
)
def _amp(call: Call) -> Cost:
    """Compare with infinity and multiply each gradient."""
    return in_place_cost(call, 2 * elements(call.args[0]))


@rule("aten::_foreach_powsum")
def _foreach_powers(call: Call) -> Cost:
    return in_place_cost(call, 2 * elements(call.args[0]))
