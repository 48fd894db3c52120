"""Does a module's backward, cut in I and W, give what the full backward gives? What does the cut hold and repeat?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from weftrace.notebook import InNotebook
from weftrace.pipeline.runtime.split.engine import StageEngine
from weftrace.pipeline.runtime.split.instrument import with_hooks, without_hooks
from weftrace.pipeline.runtime.split.store import bytes_of
from weftrace.pipeline.runtime.split.values import has_gradient, leaves_of, mapped
from weftrace.units import percent, size


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SplitCheck(InNotebook):
    """F, I, W of a module beside its F and full backward, on the same inputs, random numbers and output gradients.

    parameters: a row a parameter that learns: parameter, full (whether the full backward gives it a gradient), at_i and
    at_w (whether I and W give it one), difference (the largest of an element; null where one of the two has none).
    input_difference: the largest over the gradients of the inputs. recomputed: a row a module that ran again: module,
    forward, in_full, in_i, in_w: its calls in F, in the full backward, in I and in W.
    saved_bytes: what autograd saves in a plain forward, storages once, without parameters and buffers. held_bytes: what
    is held from I to W, storages once.
    """

    parameters: pl.DataFrame
    input_difference: float
    recomputed: pl.DataFrame
    saved_bytes: int
    held_bytes: int

    @property
    def missing(self) -> list[str]:
        """Parameters to which the full backward gives a gradient, and I and W none."""
        return self._named(pl.col("full") & ~pl.col("at_i") & ~pl.col("at_w"))

    @property
    def at_i(self) -> list[str]:
        """Parameters whose gradient, or a part of it, is there already after I: these are not split."""
        return self._named(pl.col("at_i"))

    @property
    def difference(self) -> float:
        """The largest of all: 0.0 where the cut gives the same bits."""
        return max(self.input_difference, self.parameters.get_column("difference").max() or 0.0)  # type: ignore[return-value]

    @property
    def held_share(self) -> float | None:
        """Held from I to W, of what the forward saves."""
        return self.held_bytes / self.saved_bytes if self.saved_bytes else None

    def _named(self, which: pl.Expr) -> list[str]:
        return self.parameters.filter(which).get_column("parameter").to_list()

    def _describe(self) -> Iterator[tuple[str, str]]:
        count = int(self.parameters.get_column("full").sum())
        parts = set(self._named(pl.col("at_i") & pl.col("at_w")))
        yield "gradients", f"{count - len(self.missing):,} of {count:,}, largest difference {self.difference:g}"
        yield "missing", ", ".join(self.missing) or "none"
        yield "at I already", ", ".join(f"{name} (a part)" if name in parts else name for name in self.at_i) or "none"
        yield (
            "held from I to W",
            f"{size(self.held_bytes)}, {percent(self.held_share)} of the bytes that the forward saves",
        )
        for module, _, full, in_i, in_w in self.recomputed.iter_rows():
            yield f"{module} runs again", f"{full} in a full backward, {in_i} at I, {in_w} at W"


def verify_split(module: nn.Module, example_inputs: Any, *, seed: int = 0) -> SplitCheck:
    """Runs F, full backward, F, I and W, and compares. The module is left as it was: gradients, buffers, random state.

    example_inputs: as `StageEngine.forward` takes them; those of floating point, or complex, are asked for a gradient.
    Outputs get random gradients. Hooks of parameters are not called, and `main_grad` is not touched. A module that
    communicates does so: all its ranks must call this together.
    """
    found = {name: p for name, p in module.named_parameters() if p.requires_grad}
    with _counted(module) as calls:
        with _untouched(module):
            full = _gradients(module, example_inputs, seed, calls, split=False)
        with _untouched(module):
            cut = _gradients(module, example_inputs, seed, calls, split=True)
    rows = [
        {
            "parameter": name,
            "full": full.last[name] is not None,
            "at_i": cut.first[name] is not None,
            "at_w": cut.last[name] is not None and not _same(cut.first[name], cut.last[name]),
            "difference": _difference(full.last[name], cut.last[name]),
        }
        for name in found
    ]
    schema = {
        "parameter": pl.String(), "full": pl.Boolean(), "at_i": pl.Boolean(), "at_w": pl.Boolean(),
        "difference": pl.Float64(),
    }  # fmt: skip
    pairs = zip(leaves_of(full.inputs), leaves_of(cut.inputs), strict=True)
    differences = [_difference(*pair) for pair in pairs]
    return SplitCheck(
        parameters=pl.DataFrame(rows, schema=schema),
        input_difference=max((each for each in differences if each is not None), default=0.0),
        recomputed=_recomputed(calls),
        saved_bytes=full.saved_bytes,
        held_bytes=cut.held_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Gradients:
    """inputs: their gradients. first, last: the parameters', after I and after W (both after a full backward)."""

    inputs: Any
    first: dict[str, Tensor | None]
    last: dict[str, Tensor | None]
    saved_bytes: int
    held_bytes: int


def _gradients(module: nn.Module, inputs: Any, seed: int, calls: dict[str, Counter[str]], *, split: bool) -> _Gradients:
    parameters = dict(module.named_parameters())
    own = {t.untyped_storage().data_ptr() for t in (*parameters.values(), *module.buffers())}
    saved: list[Tensor] = []

    def seen(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            saved.append(tensor.detach())
        return tensor

    def now(part: str) -> None:
        calls["part"] = Counter({part: 1})

    engine = StageEngine(module, 0)
    for parameter in parameters.values():
        parameter.grad = None
    torch.manual_seed(seed)
    now("forward" if split else "")
    with saved_tensors_hooks(seen, lambda tensor: tensor):
        outputs = engine.forward(0, mapped(inputs, _asked), split=split)
    saved_bytes = bytes_of(saved)
    saved.clear()
    grads = mapped(outputs, lambda out: torch.randn_like(out) if has_gradient(out) else None)
    now("in_i" if split else "in_full")
    given = engine.input_grad(0, grads) if split else engine.backward(0, grads)
    first = {name: None if p.grad is None else p.grad.clone() for name, p in parameters.items()}
    held_bytes = engine.store.held_bytes((0, 0))
    now("in_w")
    if split:
        engine.weight_grad(0)
    last = {name: parameter.grad for name, parameter in parameters.items()}
    return _Gradients(given, first, last, saved_bytes, held_bytes)


@contextmanager
def _untouched(module: nn.Module) -> Iterator[None]:
    """Gradients, `main_grad`, hooks, buffers and random numbers are afterwards what they were."""
    parameters = list(module.parameters())
    grads = [parameter.grad for parameter in parameters]
    main = [parameter.__dict__.pop("main_grad", None) for parameter in parameters]
    hooks = [taken for parameter in parameters for taken in without_hooks(parameter)]
    buffers = [buffer.clone() for buffer in module.buffers()]
    devices = {tensor.device for tensor in (*parameters, *buffers) if tensor.device.type == "cuda"}
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        for taken in hooks:
            with_hooks(taken)
        for parameter, grad, held in zip(parameters, grads, main, strict=True):
            parameter.grad = grad
            if held is not None:
                parameter.main_grad = held  # type: ignore[attr-defined]
        with torch.no_grad():
            for buffer, before in zip(module.buffers(), buffers, strict=True):
                buffer.copy_(before)


@contextmanager
def _counted(module: nn.Module) -> Iterator[dict[str, Counter[str]]]:
    """Calls of each module below, by what runs: calls["part"] names it."""
    calls: dict[str, Counter[str]] = {"part": Counter()}

    def count(name: str) -> Any:
        return lambda *_: calls.setdefault(name, Counter()).update(calls["part"])

    handles = [part.register_forward_pre_hook(count(name)) for name, part in module.named_modules() if name]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _recomputed(calls: dict[str, Counter[str]]) -> pl.DataFrame:
    """The outermost modules that ran again."""
    parts = ("forward", "in_full", "in_i", "in_w")
    again = {name: counts for name, counts in calls.items() if name != "part" and any(counts[p] for p in parts[1:])}
    outer = {name: counts for name, counts in again.items() if name.rpartition(".")[0] not in again}
    rows = [{"module": name, **{part: counts[part] for part in parts}} for name, counts in outer.items()]
    return pl.DataFrame(rows, schema={"module": pl.String(), **dict.fromkeys(parts, pl.Int64())})


def _asked(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.detach().clone().requires_grad_(leaf.is_floating_point() or leaf.is_complex())
    return leaf


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and _difference(one, other) == 0


def _difference(one: Tensor | None, other: Tensor | None) -> float | None:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return None
    apart = (one - other).to_dense().abs()
    return float(apart.max()) if apart.numel() else 0.0
