"""Work goes to the module that did it: in the forward, the backward, and when a checkpoint runs a forward again."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils.checkpoint import checkpoint

from weftrace.errors import FlopsError
from weftrace.flops import FlopsReport, Phase, count, profile
from weftrace.flops.runtime.profile import Profile

F, B, R = Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE


def flops_of(report: FlopsReport) -> dict[tuple[str, Phase], int]:
    """(path, phase) -> executed FLOPs on matrix units, where there are any."""
    found: dict[tuple[str, Phase], int] = {}
    for row in report.ops:
        if row.cost.executed_flops:
            key = report.modules[row.module].path, row.phase
            found[key] = found.get(key, 0) + row.calls * row.cost.executed_flops
    return found


class Block(nn.Module):
    """x + b(gelu(a(x))) on 8 features, and a product of its own: x @ x.T @ x."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b(nn.functional.gelu(self.a(x))) + x @ x.T @ x


LINEAR = 2 * 4 * 8 * 16  # of 4 rows through a or b
OWN = 2 * (2 * 4 * 4 * 8)  # x @ x.T and its product with x


def test_forward_and_backward_go_to_the_module_that_ran() -> None:
    model = nn.Sequential(Block(), nn.ModuleDict({"never": nn.Linear(8, 8)})["never"], Block())
    found = flops_of(count(model, torch.randn(4, 8), backward=True))
    square = 2 * 4 * 8 * 8
    assert found == {
        ("0.a", F): LINEAR,
        ("0.a", B): LINEAR,  # the weight's gradient; the input needs none
        ("0.b", F): LINEAR,
        ("0.b", B): 2 * LINEAR,
        ("0", F): OWN,
        ("1", F): square,
        ("1", B): 2 * square,
        ("2.a", F): LINEAR,
        ("2.a", B): 2 * LINEAR,
        ("2.b", F): LINEAR,
        ("2.b", B): 2 * LINEAR,
        ("2", F): OWN,
        ("2", B): 2 * OWN,
    }


def test_tree_has_every_module_once_in_order_and_parents_first() -> None:
    block, listed = Block(), nn.ModuleList([nn.Linear(8, 8)])
    model = nn.Sequential(block, listed)
    model.forward = lambda x: listed[0](block(x))  # type: ignore[method-assign]
    report = count(model, torch.randn(4, 8))
    assert [module.path for module in report.modules] == ["", "0", "0.a", "0.b", "1", "1.0"]
    assert [module.parent for module in report.modules] == [None, 0, 1, 1, 0, 4]
    assert [module.depth for module in report.modules] == [0, 1, 2, 2, 1, 2]
    assert [module.calls for module in report.modules] == [1, 1, 1, 1, 0, 1]
    assert [module.own_params for module in report.modules] == [0, 0, 144, 136, 0, 72]


class Tied(nn.Module):
    """One linear under two names, called through both; and a head that calls what is registered elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(8, 8))
        self.second = nn.Sequential(self.first[0])
        self.head = Caller(self.first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x)))


class Caller(nn.Module):
    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.borrowed = [other]  # not registered here

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.borrowed[0](x))


def test_alias_counts_where_it_was_called_and_its_parameters_once() -> None:
    report = count(Tied(), torch.randn(4, 8), backward=True)
    one = 2 * 4 * 8 * 8
    assert flops_of(report) == {
        ("first.0", F): 2 * one,  # its own call, and the head's
        ("first.0", B): 3 * one,
        ("second.0", F): one,
        ("second.0", B): 2 * one,
    }
    by_path = {module.path: module for module in report.modules}
    assert by_path["first.0"].aliases == ("second.0",)
    assert by_path["first.0"].own_params == 72
    assert by_path["second.0"].own_params == 0


def test_each_call_can_have_a_place_of_its_own() -> None:
    inner = nn.Sequential(nn.Linear(8, 8))
    model = nn.Sequential(inner, nn.ReLU(), inner)
    report = count(model, torch.randn(4, 8), backward=True, options={"each_call": True})
    one = 2 * 4 * 8 * 8
    # One instance under two names below one caller: torch does not say by which name it was called.
    assert flops_of(report) == {("0.0", F): one, ("0.0", B): one, ("0#2.0", F): one, ("0#2.0", B): 2 * one}
    model = nn.Sequential(inner)
    model.forward = lambda x: inner(inner(x))  # type: ignore[method-assign]
    report = count(model, torch.randn(4, 8), options={"each_call": True})
    assert flops_of(report) == {("0.0", F): one, ("0#2.0", F): one}


def test_work_outside_the_model_and_modules_not_of_it_are_named() -> None:
    model = nn.Linear(8, 8)
    x = torch.randn(4, 8)
    with profile(model, time=False) as run:
        nn.Bilinear(8, 8, 1)(model(x), x @ torch.randn(8, 8)).sum().backward()
    report = run.report()
    places = {report.modules[row.module].path for row in report.ops if row.cost.executed_flops}
    assert places == {"", "(outside)", "(outside).(Bilinear)"}


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.block = Block()
        self.tail = Block()
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = checkpoint(self.block, x, use_reentrant=self.reentrant)
        return checkpoint(lambda y: self.tail(y) @ y.T, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_is_apart_from_the_backward(reentrant: bool) -> None:
    x = torch.randn(4, 8, requires_grad=True)
    found = flops_of(count(Checkpointed(reentrant), x, backward=True))
    plain = Checkpointed(reentrant)
    plain.forward = lambda y: (z := plain.block(y), plain.tail(z) @ z.T)[1]  # type: ignore[method-assign,assignment]
    expected = flops_of(count(plain, x, backward=True))
    assert {key: value for key, value in found.items() if key[1] is not R} == expected
    again = {path: value for (path, phase), value in found.items() if phase is R}
    lambdas_own = 2 * 4 * 4 * 8  # tail(y) @ y.T, outside any module but the root
    everything = {"block.a": LINEAR, "block.b": LINEAR, "block": OWN, "tail.a": LINEAR, "tail.b": LINEAR, "tail": OWN}
    if reentrant:
        assert again == {**everything, "": lambdas_own}
    else:
        # It stops as soon as every tensor that the backward asks for is there: the last product of a region is not run
        # again.
        assert again == {**everything, "block": OWN // 2}


def test_checkpoint_inside_a_checkpoint() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Checkpointed(reentrant=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=False)

    x = torch.randn(4, 8, requires_grad=True)
    found = flops_of(count(Nested(), x, backward=True))
    single = flops_of(count(Checkpointed(False), x, backward=True))
    forwards = {path: value for (path, phase), value in found.items() if phase is F}
    assert forwards == {f"inner.{path}" if path else "inner": n for (path, phase), n in single.items() if phase is F}
    backwards = {path: value for (path, phase), value in found.items() if phase is B}
    assert backwards == {f"inner.{path}" if path else "inner": n for (path, phase), n in single.items() if phase is B}
    assert found["inner.block.a", R] == 2 * LINEAR


def test_frozen_and_low_rank_layers() -> None:
    frozen = nn.Linear(8, 8).requires_grad_(False)
    found = flops_of(count(nn.Sequential(frozen, nn.Linear(8, 8)), torch.randn(4, 8), backward=True))
    one = 2 * 4 * 8 * 8
    assert found == {("0", F): one, ("1", F): one, ("1", B): one}  # only the second layer's weight
    x = torch.randn(4, 8, requires_grad=True)
    found = flops_of(count(nn.Sequential(frozen, nn.Linear(8, 8)), x, backward=True))
    assert found == {("0", F): one, ("0", B): one, ("1", F): one, ("1", B): 2 * one}


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] @ x.T + x.T @ grads[0]


def test_own_autograd_functions() -> None:
    class Squared(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return _Square.apply(x)  # type: ignore[no-untyped-call]

    found = flops_of(count(nn.Sequential(Squared()), torch.randn(4, 4, requires_grad=True), backward=True))
    assert found == {("0", F): 128, ("0", B): 256}


def test_inference_mode_and_no_grad_count_the_same() -> None:
    model, x = Block(), torch.randn(4, 8)
    with torch.inference_mode(), profile(model, time=False) as run:
        model(x)
    assert flops_of(run.report()) == flops_of(count(model, x))


def test_gradients_of_gradients() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False))
    x = torch.randn(4, 8, requires_grad=True)
    with profile(model, time=False) as run:
        (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        grad.square().sum().backward()
    found = flops_of(run.report())
    one = 2 * 4 * 8 * 8
    # dX, and then the gradient of dX = dY W: one product for W. Nothing was recomputed.
    assert found == {("0", F): one, ("0", B): 2 * one}


def test_optimizer_has_a_phase_of_its_own() -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(model, time=False) as run:
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    rows = [row for row in run.report().ops if row.phase is Phase.OPTIMIZER]
    assert sum(row.calls * row.cost.vector_flops for row in rows) > 5 * 72
    assert {run.report().modules[row.module].path for row in rows} == {"(outside)"}


def test_an_optimizer_that_runs_the_model_again() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with profile(model, time=False) as run:
        optimizer.step(closure)
    found = flops_of(run.report())
    assert found["", F] == found["", B] == 2 * 4 * 8 * 8


def test_other_threads_are_not_counted_as_this_model() -> None:
    model, other = nn.Linear(8, 8), nn.Linear(16, 16)
    with profile(model, time=False) as run:
        thread = Thread(target=lambda: other(torch.randn(2, 16)))
        thread.start()
        thread.join()
        model(torch.randn(4, 8))
    assert flops_of(run.report()) == {("", F): 2 * 4 * 8 * 8}
    assert run.report().notes == ()


def test_the_models_work_in_other_threads_is_said_to_be_missing() -> None:
    model = nn.Linear(8, 8)
    with profile(model, time=False) as run:
        model(torch.randn(4, 8))
        thread = Thread(target=lambda: model(torch.randn(2, 8)))
        thread.start()
        thread.join()
    report = run.report()
    assert flops_of(report) == {("", F): 2 * 4 * 8 * 8}
    assert any("in other threads (1) are not counted" in note for note in report.notes)


# -- what is left behind


def state() -> tuple[Any, ...]:
    return (
        len(torch_module._global_forward_pre_hooks),
        len(torch_module._global_forward_hooks),
        len(torch_module._global_forward_hooks_always_called),
        len(torch_optimizer._global_optimizer_pre_hooks),
        len(torch_optimizer._global_optimizer_post_hooks),
        torch._C._len_torch_dispatch_stack(),
        nn.functional.linear,
        torch.Tensor.backward,
        nn.Module.__call__,
        torch.ops.aten.mm.default,
    )


class Wrong(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the model's own")


def _fails(run: Profile) -> None:
    run.model(torch.randn(4, 8))


def _fails_in_backward(run: Profile) -> None:
    y = torch.randn(4, 8, requires_grad=True)
    z = nn.functional.relu(y)
    z.register_hook(lambda grad: (_ for _ in ()).throw(ValueError("the model's own")))
    z.sum().backward()


@pytest.mark.parametrize("failure", [_fails, _fails_in_backward])
def test_state_is_restored_whatever_is_raised(failure: Callable[[Profile], None]) -> None:
    model = nn.Sequential(nn.Linear(8, 8), Wrong())
    before = state()
    hooks = [(dict(m._forward_pre_hooks), dict(m._forward_hooks), dict(m._backward_hooks)) for m in model.modules()]
    with pytest.raises(ValueError, match="the model's own"), profile(model) as run:
        failure(run)
    assert state() == before
    after = [(dict(m._forward_pre_hooks), dict(m._forward_hooks), dict(m._backward_hooks)) for m in model.modules()]
    assert after == hooks
    assert flops_of(count(nn.Linear(8, 8), torch.randn(4, 8))) == {("", F): 512}


def test_a_model_that_catches_its_own_errors_keeps_its_places() -> None:
    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wrong = nn.Sequential(nn.Linear(8, 8), Wrong())
            self.right = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with contextlib.suppress(ValueError):
                self.wrong(x)
            return self.right(x) @ x.T

    found = flops_of(count(Tries(), torch.randn(4, 8)))
    assert found == {("wrong.0", F): 512, ("right", F): 512, ("", F): 2 * 4 * 8 * 4}


def test_no_graph_is_kept_alive() -> None:
    model = nn.Sequential(Block(), Block())
    with profile(model) as run:
        y = model(torch.randn(4, 8))
        tensor = weakref.ref(y)
        saved = weakref.ref(y.grad_fn.next_functions[1][0]._saved_self)  # of the last product, kept by the graph alone
        y.sum().backward()
        del y
        gc.collect()
        assert tensor() is None
        assert saved() is None
    run.report()


def test_results_are_the_plain_programs() -> None:
    torch.manual_seed(0)
    model, x = Checkpointed(False), torch.randn(4, 8)
    plain = model(x)
    plain.sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    with profile(model):
        out = model(x)
        out.sum().backward()
    assert torch.equal(out, plain)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True) if p.grad is not None)


# -- the protocol of profile()


def test_steps_count_once_and_time_the_rest() -> None:
    model = nn.Linear(8, 8)
    with profile(model, warm_up=2) as run:
        for _ in range(6):
            model(torch.randn(4, 8)).sum().backward()
            run.step()
    report = run.report()
    assert flops_of(report) == {("", F): 512, ("", B): 512}  # one step's
    assert (report.clock.steps, report.clock.warm_up, report.clock.while_counting) == (3, 2, False)
    assert report.samples == 4
    assert report.micro_batches == 1


def test_accumulated_micro_batches_are_one_step() -> None:
    model = nn.Embedding(10, 8)
    with profile(model) as run:
        for _ in range(3):
            model(torch.zeros(4, 5, dtype=torch.int64)).sum().backward()
        run.step()
    report = run.report()
    assert (report.samples, report.tokens, report.micro_batches) == (12, 60, 3)
    assert any("nothing was timed" in note for note in report.notes)


def test_a_mode_opened_inside_the_block_may_stay_open_over_a_step() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model = nn.Linear(8, 8)
    before = state()
    with profile(model) as run:
        with FlopCounterMode(display=False):
            model(torch.randn(4, 8))
            run.step()
            model(torch.randn(4, 8))
            run.step()
        model(torch.randn(4, 8))
        run.step()
    assert state() == before
    assert flops_of(run.report()) == {("", F): 512}


def test_misuse_is_told() -> None:
    with pytest.raises(FlopsError, match=r"takes a torch\.nn\.Module, not function"):
        profile(test_misuse_is_told)  # type: ignore[arg-type]
    model = nn.Linear(8, 8)
    with pytest.raises(FlopsError, match="warm_up is a number of steps"):
        profile(model, warm_up=-1)
    run = profile(model)
    with pytest.raises(FlopsError, match=r"step\(\) belongs inside"):
        run.step()
    with pytest.raises(FlopsError, match=r"report\(\) follows"):
        run.report()
    with run:
        pass
    with pytest.raises(FlopsError, match="no operator ran while Linear was profiled"):
        run.report()
    with pytest.raises(FlopsError, match="can be entered once"), run:
        pass
    with pytest.raises(FlopsError, match="needs a gradient"):
        count(nn.ReLU(), torch.randn(3), backward=True)
