"""What one rank does, and what all do: tensor parallel, FSDP2, DDP on a process group that pretends to communicate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from weftrace.flops import FlopsReport, Kind, Parallel, Phase, count, profile, totals
from weftrace.flops.derived.account import account_of
from weftrace.flops.document import flops_document, report_of
from weftrace.flops.render.facts import remarks_of

WORLD = 4


@pytest.fixture(autouse=True)
def fake_world() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
    yield
    dist.destroy_process_group()


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


ONE = 2 * 8 * 64 * 256  # 8 rows through one of the two linears
STEP = 2 * ONE + 3 * ONE  # forward; backward without the gradient of the input


def flops(report: FlopsReport, *, of_all: bool = False) -> int:
    return sum(row.calls * row.cost.flops for row in (report.global_ops if of_all else report.ops))


def tensor_parallel(device: str = "cpu") -> nn.Module:
    mesh = init_device_mesh("cpu", (WORLD,))
    model = FeedForward()
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model.to(device)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tensor_parallel_does_a_quarter_on_each_of_four(device: str) -> None:
    model, x = tensor_parallel(device), torch.randn(8, 64, device=device)
    for _ in range(2):  # torch works out shapes at the first call only, with operators that do no work
        report = count(model, x, backward=True)
        assert flops(report) == STEP // WORLD
        assert flops(report, of_all=True) == STEP
    local, whole = (sum(getattr(m, name) for m in report.modules) for name in ("own_params", "own_global_params"))
    assert whole == 64 * 256 * 2 + 256 + 64
    assert local == (64 * 256 * 2 + 256) // WORLD + 64  # the bias of `down` is on each rank


class Mixing(nn.Module):
    """Rows are mixed between two sharded layers, on local outputs: each rank has a quarter of the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(x)
        return self.down(x @ x.T @ y)


def test_global_totals_with_local_outputs_are_called_partial() -> None:
    model = Mixing()
    parallelize_module(model, init_device_mesh("cpu", (WORLD,)), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    report = count(model, torch.randn(8, 64))
    same, mixed = 2 * 8 * 64 * 8, 2 * 8 * 8 * 256  # x x' is the same on all ranks; of the second each has a quarter
    found = totals(report, "global")
    assert found.flops == 2 * ONE + same + mixed // WORLD
    share = (same + mixed // WORLD) / found.flops
    assert f"partial: {100 * share:.1f} % of the model FLOPs" in found.partial
    assert totals(report).partial == ""
    again = report_of(flops_document(report))
    assert again == report and totals(again, "global").partial == found.partial
    assert found.partial in dict(remarks_of(account_of(report)))["What is missing"]


def test_global_totals_of_whole_matrix_work_are_partial_in_vector_work_alone() -> None:
    found = totals(count(tensor_parallel(), torch.randn(8, 64)), "global")
    assert found.flops == 2 * ONE
    assert "of the vector FLOPs" in found.partial and "model FLOPs" not in found.partial  # relu, on local outputs


def test_global_totals_without_plain_work_are_whole() -> None:
    mesh = init_device_mesh("cpu", (WORLD,))
    linear = parallelize_module(nn.Linear(64, 256), mesh, ColwiseParallel(use_local_output=False))
    assert totals(count(linear, torch.randn(8, 64)), "global").partial == ""
    assert totals(count(FeedForward(), torch.randn(8, 64)), "global").partial == ""


def test_tensor_parallel_counts_by_module_and_names_what_is_sent() -> None:
    report = count(tensor_parallel(), torch.randn(8, 64), backward=True)
    by_place = {
        (report.modules[row.module].path, row.phase): row.calls * row.cost.flops for row in report.ops if row.cost.flops
    }
    assert by_place["up", Phase.FORWARD] == ONE // WORLD
    assert {row.op for row in report.ops if row.cost.kind is Kind.COMM} == {"_c10d_functional.all_reduce.default"}


def test_fsdp2_does_its_own_batch_and_holds_a_quarter_of_the_parameters() -> None:
    model = FeedForward()
    fully_shard(model, mesh=init_device_mesh("cpu", (WORLD,)))
    report = count(model, torch.randn(8, 64), backward=True)
    assert flops(report) == STEP
    assert sum(m.own_params for m in report.modules) == (64 * 256 * 2 + 256 + 64) // WORLD
    assert sum(m.own_global_params for m in report.modules) == 64 * 256 * 2 + 256 + 64


def _as_it_is(bucket: Any) -> Any:
    ready: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    ready.set_result(bucket.buffer())
    return ready


def test_ddp_does_its_own_batch() -> None:
    model = DistributedDataParallel(FeedForward())
    # On its own, DDP stops at what the pretended all-reduce returns, with or without weftrace.
    model.register_comm_hook(None, lambda _, bucket: _as_it_is(bucket))
    report = count(model, torch.randn(8, 64), backward=True)
    assert flops(report) == STEP
    assert sum(m.own_params for m in report.modules) == 64 * 256 * 2 + 256 + 64
    assert report.global_ops == ()


def test_sharded_optimizer_steps_on_its_shard() -> None:
    model = tensor_parallel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(model, time=False) as run:
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
    report = run.report()

    def updated(of_all: bool) -> int:
        rows = report.global_ops if of_all else report.ops
        return sum(row.calls * row.cost.vector_flops for row in rows if row.phase is Phase.OPTIMIZER)

    local = sum(p.to_local().numel() if isinstance(p, DTensor) else p.numel() for p in model.parameters())
    assert updated(False) > 0
    assert updated(False) % local == 0  # so many FLOPs for each element of the shard
    assert updated(True) == updated(False) // local * sum(p.numel() for p in model.parameters())


def test_all_ranks_of_a_mesh_of_replicas_and_shards() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = FeedForward()
    parallelize_module(model, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    with profile(model, time=False, parallel=Parallel(data=2, tensor=2)) as run:
        model(torch.randn(8, 64)).sum().backward()
    report = run.report()
    assert totals(report).flops == STEP // 2
    assert totals(report, "global").flops == 2 * STEP  # each replica has a batch of its own
    alone = FeedForward()
    with profile(alone, time=False, parallel=Parallel(data=2)) as run:
        alone(torch.randn(8, 64)).sum().backward()
    assert totals(run.report(), "global").flops == 2 * STEP
