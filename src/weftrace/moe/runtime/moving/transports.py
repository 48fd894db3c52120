"""Who carries bytes to other ranks: torch.distributed (gloo, NCCL), or copies on this device.

R ranks, E / R experts of each.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import ProfileError
from weftrace.moe.runtime.moving.exchanges import ByteExchange, Transport, Waitable
from weftrace.moe.runtime.moving.payload import Format
from weftrace.moe.runtime.moving.routes import Route, sent_by


class LocalTransport:
    """This process alone. ranks = 1: it has all experts, and nothing travels.

    ranks > 1 emulates a larger group, for one GPU: each row is copied on the stream of the communication instead of
    sent, and what comes is what was sent. So rows, bytes and products are those of one rank of a balanced group, whose
    ranks all hold the same experts; times of the copies are those of this device's memory, not of a network.
    """

    rank = 0

    def __init__(self, ranks: int = 1) -> None:
        if ranks < 1:
            raise ProfileError(f"{ranks} ranks cannot be emulated; 1 is the fewest")
        self.ranks = ranks
        self.note = "" if ranks == 1 else (
            f"all-to-all of {ranks} ranks emulated on one device: copies of the same bytes, no network"
        )  # fmt: skip

    def route(self, experts: Tensor, num_experts: int) -> Route:
        token, local, sent = sent_by(experts, num_experts, self.ranks)
        got = self._counts(sent)
        summary = torch.cat((sent[:, 0], got[:, 0], got[:, 1:].sum(0))).tolist()  # one copy to the host
        return Route(
            experts=experts, token=token, local=local, sent=summary[: self.ranks],
            received=summary[self.ranks : 2 * self.ranks], counts=summary[2 * self.ranks :],
        )  # fmt: skip

    def dispatch(self, x: Tensor, weights: Tensor | None, route: Route, kind: Format) -> ByteExchange:
        return ByteExchange(self._carry, x, weights, route, kind, True)

    def combine(self, rows: Tensor, weights: Tensor | None, route: Route, kind: Format) -> ByteExchange:
        return ByteExchange(self._carry, rows, weights, route, kind, False)

    def _counts(self, sent: Tensor) -> Tensor:
        """Rows to each rank and its experts -> rows from each rank, for the experts here; both [R, 1 + E / R]."""
        return sent.clone()

    def _carry(self, rows: Tensor, route: Route, to_experts: bool) -> tuple[Tensor, Waitable | None]:
        return rows.clone(), None


class GroupTransport(LocalTransport):
    """All-to-all of a process group: gloo on CPUs, NCCL on CUDA (written with care, and unproved: no GPU was at hand).

    A rank that is to make room for rows must know how many come: counts are exchanged first, for which the host waits,
    as it does in the published training profile.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self.ranks, self.rank, self.note = dist.get_world_size(group), dist.get_rank(group), ""

    def _counts(self, sent: Tensor) -> Tensor:
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent.contiguous(), group=self._group)
        return received

    def _carry(self, rows: Tensor, route: Route, to_experts: bool) -> tuple[Tensor, Waitable | None]:
        sent, received = (route.sent, route.received) if to_experts else (route.received, route.sent)
        came = rows.new_empty(sum(received), rows.shape[1])
        return came, dist.all_to_all_single(came, rows, received, sent, group=self._group, async_op=True)


def transport_of(group: dist.ProcessGroup | None, emulated_ranks: int = 1, *, deepep: bool = False) -> Transport:
    """Of a process group, by DeepEP or by torch's own all-to-all; or without a group of this process alone.

    Raises `ProfileError` where a group and an emulated one are both asked for, and where there is no DeepEP.
    """
    if group is None:
        if deepep:
            raise ProfileError("DeepEP moves tokens between processes: it needs a process group")
        return LocalTransport(emulated_ranks)
    if emulated_ranks != 1:
        raise ProfileError(
            f"a group of {dist.get_world_size(group)} processes and an emulated one of {emulated_ranks}: choose one"
        )
    if deepep:
        from weftrace.moe.runtime.moving.deepep import DeepEpTransport

        return DeepEpTransport(group)
    return GroupTransport(group)
