"""int8, fp8 and packed weights: as many multiply-adds as the dense product, in their own type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.nn.quantized.dynamic as nnqd
import torch.nn.functional as F
from torch import nn

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Kind, Status

FP8 = torch.float8_e4m3fn
BF16 = torch.bfloat16


def fp8(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(FP8)


def _scaled_v1() -> torch.Tensor:
    one = torch.ones(())
    return torch._scaled_mm(fp8(16, 32), fp8(48, 32).t(), one, one, out_dtype=BF16)


def _scaled_v2() -> torch.Tensor:
    one, tensorwise = torch.ones(()), F.ScalingType.TensorWise
    return F.scaled_mm(fp8(16, 32), fp8(48, 32).t(), one, tensorwise, one, tensorwise, output_dtype=BF16)


def _int4() -> torch.Tensor:
    packed = torch._convert_weight_to_int4pack_for_cpu(torch.randint(0, 15, (32, 64), dtype=torch.int32), 1)
    return torch._weight_int4pack_mm_for_cpu(
        torch.randn(4, 64, dtype=BF16), packed, 32, torch.ones(2, 32, 2, dtype=BF16)
    )


def _int8_weight() -> torch.Tensor:
    weight, scales = torch.ones(16, 32, dtype=torch.int8), torch.ones(16, dtype=BF16)
    return torch._weight_int8pack_mm(torch.randn(4, 32, dtype=BF16), weight, scales)


def _int_mm() -> torch.Tensor:
    return torch._int_mm(torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 24, dtype=torch.int8))


CASES: list[tuple[str, Callable[[], Any], int, str]] = [
    ("aten._int_mm.default", _int_mm, 2 * 32 * 16 * 24, "int8"),
    ("aten._scaled_mm.default", _scaled_v1, 2 * 16 * 32 * 48, "fp8"),
    ("aten._scaled_mm_v2.default", _scaled_v2, 2 * 16 * 32 * 48, "fp8"),
    ("aten._weight_int8pack_mm.default", _int8_weight, 2 * 4 * 32 * 16, "bf16"),
    ("aten._weight_int4pack_mm_for_cpu.default", _int4, 2 * 4 * 64 * 32, "bf16"),
]


@pytest.mark.parametrize(("name", "code", "flops", "dtype"), CASES, ids=[case[0] for case in CASES])
def test_products(name: str, code: Callable[[], Any], flops: int, dtype: str) -> None:
    torch.manual_seed(0)
    plain = code()
    torch.manual_seed(0)
    counted = count_op(code)
    cost = counted.op(name).cost
    assert (cost.flops, cost.dtype, cost.status, cost.kind) == (flops, dtype, Status.EXACT, Kind.MATMUL)
    assert torch.equal(counted.out, plain)
    assert counted.failures == {}


@pytest.mark.parametrize("name", ["aten._int_mm.default", "aten._scaled_mm.default"])
def test_on_meta(name: str) -> None:
    dtype = torch.int8 if "int" in name else FP8
    a, b = torch.empty(32, 16, dtype=dtype, device="meta"), torch.empty(48, 16, dtype=dtype, device="meta").t()
    one = torch.ones((), device="meta")
    run = {"aten._int_mm.default": lambda: torch._int_mm(a, b), "aten._scaled_mm.default": lambda: torch._scaled_mm(
        a, b, one, one, out_dtype=BF16)}[name]  # fmt: skip
    assert count_op(run).op(name).cost.flops == 2 * 32 * 16 * 48


def test_scaled_bias_is_vector_work() -> None:
    one = torch.ones(())
    bias = torch.randn(48, dtype=BF16)
    code = lambda: torch._scaled_mm(fp8(16, 32), fp8(48, 32).t(), one, one, bias=bias, out_dtype=BF16)  # noqa: E731
    assert count_op(code).op("_scaled_mm").cost.vector_flops == 16 * 48


def test_dynamic_linear() -> None:
    model = nnqd.Linear(8, 16)
    x = torch.randn(2, 3, 8)
    plain, counted = model(x), count_op(lambda: model(x))
    cost = counted.op("quantized.linear_dynamic").cost
    assert (cost.flops, cost.dtype) == (2 * 6 * 8 * 16, "int8")
    assert cost.read_bytes == 4 * 48 + 8 * 16  # a byte for each packed weight
    assert torch.equal(counted.out, plain)


@pytest.mark.parametrize("bits", [torch.qint8, torch.float16])
def test_a_model_quantised_dynamically(bits: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    packed = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=bits)
    counted = count_op(lambda: packed(torch.randn(2, 8)))
    assert counted.forward == 2 * 2 * (8 * 16 + 16 * 4)
    assert counted.failures == {}


def test_quantised_linear_and_convolutions() -> None:
    """The kernel's size is asked of the packed weights: two layers of the same shapes are told apart by it."""
    x = torch.quantize_per_tensor(torch.randn(2, 8), 0.1, 0, torch.quint8)
    linear = nnq.Linear(8, 16)
    assert count_op(lambda: linear(x)).op("quantized.linear").cost.flops == 2 * 2 * 8 * 16
    image = torch.quantize_per_tensor(torch.randn(2, 4, 9, 9), 0.1, 0, torch.quint8)
    conv, wide = nnq.Conv2d(4, 8, 3, padding=1), nnq.Conv2d(4, 8, 5, padding=2)
    grouped, transposed = nnq.Conv2d(4, 8, 3, groups=2), nnq.ConvTranspose2d(4, 8, 3)
    assert count_op(lambda: (conv(image), wide(image))).forward == 2 * 2 * 8 * 81 * 4 * (9 + 25)
    assert count_op(lambda: grouped(image)).forward == 2 * 2 * 8 * 49 * 2 * 9
    cost = count_op(lambda: transposed(image)).op("conv_transpose2d").cost
    assert (cost.flops, cost.kind, cost.dtype) == (2 * 2 * 4 * 81 * 8 * 9, Kind.CONV, "int8")


def test_packing_moves_bytes_and_a_sum_is_elementwise() -> None:
    weight = torch.quantize_per_tensor(torch.randn(16, 8), 0.1, 0, torch.qint8)
    packing = count_op(lambda: torch.ops.quantized.linear_prepack(weight, None)).op("linear_prepack").cost
    assert (packing.kind, packing.vector_flops) == (Kind.MOVE, 0)
    x = torch.quantize_per_tensor(torch.randn(2, 8), 0.1, 0, torch.quint8)
    assert count_op(lambda: torch.ops.quantized.add(x, x, 0.1, 0)).op("quantized.add").cost.vector_flops == 16
    assert count_op(lambda: torch.ops.quantized.add_relu(x, x, 0.1, 0)).op("add_relu").cost.vector_flops == 32


def test_scaled_grouped_products_count_like_plain_ones() -> None:
    """No CPU kernel: the formula is asked with tensors on meta, fp4 with two numbers in each byte."""
    from weftrace.flops.runtime.formulas.live_call import LiveCall
    from weftrace.flops.runtime.formulas.operators import operator, rule_of

    op = operator("aten::_scaled_grouped_mm")
    assert op is not None
    found = rule_of(op)
    assert found is not None
    offs = torch.empty(2, dtype=torch.int32, device="meta")
    scale, out = torch.empty(16, device="meta"), torch.empty(16, 64, dtype=BF16, device="meta")
    a, b = torch.empty(16, 32, dtype=FP8, device="meta"), torch.empty(2, 32, 64, dtype=FP8, device="meta")
    cost = found.formula(LiveCall(op, (a, b, scale, scale, offs), {}, out))
    assert (cost.flops, cost.dtype, cost.status) == (2 * 16 * 32 * 64, "fp8", Status.ESTIMATE)
    fp4 = torch.float4_e2m1fn_x2
    a4, b4 = torch.empty(16, 32, dtype=fp4, device="meta"), torch.empty(2, 32, 64, dtype=fp4, device="meta")
    assert found.formula(LiveCall(op, (a4, b4, scale, scale, offs), {}, out)).flops == 2 * 16 * 64 * 64
