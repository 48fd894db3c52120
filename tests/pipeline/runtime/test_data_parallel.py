"""Stages of DDP and fully_shard in pipelines side by side: gradients are those of one process over the whole batch."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.living import Ranks
from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.notation import from_text, to_text, to_torch_csv
from weftrace.pipeline.range_names import REDUCE
from weftrace.pipeline.runtime import PipelineRuntime, PipelineState
from weftrace.pipeline.runtime.shards import need_mean_over_parts, shard_groups

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
    for found in ranks.run(CASES + "trains", 4, kind="mlp" if how == "hsdp" else "transformer", **facts):
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


@pytest.mark.parametrize("name", ["zb1p", "dualpipe"])
def test_tensor_parallel_stages(ranks: Ranks, name: str) -> None:
    schedule = to_text(generate(name, num_ranks=2, num_micro_batches=4))
    for found in ranks.run(CASES + "tensor_parallel", 4, schedule=schedule):
        assert found["apart"] < 1e-15 and found["norm"] < 1e-12
        assert not any("leaves nothing to W" in note for note in found["notes"])


def facts_of(name: str, num_ranks: int, how: str) -> tuple[str, str, int]:
    schedule = generate(name, num_ranks=num_ranks, num_micro_batches=2 * num_ranks)
    return to_text(schedule), how, 4 // num_ranks


@pytest.mark.parametrize(
    ("name", "num_ranks", "how", "share"),
    [
        ("1f1b", 2, "fsdp", False), ("1f1b", 4, "plain", False), ("dualpipe", 4, "plain", True),
        ("dualpipe", 2, "ddp", False), ("zbv", 2, "ddp", True),
    ],
)  # fmt: skip
def test_tied_parameters_and_those_of_a_loss_learn_and_count_once(
    ranks: Ranks, name: str, num_ranks: int, how: str, share: bool
) -> None:
    """Gradients after clipping, and norms of three kinds, beside a model in which both ends are one parameter."""
    schedule, how, num_pipelines = facts_of(name, num_ranks, how)
    facts = {"schedule": schedule, "how": how, "num_pipelines": num_pipelines, "share": share}
    for found in ranks.run(CASES + "ties_and_norms", 4, **facts):
        assert found["apart"] < 1e-15 and found["norms"] < 1e-12
        assert found["after"] == pytest.approx(0.1, rel=1e-4)


def test_a_part_that_one_rank_leaves_unused_counts_and_is_saved(ranks: Ranks, tmp_path: Path) -> None:
    """The first rank's gradients are six ones; nobody waits for the other's, which has none. fully_shard over ranks
    with other parts would mix them."""
    for found in ranks.run(CASES + "with_an_unused_part", 2, folder=str(tmp_path)):
        assert found["norm"] == pytest.approx(6**0.5)
        assert found["save"] == found["load"]
        assert "fully_shard takes all parts for one: call it with ignored_params" in found["refused"]


# --- what is refused before anything runs -----------------------------------------------------------------------------


def runtime_of(*stages: nn.Module, tied: Sequence[dict[int, str]] = ()) -> PipelineRuntime:
    schedule = from_text(f"replica 0: {'0 ' * len(stages)}\nrank 0: " + " ".join(f"{s}F0" for s in range(len(stages)))
                         + " " + " ".join(f"{s}B0" for s in reversed(range(len(stages)))))  # fmt: skip
    return PipelineRuntime(schedule, dict(enumerate(stages)), loss=torch.sum, tied=tied)


def test_a_gradient_of_a_parameter_frozen_since_counts_and_is_clipped_as_in_torch() -> None:
    model = nn.Linear(2, 2)
    schedule = from_text("rank 0: 0F0 0B0")
    pipeline = PipelineRuntime(schedule, {0: model}, loss=lambda output, target: (output - target).square().sum())
    pipeline.step([torch.ones(3, 2)], [torch.zeros(3, 2)])
    model.weight.requires_grad_(False)
    before = [each.grad.clone() for each in model.parameters() if each.grad is not None]
    want = torch.nn.utils.get_total_norm(before)
    assert float(pipeline.grad_norm()) == pytest.approx(float(want), rel=1e-6)
    pipeline.clip_grad_norm(0.5)
    asked = nn.ParameterList(before)
    for parameter, grad in zip(asked, before, strict=True):
        parameter.grad = grad
    torch.nn.utils.clip_grad_norm_(asked, 0.5)
    assert all(torch.allclose(a.grad, b.grad) for a, b in zip(model.parameters(), asked, strict=True))  # type: ignore[arg-type]


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
    pipeline = runtime_of(DistributedDataParallel(plain))
    with pytest.raises(ScheduleError, match="two parameters of rank 0 would be saved as 'one'"):
        PipelineState(pipeline, name=lambda stage, name: "one")
    expert = nn.Linear(2, 2)
    expert.weight.allreduce = False  # type: ignore[attr-defined]
    with pytest.raises(ScheduleError, match="parameter weight has allreduce = False"):
        runtime_of(expert).grad_norm()
    expert.shard_groups = {"weight": alone.get_group()}  # type: ignore[assignment]
    runtime_of(expert).grad_norm()
    with pytest.raises(ScheduleError, match=r"DDP takes it for a copy of rank 0's: name it to .*_buffers_to_ignore"):
        runtime_of(DistributedDataParallel(expert))
    with pytest.raises(ScheduleError, match=r"ranks \[0\] hold them, but gradients are the mean over ranks \[0, 1\]"):
        need_mean_over_parts(shard_groups([expert]), (), [0, 1])
    runtime_of(nn.Sequential(sharded, nn.Tanh()))
    runtime_of(sharded).forward([torch.ones(2)])
    sharded(torch.ones(2)).sum().backward()  # outside of the pipeline, backwards reduce as ever
    assert isinstance(sharded.weight.grad, DTensor)
    late = runtime_of(plain)
    fully_shard(plain, mesh=alone)
    with pytest.raises(ScheduleError, match="stage 0: fully_shard was called after PipelineRuntime was made"):
        late.step([torch.ones(2)])


@pytest.mark.parametrize(
    ("tied", "why"),
    [
        ([{0: "weight"}], "two stages or more, from 0 to 1"),
        ([{0: "weight", 2: "weight"}], "two stages or more, from 0 to 1"),
        ([{0: "weight", 1: "weights"}], "has no attribute `weights`"),
        ([{0: "weight", 1: "weight"}, {0: "weight", 1: "bias"}], "one parameter is named twice"),
        ([{0: "weight", 1: "bias"}], r"stage 0's weight = stage 1's bias differ in shape"),
    ],
)
def test_ties_that_cannot_be(tied: list[dict[int, str]], why: str) -> None:
    with pytest.raises((ScheduleError, PipelineRunError), match=why):
        runtime_of(nn.Linear(2, 2), nn.Linear(2, 2), tied=tied)


def test_copies_that_begin_apart_are_told_before_the_first_step(ranks: Ranks) -> None:
    """Values may be loaded after the pipeline is made."""
    pipeline = runtime_of(nn.Linear(2, 2), nn.Linear(2, 2), tied=[{0: "weight", 1: "weight"}])
    pipeline.modules[0].weight.data.fill_(0.25)  # type: ignore[operator]
    pipeline.modules[1].weight.data.fill_(0.5)  # type: ignore[operator]
    with pytest.raises(PipelineRunError, match=r"stage 0's weight = stage 1's weight begin .* add up to 1 and 2"):
        pipeline.step([torch.ones(2)])
    schedule = to_text(generate("dualpipe", num_ranks=2, num_micro_batches=4))
    told = ranks.run(CASES + "replicas_apart", 2, schedule=schedule)
    assert all("replicas of stage 0 begin with different parameters" in each for each in told)


def test_a_failed_step_leaves_nothing_in_sharded_stages(alone: DeviceMesh) -> None:
    """Gradients of gathered parameters are out of reach for zero_grad()."""
    schedule = from_text("replica 0: 0\nrank 0: 0F0 0I0 0W0 0F1 0I1 0W1")
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    sharded = copy.deepcopy(plain)
    for part in (sharded[0], sharded):
        fully_shard(part, mesh=alone, reshard_after_forward=False)
    x = torch.randn(2, 3, dtype=torch.float64)
    seen = []

    def loss(out: torch.Tensor, target: None) -> torch.Tensor:
        seen.append(out)
        if len(seen) == 2:
            raise ValueError("a number that is none")
        return out.square().sum()

    with pytest.raises(PipelineRunError, match=r"failed at 0F1.*a number that is none"):
        PipelineRuntime(schedule, {0: sharded}, loss=loss).step([x, x])
    sharded.zero_grad()
    PipelineRuntime(schedule, {0: sharded}, loss=loss).step([x, 2 * x])
    for each in (x, 2 * x):
        plain(each).square().sum().backward()
    for mine, theirs in zip(sharded.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine.grad.full_tensor(), theirs.grad)  # type: ignore[union-attr, arg-type]


def test_gradients_are_added_up_in_the_dtype_in_which_they_are_reduced(alone: DeviceMesh) -> None:
    """bfloat16 parameters, float32 gradients: the bits of torch's own accumulation, though all W come last."""
    turns = " ".join(f"0{kind}{number}" for kind in "FIW" for number in range(8))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    torch.manual_seed(0)
    mine = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    theirs = copy.deepcopy(mine)
    x = list(torch.randn(8, 5, 3))
    for module in (mine, theirs):
        fully_shard(module, mesh=alone, mp_policy=policy)
    square = partial(torch.nn.functional.mse_loss, target=torch.zeros(5, 2))
    pipeline = PipelineRuntime(
        from_text(f"replica 0: 0\nrank 0: {turns}"), {0: mine}, loss=lambda out, _: square(out.float())
    )
    pipeline.step(x)
    for number, each in enumerate(x):
        theirs.set_requires_gradient_sync(number == 7)  # type: ignore[operator]
        square(theirs(each).float()).backward()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert a.grad is not None and torch.equal(a.grad.full_tensor(), b.grad.full_tensor())  # type: ignore[union-attr, attr-defined]


def test_a_trace_shows_a_stage_reduced_behind_the_backwards_of_others(ranks: Ranks, tmp_path: Path) -> None:
    """Rank 1 gives its part of stage 1's sum when rank 0 is through with stage 0, which therefore waits for none."""
    ranks.run(CASES + "reduces_behind_backwards", 2, folder=str(tmp_path))
    events = json.loads((tmp_path / "rank0.json").read_text())["traceEvents"]
    names = [e["name"] for e in sorted((e for e in events if e.get("ph") == "X"), key=lambda e: float(e["ts"]))]
    found = [name for name in names if name in ("1I0", "1W0", "0I0", "0W0", REDUCE)]
    assert found == ["1I0", "1W0", REDUCE, "0I0", "0W0", REDUCE, REDUCE]
    assert names.count("gloo:all_reduce") == 2
