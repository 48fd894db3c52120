"""Stages and schedules of torch.distributed.pipelining, and DualPipe's interface: one process is the truth for all."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import PipelineStage

from tests.fuzz import few
from tests.living import Ranks
from tests.pipeline.runtime.door_cases import Overlapped
from weftrace.errors import ScheduleError, WeftraceError
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.notation import from_text, to_text
from weftrace.pipeline.runtime import DualPipe, PipelineRuntime, StageEngine, from_torch, to_torch, to_torch_actions

torchs: Any = pytest.importorskip("torch.distributed.pipelining.schedules")
if not hasattr(torchs, "ScheduleZBVZeroBubble"):
    pytest.skip("torch has no runtime for orders of actions before 2.6", allow_module_level=True)
CASES = "tests.pipeline.runtime.door_cases:"
#: What torch's runtime can run; it needs a micro-batch for each rank, and DualPipeV two.
FOR_TORCH = [name for name in FAMILIES if name not in ("dualpipe", "seq1f1b")]


@pytest.mark.parametrize("name", ["zbv", "dualpipev", *few([n for n in FOR_TORCH if n not in ("zbv", "dualpipev")], 0)])
@pytest.mark.parametrize("size", few((2, 4), 1))
def test_stages_run_here_and_schedules_run_there_with_the_same_bits(ranks: Ranks, name: str, size: int) -> None:
    schedule = generate(name, num_ranks=size, num_micro_batches=2 * size)
    for found in ranks.run(CASES + "as_torch_does", size, schedule=to_text(schedule)):
        assert found == {"gradients": True, "order": True}


@pytest.mark.parametrize(
    ("family", "facts"),
    [
        ("dualpipe", {"mapping": [2, 0, 3, 1], "sums": False}),
        ("dualpipev", {"recomputes": True}),
        *few([("dualpipe", {"recomputes": True}), ("dualpipev", {"mapping": [3, 1, 0, 2]})], 0),
    ],
)
def test_dualpipe_called_as_deepseeks_has_the_gradients_of_one_process(
    ranks: Ranks, family: str, facts: dict[str, Any]
) -> None:
    """An F&B runs by the class's function, also where a forward in it is split, and the other chunk recomputes."""
    for found in ranks.run(CASES + "by_dualpipe", 4, family=family, **facts):
        assert found["apart"] < 1e-14
        assert found["as its order"] or not facts.get("sums", True)
        assert found["notes"] == []


def test_torchs_schedules_are_read(alone: DeviceMesh) -> None:
    def stages(number: int) -> list[Any]:
        return [PipelineStage(nn.Linear(2, 2), stage, number, torch.device("cpu")) for stage in range(number)]

    one = stages(1)[0]
    assert from_torch(torchs.Schedule1F1B(one, 3)) == generate("1f1b", num_ranks=1, num_micro_batches=3)
    assert from_torch(torchs.ScheduleGPipe(one, 3)) == generate("gpipe", num_ranks=1, num_micro_batches=3)
    read = from_torch(torchs.ScheduleZBVZeroBubble(stages(2), 4))
    assert (read, read.name) == (generate("zbv", num_ranks=1, num_micro_batches=4), "ScheduleZBVZeroBubble")
    assert from_torch(to_torch_actions(read), name="again") == read
    with pytest.raises(ScheduleError, match="_PipelineScheduleRuntime holds no order of actions: give a schedule of"):
        from_torch(torchs._PipelineScheduleRuntime(stages(2), 4))
    with pytest.raises(ScheduleError, match="str holds no order"):
        from_torch("1F1B")


def test_what_does_not_fit_is_refused_with_the_reason(alone: DeviceMesh) -> None:
    schedule = from_text("rank 0: 0F0 1F0 1B0 0B0")
    cpu = torch.device("cpu")

    def stage(number: int, of: int = 2, **facts: Any) -> PipelineStage:
        return PipelineStage(nn.Linear(2, 2), number, of, cpu, **facts)

    def runs(*stages: Any, **facts: Any) -> Callable[[], object]:
        return lambda: PipelineRuntime(schedule, list(stages), loss=nn.functional.mse_loss, **facts)

    traced = SimpleNamespace(submod=nn.Linear(2, 2), stage_index=0, num_stages=2, pipe_info=None)
    other_group = stage(1)
    other_group.group = torch.distributed.new_group([0])
    said: dict[str, Callable[[], object]] = {
        "Linear is neither": runs(nn.Linear(2, 2)),
        "stage 0 is one of 3; 'schedule' has 2": runs(stage(0, 3), stage(1)),
        "stage 1 is given twice": runs(stage(1), stage(1)),
        r"holds stages \[0, 1\] in schedule 'schedule', and was given \[0\]": runs(stage(0)),
        "stage 0 is traced by .* its values may skip stages": runs(traced),
        "stage 1 has a dw_builder": runs(stage(0), stage(1, dw_builder=lambda: lambda: None)),
        "made with different groups": runs(stage(0), other_group),
        r"mesh of 2 dimensions, \['data', 'pipeline'\]: give the one": runs(
            stage(0), stage(1),
            group=init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "pipeline")),
        ),
        "each stage is on 2 ranks": lambda: to_torch(generate("dualpipe", num_ranks=2, num_micro_batches=4), []),
        "0B0 on rank 0 comes before 0F0": lambda: to_torch_actions(from_text("rank 0: 0B0 0F0")),
        r"with stages \[0, 1\] on rank 0; given are stages \[0\]": lambda: to_torch(schedule, [stage(0)]),
        "takes two modules per rank; 1": lambda: DualPipe([nn.Linear(2, 2)], sums_replicas=True),
        r"rank_mapping = \[1\]": lambda: DualPipe([nn.Linear(2, 2)] * 2, rank_mapping=[1], sums_replicas=True),
    }  # fmt: skip
    for pattern, does in said.items():
        with pytest.raises(WeftraceError, match=pattern):
            does()


def test_an_overlap_that_cannot_be_called_so_is_f_then_b() -> None:
    """Inputs by keyword; a backward whose forward was run for I and W; and a function that returns something else."""
    torch.manual_seed(0)
    module = Overlapped().double()
    x = torch.randn(3, 8, dtype=torch.float64)
    engine = StageEngine(module, 0)
    for inputs, split in (({"x": x}, False), ((x,), True)):
        Overlapped.calls, module.up.weight.grad = 0, None
        out = engine.forward(0, inputs, split=split)
        engine.forward_backward(1, inputs, 0, torch.ones_like(out), split=split)
        engine.backward(1, torch.ones_like(out))
        assert Overlapped.calls == 0 and module.up.weight.grad is not None
    out = engine.forward(0, x, split=False)
    assert torch.equal(engine.forward_backward(1, (x,), 0, torch.ones_like(out), split=False)[0], out)
    assert Overlapped.calls == 1

    class Odd(Overlapped):
        @classmethod
        def overlapped_forward_backward(cls, module0: Any, inputs0: Any, *rest: Any) -> Any:
            return module0(*inputs0)

    engine = StageEngine(Odd().double(), 0)
    out = engine.forward(0, (x,), split=False)
    with pytest.raises(ScheduleError, match=r"Odd.overlapped_forward_backward returns \(outputs, loss\), not"):
        engine.forward_backward(1, (x,), 0, torch.ones_like(out), split=False)
