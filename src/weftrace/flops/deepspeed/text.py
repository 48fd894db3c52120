"""A profile in the text layout of DeepSpeed's flops profiler, so that what reads the one reads the other.

Labels, their order and their columns are DeepSpeed's; numbers are weftrace's. What DeepSpeed does not print comes after
what it does, as further lines of the summary, and never between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weftrace.flops.deepspeed.numbers import ModuleLine, Sizes, StepLine, module_lines, step_line
from weftrace.flops.deepspeed.strings import PRESENT, Layout
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.values import OUTSIDE, FlopsReport

NOT_MEASURED = "not measured"
NOT_RUN = "not run"


def deepspeed_text(
    report: FlopsReport | Account,
    *,
    profile_step: int = 1,
    module_depth: int = -1,
    top_modules: int = 1,
    detailed: bool = True,
    recomputation: bool = False,
    sizes: Sizes | None = None,
    layout: Layout = PRESENT,
    notes: Sequence[str] = (),
) -> str:
    """The whole text: summary, aggregated profile, and with `detailed` the tree. notes: further lines, beside the
    report's.
    """
    sizes, account = sizes or Sizes(), account_of(report)
    lines = module_lines(account)
    step = step_line(account, sizes, recomputation=recomputation)
    parts = [
        "\n-------------------------- DeepSpeed Flops Profiler --------------------------",
        f"Profile Summary at step {profile_step}:",
        _NOTATIONS,
        *summary_lines(step, sizes, layout),
        *(f"note: {note}" for note in (*account.report.notes, *_own_notes(account.report, step), *notes)),
        "\n----------------------------- Aggregated Profile per GPU -----------------------------",
        _aggregated(account.report, lines, module_depth, top_modules, layout),
    ]
    if detailed:
        parts += [
            "\n------------------------------ Detailed Profile per GPU ------------------------------",
            _DETAILED,
            _tree(account, lines, layout),
        ]
    return "\n".join([*parts, "-" * 78, ""])


_NOTATIONS = """\
Notations:
dp_size (GPUs that hold replicas), mp_size (GPUs that share one copy of the model);
params (parameters), MACs (multiply-accumulates), flops (floating-point operations of matrix work, 2 per MAC);
FLOPS (flops per second), fwd, bwd and step latency (forward, backward, update of the weights),
iter latency (fwd, bwd and step latency together)
"""

_DETAILED = """\
Each module is followed by, in this order:
params, percentage of total params, MACs, percentage of total MACs, \
fwd latency, percentage of total fwd latency, fwd FLOPS

Note: 1. A module's own work, what it does outside its submodules, is the difference between its line and theirs.
2. MACs and FLOPS are of matrix work; norms, activations and other elementwise work are in the summary.
3. A submodule that is used in several places, or shares parameters, is listed once, where the model names it first.
"""


def summary_lines(step: StepLine, sizes: Sizes, layout: Layout = PRESENT) -> list[str]:
    """The lines of the summary: label, padding, value."""
    return [f"{label + ': ':<{layout.width}}  {value!s:<8}" for label, value in _summary(step, sizes, layout)]


def _summary(step: StepLine, sizes: Sizes, layout: Layout) -> Iterator[tuple[str, object]]:
    yield "world size", sizes.world
    yield "data parallel size", sizes.data
    yield "model parallel size", sizes.model
    yield "batch size per GPU", "not known" if step.batch is None else step.batch
    if sizes.expert_tensor is not None:
        yield "expert tensor parallelism enabled", sizes.expert_tensor
    yield "params per gpu" if layout.name == "earlier" else "params per GPU", layout.params(step.params)
    whole = sizes.model_params if sizes.model_params is not None else step.params * sizes.model
    if sizes.expert_params:
        yield "params of model", layout.params(whole)
        yield "   non-expert params of model", layout.params(whole - sizes.expert_params)
        yield "   expert params of model", layout.params(sizes.expert_params)
    else:
        yield "params of model = params per GPU * mp_size", layout.params(whole)
    yield "fwd MACs per GPU", layout.macs(step.macs)
    yield "fwd flops per GPU", layout.number(step.flops)
    yield "fwd flops of model = fwd flops per GPU * mp_size", layout.number(step.model_flops)
    if layout.name == "earlier":  # latencies first, then the rates
        yield "fwd latency", _time(step.fwd_s, layout)
        if _trains(step):
            yield "bwd latency", _backward_time(step, layout)
        yield from _forward_rate(step, layout)
    else:
        yield "fwd latency", _time(step.fwd_s, layout)
        yield from _forward_rate(step, layout)
        if _trains(step):
            yield "bwd latency", _backward_time(step, layout)
    if _trains(step):
        yield from _training(step, layout)
    yield from _further(step, layout)


def _trains(step: StepLine) -> bool:
    return step.bwd_flops is not None or step.bwd_s is not None or step.step_s is not None


def _forward_rate(step: StepLine, layout: Layout) -> Iterator[tuple[str, object]]:
    yield "fwd FLOPS per GPU = fwd flops per GPU / fwd latency", _rate(step.flops, step.fwd_s, layout)


def _training(step: StepLine, layout: Layout) -> Iterator[tuple[str, object]]:
    """Lines that need a backward. The factors in the labels are what was counted, not 2 and 3."""
    bwd = step.bwd_flops
    factor = bwd / step.flops if bwd is not None and step.flops else None
    shown, both = ("?", "?") if factor is None else (f"{round(factor, 2):g}", f"{round(factor + 1, 2):g}")
    work = None if bwd is None else step.flops + bwd
    pair = None if step.fwd_s is None or step.bwd_s is None else step.fwd_s + step.bwd_s
    yield f"bwd FLOPS per GPU = {shown} * fwd flops per GPU / bwd latency", _rate(bwd, step.bwd_s, layout)
    yield f"fwd+bwd FLOPS per GPU = {both} * fwd flops per GPU / (fwd+bwd latency)", _rate(work, pair, layout)
    yield "step latency", NOT_RUN if step.step_s is None and step.fwd_s is not None else _time(step.step_s, layout)
    yield "iter latency", _time(step.iter_s, layout)
    if layout.name != "earlier":
        yield f"FLOPS per GPU = {both} * fwd flops per GPU / iter latency", _rate(work, step.iter_s, layout)
    if step.samples is None or not step.iter_s:
        yield "samples/second", NOT_MEASURED if step.samples is not None else "not known"
    else:
        yield "samples/second", round(step.samples / step.iter_s, 2)


def _further(step: StepLine, layout: Layout) -> Iterator[tuple[str, object]]:
    """What DeepSpeed does not print, where there is any."""
    if step.micro_batches > 1:
        yield "micro-batches in the step (every number is of all of them)", step.micro_batches
    if step.bwd_flops is not None:
        yield "bwd flops per GPU, counted", layout.number(step.bwd_flops)
    if step.causal_flops != step.flops:
        yield "fwd flops per GPU with causal attention exact", layout.number(step.causal_flops)
    if step.outside_flops:
        yield "flops per GPU outside the model, fwd and bwd (in no other number)", layout.number(step.outside_flops)
    yield "fwd vector operations per GPU (in no other number)", layout.number(step.vector_flops)


def _time(seconds: float | None, layout: Layout) -> str:
    return NOT_MEASURED if seconds is None else layout.duration(seconds)


def _backward_time(step: StepLine, layout: Layout) -> str:
    if step.bwd_s is None and step.bwd_flops is None:
        return NOT_RUN
    return _time(step.bwd_s, layout)


def _rate(flops: int | None, seconds: float | None, layout: Layout) -> str:
    if flops is None:
        return "not counted"
    return layout.rate(flops / seconds) if seconds else NOT_MEASURED


def _own_notes(report: FlopsReport, step: StepLine) -> Iterator[str]:
    if not report.times:
        yield "latency was not measured; 0 s in the aggregated profile and the tree stands for that"
    elif report.clock.while_counting:
        yield "latencies were taken while counting and hold the cost of it"
    if step.step_s is not None and step.bwd_s is not None and step.step_s > step.bwd_s + (step.fwd_s or 0.0):
        yield "the update of the weights takes longer than forward and backward together"


def aggregated_text(
    report: FlopsReport | Account, *, module_depth: int = -1, top_modules: int = 1, layout: Layout = PRESENT
) -> str:
    """The classes with most parameters, MACs and forward latency at each depth, from the root (0) to module_depth
    (-1: all).
    """
    account = account_of(report)
    return _aggregated(account.report, module_lines(account), module_depth, top_modules, layout)


def _aggregated(
    report: FlopsReport, lines: Sequence[ModuleLine], module_depth: int, top_modules: int, layout: Layout
) -> str:
    levels: list[dict[str, list[float]]] = []
    for module, line in zip(report.modules, lines, strict=True):
        if module.path.startswith(OUTSIDE):
            continue
        while len(levels) <= module.depth:
            levels.append({})
        sums = levels[module.depth].setdefault(module.class_name, [0, 0, 0.0])
        sums[0] += line.params
        sums[1] += line.macs
        sums[2] += line.seconds or 0.0
    shown = levels if module_depth < 0 else levels[: module_depth + 1]
    text = [f"Top {top_modules} modules in terms of params, MACs or fwd latency at different model depths:"]
    for depth, classes in enumerate(shown):
        text.append(f"depth {depth}:")
        for column, (label, write) in enumerate(
            (("params      ", layout.params), ("MACs        ", layout.macs), ("fwd latency ", layout.duration))
        ):
            text.append(f"    {label}- {_top(classes, column, top_modules, write)}")
    return "\n".join(text)


def _top(classes: dict[str, list[float]], column: int, most: int, write: Callable[[float], str]) -> dict[str, str]:
    ordered = sorted(classes.items(), key=lambda item: item[1][column], reverse=True)
    return {name: write(sums[column]) for name, sums in ordered[:most]}


def _tree(account: Account, lines: Sequence[ModuleLine], layout: Layout) -> str:
    """The tree of modules as torch prints it, each with its numbers before its own description."""
    report, children, whole = account.report, account.children, lines[0]

    def described(index: int, indent: str) -> Iterator[str]:
        """The module's text in pieces; the recursion is as deep as the model's tree."""
        module = report.modules[index]
        extra = _numbers(lines[index], whole, layout)
        if module.detail or layout.name == "earlier":
            extra += f", {module.detail}"
        below = children.get(index, ())
        if not below:
            yield f"{module.class_name}({extra})"
            return
        inner = indent + "  "
        yield f"{module.class_name}(\n{inner}{extra}\n"
        for child in below:
            yield f"{inner}({report.modules[child].name}): "
            yield from described(child, inner)
            yield "\n"
        yield f"{indent})"

    return "".join(described(0, ""))


def _numbers(line: ModuleLine, whole: ModuleLine, layout: Layout) -> str:
    seconds, all_seconds = line.seconds or 0.0, whole.seconds or 0.0
    pairs = (
        (layout.params(line.params), line.params, whole.params, "Params"),
        (layout.macs(line.macs), line.macs, whole.macs, "MACs"),
        (layout.duration(seconds), seconds, all_seconds, "latency"),
    )
    items = [
        f"{value}{layout.joined}{layout.share(part / total if total else 0.0)} {name}"
        for value, part, total, name in pairs
    ]
    return ", ".join([*items, layout.rate(line.rate)])
