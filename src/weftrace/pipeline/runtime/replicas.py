"""The gradients of a stage that lives on several ranks are summed: replica 0 first, then 1, and so on.

Each rank gets the gradients of the others and adds all in that order, so that every replica has the same bits, and the
same as one process that adds up each replica's micro-batches and then the replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from weftrace.errors import PipelineRunError
from weftrace.pipeline.runtime.link import Link
from weftrace.pipeline.schedule import Schedule

#: Gradients are exchanged in pieces of about this size, so that no copy of all of them is held.
PIECE_BYTES = 32 << 20

#: How much equal sums may differ, made on different processors.
_ROUNDING = 1e-9


@contextmanager
def gradients_of_this_step(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Within it, these parameters have the gradients of this step alone; what they had before is added when it ends.
    Earlier steps' gradients are summed over replicas already, and must not be again."""
    grads = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
    for parameter, _ in grads:
        parameter.grad = None
    mains = [(main, main.clone()) for p in parameters if (main := getattr(p, "main_grad", None)) is not None]
    for main, _ in mains:
        main.zero_()
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, before in grads:
                parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
            for main, before in mains:
                main.copy_(before + main)


def sum_over_replicas(parameters: Sequence[nn.Parameter], schedule: Schedule, stage: int, link: Link) -> None:
    """Give a stage's parameters the sum of the gradients that its replicas have.

    A parameter without a gradient on some of them counts as zero there; without one on all of them it keeps none. Where
    parameters have `main_grad`, that is summed. Raises `PipelineRunError` where the replicas have different parameters,
    or a connection fails.
    """
    ranks = [replica[stage] for replica in schedule.rank_of]
    doing = f"summing the gradients of stage {stage} over ranks {ranks}"
    exchange = partial(link.exchange, ranks=ranks, doing=doing)
    facts = torch.tensor([len(parameters), sum(parameter.numel() for parameter in parameters)])
    found = torch.stack(exchange(facts)).tolist()
    if any(other != found[0] for other in found):
        counts = ", ".join(f"{numbers:,} in {number:,} parameters" for number, numbers in found)
        raise PipelineRunError(f"the replicas of stage {stage} on ranks {ranks} differ: they have {counts}.")
    has = torch.tensor([grad_of(parameter) is not None for parameter in parameters], dtype=torch.uint8)
    some = torch.stack(exchange(has)).amax(0).tolist() if parameters else []
    with torch.no_grad():
        for piece in pieces_of([parameter for parameter, any_has in zip(parameters, some, strict=True) if any_has]):
            _sum(piece, exchange)


def need_alike(copies: Iterable[tuple[str, list[list[nn.Parameter]]]], link: Link) -> None:
    """Raises `PipelineRunError`, on all ranks, where the parameters of copies add up to other absolute values: they get
    equal gradients, and would stay apart. copies: the same names on all ranks; of each, those that this rank has."""
    names, here = [], []
    for name, own in copies:
        sizes = [sum(_size(parameter) for parameter in parameters) for parameters in own]
        bits = torch.tensor(sizes, dtype=torch.float64).view(torch.int64).tolist()  # in the order of the numbers
        names.append(name)
        here += [max(bits), -min(bits)] if bits else [0, -torch.iinfo(torch.int64).max]
    if not names:
        return
    _, found = link.least_and_most(here, "comparing the parameters of replicas and ties")
    pairs = torch.tensor(found).abs().view(torch.float64).view(-1, 2).tolist()
    for name, (most, least) in zip(names, pairs, strict=True):
        if most - least > _ROUNDING * most:
            raise PipelineRunError(
                f"{name} begin with different parameters: their absolute values add up to {least:.6g} and {most:.6g}. "
                "Seed all ranks alike, or load the same weights, before the first step."
            )


def _size(parameter: nn.Parameter) -> float:
    if not parameter.is_floating_point():
        return 0.0
    return float(torch.linalg.vector_norm(local(parameter.detach()), 1, dtype=torch.float64))


def parameters_by_stage(modules: Sequence[nn.Module]) -> list[list[nn.Parameter]]:
    """Each once: what stages of this rank share, as an embedding and a head whose weights are tied
    do, is the first one's, for its gradient is the sum of both stages' already."""
    first = {parameter: at for at, module in reversed([*enumerate(modules)]) for parameter in module.parameters()}
    return [
        [parameter for parameter in module.parameters() if first[parameter] == at] for at, module in enumerate(modules)
    ]


def grad_of(parameter: nn.Parameter) -> Tensor | None:
    grad: Tensor | None = getattr(parameter, "main_grad", parameter.grad)
    return grad


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of it: all, unless it is a DTensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def local_grad(parameter: nn.Parameter) -> Tensor:
    """What this rank holds of its gradient, laid out as the parameter is; zeros where it has none. To be written to."""
    grad = grad_of(parameter)
    if grad is None:
        parameter.grad = grad = torch.zeros_like(parameter)
    elif hasattr(grad, "placements") and grad.placements != parameter.placements:  # type: ignore[attr-defined]
        parameter.grad = grad = grad.redistribute(placements=parameter.placements)  # type: ignore[attr-defined]
    return local(grad)


def _sum(piece: Sequence[nn.Parameter], exchange: Callable[[Tensor], list[Tensor]]) -> None:
    """The gradients of a piece, as one tensor. Those that were there are written to, not replaced."""
    grads = [local_grad(parameter) for parameter in piece]
    total, *others = exchange(torch.cat([grad.reshape(-1) for grad in grads]))
    for other in others:
        total = total + other
    for grad, summed in zip(grads, total.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(summed.view_as(grad))


def pieces_of(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one dtype and device, up to `PIECE_BYTES`."""
    piece: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        alike = not piece or (piece[0].dtype, piece[0].device) == (parameter.dtype, parameter.device)
        num_bytes = local(parameter).nbytes
        if piece and (not alike or size + num_bytes > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(parameter)
        size += num_bytes
    if piece:
        yield piece
