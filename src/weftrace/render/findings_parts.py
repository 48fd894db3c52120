"""Findings in a terminal, as Markdown and as cards of a page: what advice and reports show alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from weftrace.analysis.findings import AdviceReport, Finding, Gain, Number, Remedy, saves, together_words
from weftrace.render.console_parts import BOLD, DIM, WARNING, section
from weftrace.render.console_text import clean, kernel_label, shorten_middle
from weftrace.render.markdown import markdown_code, markdown_text
from weftrace.units import duration, percent, si, size

#: key -> (term, what it means), for pages that show findings.
FINDING_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "finding": (
            "Finding",
            "Something that costs time, found by one rule: where it is, how much of a step it costs, "
            "and what to do about it. docs/rules.md lists all rules.",
        ),
        "gain": (
            "What a remedy saves",
            "The share of a step that the remedy saves. weftrace replays the plan of the recorded "
            "run with the change; the interval goes from the least to the most that the remedy can do. "
            "Ranks without a file widen the interval. If the replay is more than 3 % off, no gain is given. "
            "Gains of several findings overlap, so weftrace also replays all of them at once.",
        ),
        "confidence": (
            "Confidence",
            "How certain the cause is: high if records show it, medium if names or patterns show it, "
            "low if only the times show it.",
        ),
        "remark": ("Note", "A limit of the answer, or something that is not worth doing. It is not a loss."),
    }
)

_MOST_OF_NAME = 60
_MOST_OF_CHANGE = 48
_HOW = {"replay": "replay: {}", "bound": "bound: {}", "measured": "{}"}


def number_words(number: Number) -> str:
    """A number of the evidence with its name: "idle after it: 8.1 ms"."""
    value = number.value
    match number.unit:
        case "ns":
            text = duration(round(value))
        case "share":
            text = percent(value)
        case "bytes":
            text = size(round(value))
        case "bytes/s" | "FLOP/s":
            text = si(value, number.unit.replace("bytes", "B"))
        case "ratio":
            text = f"{value:.2f}"
        case _:
            text = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return f"{number.name}: {text}"


def place_words(finding: Finding) -> str:
    """Where it is, the line of code first."""
    where = finding.where
    ranks = ", ".join(map(str, where.ranks[:4])) + ("…" if len(where.ranks) > 4 else "")
    named = (where.module, where.operator, where.phase)
    parts = [short_code(where.code), *(shorten_middle(clean(name), _MOST_OF_NAME) for name in named)]
    parts += [shorten_middle(kernel_label(name), _MOST_OF_NAME) for name in where.kernels[:1]]
    parts += [f"step {where.step}"] * (where.step is not None)
    parts += [f"rank{'s' * (len(where.ranks) > 1)} {ranks}"] * bool(where.ranks)
    return " · ".join(dict.fromkeys(filter(None, parts)))


def short_code(code: str) -> str:
    """A line of code without the folders of its file, but for the last: "owlv2/modeling_owlv2.py(410): forward"."""
    file, colon, function = code.partition("(")
    return "/".join(file.split("/")[-2:]) + colon + function


def basis_words(finding: Finding) -> str:
    """How the gain is known, and how sure the cause is."""
    how = ""
    if finding.gain is not None:
        how = _HOW[finding.gain.method].format(
            finding.gain.how or ", ".join(_short_changes(finding.gain)) or "measured"
        )
    sure = f"{finding.confidence} confidence" + (f": {finding.reason}" if finding.reason else "")
    return " · ".join(filter(None, (how, sure)))


def _short_changes(gain: Gain) -> list[str]:
    return [shorten_middle(change, _MOST_OF_CHANGE) for change in gain.changes[:3]] + ["…"] * (len(gain.changes) > 3)


def remark_block(finding: Finding) -> RenderableType:
    """What limits an answer, or is to be left as it is."""
    return Text.assemble(("Note: ", WARNING), clean(finding.sentence))


def finding_block(number: int, finding: Finding, whole: str) -> RenderableType:
    """All of a finding: what, where, what to do, what it saves and how that is known."""
    told = told_words(finding, whole)
    head = Text.assemble(f"{number:>2}  ", (clean(finding.title), BOLD))
    style = Style(color="green", bold=True) if finding.worth == "worth it" else DIM
    lines: list[RenderableType] = [Text(clean(told[0].upper() + told[1:]), style=style), Text(clean(finding.sentence))]
    if place := place_words(finding):
        lines.append(Text(clean(place), style=DIM))
    if finding.remedy is not None:
        lines.append(Text.assemble(("Do: ", BOLD), clean(finding.remedy.remedy)))
        if finding.remedy.switch:
            lines.append(Padding(Text(clean(finding.remedy.switch)), (0, 0, 0, 4)))
    if finding.when_not:
        lines.append(Text.assemble(("Not when: ", DIM), (clean(finding.when_not), DIM)))
    if finding.gain is None:
        lines.append(Text(clean(f"No gain is given: {finding.not_told}."), style=DIM))
    lines.append(Text(clean(f"[{finding.rule}] {basis_words(finding)}"), style=DIM))
    return Group(head, Padding(Group(*lines), (0, 0, 0, 4)))


def switch_markdown(remedy: Remedy) -> str:
    """The switch as code, with a space before it; empty where there is none."""
    if not remedy.switch:
        return ""
    return f" {markdown_code(remedy.switch)}"


def told_words(finding: Finding, whole: str) -> str:
    """What a finding saves of the whole, in few words: "saves up to 3.4 ms per step (9 %)"."""
    gain, per = finding.gain, " per step" if whole == "a step" else ""
    if gain is not None and finding.worth == "worth it":
        return f"saves {gain.words_per(per)}"
    return "gain unknown" if finding.worth == "not told" else finding.worth


def head_markdown(report: AdviceReport, most: int = 3) -> str:
    """The first findings as a list; empty where nothing is worth a change."""
    lines = []
    for number, each in enumerate(short_findings(report, most), 1):
        do = "" if each.remedy is None else f" {each.remedy.remedy}"
        lines.append(f"{number}. {markdown_text(f'{each.title}: {told_words(each, report.whole)}.{do}')}")
    return "\n".join(lines)


def short_findings(report: AdviceReport, most: int = 3) -> tuple[Finding, ...]:
    """The first findings, without those that are not worth a change."""
    return tuple(each for each in report.losses if each.worth != "not worth it")[:most]


def head_block(report: AdviceReport, most: int = 3) -> RenderableType | None:
    """The first findings, two lines each, for the head of a report; None where nothing is worth a change."""
    lines: list[RenderableType] = []
    for number, each in enumerate(short_findings(report, most), 1):
        do = each.remedy.remedy if each.remedy is not None else each.sentence
        head = (f"{number}  ", DIM), (clean(each.title), BOLD), ": ", clean(told_words(each, report.whole))
        lines += [Text.assemble(*head), Padding(Text(clean(do), style=DIM), (0, 0, 0, 3))]
    return Group(section("What to do first", "for details: weftrace advise"), *lines) if lines else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCard:
    """A finding as a page shows it. low, high: of its gain, parts of a step, of which the page draws a bar; null where
    no gain is told. rank, device, start_ns, end_ns: where the timeline shows it."""

    rule: str
    kind: str
    title: str
    told: str
    sentence: str
    place: str
    remedy: str
    switch: str
    others: list[tuple[str, str, str]]
    when_not: str
    basis: str
    evidence: list[str]
    low: float | None
    high: float | None
    cost: float
    rank: int | None
    device: int | None
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCards:
    """What a page shows of advice. not_found: rule, title, why it could not be looked for (empty where it was)."""

    cards: list[FindingCard]
    together: str
    not_found: list[tuple[str, str, str]]


def finding_cards(
    report: AdviceReport, zeros_ns: Mapping[tuple[int | None, int | None], int] | None = None
) -> FindingCards:
    """The findings of advice as a page shows them. zeros_ns: (rank, device) -> the zero of its timeline; of others no
    place in a timeline is told."""
    return FindingCards(
        cards=[_card(each, report.whole, zeros_ns or {}) for each in report.findings],
        together=together_words(report),
        not_found=[(each.rule, each.title, "" if each.looked else each.why) for each in report.not_found],
    )


def _card(finding: Finding, whole: str, zeros_ns: Mapping[tuple[int | None, int | None], int]) -> FindingCard:
    remedy, where = finding.remedy, finding.where
    rank = where.ranks[0] if where.ranks else None
    zero = zeros_ns.get((rank, where.device))
    is_without = finding.kind == "finding" and finding.gain is None  # a remark has no remedy that could save anything
    return FindingCard(
        rule=finding.rule,
        kind=finding.kind,
        title=finding.title,
        told=told_words(finding, whole),
        sentence=f"{finding.sentence} {saves(finding, whole)}" if is_without else finding.sentence,
        place=place_words(finding),
        remedy="" if remedy is None else remedy.remedy,
        switch="" if remedy is None else remedy.switch,
        others=_others(finding.others),
        when_not=finding.when_not,
        basis=basis_words(finding),
        evidence=[number_words(number) for number in finding.evidence],
        low=finding.gain_low_share,
        high=finding.gain_high_share,
        cost=finding.cost_share,
        rank=rank,
        device=where.device,
        start_ns=None if zero is None or where.start_ns is None else where.start_ns - zero,
        end_ns=None if zero is None or where.end_ns is None else where.end_ns - zero,
    )


def _others(remedies: Sequence[Remedy]) -> list[tuple[str, str, str]]:
    return [(each.framework, each.remedy, each.switch) for each in remedies]
