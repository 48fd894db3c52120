"""Which calls of torch are cut into I and W: told by the call, of modules and functions alike. No module is touched.

A mode of torch sees each call of a function. Where a weight of such a call is a parameter, or a view of one, the call
runs without the weight in autograd's graph, and its backward leaves the weight's gradient to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.split.layers import Batched, Convolution, Embedding, Grouped, Layer, Linear, MatMul
from weftrace.pipeline.runtime.split.store import Kept, Key, Weight, WeightGradStore

_PLAIN = {Tensor, nn.Parameter}  # what another class of tensor does with a call is its own affair


class Splitting(TorchFunctionMode):
    """While it is entered, weights' gradients are left to `store` under `key`.

    It is entered in the forward and in the backward: a checkpoint runs its forward again within the backward.
    """

    def __init__(self, store: WeightGradStore, key: Key) -> None:
        super().__init__()
        self.store, self.key = store, key
        self.label, self.in_backward = "", False
        self._silenced: list[Hooks] = []
        self.anchor = torch.zeros((), requires_grad=True)

    @contextmanager
    def during(self, label: str, *, backward: bool) -> Iterator[None]:
        """While the forward or backward of this phase runs."""
        self.label, self.in_backward = label, backward
        try:
            with self:
                yield
        finally:
            self.in_backward = False
            while self._silenced:
                with_hooks(self._silenced.pop())

    def silence(self, leaf: Tensor) -> None:
        """Until the backward of this phase ends: autograd would call its hooks for a gradient that is yet to come."""
        self._silenced += without_hooks(leaf)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        cut = _CUTS.get(func)
        if (
            cut is not None and _PLAIN.issuperset(types) and torch.is_grad_enabled()
            and not _transformed() and not self._is_of_another()
        ):  # fmt: skip
            found = cut(*args, **kwargs)
            if found is not None and (out := self._cut(*found)) is not None:
                return out
        if func in _WITHIN:
            with self:
                return _opened(func)(*args, **kwargs)
        return func(*args, **kwargs)

    def _is_of_another(self) -> bool:
        """Whether a backward runs that is not this chunk's: of an F&B, whose checkpoints compute another forward."""
        return not self.in_backward and torch._C._current_graph_task_id() != -1

    def _cut(self, layer: Layer, x: Tensor, weight: Any, bias: Any) -> Tensor | None:
        """The call with its weights off the graph; None where it must run as it is."""
        weights = _weight(weight), _weight(bias)
        pairs = zip(weights, (weight, bias), strict=True)
        computed = any(of is None and isinstance(given, Tensor) and given.requires_grad for of, given in pairs)
        if weights == (None, None) or computed or x.is_complex():
            return None
        if layer.follows_autocast and torch.is_autocast_enabled(x.device.type):
            x = _autocast(x)
        anchor = None if x.requires_grad else self.anchor
        taken = None if bias is None else bias.detach()
        cut = (self, self.label, layer, weights)
        return _Cut.apply(anchor, cut, x, weight.detach(), taken)  # type: ignore[no-untyped-call]


#: A tensor's hooks of one kind, and what stood in them.
Hooks = tuple[dict[int, Any], dict[int, Any]]


def without_hooks(leaf: Tensor) -> list[Hooks]:
    """Takes the tensor's hooks away; `with_hooks` gives each back."""
    found: list[Hooks] = []
    for hooks in (leaf._backward_hooks, leaf._post_accumulate_grad_hooks):
        if hooks:
            found.append((hooks, dict(hooks)))
            hooks.clear()
    return found


def with_hooks(taken: Hooks) -> None:
    hooks, held = taken
    hooks.update(held)


class _Cut(Function):
    """A layer whose weights are not on the graph. anchor: requires a gradient where the input does not."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor | None, cut: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.cut = cut
        if cut[2].follows_autocast and torch.is_autocast_enabled(x.device.type):
            weight, bias = _autocast(weight), None if bias is None else _autocast(bias)
        ctx.save_for_backward(x, weight)
        return cut[2].forward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        splitting, label, layer, weights = ctx.cut
        if not splitting.in_backward:
            raise ScheduleError(
                "autograd came through a layer outside of I. A module that differentiates within its forward, or "
                "returns tensors outside of tuples, lists and dicts, cannot be split: give split=False, or a "
                "schedule with B."
            )
        x, weight = ctx.saved_tensors
        asked = (weights[0] is not None, weights[1] is not None)
        gradients = partial(layer.weight_grads, grad, x, weight=weight, asked=asked)
        splitting.store.keep(splitting.key, Kept.of(weights, gradients, (grad, x), label))
        return None, None, layer.input_grad(grad, x, weight) if ctx.needs_input_grad[2] else None, None, None


def defer_weight_grad(gradient: Callable[[], Tensor], weight: Tensor) -> Tensor | None:
    """For the backward of a `torch.autograd.Function` of your own: what to return as the gradient of this weight.

    While an I runs, it is None, and W calls `gradient()`; at any other time it is `gradient()`:

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight, defer_weight_grad(lambda: grad.t() @ x, weight)
    """
    modes = (mode for mode in _get_current_function_mode_stack() if isinstance(mode, Splitting) and mode.in_backward)
    splitting, of = next(modes, None), _weight(weight)
    if splitting is None or of is None:
        return gradient()
    splitting.silence(of.leaf)
    cells = (cell.cell_contents for cell in getattr(gradient, "__closure__", None) or ())
    held = [value for value in cells if isinstance(value, Tensor) and value is not weight]
    splitting.store.keep(splitting.key, Kept.of((of,), lambda: (gradient(),), held, splitting.label))
    return None


def _weight(value: Any) -> Weight | None:
    """A parameter that learns, or a view of one; None for all else."""
    if not isinstance(value, Tensor) or not value.requires_grad:
        return None
    if isinstance(value, nn.Parameter):
        return Weight(value) if value.is_leaf else None
    base = value._base
    if not isinstance(base, nn.Parameter) or not base.is_leaf or not base.is_contiguous():
        return None
    if base.dtype != value.dtype or value.is_conj() or _overlaps(value):
        return None
    return Weight(base, (value.shape, value.stride(), int(value.storage_offset() - base.storage_offset())))


def _overlaps(view: Tensor) -> bool:
    """Whether elements may share memory, as an expanded weight's do: their gradients cannot be added to in place."""
    reach = 0  # of the smaller steps together
    for step, size in sorted(zip(view.stride(), view.shape, strict=True)):
        if size > 1 and step <= reach:
            return True
        reach += step * (size - 1)
    return False


def _autocast(value: Tensor) -> Tensor:
    """What autocast makes of the input of a layer."""
    is_cast = value.is_floating_point() and value.dtype != torch.float64
    return value.to(torch.get_autocast_dtype(value.device.type)) if is_cast else value


def _transformed() -> bool:
    """vmap, grad and their like of torch.func do not take functions such as `_Cut`."""
    return torch._C._functorch.maybe_current_level() is not None


# Of the arguments of each call: the layer, its input, weight and bias; None where the call must run as it is.
_Found = tuple[Layer, Tensor, Any, Any] | None


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> _Found:
    return Linear(), input, weight, bias


def _matmul(input: Tensor, other: Any) -> _Found:
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        if other.dim() == 2 and input.dim() >= 1:
            return MatMul(), input, other, None
        if other.dim() == input.dim() == 3 and other.shape[0] == input.shape[0]:
            return Batched(), input, other, None
    return None


def _addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> _Found:
    return (MatMul(), mat1, mat2, input) if beta == alpha == 1 and input.dim() == 1 else None


def _baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> _Found:
    fits = input.dim() == 3 and input.shape[::2] == (batch2.shape[0], batch2.shape[2]) and input.shape[1] == 1
    return (Batched(), batch1, batch2, input) if fits and beta == alpha == 1 else None


def _grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> _Found:
    fits = mat_a.dim() == 2 and mat_b.dim() == 3 and offs is not None and bias is None and out_dtype is None
    return (Grouped(offs), mat_a, mat_b, None) if fits and offs is not None else None


def _embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> _Found:  # fmt: skip
    if max_norm is not None:  # it changes the weight
        return None
    padding_idx = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return Embedding(padding_idx, scale_grad_by_freq, sparse), input, weight, None


def _convolution(num: int, transposed: bool) -> Callable[..., _Found]:
    def cut(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> _Found:  # fmt: skip
        dilation = _each(dilation, num)
        if padding == "same":
            totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
            padding = [total // 2 for total in totals]
            if any(total % 2 for total in totals):  # torch pads the input first
                return None
        if input.dim() != num + 2:
            return None
        sides = [0] * num if padding == "valid" else _each(padding, num)
        layer = Convolution(_each(stride, num), sides, dilation, transposed, _each(output_padding, num), groups)
        return layer, input, weight, bias

    if transposed:
        return cut
    return lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: cut(
        input, weight, bias, stride, padding, 0, groups, dilation
    )


def _each(value: Any, num: int) -> Sequence[int]:
    return [value] * num if isinstance(value, int) else list(value) * (num if len(value) == 1 else 1)


_GROUPED = ((F, "grouped_mm"), (torch, "_grouped_mm"))

_CUTS: dict[Any, Callable[..., _Found]] = {
    F.linear: _linear,
    F.embedding: _embedding,
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), _matmul),
    **dict.fromkeys((torch.mm, Tensor.mm, torch.bmm, Tensor.bmm), _matmul),
    **dict.fromkeys((torch.addmm, Tensor.addmm), _addmm),
    **dict.fromkeys((torch.baddbmm, Tensor.baddbmm), _baddbmm),
    **{getattr(F, f"conv{num}d"): _convolution(num, False) for num in (1, 2, 3)},
    **{getattr(F, f"conv_transpose{num}d"): _convolution(num, True) for num in (1, 2, 3)},
    **{getattr(home, name): _grouped_mm for home, name in _GROUPED if hasattr(home, name)},
}  # fmt: skip

#: Functions written in Python that a mode is shown whole, and whose own calls it must see as well.
_WITHIN = {F.multi_head_attention_forward, torch.autograd.backward, Tensor.backward}


@cache
def _opened(func: FunctionType) -> FunctionType:
    """The function without its question whether a mode wants to see it: it has been asked, and would be forever."""
    asked = {name: (lambda *_: False) for name in func.__globals__ if name.startswith("has_torch_function")}
    opened = FunctionType(func.__code__, func.__globals__ | asked, func.__name__, func.__defaults__, func.__closure__)
    opened.__kwdefaults__ = func.__kwdefaults__
    return opened
