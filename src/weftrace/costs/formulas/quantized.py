"""Products in int8 and fp8, and with weights packed to 8 or 4 bits: 2 m n k, counted as FLOPs of that type.

A weight that is packed hides its shape; [.., k] in and [.., n] out tell as much. Its bytes are then taken from the
type it is packed to, and a bias that may lie with it is taken to be there. Scales and zero points are not counted.
"""

from __future__ import annotations

import math

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import Call, Key, NotRecorded, matrix_cost, rule, vector_cost


def _packed_product(call: Call, *, vector: int = 0, dtype: object | None = None, weight_bytes: float = 0) -> Cost:
    """[.., k] times a packed [k, n]; vector: elementwise operations for each element of the result."""
    x, out = call.args[0], call.out
    weights = x.shape[-1] * out.shape[-1]
    return matrix_cost(
        call,
        2 * out.numel() * x.shape[-1],
        vector_flops=vector * out.numel(),
        dtype=x.dtype if dtype is None else dtype,
        read_bytes=call.read_bytes + int(weights * weight_bytes),
    )


@rule("aten::_int_mm")
def _int_mm(call: Call) -> Cost:
    a, b = call.args[:2]
    return matrix_cost(call, 2 * a.numel() * b.shape[-1])


@rule("aten::_scaled_mm", "aten::_scaled_mm_v2")
def _scaled_mm(call: Call) -> Cost:
    """fp8, or fp4 with two numbers in a byte: the shape is that of the bytes."""
    a, b, out = call.args[0], call.args[1], call.out
    packed = 2 if "float4" in str(a.dtype) else 1
    bias = out.numel() if call.arg("bias") is not None else 0
    return matrix_cost(call, 2 * packed * a.numel() * b.shape[-1], vector_flops=bias, dtype=a.dtype)


@rule(
    *("aten::_weight_int8pack_mm", "aten::_weight_int4pack_mm", "aten::_weight_int4pack_mm_for_cpu"),
    *("aten::_weight_int4pack_mm_with_scales_and_zeros", "aten::_dyn_quant_matmul_4bit"),
    "quantized::int4mm_packed_weight_cpu",
)
def _weight_only(call: Call) -> Cost:
    """The product runs in the type of the activations; the packed weight is among the arguments."""
    return _packed_product(call)


@rule("quantized::linear", "quantized::linear_dynamic", "quantized::linear_with_input_q_dq_qweight_dq_output_fp32")
def _linear(call: Call) -> Cost:
    return _packed_product(call, vector=1, dtype="int8", weight_bytes=1)


@rule(
    *("quantized::linear_relu", "quantized::linear_relu_dynamic", "quantized::linear_leaky_relu"),
    *("quantized::linear_tanh", "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32"),
)
def _linear_activated(call: Call) -> Cost:
    return _packed_product(call, vector=2, dtype="int8", weight_bytes=1)


@rule("quantized::linear_dynamic_fp16", "quantized::linear_relu_dynamic_fp16")
def _linear_fp16(call: Call) -> Cost:
    """Weights are kept in fp16 and multiplied in the type of the activations."""
    return _packed_product(call, vector=2 if "relu" in call.name else 1, weight_bytes=2)


@rule(
    *("quantized::linear_dynamic_fp16_unpacked_weight", "onednn::linear_dynamic_fp16"),
    *("onednn::linear_relu_dynamic_fp16", "_quantized::wrapped_fbgemm_linear_fp16_weight"),
)
def _linear_fp16_unpacked(call: Call) -> Cost:
    return _packed_product(call, vector=2 if "relu" in call.name else 1)


@rule("onednn::qlinear_pointwise", key=Key.ARGUMENTS)
def _qlinear(call: Call) -> Cost:
    """Its name for the activation, or for what is added, is "none" where there is none."""
    names = (call.arg("post_op_name"), call.arg("binary_post_op"), call.arg("unary_post_op"))
    fused = sum(int(name not in (None, "none", "")) for name in names)
    return _packed_product(call, vector=int(call.arg("bias") is not None) + fused, dtype="int8")


@rule("_quantized::_wrapped_quantized_linear_prepacked")
def _wrapped_linear(call: Call) -> Cost:
    return _packed_product(call, vector=1, dtype="int8")


@rule("quantized::matmul")
def _matmul(call: Call) -> Cost:
    a, b = call.args[:2]
    return matrix_cost(call, 2 * call.out.numel() * a.shape[-1], dtype=b.dtype)


@rule("sparse::qlinear", "sparse::qlinear_dynamic", "sparse::qlinear_relu", "sparse::qlinear_relu_dynamic")
def _sparse_linear(call: Call) -> Cost:
    x, out = call.args[0], call.out
    return matrix_cost(
        call,
        2 * out.numel() * x.shape[-1],
        vector_flops=out.numel(),
        dtype="int8",
        status=Status.UPPER_BOUND,
        note="how many blocks of the packed weight are stored is not known: counted as if all were",
    )


@rule(
    *("quantized::conv1d", "quantized::conv2d", "quantized::conv3d", "quantized::conv1d_relu"),
    "quantized::conv2d_relu",
    *("quantized::conv3d_relu", "quantized::conv1d_dynamic", "quantized::conv2d_dynamic", "quantized::conv3d_dynamic"),
    *("quantized::conv2d_add", "quantized::conv2d_add_relu", "quantized::conv_transpose1d"),
    *("quantized::conv_transpose2d", "quantized::conv_transpose3d", "quantized::conv_transpose1d_dynamic"),
    *("quantized::conv_transpose2d_dynamic", "quantized::conv_transpose3d_dynamic"),
    key=Key.VALUES,  # the kernel's size is in an object that no key can hold
)
def _conv(call: Call) -> Cost:
    """See `conv`; the weight is asked of the packed object."""
    x, out, name = call.args[0], call.out, call.name
    packed = call.arg("packed_weight") if call.arg("packed_weight") is not None else call.arg("weight")
    if not hasattr(packed, "unpack"):
        raise NotRecorded("the size of the kernel, which lies in a packed weight")
    weight, bias = packed.unpack()
    positions = x if "transpose" in name else out
    extra = int(bias is not None) + int("relu" in name) + int("_add" in name)
    return matrix_cost(
        call,
        2 * positions.numel() * math.prod(weight.shape[1:]),
        kind=Kind.CONV,
        vector_flops=extra * out.numel(),
        dtype="int8",
        read_bytes=call.read_bytes + weight.numel(),
    )


@rule("onednn::qconv1d_pointwise", "onednn::qconv2d_pointwise", "onednn::qconv3d_pointwise", "onednn::qconv_pointwise")
def _qconv(call: Call) -> Cost:
    x, weight, out = call.args[0], call.arg("qw"), call.out
    apart = int(weight.dim() == x.dim() + 1)  # groups apart
    bias = call.arg("bias") is not None
    return matrix_cost(
        call,
        2 * out.numel() * math.prod(weight.shape[1 + apart :]),
        kind=Kind.CONV,
        vector_flops=out.numel() if bias else 0,
        dtype="int8",
    )


@rule(
    *("quantized::quantized_lstm_cell_dynamic", "quantized::quantized_gru_cell_dynamic"),
    *("quantized::quantized_rnn_relu_cell_dynamic", "quantized::quantized_rnn_tanh_cell_dynamic"),
)
def _cell(call: Call) -> Cost:
    """[b, i] and a state [b, h]: 2 b gates h (i + h)."""
    x, state = call.args[0], call.args[1]
    state = state[0] if isinstance(state, (list, tuple)) else state
    gates = 4 if "lstm" in call.name else 3 if "gru" in call.name else 1
    weights = gates * state.shape[-1] * (x.shape[-1] + state.shape[-1])
    return matrix_cost(
        call,
        2 * x.shape[0] * weights,
        vector_flops=5 * gates * state.numel(),
        dtype="int8",
        read_bytes=call.read_bytes + weights,
    )


_PACKING = """
    aten::_convert_weight_to_int4pack aten::_convert_weight_to_int4pack_for_cpu aten::_dyn_quant_pack_4bit_weight
    quantized::linear_prepack quantized::linear_prepack_fp16 quantized::linear_unpack quantized::linear_unpack_fp16
    quantized::conv_prepack quantized::conv1d_prepack quantized::conv2d_prepack quantized::conv3d_prepack
    quantized::conv_transpose1d_prepack quantized::conv_transpose2d_prepack quantized::conv_transpose3d_prepack
    onednn::linear_prepack_fp16 onednn::qconv_prepack onednn::qlinear_prepack quantized::cat
    mkldnn::_reorder_linear_weight mkldnn::_reorder_convolution_weight mkldnn::_reorder_convolution_transpose_weight
    mkldnn::_reorder_mkldnn_rnn_layer_weight mkl::_mkl_reorder_linear_weight
"""
_ELEMENTWISE = """
    quantized::add quantized::add_scalar quantized::mul quantized::mul_scalar quantized::relu6 quantized::clamp
    quantized::threshold quantized::leaky_relu onednn::qadd onednn::qmul quantized::add_relu quantized::mul_relu
    quantized::add_scalar_relu quantized::mul_scalar_relu onednn::qadd_relu
"""


@rule(*_PACKING.split())
def _packing(call: Call) -> Cost:
    return vector_cost(call, 0, kind=Kind.MOVE)


@rule(*_ELEMENTWISE.split())
def _elementwise(call: Call) -> Cost:
    """An operation for each element, and one more for an activation that comes with it."""
    each = 2 if call.name.endswith("_relu") and "leaky" not in call.name else 1
    return vector_cost(call, each * sum(out.numel() for out in call.outputs()))
