"""The glossary says what the terminal and the pages say, and has the words of the field."""

from __future__ import annotations

import re

import pytest

from tests.glossary import FILE, TERMS, filled
from weftrace.report.render.idle_words import CAUSE_WORDS, PART_WORDS

PAGE = FILE.read_text()
WORDS = (
    "span", "step window", "idle", "launch latency", "held", "unrecorded",
    "exposed", "hidden", "headroom", "straggler", "lateness", "caused",
    "suffered", "waiting that it caused", "waiting", "transferring", "barrier", "bubble", "warm-up", "stage",
    "micro-batch", "F", "I", "W", "B", "F&B", "DualPipe", "expert", "slot", "replica", "EPLB", "balancedness", "policy",
    "EP", "TP", "DP", "PP", "all-to-all", "dispatch", "combine", "algbw", "busbw", "MFU", "HFU", "roofline", "SM", "CU",
    "persistent kernel", "fused", "queue", "launch delay", "host-bound", "CUDA graph", "phase", "lane", "plan", "trace",
    "operation list", "a layer", "basis", "held up by", "pays from", "calibration",
    "critical path", "replay error", "vote", "confidence", "slack", "SM wait", "late start", "sensitivity", "knee",
    "waterfall", "verdict", "noise", "median less mean step", "own time", "mover", "gate",
)  # fmt: skip


def test_definitions_are_those_of_words_py() -> None:
    assert filled(PAGE) == PAGE, "run `make glossary`"


def test_a_definition_that_changed_is_written_anew() -> None:
    term, meaning = TERMS["report"]["idle_turnaround"]
    page = "# Title\n\n<!-- report.idle_turnaround -->\n**Old.** What was said.\n→ [more](overlap.md)\n"
    assert filled(page) == f"# Title\n\n<!-- report.idle_turnaround -->\n**{term}.** {meaning} → [more](overlap.md)\n"
    assert filled(filled(page)) == filled(page)
    with pytest.raises(KeyError):
        filled("<!-- report.nothing -->\n**It.** → [more](overlap.md)")


def test_the_words_of_the_field_have_entries() -> None:
    """An entry is in bold; what is explained inside one, in bold or italics."""
    terms = " | ".join(re.findall(r"\*{1,2}([^*]+?)\.?\*{1,2}", PAGE))
    assert [word for word in WORDS if not re.search(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", terms)] == []


def test_each_entry_is_a_paragraph_that_starts_with_its_word() -> None:
    """No line of an entry is read as a list's or a heading's, as one that begins with "+ " would be."""
    for line in PAGE.splitlines()[1:]:
        assert not re.match(r"\s*([-+*] |\d+[.)] |#(?!# [A-Z]))", line), line


def test_the_page_on_idle_time_defines_each_part_and_each_cause() -> None:
    page = (FILE.parent / "idle.md").read_text()
    whole = {"launch_latency", "turnaround", "held", "unrecorded", "unknown"}  # parts and causes at once
    rows = [f"| {name.lower()} | {meaning} |" for name, meaning in PART_WORDS.values()]
    rows += [
        f"| `{cause}` | {name} | {meaning} |" for cause, (name, meaning) in CAUSE_WORDS.items() if cause not in whole
    ]
    assert [row for row in rows if row not in page] == []
