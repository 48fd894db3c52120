"""A recommendation in sentences: the choice, what would flip it, what it rests on."""

from __future__ import annotations

from weftrace.pipeline.choices.flips import Flip
from weftrace.pipeline.choices.recommendation import Recommendation, of
from weftrace.pipeline.choices.searched import why_not_searched
from weftrace.pipeline.comparing.comparison import MOST_STAGES, Candidate
from weftrace.pipeline.measured.sourced_costs import SourcedCosts, mean_ns
from weftrace.units import counted, duration, size


def headline(found: Recommendation) -> str:
    """The choice, by how much it is faster, than what, and how a step ends."""
    how = "With a barrier at the step's end" if found.boundary == "barrier" else "With each rank's own span as its step"
    if found.choice is None:
        able = [each for each in found.ranked if found.may_be_chosen(each)]
        if not able:
            because = f" {found.impossible[0].reason}" if found.impossible else ""
            return f"No schedule can be made for these numbers.{because}"
        least = min(able, key=found.held)
        return (
            f"{how}, no schedule is within the cap of {_cap(found)}: the least is {least.title}'s, "
            f"{_amount(found, least)}."
        )
    step_ns = of(found.choice).step_ns
    others = {id(each): each for each in (found.runner_up, found.baseline) if each is not None}
    others.pop(id(found.choice), None)
    less = [_against(each, step_ns, found) for each in others.values()]
    alone = ", the only one that fits" if not all(map(found.fits, found.ranked)) else ""
    than = f", {', and '.join(less)}" if less else alone
    return (
        f"{how}, {found.choice.title} takes {duration(step_ns)} a step{than}; a device holds "
        f"{_amount(found, found.choice)}."
    )


def _against(other: Candidate, step_ns: int, found: Recommendation) -> str:
    theirs = of(other).step_ns
    part = 100 * (theirs - step_ns) / max(theirs, 1)
    role = "the next best, " if other is found.runner_up else "" if found.fits(other) else "over the cap, "
    if theirs == step_ns:
        return f"as long as {other.title} ({role.removesuffix(', ') or duration(theirs)})"
    return f"{_part_text(part)} {'more' if part < 0 else 'less'} than {other.title} ({role}{duration(theirs)})"


def _amount(found: Recommendation, each: Candidate) -> str:
    """What a device holds of it, in words."""
    if found.in_bytes:
        return f"{size(found.held(each))} of activations and parameters"
    copies = "" if each.parameters == 1 else f", and {float(each.parameters):g} times the parameters"
    return counted(round(found.held(each), 2), "chunk activation") + copies


def _cap(found: Recommendation) -> str:
    caps = [] if found.memory_cap is None else [counted(found.memory_cap, "chunk activation")]
    return " and ".join([*caps, *([] if found.cap_bytes is None else [size(found.cap_bytes)])])


def flip_text(found: Recommendation, flip: Flip) -> str:
    """Beyond which value another schedule would be the choice."""
    title = {each.name: each.title for each in found.ranked}[flip.winner]
    up = flip.at > flip.now
    last, now = (flip.at - 1 if up else flip.at + 1) / 100, flip.now / 100
    than = "more" if up else "less"
    forward_ns = mean_ns(found.costs.forward_ns)
    messages = f"{than} than {last:.2f} F ({duration(last * forward_ns)}; {now:.2f} now)"
    if up and not last:
        messages = f"{flip.at / 100:.2f} F ({duration(flip.at / 100 * forward_ns)}; nothing now)"
    texts = {
        "overlapped": f"If F&B took {than} than {last:.2f} of F + B ({now:.2f} now), {title} would be the choice.",
        "weight": f"If W were {than} than {last:.2f} of B ({now:.2f} now), {title} would be the choice.",
        "latency": f"If a message between ranks needed {messages} on its way, {title} would be the choice.",
    }
    return texts[flip.factor]


def sentences_of(found: Recommendation, sourced: SourcedCosts) -> list[str]:
    """What would flip the choice, what other caps would give, what changes nothing, what the numbers rest on."""
    sentences = [] if found.choice is None else _instead_of_the_fastest(found, found.choice)
    sentences += [flip_text(found, flip) for flip in found.flips or ()]
    if found.choice is not None:
        sentences += _bound(found) + _search(found)
        sentences += _by_memory(found, found.choice)
        if found.flips is not None and found.runner_up is not None:
            ranges = {"overlapped": "F&B up to F + B", "weight": "W up to 0.66 of B", "latency": "messages up to F"}
            steady = [text for name, text in ranges.items() if name not in {flip.factor for flip in found.flips}]
            sentences += [f"Not changed by {', or '.join(steady)}, as far as looked at."] if steady else []
    if sourced.costs.overlapped_ns is None:
        sentences.append("What F&B takes is not known: it is taken as F + B, so overlapping gains nothing here.")
    elif sourced.is_upper_bound:
        sentences.append(_of_upper_bounds(found))
    return sentences


def _of_upper_bounds(found: Recommendation) -> str:
    """What it means that F, I and W are upper bounds, and how far below them they would have to be to matter: with F&B
    as it is, they at x times theirs are F&B at 1 / x times its part of F + B."""
    text = (
        "F, I and W are serial upper bounds, F&B is measured overlapped: schedules without F&B may be faster than shown"
    )
    up = [flip for flip in found.flips or () if flip.factor == "overlapped" and flip.at > flip.now]
    if not up or found.costs.latency_ns:
        return f"{text}."
    title = {each.name: each.title for each in found.ranked}[up[0].winner]
    return f"{text}; {title} would be the choice were they below {up[0].now / (up[0].at - 1):.2f} of these bounds."


def _instead_of_the_fastest(found: Recommendation, choice: Candidate) -> list[str]:
    """That the choice is simpler than the fastest, and what that would save."""
    fastest = found.fastest
    if fastest is None or fastest is choice:
        return []
    saves = 100 * (1 - of(fastest).step_ns / of(choice).step_ns)
    return [
        f"{_capital(fastest.title)} would take {duration(of(fastest).step_ns)}, {_part_text(saves)} less, at "
        f"{_amount(found, fastest)}; {choice.title} is simpler: {_simpler_by(choice, fastest)}."
    ]


def _simpler_by(choice: Candidate, fastest: Candidate) -> str:
    copies, overlaps, splits, held, slices, searched = (
        own < theirs for own, theirs in zip(choice.asks, fastest.asks, strict=True)
    )
    texts = {
        "one copy of the parameters": copies,
        "no F&B": overlaps,
        "I and W in one": splits,
        f"{counted(choice.asks[3], 'stage')} per device instead of {fastest.asks[3]:g}": held and not copies,
        "no slices": slices,
        "a known order": searched,
    }
    return ", ".join(text for text, differs in texts.items() if differs)


def _bound(found: Recommendation) -> list[str]:
    """How far the choice is from what no schedule can be below, and which stages that is for."""
    if found.gap is None:
        return []
    most = f"up to {MOST_STAGES} equal stages per device"
    if found.num_layers is not None:
        most = f"stages of {counted(found.num_layers, 'layer')}"
    return [
        f"No schedule of {most} can take less than {duration(found.bound_ns)} here; the choice takes "
        f"{_part_text(100 * found.gap)} more."
    ]


def _search(found: Recommendation) -> list[str]:
    """What the search tried, and whether there may be better near what it found."""
    if found.search is None:
        return [why] if found.was_search_asked and (why := why_not_searched(found.costs, found.boundary)) else []
    tried = f"{found.search.num_moves:,} changes of order"
    if found.search.found_from is None:
        return [f"A search of {tried} found nothing faster."]
    ended = (
        "near it, no swap of two actions of a device and no move of a layer saves 0.1 %"
        if found.search.is_settled
        else "its time ended before all neighbours of the result were tried: --search-seconds gives more"
    )
    return [f"{tried} were tried; {ended}."]


def _part_text(part: float) -> str:
    return f"{abs(part):.1f} %" if abs(part) >= 0.05 else "under 0.1 %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _by_memory(found: Recommendation, choice: Candidate) -> list[str]:
    """What other caps would give: the front above the cap, and the next on the front below the choice."""
    step_ns = of(choice).step_ns
    over = sorted(
        (each for each in found.ranked if found.may_be_chosen(each) and not found.fits(each)),
        key=lambda each: (found.held(each), of(each).step_ns),
    )
    sentences, best_ns = [], step_ns
    for each in over:
        if (takes := of(each).step_ns) < best_ns:
            best_ns = takes
            sentences.append(
                f"With room for {_amount(found, each)}, {each.title}: {duration(takes)}, "
                f"{100 * (1 - takes / step_ns):.1f} % less."
            )
    smaller = [each for each in found.front if found.held(each) < found.held(choice)]
    return sentences + [
        f"With less memory, {each.title}: {duration(of(each).step_ns)} at {_amount(found, each)}."
        for each in smaller[:1]
    ]
