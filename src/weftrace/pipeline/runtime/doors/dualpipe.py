"""`DualPipe` and `DualPipeV` with the constructor and `step` of DeepSeek's classes, on any device and backend.

Their interface is that of https://github.com/deepseek-ai/DualPipe (`dualpipe/dualpipe.py`, `dualpipe/dualpipev.py`).
Shapes need not be set beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn

from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.schedule import Schedule

Criterion = Callable[..., Tensor]


class _Both(nn.Module):
    """A rank's two modules, run by a family with two of them on each rank."""

    _family: str

    def __init__(
        self, modules: Sequence[nn.Module], batch_dim: int, process_group: dist.ProcessGroup | None,
        rank_mapping: Sequence[int] | None, *, sums_replicas: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module = nn.ModuleList(modules)
        if len(self.module) != 2:
            raise ScheduleError(f"{type(self).__name__} takes two modules per rank; {len(self.module)} are given.")
        self.batch_dim = batch_dim
        self._group = process_group
        self._num_ranks = dist.get_world_size(process_group)
        self._ranks = [*range(self._num_ranks)] if rank_mapping is None else [*rank_mapping]
        if sorted(self._ranks) != [*range(self._num_ranks)]:
            raise ScheduleError(f"rank_mapping = {self._ranks}; it gives each of {self._num_ranks} ranks a place.")
        self._sums_replicas = sums_replicas
        self._runtime: PipelineRuntime | None = None
        self._criterion: Criterion | None = None

    def forward(self, *inputs: Tensor | None, **facts: Any) -> Any:
        """As `step`."""
        return self.step(*inputs, **facts)

    def step(
        self, *inputs: Tensor | None, num_chunks: int = 0, criterion: Criterion | None = None,
        labels: Sequence[Tensor | None] = (), return_outputs: bool = False,
    ) -> tuple[Tensor | None, Any]:  # fmt: skip
        """A training step; within `torch.no_grad()` a forward.

        inputs: of the first stage, where this rank holds it, for all of its micro-batches. num_chunks: micro-batches of
        the step, the same on all ranks. criterion: called as `criterion(*outputs, *labels)`; needed, with its labels,
        where this rank holds the last stage. Both are cut along `batch_dim`.

        Returns (losses by micro-batch, outputs joined): None where the rank has none, or did not ask.
        Raises `ScheduleError` for a number of micro-batches with which the schedule is impossible, and where inputs or
        labels cannot be cut in so many.
        """
        runtime = self._runtime_of(num_chunks)
        self._criterion = criterion
        trains = torch.is_grad_enabled()
        first, last = runtime.input_micro_batches, runtime.target_micro_batches
        if last and trains and criterion is None:
            raise ScheduleError("a rank that holds the last stage needs criterion=... to train.")
        given = dict(zip(first, self._cut(inputs, len(first), "input"), strict=True))
        targets = dict(zip(last, self._cut(labels, len(last), "label"), strict=True))
        runtime.keep_outputs = return_outputs or not trains
        result = runtime.step(given, targets) if trains else runtime.forward(given)
        losses = result.losses
        if not trains and criterion is not None:
            losses = {number: self._loss(result.outputs[number], targets[number]) for number in last}
        loss = torch.stack([losses[number] for number in last]) if losses else None
        return loss, self._joined([result.outputs[number] for number in last]) if return_outputs and last else None

    def _stages(self, place: int) -> tuple[int, int]:
        """Of the two modules of the rank at this place of the pipeline."""
        raise NotImplementedError

    def _runtime_of(self, num_chunks: int) -> PipelineRuntime:
        if self._runtime is None or self._runtime.schedule.num_micro_batches != num_chunks:
            schedule = _with_ranks(
                generate(self._family, num_ranks=self._num_ranks, num_micro_batches=num_chunks), self._ranks
            )
            stages = self._stages(self._ranks[dist.get_rank(self._group)])
            self._runtime = PipelineRuntime(
                schedule, dict(zip(stages, self.module, strict=True)), loss=self._loss, group=self._group,
                sums_replicas=self._sums_replicas,
            )  # fmt: skip
        return self._runtime

    def _loss(self, outputs: Any, labels: tuple[Any, ...]) -> Tensor:
        assert self._criterion is not None
        return self._criterion(*_listed(outputs), *labels)

    def _cut(self, values: Sequence[Tensor | None], number: int, what: str) -> list[tuple[Any, ...]]:
        """For each of so many micro-batches its part of each value."""
        parts = [[None] * number if v is None or not number else v.chunk(number, self.batch_dim) for v in values]
        if odd := [len(part) for part in parts if len(part) != number]:
            raise ScheduleError(f"an {what} of this rank can be cut in {odd[0]}, not in {number} micro-batches.")
        return list(zip(*parts, strict=True)) if parts else [()] * number

    def _joined(self, outputs: list[Any]) -> Any:
        joined = [torch.cat(parts, self.batch_dim) for parts in zip(*map(_listed, outputs), strict=True)]
        return joined[0] if len(joined) == 1 else joined


class DualPipe(_Both):
    """DeepSeek's bidirectional pipeline. An even number of ranks; rank r gives the modules of stages r and D - 1 - r.

    batch_dim: along which inputs and labels are cut. process_group: of the pipeline's ranks, None for all.
    rank_mapping: the place in the pipeline of each rank of the group. sums_replicas: each stage is on two ranks. True
    sums the gradients of both copies at the end of a step; False leaves that to you, as DeepSeek's class does.

    The first rank's inputs have their labels, losses and outputs on the last rank, and the other way round. Where both
    modules are of one class that has `overlapped_forward_backward`, a forward and a backward run by it.
    Raises `ScheduleError` for other than two modules, and for a mapping that is no permutation.
    """

    _family = "dualpipe"

    def __init__(
        self, modules: Sequence[nn.Module], batch_dim: int = 0, process_group: dist.ProcessGroup | None = None,
        rank_mapping: Sequence[int] | None = None, *, sums_replicas: bool,
    ) -> None:  # fmt: skip
        super().__init__(modules, batch_dim, process_group, rank_mapping, sums_replicas=sums_replicas)

    def _stages(self, place: int) -> tuple[int, int]:
        return place, self._num_ranks - 1 - place


class DualPipeV(_Both):
    """DualPipe folded into a V: rank r gives the modules of stages r and 2 D - 1 - r, and no stage is held twice. The
    first rank has inputs, labels, losses and outputs. Parameters and errors as of `DualPipe`."""

    _family = "dualpipev"

    def __init__(
        self, modules: Sequence[nn.Module], batch_dim: int = 0, process_group: dist.ProcessGroup | None = None,
        rank_mapping: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(modules, batch_dim, process_group, rank_mapping, sums_replicas=True)

    def _stages(self, place: int) -> tuple[int, int]:
        return place, 2 * self._num_ranks - 1 - place


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _with_ranks(schedule: Schedule, place_of_rank: list[int]) -> Schedule:
    """The schedule with its ranks renamed: what rank place_of_rank[r] did is done by r."""
    rank_of_place = {place: rank for rank, place in enumerate(place_of_rank)}
    ranks = pl.col("rank").replace_strict(rank_of_place, return_dtype=pl.Int32)
    return Schedule(
        name=schedule.name,
        rank_of=tuple(tuple(rank_of_place[place] for place in places) for places in schedule.rank_of),
        num_micro_batches=schedule.num_micro_batches,
        actions=schedule.actions.with_columns(ranks),
    )
