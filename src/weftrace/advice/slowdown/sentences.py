"""A cause in a sentence: who, what, how much of the job's time, since when."""

from __future__ import annotations

import re
from collections.abc import Sequence

from weftrace.advice.slowdown.found import Found
from weftrace.analysis.job_slowdown import Cause
from weftrace.units import duration, listed, percent

_MOST_NAMES = 3
LITTLE = 1.01  # S below which nothing is to be gained
_ABOUT = 0.05  # of what they are above 1, by which ratios may differ and be told as one
_NOTHING = 0.005  # of the job's time


def headline_of(causes: Sequence[Cause], slowdown: float, doubt: str, absent: str) -> str:
    """The largest cause, or that there is none. doubt: why nothing can be told. absent: who has no file here; then it
    may lie there."""
    if doubt:
        why = f"What slows the job down is not known: {doubt}"
        return f"{why}; {absent}." if absent else f"{why}."
    named = [cause for cause in causes if cause.kind != "spread" and cause.share >= LITTLE - 1]
    if absent:
        here = [cause for cause in named if cause.kind not in ("absent ranks", "late host")]
        return _of_those_here(named[0] if named and named[0].kind == "absent ranks" else None, here, absent)
    spread = next((cause for cause in causes if cause.kind == "spread"), None)
    if named and (spread is None or spread.share < named[0].share):
        return named[0].sentence
    if named and spread:
        return f"{spread.sentence} With one: {_uncapital(named[0].sentence)}"
    if slowdown < LITTLE:
        return f"No rank, stage or link slows the job down: S = {slowdown:.3f}."
    return (
        causes[0].sentence
        if causes
        else f"The job is {slowdown:.2f}× as long as at its ranks' common pace, without a pattern."
    )


def _of_those_here(waiting: Cause | None, here: Sequence[Cause], absent: str) -> str:
    """What can be told where ranks are absent."""
    own = f" Of those here: {here[0].sentence}" if here else ""
    if waiting is not None:
        return waiting.sentence + own
    rest = own or " Of those here none slows the others down."
    return f"{_capital(absent)}, so what slows the job down may lie in what is missing.{rest}"


def sentence_of(
    found: Found,
    names: Sequence[str],
    saved_ns: float,
    share: float,
    each_ns: Sequence[int],
    alone_share: float = 0.0,
    every: Sequence[str] = (),
) -> str:
    """A cause in a sentence. names: of its ranks. saved_ns, share: of a step that its repair saves. alone_share: of the
    time at its peers' pace that this cause alone adds. every: names of all ranks."""
    when = str(found.details.get("when", ""))
    since = f" since step {found.first_step}" if found.first_step is not None else f" {when}" if when else ""
    amount, costs = f"{percent(max(share, 0))} of the job's time", _costs(share, alone_share)
    saving = f"an even split would save {amount}"
    if round(100 * share, 1) <= 0:
        saving = f"hidden behind other causes, it would cost {percent(alone_share)} without them"
    who = _listed(names, every)
    several = len(names) > 1
    match found.kind:
        case "slow compute":
            ratio = _ratios(found.ratio[: min(len(names), _MOST_NAMES)]) or "longer"
            detail = f" ({how})" if (how := str(found.details.get("how", found.evidence))) else ""
            if found.turns:
                name_of = dict(zip(found.ranks, names, strict=True))
                turns = [
                    f"{_listed([name_of[at] for at in ranks], every)} {at_times.removesuffix(' alone')}"
                    for ranks, at_times in found.turns
                ]
                lead = (
                    "Another rank is slow in each step" if found.details["takes_turns"] else "Ranks are slow at times"
                )
                more = f" and {len(turns) - _MOST_NAMES} more" if len(turns) > _MOST_NAMES else ""
                return (
                    f"{lead}: {'; '.join(turns[:_MOST_NAMES])}{more}; up to {max(found.ratio):.2f}×{detail}; {costs}."
                )
            if len(names) > _MOST_NAMES and " and " not in ratio:
                who = _listed(sorted(names, key=_by_number), every)
            computes = "compute" if several else "computes"
            peers = "their peers" if several else "its peers"
            lead = f"{_capital(who)} {computes} {ratio} as long as {peers}{since}{detail}: {costs}"
            return lead + (f"; {_each(each_ns)}." if 1 < len(each_ns) <= _MOST_NAMES else ".")
        case "uneven stages":
            stage = found.stages[0]
            place = " (the last)" if stage == found.details.get("last") else " (the first)" if stage == 0 else ""
            if len(found.stages) > 1:
                place = ""
            whose = f"Stage {stage}{place} computes"
            if len(found.stages) > 1:
                whose = f"Stages {_listed([str(each) for each in sorted(found.stages)])} compute"
            doubt = ", or a slow rank: it has one alone" if found.details.get("no_peers") else ""
            return f"{whose} {found.ratio[0]:.2f}× as long as the others ({found.evidence}{doubt}); {saving}."
        case "uneven sequence lengths":
            spread = percent(float(found.details["spread"]), 0)
            saving = saving.replace("an even split", "equal lengths")
            return f"Micro-batches differ by {spread} in length ({found.evidence}); {saving}."
        case "garbage collection":
            if found.details.get("is_named"):
                whose = f"{_capital(who)} {'collect' if several else 'collects'}" if names else "Changing ranks collect"
                return f"{whose} garbage while others wait ({found.evidence}): {costs}."
            what = "Hosts stop" if found.details.get("are_hosts") else f"Single {found.details['way']}s take long"
            return f"{what} at changing ranks, as in garbage collection ({found.evidence}): {costs}."
        case "slow link":
            ratio = f"{found.ratio[0]:.1f}×"
            what = _collective(found.evidence)
            return f"The link between {who} is slow, {what} takes {ratio} as long as elsewhere: {costs}."
        case "late host":
            lost = duration(float(found.details["lost"]))
            how_late = f"{since} by {lost}" if when else f"{since} by {lost} a step"
            whose = f"{_capital(who)}'s host is late" if names else "Hosts are late at many ranks"
            return f"{whose}{how_late}, mostly {_collective(found.evidence)}: {costs}."
        case "absent ranks":
            least = share * each_ns[0] / saved_ns if saved_ns > 0 and each_ns else 0.0
            between = f"between {percent(max(0.0, least))} and" if least >= _NOTHING else "up to"
            saving = f"{between} {percent(max(share, 0))} of the job's time"
            return f"{_capital(str(found.details['clause']))}, and those here wait for the absent ones: {saving}."
        case _:
            return found.evidence


def _costs(share: float, alone_share: float) -> str:
    if share < _NOTHING <= alone_share:
        return f"hidden behind other causes, it would cost {percent(alone_share)} without them"
    return f"this costs {percent(max(share, 0))} of the job's time"


def _collective(evidence: str) -> str:
    """`all_gather 4194304 BFloat16 2`, with what the numbers are."""

    def spelled(match: re.Match[str]) -> str:
        name, number, dtype, size = match.groups()
        return f"{name} ({int(number):,} {dtype}, {size} ranks)"

    return re.sub(r"(\w+) (\d+) ([A-Za-z]\w*) (\d+)", spelled, evidence)


def _each(each_ns: Sequence[int]) -> str:
    """What repairs of single ones save."""
    if max(each_ns) <= 0:
        return "repairing one alone saves nothing"
    return f"repairing one alone saves {' or '.join(duration(max(0, ns)) for ns in each_ns[:_MOST_NAMES])} a step"


def _listed(names: Sequence[str], every: Sequence[str] = ()) -> str:
    """every: names of all ranks; those that are all of one place are named by it."""
    if len(names) > 1 and (place := _place_of(names, every)):
        return f"all ranks of {place}"
    return listed(names, most=_MOST_NAMES)


def _place_of(names: Sequence[str], every: Sequence[str]) -> str:
    """The replica, or another place, all of whose ranks these are."""
    for place in _places(names[0]):
        if {name for name in every if place in _places(name)} == set(names):
            return place
    return ""


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split()]


def _places(name: str) -> list[str]:
    return [found.group() for found in re.finditer(r"[A-Z]{2} \d+", name)]


def _ratios(ratios: Sequence[float]) -> str:
    """Those that are about equal once."""
    if ratios and max(ratios) - min(ratios) <= _ABOUT * (max(ratios) - 1):
        return f"{max(ratios):.2f}×"
    return " and ".join(dict.fromkeys(f"{ratio:.2f}×" for ratio in ratios))


def _uncapital(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
