"""The first lines about a model's cost: what was measured, on what, the numbers that matter, and their caveats."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.costs.cost import WHOLE_CACHE, Phase, Status
from weftrace.flops.derived.account import Account
from weftrace.flops.derived.findings import findings
from weftrace.flops.render.words import covered_text
from weftrace.units import duration, si, size, small_percent

SOURCES = {"cpu clock": "the host's clock", "cuda events": "events on the device's stream"}

MAX_FLAGS = 4


@dataclass(frozen=True, slots=True)
class Card:
    """A number of the headline. key: its term in `TERMS`. look: how the page shows it."""

    key: str
    label: str
    value: str
    note: str = ""
    look: str = ""


def flops_headline(account: Account) -> str:
    """The report in a sentence: what a step costs, how fast it was, and whether anything is missing."""
    most = "at most " if account.coverage.flops_of_status[Status.UPPER_BOUND] else ""
    text = f"{account.report.name}: {most}{si(account.totals.flops, 'FLOP')} a step, "
    text += f"{si(account.params.total)} parameters"
    if (summary := account.untimed_prediction) is not None:
        text += f"; predicted {duration(summary.predicted_ns)} on {summary.hardware}"
        if (rate := summary.token_rate()) is not None:
            text += f", {rate[0]:,.0f} tokens/s"
        text += "" if summary.fits else ", on which it does not fit"
    if account.step is not None:
        text += f", {duration(account.step.typical)}"
    if account.utilization is not None:
        text += f", {small_percent(account.utilization.mfu)} MFU"
    elif account.flops_per_s is not None:
        text += f", {si(account.flops_per_s, 'FLOP/s')}{of_one(account, ' ')}"
    missing = len(account.coverage.unknown)
    if not missing:
        return f"{text}."
    return f"{text}. {missing} {'operators have' if missing > 1 else 'operator has'} no formula."


def facts_of(account: Account) -> list[str]:
    """Model, device and job, a few words each."""
    report, parallel = account.report, account.report.parallel
    facts = [report.name, report.device or "device unknown"]
    if account.device is not None:
        facts.append(f"peaks of {account.device.name}")
    if report.torch_version:
        facts.append(f"torch {report.torch_version}")
    if report.samples is not None:
        facts.append(f"{report.samples:,} samples a step" + (f", {report.tokens:,} tokens" if report.tokens else ""))
    if report.micro_batches > 1:
        facts.append(f"{report.micro_batches:,} micro-batches")
    if parallel.world > 1:
        axes = ("data", "tensor", "pipeline", "context", "expert")
        summary = ", ".join(f"{axis} {getattr(parallel, axis)}" for axis in axes if getattr(parallel, axis) > 1)
        facts.append(
            f"{report.ranks} ranks together"
            if report.ranks > 1
            else f"rank {report.rank} of {parallel.world} ({summary})"
        )
    return facts


def headline_numbers(account: Account) -> list[Card]:
    """The numbers of the first screen, in order. What is not known is left out."""
    report, totals = account.report, account.totals
    params, coverage = account.params, account.coverage
    phases = [str(phase) for phase in (Phase.FORWARD, Phase.BACKWARD) if phase in totals.by_phase] or ["forward"]
    summary = f"{si(totals.model.macs, 'MAC')}, {' and '.join(phases)}"
    if share := coverage.flops_share(Status.UPPER_BOUND):
        summary += f"; at most: {small_percent(share)} of them are an upper bound"
    shown = _predicted(account)
    shown.append(Card("flops", "model FLOPs", si(totals.flops, "FLOP"), summary, "doubt" if share else "first"))
    if totals.full_flops != totals.flops:
        shown.append(Card("full_flops", "with full attention", si(totals.full_flops, "FLOP"), "the PaLM convention"))
    again = totals.executed_flops - totals.flops
    note = (
        f"{si(again, 'FLOP')} more than the model needs"
        if again > 0
        else "nothing is computed twice"
        if not again
        else ""
    )
    shown.append(Card("executed_flops", "executed FLOPs", si(totals.executed_flops, "FLOP"), note))
    shown.append(Card("vector_flops", "vector FLOPs", si(totals.vector_flops, "FLOP"), "off the matrix units, apart"))
    intensity = totals.step.intensity
    summary = "" if intensity is None else f"{si(intensity)} FLOP for each byte"
    shown.append(Card("bytes", "bytes moved", si(totals.moved_bytes, "B"), summary))
    shown.append(Card("params", "parameters", si(params.total), _parameters(account)))
    if account.step is not None:
        spread = account.step
        summary = f"median of {spread.samples}, {duration(spread.lowest)} to {duration(spread.highest)}"
        if spread.samples == 1:
            summary = "one step"
        shown.append(Card("step", "step time", duration(spread.typical), summary))
        summary = of_one(account, ", ")
        shown.append(
            Card("flops_per_s", "rate", si(account.flops_per_s, "FLOP/s"), f"executed, over the step time{summary}")
        )
    if (used := account.utilization) is not None:
        summary = f"of the dense peak of {used.hardware}" + (
            f", timed on {report.device}" if account.other_machine else ""
        )
        shown.append(
            Card("mfu", "MFU", small_percent(used.mfu), summary, "doubt" if account.other_machine else "first")
        )
        if totals.full_flops != totals.flops:
            shown.append(Card("mfu_full", "MFU, PaLM", small_percent(used.mfu_full), "with full attention"))
        shown.append(Card("hfu", "HFU", small_percent(used.hfu), "recomputation included"))
    if account.roofline is not None and account.untimed_prediction is None:
        shown.append(
            Card("bound", "bound", duration(account.roofline.bound_ns), f"least time on {account.roofline.hardware}")
        )
    if (rate := account.throughput) is not None and rate.samples_per_s is not None:
        summary = "" if rate.tokens_per_s is None else f"{si(rate.tokens_per_s)} tokens/s"
        summary += f"{', ' if summary else ''}{rate.world} GPUs" if rate.world > 1 else ""
        shown.append(Card("throughput", "throughput", f"{si(rate.samples_per_s)} samples/s", summary))
    value = covered_text(coverage.calls)
    summary = f"of calls; {covered_text(coverage.moved_bytes)} of bytes"
    if coverage.time is not None:
        summary += f", {covered_text(coverage.time)} of time (estimated)"
    shown.append(Card("coverage", "coverage", value, summary, "doubt" if coverage.unknown else ""))
    return shown


def _predicted(account: Account) -> list[Card]:
    """Time, tokens a second and room in memory, as far as they are predicted: what is asked first."""
    summary, chip = account.untimed_prediction, account.device
    if summary is None or chip is None:
        return []
    least = f"no faster than {duration(summary.bound_ns)} on {summary.hardware}"
    shown = [Card("predicted", "predicted step", duration(summary.predicted_ns), least, "first")]
    if (rate := summary.token_rate()) is not None:
        shown.append(Card("tokens_per_s", "tokens/s, predicted", f"{rate[0]:,.0f}", f"at most {rate[1]:,.0f}", "first"))
    room = f"parameters alone take {size(summary.param_bytes)} of {size(chip.hbm_bytes)}"
    shown.append(
        Card("fits", "memory", "fits" if summary.fits else "does not fit", room, "first" if summary.fits else "doubt")
    )
    return shown


def exact_line(account: Account) -> str:
    """The model FLOPs to the last one: the tables round. And how far they can be trusted, where that is not wholly."""
    parts = [f"{tally.flops:,} {phase}" for phase, tally in account.totals.by_phase.items() if tally.flops]
    flops = f"model FLOPs {', '.join(parts) or '0'}"
    share = account.coverage.flops_share
    if most := share(Status.UPPER_BOUND):
        return f"at most: {flops}; {small_percent(most)} of them are an upper bound: {_why_at_most(account)}"
    if estimated := share(Status.ESTIMATE):
        return f"counted: {flops}; {small_percent(estimated)} of them are an estimate"
    return f"exactly: {flops}"


def _why_at_most(account: Account) -> str:
    notes = {op.cost.note for op in account.report.ops if op.cost.status is Status.UPPER_BOUND and op.cost.flops}
    unread = "values that decide (masks, lengths) were not read"
    return "; ".join([*([WHOLE_CACHE] if WHOLE_CACHE in notes else []), *([unread] if notes - {WHOLE_CACHE} else [])])


def of_one(account: Account, before: str) -> str:
    """What a rate is of, where counts are of more: "of one of 8 ranks" after `before`; "" for a single rank."""
    ranks = account.report.ranks
    return "" if ranks == 1 else f"{before}of one of {ranks} ranks"


def warnings_of(account: Account) -> list[str]:
    """What makes a number wrong rather than partial, said above all others."""
    flags = _flags(account)
    if len(flags) <= MAX_FLAGS:
        return flags
    return [*flags[:MAX_FLAGS], f"… and {len(flags) - MAX_FLAGS:,} more places with a rate above the peak."]


def _flags(account: Account) -> list[str]:
    found = [*(account.utilization.flags if account.utilization else ())]
    found += account.roofline.flags if account.roofline else ()
    return list(dict.fromkeys(found))


def remarks_of(account: Account) -> list[tuple[str, list[str]]]:
    """(title, sentences): what follows, notes of the run, what is missing, what was assumed, how times were taken."""
    report, clock = account.report, account.report.clock
    missing = [
        f"{op.op} has no formula{f': {op.note}' if op.note not in ('', 'no formula') else ''}."
        for op in account.coverage.unknown
    ]
    notes = [*account.notes, *report.notes]
    if account.other_machine and account.device is not None:
        missing.append(
            f"Times were measured on {report.device}, peaks are those of {account.device.name}: MFU and roofline "
            "compare two machines."
        )
    if not account.timed:
        missing.append("Nothing was timed: there are no rates, no utilization and no throughput.")
    if account.device is None:
        missing.append("No accelerator is known: name one (--hardware h100) for utilization and roofline.")
    if report.global_partial:
        missing.append(report.global_partial)
    if account.coverage.unattributed_ns:
        took = duration(account.coverage.unattributed_ns)
        missing.append(f"{took} were spent outside of counted operators, mostly in Python.")
    assumed = [
        *(account.untimed_prediction.assumptions if account.untimed_prediction else ()),
        *(account.utilization.notes if account.utilization else ()),
        *(account.roofline.notes if account.roofline else ()),
    ]
    assumed += [
        f"{row.op}, {row.phase}: {row.status}. {row.note}"
        for row in account.ops
        if row.note and row.status not in ("exact", "unknown")
    ]
    times = []
    if account.timed:
        source = SOURCES.get(clock.source, clock.source)
        times.append(f"Times by {source}: {clock.steps} steps after {clock.warm_up} that were not timed.")
        if clock.while_counting:
            times.append("The timed step was also the counted one: its times hold the cost of counting.")
        if clock.own_ns:
            times.append(
                f"weftrace's own work beside a step takes about {duration(clock.own_ns)} (calibrated): marks, which "
                "are in the times shown, and hooks in the backward, which are not."
            )
    settings = [f"{key}: {value}" for key, value in report.settings.items()]
    return [
        ("What follows", list(findings_of(account))),
        ("Notes", notes),
        ("What is missing", missing),
        ("What was assumed", list(dict.fromkeys(assumed))),
        ("How times were taken", times),
        ("Settings", settings),
    ]


def findings_of(account: Account) -> list[str]:
    """What in the report should someone look at, a sentence each; what `warnings_of` says is left to it."""
    found = findings(account)
    said = set(_flags(account))
    return [text for text in found if text not in said]


def _parameters(account: Account) -> str:
    params = account.params
    parts = [size(params.bytes)]
    if params.trainable != params.total:
        parts.append(f"{si(params.trainable)} trainable")
    if params.active != params.total:
        parts.append(f"{si(params.active)} active")
    if params.global_total != params.total:
        parts.append(f"{si(params.global_total)} before sharding")
    return ", ".join(parts)
