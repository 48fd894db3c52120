"""Collectives of known sizes of two gloo ranks, as torch records them: `python -m tests.trace.gloo_sizes FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path


def recorded(rank: int, folder: str) -> None:
    """Six all-reduces of 4 MB and all-gathers of 1 MB a rank."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile

    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{folder}/met")
    given, got = torch.ones(1_000_000), torch.empty(500_000)
    dist.all_reduce(given)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(6):
            dist.all_reduce(given)
            dist.all_gather_into_tensor(got, given[:250_000])
    profiler.export_chrome_trace(str(Path(folder) / f"rank{rank}.json"))
    dist.barrier()


if __name__ == "__main__":
    from torch.multiprocessing.spawn import spawn

    spawn(recorded, args=(sys.argv[1],), nprocs=2)
