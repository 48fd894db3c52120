"""B gives gradients of inputs and leaves those of weights; W makes them, in parts, as autograd would have."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.moe.runtime.small import drawn
from weftrace.moe.runtime.layers.split import WeightTasks, grouped, leaving_weights_to, linear


def test_gradients_are_autograds_and_those_of_weights_come_later() -> None:
    x, weight = drawn(2, 5, 6).requires_grad_(), drawn(4, 6, seed=2).requires_grad_()
    grad = drawn(2, 5, 4, seed=3)
    tasks = WeightTasks()
    with leaving_weights_to(tasks):
        linear(x, weight).backward(grad)
    assert weight.grad is None
    want = torch.autograd.grad(F.linear(x, weight), (x, weight), grad)
    assert x.grad is not None and torch.equal(x.grad, want[0])
    tasks.run()
    torch.testing.assert_close(weight.grad, want[1], rtol=0, atol=0)
    assert [task.flops for task in tasks.tasks] == [2 * 10 * 6 * 4]


@pytest.mark.parametrize(
    ("dtype", "wide"), [(torch.float64, 8), (torch.float32, 8), (torch.float32, 7), (torch.bfloat16, 8)]
)
def test_a_product_an_expert_is_a_loop_over_experts(dtype: torch.dtype, wide: int) -> None:
    """torch may have one grouped product, but not in float64, nor for rows of 28 bytes. One expert has no rows."""
    counts = [3, 0, 4]
    x, weight = drawn(7, wide).to(dtype).requires_grad_(), drawn(3, 16, wide, seed=2).to(dtype).requires_grad_()
    grad = drawn(7, 16, seed=3).to(dtype)
    out = grouped(x, weight, counts)
    parts = [F.linear(part, of) for part, of in zip(x.split(counts), weight, strict=True)]
    torch.testing.assert_close(out, torch.cat(parts))
    tasks = WeightTasks()
    with leaving_weights_to(tasks):
        out.backward(grad)
    tasks.run()
    want = torch.autograd.grad(torch.cat(parts), (x, weight), grad)
    torch.testing.assert_close((x.grad, weight.grad), want)


def test_no_rows_at_all_give_gradients_of_zero() -> None:
    x, weight = torch.zeros(0, 8).requires_grad_(), torch.ones(2, 4, 8, requires_grad=True)
    grouped(x, weight, [0, 0]).sum().backward()
    assert weight.grad is not None and not weight.grad.any()


def test_parts_of_w_make_each_gradient_once() -> None:
    """Three products of 1, 2 and 1 parts of the FLOPs: their middles lie at 1/8, 1/2 and 7/8."""
    x = drawn(4, 8).requires_grad_()
    weights = [drawn(wide, 8, seed=wide).requires_grad_() for wide in (3, 6, 3)]
    tasks = WeightTasks()
    with leaving_weights_to(tasks):
        for weight in weights:
            linear(x, weight).sum().backward()
    tasks.run(0.0, 0.5)
    assert [weight.grad is not None for weight in weights] == [True, False, False]
    tasks.run(0.5, 1.0)
    for weight in weights:
        want = torch.ones(len(weight), 4, dtype=x.dtype) @ x.detach()
        torch.testing.assert_close(weight.grad, want, rtol=0, atol=0)
