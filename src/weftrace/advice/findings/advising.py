"""From a trace or a job to advice: rules look at each rank and at the job, the replay tells gains, all is ordered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from weftrace.advice.changes import Change
from weftrace.advice.findings.evidence import Evidence, JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.gains import Replays
from weftrace.advice.findings.registry import RULES, Rule
from weftrace.advice.findings.rule_texts import RemedyText, RuleText, rule_text
from weftrace.advice.findings.sentences import headline_of, inside_sentence
from weftrace.advice.jobs import join_ranks, lanes_of, works_to_replay
from weftrace.advice.op_times import OpTimes
from weftrace.advice.slowdown.answers import slowdown_of
from weftrace.analysis.findings import AdviceReport, Finding, Gain, NotFound, Remedy
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.analysis.rank import Analysis, RankAnalysis, analyze_rank, collect
from weftrace.errors import AdviceError, TraceError, WeftraceError
from weftrace.facts import Hardware
from weftrace.facts import hardware as hardware_named
from weftrace.files.values import filled
from weftrace.plan.inference.values import Inferred
from weftrace.trace.job import Job, open_trace
from weftrace.trace.model import Trace
from weftrace.trace.work import Basis, Work, works_of
from weftrace.units import duration, percent

if TYPE_CHECKING:
    from weftrace.flops.values import FlopsReport

#: Ranks of a job up to which they are replayed together; of more, each is replayed alone.
MOST_JOINED = 16
#: Findings whose remedies are replayed together.
_TOGETHER = 5
_DOUBTS = ("unrecorded-work", "ranks-missing")
#: Why rules about a device could not look.
NO_DEVICE_WORK = "no work of a device is recorded"
#: Of the busiest device of a process: one that works less is not used by the run.
_UNUSED = 0.01


_Same = list[tuple[Found, tuple[Gain | None, str]]]
_Told = tuple[Rule, Found, tuple[Gain | None, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAdvice:
    """What the rules found on one device. plan: of the rank, to be joined with the others'; None where that was not
    asked for. gains: of `found`, by the rank's own plan, where that is not; else empty. notes: what else is known of
    it, sentences."""

    analysis: RankAnalysis
    found: tuple[tuple[str, Found | Missing], ...]
    frameworks: tuple[str, ...]
    num_steps: int
    plan: Inferred | Work | None = None
    gains: tuple[tuple[Gain | None, str], ...] = ()
    notes: tuple[str, ...] = ()


def advise(
    source: str | os.PathLike[str] | Trace | Job,
    *,
    hardware: Hardware | str | None = None,
    flops: FlopsReport | None = None,
    workers: int | None = None,
    on_done: Callable[[str], None] | None = None,
) -> AdviceReport:
    """What to do about a run: findings, most gain first.

    hardware: the accelerator whose peaks count, by default the one that the trace names. flops: what a step of the same
    run costs, which tells MFU where the trace has no shapes. workers, on_done: see `Job.map`.
    Raises `TraceError` where nothing can be read.
    """
    chip = _chip(hardware)
    if not isinstance(source, Trace | Job):
        source = open_trace(source, frames=True, workers=workers)
    if isinstance(source, Trace):
        ranks, failures, name = (
            advise_devices(source, chip=chip, flops=flops, keep_plan=True),
            [],
            source.path or "in memory",
        )
    else:
        joins = len(source.ranks or source.paths) <= MOST_JOINED
        outcomes = replace(source, frames=True).map(
            partial(advise_devices, chip=chip, flops=flops, keep_plan=joins), workers=workers, on_done=on_done
        )
        ranks = [rank for outcome in outcomes for rank in outcome.value or ()]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        name = source.source
    if not ranks:
        raise TraceError(failures[0].error if failures else f"{name}: there is nothing to advise on.")
    return advice_of(collect(name, [rank.analysis for rank in ranks], failures, chip), ranks)


def advise_devices(
    trace: Trace, *, chip: Hardware | None = None, flops: FlopsReport | None = None, keep_plan: bool = False
) -> list[RankAdvice]:
    """What the rules found on each device of a trace."""
    found = [(work, advise_work(work, chip=chip, keep_plan=keep_plan)) for work in works_of(trace)]
    return [one if flops is None else replace(one, notes=(_mfu(flops, work, chip),)) for work, one in found]


def _mfu(flops: FlopsReport, work: Work, chip: Hardware | None) -> str:
    """How much of the peak a step reaches by its counted FLOPs, a sentence."""
    from weftrace.flops.join.join import join

    found = join(flops, work, chip)
    who = "" if work.trace.rank is None else f" on rank {work.trace.rank}"
    if found.mfu is None:
        return f"The FLOPs of {found.model}{who} cannot be compared with a peak: the accelerator is not known."
    parts = [f"{part.phase} {percent(part.mfu)}" for part in found.phases if part.mfu]
    return f"By counted FLOPs{who}, MFU is {percent(found.mfu)} of {found.hardware}: {', '.join(parts)}."


def advise_work(
    work: Work, *, given: RankAnalysis | None = None, chip: Hardware | None = None, keep_plan: bool = False
) -> RankAdvice:
    """What the rules found on one device. given: its analysis, where it is known. keep_plan: keep the plan, to be
    joined with other ranks'; else gains are by the rank's own plan."""
    evidence = Evidence(work=work, given=given or analyze_rank(work, hardware=chip), asked_hardware=chip)
    rules = [rule for rule in RULES if rule.of_device is not None and work.basis in rule.bases]
    found = tuple((rule.id, one) for rule in rules for one in _found(rule.of_device, evidence))
    told = {"analysis": evidence.analysis, "found": found, "frameworks": evidence.frameworks,
            "num_steps": evidence.num_steps}  # fmt: skip
    if keep_plan:
        return RankAdvice(**told, plan=_plan_of(evidence))  # type: ignore[arg-type]
    replays = replays_of(evidence)
    gains = tuple((None, "") if isinstance(one, Missing) else replays.gain_of(one) for _, one in found)
    return RankAdvice(**told, gains=gains)  # type: ignore[arg-type]


def _found(look: Callable[[Any], Iterable[Found | Missing]] | None, evidence: Any) -> list[Found | Missing]:
    """What a rule found. A bug in one must not cost the others."""
    assert look is not None
    try:
        return list(look(evidence))
    except WeftraceError as error:
        return [Missing(what=str(error))]
    except Exception as error:
        return [Missing(what=f"this rule failed, which is a bug: {type(error).__name__}: {error}")]


def replays_of(evidence: Evidence) -> Replays:
    """Replays of a device's own plan."""
    try:
        plan: Inferred | None = evidence.inferred if evidence.work.basis == "device" else None
        why = "" if plan is not None else "there is no device work to replay"
    except WeftraceError as error:
        plan, why = None, f"no plan could be inferred: {error}"
    return Replays(inferred=plan, num_steps=evidence.num_steps, span_ns=evidence.span_ns, why_not=why)


def advice_of(
    analysis: Analysis, ranks: Sequence[RankAdvice], *, slowdown: JobSlowdown | None = None, replays_job: bool = True
) -> AdviceReport:
    """Put together what was found on the ranks of a job, or on one.

    analysis: of the same ranks, in any order. slowdown: of the job, where it is known; else it is found by a replay,
    unless replays_job is False.
    """
    apart = {(of.path, of.rank, of.device) for of in analysis.ranks if of.apart is not None}
    counted = [rank for rank in ranks if _who(rank.analysis) not in apart] or list(ranks)
    counted, unused = _used(counted)
    steps = max(rank.num_steps for rank in ranks)
    plan, why = _joined(counted)
    span = max((rank.analysis.breakdown.span_ns for rank in counted), default=0)
    replays = Replays(inferred=plan, num_steps=steps, span_ns=span, why_not=why)
    frameworks = tuple(dict.fromkeys(each for rank in ranks for each in rank.frameworks))
    job_rules: set[str] = set()
    found: list[_Told] = []
    missing: dict[str, str] = {}
    if len(ranks) > 1 or ranks[0].analysis.basis == "ranges":
        job = JobEvidence(
            analysis=analysis, inferred=plan, frameworks=frameworks, num_steps=steps,
            slowdown=slowdown_of_plan(plan) if slowdown is None and replays_job else slowdown,
            works=() if plan is None else plan.works,
        )  # fmt: skip
        job_rules = _look_at_job(job, replays, found, missing)
    by_id = {rule.id: rule for rule in RULES}
    for rule_id, of_ranks in _by_rule(counted, missing, joined=plan is not None).items():
        if rule_id in job_rules:
            continue
        for same in of_ranks:
            one = _of_ranks([each for each, _ in same], len(counted), are_devices=_are_devices(counted))
            gain = replays.gain_of(one) if plan is not None else _worst([gain for _, gain in same], len(counted))
            found.append((by_id[rule_id], one, gain))
    findings = [_finding(rule, one, gain, replays, frameworks, steps) for rule, one, gain in found]
    order = sorted(range(len(findings)), key=lambda at: _order(findings[at]))
    ordered = tuple(findings[at] for at in order)
    worth = [at for at in order if findings[at].kind == "finding" and findings[at].worth == "worth it"]
    first = [at for at in worth if found[at][1].least or found[at][1].most][:_TOGETHER]
    together = replays.together([found[at][1] for at in first])
    told, trust = {each.rule for each in ordered}, replays.trust
    bases = {rank.analysis.basis for rank in ranks}
    _note_unlooked(bases, len(ranks), missing)
    return AdviceReport(
        source=analysis.source,
        device_name=next((rank.analysis.device_name for rank in ranks if rank.analysis.device_name), ""),
        ranks=[rank.analysis.rank for rank in counted if rank.analysis.rank is not None],
        headline=headline_of(ordered, has_device_work=not bases <= {"host", "none"}),
        frameworks=frameworks,
        span_ns=span,
        num_steps=steps,
        step_ns=span // max(1, steps),
        is_trusted=None if trust is None else trust.is_trusted,
        doubts=() if trust is None else trust.reasons,
        findings=ordered,
        together=together,
        together_of=tuple(findings[at].rule for at in first) if together is not None else (),
        not_found=tuple(_not_found(told, missing)),
        notes=(
            *unused,
            *_other_steps(counted),
            *(note for rank in counted for note in rank.notes),
            *analysis.notes,
            *(f"left out: {failure.error}" for failure in analysis.failures),
        ),
        sources={rule: tuple(f"{s.ref}: {s.says}" for s in rule_text(rule).sources) for rule in sorted(told)},
    )


def _look_at_job(job: JobEvidence, replays: Replays, found: list[_Told], missing: dict[str, str]) -> set[str]:
    """Add what the rules of jobs find, or miss; the rules whose findings stand for the ranks' own."""
    in_place = set()
    for rule in RULES:
        if rule.of_job is None or (rule.in_place == "if joined" and job.inferred is None):
            continue
        of_job = _found(rule.of_job, job)
        if of_job or rule.in_place != "if found":
            in_place.add(rule.id)
        for one in of_job:
            if isinstance(one, Missing):
                missing.setdefault(rule.id, one.what)
            else:
                found.append((rule, one, replays.gain_of(one)))
    return in_place


def _note_unlooked(bases: set[Basis], num_ranks: int, missing: dict[str, str]) -> None:
    """Add the rules that had nothing to look at, and why."""
    for rule in RULES:
        if rule.of_device is None and num_ranks < 2 and "ranges" not in bases:
            missing.setdefault(rule.id, "this takes several ranks")
        elif not bases & set(rule.bases) and (rule.of_job is None or bases == {"host"}):
            missing.setdefault(rule.id, NO_DEVICE_WORK)


def _chip(asked: Hardware | str | None) -> Hardware | None:
    return hardware_named(asked) if isinstance(asked, str) else asked


def _plan_of(evidence: Evidence) -> Inferred | Work | None:
    """What `join_ranks` takes of a rank."""
    if evidence.work.basis == "device":
        try:
            return evidence.inferred
        except WeftraceError:
            return None
    works = works_to_replay(evidence.trace)
    return next((work for work in works if work.device == evidence.work.device), works[0] if works else None)


def _joined(ranks: Sequence[RankAdvice]) -> tuple[Inferred | None, str]:
    """The plan of all ranks, or None and why there is none."""
    plans = [rank.plan for rank in ranks if rank.plan is not None]
    if not plans or len(plans) < len(ranks):
        return None, "the job is too large to be replayed here"
    try:
        return join_ranks(plans), ""
    except WeftraceError as error:
        return None, f"no plan could be inferred: {error}"


def _are_devices(ranks: Sequence[RankAdvice]) -> bool:
    """Whether several devices of one process are meant."""
    return len(ranks) > 1 and len({(rank.analysis.path, rank.analysis.rank) for rank in ranks}) == 1


def _used(ranks: Sequence[RankAdvice]) -> tuple[list[RankAdvice], list[str]]:
    """Without devices of a process that the run does not use, and a sentence about each."""
    if not _are_devices(ranks):
        return list(ranks), []
    work = [rank.analysis.breakdown.span_ns - rank.analysis.breakdown.idle_ns for rank in ranks]
    used = [ns >= _UNUSED * max(work) for ns in work]
    notes = [
        f"Device {rank.analysis.device} works {duration(ns)} in all, and is left out: the run does not use it."
        for rank, ns, is_used in zip(ranks, work, used, strict=True)
        if not is_used
    ]
    return [rank for rank, is_used in zip(ranks, used, strict=True) if is_used], notes


def _other_steps(ranks: Sequence[RankAdvice]) -> Iterable[str]:
    """That ranks number their steps differently, a sentence."""
    steps = {rank.analysis.rank: tuple(step.step for step in rank.analysis.steps) for rank in ranks}
    told = {each: rank for rank, each in steps.items() if each}
    common, every = set.intersection(*map(set, told or {(): 0})), set().union(*told)
    if len(told) > 1 and 2 * len(common) < len(every):
        (first, of_first), (second, of_second) = list(told.items())[:2]
        yield (
            f"Ranks record other steps: rank {of_first} has {first[0]} to {first[-1]}, rank {of_second} {second[0]} to "
            f"{second[-1]}. What compares ranks step by step is of those that all have."
        )


def _who(rank: RankAnalysis) -> tuple[str, int | None, int | None]:
    return rank.path, rank.rank, rank.device


def slowdown_of_plan(plan: Inferred | None) -> JobSlowdown | None:
    """S of a job, from its joined plan; None where its ranks do nothing together."""
    if plan is None:
        return None
    try:
        return slowdown_of(plan if plan.names else lanes_of(plan.works))
    except (AdviceError, TraceError):
        return None


def _own_gains(rank: RankAdvice) -> Sequence[tuple[Gain | None, str]]:
    """What each finding of a rank saves by its own plan."""
    if rank.gains:
        return rank.gains
    plan = rank.plan if isinstance(rank.plan, Inferred) else None
    replays = Replays(inferred=plan, num_steps=rank.num_steps, span_ns=rank.analysis.breakdown.span_ns)
    return [(None, "") if isinstance(one, Missing) else replays.gain_of(one) for _, one in rank.found]


def _by_rule(ranks: Sequence[RankAdvice], missing: dict[str, str], *, joined: bool) -> dict[str, list[_Same]]:
    """Rule -> what the ranks found, those of one key together, with each rank's own gain."""
    gathered: dict[str, dict[str, _Same]] = {}
    for rank in ranks:
        gains = [(None, "")] * len(rank.found) if joined else _own_gains(rank)
        for (rule, one), gain in zip(rank.found, gains, strict=True):
            if isinstance(one, Missing):
                missing.setdefault(rule, one.what)
            else:
                gathered.setdefault(rule, {}).setdefault(one.key, []).append((one, gain))
    return {rule: list(keys.values()) for rule, keys in gathered.items()}


def _of_ranks(same: Sequence[Found], num_ranks: int, *, are_devices: bool = False) -> Found:
    """What several ranks have, told by the worst of them; its cost is the mean over all ranks. are_devices: they are
    devices of one process."""
    worst = max(same, key=lambda one: one.cost_ns)
    if num_ranks < 2:
        return worst
    ordered = sorted(same, key=lambda one: -one.cost_ns)
    numbers = tuple(dict.fromkeys(rank for one in ordered for rank in one.where.ranks))
    whose, noun = f"On rank {numbers[0]}" if numbers else "On one rank", "ranks"
    if are_devices:
        whose, noun = "On one device" if worst.where.device is None else f"On device {worst.where.device}", "devices"
    of_all = f"{len(same)}" if len(same) == num_ranks else f"{len(same)} of {num_ranks}"
    others = f", the worst of {of_all} {noun}," if len(same) > 1 else f" of {num_ranks},"
    return replace(
        worst,
        sentence=f"{whose}{others} {inside_sentence(worst.sentence)}",
        cost_ns=sum(one.cost_ns for one in same) // num_ranks,
        where=replace(worst.where, ranks=numbers),
        least=_merged(change for one in same for change in one.least),
        most=_merged(change for one in same for change in one.most),
    )


def _merged(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Each once; of other times of events, those of all ranks."""
    merged: dict[Change, Change] = {}
    for change in changes:
        known = merged.get(change)
        merged[change] = known + change if isinstance(known, OpTimes) and isinstance(change, OpTimes) else change
    return tuple(merged.values())


def _worst(gains: Sequence[tuple[Gain | None, str]], num_ranks: int) -> tuple[Gain | None, str]:
    """Of ranks that were replayed alone the one that saves most: others may then decide, so it is a bound."""
    told = [gain for gain, _ in gains if gain is not None]
    if not told or num_ranks < 2:
        return gains[0]
    most = max(told, key=lambda gain: gain.high_ns)
    return replace(most, low_ns=min(0, most.low_ns), low_share=min(0.0, most.low_share), method="bound"), ""


def _finding(
    rule: Rule, one: Found, told: tuple[Gain | None, str], replays: Replays, frameworks: tuple[str, ...], steps: int
) -> Finding:
    gain, why = told
    text, cost = rule_text(rule.id), one.cost_ns / max(1, steps)
    first = text.remedy_for(frameworks)
    return Finding(
        rule=rule.id,
        title=text.title,
        kind="remark" if rule.is_remark else "finding",
        sentence=one.sentence,
        where=one.where,
        evidence=one.evidence,
        cost_ns=round(cost),
        cost_share=one.cost_ns / replays.span_ns if replays.span_ns else 0.0,
        gain=gain,
        not_told=why,
        worth="not worth it" if rule.id == "leave-it" else replays.worth_of(gain),
        confidence=one.confidence,
        reason=one.reason,
        remedy=Remedy(framework="pytorch", remedy=one.remedy) if one.remedy else _remedy(first),
        others=() if one.remedy else tuple(_remedy(each) for each in text.remedies if each is not first),
        when_not=text.when_not,
    )


def _remedy(text: RemedyText) -> Remedy:
    return filled(Remedy, text)


def _order(finding: Finding) -> tuple[int, float]:
    """What casts doubt on others, then losses by what they save, those not worth it behind them, then other remarks."""
    if finding.rule in _DOUBTS:
        return _DOUBTS.index(finding.rule), 0
    if finding.kind == "remark":
        return 12, -finding.cost_ns
    return 10 + (finding.worth == "not worth it"), -finding.value_ns


def _not_found(told: Iterable[str], missing: dict[str, str]) -> Iterable[NotFound]:
    known = set(told)
    for rule in RULES:
        if rule.id not in known:
            text: RuleText = rule_text(rule.id)
            why = missing.get(rule.id)
            yield NotFound(rule=rule.id, title=text.title, looked=why is None, why=why or text.looks_for)
