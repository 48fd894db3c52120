"""The first lines about a model's cost: what was measured, on what, the numbers that matter, and their caveats."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.flops.cost import Phase
from weftrace.flops.derived.account import Numbers
from weftrace.flops.derived.findings import findings
from weftrace.flops.render.words import covered_text, share_text
from weftrace.units import short_time, si, size

SOURCES = {"cpu clock": "the host's clock", "cuda events": "events on the device's stream"}

MAX_FLAGS = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """A number of the headline. key: its term in `TERMS`. look: how the page shows it."""

    key: str
    label: str
    value: str
    note: str = ""
    look: str = ""


def flops_headline(numbers: Numbers) -> str:
    """The report in a sentence: what a step costs, how fast it was, and whether anything is missing."""
    text = f"{numbers.report.name}: {si(numbers.totals.flops, 'FLOP')} a step, {si(numbers.params.total)} parameters"
    if numbers.step is not None:
        text += f", {short_time(numbers.step.median)}"
    if numbers.utilization is not None:
        text += f", {share_text(numbers.utilization.mfu)} MFU"
    elif numbers.flops_per_s is not None:
        text += f", {si(numbers.flops_per_s, 'FLOP/s')}{of_one(numbers, ' ')}"
    missing = len(numbers.coverage.unknown)
    if not missing:
        return f"{text}."
    return f"{text}. {missing} {'operators have' if missing > 1 else 'operator has'} no formula."


def facts_of(numbers: Numbers) -> list[str]:
    """Model, device and job, a few words each."""
    report, parallel = numbers.report, numbers.report.parallel
    facts = [report.name, report.device or "device unknown"]
    if numbers.device is not None:
        facts.append(f"peaks of {numbers.device.name}")
    if report.torch_version:
        facts.append(f"torch {report.torch_version}")
    if report.samples is not None:
        facts.append(f"{report.samples:,} samples a step" + (f", {report.tokens:,} tokens" if report.tokens else ""))
    if report.micro_batches > 1:
        facts.append(f"{report.micro_batches:,} micro-batches")
    if parallel.world > 1:
        axes = ("data", "tensor", "pipeline", "context", "expert")
        told = ", ".join(f"{axis} {getattr(parallel, axis)}" for axis in axes if getattr(parallel, axis) > 1)
        facts.append(
            f"{report.ranks} ranks together" if report.ranks > 1 else f"rank {report.rank} of {parallel.world} ({told})"
        )
    return facts


def headline_numbers(numbers: Numbers) -> list[Shown]:
    """The numbers of the first screen, in order. What is not known is left out."""
    report, totals = numbers.report, numbers.totals
    params, coverage = numbers.params, numbers.coverage
    phases = [str(phase) for phase in (Phase.FORWARD, Phase.BACKWARD) if phase in totals.by_phase] or ["forward"]
    shown = [
        Shown(
            "flops",
            "model FLOPs",
            si(totals.flops, "FLOP"),
            f"{si(totals.model.macs, 'MAC')}, {' and '.join(phases)}",
            "first",
        )
    ]
    if totals.full_flops != totals.flops:
        shown.append(Shown("full_flops", "with full attention", si(totals.full_flops, "FLOP"), "the PaLM convention"))
    again = totals.executed_flops - totals.flops
    note = (
        f"{si(again, 'FLOP')} more than the model needs"
        if again > 0
        else "nothing is computed twice"
        if not again
        else ""
    )
    shown.append(Shown("executed_flops", "executed FLOPs", si(totals.executed_flops, "FLOP"), note))
    shown.append(Shown("vector_flops", "vector FLOPs", si(totals.vector_flops, "FLOP"), "off the matrix units, apart"))
    intensity = totals.step.intensity
    told = "" if intensity is None else f"{si(intensity)} FLOP for each byte"
    shown.append(Shown("bytes", "bytes moved", si(totals.moved_bytes, "B"), told))
    shown.append(Shown("params", "parameters", si(params.total), _parameters(numbers)))
    if numbers.step is not None:
        spread = numbers.step
        told = f"median of {spread.samples}, {short_time(spread.lowest)} to {short_time(spread.highest)}"
        if spread.samples == 1:
            told = "one step"
        shown.append(Shown("step", "step time", short_time(spread.median), told))
        told = of_one(numbers, ", ")
        shown.append(
            Shown("flops_per_s", "rate", si(numbers.flops_per_s, "FLOP/s"), f"executed, over the step time{told}")
        )
    if (used := numbers.utilization) is not None:
        told = f"of the dense peak of {used.hardware}" + (
            f", timed on {report.device}" if numbers.other_machine else ""
        )
        shown.append(Shown("mfu", "MFU", share_text(used.mfu), told, "doubt" if numbers.other_machine else "first"))
        if totals.full_flops != totals.flops:
            shown.append(Shown("mfu_full", "MFU, PaLM", share_text(used.mfu_full), "with full attention"))
        shown.append(Shown("hfu", "HFU", share_text(used.hfu), "recomputation included"))
    if numbers.roofline is not None:
        shown.append(
            Shown("bound", "bound", short_time(numbers.roofline.bound_ns), f"least time on {numbers.roofline.hardware}")
        )
    if (rate := numbers.throughput) is not None and rate.samples_per_s is not None:
        told = "" if rate.tokens_per_s is None else f"{si(rate.tokens_per_s)} tokens/s"
        told += f"{', ' if told else ''}{rate.world} GPUs" if rate.world > 1 else ""
        shown.append(Shown("throughput", "throughput", f"{si(rate.samples_per_s)} samples/s", told))
    value = covered_text(coverage.calls)
    told = f"of calls; {covered_text(coverage.moved_bytes)} of bytes"
    if coverage.time is not None:
        told += f", {covered_text(coverage.time)} of time (estimated)"
    shown.append(Shown("coverage", "coverage", value, told, "doubt" if coverage.unknown else ""))
    return shown


def of_one(numbers: Numbers, before: str) -> str:
    """What a rate is of, where counts are of more: "of one of 8 ranks" after `before`; "" for a single rank."""
    ranks = numbers.report.ranks
    return "" if ranks == 1 else f"{before}of one of {ranks} ranks"


def warnings_of(numbers: Numbers) -> list[str]:
    """What makes a number wrong rather than partial, said above all others."""
    flags = _flags(numbers)
    if len(flags) <= MAX_FLAGS:
        return flags
    return [*flags[:MAX_FLAGS], f"… and {len(flags) - MAX_FLAGS:,} more places whose rate is above the peak."]


def _flags(numbers: Numbers) -> list[str]:
    found = [*(numbers.utilization.flags if numbers.utilization else ())]
    found += numbers.roofline.flags if numbers.roofline else ()
    return list(dict.fromkeys(found))


def remarks_of(numbers: Numbers) -> list[tuple[str, list[str]]]:
    """(title, sentences): what follows, notes of the run, what is missing, what was assumed, how times were taken."""
    report, clock = numbers.report, numbers.report.clock
    missing = [
        f"{op.op} has no formula{f': {op.note}' if op.note not in ('', 'no formula') else ''}."
        for op in numbers.coverage.unknown
    ]
    notes = [*numbers.notes, *report.notes]
    if numbers.other_machine and numbers.device is not None:
        missing.append(
            f"Times were measured on {report.device}, peaks are those of {numbers.device.name}: MFU and roofline "
            "compare two machines."
        )
    if not numbers.timed:
        missing.append("Nothing was timed: there are no rates, no utilization and no throughput.")
    if numbers.device is None:
        missing.append("No accelerator is known: name one (--hardware h100) for utilization and roofline.")
    if numbers.coverage.unattributed_ns:
        took = short_time(numbers.coverage.unattributed_ns)
        missing.append(f"{took} were spent where no operator was counted, in Python mostly.")
    assumed = [
        *(numbers.utilization.notes if numbers.utilization else ()),
        *(numbers.roofline.notes if numbers.roofline else ()),
    ]
    assumed += [
        f"{row.op}, {row.phase}: {row.status}. {row.note}"
        for row in numbers.ops
        if row.note and row.status not in ("exact", "unknown")
    ]
    times = []
    if numbers.timed:
        source = SOURCES.get(clock.source, clock.source)
        times.append(f"Times by {source}: {clock.steps} steps after {clock.warm_up} that were not timed.")
        if clock.while_counting:
            times.append("The timed step was also the counted one: its times hold the cost of counting.")
        if clock.own_ns:
            times.append(
                f"weftrace's own work beside a step takes about {short_time(clock.own_ns)} (calibrated): marks, which "
                "are in the times shown, and hooks in the backward, which are not."
            )
    settings = [f"{key}: {value}" for key, value in report.settings.items()]
    return [
        ("What follows", list(findings_of(numbers))),
        ("Notes", notes),
        ("What is missing", missing),
        ("What was assumed", list(dict.fromkeys(assumed))),
        ("How times were taken", times),
        ("Settings", settings),
    ]


def findings_of(numbers: Numbers) -> list[str]:
    """What in the report should someone look at, a sentence each; what `warnings_of` says is left to it."""
    found = findings(
        numbers.report,
        numbers.device,
        cols=numbers.cols,
        line=numbers.roofline,
        covered=numbers.coverage,
        step=numbers.totals,
    )
    said = set(_flags(numbers))
    return [text for text in found if text not in said]


def _parameters(numbers: Numbers) -> str:
    params = numbers.params
    parts = [size(params.bytes)]
    if params.trainable != params.total:
        parts.append(f"{si(params.trainable)} trainable")
    if params.active != params.total:
        parts.append(f"{si(params.active)} active")
    if params.global_total != params.total:
        parts.append(f"{si(params.global_total)} before sharding")
    return ", ".join(parts)
