"""Results of elementwise operators: the shapes of all tensors broadcast, the dtype that they promote to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weftrace.costs.outputs.dtypes import BOOL, FLOAT, UINT8, as_float, as_real, dtype_of_code, promoted
from weftrace.costs.outputs.registry import output
from weftrace.costs.registry import NotRecorded
from weftrace.costs.tensors import DType, Tensor
from weftrace.costs.traced_call import TracedCall


def broadcast(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The shape that shapes have in common: from the right, a 1 gives way to anything."""
    result: list[int] = []
    for shape in shapes:
        missing = len(shape) - len(result)
        result = [1] * missing + result
        for place in range(1, len(shape) + 1):
            if result[-place] == 1:
                result[-place] = shape[-place]
            elif shape[-place] not in (1, result[-place]):
                raise NotRecorded(f"shapes that go together: {list(shape)} and {result}")
    return tuple(result)


def like(tensor: Tensor, dtype: DType | None = None) -> Tensor:
    """A new tensor of that shape, contiguous."""
    return Tensor(tensor.shape, tensor.dtype if dtype is None else dtype)


def _tensors(call: TracedCall) -> list[Tensor]:
    return [value for value in call.args if isinstance(value, Tensor)]


def _shape(call: TracedCall) -> tuple[int, ...]:
    tensors = _tensors(call)
    if not tensors:
        raise NotRecorded(f"a tensor of {call.name}")
    return broadcast(tensor.shape for tensor in tensors)


_OPERANDS = ("self", "other", "input", "exponent", "min", "max", "end", "tensor1", "tensor2", "abs", "angle")


def operands(call: TracedCall) -> list[Any]:
    """The tensors and numbers that the result's dtype follows from; not alpha and its like."""
    return [value for name, value, _ in call.named_arguments() if name in _OPERANDS] or _tensors(call)


# The shape and dtype of all operands together.
_PROMOTED = """
    add sub rsub mul remainder fmod neg abs sign sgn pow maximum minimum fmax fmin clamp_min clamp_max relu clamp
    hardtanh lerp addcmul gcd lcm bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift
    bitwise_right_shift __lshift__ __rshift__ floor_divide heaviside nextafter hypot logaddexp
    logaddexp2 conj_physical nan_to_num floor ceil round trunc frac mish silu leaky_relu elu celu softplus hardsigmoid
    hardswish hardshrink softshrink _add_relu threshold gelu linalg_cross
"""
# The same, and integers become float32.
_FLOATS = """
    div reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh
    acosh atanh erf erfc erfinv lgamma digamma sigmoid logit sinc xlogy special_xlog1py addcdiv ldexp copysign deg2rad
    rad2deg
"""
_TESTS = """
    eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isposinf isneginf signbit isin
"""


@output(_PROMOTED)
def _promoted(call: TracedCall) -> Any:
    dtype = promoted(operands(call))
    return Tensor(_shape(call), as_real(dtype) if call.name == "aten::abs" else dtype)


@output(_FLOATS)
def _floats(call: TracedCall) -> Any:
    """A rounding mode of div, a text, is not recorded: an overload that has one is taken to round."""
    dtype = promoted(operands(call))
    rounds = call.name == "aten::div" and len(call.args) > 2
    return Tensor(_shape(call), dtype if rounds else as_float(dtype))


@output("angle")
def _angle(call: TracedCall) -> Any:
    return like(call.args[0], as_real(as_float(call.args[0].dtype)))


@output(_TESTS)
def _tests(call: TracedCall) -> Any:
    return Tensor(_shape(call), BOOL)


@output("where")
def _where(call: TracedCall) -> Any:
    return Tensor(_shape(call), promoted(call.args[1:3]))


@output("masked_fill")
def _masked_fill(call: TracedCall) -> Any:
    return Tensor(_shape(call), call.args[0].dtype)


@output("polar complex")
def _complex(call: TracedCall) -> Any:
    wide = {"float64": "complex128", "float16": "complex32"}
    return Tensor(_shape(call), DType(wide.get(promoted(_tensors(call)).name, "complex64")))


# The dtype of the first tensor: gradients, and products with a weight.
_OF_FIRST = """
    threshold_backward hardtanh_backward hardshrink_backward softshrink_backward sigmoid_backward tanh_backward
    silu_backward mish_backward leaky_relu_backward elu_backward softplus_backward log_sigmoid_backward
    hardsigmoid_backward hardswish_backward logit_backward gelu_backward native_dropout_backward _masked_scale
    rrelu_with_noise_backward _prelu_kernel mse_loss_backward smooth_l1_loss_backward huber_loss_backward
    soft_margin_loss_backward
"""


@output(_OF_FIRST)
def _of_first(call: TracedCall) -> Any:
    return Tensor(_shape(call), call.args[0].dtype)


@output("native_dropout _fused_dropout")
def _dropout(call: TracedCall) -> Any:
    return like(call.args[0]), like(call.args[0], BOOL if call.name == "aten::native_dropout" else UINT8)


@output("log_sigmoid_forward")
def _log_sigmoid(call: TracedCall) -> Any:
    return like(call.args[0]), Tensor((0,), call.args[0].dtype)


@output("_prelu_kernel_backward")
def _prelu_backward(call: TracedCall) -> Any:
    return like(call.args[1]), like(call.args[1])


@output("glu")
def _glu(call: TracedCall) -> Any:
    shape = list(call.args[0].shape)
    shape[call.arg("dim", -1)] //= 2
    return Tensor(tuple(shape), call.args[0].dtype)


@output("binary_cross_entropy binary_cross_entropy_with_logits mse_loss smooth_l1_loss huber_loss soft_margin_loss")
def _loss(call: TracedCall) -> Any:
    """reduction: 0 none, 1 mean, 2 sum."""
    return Tensor(_shape(call) if call.arg("reduction", 1) == 0 else (), call.args[0].dtype)


@output("_weight_norm_interface")
def _weight_norm(call: TracedCall) -> Any:
    v, g = call.args[:2]
    return like(v), like(g, FLOAT if g.dtype.itemsize < 4 else g.dtype)


@output("_weight_norm_interface_backward")
def _weight_norm_backward(call: TracedCall) -> Any:
    return like(call.args[1]), like(call.args[2])


def foreach(call: TracedCall) -> Any:
    """Of each tensor of the first list (of the last, where the first argument is a number)."""
    tensors = next(value for value in call.args if isinstance(value, list))
    if call.name in ("aten::_foreach_norm", "aten::_foreach_max", "aten::_foreach_powsum"):
        dtype = dtype_of_code(call.arg("dtype", -1))
        return [Tensor((), dtype or tensor.dtype) for tensor in tensors]
    return [like(tensor) for tensor in tensors]
