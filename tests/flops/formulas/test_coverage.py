"""No common module, function, loss or optimizer runs an operator that weftrace does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Status
from weftrace.flops.runtime.formulas.fallback import fallback_rule
from weftrace.flops.runtime.formulas.operators import operator, rule_of

VECTOR, IMAGE, VOLUME = (4, 6), (2, 4, 8, 8), (2, 4, 4, 4, 4)
ROWS = (2, 4, 8)


def _module(build: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Callable[[], object]:
    def run() -> object:
        torch.manual_seed(0)
        module = build()
        inputs = [torch.rand(shape, requires_grad=True) for shape in shapes]
        out = module(*inputs)
        while isinstance(out, tuple):
            out = out[0]
        if out.requires_grad:
            (out * torch.rand_like(out)).sum().backward()
        return out

    return run


ACTIVATIONS = """
    ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Hardtanh Hardsigmoid Hardswish
    Hardshrink Softshrink Softplus Softsign PReLU RReLU GLU Softmax LogSoftmax Softmin Dropout Dropout1d AlphaDropout
    FeatureAlphaDropout Identity Flatten
"""
MODULES: dict[str, Callable[[], object]] = {
    name: _module(getattr(nn, name), VECTOR) for name in ACTIVATIONS.split()
} | {
    "Threshold": _module(lambda: nn.Threshold(0.1, 2.0), VECTOR),
    "GELU tanh": _module(lambda: nn.GELU("tanh"), VECTOR),
    "Softmax2d": _module(nn.Softmax2d, IMAGE),
    "Dropout2d": _module(nn.Dropout2d, IMAGE),
    "Dropout3d": _module(nn.Dropout3d, VOLUME),
    "LayerNorm": _module(lambda: nn.LayerNorm(6), VECTOR),
    "RMSNorm": _module(lambda: nn.RMSNorm(6), VECTOR),
    "GroupNorm": _module(lambda: nn.GroupNorm(2, 4), IMAGE),
    "BatchNorm1d": _module(lambda: nn.BatchNorm1d(6), VECTOR),
    "BatchNorm2d": _module(lambda: nn.BatchNorm2d(4), IMAGE),
    "BatchNorm2d eval": _module(lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    "BatchNorm3d": _module(lambda: nn.BatchNorm3d(4), VOLUME),
    "InstanceNorm2d": _module(lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "LocalResponseNorm": _module(lambda: nn.LocalResponseNorm(2), IMAGE),
    "MaxPool1d": _module(lambda: nn.MaxPool1d(2), ROWS),
    "MaxPool2d": _module(lambda: nn.MaxPool2d(2), IMAGE),
    "MaxPool3d": _module(lambda: nn.MaxPool3d(2), VOLUME),
    "AvgPool1d": _module(lambda: nn.AvgPool1d(2), ROWS),
    "AvgPool2d": _module(lambda: nn.AvgPool2d(2), IMAGE),
    "AvgPool3d": _module(lambda: nn.AvgPool3d(2), VOLUME),
    "LPPool2d": _module(lambda: nn.LPPool2d(2, 2), IMAGE),
    "FractionalMaxPool2d": _module(lambda: nn.FractionalMaxPool2d(2, output_size=3), IMAGE),
    "AdaptiveAvgPool1d": _module(lambda: nn.AdaptiveAvgPool1d(3), ROWS),
    "AdaptiveAvgPool2d": _module(lambda: nn.AdaptiveAvgPool2d(3), IMAGE),
    "AdaptiveAvgPool2d to one": _module(lambda: nn.AdaptiveAvgPool2d(1), IMAGE),
    "AdaptiveAvgPool3d": _module(lambda: nn.AdaptiveAvgPool3d(3), VOLUME),
    "AdaptiveMaxPool1d": _module(lambda: nn.AdaptiveMaxPool1d(3), ROWS),
    "AdaptiveMaxPool2d": _module(lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
    "AdaptiveMaxPool3d": _module(lambda: nn.AdaptiveMaxPool3d(3), VOLUME),
    "Upsample nearest": _module(lambda: nn.Upsample(scale_factor=2), IMAGE),
    "Upsample linear": _module(lambda: nn.Upsample(scale_factor=2, mode="linear"), ROWS),
    "Upsample bilinear": _module(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "Upsample bicubic": _module(lambda: nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "Upsample trilinear": _module(lambda: nn.Upsample(scale_factor=2, mode="trilinear"), VOLUME),
    "PixelShuffle": _module(lambda: nn.PixelShuffle(2), IMAGE),
    "PixelUnshuffle": _module(lambda: nn.PixelUnshuffle(2), IMAGE),
    "ChannelShuffle": _module(lambda: nn.ChannelShuffle(2), IMAGE),
    "Fold": _module(lambda: nn.Fold((4, 4), 2), (2, 16, 9)),
    "Unfold": _module(lambda: nn.Unfold(2), IMAGE),
    "ZeroPad2d": _module(lambda: nn.ZeroPad2d(1), IMAGE),
    "ReflectionPad1d": _module(lambda: nn.ReflectionPad1d(1), ROWS),
    "ReflectionPad2d": _module(lambda: nn.ReflectionPad2d(1), IMAGE),
    "ReflectionPad3d": _module(lambda: nn.ReflectionPad3d(1), VOLUME),
    "ReplicationPad2d": _module(lambda: nn.ReplicationPad2d(1), IMAGE),
    "CircularPad2d": _module(lambda: nn.CircularPad2d(1), IMAGE),
    "CosineSimilarity": _module(nn.CosineSimilarity, VECTOR, VECTOR),
    "PairwiseDistance": _module(nn.PairwiseDistance, VECTOR, VECTOR),
    "Linear": _module(lambda: nn.Linear(6, 3), VECTOR),
    "Conv2d": _module(lambda: nn.Conv2d(4, 6, 3, groups=2), IMAGE),
    "ConvTranspose2d": _module(lambda: nn.ConvTranspose2d(4, 6, 3), IMAGE),
    "MultiheadAttention": _module(lambda: nn.MultiheadAttention(8, 2), ROWS, ROWS, ROWS),
    "TransformerEncoderLayer": _module(lambda: nn.TransformerEncoderLayer(8, 2, 16), ROWS),
    "TransformerDecoderLayer": _module(lambda: nn.TransformerDecoderLayer(8, 2, 16), ROWS, ROWS),
    "weight norm": _module(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), VECTOR),
    "spectral norm": _module(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3)), VECTOR),
}


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_known(name: str) -> None:
    counted = count_op(MODULES[name])
    assert counted.unknown() == [] and counted.failures == {}


def _leaf(*shape: int) -> Tensor:
    return torch.rand(*shape, requires_grad=True)


FUNCTIONS: dict[str, Callable[[], Any]] = {
    "cross_entropy": lambda: F.cross_entropy(_leaf(4, 5), torch.arange(4)),
    "cross_entropy of probabilities": lambda: F.cross_entropy(_leaf(4, 5), torch.rand(4, 5), label_smoothing=0.1),
    "cross_entropy of pictures": lambda: F.cross_entropy(_leaf(2, 5, 3, 3), torch.ones(2, 3, 3, dtype=torch.int64)),
    "nll_loss": lambda: F.nll_loss(_leaf(4, 5), torch.arange(4), weight=torch.ones(5)),
    "mse_loss": lambda: F.mse_loss(_leaf(4, 5), torch.rand(4, 5)),
    "l1_loss": lambda: F.l1_loss(_leaf(4, 5), torch.rand(4, 5)),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(_leaf(4, 5), torch.rand(4, 5)),
    "huber_loss": lambda: F.huber_loss(_leaf(4, 5), torch.rand(4, 5)),
    "kl_div": lambda: F.kl_div(_leaf(4, 5), torch.rand(4, 5), reduction="batchmean"),
    "bce": lambda: F.binary_cross_entropy(_leaf(4, 5), torch.rand(4, 5)),
    "bce with logits": lambda: F.binary_cross_entropy_with_logits(_leaf(4, 5), torch.rand(4, 5)),
    "poisson": lambda: F.poisson_nll_loss(_leaf(4, 5), torch.rand(4, 5)),
    "gaussian": lambda: F.gaussian_nll_loss(_leaf(4, 5), torch.rand(4, 5), torch.rand(4, 5) + 1),
    "hinge": lambda: F.hinge_embedding_loss(_leaf(4), torch.tensor([1.0, -1, 1, -1])),
    "margin": lambda: F.margin_ranking_loss(_leaf(4), _leaf(4), torch.ones(4)),
    "multi margin": lambda: F.multi_margin_loss(_leaf(4, 5), torch.arange(4)),
    "multilabel margin": lambda: F.multilabel_margin_loss(_leaf(4, 5), torch.zeros(4, 5, dtype=torch.int64)),
    "multilabel soft margin": lambda: F.multilabel_soft_margin_loss(_leaf(4, 5), torch.ones(4, 5)),
    "soft margin": lambda: F.soft_margin_loss(_leaf(4, 5), torch.ones(4, 5)),
    "triplet": lambda: F.triplet_margin_loss(_leaf(4, 5), _leaf(4, 5), _leaf(4, 5)),
    "cosine": lambda: F.cosine_embedding_loss(_leaf(4, 5), _leaf(4, 5), torch.ones(4)),
    "ctc": lambda: F.ctc_loss(
        _leaf(6, 2, 5).log_softmax(2), torch.ones(2, 3, dtype=torch.int64), torch.tensor([6, 6]), torch.tensor([3, 2])
    ),
    "embedding": lambda: F.embedding(torch.arange(4), _leaf(9, 3)),
    "embedding_bag": lambda: F.embedding_bag(torch.arange(4), _leaf(9, 3), torch.tensor([0, 2]), mode="mean"),
    "embedding_bag max": lambda: F.embedding_bag(torch.arange(4), _leaf(9, 3), torch.tensor([0, 2]), mode="max"),
    "one_hot": lambda: F.one_hot(torch.arange(4)),
    "normalize": lambda: F.normalize(_leaf(4, 5)),
    "gumbel": lambda: F.gumbel_softmax(_leaf(4, 5)),
    "grid_sample": lambda: F.grid_sample(_leaf(2, 3, 4, 4), _leaf(2, 5, 5, 2)),
    "affine_grid": lambda: F.affine_grid(_leaf(2, 2, 3), [2, 3, 4, 4]),
    "antialias": lambda: F.interpolate(_leaf(2, 3, 8, 8), (4, 4), mode="bilinear", antialias=True),
    "area": lambda: F.interpolate(_leaf(2, 3, 8, 8), (4, 4), mode="area"),
    "pdist": lambda: F.pdist(_leaf(4, 5)),
    "cdist": lambda: torch.cdist(_leaf(4, 5), _leaf(3, 5)),
    "sdpa": lambda: F.scaled_dot_product_attention(_leaf(1, 2, 4, 8), _leaf(1, 2, 4, 8), _leaf(1, 2, 4, 8)),
    "sdpa math": lambda: F.scaled_dot_product_attention(
        _leaf(1, 2, 4, 8), _leaf(1, 2, 4, 8), _leaf(1, 2, 4, 3), is_causal=True, dropout_p=0.1
    ),
    "rotary": lambda: (
        torch.cat((-_leaf(4, 8).chunk(2, -1)[1], _leaf(4, 4)), -1) * torch.outer(_leaf(4), _leaf(8)).cos()
    ),
    "router": lambda: torch.zeros(4, 8).scatter(1, _leaf(4, 8).topk(2).indices, _leaf(4, 2)).softmax(-1).sum(0),
    "experts": lambda: torch.zeros(4, 8).index_add(0, torch.tensor([0, 2]), _leaf(4, 8)[torch.tensor([1, 3])]),
    "counts": lambda: torch.bincount(torch.tensor([1, 2, 2]), minlength=4).cumsum(0).float(),
    "masks": lambda: _leaf(4, 4).masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), float("-inf")).softmax(-1),
    "where": lambda: torch.where(torch.rand(4) > 0.5, _leaf(4), _leaf(4).nonzero().numel()),
    "sorting": lambda: _leaf(4, 5).sort(-1).values + _leaf(4, 5).argsort(-1) + _leaf(4, 5).median(),
    "statistics": lambda: (
        _leaf(4, 5).std() + _leaf(4, 5).var(0).sum() + _leaf(4, 5).logsumexp(0).sum() + _leaf(3).prod()
    ),
    "extrema": lambda: _leaf(4, 5).max(0).values.sum() + _leaf(4, 5).amin() + _leaf(4, 5).argmax() + _leaf(3).min(),
    "scans": lambda: _leaf(5).cumprod(0) + _leaf(5).logcumsumexp(0) + _leaf(5).cummax(0).values,
    "moves": lambda: torch.stack([_leaf(3), _leaf(3)]).flip(0).roll(1).repeat(2, 1).tril().repeat_interleave(2, 0),
    "writes": lambda: torch.zeros(4, 4).index_fill_(0, torch.tensor([1]), 2.0).fill_diagonal_(1).clamp_(0, 1),
    "gathers": lambda: (
        _leaf(4, 5).gather(1, torch.zeros(4, 2, dtype=torch.int64)) + _leaf(4).take(torch.tensor([0, 1]))
    ),
    "puts": lambda: torch.zeros(4).index_put((torch.tensor([0, 0]),), _leaf(2), accumulate=True),
    "complex": lambda: torch.view_as_complex(_leaf(4, 2)).mul(torch.polar(_leaf(4), _leaf(4))).abs(),
    "search": lambda: torch.bucketize(torch.rand(4), torch.linspace(0, 1, 5)).float(),
    "unique": lambda: torch.unique(torch.tensor([1, 2, 2])),
    "clip norm": lambda: nn.utils.clip_grad_norm_([_with_grad(3), _with_grad(4)], 1.0),
    "clip value": lambda: nn.utils.clip_grad_value_([_with_grad(3), _with_grad(4)], 1.0),
    "cast": lambda: _leaf(3).bfloat16().float().double().half().to(torch.float32),
    "logic": lambda: ((_leaf(3) > 0.5) & ~(_leaf(3) < 0.2)).logical_xor(torch.tensor(True)).any(),
    "einsum": lambda: torch.einsum("bij,bjk->bik", _leaf(2, 3, 4), _leaf(2, 4, 5)),
}


def _with_grad(size: int) -> Tensor:
    tensor = _leaf(size)
    tensor.grad = torch.rand(size)
    return tensor


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_known(name: str) -> None:
    def code() -> object:
        out = FUNCTIONS[name]()
        if isinstance(out, Tensor) and out.requires_grad:
            out.sum().abs().backward()
        return out

    counted = count_op(code)
    assert counted.unknown() == [] and counted.failures == {}


OPTIMIZERS: dict[str, tuple[dict[str, Any], ...]] = {
    "SGD": ({"foreach": False}, {"foreach": True, "momentum": 0.9, "nesterov": True}, {"fused": True, "momentum": 0.9}),
    "Adam": ({"foreach": False}, {"foreach": True, "amsgrad": True, "weight_decay": 0.1}, {"fused": True}),
    "AdamW": ({"foreach": False}, {"foreach": True}, {"fused": True, "amsgrad": True}),
    "Adagrad": ({"foreach": False}, {"foreach": True}, {"fused": True}),
    "Adadelta": ({"foreach": False}, {"foreach": True}),
    "Adamax": ({"foreach": False}, {"foreach": True}),
    "ASGD": ({"foreach": False}, {"foreach": True}),
    "NAdam": ({"foreach": False}, {"foreach": True}),
    "RAdam": ({"foreach": False}, {"foreach": True}),
    "RMSprop": ({"foreach": False, "centered": True}, {"foreach": True, "momentum": 0.5}),
    "Rprop": ({"foreach": False}, {"foreach": True}),
    "Adafactor": ({"foreach": False}, {"foreach": True}),
    "LBFGS": ({},),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_known(name: str) -> None:
    for settings in OPTIMIZERS[name]:
        layer = nn.Linear(4, 3)
        optimizer = getattr(torch.optim, name)(layer.parameters(), lr=0.1, **settings)

        def step(layer: nn.Linear = layer, optimizer: torch.optim.Optimizer = optimizer) -> None:
            for _ in range(2):

                def closure() -> float:
                    optimizer.zero_grad(set_to_none=False)
                    loss = layer(torch.ones(2, 4)).square().sum()
                    loss.backward()
                    return float(loss)

                optimizer.step(closure)

        counted = count_op(step)
        assert counted.unknown() == [] and counted.failures == {}, settings


def test_what_torch_says_of_an_operator_that_nobody_wrote_a_formula_for() -> None:
    airy = fallback_rule(torch.ops.aten.special_airy_ai.default)
    view = fallback_rule(torch.ops.aten.view_as_real.default)
    assert airy is not None and view is not None
    counted = count_op(lambda: torch.special.airy_ai(torch.ones(3, 5)))
    op = counted.op("special_airy_ai")
    assert (op.cost.vector_flops, op.cost.status) == (15, Status.ESTIMATE) and "pointwise" in op.cost.note
    assert fallback_rule(torch.ops.aten.mm.default) is None
    assert fallback_rule(torch.ops.higher_order.cond) is None
    assert fallback_rule(torch.ops.aten.special_bessel_j0.default) is not None


def test_most_of_torchs_operators_have_a_formula() -> None:
    """Of those that are not made of others: the rest is quantisation, sparse layouts and what single backends have."""
    known, missing = 0, []
    for full in torch._C._dispatch_get_all_op_names():
        op = operator(full)
        if not full.startswith("aten::") or not isinstance(op, torch._ops.OpOverload):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
            continue
        if rule_of(op) is not None or fallback_rule(op) is not None:
            known += 1
        else:
            missing.append(full)
    assert known > 0.9 * (known + len(missing)), missing


def test_views_are_free() -> None:
    leaf = torch.ones(4, 6)
    counted = count_op(lambda: leaf.view(2, 12).t().unsqueeze(0).expand(3, 12, 2)[1].detach())
    assert not counted.ops  # not even listed
