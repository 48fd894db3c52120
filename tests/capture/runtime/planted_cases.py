"""Runs on a living set in which rank 1 is slow, recorded. Each function is called on both ranks, with their group."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

STEPS, PAUSE_S = 4, 0.03


class Images(Dataset[torch.Tensor]):
    """Eight a step, which take so long each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __len__(self) -> int:
        return 8 * STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        decodes_an_image(self._seconds)
        return torch.ones(16)


def decodes_an_image(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def polls_a_server() -> None:
    time.sleep(PAUSE_S)


def collects(objects: list[list[int]]) -> None:
    gc.collect()
    del objects


def trains_with_one_slow(group: dist.ProcessGroup, planted: str, folder: str) -> str:
    """The file of this rank. planted: what rank 1 does before each step: sleep, loader or collection."""
    rank = dist.get_rank(group)
    model, slow = torch.nn.Linear(16, 16), rank == 1
    batches = iter(DataLoader(Images(PAUSE_S / 8 if slow and planted == "loader" else 0), batch_size=8))
    objects = [[number] for number in range(1_000_000)] if slow and planted == "collection" else []
    asked = _ExperimentalConfig(record_python_gc_info=True)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=asked) as profiler:
        for _ in range(STEPS):
            batch = next(batches)
            if slow and planted == "sleep":
                polls_a_server()
            if slow and planted == "collection":
                collects(objects)
            model(batch).sum().backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                dist.all_reduce(parameter.grad, group=group)
            profiler.step()
    path = Path(folder) / f"rank{rank}.json"
    profiler.export_chrome_trace(str(path))
    return str(path)
