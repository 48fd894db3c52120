"""Every sentence of advice is one that a person reads at once: short, whole, and without what only a machine reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.findings.rules_page import cases_of
from tests.fuzz import is_thorough
from weftrace.advice import advise
from weftrace.advice.changes import NoBlocking, NoHostGaps, Scale
from weftrace.advice.findings.registry import RULES
from weftrace.advice.findings.sentences import change_words, inside_sentence

#: One of each family; a thorough run looks at all.
FEW = ("sync-every-step", "data-loading", "gc-pause", "straggler", "fp32-gemm", "layout-transforms", "decode-gap")
RAW = re.compile(r"\^|\\[.^$|()\[\]]|\(\?|\.\*|\$\)|\)\$")
ONE_OF_MANY = re.compile(r"(?<![\d.,])1 (?:\w+ )?(?:kernels|calls|chains|steps|times|ranks|launches|regions)\b")


def wrong_with(sentence: str) -> list[str]:
    found = {
        "no full stop": not sentence.endswith("."),
        "too long": len(sentence) > 220,
        "double space": "  " in sentence,
        "one of many": bool(ONE_OF_MANY.search(sentence)),
        "regular expression": bool(RAW.search(sentence)),
        "two full stops": ".." in sentence.replace("...", ""),
        "small letter first": sentence[0].isalpha() and sentence[0].islower() and sentence.split()[0].isalpha(),
    }
    return [what for what, is_so in found.items() if is_so]


@pytest.mark.parametrize("rule", [rule.id for rule in RULES] if is_thorough() else FEW)
def test_sentences_of_planted_causes_are_plain(tmp_path: Path, rule: str) -> None:
    case = next(cases_of(rule), None)
    if case is None:
        pytest.skip(f"no trace has {rule} planted")
    report = advise(case.write(tmp_path), workers=1)
    assert report.findings
    assert len(report.headline) <= 240
    wrong = [(each.sentence, why) for each in report.findings if (why := wrong_with(each.sentence))]
    assert not wrong
    for each in report.findings:
        assert each.gain is None or (each.gain.how and not RAW.search(each.gain.how)), (each.rule, each.gain)


def test_changes_are_told_in_words() -> None:
    half = (Scale(selector="host", factor=0.5), Scale(selector="launch", factor=0.5))
    assert change_words(half) == "half the time of the host and launches"
    assert change_words([NoHostGaps()]) == "no gaps of the host"
    loader = Scale(selector=r"host:^(torch/utils/data/dataloader\.py\(703\): __next__)$", factor=0)
    assert change_words([loader]) == "no time of dataloader.py(703): __next__"
    assert change_words([Scale(selector="rank:3", factor=0.8)]) == "80 % of the time of rank 3"
    assert change_words([NoBlocking(pattern=r"^(aten::item|aten::nonzero|b)$")]) == (
        "no waits of the host in aten::item and aten::nonzero and 1 more"
    )


@pytest.mark.parametrize(
    ("sentence", "after"),
    [
        ("The host waits.", "the host waits."),
        ("FSDP waits.", "FSDP waits."),
        ("Triton kernels wait.", "Triton kernels wait."),
        ("AllReduce of 1 MiB waits.", "AllReduce of 1 MiB waits."),
        ("Optimizer.step#AdamW.step is slow.", "Optimizer.step#AdamW.step is slow."),
        ("Attention's softmax is slow.", "attention's softmax is slow."),
    ],
)
def test_a_sentence_after_other_words_keeps_names(sentence: str, after: str) -> None:
    assert inside_sentence(sentence) == after
