"""A recommendation in sentences: the choice, what would flip it, what it rests on."""

from __future__ import annotations

from weftrace.pipeline.choices.flips import Flip
from weftrace.pipeline.choices.recommendation import Recommendation, of
from weftrace.pipeline.comparing.comparison import Candidate
from weftrace.pipeline.measured.told_costs import ToldCosts, mean_ns
from weftrace.units import short_time


def headline(found: Recommendation) -> str:
    """The choice, by how much it is faster, than what, and how a step ends."""
    how = "With a barrier at the step's end" if found.boundary == "barrier" else "With each rank's own span as its step"
    if found.choice is None:
        return f"{how}, no schedule is within the cap of {_cap(found)}: {_least(found)}."
    step_ns = of(found.choice).step_ns
    others = {id(each): each for each in (found.runner_up, found.baseline) if each is not None}
    others.pop(id(found.choice), None)
    less = [_against(each, step_ns, found) for each in others.values()]
    than = f", {', and '.join(less)}" if less else ", the only one that fits"
    return (
        f"{how}, {found.choice.family.title} takes {short_time(step_ns)} a step{than}; a device holds "
        f"{_chunks(found.choice)}."
    )


def _against(other: Candidate, step_ns: int, found: Recommendation) -> str:
    theirs = of(other).step_ns
    part = 100 * (theirs - step_ns) / max(theirs, 1)
    role = "the next best, " if other is found.runner_up else "" if found.fits(other) else "over the cap, "
    if theirs == step_ns:
        return f"as long as {other.family.title} ({role.removesuffix(', ') or short_time(theirs)})"
    more = f"{-part:.1f} % more" if part < 0 else f"{part:.1f} % less"
    return f"{more} than {other.family.title} ({role}{short_time(theirs)})"


def _chunks(candidate: Candidate) -> str:
    held = float(candidate.peak_activations)
    copies = "" if candidate.parameters == 1 else f", and {float(candidate.parameters):g} times the parameters"
    return f"{held:g} chunk activation{'' if held == 1 else 's'}{copies}"


def _cap(found: Recommendation) -> str:
    caps = [] if found.memory_cap is None else [f"{found.memory_cap:g} chunk activations"]
    return " and ".join([*caps, *([] if found.cap_bytes is None else [f"{found.cap_bytes:,} bytes"])]) or "no memory"


def _least(found: Recommendation) -> str:
    able = [each for each in found.ranked if found.may_be_chosen(each)]
    if not able:
        return "none has a schedule for these numbers"
    least = min(able, key=lambda each: each.peak_activations)
    return f"the least is {least.family.title}'s, {_chunks(least)}"


def flip_text(found: Recommendation, flip: Flip) -> str:
    """Beyond which value another schedule would be the choice."""
    title = {each.family.name: each.family.title for each in found.ranked}[flip.winner]
    up = flip.at > flip.now
    last, now = (flip.at - 1 if up else flip.at + 1) / 100, flip.now / 100
    than = "more" if up else "less"
    least_ns = last * mean_ns(found.costs.forward_ns)
    texts = {
        "overlapped": f"If F&B took {than} than {last:.2f} of F + B ({now:.2f} now), {title} would be the choice.",
        "weight": f"If W were {than} than {last:.2f} of B ({now:.2f} now), {title} would be the choice.",
        "latency": f"If a message between ranks needed {than} than {last:.2f} F "
        f"({short_time(least_ns)}; {now:.2f} now) on its way, {title} would be the choice.",
    }
    return texts[flip.factor]


def sentences_of(found: Recommendation, told: ToldCosts) -> list[str]:
    """What would flip the choice, what other caps would give, what changes nothing, what the numbers rest on."""
    sentences = [flip_text(found, flip) for flip in found.flips]
    if found.choice is not None:
        sentences += _by_memory(found, found.choice)
        steady = [name for name in ("overlapped", "weight", "latency") if name not in {f.factor for f in found.flips}]
        if steady and found.runner_up is not None:
            ranges = {"overlapped": "F&B up to F + B", "weight": "W up to 0.66 of B", "latency": "messages up to F"}
            sentences.append(f"Not changed by {', or '.join(ranges[name] for name in steady)}, as far as looked at.")
    if told.costs.overlapped_ns is None:
        sentences.append("What F&B takes is not known: it is taken as F + B, so overlapping gains nothing here.")
    elif told.is_upper_bound:
        sentences.append(_of_upper_bounds(found))
    return sentences


def _of_upper_bounds(found: Recommendation) -> str:
    """What it means that F, I and W are upper bounds, and how far below them they would have to be to matter: with F&B
    as it is, they at x times theirs are F&B at 1 / x times its part of F + B."""
    text = (
        "F, I and W are serial upper bounds, F&B is measured overlapped: schedules without F&B may be faster than told"
    )
    up = [flip for flip in found.flips if flip.factor == "overlapped" and flip.at > flip.now]
    if not up or found.costs.latency_ns:
        return f"{text}."
    title = {each.family.name: each.family.title for each in found.ranked}[up[0].winner]
    return f"{text}; {title} would be the choice were they below {up[0].now / (up[0].at - 1):.2f} of these bounds."


def _by_memory(found: Recommendation, choice: Candidate) -> list[str]:
    """What other caps would give: the front above the cap, and the next on the front below the choice."""
    step_ns = of(choice).step_ns
    over = sorted(
        (each for each in found.ranked if found.may_be_chosen(each) and not found.fits(each)),
        key=lambda each: (each.peak_activations, of(each).step_ns),
    )
    sentences, best_ns = [], step_ns
    for each in over:
        if (takes := of(each).step_ns) < best_ns:
            best_ns = takes
            sentences.append(
                f"With room for {float(each.peak_activations):g} chunk activations, {each.family.title}: "
                f"{short_time(takes)}, {100 * (1 - takes / step_ns):.1f} % less."
            )
    smaller = [each for each in found.front if each.peak_activations < choice.peak_activations]
    return sentences + [
        f"With less memory, {each.family.title}: {short_time(of(each).step_ns)} at {_chunks(each)}."
        for each in smaller[:1]
    ]
