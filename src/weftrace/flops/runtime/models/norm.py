"""RMS norm, as one operator wherever an accelerator would run it as one."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
