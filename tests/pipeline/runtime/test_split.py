"""The split of a backward in I and W: the same bits as torch's backward, in float64, whatever the layer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.split.engine import StageEngine
from weftrace.pipeline.runtime.split.instrument import defer_weight_grad
from weftrace.pipeline.runtime.split.store import WeightGradStore


class Products(nn.Module):
    """Weights in products with matrices, as views, used many times, and as a matrix for each expert."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))
        self.experts, self.biases = nn.Parameter(torch.randn(3, 4, 4)), nn.Parameter(torch.randn(3, 1, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.addmm(self.b, x @ self.w, self.w.t()) + F.linear(x, self.w, self.b)
        each = torch.bmm(x.expand(3, *x.shape), self.experts)
        each = torch.baddbmm(self.biases, each, self.experts)
        return each.sum(0) + F.linear(x, self.experts[1]) + x @ self.experts[2]


class Grouped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(3, 8, 16)), nn.Parameter(torch.randn(3, 8, 16))

    def forward(self, x: Tensor) -> Tensor:
        ends = torch.tensor([2, 2, 6], dtype=torch.int32)
        return F.grouped_mm(F.grouped_mm(x, self.up, offs=ends), self.down.transpose(-2, -1), offs=ends)


class Attention(nn.Module):
    """Queries of one input and keys of the other: the weights of both stand in one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.attention(x, y, y, need_weights=False)[0]


class Tied(nn.Module):
    """A table of rows that is also the head, and a layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.twice = nn.Embedding(10, 4, padding_idx=2), nn.Linear(4, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.twice(torch.tanh(self.twice(self.table(tokens)))), self.table.weight)


def _convolutions() -> list[tuple[nn.Module, Tensor]]:
    how: dict[str, Any] = {"groups": 2, "stride": 2, "padding": 1}
    cases: list[tuple[nn.Module, Tensor]] = []
    for num in (1, 2, 3):
        x = torch.randn(2, 4, *[7] * num)
        cases.append((getattr(nn, f"Conv{num}d")(4, 6, 3, **how), x))
        cases.append((getattr(nn, f"ConvTranspose{num}d")(4, 6, 3, output_padding=1, **how), x))
    return [*cases, (nn.Conv2d(4, 6, 3, padding="same", padding_mode="circular"), torch.randn(2, 4, 7, 7))]


def _cases() -> list[tuple[nn.Module, tuple[Tensor, ...]]]:
    x = torch.randn(2, 5, 8)
    return [
        (nn.Linear(8, 3), (torch.randn(8),)),
        (nn.Linear(8, 3), (x.transpose(0, 1),)),
        (nn.Linear(8, 3, bias=False), (x,)),
        *((module, (x,)) for module, x in _convolutions()),
        (Products(), (torch.randn(5, 4),)),
        (Attention(), (x, torch.randn(2, 3, 8))),
        (Tied(), (torch.randint(0, 10, (2, 5)),)),
    ]


def _both(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[nn.Module, Any, StageEngine]:
    """The module after a full backward, and its copy after I, with the engine that is to do W."""
    split = copy.deepcopy(module)
    engine = StageEngine(split, 0)
    given = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in inputs)
    out = module(*given)
    grad = torch.randn_like(out)
    out.backward(grad)
    again = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in inputs)
    assert torch.equal(engine.forward(0, again), out)
    for mine, theirs in zip(engine.input_grad(0, grad), given, strict=True):
        assert (mine is None and theirs.grad is None) or torch.equal(mine, theirs.grad)  # type: ignore[arg-type]
    return module, split, engine


def _same(mine: nn.Module, theirs: nn.Module) -> None:
    for name, parameter in mine.named_parameters():
        found, expected = parameter.grad, theirs.get_parameter(name).grad
        if found is None or expected is None:
            assert found is expected, name
        else:
            assert torch.equal(found, expected), name


def test_every_layer_leaves_its_weights_to_w_with_the_same_bits() -> None:
    torch.manual_seed(0)
    for module, inputs in _cases():
        module, inputs = module.double(), tuple(x.double() if x.is_floating_point() else x for x in inputs)
        whole, split, engine = _both(module, inputs)
        assert [name for name, p in split.named_parameters() if p.grad is not None] == []
        assert engine.store.held_bytes((0, 0)) > 0
        engine.weight_grad(0)
        _same(split, whole)
        assert engine.store.keys() == []


def test_grouped_products_are_cut_too() -> None:
    whole, split, engine = _both(Grouped(), (torch.randn(6, 8),))
    assert all(p.grad is None for p in split.parameters())
    engine.weight_grad(0)
    _same(split, whole)


def test_what_is_not_cut_gets_its_gradient_at_i() -> None:
    whole, split, engine = _both(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0).double(), (torch.randn(2, 5, 8).double(),)
    )
    early = [name for name, p in split.named_parameters() if p.grad is not None]
    assert early == ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]
    engine.weight_grad(0)
    _same(split, whole)


def test_a_weight_whose_elements_share_memory_is_not_cut() -> None:
    """Of an expanded weight, or windows of one, many elements' gradients go to one: not in place."""

    class Expanded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.windows = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(7))

        def forward(self, x: Tensor) -> Tensor:
            each = torch.bmm(x.expand(3, *x.shape), self.one.expand(3, 4, 4)).sum(0)
            return each @ self.windows.unfold(0, 4, 1)

    full, split, engine = _both(Expanded().double(), (torch.randn(5, 4, dtype=torch.float64),))
    engine.weight_grad(0)
    _same(split, full)


def test_w_of_any_micro_batch_at_any_time() -> None:
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    parts = copy.deepcopy(whole)
    store = WeightGradStore()
    first, second = StageEngine(parts[:2], 0, store=store), StageEngine(parts[2:], 1, store=store)
    xs = [torch.randn(3, 4, dtype=torch.float64) for _ in range(3)]
    for at, x in enumerate(xs):
        grads = second.input_grad(at, torch.ones_like(second.forward(at, first.forward(at, x))))
        assert first.input_grad(at, grads) is None
    assert store.keys() == [(1, 0), (0, 0), (1, 1), (0, 1), (1, 2), (0, 2)]
    for at in (1, 2, 0):
        first.weight_grad(at)
        second.weight_grad(at)
        whole(xs[at]).sum().backward()
    _same(parts, whole)
    with pytest.raises(ScheduleError, match="W before its I, or for the second time"):
        first.weight_grad(1)


def test_what_w_needs_may_not_be_written_to_before_it() -> None:
    engine = StageEngine(nn.Linear(4, 3), 0)
    buffer = torch.randn(2, 4)
    engine.input_grad(0, torch.ones_like(engine.forward(0, buffer)))
    buffer.zero_()
    with pytest.raises(ScheduleError, match=r"of shape \[2, 3\] or \[2, 4\], was written to between I and W"):
        engine.weight_grad(0)


def test_hooks_are_called_once_after_w_with_the_whole_gradient() -> None:
    module = Tied()
    engine = StageEngine(module, 0)
    seen: list[tuple[str, Tensor]] = []
    weight = module.twice.weight
    weight.register_hook(lambda grad: seen.append(("hook", grad.clone())))
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.grad.clone())))
    out = engine.forward(0, torch.tensor([1, 2, 3]))
    engine.input_grad(0, torch.ones_like(out))
    assert seen == []
    engine.weight_grad(0)
    assert [name for name, _ in seen] == ["hook", "after"]
    assert torch.equal(seen[0][1], seen[1][1])


@pytest.mark.parametrize("split", [False, True])
def test_main_grad_takes_the_sum_in_its_own_dtype(split: bool) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).bfloat16()
    for parameter in module.parameters():
        parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)  # type: ignore[attr-defined]
    expected, sums = copy.deepcopy(module), [torch.zeros(p.shape) for p in module.parameters()]
    engine = StageEngine(module, 0)
    for at in range(2):
        x = torch.randn(3, 4).bfloat16()
        out = engine.forward(at, x, split=split)
        if split:
            engine.input_grad(at, torch.ones_like(out))
            engine.weight_grad(at)
        else:
            engine.backward(at, torch.ones_like(out))
        expected.zero_grad(set_to_none=True)
        expected(x).sum().backward()
        for total, parameter in zip(sums, expected.parameters(), strict=True):
            assert parameter.grad is not None
            total += parameter.grad
    for mine, total in zip(module.parameters(), sums, strict=True):
        assert mine.grad is None
        assert torch.equal(mine.main_grad, total)  # type: ignore[attr-defined]


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_frozen_parameters_get_nothing(frozen: str) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(4, 4, 3, padding=1)).double()
    for part in module:
        getattr(part, frozen).requires_grad_(False)
    whole, split, engine = _both(module, (torch.randn(2, 4, 4).double(),))
    engine.weight_grad(0)
    _same(split, whole)


def test_grouped_products_are_no_affair_of_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        whole, split, engine = _both(Grouped(), (torch.randn(6, 8),))
    engine.weight_grad(0)
    _same(split, whole)


def test_under_autocast_the_gradients_are_autocasts() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.autocast("cpu", torch.bfloat16):
        whole, split, engine = _both(module, (torch.randint(0, 9, (5,)),))
    engine.weight_grad(0)
    _same(split, whole)
    assert split[1].weight.grad.dtype == torch.float32


class Checkpointed(nn.Module):
    """Counts its runs."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant, self.runs = reentrant, 0
        self.inner = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self._counted, x, use_reentrant=self.reentrant) + x

    def _counted(self, x: Tensor) -> Tensor:
        self.runs += 1
        return self.inner(x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_its_forward_again_at_i_and_not_at_w(reentrant: bool) -> None:
    module = nn.Sequential(Checkpointed(reentrant), Checkpointed(reentrant)).double()
    whole, split, engine = _both(module, (torch.randn(3, 4).double(),))
    assert all(p.grad is None for p in split.parameters())
    engine.weight_grad(0)
    assert [part.runs for part in split] == [2, 2]
    _same(split, whole)


class Scaled(torch.autograd.Function):
    """y = x * w, of which weftrace knows nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return grad * weight, defer_weight_grad(lambda: (grad * x).sum(0), weight)


_scaled: Any = Scaled.apply


class OfYourOwn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return _scaled(_scaled(x, self.weight), self.weight)


def test_a_function_of_your_own_leaves_its_weight_to_w() -> None:
    whole, split, engine = _both(OfYourOwn().double(), (torch.randn(3, 4).double(),))
    weight = split.get_parameter("weight")
    assert weight.grad is None
    assert engine.store.held_bytes((0, 0)) > 0
    engine.weight_grad(0)
    _same(split, whole)
    calls: list[Tensor] = []
    weight.register_hook(calls.append)
    weight.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad))
    out = engine.forward(1, torch.randn(3, 4).double())
    engine.input_grad(1, torch.ones_like(out))
    assert calls == []
    engine.weight_grad(1)
    assert len(calls) == 2


class Penalised(nn.Module):
    """Differentiates within its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.layer(x).tanh().sum(), x, create_graph=True)
        return slope.square().sum()


def test_a_module_that_differentiates_within_its_forward_is_refused_and_runs_whole() -> None:
    module = Penalised()
    engine = StageEngine(module, 0)
    with pytest.raises(ScheduleError, match="give split=False"):
        engine.forward(0, torch.randn(2, 4))
    engine.forward(0, torch.randn(2, 4), split=False)
    with pytest.raises(ScheduleError, match="run as if no I followed"):
        engine.input_grad(0)
    engine.forward(1, torch.randn(2, 4), split=False)
    engine.backward(1)
    assert module.layer.weight.grad is not None


def test_functions_under_vmap_run_as_they_are() -> None:
    class Mapped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.vmap(lambda row: F.linear(row, self.weight, self.bias))(x)

    whole, split, engine = _both(Mapped(4, 3).double(), (torch.randn(2, 4).double(),))
    engine.weight_grad(0)
    _same(split, whole)
