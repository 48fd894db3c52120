"""`verify_split` says what is missing, what is not split, what runs again, and what is held."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from weftrace.pipeline.runtime import verify_split
from weftrace.pipeline.runtime.blocks import ExpertBlock, TransformerBlock


class Layers(nn.Module):
    """A checkpoint, dropout, statistics that a forward changes, a product that is not cut, a layer that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
        self.norm, self.mixed = nn.BatchNorm1d(4), nn.Parameter(torch.randn(4, 4))
        self.unused = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.inner, x, use_reentrant=False)
        return self.norm(torch.einsum("ab,cb->ac", x, self.mixed) + F.linear(x, self.mixed))


def test_the_check_names_what_is_not_split_and_what_runs_again() -> None:
    torch.manual_seed(0)
    module = Layers().double()
    x, state = torch.randn(6, 4).double(), {name: value.clone() for name, value in module.state_dict().items()}
    random = torch.get_rng_state()
    check = verify_split(module, x)
    assert check.missing == []
    assert check.difference == 0.0
    assert check.at_i == ["mixed", "norm.weight", "norm.bias"]
    assert check.parameters.filter(full=False).get_column("parameter").to_list() == ["unused.weight", "unused.bias"]
    assert check.parameters.filter(parameter="mixed").get_column("at_w").to_list() == [True]
    assert check.recomputed.rows() == [("inner", 1, 1, 1, 0)]
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert check.in_lines().splitlines() == [
        "SplitCheck",
        "gradients         7 of 7, largest difference 0",
        "missing           none",
        "at I already      mixed (a part), norm.weight, norm.bias",
        "held from I to W  1.1 KiB, 180.0 % of the bytes that the forward saves",
        "inner runs again  1 in a full backward, 1 at I, 0 at W",
    ]


class Loses(torch.autograd.Function):
    """Forgets its weight where a module's backward is cut: as a function does that keeps a queue of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        cut = bool(torch.overrides._get_current_function_mode_stack())
        return grad * weight, None if cut else (grad * x).sum(0)


def test_a_gradient_that_is_lost_is_missing() -> None:
    class Lossy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return Loses.apply(x, self.weight)  # type: ignore[no-untyped-call]

    assert verify_split(Lossy(), torch.randn(2, 4)).missing == ["weight"]


def test_layers_that_change_themselves_or_are_not_real_compare_as_well() -> None:
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))  # each forward changes what the next computes
    number = nn.Linear(4, 4, dtype=torch.complex64)
    for module, x in ((normed, torch.randn(3, 4)), (number, torch.randn(3, 4, dtype=torch.complex64))):
        check = verify_split(module, x)
        assert (check.difference, check.missing) == (0.0, [])
        assert check.at_i == check.parameters.get_column("parameter").to_list()
    table = verify_split(nn.Embedding(9, 4, sparse=True), torch.tensor([1, 2]))
    assert (table.difference, table.at_i) == (0.0, [])


def test_what_is_held_from_i_to_w_is_told_against_what_a_forward_saves() -> None:
    # Saved: x, and what the GELU got and gave. Held: the inputs of both layers, and the gradients of their outputs.
    layers = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
    check = verify_split(layers, torch.randn(8, 4))
    one = 8 * 4 * 4
    assert (check.saved_bytes, check.held_bytes) == (3 * one, 4 * one)


def test_the_blocks_give_the_same_bits_and_split_all_but_their_norms() -> None:
    x = torch.randn(2, 16, 32).double()
    for block in (TransformerBlock(32), ExpertBlock(32, num_experts=4)):
        check = verify_split(block.double(), x)
        assert (check.difference, check.missing) == (0.0, [])
        assert all("norm" in name or name.startswith("mlp.0") for name in check.at_i)
        assert check.held_share is not None
        assert check.held_share < 1
