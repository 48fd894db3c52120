"""Advice in a terminal, and as Markdown for a person or an agent to act on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.analysis.findings import AdviceReport, Finding, saves, together_words
from weftrace.render.console_parts import BOLD, DIM, notes_block, opening, print_blocks, section
from weftrace.render.console_text import clean
from weftrace.render.findings_parts import (
    basis_words,
    finding_block,
    number_words,
    place_words,
    remark_block,
    short_findings,
    switch_markdown,
)
from weftrace.render.markdown import markdown_code, markdown_text
from weftrace.units import counted, duration
from weftrace.version import __version__

_MAX_WIDTH = 110
#: Findings that are shown where not all are asked for.
FEW = 5
#: Letters of a Markdown file: under 4,000 tokens.
_MOST_LETTERS = 12_000


def print_advice(report: AdviceReport, console: Console, *, all_of_it: bool = False) -> None:
    """Print a `weftrace.advice/1` document. all_of_it: more than five findings, and what was not found."""
    width = min(console.width, _MAX_WIDTH)
    blocks = list(opening("advise", facts_of(report), report.headline))
    blocks += [remark_block(each) for each in report.remarks if each.rule != "leave-it"]
    losses = report.losses if all_of_it else short_findings(report, FEW)
    blocks += [finding_block(number, each, report.whole) for number, each in enumerate(losses, 1)]
    blocks += [remark_block(each) for each in report.remarks if each.rule == "leave-it"]
    if report.together is not None:
        blocks.append(Text(together_words(report), style=BOLD))
    if all_of_it:
        blocks += _not_found(report)
    elif (more := len(report.losses) - len(losses)) or report.not_found:
        rest = [counted(more, "more finding")] * bool(more)
        rest += [f"{counted(len(report.not_found), 'rule')} that found nothing"] * bool(report.not_found)
        blocks.append(Text(f"--all also shows {' and '.join(rest)}.", style=DIM))
    print_blocks([*blocks, *notes_block(report.notes)], console, width)


def facts_of(report: AdviceReport) -> Iterator[str]:
    """What the advice is about: source, device, ranks, steps, framework."""
    yield report.source
    if report.device_name:
        yield report.device_name
    if len(report.ranks) > 1:
        yield counted(len(report.ranks), "rank")
    yield (
        f"{counted(report.num_steps, 'step')} of {duration(report.step_ns)}"
        if report.num_steps
        else duration(report.span_ns)
    )
    if report.frameworks and report.frameworks[0] != "pytorch":
        yield report.frameworks[0]


def _not_found(report: AdviceReport) -> list[RenderableType]:
    looked = [each for each in report.not_found if each.looked]
    not_told = [each for each in report.not_found if not each.looked]
    blocks: list[RenderableType] = []
    if looked:
        lines = [Text(clean(f"  {each.rule}: {each.title}"), style=DIM) for each in looked]
        blocks.append(Group(section("Looked for and not found"), *lines))
    if not_told:
        lines = [Text(clean(f"  {each.rule}: {each.why}"), style=DIM) for each in not_told]
        blocks.append(Group(section("Could not be looked for"), *lines))
    return blocks


def advice_markdown(report: AdviceReport) -> str:
    """Advice as a short list: place first, then what to change, under 4,000 tokens."""
    lines = [f"**{markdown_text(report.headline)}**", "", markdown_text(" · ".join(facts_of(report))), ""]
    lines += [f"> {markdown_text(each.sentence)}\n" for each in report.remarks if each.rule != "leave-it"]
    length = sum(map(len, lines))
    for number, each in enumerate(report.losses, 1):
        part = list(_markdown_of(number, each, report.whole))
        length += sum(map(len, part))
        if length > _MOST_LETTERS:
            lines.append(f"{len(report.losses) - number + 1} more findings are in the JSON (`-o advice.json`).\n")
            break
        lines += part
    lines += [f"{markdown_text(each.sentence)}\n" for each in report.remarks if each.rule == "leave-it"]
    if report.together is not None:
        lines.append(f"**{markdown_text(together_words(report))}**\n")
    absent = [each.rule for each in report.not_found if each.looked]
    if absent:
        lines.append(f"Looked for and not found: {markdown_text(', '.join(absent))}.\n")
    lines.append(f"*weftrace {__version__}*\n")
    return "\n".join(lines)


def _markdown_of(number: int, finding: Finding, whole: str) -> Iterator[str]:
    place = place_words(finding)
    title = f"{place}: {finding.title}" if place else finding.title
    yield f"## {number}. {markdown_text(title)} ({markdown_code(finding.rule)})"
    yield ""
    yield f"{markdown_text(finding.sentence)} {markdown_text(saves(finding, whole))}"
    yield ""
    if finding.remedy is not None:
        yield f"- Do: {markdown_text(finding.remedy.remedy)}{switch_markdown(finding.remedy)}"
    if finding.when_not:
        yield f"- Not when: {markdown_text(finding.when_not)}"
    if finding.evidence:
        yield f"- Evidence: {markdown_text('; '.join(map(number_words, finding.evidence)))}"
    yield f"- Basis: {markdown_text(basis_words(finding))}"
    yield ""


def advice_rows(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """A row a finding: what a table of advice holds."""
    return [
        {
            "rule": each.rule, "title": each.title, "kind": each.kind, "place": place_words(each),
            "cost_ns": each.cost_ns, "cost_share": each.cost_share,
            "gain_low_ns": each.gain and each.gain.low_ns, "gain_high_ns": each.gain and each.gain.high_ns,
            "gain_low_share": each.gain_low_share, "gain_high_share": each.gain_high_share, "worth": each.worth,
            "confidence": each.confidence, "sentence": each.sentence, "remedy": each.remedy and each.remedy.remedy,
            "switch": each.remedy and each.remedy.switch,
        }
        for each in findings
    ]  # fmt: skip
