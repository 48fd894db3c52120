"""The door to DeepEP, where it is installed: its normal kernels, through the interface of its first version (`Buffer`).

Unproved: no GPU was at hand, and only the order of rows is tested, against a stand-in. Each row is handed over as a
token with one expert, because the layers want every expert's answer by itself, for the gradients of the weights. So a
token travels once for each of its experts, where DeepEP can send it once to each rank: more bytes, the same kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import ProfileError
from weftrace.moe.runtime.moving.routes import Route
from weftrace.moe.runtime.moving.transports import GroupTransport, Waitable

#: Bytes of DeepEP's buffers for NVLink and, where a group is larger than a node, for RDMA.
BUFFER_BYTES = 1 << 30
GPUS_PER_NODE = 8


class DeepEpTransport(GroupTransport):
    """DeepEP's dispatch and combine. Rows must be made of 2-byte numbers that add up: BF16, or bytes in dispatch."""

    def __init__(self, group: dist.ProcessGroup, buffer: Any = None) -> None:
        """buffer: a `deep_ep.Buffer`; None: one of `BUFFER_BYTES`. Raises `ProfileError` without DeepEP."""
        super().__init__(group)
        if buffer is None:
            try:
                module = import_module("deep_ep")
            except ImportError as missing:
                raise ProfileError(
                    f"DeepEP cannot be imported ({missing}); without it NCCL's all-to-all runs"
                ) from missing
            buffer = module.Buffer(group, BUFFER_BYTES, BUFFER_BYTES if self.ranks > GPUS_PER_NODE else 0)
        self._buffer = buffer
        self.note = "tokens moved by DeepEP, one row for each expert of a token"

    def start(self, rows: Tensor, route: Route, to_experts: bool) -> tuple[Tensor, Waitable | None]:
        if rows.shape[1] % 16:
            raise ProfileError(f"DeepEP moves rows of a multiple of 16 bytes, and these have {rows.shape[1]}")
        numbers = rows.view(torch.bfloat16)
        if to_experts:
            return self._to_experts(numbers, route)
        arrival = route.of_transport["arrival"]  # place of each arrived row among those sorted by expert
        sorted_rows = numbers[route.by_expert]
        back, _, event = self._buffer.combine(sorted_rows[arrival], route.of_transport["handle"], async_finish=True)
        return back.view(torch.uint8), _Event(event)

    def _to_experts(self, numbers: Tensor, route: Route) -> tuple[Tensor, Waitable | None]:
        known = route.of_transport
        if "handle" in known:
            came, *_, event = self._buffer.dispatch(numbers, handle=known["handle"], async_finish=True)
        else:
            experts = route.expert[:, None]
            num_experts = len(route.counts) * self.ranks
            per_rank, per_node, per_expert, in_rank, _ = self._buffer.get_dispatch_layout(experts, num_experts)
            came, expert, _, _, known["handle"], event = self._buffer.dispatch(
                numbers, topk_idx=experts, topk_weights=torch.ones_like(experts, dtype=torch.float32),
                num_tokens_per_rank=per_rank, num_tokens_per_rdma_rank=per_node, num_tokens_per_expert=per_expert,
                is_token_in_rank=in_rank, async_finish=True,
            )  # fmt: skip
            event.current_stream_wait()  # the order of the rows is read
            by_expert = expert[:, 0].argsort(stable=True)
            known["by expert"] = by_expert
            known["arrival"] = torch.empty_like(by_expert).scatter_(
                0, by_expert, torch.arange(len(by_expert), device=by_expert.device)
            )
        event.current_stream_wait()
        # By expert, and then as `Route` has received rows: by rank.
        return came[known["by expert"]][route.back].view(torch.uint8), None


class _Event:
    def __init__(self, event: Any) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.current_stream_wait()
