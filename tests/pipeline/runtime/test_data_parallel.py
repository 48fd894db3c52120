"""Stages of DDP and fully_shard in pipelines side by side: gradients are those of one process over the whole batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.living import Ranks
from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.notation import to_text, to_torch_csv
from weftrace.pipeline.runtime import PipelineRuntime

CASES = "tests.pipeline.runtime.data_parallel_cases:"
HOWS = ("ddp", "fsdp", "hsdp", "fsdp kept")
#: Each family with one way in turn; ZB1P and DualPipe with those whose gradients were wrong before.
SAMPLE = [("zb1p", "fsdp"), ("dualpipe", "ddp"), *((name, HOWS[at % 4]) for at, name in enumerate(FAMILIES))]
ALL = [(name, how) for name in FAMILIES for how in HOWS if (name, how) not in SAMPLE]


@pytest.mark.parametrize(("name", "how"), [*SAMPLE, *(pytest.param(*each, marks=pytest.mark.thorough) for each in ALL)])
def test_gradients_are_those_of_one_process_over_the_whole_batch(ranks: Ranks, name: str, how: str) -> None:
    """Bit by bit, except where two replicas are averaged one by one, and then summed."""
    schedule = generate(name, num_ranks=2, num_micro_batches=2 if name == "seq1f1b" else 4)
    facts = {"schedule": to_text(schedule), "how": how, "num_pipelines": 2}
    for kind in ("mlp", "transformer")[: 1 if how == "hsdp" else 2]:
        for found in ranks.run(CASES + "trains", 4, kind=kind, **facts):
            assert found["none"] == 0 and found["apart"] < 1e-15
            assert found["same"] or schedule.num_replicas > 1
            assert not any("leaves nothing to W" in note for note in found["notes"])


def test_four_ranks_whose_stages_are_sharded(ranks: Ranks) -> None:
    schedule = generate("zbv", num_ranks=4, num_micro_batches=4)
    facts = {"schedule": to_text(schedule), "how": "fsdp", "num_pipelines": 1}
    assert all(found["same"] for found in ranks.run(CASES + "trains", 4, kind="transformer", **facts))


@pytest.mark.parametrize(("name", "how"), [("interleaved", "ddp"), ("zb1p", "fsdp"), ("zbv", "fsdp kept")])
def test_gradients_are_those_of_torchs_runtime_too(ranks: Ranks, name: str, how: str, tmp_path: Path) -> None:
    schedule = generate(name, num_ranks=2, num_micro_batches=4)
    (tmp_path / "schedule.csv").write_text(to_torch_csv(schedule))
    facts = {"schedule": to_text(schedule), "csv": str(tmp_path / "schedule.csv"), "how": how}
    assert max(ranks.run(CASES + "as_torch_does", 4, **facts)) < 1e-15


# --- what is refused before anything runs -----------------------------------------------------------------------------


def runtime_of(stage: nn.Module) -> PipelineRuntime:
    return PipelineRuntime(generate("1f1b", num_ranks=1, num_micro_batches=1), {0: stage}, loss=torch.sum)


def test_what_cannot_be_reduced_as_torch_would_is_refused(alone: DeviceMesh) -> None:
    plain = nn.Linear(2, 2)
    hooked = DistributedDataParallel(nn.Linear(2, 2))
    hooked.register_comm_hook(None, fp16_compress_hook)
    composed, sharded = nn.Linear(2, 2), nn.Linear(2, 2)
    fully_shard(sharded, mesh=alone)
    replicate(composed)
    for stage, why in (
        (nn.Sequential(DistributedDataParallel(plain)), "its module 0 is a DistributedDataParallel.*wrap the whole"),
        (FullyShardedDataParallel(nn.Linear(2, 2), device_id=torch.device("cpu")), "is a FullyShardedDataParallel"),
        (composed, r"went through replicate\(\)"),
        (hooked, "cannot run DDP with a communication hook"),
        (DistributedDataParallel(nn.Sequential(DistributedDataParallel(plain))), "stage 0, inside DDP"),
        (nn.Sequential(sharded, nn.Linear(2, 2)), r"its parameter 1.weight is outside of all modules"),
    ):
        with pytest.raises(ScheduleError, match=why):
            runtime_of(stage)
    runtime_of(DistributedDataParallel(plain))
    runtime_of(nn.Sequential(sharded, nn.Tanh()))
