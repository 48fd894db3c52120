"""What a rank sends and receives by its process group, and what it says when that fails.

Where something fails here, nothing that the error's traceback holds may keep the group open: others wait until the
connections of this rank close.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import PipelineRunError
from weftrace.pipeline.runtime.failures import FirstFailure, is_of_connection, reason_of

#: isend or irecv, a tensor, and the rank to or from which it goes.
Call = tuple[Any, Tensor, int]


@dataclass(slots=True)
class Link:
    """A rank's connections. group: of the pipeline's ranks; None where there is one rank, and after `close`.

    device: on which tensors travel. first_failure: of all ranks, as far as one told it.
    """

    rank: int
    group: dist.ProcessGroup | None
    device: torch.device
    first_failure: FirstFailure = field(default_factory=FirstFailure)

    def begin(self, calls: Sequence[Call], doing: str) -> list[Any]:
        """Begin these, as one batch: the works to be finished. doing: what to say of it where it fails."""
        return self._begun(partial(_issued, calls), doing) if calls else []

    def finish(self, works: list[Any], doing: str) -> None:
        """Wait until they are done; the list is empty then."""
        try:
            while works:
                works[0].wait()
                del works[0]
        except RuntimeError as error:
            works.clear()
            raise self._lost(doing, error) from error

    def exchange(self, mine: Tensor, ranks: Sequence[int], doing: str) -> list[Tensor]:
        """Each of these ranks gives a tensor of one shape and dtype; each gets all, in the order of the ranks."""
        mine = mine.to(self.device)
        found = [mine if rank == self.rank else torch.empty_like(mine) for rank in ranks]
        calls = [
            (call, tensor, rank)
            for rank, theirs in zip(ranks, found, strict=True)
            if rank != self.rank
            for call, tensor in ((dist.isend, mine), (dist.irecv, theirs))
        ]
        self.finish(self.begin(calls, doing), doing)
        return found

    def least_and_most(self, numbers: Sequence[int], doing: str) -> tuple[list[int], list[int]]:
        """Of each number, over all ranks."""
        if self.group is None:
            return [*numbers], [*numbers]
        both = torch.tensor([numbers, [-number for number in numbers]], dtype=torch.int64, device=self.device)
        most, least = self.reduced(both, dist.ReduceOp.MAX, doing).tolist()
        return [-number for number in least], most

    def reduced(self, tensor: Tensor, how: Any, doing: str) -> Tensor:
        """The tensor reduced over all ranks: how, by a `ReduceOp`."""
        if self.group is not None:
            works = self._begun(lambda group: [dist.all_reduce(tensor, how, group, async_op=True)], doing)
            self.finish(works, doing)
        return tensor

    def close(self) -> None:
        """Let the group go."""
        self.group = None

    def _begun(self, begin: Callable[[dist.ProcessGroup], list[Any]], doing: str) -> list[Any]:
        assert self.group is not None
        try:
            return begin(self.group)
        except RuntimeError as error:
            traceback.clear_frames(error.__traceback__)
            raise self._lost(doing, error) from error

    def because(self, error: BaseException) -> str:
        """What another rank told of its failure, where this error only tells that it is gone; else empty."""
        return self.first_failure.told() if is_of_connection(error) else ""

    def _lost(self, doing: str, error: RuntimeError) -> PipelineRunError:
        if not is_of_connection(error):
            return PipelineRunError(f"rank {self.rank} failed while {doing}: {reason_of(error)}")
        stopped = f"rank {self.rank} stopped while {doing}: "
        if told := self.because(error):
            return PipelineRunError(stopped + told)
        return PipelineRunError(
            f"{stopped}the connection failed. Another rank has ended or failed; if it failed, it says why. "
            f"({reason_of(error)})"
        )


def _issued(calls: Sequence[Call], group: dist.ProcessGroup) -> list[Any]:
    return dist.batch_isend_irecv(
        [dist.P2POp(call, tensor, dist.get_global_rank(group, rank), group) for call, tensor, rank in calls]
    )
