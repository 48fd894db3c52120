"""Recurrent layers that run as one kernel: every token meets every weight matrix once, 2 tokens |weights| FLOPs.

LSTM [T, B, I] -> [T, B, H], one layer: 2 T B 4H (I + H); a projection to P: 2 T B (4H (I + P) + P H); GRU 3H, RNN H
instead of 4H. A packed sequence has as many tokens as its sequences together. The backward is twice the forward:
gradients of what went in (the first hidden state included), and of the weights.

Layers that torch runs as a loop of addmm (GRU, RNN and projected LSTM on a CPU) are counted as that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weftrace.costs.cost import Cost, Status
from weftrace.costs.registry import Call, Key, matrix_cost, rule, vector_cost
from weftrace.costs.tensors import TensorLike, is_tensor

_MODES = ("rnn", "rnn", "lstm", "gru")  # cuDNN's numbers: RELU, TANH, LSTM, GRU
_GATES = {"rnn": 1, "lstm": 4, "gru": 3}

# Elementwise operations of one hidden unit at one time, apart from the biases, as the loop of operators has them (a
# sigmoid is 4). LSTM: 4 sums of two products, 3 sigmoid, 2 tanh, c = f c + i g (3), h = o tanh(c) (1).
# GRU: 2 sums, 2 sigmoid; n = tanh(x + r h): 3; h = n + z (h - n): 3. RNN: sum and activation.
_CELL = {"rnn": 2, "lstm": 4 + 3 * 4 + 2 + 3 + 1, "gru": 2 + 2 * 4 + 3 + 3}
# Their derivatives; an activation's is 3. LSTM: do, dtanh, its slope and a sum into dc (6); df, dc, di, dg (4); 4
# slopes. GRU: dz, dh, dn and a sum (4); the slope of n, dr, dh (5); 2 slopes.
_CELL_BACKWARD = {"rnn": 3, "lstm": 6 + 4 + 4 * 3, "gru": 4 + 5 + 2 * 3}


def _matrices(weights: Iterable[Any]) -> list[TensorLike]:
    return [w for w in weights if is_tensor(w) and w.dim() == 2]


def _biases(weights: Iterable[Any]) -> list[TensorLike]:
    return [w for w in weights if is_tensor(w) and w.dim() == 1 and w.numel()]


def _forward(call: Call, weights: Iterable[Any], mode: str) -> Cost:
    weights = list(weights)
    x = call.args[0]
    tokens = x.numel() // max(1, x.shape[-1])
    return matrix_cost(
        call,
        2 * tokens * sum(w.numel() for w in _matrices(weights)),
        vector_flops=tokens * (_CELL[mode] * _hidden(weights, mode) + sum(b.numel() for b in _biases(weights))),
        dtype=x.dtype,
    )


def _hidden(weights: Iterable[Any], mode: str) -> int:
    """Hidden units of all layers and directions together; each has a [gates H, I] and a [gates H, H] matrix."""
    matrices = _matrices(weights)
    rows = matrices[0].shape[0] if matrices else 0  # a projection has P < H rows
    return sum(w.shape[0] for w in matrices if w.shape[0] == rows) // 2 // _GATES[mode]


@rule("aten::_cudnn_rnn", "aten::miopen_rnn", key=Key.ARGUMENTS)
def _rnn(call: Call) -> Cost:
    return _forward(call, call.arg("weight"), _MODES[call.arg("mode")])


@rule("aten::mkldnn_rnn_layer")
def _mkldnn_layer(call: Call) -> Cost:
    """One layer in one direction."""
    return _forward(call, _layer_weights(call), "lstm")


def _layer_weights(call: Call) -> list[TensorLike]:
    """Two matrices and two biases; without biases torch passes two more matrices in their place."""
    first, second, *biases = call.args[1:5]
    return [first, second, *_biases(biases)]


@rule("aten::_lstm_mps", key=Key.ARGUMENTS)
def _lstm_mps(call: Call) -> Cost:
    return _forward(call, call.arg("params"), "lstm")


@rule("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward", key=Key.ARGUMENTS)
def _rnn_backward(call: Call) -> Cost:
    """The kernel always computes the gradient of its input; the model's FLOPs have it where it was asked for."""
    weights, mode, mask = call.arg("weight"), _MODES[call.arg("mode")], call.arg("output_mask")
    x = call.arg("input")
    tokens = x.numel() // max(1, x.shape[-1])
    matrices = _matrices(weights)
    once = 2 * tokens * sum(w.numel() for w in matrices)
    directions = 2 if call.arg("bidirectional") else 1
    per_direction = len(matrices) // max(1, call.arg("num_layers") * directions)  # 2, or 3 with a projection
    of_input = 2 * tokens * sum(w.numel() for w in matrices[: per_direction * directions : per_direction])
    executed = once * (2 if mask[3] else 1)
    biases = sum(b.numel() for b in _biases(weights)) if mask[3] else 0
    return matrix_cost(
        call,
        executed - (0 if mask[0] else of_input),
        executed_flops=executed,
        vector_flops=tokens * (_CELL_BACKWARD[mode] * _hidden(weights, mode) + biases),
        dtype=x.dtype,
    )


@rule("aten::mkldnn_rnn_layer_backward")
def _mkldnn_layer_backward(call: Call) -> Cost:
    """It computes all gradients, whichever are asked for."""
    x, weights = call.args[0], _layer_weights(call)
    tokens = x.numel() // max(1, x.shape[-1])
    biases = sum(b.numel() for b in _biases(weights))
    return matrix_cost(
        call,
        4 * tokens * sum(w.numel() for w in _matrices(weights)),
        vector_flops=tokens * (_CELL_BACKWARD["lstm"] * _hidden(weights, "lstm") + biases),
        dtype=x.dtype,
    )


@rule("aten::lstm_mps_backward", key=Key.ARGUMENTS)
def _lstm_mps_backward(call: Call) -> Cost:
    x, weights = call.arg("input"), call.arg("params")
    tokens = x.numel() // max(1, x.shape[-1])
    return matrix_cost(
        call,
        4 * tokens * sum(w.numel() for w in _matrices(weights)),
        vector_flops=tokens * _CELL_BACKWARD["lstm"] * _hidden(weights, "lstm"),
        dtype=x.dtype,
    )


@rule("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell")
def _fused_cell(call: Call) -> Cost:
    """What is left of a cell after its two products, which are counted by themselves."""
    gates, state = call.args[0], call.args[2]
    mode = "lstm" if "lstm" in call.name else "gru"
    biases = sum(int(call.arg(name) is not None) for name in ("input_bias", "hidden_bias"))
    return vector_cost(call, _CELL[mode] * state.numel() + biases * gates.numel())


@rule("aten::_thnn_fused_lstm_cell_backward_impl", "aten::_thnn_fused_gru_cell_backward", key=Key.ARGUMENTS)
def _fused_cell_backward(call: Call) -> Cost:
    lstm = "lstm" in call.name
    units = call.arg("cx").numel() if lstm else call.arg("grad_hy").numel()
    mode = "lstm" if lstm else "gru"
    biases = units * _GATES[mode] if call.arg("has_bias") else 0
    return vector_cost(call, _CELL_BACKWARD[mode] * units + biases)


@rule("aten::quantized_lstm", "aten::quantized_gru", key=Key.ARGUMENTS)
def _quantized(call: Call) -> Cost:
    """Packed weights hide their shapes: H comes from the state, the first layer's I from the input."""
    x, state = call.args[0], call.arg("hx")
    mode = "lstm" if isinstance(state, (list, tuple)) else "gru"
    state = state[0] if isinstance(state, (list, tuple)) else state
    directions = 2 if call.arg("bidirectional") else 1
    layers, gates, hidden = call.arg("num_layers"), _GATES[mode], state.shape[-1]
    tokens = x.numel() // max(1, x.shape[-1])
    biases = 2 * gates if call.arg("has_biases") else 0
    rest = (layers - 1) * (directions * hidden + hidden)
    weights = directions * gates * hidden * (x.shape[-1] + hidden + rest)
    return matrix_cost(
        call,
        2 * tokens * weights,
        vector_flops=tokens * layers * directions * hidden * (_CELL[mode] + biases),
        dtype="int8",
        read_bytes=call.read_bytes + weights,
        status=Status.EXACT,
        note="weights are taken to be int8",
    )
