"""Findings are ordered, their gains replayed, and no gain is told that cannot be."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

import weftrace as wt
from tests.cli.test_cli import Run, run
from tests.findings.planted import cases
from tests.findings.planted.case import Case
from tests.flops.small_reports import TINY
from weftrace.advice import Scale, advise
from weftrace.advice.changes import NoHostGaps
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.gains import Replays
from weftrace.advice.findings.registry import RULES
from weftrace.advice.findings.rule_texts import all_rules
from weftrace.advice.jobs import infer_job
from weftrace.analysis.findings import AdviceReport, Gain
from weftrace.plan.inference.values import Inferred
from weftrace.render.findings_parts import finding_cards, head_block, head_markdown

__all__ = ["run"]


def planted(*rules: str) -> Case:
    """The strongest planted trace of these causes alone."""
    return next(each for each in cases() if each.causes == set(rules) and "strong" in each.name)


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace whose device waits for its data loader."""
    return planted("data-loading").write(tmp_path_factory.mktemp("loader"))


@pytest.fixture(scope="module")
def report(loader: Path) -> AdviceReport:
    return advise(loader)


@pytest.fixture(scope="module")
def inferred(loader: Path) -> Inferred:
    return infer_job(wt.open(loader, frames=True))


def test_every_rule_has_its_text_and_every_text_its_rule() -> None:
    assert sorted(rule.id for rule in RULES) == sorted(text.id for text in all_rules())


def test_a_rule_is_found_or_listed_as_not_found(report: AdviceReport) -> None:
    told = {each.rule for each in report.findings}
    listed = {each.rule for each in report.not_found}
    assert told | listed == {rule.id for rule in RULES} and not told & listed
    assert not [each for each in report.not_found if "bug" in each.why]


def test_most_gain_comes_first_and_what_is_not_worth_it_last(report: AdviceReport) -> None:
    assert report.losses[0].rule == "data-loading"
    order = [(each.worth == "not worth it", -each.value_ns) for each in report.losses]
    assert order == sorted(order)
    assert report.headline.startswith(report.losses[0].sentence)


def test_a_gain_is_of_a_step_and_holds_what_the_simulation_saves(report: AdviceReport) -> None:
    gain, case = report.losses[0].gain, planted("data-loading")
    assert gain is not None and gain.method == "replay" and gain.low_ns <= gain.high_ns
    assert gain.low_share - 0.03 <= case.gain["data-loading"] <= gain.high_share + 0.03
    assert gain.high_ns == pytest.approx(gain.high_share * report.step_ns, rel=0.03)


def replays(inferred: Inferred, **other: int) -> Replays:
    return Replays(inferred=inferred, num_steps=1, span_ns=inferred.replay.span_ns, **other)  # type: ignore[arg-type]


def test_least_and_most_are_the_ends_of_a_gain(inferred: Inferred) -> None:
    of = replays(inferred)
    found = Found(
        sentence="", cost_ns=1, least=(Scale(selector="host", factor=0.5),), most=(NoHostGaps(),)
    )  # fmt: skip
    gain, why = of.gain_of(found)
    assert gain is not None and not why
    assert (gain.low_ns, gain.high_ns) == (of.saved(found.least)[0], of.saved(found.most)[1])
    assert gain.changes == ("host ×0.5", "no host gaps")


def test_no_gain_is_told_by_a_replay_that_is_not_trusted(inferred: Inferred) -> None:
    off = replace(inferred.replay, replayed_ns=2 * inferred.replay.span_ns)
    wrong = replace(inferred)
    wrong.__dict__["replay"] = off
    gain, why = replays(wrong).gain_of(Found(sentence="", cost_ns=1, least=(NoHostGaps(),)))
    assert gain is None and "not to be trusted" in why


def test_a_gain_below_the_error_of_the_replay_is_not_worth_it(inferred: Inferred) -> None:
    off = replace(inferred.replay, replayed_ns=inferred.replay.span_ns + 1_000)
    near = replace(inferred)
    near.__dict__["replay"] = off
    of = replays(near)
    small = Gain(low_ns=900, high_ns=1_000, low_share=0.5, high_share=0.6, method="replay")
    assert of.worth_of(small) == "not worth it"
    assert of.worth_of(replace(small, high_ns=1_001)) == "worth it"
    assert of.worth_of(replace(small, high_ns=10**9, high_share=0.001)) == "not worth it"
    assert of.worth_of(None) == "not told"


def test_a_change_that_selects_nothing_tells_no_gain(inferred: Inferred) -> None:
    gain, why = replays(inferred).gain_of(
        Found(sentence="", cost_ns=1, least=(Scale(selector="kernel:no such kernel", factor=0),))
    )
    assert gain is None and "selects nothing" in why


def test_gains_together_are_replayed_at_once_and_never_added(inferred: Inferred) -> None:
    of = replays(inferred)
    one = Found(sentence="", cost_ns=1, least=(Scale(selector="host", factor=0.5),))
    both = of.together([one, replace(one, least=(Scale(selector="host", factor=0.25),))])
    alone, _ = of.gain_of(replace(one, least=(Scale(selector="host", factor=0.25),)))
    assert both is not None and alone is not None and both.high_ns == alone.high_ns
    assert of.together([one]) is None


def test_a_saved_document_is_the_same_value(report: AdviceReport, tmp_path: Path) -> None:
    wt.save(report, tmp_path / "advice.json")
    again = wt.load(tmp_path / "advice.json")
    assert again.findings == report.findings and again.not_found == report.not_found


def test_the_report_of_a_trace_has_the_same_findings(loader: Path, report: AdviceReport) -> None:
    document = wt.analyze(loader, timelines=False).document
    assert [each["rule"] for each in document["advice"]["findings"]] == [each.rule for each in report.findings]
    assert "advice" not in wt.analyze(loader, timelines=False, advice=False).document


def test_heads_and_cards_tell_the_first_findings(report: AdviceReport) -> None:
    assert head_block(report) is not None and head_markdown(report).startswith("1. ")
    cards = finding_cards(report, {(each.where.ranks[0] if each.where.ranks else None, each.where.device): 0
                                   for each in report.findings}).cards  # fmt: skip
    assert [card.rule for card in cards] == [each.rule for each in report.findings]
    assert head_block(replace(report, findings=())) is None and head_markdown(replace(report, findings=())) == ""


def test_commands_print_write_and_gate(run: Run, loader: Path, tmp_path: Path) -> None:
    outputs = [str(tmp_path / f"advice.{ending}") for ending in ("md", "html", "json", "csv")]
    code, out, err = run("advise", str(loader), *(part for path in outputs for part in ("-o", path)))
    assert code == 0, err
    assert "Do: " in out
    text = (tmp_path / "advice.md").read_text()
    assert len(text) < 16_000 and "`data-loading`" in text and "\x1b" not in text
    assert json.loads((tmp_path / "advice.json").read_text())["schema"] == "weftrace.advice/1"
    for gate, code in (("data-loading", 1), ("all", 1), ("data-loading --beyond 99%", 0), ("slow-stage", 0)):
        assert run("advise", str(loader), "-q", "--gate", *gate.split(" "))[0] == code, gate
    code, _, err = run("advise", str(loader), "--gate", "data-loadin")
    assert code == 2 and "did you mean" in err
    assert run("advise", str(loader), "--beyond", "5%")[0] == 2


def test_a_rule_that_fails_costs_no_other_one(loader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weftrace.advice.findings import advising

    def broken(evidence: object) -> list[Found | Missing]:
        raise IndexError("of a list")

    rules = tuple(replace(rule, of_device=broken) if rule.id == "host-bound" else rule for rule in RULES)
    monkeypatch.setattr(advising, "RULES", rules)
    found = advise(loader)
    assert found.losses[0].rule == "data-loading"
    assert ["IndexError" in each.why for each in found.not_found if each.rule == "host-bound"] == [True]


def test_a_file_of_nothing_ends_in_a_sentence(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    code, _, err = run("advise", str(path))
    assert code in (0, 3) and "Traceback" not in err


def test_counted_flops_add_what_the_device_reaches(run: Run, loader: Path, tmp_path: Path) -> None:
    wt.save(TINY, tmp_path / "flops.json")
    code, out, err = run("advise", str(loader), "--flops", str(tmp_path / "flops.json"), "--hardware", "h800")
    assert code == 0, err
    assert "By counted FLOPs" in out and "of H800" in out
    assert run("advise", str(loader), "--flops", str(loader))[0] == 3
