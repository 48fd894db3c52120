"""`weftrace advise`: what to do about a run, most gain first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET
from weftrace.options import Option

if TYPE_CHECKING:
    from weftrace.analysis.findings import AdviceReport
    from weftrace.flops import FlopsReport

EPILOG = """[bold]Examples[/bold]

weftrace advise train.json.gz                     five findings, most gain first

weftrace advise traces/ --all                     all of them, and what was not found

weftrace advise train.json.gz -o advice.md        for a person or an agent to act on

weftrace advise train.json.gz -o advice.html      one page that opens offline

weftrace advise train.json.gz --gate sync-every-step,data-loading

weftrace advise train.json.gz --gate exposed-collective --beyond 5%"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The traces, and which rules fail a build."""

    sources: options.Sources
    all: Annotated[bool, Option("Show all findings, and what weftrace looked for and did not find.")] = False
    gate: Annotated[
        str | None,
        Option(
            "Exit with status 1 if one of these rules finds something that is worth changing; all: any rule.",
            metavar="RULE[,RULE...]",
            completes="weftrace.cli.completion:ids_of_rules",
        ),
    ] = None
    beyond: Annotated[
        str | None,
        Option(
            "With --gate: fail if it costs more than this part of a step, whether it is worth changing or not.",
            metavar="PART",
        ),
    ] = None
    flops: Annotated[
        str | None,
        Option("FLOPs of a step of the same run (from `weftrace flops … -o flops.json`): adds MFU.", metavar="JSON"),
    ] = None
    hardware: Annotated[
        str | None,
        Option(
            "The accelerator that sets the peaks.", metavar="NAME", shows_default="the one that the trace names",
            completes="weftrace.cli.options:complete_hardware",
        ),
    ] = None  # fmt: skip
    ranks: options.Ranks = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Find what costs time, what to do about it, and what that would save, by replaying the run with the change."""
    from weftrace.advice.outputs import ADVICE

    gate = _gate(request.gate)
    if request.beyond is not None and not gate:
        raise typer.BadParameter("it needs --gate", param_hint="--beyond")
    beyond = None if request.beyond is None else options.parse_part(request.beyond, "--beyond")
    if beyond is not None and beyond > 1:
        raise typer.BadParameter(f"{request.beyond} is more than the step; write 7% or 0.07", param_hint="--beyond")
    wanted = to.wanted(writes=ADVICE, inputs=options.inputs_of(request.sources, request.flops))
    flops = None if request.flops is None else _counted(request.flops)
    with options.opened(
        request.sources, ranks=request.ranks, max_bytes=request.max_bytes, workers=request.workers, frames=True
    ) as source:
        from weftrace.advice.findings.advising import advise
        from weftrace.advice.render.advice_terminal import print_advice

        with outputs.working("looking for lost time"):
            found = advise(source, hardware=request.hardware, flops=flops, workers=request.workers)
    outputs.deliver(found, ADVICE, wanted, show=partial(print_advice, all_of_it=request.all))
    _exit_if_found(found, gate, beyond)


command = command_of((Request, outputs.Destination), run)


def _counted(path: str) -> FlopsReport:
    """The report of FLOPs in a file. Raises `typer.BadParameter` in a house without that wing."""
    try:
        from weftrace.flops import read_flops
    except ModuleNotFoundError as missing:
        raise typer.BadParameter("this installation of weftrace has no FLOPs report", param_hint="--flops") from missing
    return read_flops(path)


def _gate(text: str | None) -> Sequence[str]:
    """The rules that are asked for. Raises `typer.BadParameter` for one that is not known."""
    if text is None:
        return ()
    from weftrace.advice.findings.registry import RULES

    known = [rule.id for rule in RULES]
    asked = [name.strip() for name in text.split(",") if name.strip()]
    if asked == ["all"]:
        return [rule.id for rule in RULES if not rule.is_remark]
    for name in asked:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise typer.BadParameter(f"{name!r} is no rule; {hint}", param_hint="--gate")
    if not asked:
        raise typer.BadParameter("name a rule, or all", param_hint="--gate")
    return asked


def _exit_if_found(found: AdviceReport, gate: Sequence[str], beyond: float | None) -> None:
    """Exit with 1 where a rule of the gate found something that is worth a change, or that costs more than is asked
    for; or where rules had no device work to look at."""
    from weftrace.advice.findings.advising import NO_DEVICE_WORK

    failed = [
        each
        for each in found.findings
        if each.rule in gate and (each.worth != "not worth it" if beyond is None else each.cost_share > beyond)
    ]
    for each in failed:
        typer.echo(f"weftrace: --gate {each.rule}: {each.sentence}", err=True)
    unjudged = [each.rule for each in found.not_found if each.rule in gate and each.why == NO_DEVICE_WORK]
    if unjudged:
        typer.echo(f"weftrace: --gate: {len(unjudged)} of its rules cannot be judged: {NO_DEVICE_WORK}.", err=True)
    if failed or unjudged:
        raise typer.Exit(NOT_MET)
