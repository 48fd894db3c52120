"""`weftrace whatif`: changes tried on the plan of a measured run, and where speed is worth most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Meta

from weftrace.advice.cli.inferring import Traces, exit_if_off, inferred_from
from weftrace.cli import completion, options, outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option

if TYPE_CHECKING:
    from weftrace.advice.changes import Change
    from weftrace.advice.whatif_document import SensitivityReport, WhatIfReport
    from weftrace.plan import Inferred

EPILOG = """[bold]Examples[/bold]

weftrace whatif train.json.gz --scale communication=0.5                  communication twice as fast

weftrace whatif train.json.gz --scale gemm=0.8 --no-host-gaps            several at once

weftrace whatif train.json.gz --scale 'phase:attn(F)=0.5' --scale kernel:notify=0

weftrace whatif train.json.gz --no-blocking aten::item                   calls that wait for the device

weftrace whatif train.json.gz --scale host:DataLoader=0                  the host's time in a range

weftrace whatif train.json.gz --remove operator:aten::_to_copy           work that is not done

weftrace whatif train.json.gz --sms 124/8                                another split of the SMs

weftrace whatif traces/ --placement placement.json                       experts placed otherwise

weftrace whatif traces/ --schedule dualpipe                              the same pipeline in another order

weftrace whatif train.json.gz --sensitivity --curve communication        1 % faster of each, and a curve"""

SELECTOR_HELP = (
    "compute, communication, communication.data, communication.barrier, memory, fused, launch, host, a kernel family "
    "(gemm), phase:NAME, rank:N, kernel:PATTERN; work launched inside operator:PATTERN, annotation:PATTERN, "
    "frame:PATTERN or module:PATTERN; host:PATTERN, the host's own time inside such ranges"
)
#: Forms of selectors, which a name or a pattern follows.
FORMS = ("phase:", "rank:", "kernel:", "operator:", "annotation:", "frame:", "module:", "host:")


def complete_selector(incomplete: str) -> list[str]:
    """Classes, forms such as phase:, and, once a letter is there, the families of weftrace's rules.

    What of these a trace holds is known only when it is read.
    """
    named = dict.fromkeys((*completion.CLASSES, *FORMS, *(completion.families() if incomplete else ())))
    return [name for name in named if name.startswith(incomplete)]


def complete_scale(incomplete: str) -> list[str]:
    """The same, each with the sign that its factor follows."""
    return [name if name.endswith(":") else f"{name}=" for name in complete_selector(incomplete)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to try: changes, another schedule, or how much each selection is worth."""

    scale: Annotated[
        tuple[str, ...],
        Option(
            f"Multiply the durations that SELECTOR selects by FACTOR, repeatable: {SELECTOR_HELP}.",
            metavar="SELECTOR=FACTOR",
            completes="weftrace.advice.cli.whatif:complete_scale",
        ),
    ] = ()
    remove: Annotated[
        tuple[str, ...],
        Option(
            "Remove the device work that SELECTOR selects, with its launches: recomputation, casts. Repeatable.",
            metavar="SELECTOR",
            completes="weftrace.advice.cli.whatif:complete_selector",
        ),
    ] = ()
    no_blocking: Annotated[
        tuple[str, ...],
        Option(
            "Host calls that block no longer wait for the device where PATTERN finds their name, or that of an "
            "operator, annotation or Python frame around them: aten::item. Repeatable.",
            metavar="PATTERN",
        ),
    ] = ()
    no_barrier_wait: Annotated[bool, Option("Kernels that only wait for other ranks take no time.")] = False
    perfect_overlap: Annotated[bool, Option("Communication and other work never wait for each other: a bound.")] = False
    free_streams: Annotated[
        bool, Option("Streams wait for each other only where it is recorded, or a call asks for it: a bound.")
    ] = False
    no_host_gaps: Annotated[bool, Option("The host takes no time to launch, and no time between its calls.")] = False
    sms: Annotated[str | None, Option("Another split of the SMs, compute/communication: 124/8.", metavar="N/M")] = None
    placement: Annotated[
        str | None,
        Option(
            "Experts placed as in this document (weftrace experts balance -o placement.json): their kernels, and the "
            "rows moved to them, follow the loads of their GPUs.",
            metavar="FILE",
        ),
    ] = None
    placed_as: Annotated[
        str | None,
        Option(
            "With --placement: the document of the placement that was measured.",
            metavar="FILE",
            shows_default="the one that it replaced, else experts in order",
        ),
    ] = None
    schedule: Annotated[
        str | None,
        Option(
            "Instead of a change: the measured pipeline's chunks in another order, 1f1b, zb1p, dualpipe … as in "
            "weftrace pipeline.",
            metavar="NAME",
        ),
    ] = None
    weight_share: Annotated[
        float | None,
        Meta(ge=0, le=1),
        Option(
            "With --schedule: the part of a full backward that is W, where the run has B alone: an assumption.",
            metavar="PART",
        ),
    ] = None
    sensitivity: Annotated[
        bool, Option("Instead of a change: 1 % less time of each class, family and phase, alone.")
    ] = False
    curve: Annotated[
        tuple[str, ...],
        Option(
            "With --sensitivity: the span over the factor of one selector, repeatable.",
            metavar="SELECTOR",
            completes="weftrace.advice.cli.whatif:complete_selector",
        ),
    ] = ()
    by: Annotated[str | None, Option("With --sensitivity: how much faster.", metavar="PART", shows_default="1%")] = None

    @property
    def asks_sensitivity(self) -> bool:
        return self.sensitivity or bool(self.curve)


def run(request: Request, traces: Traces, to: outputs.Destination) -> None:
    """Try changes on a measured run before anyone builds them: how long it would take, and what decides then."""
    from weftrace.advice.outputs import SCHEDULE_SWAP, SENSITIVITY, WHAT_IF

    changes = _changes(request)
    _check(request, changes)
    inputs = options.inputs_of(traces.sources, request.placement, request.placed_as)
    writes = SENSITIVITY if request.asks_sensitivity else WHAT_IF
    if request.schedule is not None:
        wanted = to.wanted(writes=SCHEDULE_SWAP, inputs=inputs)
        _swap_schedule(traces, request, wanted)
        return
    _refuse_traces(to.output)
    wanted = to.wanted(writes=writes, inputs=inputs)
    inferred = inferred_from(traces, frames=_asks_frames(request))
    from weftrace.advice.render.whatif_terminal import print_sensitivity, print_what_if

    report: SensitivityReport | WhatIfReport
    show: Callable[..., None]
    if request.asks_sensitivity:
        report, show = _sensitivity(request, inferred), print_sensitivity
    else:
        report, show = _what_if(changes, inferred), print_what_if
    outputs.deliver(report, writes, wanted, show=partial(show, top=traces.top))
    exit_if_off(report.trust, strict=traces.strict)


command = command_of(
    (Request, Traces, outputs.Destination),
    run,
    completes={"schedule": completion.among(*completion.SCHEDULES)},
    panels={
        "What to change": (
            "scale", "remove", "no_blocking", "no_barrier_wait", "perfect_overlap", "free_streams", "no_host_gaps",
            "sms", "placement", "placed_as", "schedule", "weight_share",
        ),
        "Instead of a change": ("sensitivity", "curve", "by"),
        "The replay": ("level", "top", "strict"),
    },
)  # fmt: skip


def _sensitivity(request: Request, inferred: Inferred) -> SensitivityReport:
    from weftrace.advice import sensitivities
    from weftrace.advice.whatif_document import sensitivity_report

    with outputs.working("trying each selection"):
        curves = [sensitivities.curve(inferred, selector) for selector in request.curve]
        found = sensitivities.sensitivity(inferred, by=options.parse_part(request.by or "1%", "--by"))
    return sensitivity_report(found, curves, inferred)


def _what_if(changes: list[Change], inferred: Inferred) -> WhatIfReport:
    from weftrace.advice.whatif_document import what_if_report
    from weftrace.advice.whatifs import what_if

    with outputs.working("trying the changes"):
        return what_if_report(what_if(inferred, changes), inferred)


def _changes(request: Request) -> list[Change]:
    """What the options ask for, in a fixed order. Raises `AdviceError` for what is no change."""
    from weftrace.advice.changes import (
        FreeStreams,
        NoBarrierWait,
        NoBlocking,
        NoHostGaps,
        PerfectOverlap,
        Remove,
        parse_change,
        parse_sms,
    )

    changes: list[Change] = [parse_change(text) for text in request.scale]
    changes += [Remove(selector=selector) for selector in request.remove]
    changes += [NoBlocking(pattern=pattern) for pattern in request.no_blocking]
    changes += [NoBarrierWait()] * request.no_barrier_wait + [NoHostGaps()] * request.no_host_gaps
    changes += [parse_sms(request.sms)] if request.sms is not None else []
    if request.placement is not None or request.placed_as is not None:
        changes.append(_placement(request.placement, request.placed_as))
    return changes + [PerfectOverlap()] * request.perfect_overlap + [FreeStreams()] * request.free_streams


def _placement(path: str | None, placed_as: str | None) -> Change:
    """Raises `DocumentError` where a file is no placement, `typer.BadParameter` for an old one without a new."""
    from weftrace.advice.swaps.placements import placement_swap
    from weftrace.experts.document import read_report
    from weftrace.files.values import to_document

    if path is None:
        raise typer.BadParameter("it needs --placement", param_hint="--placed-as")
    documents = [to_document(read_report(each)) for each in (path, placed_as) if each is not None]
    return placement_swap(*documents, name=path)


def _asks_frames(request: Request) -> bool:
    """Whether Python frames may tell what is asked for: they are most of a file that has them."""
    told = (*request.scale, *request.remove, *request.curve)
    return bool(request.no_blocking) or any(each.startswith(("frame:", "module:", "host:")) for each in told)


def _swap_schedule(traces: Traces, request: Request, to: outputs.Wanted) -> None:
    """Another schedule, tried and handed out."""
    from weftrace.advice.outputs import SCHEDULE_SWAP
    from weftrace.advice.swaps.schedules import measured_pipeline, swap_schedule

    source, name = traces.opened(), str(request.schedule)
    with outputs.working("simulating both schedules"):
        measured = measured_pipeline(source, workers=traces.workers)
        found = swap_schedule(measured, name, weight_share=request.weight_share)
    outputs.deliver(found, SCHEDULE_SWAP, to)


def _refuse_traces(output: Sequence[str]) -> None:
    """`critical-path` writes a trace with its path; a changed plan was never recorded."""
    for path in output:
        if path.lower().endswith(("annotated.json", "annotated.json.gz", "annotated.json.zst")):
            raise typer.BadParameter(
                f"{path}: a change has no trace to be drawn into; give the document another name", param_hint="--output"
            )


def _check(request: Request, changes: list[Change]) -> None:
    """Raises `typer.BadParameter` where nothing is to be tried, or two questions are asked at once."""
    asks = request.asks_sensitivity
    if request.schedule is None and request.weight_share is not None:
        raise typer.BadParameter("it needs --schedule", param_hint="--weight-share")
    if request.schedule is not None:
        if asks or changes:
            raise typer.BadParameter(
                "it simulates both schedules from measured chunks, and takes no other change", param_hint="--schedule"
            )
        return
    if asks and changes:
        raise typer.BadParameter(
            "it tries each selection alone; ask for changes without it", param_hint="--sensitivity"
        )
    if not asks and request.by is not None:
        raise typer.BadParameter("it needs --sensitivity", param_hint="--by")
    if not asks and not changes:
        raise typer.BadParameter(
            "say what to try, as in --scale communication=0.5, or --sensitivity", param_hint="--scale"
        )
