"""Before ranks rely on each other they agree, by a small reduction: on the schedule, the kind of step, and shapes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import torch
import torch.distributed as dist

from weftrace.errors import PipelineRunError
from weftrace.pipeline.notation import to_text
from weftrace.pipeline.schedule import Schedule


def same_schedule(schedule: Schedule, group: dist.ProcessGroup | None, device: torch.device) -> None:
    """Raises `PipelineRunError` on all ranks where they were given different ones."""
    number = zlib.crc32(to_text(schedule).encode())
    least, most = _range([number], group, device)
    if least != most:
        raise PipelineRunError(f"the ranks were given different schedules; this one has {schedule.name!r}.")


def any_changed(
    changed: bool, kind: str, kinds: Iterable[str], group: dist.ProcessGroup | None, device: torch.device
) -> bool:
    """Whether some rank says that shapes changed. Raises `PipelineRunError` where ranks run different kinds of step."""
    least, most = _range([[*kinds].index(kind), int(changed)], group, device)
    if least[0] != most[0]:
        raise PipelineRunError(f"this rank called {kind}() while another called something else: call the same on all.")
    return bool(most[1])


def _range(numbers: list[int], group: dist.ProcessGroup | None, device: torch.device) -> tuple[list[int], list[int]]:
    """The least and the greatest of each number over all ranks."""
    if group is None:
        return numbers, numbers
    both = torch.tensor([numbers, [-number for number in numbers]], dtype=torch.int64, device=device)
    dist.all_reduce(both, dist.ReduceOp.MAX, group)
    most, least = both.tolist()
    return [-number for number in least], most
