"""Runs of a profile on a living set, recorded. Each function is called on all ranks, with their group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.distributed as dist

from tests.moe.runtime.small import MLA
from weftrace.capture import Schedule, record
from weftrace.errors import ProfileError
from weftrace.moe import Setting, load_overlap
from weftrace.moe.runtime import HowToRun
from weftrace.moe.runtime.processes import WARM_UP, run_in_processes

MODEL = replace(MLA, hidden_size=128)
RECORDED = 2


def captured(group: dist.ProcessGroup, folders: dict[str, list[str]]) -> list[Any]:
    """Prefill by each list, as often as it has folders: tokens/s, and what went wrong with the recording."""
    setting = Setting.of("prefill", model=MODEL, ep=dist.get_world_size(group), tokens=512, sequence=256, num_layers=3)
    summary = []
    for overlap, listed in folders.items():
        for folder in listed:
            made: list[Any] = []

            def recorder(info: Any, folder: str = folder, made: list[Any] = made) -> Any:
                made.append(record(folder, schedule=Schedule(WARM_UP + 1, 1, RECORDED), info=info))
                return made[0]

            ran = run_in_processes(
                setting, load_overlap(overlap, "prefill"), HowToRun(group=group), steps=1, recorded=1 + RECORDED,
                recorder=recorder,
            )  # fmt: skip
            summary.append([ran.tokens, ran.tokens_per_s > 0, list(made[0].result.problems)])
    return summary


def disagreeing(group: dist.ProcessGroup) -> str:
    """What is said where rank 1 was asked for a layer more, instead of both waiting for each other."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    setting = Setting.of("prefill", model=MODEL, ep=size, tokens=8, sequence=8, num_layers=1 + rank)
    try:
        run_in_processes(setting, load_overlap("none", "prefill"), HowToRun(group=group), steps=1)
    except ProfileError as error:
        return str(error)
    return ""
