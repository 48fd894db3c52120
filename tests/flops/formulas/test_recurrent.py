"""Recurrent layers: 2 T B gates H (inputs + H) however they run, as one kernel or as a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tests.flops.formulas.single_op import Case, check, check_under_inference, count_op, devices, leaf, tensors
from weftrace.costs.cost import Phase, Status

T, B, N, H, P = 3, 2, 4, 6, 3  # times, batch, inputs, hidden units, projected ones
GATES: dict[Any, int] = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


def model(kind: Any, **settings: Any) -> Any:
    def build(device: str) -> tuple[Callable[[], Any], list[torch.Tensor]]:
        layer = kind(N, H, **settings).to(device)
        shape = (B, T, N) if settings.get("batch_first") else (T, B, N)
        x = leaf(device, *shape)
        return (lambda: layer(x)), [x, *layer.parameters()]

    return build


def forward(gates: int, *, layers: int = 1, directions: int = 1) -> int:
    """T B tokens; the first layer takes N, the next the hidden units of every direction."""
    inputs = [N] + [directions * H] * (layers - 1)
    return sum(2 * T * B * gates * H * (i + H) * directions for i in inputs)


def loop_backward(gates: int, *, layers: int = 1, directions: int = 1) -> int:
    """Twice the forward, less the gradient of the first hidden state (zeros), which no one asks for."""
    return 2 * forward(gates, layers=layers, directions=directions) - 2 * B * gates * H * H * layers * directions


PROJECTED = 2 * T * B * (4 * H * (N + P) + P * H)
CASES = [
    Case(name="lstm", build=model(nn.LSTM), forward=forward(4), backward=2 * forward(4), meta=False,
         op="aten.mkldnn_rnn_layer.default"),
    Case(name="lstm-batch-first", build=model(nn.LSTM, batch_first=True), forward=forward(4), backward=2 * forward(4),
         meta=False),
    Case(name="lstm-no-bias", build=model(nn.LSTM, bias=False), forward=forward(4), backward=2 * forward(4),
         meta=False),
    Case(name="lstm-stacked-both-ways", build=model(nn.LSTM, num_layers=2, bidirectional=True),
         forward=forward(4, layers=2, directions=2), backward=2 * forward(4, layers=2, directions=2), meta=False),
    # the gradient of the first projected state [B, P] is not asked for
    Case(name="lstm-projected", build=model(nn.LSTM, proj_size=P), forward=PROJECTED,
         backward=2 * PROJECTED - 2 * B * 4 * H * P),
    Case(name="gru", build=model(nn.GRU), forward=forward(3), backward=loop_backward(3)),
    Case(name="gru-both-ways", build=model(nn.GRU, bidirectional=True, bias=False), forward=forward(3, directions=2),
         backward=loop_backward(3, directions=2)),
    Case(name="gru-stacked", build=model(nn.GRU, num_layers=2), forward=forward(3, layers=2),
         backward=loop_backward(3, layers=2)),
    Case(name="rnn", build=model(nn.RNN), forward=forward(1), backward=loop_backward(1)),
    # on meta there is no kernel: the LSTM is a loop too
    Case(name="lstm-as-a-loop", build=lambda device: model(nn.LSTM)("meta"), forward=forward(4),
         backward=loop_backward(4)),
]  # fmt: skip


@pytest.mark.parametrize(("case", "device"), devices(CASES))
def test_layers(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.parametrize("case", CASES[:-1], ids=lambda case: case.name)
def test_layers_under_inference_mode(case: Case) -> None:
    check_under_inference(case)


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("mode", ["train", "inference"])
def test_a_packed_sequence_has_as_many_tokens_as_its_sequences(kind: Any, mode: str) -> None:
    layer = kind(N, H)
    lengths = [5, 3, 2]
    packed = pack_padded_sequence(torch.randn(5, 3, N), torch.tensor(lengths))
    with torch.inference_mode(mode == "inference"):
        plain, counted = layer(packed)[0].data, count_op(lambda: layer(packed)[0].data)
    assert counted.forward == 2 * sum(lengths) * GATES[kind] * H * (N + H)
    torch.testing.assert_close(counted.out, plain)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)])
def test_cells(kind: Any, gates: int) -> None:
    cell, x = kind(N, H), torch.randn(B, N, requires_grad=True)
    counted = count_op(lambda: sum(out.sum() for out in tensors(cell(x))).backward())  # type: ignore[union-attr]
    once = 2 * B * gates * H
    # backward: the input's and both weights' gradients; that of the state of zeros is not asked for
    assert (counted.forward, counted.backward) == (once * (N + H), once * (2 * N + H))


def test_vector_work_of_a_fused_lstm() -> None:
    """Each hidden unit and time: 4 sums, 3 sigmoid of 4, 2 tanh, 4 for the state; two biases of 4 H; as in a loop."""
    layer, x = nn.LSTM(N, H), torch.randn(T, B, N)
    cost = count_op(lambda: layer(x)).op("mkldnn_rnn_layer").cost
    assert cost.vector_flops == T * B * H * (4 + 12 + 2 + 4 + 8)
    assert cost.status is Status.EXACT
    looped = count_op(lambda: layer.to("meta")(x.to("meta")))
    assert looped.total("vector_flops") == cost.vector_flops


class Recorded:
    """A call of an operator that needs a GPU: its arguments on the meta device."""

    def __init__(self, **settings: Any) -> None:
        self.layer = nn.LSTM(N, H, **settings).to("meta")
        self.settings = settings

    def cost(self, mask: tuple[bool, bool, bool, bool] | None = None) -> Any:
        from weftrace.flops.runtime.formulas.live_call import LiveCall
        from weftrace.flops.runtime.formulas.operators import operator, rule_of

        layers, both = self.settings.get("num_layers", 1), self.settings.get("bidirectional", False)
        x = torch.randn(T, B, N, device="meta")
        state = torch.zeros(layers * (1 + both), B, H, device="meta")
        weights = list(self.layer.parameters())
        common: tuple[Any, ...] = (2, H, 0, layers, False, 0.0, True, both, [])
        if mask is None:
            op = operator("aten::_cudnn_rnn")
            args: tuple[Any, ...] = (x, weights, 4, None, state, state, *common, None)
        else:
            op = operator("aten::_cudnn_rnn_backward")
            out = torch.zeros(T, B, H * (1 + both), device="meta")
            args = (x, weights, 4, out, state, state, out, out, None, None, *common, None, out, list(mask))
        assert op is not None
        found = rule_of(op)
        assert found is not None
        return found.formula(LiveCall(op, args, {}, (x,)))


def test_cudnn_lstm() -> None:
    once = forward(4, layers=2, directions=2)
    layer = Recorded(num_layers=2, bidirectional=True)
    assert layer.cost().flops == once
    assert layer.cost((True, True, True, True)).flops == 2 * once
    of_input = 2 * T * B * 4 * H * N * 2
    frozen = layer.cost((False, True, True, True))
    assert (frozen.flops, frozen.executed_flops) == (2 * once - of_input, 2 * once)
    assert layer.cost((True, True, True, False)).flops == once


def test_quantized_dynamic_cells_have_no_hidden_failures() -> None:
    cell = torch.ao.nn.quantized.dynamic.LSTMCell(N, H)
    x = torch.randn(B, N)
    counted = count_op(lambda: cell(x))
    assert counted.op("quantized_lstm_cell_dynamic", Phase.FORWARD).cost.flops == 2 * B * 4 * H * (N + H)
