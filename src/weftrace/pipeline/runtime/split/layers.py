"""Layers whose backward can be cut in two: what each computes, its input's gradient, its weights' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from weftrace.pipeline.runtime.split.store import Gradients

#: The grouped product, by the names that versions of torch have for it; None where it has none.
grouped_mm: Any = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
Asked = tuple[bool, bool]  # whether gradients of weight and of bias are asked for


class Layer(Protocol):
    """y = forward(x, weight, bias). The gradients are computed by the same kernels as autograd's own."""

    @property
    def follows_autocast(self) -> bool:
        """Whether autocast gives it inputs of lower precision."""
        ...

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor: ...

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor: ...

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        """Gradients of weight and bias, None where not asked for. Of weight, its shape and layout count."""
        ...


class Linear:
    """y = x Wᵀ + b over the last dimension."""

    follows_autocast = True

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if x.dim() < 3 or x.is_contiguous():
            return F.linear(x, weight, bias)
        folded = _folded(x, weight.t())  # as torch does where the input requires a gradient, which it does not in here
        return folded if bias is None else folded + bias

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        return _rows(grad).mm(weight).view(x.shape)

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        rows = _rows(grad)
        return (rows.t().mm(_rows(x)) if asked[0] else None, rows.sum(0) if asked[1] else None)


class MatMul:
    """y = x W + b, a product with a matrix of weights."""

    follows_autocast = True

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if bias is not None:
            return torch.addmm(bias, x, weight)
        return torch.matmul(x, weight) if x.dim() < 3 else _folded(x, weight)

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        return _rows(grad).mm(weight.t()).view(x.shape)

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        rows, columns = _rows(grad), _rows(x)
        if not asked[0]:
            made = None
        elif weight.stride(0) == 1:  # autograd keeps the layout of the weight, and so the order of the sums
            made = rows.t().mm(columns).t()
        else:
            made = columns.t().mm(rows)
        return made, (rows.sum_to_size(grad.shape[-1:]) if asked[1] else None)


class Batched:
    """y[e] = x[e] W[e] + b[e]: a matrix of weights for each expert, as many rows for each."""

    follows_autocast = True

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        return grad.bmm(weight.transpose(1, 2))

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        bias = grad.sum(1, keepdim=True) if asked[1] else None
        return (x.transpose(1, 2).bmm(grad) if asked[0] else None, bias)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of x up to ends[e] times W[e]: a matrix of weights for each expert, rows as they come."""

    ends: Tensor
    follows_autocast: ClassVar[bool] = False

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return grouped_mm(x, weight, offs=self.ends)

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        return grouped_mm(grad, weight.transpose(-2, -1), offs=self.ends)

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        if weight.stride(-2) == 1:
            return grouped_mm(grad.transpose(-2, -1), x, offs=self.ends).transpose(-2, -1), None
        return grouped_mm(x.transpose(-2, -1), grad, offs=self.ends), None


@dataclass(frozen=True, slots=True)
class Convolution:
    """Conv1d, 2d, 3d and their transposed forms."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int
    follows_autocast: ClassVar[bool] = True

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.convolution(x, weight, bias, *self._how())

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        (made, *_) = self._backward(grad, x, weight, (True, False, False))
        assert made is not None
        return made

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        return self._backward(grad, x, weight, (False, *asked))[1:]

    def _backward(self, grad: Tensor, x: Tensor, weight: Tensor, asked: tuple[bool, bool, bool]) -> Gradients:
        sizes = [grad.shape[1]] if asked[2] else [0]
        return torch.ops.aten.convolution_backward(grad, x, weight, sizes, *self._how(), list(asked))

    def _how(self) -> tuple[Any, ...]:
        return (self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Rows of a table; x holds their numbers and has no gradient."""

    padding_idx: int
    scale_grad_by_freq: bool
    sparse: bool
    follows_autocast: ClassVar[bool] = False

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.embedding(weight, x, self.padding_idx, self.scale_grad_by_freq, self.sparse)

    def input_grad(self, grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        raise AssertionError("numbers of rows have no gradient")

    def weight_grads(self, grad: Tensor, x: Tensor, weight: Tensor, asked: Asked) -> Gradients:
        how = (weight.shape[0], self.padding_idx, self.scale_grad_by_freq, self.sparse)
        return torch.ops.aten.embedding_backward(grad, x, *how), None


def _folded(x: Tensor, matrix: Tensor) -> Tensor:
    return _rows(x).mm(matrix).view(*x.shape[:-1], matrix.shape[1])


def _rows(value: Tensor) -> Tensor:
    return value.reshape(-1, value.shape[-1])
