"""Nothing that counts may break what it counts: the program gets its own results and its own errors, no others."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import weftrace as wt
from weftrace.flops import Phase, Status, count, coverage, profile, totals
from weftrace.flops.runtime.count import counter, signatures
from weftrace.flops.runtime.count.signatures import Signatures
from weftrace.flops.runtime.count.tracker import Tracker

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def ragged() -> torch.Tensor:
    """Two sequences, 3 and 5 rows of 4, in the strided layout, which has no shape."""
    return torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(5, 4)])


ON_RAGGED: dict[str, Callable[[], Any]] = {
    "make": lambda: torch.nested.nested_tensor([torch.randn(3, 4)]),
    "add": lambda: ragged() + ragged(),
    "times": lambda: ragged() * 2,
    "zeros": lambda: torch.zeros_like(ragged()),
    "cos": lambda: ragged().cos(),
    "relu in place": lambda: ragged().relu_(),
    "softmax": lambda: torch.softmax(ragged(), -1),
    "gelu": lambda: F.gelu(ragged()),
    "compare": lambda: ragged().ge(0),
    "cast": lambda: ragged().to(torch.bfloat16),
    "cat": lambda: torch.cat([ragged(), ragged()]),
    "chunk": lambda: ragged().chunk(2, -1),
    "pad": lambda: torch.nested.to_padded_tensor(ragged(), 0.0),
    "product": lambda: torch.bmm(ragged(), ragged().transpose(1, 2)),
    "embedding": lambda: F.embedding(torch.nested.nested_tensor([torch.tensor([1, 2])]), torch.randn(5, 3)),
    "dropout": lambda: F.dropout(ragged(), 0.5, training=True),
}


@pytest.mark.parametrize("run", ON_RAGGED.values(), ids=ON_RAGGED)
def test_a_strided_nested_tensor_runs_in_a_profile_as_it_does_outside(run: Callable[[], Any]) -> None:
    run()
    with profile(nn.Linear(4, 8), time=False) as p:
        run()
    report = p.report()
    assert report.ops
    assert not report.notes or "never called" in report.notes[0]


def test_products_of_ragged_rows_are_counted_part_by_part() -> None:
    a, b = ragged(), ragged().transpose(1, 2)
    pairs = 3 * 3 + 5 * 5
    with profile(nn.Linear(4, 8), time=False) as p:
        torch.bmm(a, b)
        torch.matmul(a, b)
    assert totals(p.report()).flops == 2 * (2 * pairs * 4)


def test_a_linear_layer_on_ragged_rows_is_counted_forward_and_backward() -> None:
    layer = nn.Linear(4, 8)
    with profile(layer, time=False) as p:
        torch.nested.to_padded_tensor(layer(ragged()), 0.0).sum().backward()
    by_phase = totals(p.report()).by_phase
    assert by_phase[Phase.FORWARD].flops == 2 * (3 + 5) * 4 * 8
    assert by_phase[Phase.BACKWARD].flops == 2 * (3 + 5) * 4 * 8  # the weight's gradient alone
    assert by_phase[Phase.FORWARD].unknown_calls == 0


class Fails:
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("on purpose")


BREAKS = [
    (Signatures, "add"),
    (Signatures, "of"),
    (signatures, "signature_text"),
    (counter, "key_of_any"),
    (counter, "find_rule"),
    (counter, "all_dense"),
    (Tracker, "_find"),
    (Tracker, "_owner"),
    (Tracker, "_enter_again"),
    (Tracker, "backward_place"),
]


@pytest.mark.parametrize(("owner", "name"), BREAKS, ids=[name for _, name in BREAKS])
@pytest.mark.usefixtures("may_lose")
def test_whatever_fails_in_counting_the_program_goes_on(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    loss = nn.MSELoss()  # no module of the model
    x = torch.randn(3, 4)
    wanted = loss(model(x), torch.zeros(3, 2))
    wanted.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    monkeypatch.setattr(owner, name, Fails())
    with profile(model) as p:
        for _ in range(3):
            model.zero_grad()
            found = loss(checkpoint(model, x, use_reentrant=False), torch.zeros(3, 2))
            found.backward()
            p.step()
    assert torch.equal(found, wanted)
    again = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(torch.equal(*pair) for pair in zip(again, gradients, strict=True))
    report = p.report()
    if name not in ("key_of_any", "all_dense"):  # not needed by these operators
        assert any("on purpose" in note for note in report.notes)


@pytest.mark.usefixtures("may_lose")
def test_a_call_that_was_not_counted_is_named_as_an_operator_without_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "signature_text", Fails())
    report = count(nn.Linear(4, 8), torch.randn(3, 4))
    (unknown,) = coverage(report).unknown
    assert (unknown.op, unknown.calls) == ("aten.addmm.default", 1)
    assert unknown.note == "not counted: ZeroDivisionError: on purpose"
    assert {op.cost.status for op in report.ops if op.op == unknown.op} == {Status.UNKNOWN}
    assert "a call of aten.addmm.default was not counted (once)" in " ".join(report.notes)


def test_the_programs_own_error_comes_through() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), wt.profile(nn.Linear(4, 8), time=False) as p:
        p.model(torch.randn(3, 5))


def test_a_model_can_be_copied_averaged_and_saved_inside_a_profile(tmp_path: Path) -> None:
    """As training loops do for an average of weights; what counts stays behind, and the copy needs none of it."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with profile(model) as run:
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
            copied, averaged = copy.deepcopy(model), torch.optim.swa_utils.AveragedModel(model)
            torch.save(model, tmp_path / "model.pt")
            run.step()
    expected = totals(run.report()).flops
    without = "import sys; sys.modules['weftrace'] = None; import torch; "
    use = "m = torch.load(sys.argv[1], weights_only=False); print(tuple(m(torch.ones(2, 8)).shape))"
    done = subprocess.run(
        [sys.executable, "-c", without + use, tmp_path / "model.pt"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "(2, 8)\n", done.stderr
    x = torch.ones(2, 8)
    assert torch.equal(copied(x), model(x)) and torch.equal(averaged(x), model(x))
    assert expected == 2 * 2 * 4 * 8 * 8  # forward and the weight's gradient; the input needs none
    assert not model._forward_pre_hooks
