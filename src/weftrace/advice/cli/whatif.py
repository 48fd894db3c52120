"""`weftrace whatif`: changes tried on the plan of a measured run, and where speed is worth most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftrace.advice.cli.critical_path import Strict, Top
from weftrace.advice.cli.inferring import Level, LevelChoice, exit_if_off, inferred_from, working
from weftrace.cli import options, outputs

if TYPE_CHECKING:
    from weftrace.advice.changes import Change

EPILOG = """[bold]Examples[/bold]

weftrace whatif train.json.gz --scale communication=0.5                  communication twice as fast

weftrace whatif train.json.gz --scale gemm=0.8 --no-host-gaps            several at once

weftrace whatif train.json.gz --scale 'phase:attn(F)=0.5' --scale kernel:notify=0

weftrace whatif train.json.gz --sms 124/8                                another split of the SMs

weftrace whatif traces/ --placement placement.json                       experts placed otherwise

weftrace whatif traces/ --schedule dualpipe                              the same pipeline in another order

weftrace whatif train.json.gz --sensitivity --curve communication        1 % faster of each, and a curve"""

SELECTOR_HELP = (
    "compute, communication, communication.data, communication.barrier, memory, fused, launch, host, a kernel family "
    "(gemm), phase:NAME, rank:N or kernel:PATTERN"
)


def complete_selector(incomplete: str) -> list[str]:
    """Classes, the forms of phases, ranks and kernels, and, once a letter is there, the families of weftrace's rules.

    What of these a trace holds is known only when it is read.
    """
    from weftrace.advice.changes import SCALABLE
    from weftrace.trace import load_rules

    families = sorted({rule.family for rule in load_rules().rules}) if incomplete else []
    named = dict.fromkeys((*SCALABLE, "phase:", "rank:", "kernel:", *families))
    return [name for name in named if name.startswith(incomplete)]


def complete_scale(incomplete: str) -> list[str]:
    """The same, each with the sign that its factor follows."""
    return [name if name.endswith(":") else f"{name}=" for name in complete_selector(incomplete)]


def command(
    sources: options.Sources,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            "--scale",
            help=f"Durations of what SELECTOR names times FACTOR, repeatable: {SELECTOR_HELP}.",
            metavar="SELECTOR=FACTOR",
            autocompletion=complete_scale,
            show_default=False,
        ),
    ] = None,
    no_barrier_wait: Annotated[
        bool, typer.Option("--no-barrier-wait", help="Kernels that only wait for other ranks take no time.")
    ] = False,
    perfect_overlap: Annotated[
        bool,
        typer.Option("--perfect-overlap", help="Communication and other work never wait for each other: a bound."),
    ] = False,
    no_host_gaps: Annotated[
        bool, typer.Option("--no-host-gaps", help="The host takes no time to launch, nor between its calls.")
    ] = False,
    sms: Annotated[
        str | None,
        typer.Option(
            "--sms",
            help="Another split of the SMs, compute/communication: 124/8.",
            metavar="N/M",
            show_default=False,
        ),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            "--placement",
            help="Experts placed as in this document (weftrace experts balance -o placement.json): their kernels, and "
            "the rows moved to them, follow the loads of their GPUs.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    placed_as: Annotated[
        str | None,
        typer.Option(
            "--placed-as",
            help="With --placement: the document of the placement that was measured.",
            metavar="FILE",
            show_default="the one that it replaced, else experts in order",
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            help="Instead of a change: the measured pipeline's chunks in another order, 1f1b, zb1p, dualpipe … as in "
            "weftrace pipeline.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="Instead of a change: 1 % less time of each class, family and phase, alone."
        ),
    ] = False,
    curve: Annotated[
        list[str] | None,
        typer.Option(
            "--curve",
            help="With --sensitivity: the span over the factor of one selector, repeatable.",
            metavar="SELECTOR",
            autocompletion=complete_selector,
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="With --sensitivity: how much faster.", metavar="PART", show_default="1%"),
    ] = None,
    level: Level = LevelChoice.kernel,
    top: Top = 8,
    strict: Strict = False,
    ranks: options.Ranks = None,
    workers: options.Workers = None,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Try changes on a measured run before anyone builds them: how long it would take, and what decides then."""
    from weftrace.advice.outputs import SCHEDULE_SWAP, SENSITIVITY, WHAT_IF

    changes = _changes(
        scale,
        sms,
        (placement, placed_as),
        no_barrier_wait=no_barrier_wait,
        perfect_overlap=perfect_overlap,
        no_host_gaps=no_host_gaps,
    )
    asks = sensitivity or bool(curve)
    inputs = options.inputs_of(sources, placement, placed_as)
    if schedule is not None:
        _refuse_beside_schedule(changes, asks=asks)
        to = outputs.wanted(output, writes=SCHEDULE_SWAP, inputs=inputs, json=json, quiet=quiet)
        _swap_schedule(sources, schedule, to, ranks=ranks, workers=workers, max_bytes=max_bytes)
        return
    _check_asked(changes, asks=asks, by=by)
    _refuse_traces(output)
    to = outputs.wanted(output, writes=SENSITIVITY if asks else WHAT_IF, inputs=inputs, json=json, quiet=quiet)
    inferred = inferred_from(sources, level=level, ranks=ranks, workers=workers, max_bytes=max_bytes)
    from weftrace.advice import sensitivities, whatifs
    from weftrace.advice.render.whatif_terminal import print_sensitivity, print_what_if
    from weftrace.advice.whatif_document import sensitivity_report, what_if_report

    if asks:
        with working("trying each selection"):
            curves = tuple(sensitivities.curve(inferred, selector) for selector in curve or ())
            found = sensitivities.sensitivity(inferred, by=options.parse_part(by or "1%", "--by"))
        worth = sensitivity_report(found, curves, inferred)
        outputs.deliver(worth, SENSITIVITY, to, show=lambda report, console: print_sensitivity(report, console, top))
        exit_if_off(worth.replay, strict=strict)
        return
    with working("trying the changes"):
        answer = what_if_report(whatifs.what_if(inferred, changes), inferred)
    outputs.deliver(answer, WHAT_IF, to, show=lambda report, console: print_what_if(report, console, top))
    exit_if_off(answer.replay, strict=strict)


def _changes(
    scale: list[str] | None,
    sms: str | None,
    placements: tuple[str | None, str | None],
    *,
    no_barrier_wait: bool,
    perfect_overlap: bool,
    no_host_gaps: bool,
) -> list[Change]:
    """What the options ask for, in a fixed order. Raises `AdviceError` for what is no change."""
    from weftrace.advice.changes import NoBarrierWait, NoHostGaps, PerfectOverlap, parse_change, parse_sms

    changes: list[Change] = [parse_change(text) for text in scale or ()]
    changes += [NoBarrierWait()] * no_barrier_wait + [NoHostGaps()] * no_host_gaps
    changes += [parse_sms(sms)] if sms is not None else []
    if placements != (None, None):
        changes.append(_placement(*placements))
    return changes + [PerfectOverlap()] * perfect_overlap


def _placement(path: str | None, placed_as: str | None) -> Change:
    """Raises `DocumentError` where a file is no placement, `typer.BadParameter` for an old one without a new."""
    from weftrace.advice.swaps.placements import placement_swap
    from weftrace.experts.document import PLACEMENT_SCHEMA, SCHEMA
    from weftrace.files.documents import document_as, read_document

    if path is None:
        raise typer.BadParameter("it has no meaning without --placement", param_hint="--placed-as")
    paths = [each for each in (path, placed_as) if each is not None]
    told: list[Mapping[str, Any]] = [
        document_as(read_document(each), PLACEMENT_SCHEMA.document, schema=SCHEMA, what=each) for each in paths
    ]
    return placement_swap(*told, name=path)


def _swap_schedule(
    sources: list[str], name: str, to: outputs.Wanted, *, ranks: str | None, workers: int | None, max_bytes: str
) -> None:
    """Another schedule, tried and handed out."""
    from weftrace.advice.outputs import SCHEDULE_SWAP
    from weftrace.advice.swaps.schedules import measured_pipeline, swap_schedule

    with options.opened(sources, ranks=ranks, max_bytes=max_bytes, workers=workers) as source:
        pass
    with working("simulating both schedules"):
        found = swap_schedule(measured_pipeline(source, workers=workers), name)
    outputs.deliver(found, SCHEDULE_SWAP, to)


def _refuse_beside_schedule(changes: list[Change], *, asks: bool) -> None:
    if asks or changes:
        raise typer.BadParameter(
            "it simulates both schedules from measured chunks, and takes no other change", param_hint="--schedule"
        )


def _refuse_traces(output: list[str] | None) -> None:
    """`critical-path` writes a trace with its path; a changed plan was never recorded."""
    for path in output or ():
        if path.lower().endswith(("annotated.json", "annotated.json.gz", "annotated.json.zst")):
            raise typer.BadParameter(
                f"{path}: a change has no trace to be drawn into; give the document another name", param_hint="--output"
            )


def _check_asked(changes: list[Change], *, asks: bool, by: str | None) -> None:
    """Raises `typer.BadParameter` where nothing is to be tried, or two questions are asked at once."""
    if asks and changes:
        raise typer.BadParameter(
            "it tries each selection alone; ask for changes without it", param_hint="--sensitivity"
        )
    if not asks and by is not None:
        raise typer.BadParameter("it has no meaning without --sensitivity", param_hint="--by")
    if not asks and not changes:
        raise typer.BadParameter(
            "say what to try, as in --scale communication=0.5, or --sensitivity", param_hint="--scale"
        )
