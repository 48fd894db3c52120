"""Convolutions: 2 N C_out (C_in / groups) |kernel| |output|; each gradient costs as much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils.mkldnn
from torch import nn

from tests.flops.formulas.single_op import Case, check, check_under_inference, count_op, devices, leaf
from weftrace.costs.cost import Kind, Phase

Built = tuple[Callable[[], Any], list[torch.Tensor]]


def layer(make: Callable[[], nn.Module], *shape: int) -> Any:
    def build(device: str) -> Built:
        conv = make().to(device)
        x = leaf(device, *shape)
        return (lambda: conv(x)), [x, *conv.parameters()]

    return build


def _tbc(device: str) -> Built:
    x, w, b = leaf(device, 9, 2, 4), leaf(device, 3, 4, 8), leaf(device, 8)
    return (lambda: torch.conv_tbc(x, w, b)), [x, w, b]


def _vmapped(device: str) -> Built:
    x, w = leaf(device, 3, 2, 4, 9, 9), leaf(device, 3, 8, 4, 3, 3)
    return (lambda: torch.vmap(F.conv2d)(x, w)), [x, w]


FULL = 2 * 2 * 8 * 4 * 9 * 49  # batch 2, 4 to 8 channels, kernel 3 x 3, [9, 9] -> [7, 7]


def case(name: str, build: Any, forward: int, **more: Any) -> Case:
    """Both gradients are asked for: the backward is twice the forward."""
    return Case(name=name, build=build, forward=forward, backward=2 * forward, **more)


CASES = [
    case("conv1d", layer(lambda: nn.Conv1d(4, 8, 3), 2, 4, 9), 2 * 2 * 8 * 4 * 3 * 7, op="aten.convolution.default"),
    case("conv2d", layer(lambda: nn.Conv2d(4, 8, 3), 2, 4, 9, 9), FULL, op="aten.convolution_backward.default"),
    case("conv3d", layer(lambda: nn.Conv3d(4, 8, 3), 2, 4, 9, 9, 9), 2 * 2 * 8 * 4 * 27 * 343),
    case("unbatched", layer(lambda: nn.Conv2d(4, 8, 3), 4, 9, 9), FULL // 2),
    case("no-bias", layer(lambda: nn.Conv2d(4, 8, 3, bias=False), 2, 4, 9, 9), FULL),
    case("padded", layer(lambda: nn.Conv2d(4, 8, 3, padding=1), 2, 4, 9, 9), FULL // 49 * 81),
    case("same", layer(lambda: nn.Conv2d(4, 8, 3, padding="same"), 2, 4, 9, 9), FULL // 49 * 81),
    case("strided", layer(lambda: nn.Conv2d(4, 8, 3, stride=2), 2, 4, 9, 9), FULL // 49 * 16),
    case("dilated", layer(lambda: nn.Conv2d(4, 8, 3, dilation=2), 2, 4, 9, 9), FULL // 49 * 25),
    case("grouped", layer(lambda: nn.Conv2d(4, 8, 3, groups=2), 2, 4, 9, 9), FULL // 2),
    case("depthwise", layer(lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), 2, 4, 9, 9), 2 * 2 * 4 * 9 * 49),
    case("depthwise-doubled", layer(lambda: nn.Conv2d(4, 8, 3, groups=4), 2, 4, 9, 9), FULL // 4),
    case("depthwise-1d", layer(lambda: nn.Conv1d(4, 4, 3, groups=4), 2, 4, 9), 2 * 2 * 4 * 3 * 7),
    case("pointwise", layer(lambda: nn.Conv2d(4, 8, 1), 2, 4, 9, 9), 2 * 2 * 8 * 4 * 81),
    case(
        "circular", layer(lambda: nn.Conv2d(4, 8, 3, padding=1, padding_mode="circular"), 2, 4, 9, 9), FULL // 49 * 81
    ),
    # transposed: the positions are those of the input
    case("transposed", layer(lambda: nn.ConvTranspose2d(4, 8, 3), 2, 4, 9, 9), FULL // 49 * 81),
    case("transposed-strided", layer(lambda: nn.ConvTranspose2d(4, 8, 3, stride=2), 2, 4, 9, 9), FULL // 49 * 81),
    case("transposed-grouped", layer(lambda: nn.ConvTranspose2d(4, 8, 3, groups=2), 2, 4, 9, 9), FULL // 49 * 81 // 2),
    case("transposed-1d", layer(lambda: nn.ConvTranspose1d(4, 8, 3), 2, 4, 9), 2 * 2 * 8 * 4 * 3 * 9),
    case("vmap", _vmapped, 3 * FULL),
    case("conv_tbc", _tbc, 2 * 7 * 2 * 8 * 3 * 4, op="aten.conv_tbc.default", meta=False),
]


@pytest.mark.parametrize(("case", "device"), devices(CASES))
def test_convolutions(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_convolutions_under_inference_mode(case: Case) -> None:
    check_under_inference(case)


@pytest.mark.parametrize(
    ("input_grad", "weight_grad", "products"), [(True, True, 2), (True, False, 1), (False, True, 1)]
)
def test_only_the_gradients_asked_for(input_grad: bool, weight_grad: bool, products: int) -> None:
    x = torch.randn(2, 4, 9, 9, requires_grad=input_grad)
    w = torch.randn(8, 4, 3, 3, requires_grad=weight_grad)
    counted = count_op(lambda: F.conv2d(x, w).sum().backward())
    assert (counted.forward, counted.backward) == (FULL, products * FULL)


def test_a_bias_is_vector_work() -> None:
    conv, x = nn.Conv2d(4, 8, 3), torch.randn(2, 4, 9, 9)
    counted = count_op(lambda: conv(x).sum().backward())
    assert counted.op("aten.convolution.default").cost.vector_flops == 2 * 8 * 49
    assert counted.op("convolution_backward").cost.vector_flops == 2 * 8 * 49
    assert counted.op("convolution_backward").cost.kind is Kind.CONV


def test_strided_and_transposed_of_the_same_shapes_are_told_apart() -> None:
    """[1, 4, 9] -> [1, 4, 7] with a weight [4, 4, 3] both ways: over 7 positions, and over 9."""
    x, w = torch.randn(1, 4, 9), torch.randn(4, 4, 3)

    def both() -> None:
        assert F.conv1d(x, w).shape == F.conv_transpose1d(x, w, padding=2).shape == (1, 4, 7)

    assert count_op(both).forward == 2 * 4 * 4 * 3 * (7 + 9)


def test_a_complex_convolution_is_the_three_real_ones_that_torch_makes_of_it() -> None:
    x, w = torch.randn(2, 4, 9, 9, dtype=torch.complex64), torch.randn(8, 4, 3, 3, dtype=torch.complex64)
    counted = count_op(lambda: F.conv2d(x, w))
    assert counted.forward == 3 * FULL


def test_mobilenet_block_backward() -> None:
    """Expand 8 to 16, depthwise, project to 8, on [7, 7]: the backward is twice the forward, not times the groups."""
    block = nn.Sequential(
        nn.Conv2d(8, 16, 1, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
        nn.Conv2d(16, 8, 1, bias=False),
    )
    x = torch.randn(2, 8, 7, 7, requires_grad=True)
    counted = count_op(lambda: block(x).sum().backward())
    forward = 2 * 2 * 49 * (8 * 16 + 16 * 9 + 16 * 8)
    assert (counted.forward, counted.backward) == (forward, 2 * forward)


def test_onednn_kernels() -> None:
    x, w, b = torch.randn(2, 4, 9, 9), torch.randn(8, 2, 3, 3), torch.randn(8)
    fused = count_op(
        lambda: torch.ops.mkldnn._convolution_pointwise(x, w, b, [0, 0], [1, 1], [1, 1], 2, "relu", [], "")
    ).op("_convolution_pointwise")
    assert (fused.cost.flops, fused.cost.vector_flops) == (FULL // 2, 2 * 2 * 8 * 49)
    conv = torch.utils.mkldnn.to_mkldnn(nn.Conv2d(4, 8, 3, groups=2).eval())
    with torch.no_grad():
        counted = count_op(lambda: conv(x.to_mkldnn()).to_dense())
    assert counted.op("mkldnn_convolution").cost.flops == FULL // 2


def test_kernels_that_are_called_by_name() -> None:
    x, w, b = torch.randn(2, 4, 9, 9), torch.randn(8, 4, 3, 3), torch.randn(8)
    slow = count_op(lambda: torch.ops.aten._slow_conv2d_forward(x, w, [3, 3], b, [1, 1], [0, 0]))
    assert slow.forward == FULL
    dilated = count_op(lambda: torch.ops.aten.slow_conv_dilated2d(x, w, [3, 3], b, [1, 1], [0, 0], [2, 2]))
    assert dilated.forward == FULL // 49 * 25
    transposed = count_op(
        lambda: torch.ops.aten.slow_conv_transpose2d(x, torch.randn(4, 8, 3, 3), [3, 3], b, [1, 1], [0, 0])
    )
    assert transposed.forward == FULL // 49 * 81


def test_columns_move_and_are_summed_back() -> None:
    x = torch.randn(2, 4, 9, 9)
    assert count_op(lambda: F.unfold(x, 3)).op("im2col").cost.kind is Kind.MOVE
    columns = F.unfold(x, 3)
    folded = count_op(lambda: F.fold(columns, (9, 9), 3)).op("col2im", Phase.FORWARD).cost
    assert (folded.flops, folded.vector_flops) == (0, 2 * 36 * 49)
    pairs = columns.to(torch.complex64)
    assert count_op(lambda: F.fold(pairs, (9, 9), 3)).op("col2im").cost.vector_flops == 2 * 2 * 36 * 49
