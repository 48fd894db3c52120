"""Linear layers in BF16 or FP8, the gated MLP made of them, and the RMS norm between: what decoders are made of."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Fp8Linear(nn.Module):
    """y = x w' with w in FP8 (e4m3, 1 byte a parameter), x cast to it row by row; the result in x's dtype.

    Forward alone. x [..., in_features]. Scales: one a row of x and one a row of w, FP32. DeepSeek-V3 has one for 128
    elements of a row and for 128 x 128 of w; the products are the same, and so are the bytes but for the scales.
    """

    def __init__(self, in_features: int, out_features: int, **where: Any) -> None:
        super().__init__()
        where = {**where, "dtype": torch.float8_e4m3fn}
        self.in_features, self.out_features = in_features, out_features
        weight = torch.zeros(out_features, in_features, **where)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.scale: Tensor
        self.register_buffer("scale", torch.ones(1, out_features, device=where.get("device")), persistent=False)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, fp8"

    def forward(self, x: Tensor) -> Tensor:
        rows, scales = to_fp8(x.reshape(-1, self.in_features))
        scale: Tensor = self.scale
        out = torch._scaled_mm(rows, self.weight.t(), scales, scale, out_dtype=torch.bfloat16)
        return out.view(*x.shape[:-1], self.out_features)


def to_fp8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """rows [n, k] -> FP8 (e4m3) rows and what to multiply them with again, [n, 1] FP32."""
    scales = rows.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448.0  # the largest e4m3
    return (rows / scales).to(torch.float8_e4m3fn), scales


def linear(in_features: int, out_features: int, *, fp8: bool = False, **where: Any) -> nn.Module:
    """A linear layer without bias. where: device, dtype."""
    return (
        Fp8Linear(in_features, out_features, **where) if fp8 else nn.Linear(in_features, out_features, False, **where)
    )


class GatedMlp(nn.Module):
    """down(silu(gate(x)) * up(x)) (SwiGLU, arXiv:2002.05202): 6 h i FLOPs a token."""

    def __init__(self, hidden: int, intermediate: int, *, fp8: bool = False, **where: Any) -> None:
        super().__init__()
        self.gate_proj = linear(hidden, intermediate, fp8=fp8, **where)
        self.up_proj = linear(hidden, intermediate, fp8=fp8, **where)
        self.down_proj = linear(intermediate, hidden, fp8=fp8, **where)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class RmsNorm(nn.RMSNorm):
    """x / rms(x) * weight over the last dimension (arXiv:1910.07467).

    On a meta device torch takes it apart into elementwise operators in FP32, as on a CPU; accelerators have one kernel,
    which is called by name there where this torch has it.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.is_meta and hasattr(torch.ops.aten, "_fused_rms_norm"):
            out: Tensor = torch.ops.aten._fused_rms_norm(x, list(self.normalized_shape), self.weight, self.eps)[0]
            return out
        return super().forward(x)
