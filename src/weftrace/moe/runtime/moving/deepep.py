"""The door to DeepEP, where it is installed: its normal kernels, through the interface of its first version (`Buffer`).

Unproved: no GPU was at hand, and only what is handed over and taken back is tested, against a stand-in.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import ProfileError
from weftrace.moe.runtime.layers.streams import used_here
from weftrace.moe.runtime.moving.exchanges import Moved
from weftrace.moe.runtime.moving.payload import BLOCK, Format, from_fp8, to_fp8
from weftrace.moe.runtime.moving.routes import Route

#: Bytes of DeepEP's buffers for NVLink and, where a group is larger than a node, for RDMA.
BUFFER_BYTES = 1 << 30
GPUS_PER_NODE = 8


class DeepEpTransport:
    """DeepEP's dispatch (rows in FP8 or BF16) and combine (in BF16, whatever the payload is said to be)."""

    note = "tokens moved by DeepEP"

    def __init__(self, group: dist.ProcessGroup) -> None:
        """Raises `ProfileError` without DeepEP."""
        try:
            module = import_module("deep_ep")
        except ImportError as missing:
            raise ProfileError(f"DeepEP cannot be imported ({missing}); without it NCCL's all-to-all runs") from missing
        self.ranks, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.buffer = module.Buffer(group, BUFFER_BYTES, BUFFER_BYTES if self.ranks > GPUS_PER_NODE else 0)

    def route(self, experts: Tensor, num_experts: int) -> Route:
        """Who sends how much is told by DeepEP's first dispatch."""
        none: list[int] = []
        layout = self.buffer.get_dispatch_layout(experts, num_experts)
        return Route(
            experts=experts, token=experts, local=experts, sent=none, received=none, counts=none,
            of_transport={"layout": layout[:4]},
        )  # fmt: skip

    def dispatch(self, x: Tensor, weights: Tensor | None, route: Route, kind: Format) -> DeepEpExchange:
        return DeepEpExchange(self.buffer, x, weights, route, kind, True)

    def combine(self, rows: Tensor, weights: Tensor | None, route: Route, kind: Format) -> DeepEpExchange:
        return DeepEpExchange(self.buffer, rows, weights, route, kind, False)


class DeepEpExchange:
    """One call of DeepEP."""

    def __init__(
        self, buffer: Any, rows: Tensor, weights: Tensor | None, route: Route, kind: Format, to_experts: bool
    ) -> None:
        self._buffer, self._weights, self._route, self._to_experts = buffer, weights, route, to_experts
        self._dtype = rows.dtype
        self._event: Any = None
        self._rows: Any = to_fp8(rows) if to_experts and kind == "fp8" else rows.to(torch.bfloat16)
        self._came: Any = None
        self._moved: Moved | None = None

    @property
    def received(self) -> bool:
        return self._moved is not None

    @torch.no_grad()
    def post(self) -> None:
        known, weights = self._route.of_transport, self._weights
        weights = None if weights is None else weights.float()
        if not self._to_experts:
            rows, weights, self._event = self._buffer.combine(
                self._rows, known["handle"], topk_weights=weights, async_finish=True
            )
        elif "handle" in known:
            rows, *_, self._event = self._buffer.dispatch(self._rows, handle=known["handle"], async_finish=True)
        else:
            per_rank, per_node, per_expert, in_rank = known["layout"]
            rows, local, weights, counts, known["handle"], self._event = self._buffer.dispatch(
                self._rows, topk_idx=self._route.experts, topk_weights=weights, num_tokens_per_rank=per_rank,
                num_tokens_per_rdma_rank=per_node, num_tokens_per_expert=per_expert, is_token_in_rank=in_rank,
                async_finish=True,
            )  # fmt: skip
            known["local"], self._route.counts = local, counts
        self._came = rows, weights

    @torch.no_grad()
    def receive(self) -> Moved:
        if self._moved is None:
            if self._event is None:
                self.post()
            self._event.current_stream_wait()
            if self._route.order is None:
                self._route.arrived(self._route.of_transport["local"])
            rows, weights = self._came
            rows = from_fp8(rows[0], rows[1], self._dtype) if isinstance(rows, tuple) else rows.to(self._dtype)
            self._moved = rows, None if weights is None else weights.to(self._dtype)
            self._rows = self._came = None
        used_here(*self._moved)
        return self._moved


assert BLOCK == 128, "DeepEP's FP8 rows have a scale for each 128 numbers"
