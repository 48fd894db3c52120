"""Programs of many kinds are counted right, or said to be unknown; none fails that does not fail alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, jvp, vmap

from weftrace.flops import FlopsReport, Phase, Status, count, profile

LINEAR = 2 * 4 * 8 * 8  # 4 rows through 8 x 8


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def phases(report: FlopsReport) -> tuple[int, int]:
    """Executed FLOPs forward and backward; nothing may be unknown."""
    assert [row.op for row in report.ops if row.cost.status is Status.UNKNOWN] == []
    by_phase = dict.fromkeys(Phase, 0)
    for row in report.ops:
        by_phase[row.phase] += row.calls * row.cost.executed_flops
    return by_phase[Phase.FORWARD], by_phase[Phase.BACKWARD]


class PerRow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return vmap(lambda row: self.weight @ row)(x)


class GradientsOfSamples(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def loss(parameters: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
            return functional_call(self.linear, parameters, (row,)).sum()

        return vmap(grad(loss), in_dims=(None, 0))(dict(self.linear.named_parameters()), x)["weight"]


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, int]]] = {
    "plain": (mlp, (2 * LINEAR, 3 * LINEAR)),
    "traced": (lambda: torch.jit.trace(mlp(), torch.randn(4, 8)), (2 * LINEAR, 3 * LINEAR)),
    "scripted": (lambda: torch.jit.script(mlp()), (2 * LINEAR, 3 * LINEAR)),
    "compiled": (lambda: torch.compile(mlp(), backend="aot_eager"), (2 * LINEAR, 3 * LINEAR)),
    "vmap": (PerRow, (LINEAR, LINEAR)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_kinds_of_modules(name: str) -> None:
    make, expected = MODELS[name]
    assert phases(count(make(), torch.randn(4, 8), backward=True)) == expected


def test_gradients_of_each_sample() -> None:
    assert phases(count(GradientsOfSamples(), torch.randn(4, 8))) == (LINEAR, LINEAR)


def test_forward_mode_gradients() -> None:
    class Directional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return jvp(self.inner, (x,), (torch.ones_like(x),))[1]

    assert phases(count(Directional(), torch.randn(4, 8)))[0] >= 4 * LINEAR  # values and derivatives; none is unknown


@pytest.mark.filterwarnings("ignore")
def test_compiled_before_and_used_after() -> None:
    model: Any = torch.compile(mlp(), backend="aot_eager")
    x = torch.randn(4, 8)
    plain = model(x)
    assert phases(count(model, x, backward=True)) == (2 * LINEAR, 3 * LINEAR)
    assert torch.equal(model(x), plain)
    compiled = torch._dynamo.utils.counters["frames"]["ok"]
    fresh = torch.compile(nn.Linear(3, 3), backend="aot_eager")
    fresh(torch.randn(2, 3))
    assert torch._dynamo.utils.counters["frames"]["ok"] > compiled


@pytest.mark.parametrize("inside", [True, False])
def test_fake_tensors(inside: bool) -> None:
    mode = FakeTensorMode()
    with mode:
        model, x = mlp(), torch.randn(4, 8)
        if not inside:
            assert phases(count(model, x, backward=True)) == (2 * LINEAR, 3 * LINEAR)
    if inside:
        with profile(model, time=False) as run, mode:
            model(x).sum().backward()
        assert phases(run.report()) == (2 * LINEAR, 3 * LINEAR)


@pytest.mark.filterwarnings("ignore")
def test_nested_tensors() -> None:
    rows = [torch.randn(3, 8), torch.randn(5, 8)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    assert phases(count(mlp(), jagged)) == (2 * (2 * 8 * 8 * 8), 0)
    strided = torch.nested.nested_tensor(rows)  # has no shape; its parts have
    assert phases(count(mlp(), strided)) == (2 * (2 * 8 * 8 * 8), 0)


def test_autocast_counts_in_the_dtype_that_ran() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        report = count(mlp(), torch.randn(4, 8), backward=True)
    assert {row.cost.dtype for row in report.ops if row.cost.flops} == {"bf16"}


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.options = options

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return F.scaled_dot_product_attention(q * self.scale, k, v, attn_mask=mask, **self.options)


@pytest.mark.parametrize(
    ("shapes", "options", "pairs"),
    [
        (((2, 8, 16, 8),) * 3, {"is_causal": True}, 16 * 17 // 2),
        (((2, 8, 16, 8),) * 3, {}, 16 * 16),
        (((2, 8, 16, 8), (2, 2, 16, 8), (2, 2, 16, 8)), {"is_causal": True, "enable_gqa": True}, 16 * 17 // 2),
        (((2, 8, 16, 8), (2, 8, 16, 8), (2, 8, 16, 4)), {"is_causal": True}, 16 * 17 // 2),
        (((2, 8, 16, 8), (2, 8, 24, 8), (2, 8, 24, 8)), {"is_causal": True}, 16 * 17 // 2),
    ],
)
def test_attention_on_meta_is_the_kernel_an_accelerator_would_run(
    shapes: tuple[tuple[int, ...], ...], options: dict[str, bool], pairs: int
) -> None:
    q, k, v = (torch.randn(*shape, device="meta", requires_grad=True) for shape in shapes)
    report = count(Attention(**options).to("meta"), q, k, v, backward=True)
    forward = 2 * 2 * 8 * pairs * (q.shape[-1] + v.shape[-1])
    rows = [row for row in report.ops if row.cost.flops]
    assert [row.cost.flops for row in rows if row.phase is Phase.FORWARD] == [forward]
    assert [row.cost.flops for row in rows if row.phase is Phase.BACKWARD] == [2 * forward]
    assert any("counted as the fused kernel" in note for note in report.notes)


def test_attention_on_meta_with_a_mask_and_what_the_kernels_do_not_take() -> None:
    q, k = (torch.randn(2, 8, n, 8, device="meta") for n in (16, 24))
    mask = torch.ones(16, 24, dtype=torch.bool, device="meta")
    assert phases(count(Attention().to("meta"), q, k, k, mask))[0] == 2 * 2 * 8 * 16 * 24 * 16
    flat = torch.randn(8, 16, 8, device="meta")
    assert phases(count(Attention().to("meta"), flat, flat, flat))[0] == 2 * 8 * 16 * 16 * 16
    with pytest.raises(RuntimeError):  # torch's own complaint
        count(Attention(is_causal=True).to("meta"), q, q, q, torch.ones(16, 16, device="meta"))


@pytest.mark.filterwarnings("ignore")
def test_generation_is_forward_work_with_all_its_calls() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
    )
    torch.manual_seed(0)  # other weights may end the text early
    model = transformers.LlamaForCausalLM(config).eval()
    with profile(model, time=False) as run:
        model.generate(torch.ones(2, 5, dtype=torch.int64), max_new_tokens=4, do_sample=False)
    report = run.report()
    assert report.micro_batches == 4  # the prompt, and three tokens
    assert report.tokens == 2 * (5 + 3)
    layer = 2 * (32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 64)
    scores = sum(2 * 2 * 2 * 4 * 8 * new * seen for new, seen in ((5, 5), (1, 6), (1, 7), (1, 8)))
    full = sum(row.calls * row.cost.full_flops for row in report.ops)
    assert full == 2 * (layer * 2 * 8 + scores) + 2 * 32 * 100 * 2 * 4  # logits of the last position alone
