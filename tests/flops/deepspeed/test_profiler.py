"""`FlopsProfiler` and `get_model_profile`: DeepSpeed's calls, weftrace's numbers, nothing left behind."""

from __future__ import annotations

import gc
import inspect
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tests.flops.deepspeed import tiny_gpt
from tests.flops.deepspeed.parse import INFERENCE, LABELS, aggregated, field, labels_in_order, modules, value
from tests.flops.deepspeed.tiny_gpt import BLOCK_MACS, GPT, MACS, ids
from weftrace.errors import FlopsError
from weftrace.flops.deepspeed.runtime.profiler import FlopsProfiler, get_model_profile


def small() -> nn.Sequential:
    """3 rows through 4 -> 8 -> 2: 3 * (4*8 + 8*2) = 144 MACs, 32 + 8 + 16 + 2 = 58 parameters."""
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def nothing_is_left() -> bool:
    tables = (hooks._global_forward_hooks, hooks._global_forward_pre_hooks, hooks._global_forward_hooks_always_called)
    return not any(tables) and _get_current_dispatch_mode() is None


# -- DeepSpeed's names, orders and defaults


def test_arguments_stand_where_deepspeed_has_them() -> None:
    def positional(function: Any) -> dict[str, Any]:
        parameters = inspect.signature(function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"}

    assert list(positional(get_model_profile)) == [
        "model",
        "input_shape",
        "args",
        "kwargs",
        "print_profile",
        "detailed",
        "module_depth",
        "top_modules",
        "warm_up",
        "as_string",
        "output_file",
        "ignore_modules",
        "mode",
    ]
    defaults = positional(get_model_profile)
    assert (defaults["print_profile"], defaults["detailed"], defaults["module_depth"]) == (True, True, -1)
    assert (defaults["top_modules"], defaults["warm_up"], defaults["as_string"], defaults["mode"]) == (
        1,
        1,
        True,
        "forward",
    )
    assert list(positional(FlopsProfiler.__init__)) == ["model", "ds_engine", "recompute_fwd_factor"]
    assert positional(FlopsProfiler.print_model_profile) == {
        "profile_step": 1,
        "module_depth": -1,
        "top_modules": 1,
        "detailed": True,
        "output_file": None,
    }
    assert positional(FlopsProfiler.print_model_aggregated_profile) == {"module_depth": -1, "top_modules": 1}
    assert positional(FlopsProfiler.start_profile) == {"ignore_list": None}


# -- get_model_profile


def test_strings(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_model_profile(small(), (3, 4)) == ("288 ", "144 MACs", "58")
    text = capsys.readouterr().out
    assert len(labels_in_order(text)) == len(INFERENCE)
    assert [row["cls"] for row in modules(text)] == ["Sequential", "Linear", "ReLU", "Linear"]
    assert list(aggregated(text)) == [0, 1]


def test_numbers_of_a_tiny_gpt() -> None:
    flops, macs, params = get_model_profile(GPT(), args=[ids()], print_profile=False, as_string=False)
    assert (flops, macs) == (2 * MACS, MACS)
    assert params == sum(p.numel() for p in GPT().parameters())


def test_on_meta_nothing_is_doubled(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.device("meta"):
        model = GPT()
    assert get_model_profile(model, args=[ids("meta")], as_string=False)[1] == MACS
    assert field(capsys.readouterr().out, "fwd latency: ") == "not measured"


@pytest.mark.parametrize("own_head", [False, True])
def test_work_of_the_roots_own_forward_counts(own_head: bool) -> None:
    assert get_model_profile(GPT(own_head), args=[ids()], print_profile=False, as_string=False)[1] == MACS


def test_keywords_only() -> None:
    got = get_model_profile(GPT(), kwargs={"ids": ids()}, print_profile=False, as_string=False)
    assert got[1] == MACS


def test_the_model_runs_as_often_as_with_deepspeed_and_is_not_left_in_eval_mode() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.calls = nn.Dropout(), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not self.training
            self.calls += 1
            return x * 2

    model = Counts()
    model.inner.eval()
    get_model_profile(model, (2,), warm_up=3, print_profile=False)
    assert model.calls == 4
    assert model.training
    assert not model.inner.training


def test_generate() -> None:
    class Generates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.f(x)
            return out

        def generate(self, x: torch.Tensor, steps: int) -> torch.Tensor:
            for _ in range(steps):
                x = self(x)
            return x

    model = Generates()
    got = get_model_profile(
        model, args=[torch.ones(2, 4)], kwargs={"steps": 3}, mode="generate", as_string=False, print_profile=False
    )
    assert got[1] == 3 * 2 * 4 * 4


def test_ignored_classes_give_their_work_to_the_module_above(capsys: pytest.CaptureFixture[str]) -> None:
    flops, _, _ = get_model_profile(small(), (3, 4), ignore_modules=[nn.Linear])
    rows = modules(capsys.readouterr().out)
    assert flops == "288 "
    assert [value(row["macs"]) for row in rows] == [144, 0, 0, 0]
    assert value(rows[1]["params"]) == 40


def test_output_goes_to_a_file_in_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a" / "b" / "flops.txt"
    get_model_profile(small(), (3, 4), output_file=str(path), layout="earlier")
    assert capsys.readouterr().out == ""
    assert "144 MACs, 100.00% MACs" in path.read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no input; give input_shape, or args and kwargs"),
        ({"input_shape": 3}, "input_shape is a tuple of sizes"),
        ({"input_shape": (3, 4), "mode": "train"}, "mode is 'forward' or 'generate', not 'train'"),
        ({"input_shape": (3, 4), "warm_up": -1}, "-1 is below 0"),
        ({"input_shape": (3, 4), "layout": "nice"}, "no layout 'nice'; choose from present, earlier"),
    ],
)
def test_mistakes(options: dict[str, Any], says: str) -> None:
    with pytest.raises(FlopsError) as error:
        get_model_profile(small(), **options)
    assert says in str(error.value)
    assert nothing_is_left()


# -- FlopsProfiler


def test_the_usual_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """Totals are asked for while counting goes on, and without stop_profile."""
    model = small()
    profiler = FlopsProfiler(model)
    for step in range(3):
        if step == 1:
            profiler.start_profile()
        loss = model(torch.ones(3, 4)).sum()
        if step == 1:
            assert profiler.get_total_flops(as_string=True) == "288 "
            assert profiler.get_total_macs() == 144
            assert profiler.get_total_params(as_string=True) == "58"
            assert 0 < profiler.get_total_duration() < 60
            profiler.print_model_profile(profile_step=step)
            profiler.end_profile()
            assert nothing_is_left()
        loss.backward()
    text = capsys.readouterr().out
    assert text.count("Profile Summary at step 1:") == 1
    assert "note: latencies were taken while counting" in text
    assert (profiler.flops, profiler.macs, profiler.params) == (288, 144, 58)


def test_several_calls_add_up_and_reset_forgets() -> None:
    model = small()
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    model(torch.ones(3, 4))
    first = profiler.get_total_duration()
    model(torch.ones(3, 4))
    assert profiler.get_total_macs() == 288
    assert profiler.get_total_duration() > first
    profiler.reset_profile()
    assert profiler.get_total_macs() == 0
    model(torch.ones(3, 4))
    assert profiler.get_total_macs() == 144
    profiler.stop_profile()
    model(torch.ones(3, 4))
    assert profiler.get_total_macs() == 144
    profiler.start_profile()
    assert profiler.get_total_macs() == 0
    profiler.end_profile()
    assert nothing_is_left()


def test_backward_and_optimizer_are_counted_where_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The first Linear needs no gradient of its input: 96 + 2 * 48 = 192 MACs, 1.33 times the forward; not 2."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    profiler.stop_profile()
    profiler.print_model_profile()
    profiler.end_profile()
    text = capsys.readouterr().out
    assert len(labels_in_order(text)) == len(LABELS)
    assert "bwd FLOPS per GPU = 1.33 * fwd flops per GPU / bwd latency: " in text
    assert field(text, "bwd flops per GPU, counted: ") == "384"


def test_an_exception_in_the_model_ends_the_profile_and_keeps_nothing() -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.f(x)
            raise ValueError("mine")

    before = F.linear, torch.matmul
    model = Breaks()
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    with pytest.raises(ValueError, match="mine"):
        model(torch.ones(2, 4))
    assert nothing_is_left()
    assert (F.linear, torch.matmul) == before
    assert profiler.get_total_macs() == 32
    profiler.end_profile()
    assert not model._forward_hooks
    with pytest.raises(ValueError, match="mine"):
        get_model_profile(model, (2, 4), print_profile=False)
    assert nothing_is_left()


def test_a_profiler_that_is_forgotten_stops() -> None:
    model = small()
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    assert not nothing_is_left()
    del profiler
    gc.collect()
    assert nothing_is_left()
    assert not model._forward_hooks


def test_before_and_after() -> None:
    profiler = FlopsProfiler(small())
    assert profiler.get_total_params() == 58
    assert profiler.get_total_flops() == 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        profiler.print_model_profile()
        profiler.print_model_aggregated_profile()
    assert len(said) == 2
    assert "belongs between start_profile() and end_profile()" in str(said[0].message)
    profiler.end_profile()
    profiler.start_profile()
    with pytest.raises(FlopsError, match="no operator ran since start_profile"):
        profiler.print_model_profile()
    profiler.end_profile()
    with pytest.raises(FlopsError, match="call start_profile"):
        profiler.report()
    with pytest.raises(FlopsError, match=r"takes a torch\.nn\.Module, not int"):
        FlopsProfiler(3)  # type: ignore[arg-type]
    with pytest.raises(FlopsError, match=r"takes a torch\.nn\.Module, not int"):
        get_model_profile(3, (2, 4))  # type: ignore[arg-type]


def test_aggregated_alone(capsys: pytest.CaptureFixture[str]) -> None:
    model = small()
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    model(torch.ones(3, 4))
    profiler.print_model_aggregated_profile(top_modules=2)
    profiler.end_profile()
    text = capsys.readouterr().out
    assert text.startswith("Top 2 modules in terms of params, MACs or fwd latency at different model depths:\ndepth 0:")
    assert aggregated(text)[1]["MACs"] == {"Linear": "144 MACs", "ReLU": "0 MACs"}


def test_the_tree_of_a_gpt(capsys: pytest.CaptureFixture[str]) -> None:
    get_model_profile(GPT(), args=[ids()], top_modules=2)
    text = capsys.readouterr().out
    rows = {(row["indent"], row["name"]): row for row in modules(text)}
    assert value(rows["    ", "0"]["macs"]) == pytest.approx(BLOCK_MACS, rel=0.01)
    head_macs = tiny_gpt.B * tiny_gpt.S * tiny_gpt.H * tiny_gpt.V
    assert value(rows["  ", "head"]["macs"]) == pytest.approx(head_macs, rel=0.01)
    assert list(aggregated(text)[1]["params"]) == ["ModuleList", "Embedding"]  # 25 K; 64 x 32 + 16 x 32
    assert list(aggregated(text)) == [0, 1, 2, 3, 4]
    assert "(attention): Attention(\n" in text


# -- an engine


def engine(**more: Any) -> SimpleNamespace:
    """What looks like a DeepSpeed engine: 8 GPUs, model parallel 2, and timers that have run."""
    elapsed = {"fwd": 5.0, "bwd": 12.0, "step": 3.0}
    return SimpleNamespace(
        world_size=8,
        dp_world_size=4,
        mp_world_size=2,
        has_moe_layers=False,
        train_micro_batch_size_per_gpu=lambda: 3,
        gradient_accumulation_steps=more.pop("accumulation", lambda: 1),
        wall_clock_breakdown=lambda: True,
        timers=lambda name: SimpleNamespace(elapsed=lambda reset: elapsed[name]),
        **more,
    )


def profiled(ds_engine: Any, model: nn.Module, capsys: pytest.CaptureFixture[str]) -> str:
    profiler = FlopsProfiler(model, ds_engine)
    profiler.start_profile()
    model(torch.ones(3, 4))
    profiler.stop_profile()
    profiler.print_model_profile()
    profiler.end_profile()
    return capsys.readouterr().out


def test_sizes_and_timers_of_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    text = profiled(engine(), small(), capsys)
    assert [field(text, label) for label in LABELS[:4]] == ["8", "4", "2", "3"]
    assert field(text, r"params of model = params per GPU \* mp_size: ") == "116"
    assert field(text, r"fwd flops of model = fwd flops per GPU \* mp_size: ") == "576"
    assert field(text, "bwd latency: ") == "12 ms"
    assert field(text, "step latency: ") == "3 ms"
    assert "= ? * fwd flops per GPU / bwd latency" in text


def test_an_engine_that_starts_from_a_hook_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSpeed's engine starts and stops in hooks of the root: work in the root's own forward must not be lost."""
    model = GPT(own_head=True)
    profiler = FlopsProfiler(model, engine())
    model.register_forward_pre_hook(lambda *_: profiler.start_profile())
    model.register_forward_hook(lambda *_: profiler.stop_profile())
    model(ids())
    profiler.print_model_profile()
    assert profiler.get_total_macs() == MACS
    assert 0 < profiler.get_total_duration() < 60
    profiler.end_profile()
    assert "never called" not in capsys.readouterr().out
    assert nothing_is_left()


def test_timers_that_sum_over_micro_batches_are_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    text = profiled(engine(accumulation=lambda: 4), small(), capsys)
    assert "bwd latency: " not in text


def test_experts_of_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """Expert parameters (40) over 4 ranks of their group: 160; the others (18) twice, as the model is split in two."""
    model = small()
    for parameter in model[0].parameters():
        parameter.group_name = "ep_size_4"  # type: ignore[attr-defined]
    moe = engine()
    moe.has_moe_layers = True
    text = profiled(moe, model, capsys)
    assert field(text, "expert tensor parallelism enabled: ") == "False"
    assert field(text, "params of model: ") == "196"
    assert field(text, "   non-expert params of model: ") == "36"
    assert field(text, "   expert params of model: ") == "160"
    assert not FlopsProfiler(model).is_expert_tensor_parallelism_enabled()
