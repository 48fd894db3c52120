"""The gradients of a stage that lives on several ranks are summed: replica 0 first, then 1, and so on.

Each rank gets the gradients of the others and adds all in that order, so that every replica has the same bits, and the
same as one process that adds up each replica's micro-batches and then the replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from weftrace.errors import PipelineRunError
from weftrace.pipeline.runtime.mail import Mailbox
from weftrace.pipeline.schedule import Schedule

#: Gradients are exchanged in pieces of about this size, so that no copy of all of them is held.
PIECE_BYTES = 32 << 20


def replicated_stages(schedule: Schedule, rank: int) -> list[int]:
    """Stages of a rank that other ranks hold too, in the order in which all ranks sum them."""
    if schedule.num_replicas == 1:
        return []
    return [stage for stage in range(schedule.num_stages) if rank in _holders(schedule, stage)]


def _holders(schedule: Schedule, stage: int) -> list[int]:
    """The ranks of a stage's replicas, by replica."""
    return [ranks[stage] for ranks in schedule.rank_of]


def sum_over_replicas(module: nn.Module, schedule: Schedule, stage: int, mail: Mailbox) -> None:
    """Give the module's parameters the sum of the gradients that the replicas of its stage have.

    A parameter without a gradient on some of them counts as zero there; without one on all of them it keeps none.
    Raises `PipelineRunError` where the replicas have different parameters, or a connection fails.
    """
    ranks = _holders(schedule, stage)
    doing = f"summing the gradients of stage {stage} over ranks {ranks}"
    exchange = partial(mail.exchange, ranks=ranks, what=doing)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    facts = torch.tensor([len(parameters), sum(parameter.numel() for parameter in parameters)])
    told = torch.stack(exchange(facts)).tolist()
    if any(other != told[0] for other in told):
        counts = ", ".join(f"{numbers:,} in {number:,} parameters" for number, numbers in told)
        raise PipelineRunError(f"the replicas of stage {stage} on ranks {ranks} differ: they have {counts}.")
    has = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.uint8)
    some = torch.stack(exchange(has)).amax(0).tolist() if parameters else []
    with torch.no_grad():
        for piece in _pieces([parameter for parameter, any_has in zip(parameters, some, strict=True) if any_has]):
            _sum(piece, exchange)


def _sum(piece: Sequence[nn.Parameter], exchange: Callable[[Tensor], list[Tensor]]) -> None:
    for parameter in piece:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    grads = [parameter.grad for parameter in piece if parameter.grad is not None]
    first, *others = exchange(torch.cat([grad.reshape(-1) for grad in grads]))
    total = first
    for other in others:
        total = total + other
    for grad, summed in zip(grads, total.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(summed.view_as(grad))


def _pieces(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one dtype and device, up to `PIECE_BYTES`."""
    piece: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        alike = not piece or (piece[0].dtype, piece[0].device) == (parameter.dtype, parameter.device)
        if piece and (not alike or size + parameter.nbytes > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(parameter)
        size += parameter.nbytes
    if piece:
        yield piece
