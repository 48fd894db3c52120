"""A comparison of pipeline schedules in words: what terminal, page and Markdown say alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypedDict

from weftrace.pipeline.comparing.document import ComparisonSummary, LawResult, ScheduleRow
from weftrace.pipeline.render.words import length_text, time_text
from weftrace.units import counted, listed, percent, si

#: Key -> (term, what it means), of the columns of a comparison.
COMPARISON_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "step": ("Step", "From the start of the first action to the end of the last, by the boundary that is named."),
        "idle_part": ("Idle, as a part", "The bubble as a part of the step."),
        "simulated": ("Bubble, simulated", "The idle time of the device that idles most."),
        "law": (
            "Exact law",
            "The bubble by the formula that holds, where one is known; computed in whole numbers; * where what it "
            "needs is not so here.",
        ),
        "off": ("Off", "What the exact law gives, less the simulated bubble. 0: they agree to the nanosecond."),
        "published": ("Published", "The bubble by the formula published with the schedule; * where it is not so here."),
        "activations": (
            "Activations",
            "The most that a device holds at once, in activations of one micro-batch: of a stage where schedules have "
            "equally many stages, of a device's share of the model where they have equally many devices.",
        ),
        "parameters": ("Parameters", "What a device holds of the model's parameters, in the same shares."),
    }
)  # fmt: skip

_MOST_EQUAL = 3  # schedules named beside the best, where they are as good


def shares(number: float) -> str:
    """Activations or parameters: as few digits as tell them."""
    return f"{number:.4g}"


def comparison_headline(summary: ComparisonSummary) -> str:
    """Which schedule is best here, by how much, and what it costs in memory."""
    rows, unit = summary.rows, summary.unit_ns
    if not rows:
        return f"No schedule is possible here: {setting(summary)}."
    best = next((row for row in rows if row.name == summary.choice), rows[0])
    cap = summary.memory_cap
    if not best.fits:
        least = min(rows, key=lambda row: row.peak_activations)
        return (
            f"No schedule fits {counted(float(shares(cap or 0)), 'activation')} on a device: {least.title} needs "
            f"least, {shares(least.peak_activations)}."
        )
    among = f" of those that hold {counted(float(shares(cap)), 'activation')} or fewer" if cap is not None else ""
    equal = [row.title for row in rows if row is not best and _alike(row, best)]
    if len(equal) > _MOST_EQUAL:
        equal[_MOST_EQUAL - 1 :] = [counted(len(equal) - _MOST_EQUAL + 1, "other")]
    names = listed([best.title, *equal])
    devices = "" if summary.equal == "devices" else f" on {counted(best.num_devices, 'device')}"
    idle = "no part" if not best.bubble_ns else percent(best.bubble_share)
    named = f"{names[:1].upper()}{names[1:]}"
    held = counted(float(shares(best.peak_activations)), "activation")
    needs = f" {best.title} needs {best.needs}." if best.needs else ""
    return (
        f"{named} {'take' if equal else 'takes'} least time{' of devices' * bool(devices)}{among}"
        f"{_but_for(rows, best)}: a step of {length_text(best.step_ns, unit)}{devices}, {idle} of it idle, with {held} "
        f"and {shares(best.parameters)}x the parameters on a device.{_against(rows, best)}{_bound(summary, best)}"
        f"{needs}"
    )


def _but_for(rows: Sequence[ScheduleRow], best: ScheduleRow) -> str:
    """The fastest that is not the choice, because the choice is simpler and nearly as fast; rows are ranked."""
    first = next(row for row in rows if row.fits and (not row.needs or best.needs))
    least, own = (row.step_ns * row.num_devices for row in (first, best))
    return (
        f" except for {first.title}, which is not as simple and saves {percent(1 - least / own)}" if least < own else ""
    )


def _bound(summary: ComparisonSummary, best: ScheduleRow) -> str:
    """How far the best is from what no schedule can be below."""
    if not 0 < summary.bound_ns <= best.step_ns:
        return ""
    more = percent(best.step_ns / summary.bound_ns - 1)
    return f" No schedule can take less than {length_text(summary.bound_ns, summary.unit_ns)}: it takes {more} more."


def setting(summary: ComparisonSummary) -> str:
    """What is compared."""
    return (
        f"{counted(summary.num_equal, summary.equal.removesuffix('s'))}, "
        f"{counted(summary.num_micro_batches, 'micro-batch')}, "
        f"boundary: {summary.boundary}"
    )


def costs_in(summary: ComparisonSummary) -> str:
    """ "F 1, I 1, W 1, F&B 3"; "by stage" where stages differ."""
    costs, unit = summary.costs, summary.unit_ns
    times = {"F": costs.forward_ns, "I": costs.input_ns, "W": costs.weight_ns, "B": costs.backward_ns,
             "F&B": costs.overlapped_ns}  # fmt: skip
    texts = [
        f"{letter} {time_text(time, unit) if isinstance(time, int) else 'by stage'}"
        for letter, time in times.items()
        if time is not None
    ]
    if costs.overlapped_ns is None:
        texts.append("F&B as F, then B")
    if costs.latency_ns:
        texts.append(f"a message {time_text(costs.latency_ns, unit)}")
    if costs.bytes_per_s is not None:
        texts.append(f"links of {si(costs.bytes_per_s, 'B/s')}")
    if costs.blocking:
        texts.append("messages block")
    factor = costs.rank_factor
    if (slowest := max(factor) if isinstance(factor, tuple) else factor) != 1:
        texts.append(f"{'ranks up to' if isinstance(factor, tuple) else 'all ranks'} {slowest:g} times as slow")
    return ", ".join(texts)


def law_cell(law: LawResult | None, text: Callable[[float], str]) -> str:
    """What a law gives, with a star where it does not hold here."""
    if law is None or law.bubble_ns is None:
        return "–"
    return text(law.bubble_ns) + "*" * (not law.holds)


class LawLine(TypedDict):
    """A law of one schedule, or of a family's with several numbers of stages, as the list of laws has it."""

    title: str
    which: str
    formula: str
    holding: str


def law_lines(rows: Sequence[ScheduleRow]) -> list[LawLine]:
    """The laws of all rows, in their order; of a family that is there several times, those that say the same once."""
    stages: dict[tuple[str, str, str, str], list[int]] = {}
    titles: dict[tuple[str, str, str, str], str] = {}
    for row in rows:
        for law in _formulas(row):
            key = (row.name.partition(":")[0], *law)
            stages.setdefault(key, []).append(row.num_stages // row.num_devices)
            titles.setdefault(key, row.title)
    return [
        LawLine(title=_of_stages(titles[key], numbers), which=key[1], formula=key[2], holding=key[3])
        for key, numbers in stages.items()
    ]


def _of_stages(title: str, numbers: Sequence[int]) -> str:
    """The title of a schedule, or of a family with these numbers of stages per device."""
    if len(numbers) == 1:
        return title
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if not runs or number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else listed(run) for run in runs]
    return f"{title.partition(' with ')[0]} with {', '.join(texts)} stages per device"


def _formulas(row: ScheduleRow) -> list[tuple[str, str, str]]:
    """(which, formula, whether it holds here) of a schedule's laws; one line where both are the same."""
    published, exact = row.published, row.exact
    if published and exact and published.formula == exact.formula:
        return [("published, exact", exact.formula, _holding(exact))]
    laws = (("published", published), ("exact", exact))
    return [(which, law.formula, _holding(law)) for which, law in laws if law is not None]


def _holding(law: LawResult) -> str:
    return "holds here" if law.holds else f"does not hold here: {law.why_not}"


def _alike(row: ScheduleRow, best: ScheduleRow) -> bool:
    keys = ("step_ns", "num_devices", "peak_activations", "parameters", "bubble_ns", "fits")
    return all(getattr(row, key) == getattr(best, key) for key in keys)


def _against(rows: Sequence[ScheduleRow], best: ScheduleRow) -> str:
    """The best beside 1F1B, which everybody knows."""
    known = next((row for row in rows if row.name == "1f1b"), None)
    if known is None or known is best or known.num_devices != best.num_devices:
        return ""
    if not known.step_ns > best.step_ns > 0:
        return ""
    return f" 1F1B's step is {percent(known.step_ns / best.step_ns - 1)} longer."
