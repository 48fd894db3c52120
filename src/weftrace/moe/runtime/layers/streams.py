"""What must be told to CUDA's allocator where a tensor passes from one stream to another."""

from __future__ import annotations

import torch
from torch import Tensor


def used_here(*tensors: Tensor | None) -> None:
    """The current stream works on these: their memory is not to be given away before it is done. CPU: nothing."""
    for tensor in tensors:
        if tensor is not None and tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream())
