"""Phases of modules on which fully_shard was called: gathered around each module's phases, in its precision."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tests.fuzz import thorough_case
from tests.living import Ranks
from tests.pipeline.runtime.models import WIDTH, Phased
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.notation import from_text, to_text
from weftrace.pipeline.runtime import PipelineRuntime

CASES = "tests.pipeline.runtime.data_parallel_cases:"
#: An F&B of one stage with itself, then W apart.
TURNS = "replica 0: 0\nrank 0: 0F0 0F1&0B0 0F2 0I1 0I2 0W1 0W2"


def sharded(module: Phased, mesh: DeviceMesh, **how: Any) -> Phased:
    for part in (*module.blocks.parts, module.first, module):
        fully_shard(part, mesh=mesh, **how)
    return module


def square(out: Tensor, target: None) -> Tensor:
    return out.float().square().mean()


@pytest.mark.parametrize(
    ("name", "how"), [("dualpipe", "fsdp"), thorough_case("dualpipev", "fsdp kept"), thorough_case("zbv", "hsdp")]
)
def test_f_and_b_of_sharded_stages_alternate_and_have_the_gradients_of_one_process(
    ranks: Ranks, name: str, how: str
) -> None:
    facts = {"schedule": to_text(generate(name, num_ranks=2, num_micro_batches=4)), "how": how, "num_pipelines": 2}
    for found in ranks.run(CASES + "trains", 4, kind="phased", **facts):
        assert found["none"] == 0 and found["apart"] < 1e-15
        assert found["notes"] == []


def test_each_module_is_gathered_for_its_own_phases_alone(alone: DeviceMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """The F of one micro-batch and the B of another are in the same stage at once: who ends first lets nothing go."""
    torch.manual_seed(0)
    plain = Phased()
    module = sharded(copy.deepcopy(plain), alone, reshard_after_forward=True)
    blocks = list(module.blocks.parts)
    seen: list[tuple[bool, ...]] = []
    for block in blocks:
        for layer in (block.get_submodule("norm"), block.get_submodule("gate")):
            layer.register_forward_hook(lambda *_: seen.append(tuple(map(is_gathered, blocks))))
            layer.register_full_backward_hook(lambda *_: seen.append(tuple(map(is_gathered, blocks))))
    pipeline = PipelineRuntime(from_text(TURNS), {0: module}, loss=square)
    xs = list(torch.randn(3, 2, 6, WIDTH))
    pipeline.step(xs)
    assert {(True, False), (False, True), (True, True)} == set(seen)  # both: in the F&B
    assert not any(is_gathered(block) for block in blocks) and pipeline.notes == ()
    for x in xs:
        square(plain(x), None).backward()
    same_gradients(module, plain)


def is_gathered(module: Any) -> bool:
    return not hasattr(module.up, "placements")


def same_gradients(mine: Phased, theirs: Phased) -> None:
    for (name, a), b in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        one, other = (g.full_tensor() if hasattr(g, "full_tensor") else g for g in (a.grad, b.grad))
        assert torch.equal(one, other), name


@pytest.mark.parametrize("output", [None, torch.float32])
def test_phases_run_in_the_precision_of_their_module(alone: DeviceMesh, output: torch.dtype | None) -> None:
    """bfloat16 parameters and float32 sums: the bits of the modules when they are called, without a pipeline."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=output)
    torch.manual_seed(0)
    mine, theirs = Phased(), Phased()
    theirs.load_state_dict(mine.state_dict())
    for module in (mine, theirs):
        sharded(module, alone, mp_policy=policy)
    xs = list(torch.randn(3, 2, 6, WIDTH))
    outputs = PipelineRuntime(from_text(TURNS), {0: mine}, loss=square).step(xs).outputs
    assert {each.dtype for each in outputs.values()} == {output or torch.bfloat16}
    for number, x in enumerate(xs):
        theirs.set_requires_gradient_sync(number == 2)  # type: ignore[operator]
        square(theirs(x), None).backward()
    same_gradients(mine, theirs)


def test_sharded_phases_learn_outside_of_pipelines_too(alone: DeviceMesh) -> None:
    """Their blocks are not called there either."""
    torch.manual_seed(0)
    plain = Phased()
    module = sharded(copy.deepcopy(plain), alone)
    x = torch.randn(2, 6, WIDTH)
    for each in (plain, module):
        square(each(x), None).backward()
    same_gradients(module, plain)
    with torch.no_grad():
        assert torch.equal(module(x), plain(x))
