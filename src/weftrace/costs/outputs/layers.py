"""Results of norms, softmax, losses, attention and recurrent layers, forward and backward."""

from __future__ import annotations

import math
from typing import Any

from weftrace.costs.outputs.dtypes import FLOAT, INT64, as_statistic, dtype_of_code
from weftrace.costs.outputs.elementwise import like
from weftrace.costs.outputs.registry import output
from weftrace.costs.tensors import DType, Tensor
from weftrace.costs.traced_call import TracedCall

UINT64 = DType("uint64")

# The gradient of the argument of that name.
_GRADIENTS = {
    "self": """
        threshold_backward avg_pool2d_backward avg_pool3d_backward max_pool2d_with_indices_backward
        max_pool3d_with_indices_backward max_pool2d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward
        _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_avg_pool3d_backward nll_loss_backward
        nll_loss2d_backward binary_cross_entropy_backward multi_margin_loss_backward multilabel_margin_loss_backward
        glu_backward reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
        replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
        fractional_max_pool2d_backward fractional_max_pool3d_backward
    """,
    "input": "batch_norm_backward_elemt batch_norm_elemt",
    "output": "_masked_softmax_backward",
}


def _gradient_of(name: str) -> Any:
    def gradient(call: TracedCall) -> Any:
        return like(call.arg(name))

    return gradient


for _name, _names in _GRADIENTS.items():
    for _operator in _names.split():
        if _operator != "threshold_backward":  # an elementwise one
            output(_operator)(_gradient_of(_name))


# -- softmax and losses


@output("_softmax _log_softmax")
def _softmax(call: TracedCall) -> Any:
    return like(call.args[0], FLOAT if call.arg("half_to_float", False) else None)


@output("_softmax_backward_data _log_softmax_backward_data")
def _softmax_backward(call: TracedCall) -> Any:
    return like(call.args[0], dtype_of_code(call.arg("input_dtype", -1)))


@output("nll_loss_forward nll_loss2d_forward")
def _nll(call: TracedCall) -> Any:
    scores, target = call.args[:2]
    total = Tensor((), scores.dtype)
    return Tensor(target.shape if call.arg("reduction", 1) == 0 else (), scores.dtype), total


# -- norms


@output("native_layer_norm")
def _layer_norm(call: TracedCall) -> Any:
    """Mean and deviation of each row; of half precision a GPU keeps them in single, a CPU in half."""
    x, weight = call.args[0], call.arg("weight")
    rows = x.shape[: x.ndim - (len(call.arg("normalized_shape")) if weight is None else weight.ndim)]
    statistic = Tensor((*rows, *(1,) * (x.ndim - len(rows))), as_statistic(x.dtype))
    return like(x), statistic, statistic


@output("_fused_rms_norm")
def _rms_norm(call: TracedCall) -> Any:
    return _layer_norm(call)[:2]


@output("native_group_norm")
def _group_norm(call: TracedCall) -> Any:
    statistic = Tensor((call.arg("N"), call.arg("group")), call.args[0].dtype)
    return like(call.args[0]), statistic, statistic


@output("native_layer_norm_backward native_group_norm_backward _fused_rms_norm_backward")
def _norm_backward(call: TracedCall) -> Any:
    x, weight = call.arg("input"), call.arg("weight")
    mask = call.arg("output_mask", (True, True, True))
    sizes = tuple(call.arg("normalized_shape") or (call.arg("C"),))
    affine = Tensor(sizes, x.dtype if weight is None else weight.dtype)
    return like(x) if mask[0] else None, *(affine if wanted else None for wanted in mask[1:])


_BATCH_NORMS = """
    native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm miopen_batch_norm
    _native_batch_norm_legit_no_training _batch_norm_no_update _batch_norm_with_update
    _batch_norm_with_update_functional
"""


@output(_BATCH_NORMS)
def _batch_norm(call: TracedCall) -> Any:
    """Statistics of a channel while it trains, none in evaluation; cuDNN's own reserve is taken to be empty."""
    x = call.args[0]
    trains = bool(call.arg("training", "update" in call.name and "no_update" not in call.name))
    statistic = Tensor((x.shape[1],) if trains else (0,), as_statistic(x.dtype))
    results: tuple[Any, ...] = (like(x), statistic, statistic)
    if call.name.endswith("_functional"):
        results += (call.arg("running_mean"), call.arg("running_var"))
    return results


@output("native_batch_norm_backward batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward")
def _batch_norm_backward(call: TracedCall) -> Any:
    x, weight = call.arg("input"), call.arg("weight")
    mask = call.arg("output_mask", (True, True, True))
    affine = Tensor((x.shape[1],), as_statistic(x.dtype) if weight is None else weight.dtype)
    return like(x) if mask[0] else None, *(affine if wanted else None for wanted in mask[1:3])


@output("batch_norm_stats batch_norm_update_stats")
def _statistics(call: TracedCall) -> Any:
    statistic = Tensor((call.args[0].shape[1],), as_statistic(call.args[0].dtype))
    return statistic, statistic


@output("batch_norm_gather_stats batch_norm_gather_stats_with_counts")
def _gathered_statistics(call: TracedCall) -> Any:
    statistic = Tensor((call.arg("mean").shape[-1],), call.arg("mean").dtype)
    return statistic, statistic


@output("batch_norm_backward_reduce")
def _batch_norm_sums(call: TracedCall) -> Any:
    """Two sums for the input's gradient, the weight's and the bias's."""
    statistic = like(call.arg("mean"))
    affine = (call.arg("weight_g", True), call.arg("bias_g", True))
    sums = [statistic, statistic] if call.arg("input_g", True) else [None, None]
    return *sums, *(statistic if wanted else None for wanted in affine)


# -- attention


def _queries(call: TracedCall) -> Tensor:
    query, value = call.arg("query"), call.arg("value")
    return Tensor((*query.shape[:-1], value.shape[-1]), query.dtype)


_SEED = Tensor((), INT64)


@output("_scaled_dot_product_flash_attention_for_cpu")
def _cpu_attention(call: TracedCall) -> Any:
    out = _queries(call)
    return out, Tensor(out.shape[:-1], as_statistic(out.dtype))


@output("_scaled_dot_product_flash_attention")
def _flash_attention(call: TracedCall) -> Any:
    """Beside them the state of the generator, two numbers, and a tensor that is not used (FlashAttention's api)."""
    out = _queries(call)
    return out, Tensor(out.shape[:-1], FLOAT), None, None, Tensor((2,), UINT64), Tensor((), UINT64)


@output("_scaled_dot_product_efficient_attention")
def _efficient_attention(call: TracedCall) -> Any:
    """Log-sum-exps of queries, their number rounded up to 32; none without a backward."""
    out = _queries(call)
    rows = -(-out.shape[2] // 32) * 32 if call.arg("compute_log_sumexp", True) else 0
    return out, Tensor((*out.shape[:2], rows), FLOAT), _SEED, _SEED


@output("_scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable")
def _cudnn_attention(call: TracedCall) -> Any:
    out = _queries(call)
    sums = Tensor((*out.shape[:-1], 1), FLOAT) if call.arg("compute_log_sumexp", True) else Tensor((0,), FLOAT)
    return out, sums, _SEED, _SEED


@output("_flash_attention_forward _efficient_attention_forward _cudnn_attention_forward")
def _packed_attention(call: TracedCall) -> Any:
    """(B, S, H, D) or (T, H, D); a log-sum-exp for each query and head."""
    out = _queries(call)
    return out, Tensor((math.prod(out.shape[:-1]),), FLOAT)


_ATTENTION_BACKWARDS = """
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_fused_attention_overrideable_backward _flash_attention_backward _efficient_attention_backward
    _cudnn_attention_backward
"""


@output(_ATTENTION_BACKWARDS)
def _attention_backward(call: TracedCall) -> Any:
    mask = call.arg("grad_input_mask", (True, True, True, False))
    bias = call.arg("attn_bias")
    given = (call.arg("query"), call.arg("key"), call.arg("value"), bias)
    return tuple(
        like(tensor) if wanted and tensor is not None else None for wanted, tensor in zip(mask, given, strict=False)
    )


# -- recurrent layers


@output("_thnn_fused_lstm_cell")
def _lstm_cell(call: TracedCall) -> Any:
    gates, state = call.args[0], call.arg("cx")
    return like(state), like(state), like(gates)


@output("_thnn_fused_gru_cell")
def _gru_cell(call: TracedCall) -> Any:
    state = call.arg("hx")
    return like(state), Tensor((state.shape[0], 5 * state.shape[1]), state.dtype)


@output("_thnn_fused_lstm_cell_backward_impl")
def _lstm_cell_backward(call: TracedCall) -> Any:
    workspace = call.arg("workspace")
    bias = Tensor(workspace.shape[1:], workspace.dtype) if call.arg("has_bias", True) else None
    return like(workspace), like(call.arg("cx")), bias


@output("_thnn_fused_gru_cell_backward")
def _gru_cell_backward(call: TracedCall) -> Any:
    grad = call.arg("grad_hy")
    gates = Tensor((grad.shape[0], 3 * grad.shape[1]), grad.dtype)
    bias = Tensor(gates.shape[1:], gates.dtype) if call.arg("has_bias", True) else None
    return gates, gates, like(grad), bias, bias


@output("mkldnn_rnn_layer")
def _mkldnn_layer(call: TracedCall) -> Any:
    """One layer in one direction; its workspace is not known and left out."""
    x, state = call.args[0], call.arg("hx_")
    call.notes.append("bytes at least: the workspace of mkldnn_rnn_layer is left out")
    return Tensor((*x.shape[:2], state.shape[-1]), x.dtype), like(state), like(call.arg("cx_"))


@output("mkldnn_rnn_layer_backward")
def _mkldnn_layer_backward(call: TracedCall) -> Any:
    """Gradients of the input, of two matrices, of two biases and of two states."""
    *given, hx, cx = call.args[:7]
    bias = given[3] if call.arg("weight3").ndim == 1 else None
    gates = Tensor(given[1].shape[:1], given[0].dtype) if bias is None else like(bias)
    return *(like(tensor) for tensor in given[:3]), gates, gates, like(hx), like(cx)


@output("_cudnn_rnn miopen_rnn")
def _rnn(call: TracedCall) -> Any:
    """cuDNN's and MIOpen's reserve, kept for the backward, is not known and left out."""
    x, state = call.args[0], call.arg("hx")
    directions = 2 if call.arg("bidirectional", False) else 1
    width = call.arg("hidden_size") if not call.arg("proj_size", 0) else call.arg("proj_size")
    call.notes.append(f"bytes at least: the reserve of {call.name.removeprefix('aten::')} is left out")
    cell = call.arg("cx")
    return Tensor((*x.shape[:-1], directions * width), x.dtype), like(state), None if cell is None else like(cell)


@output("_cudnn_rnn_backward miopen_rnn_backward")
def _rnn_backward(call: TracedCall) -> Any:
    mask = call.arg("output_mask")
    given = (call.arg("input"), call.arg("hx"), call.arg("cx"))
    grads = (like(x) if wanted and x is not None else None for wanted, x in zip(mask, given, strict=False))
    return *grads, [like(weight) for weight in call.arg("weight")] if mask[3] else []
