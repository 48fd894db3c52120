"""Who carries bytes to other ranks: torch.distributed (gloo, NCCL), or copies on this device.

R ranks, E / R experts of each.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import ProfileError


class Waitable(Protocol):
    def wait(self) -> object: ...


class Transport(Protocol):
    """ranks, rank: of the group. note: what to know about its times; "" where nothing."""

    ranks: int
    rank: int
    note: str

    def counts(self, sent: Tensor) -> Tensor:
        """Rows to each expert of each rank [R, E / R] -> rows from each rank for each expert here [R, E / R]."""
        ...

    def start(self, rows: Tensor, sent: list[int], received: list[int]) -> tuple[Tensor, Waitable | None]:
        """Sends rows [N, b], ordered by rank. What comes, so ordered, is there when the second was waited for."""
        ...


class GroupTransport:
    """All-to-all of a process group: gloo on CPUs, NCCL on CUDA (written with care, and unproved: no GPU was at hand).

    Who sends more than expected must say so before: the counts are exchanged first, for which the host waits, as it
    does in the published training profile.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self.ranks, self.rank, self.note = dist.get_world_size(group), dist.get_rank(group), ""

    def counts(self, sent: Tensor) -> Tensor:
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent.contiguous(), group=self._group)
        return received

    def start(self, rows: Tensor, sent: list[int], received: list[int]) -> tuple[Tensor, Waitable | None]:
        came = rows.new_empty(sum(received), rows.shape[1])
        work = dist.all_to_all_single(came, rows, received, sent, group=self._group, async_op=True)
        return came, work


class LocalTransport:
    """This process alone. ranks = 1: it has all experts, and nothing travels.

    ranks > 1 emulates a larger group, for one GPU: each row is copied on the stream of the communication instead of
    sent, and what comes is what was sent. So rows, bytes and products are those of one rank of a balanced group, whose
    ranks all hold the same experts; times of the copies are those of this device's memory, not of a network.
    """

    def __init__(self, ranks: int = 1) -> None:
        if ranks < 1:
            raise ProfileError(f"{ranks} ranks cannot be emulated; 1 is the fewest")
        self.ranks, self.rank = ranks, 0
        self.note = "" if ranks == 1 else (
            f"all-to-all of {ranks} ranks emulated on one device: copies of the same bytes, no network"
        )  # fmt: skip

    def counts(self, sent: Tensor) -> Tensor:
        return sent.clone()

    def start(self, rows: Tensor, sent: list[int], received: list[int]) -> tuple[Tensor, Waitable | None]:
        return rows.clone(), None


def transport_of(group: dist.ProcessGroup | None, emulated_ranks: int = 1) -> Transport:
    """Of a process group, or without one of this process alone. Raises `ProfileError` where both are asked for."""
    if group is None:
        return LocalTransport(emulated_ranks)
    if emulated_ranks != 1:
        raise ProfileError(
            f"a group of {dist.get_world_size(group)} processes and an emulated one of {emulated_ranks}: choose one"
        )
    return GroupTransport(group)
