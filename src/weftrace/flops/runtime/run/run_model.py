"""Run a model as a `RunSpec` says and report its cost: built-in ones, Hugging Face's by config, the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from weftrace.costs.cost import WHOLE_CACHE, Kind, Status
from weftrace.errors import FlopsError, SpecError
from weftrace.flops.run_spec import RunSpec, model_kind
from weftrace.flops.runtime.profile import profile
from weftrace.flops.runtime.run.hf_config import read_config
from weftrace.flops.runtime.run.load_model import one_line, told_in_words
from weftrace.flops.runtime.run.prepare_model import Ready, built_in, device_of_spec, from_config, users_own
from weftrace.flops.values import FlopsReport, OpCount

OnStep = Callable[[int, int], None]
"""Called with the number of steps that are done, and of how many."""

FAKE_NOTE = (
    "the model does not run on the meta device ({why}): it was counted on fake tensors that claim to be on the CPU, so "
    "operators are those of the CPU"
)


PLAIN_NOTE = (
    "{name} does not take what weftrace hands to transformers on the meta device ({why}): it was counted as "
    "transformers runs it there, with attention and experts of its own"
)

WHOLE_CACHE_NOTE = (
    "transformers' implementation runs {names} over all {context:,} positions at each step, {flops:,} of {total:,} "
    "FLOPs; an engine with absorbed weights does not (the built-in deepseek-v3 counts a step of one): at most so many "
    "are needed"
)


def run_model(spec: RunSpec, *, on_step: OnStep | None = None) -> FlopsReport:
    """The report of a model run as `spec` says: one step counted, `spec.steps` more timed after a warm-up.

    Raises `FlopsError` where the model cannot be made or run, or parts of `spec` contradict each other. A user's model
    that does not run on the meta device is counted on fake tensors, which a note of the report says.
    """
    spec.check()
    kind = model_kind(spec.model)
    if kind == "built-in":
        return _run(spec, built_in(spec), on_step)
    if kind == "config":
        return _run_config(spec, on_step)
    device = device_of_spec(spec)
    try:
        return _run(spec, users_own(spec, device, fake=False), on_step)
    except FlopsError as error:
        cause = error.__cause__
        if device.type != "meta" or cause is None or isinstance(cause, ImportError):
            raise
        try:
            ready = users_own(spec, device, fake=True)
            report = _run(replace(spec, steps=0), ready, on_step)
        except FlopsError as second:
            why = one_line(second.__cause__ or second, 160)
            raise FlopsError(
                f"{error}; it fails on fake tensors too ({why}). --device cpu or cuda runs the real thing"
            ) from cause
    return replace(report, device="meta", notes=(*report.notes, FAKE_NOTE.format(why=one_line(cause, 160))))


def _run_config(spec: RunSpec, on_step: OnStep | None) -> FlopsReport:
    """Hugging Face's model as weftrace prepares it for the meta device or, where that breaks it, as it is."""
    read_config(spec.model)  # what is wrong with the file is told once
    try:
        return _run(spec, from_config(spec), on_step)
    except SpecError:
        raise
    except FlopsError as error:
        first, cause = error, error.__cause__
        if device_of_spec(spec).type != "meta" or isinstance(cause, ImportError):
            raise
    why = one_line(cause or first, 160)
    others = []
    for masked in (False, True):  # some make a mask only where they can look at values, some take none
        try:
            ready = from_config(spec, plain=True, masked=masked)
            report = _run(spec, ready, on_step)
        except SpecError:
            raise
        except FlopsError as error:
            others.append(one_line(error.__cause__ or error, 160))
        else:
            return replace(report, notes=(*report.notes, PLAIN_NOTE.format(name=ready.name, why=why)))
    summary = ", ".join(dict.fromkeys(others))
    raise FlopsError(f"{first}; it also fails as transformers alone runs it ({summary})") from cause


def run_steps(
    ready: Ready,
    *,
    backward: bool = False,
    optimizer: str = "none",
    steps: int = 0,
    warm_up: int = 1,
    on_step: OnStep | None = None,
    **options: Any,
) -> FlopsReport:
    """Count one step, let warm_up pass and time `steps`; without any, only count. options: of `profile`.

    A step is a forward, without gradients where there is no backward, then the backward of `ready.loss`, then the
    optimizer's step on fresh gradients. Without a backward the model runs in evaluation mode; modes are put back.
    Raises what the model raises.
    """
    stepper = _optimizer(optimizer, ready.model)
    modes = [(module, module.training) for module in ready.model.modules()]
    total = 1 + warm_up + steps if steps else 1
    if not backward:
        ready.model.eval()
    if stepper is not None:
        _fill_state(ready.model, stepper)
    try:
        with (
            ready.mode(),
            profile(
                ready.model,
                name=ready.name,
                time=steps > 0,
                warm_up=warm_up,
                samples=ready.samples,
                tokens=ready.tokens,
                active=ready.active,
                **options,
            ) as run,
        ):
            for number in range(1, total + 1):
                _step(ready, backward, stepper)
                if steps:
                    run.step()
                if on_step is not None:
                    on_step(number, total)
    finally:
        for module, training in modes:
            module.training = training
    report = run.report()
    return replace(report, notes=(*report.notes, *ready.notes)) if ready.notes else report


def _step(ready: Ready, backward: bool, stepper: torch.optim.Optimizer | None) -> None:
    if not backward:
        with torch.no_grad():
            ready.model(*ready.args, **ready.kwargs)
        return
    ready.loss(ready.model(*ready.args, **ready.kwargs)).backward()
    if stepper is not None:
        stepper.step()
    ready.model.zero_grad(set_to_none=True)


def _fill_state(model: nn.Module, stepper: torch.optim.Optimizer) -> None:
    """One step on zero gradients, uncounted, so that the counted step makes no state of the optimizer's.

    With a learning rate of 0 it leaves the weights as they are."""
    for group in stepper.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    stepper.step()
    model.zero_grad(set_to_none=True)


def _optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer | None:
    if name == "none":
        return None
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise FlopsError("no parameter of the model takes a gradient: there is nothing for an optimizer to do")
    if name == "sgd":
        return torch.optim.SGD(trained, lr=0.0, momentum=0.9)
    return torch.optim.AdamW(trained, lr=0.0)


def _run(spec: RunSpec, ready: Ready, on_step: OnStep | None) -> FlopsReport:
    device = next((p.device for p in ready.model.parameters()), torch.device("cpu"))
    notes = ready.notes
    steps = spec.steps
    if steps and (device.type == "meta" or (ready.loaded is not None and ready.loaded.fake is not None)):
        steps = 0
        notes = (*notes, "nothing was timed: the meta device computes nothing; --device cpu or cuda does")
    hint = "See the shapes that --input gives" if ready.loaded is not None else ""
    with told_in_words(f"{ready.name} does not run on {'the meta device' if device.type == 'meta' else device}", hint):
        report = run_steps(
            replace(ready, notes=notes),
            backward=spec.runs_backward,
            optimizer=spec.optimizer,
            steps=steps,
            warm_up=spec.warm_up,
            on_step=on_step,
            each_call=spec.each_call,
            hardware=spec.hardware or None,
            parallel=spec.parallel,
        )
    if spec.phase == "decode" and model_kind(spec.model) == "config":
        report = _mark_whole_cache(report, ready.model, spec.context)
    return replace(report, settings={**report.settings, **_settings(spec, ready)})


def _settings(spec: RunSpec, ready: Ready) -> dict[str, str]:
    """How the model was run, for the report: what another run needs to be the same."""
    shapes = [("x".join(map(str, t.shape)), t.dtype) for t in ready.args if isinstance(t, torch.Tensor)]
    shapes += [("x".join(map(str, t.shape)), t.dtype) for t in ready.kwargs.values() if isinstance(t, torch.Tensor)]
    found = {
        "model": spec.model,
        "phase": spec.phase or ("forward and backward" if spec.runs_backward else "forward"),
        "inputs": ", ".join(f"{shape} {str(dtype).removeprefix('torch.')}" for shape, dtype in shapes),
    }
    if spec.context:
        found["context"] = str(spec.context)
    if spec.masked_positions is not None:
        found["masked positions"] = str(spec.masked_positions)
    if ready.loaded is None:
        found |= {"attention": spec.attention} | ({"experts": spec.experts} if ready.active else {})
    if spec.optimizer != "none":
        found["optimizer"] = spec.optimizer
    if spec.dtype:
        found["dtype"] = spec.dtype
    return {key: value for key, value in found.items() if value}


def _mark_whole_cache(report: FlopsReport, model: nn.Module, context: int) -> FlopsReport:
    """The report of a decode step with the linear layers that ran over all `context` positions as an upper bound.

    Latent attention as transformers runs it keeps latents and projects all of them to keys and values at each step. An
    engine with absorbed weights moves that product to the side of the query, where it is of the new tokens alone.
    """
    samples, tokens = report.samples or 1, report.tokens or 1
    rows = samples * context
    if rows <= tokens:
        return report
    weights = {path: part.weight.numel() for path, part in model.named_modules() if isinstance(part, nn.Linear)}

    def over_all(op: OpCount) -> bool:
        weight = weights.get(report.modules[op.module].path.partition("#")[0], 0)
        return weight > 0 and op.cost.kind is Kind.MATMUL and op.cost.flops >= 2 * rows * weight

    found = [op for op in report.ops if over_all(op)]
    if not found:
        return report
    ops = tuple(
        replace(op, cost=replace(op.cost, status=Status.UPPER_BOUND, note=WHOLE_CACHE)) if op in found else op
        for op in report.ops
    )
    note = WHOLE_CACHE_NOTE.format(
        names=", ".join(dict.fromkeys(report.modules[op.module].name.partition("#")[0] for op in found)),
        context=context,
        flops=sum(op.calls * op.cost.flops for op in found),
        total=sum(op.calls * op.cost.flops for op in report.ops),
    )
    return replace(report, ops=ops, notes=(note, *report.notes))
