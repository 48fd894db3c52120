"""Changes tried on the file of a simulated program, against the same program simulated without the cause."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from tests.causes.planted import Item, LoaderInline, run
from tests.causes.programs import Plant, Run, Setting
from tests.causes.recorder import Recording, save
from tests.causes.simulator import World
from weftrace.advice.changes import Change, NoBlocking, Scale
from weftrace.advice.selecting import selected
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan.inference.inferring import infer
from weftrace.trace import Trace, open_trace


class FreeItem(Item):
    """tensor.item() that takes as long on the host and waits for nothing."""

    def after_op(self, run: Run, number: int) -> None:
        with patch.object(run.world, "ready", lambda _: 0), patch.object(run.main, "wait_until", lambda _: None):
            super().after_op(run, number)


def saved(world: World, without: World) -> float:
    return (world.span_ns() - without.span_ns()) / world.span_ns()


def answered(world: World, folder: Path, change: Change) -> float:
    path = folder / "run.json.gz"
    save(world, Recording(stacks=True, steps=True), path)
    trace = open_trace(path, frames=True)
    assert isinstance(trace, Trace)
    answer = what_if(infer(trace), [change])
    return (answer.replay.replayed_ns - answer.after_ns) / answer.replay.replayed_ns


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
@pytest.mark.parametrize(
    ("plant", "without", "change"),
    [
        (Item(0.3), FreeItem(0.3), NoBlocking(pattern="aten::item")),
        (LoaderInline(3_000), Plant(), Scale(selector=r"host:enumerate\(DataLoader\)", factor=0)),
        (LoaderInline(3_000), Plant(), Scale(selector=r"host:dataloader.py\(733\)", factor=0)),
    ],
    ids=["item", "loader", "loader's frame"],
)
def test_what_a_change_saves_is_what_the_program_without_the_cause_saves(
    plant: Plant, without: Plant, change: Change, vendor: str, tmp_path: Path
) -> None:
    setting = Setting(vendor=vendor, num_steps=4, layers=2, stacks=True)
    world, healthy = run(setting, plant), run(setting, without)
    gain = saved(world, healthy)
    assert gain > 0.05
    assert answered(world, tmp_path, change) == pytest.approx(gain, abs=0.01)


def test_modules_and_functions_name_what_was_launched_in_them(tmp_path: Path) -> None:
    world = run(Setting(num_steps=2, layers=2, stacks=True, training=False), Plant())
    save(world, Recording(stacks=True, steps=True), tmp_path / "run.json.gz")
    trace = open_trace(tmp_path / "run.json.gz", frames=True)
    assert isinstance(trace, Trace)
    inferred = infer(trace)
    flash = selected(inferred, "kernel:flash_fwd")
    assert flash.sum() == 4
    for selector in ("module:Attention", r"frame:model.py\(58\): forward", "operator:flash_attention_forward"):
        assert (selected(inferred, selector) == flash).all(), selector
    second = selected(inferred, r"module:Transformer_0\.Block_1\.Attention")
    assert second.sum() == 2 and (flash | ~second).all()
    unread = open_trace(tmp_path / "run.json.gz")
    assert isinstance(unread, Trace)
    for selector in ("module:Attention", "frame:forward"):
        with pytest.raises(AdviceError, match="frames=True"):
            selected(infer(unread), selector)
