"""docs/rules.md: every rule as rules.toml has it, each with what `weftrace advise` says of a trace that has its cause.

`python -m tests.findings.rules_page` writes the page; with ids of rules, only the examples of these are made again, and
with `--texts` none.
`python -m tests.findings.rules_page --trace RULE FILE` writes the trace of an example.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from tests.findings.planted import Case
from tests.findings.planted.catalogue import planted
from tests.findings.planted_jobs import Case as JobCase
from tests.findings.planted_jobs import cases as job_cases
from weftrace.advice.findings.advising import advise
from weftrace.advice.findings.registry import RULES
from weftrace.advice.findings.rule_texts import FRAMEWORKS, RuleText, all_rules, rule_text
from weftrace.analysis.findings import Finding, saves
from weftrace.units import duration

FILE = Path(__file__).parents[2] / "docs" / "rules.md"
STRENGTHS = (1, 2)  # middle, strong
_TRIES = 4
NO_EXAMPLE = "There is no example yet."
FAMILIES = {
    "host": "The host",
    "loading": "Loading of data",
    "tiny_kernels": "Short kernels",
    "pauses": "Pauses and compilation",
    "communication": "Communication",
    "ranks": "Ranks",
    "kernels": "Kernels",
    "memory": "Memory",
    "serving": "Serving",
    "quality": "What can be said at all",
}
_TITLE = """# The rules of advice

What [`weftrace advise`](advise.md) looks for: {number} rules. A rule finds something only where the time counts for
the step, and above its thresholds; `--gate` takes the ids. Thresholds and texts are data (`advice/findings/rules.toml`
in the sources), each switch with the version in which it was seen.

The examples are from simulated traces, in which the rule's cause is planted. In weftrace's repository
`python -m tests.findings.rules_page --trace RULE FILE` writes the trace, and
`weftrace advise FILE --all` says the rest.

| rule | what is wrong | kind |
|---|---|---|
{rows}
"""
_EXAMPLE = re.compile(r"<!-- example of ([\w-]+) -->\n(.*?)\n<!-- end -->", re.DOTALL)


def page(examples: dict[str, str]) -> str:
    """The page. examples: rule -> what is said of its trace."""
    texts = all_rules()
    remarks = {rule.id for rule in RULES if rule.is_remark}
    rows = [
        f"| [`{text.id}`](#{text.id}) | {text.title} | {'remark' if text.id in remarks else 'finding'} |"
        for text in texts
    ]
    parts = [_TITLE.format(number=len(texts), rows="\n".join(rows))]
    for family, title in FAMILIES.items():
        own = [text for text in texts if text.family == family]
        parts += [f"## {title}\n", *(_section(text, examples.get(text.id, NO_EXAMPLE)) for text in own)] if own else []
    return "\n".join(parts)


def _section(text: RuleText, example: str) -> str:
    lines = [f"### {text.id}", "", f"**{text.title}.**", ""]
    lines += [f"- Looks for: {text.looks_for}"]
    lines += [f"- Thresholds: {', '.join(_thresholds(text))}."] if text.thresholds else []
    lines += [f"- Gain: {text.gain}", f"- Not when: {text.when_not}"]
    lines += ["- Not looked for yet: no trace gives this finding."] * (text.id not in {rule.id for rule in RULES})
    lines += ["", "| framework | remedy | switch | checked for |", "|---|---|---|---|"]
    for each in sorted(text.remedies, key=lambda one: FRAMEWORKS[::-1].index(one.framework)):
        switch = f"`{_cell(each.switch)}`" if each.switch else ""
        checked = f"[{_cell(each.versions or 'source')}]({_link(each.source)})" if each.source else _cell(each.versions)
        lines.append(f"| {each.framework} | {_cell(each.remedy)} | {switch} | {checked} |")
    lines += ["", f"<!-- example of {text.id} -->", example, "<!-- end -->", ""]
    if text.sources:
        lines += ["Seen elsewhere:", "", *(f"- [{each.ref}]({_link(each.ref)}): {each.says}" for each in text.sources)]
        lines.append("")
    return "\n".join(lines)


def _thresholds(text: RuleText) -> Iterator[str]:
    """ "least share 5 %"."""
    for name, value in text.thresholds.items():
        words = name.removesuffix("_ns").removesuffix("_bytes").replace("_", " ")
        shown = f"{value:,g}"
        if name.endswith("_ns"):
            shown = duration(value)
        elif "share" in name or "saved" in name:
            shown = f"{100 * value:g} %"
        elif name.endswith("_bytes"):
            shown = f"{value:,.0f} bytes"
        yield f"{words} {shown}"


def _link(ref: str) -> str:
    """Where a source is: an address, or repository#number."""
    repository, _, number = ref.partition("#")
    return ref if "://" in ref else f"https://github.com/{repository}/issues/{number}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# examples ---------------------------------------------------------------------------------------------------------


def cases_of(rule: str) -> Iterator[Case | JobCase]:
    """Traces with this cause alone: of middle strength first, then strong ones."""
    for strength in STRENGTHS:
        for make in planted():
            rules, _, planted_so, _ = make.args
            if rules == (rule,) and planted_so == strength:
                yield make()
        yield from (case for case in job_cases() if case.causes == {rule} and case.strength == strength)


def example(rule: str, target: Path | None = None) -> Finding | None:
    """What is found in the first of these traces in which it is; target: where to write the trace."""
    for case in islice(cases_of(rule), _TRIES):
        with tempfile.TemporaryDirectory() as folder:
            made = case.write(Path(folder))
            found = next((each for each in advise(made, workers=1).findings if each.rule == rule), None)
            if found is not None and target is not None:
                (shutil.copytree if made.is_dir() else shutil.copy)(made, target)
        if found is not None:
            return found
    return None


def example_of(rule: str) -> str:
    """The paragraph of it."""
    found = example(rule) if rule in {each.id for each in RULES} else None
    if found is None:
        return NO_EXAMPLE
    return f"Example: *{_plain(found.sentence)}{f' {saves(found)}' * (found.kind == 'finding')}*"


def _plain(text: str) -> str:
    """Without what Markdown would take for its own."""
    return re.sub(r"([\\`*_<>|])", r"\\\1", text)


def examples_in(text: str) -> dict[str, str]:
    """Those that a page has."""
    return {found[1]: found[2] for found in _EXAMPLE.finditer(text)}


def filled(text: str, again: Collection[str] = ()) -> str:
    """The page as the code has it now; of these rules the examples are made again."""
    return page(examples_in(text) | {rule: example_of(rule) for rule in again})


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--trace"]:
        if example(arguments[1], Path(arguments[2])) is None:
            raise SystemExit(f"{arguments[1]} has no example")
        return
    asked = [rule_text(each).id for each in arguments if each != "--texts"]
    again = asked if arguments else [text.id for text in all_rules()]
    FILE.write_text(filled(FILE.read_text(), again))


if __name__ == "__main__":
    main(sys.argv[1:])
