"""All families side by side: at equal stages the published table, at equal devices what a choice is made by."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import weftrace as wt
from weftrace.cli.main import program
from weftrace.errors import DocumentError, ScheduleError
from weftrace.pipeline import Costs
from weftrace.pipeline.comparing.comparison import Comparison, candidates, compare
from weftrace.pipeline.comparing.document import comparison_document, comparison_summary, comparison_table
from weftrace.pipeline.render.comparison_page import comparison_block
from weftrace.pipeline.render.comparison_words import comparison_headline, costs_in

UNIT = 1_000
EQUAL_DEVICES = {  # D = 8, M = 32, F = I = W = 1, no gain of F&B; serial work is 96
    "zbv": 99.5, "interleaved-zb": 99.5, "dualpipe": 102, "dualpipev": 103, "zb1p": 103, "v-half": 104.5,
    "interleaved": 106.5, "1f1b": 117,
}  # fmt: skip


def test_equal_devices_give_the_published_makespans() -> None:
    compared = compare(Costs.units(FB=3), num_devices=8, num_micro_batches=32)
    found = {each.name: each.simulation.makespan_ns / UNIT for each in compared.ranked if each.simulation}
    assert {name: found[name] for name in EQUAL_DEVICES} == EQUAL_DEVICES


def test_memory_is_counted_in_one_devices_share() -> None:
    found = {each.name: each for each in candidates(Costs.units(), num_devices=8, num_micro_batches=32)}
    peaks = {name: found[name].peak_activations for name in ("1f1b", "zbv", "dualpipe", "dualpipev", "interleaved")}
    assert peaks == {
        "1f1b": 8, "zbv": 8, "dualpipe": 9, "dualpipev": Fraction(17, 2), "interleaved": Fraction(23, 2),
    }  # fmt: skip
    assert {name: each.parameters for name, each in found.items() if each.parameters != 1} == {"dualpipe": 2}


def test_equal_stages_give_the_published_table() -> None:
    """DeepSeek's README: parameters 1x, 1x, 2x, 2x; activations PP, PP, PP+1, PP+1; devices PP, PP, PP, PP/2."""
    compared = compare(Costs.units(FB=3), num_stages=8, num_micro_batches=20)
    rows = {row["name"]: row for row in comparison_document(compared)["rows"]}
    summary = {
        name: (rows[name]["parameters"], rows[name]["peak_activations"], rows[name]["num_devices"])
        for name in ("1f1b", "zb1p", "dualpipe", "dualpipev")
    }
    assert summary == {"1f1b": (1, 8, 8), "zb1p": (1, 8, 8), "dualpipe": (2, 9, 8), "dualpipev": (2, 9, 4)}


def test_the_headline_names_the_best_that_fits_and_1f1b_beside_it() -> None:
    compared = compare(Costs.units(FB=2.6, latency=0.05), num_devices=8, num_micro_batches=32, memory_cap=9)
    said = comparison_headline(comparison_summary(compared))
    assert said.startswith(
        "DualPipe takes least time of those that hold 9 activations or fewer except for DualPipe with placed W, which "
        "is not as simple and saves 0.3 %: a step of 93.45 units"
    )
    assert said.endswith(  # 120.4 / 93.45
        " 1F1B's step is 28.8 % longer. No schedule can take less than 85.768 units: it takes 9.0 % more."
    )


def test_no_room_is_said_with_what_needs_least() -> None:
    compared = compare(Costs.units(), num_devices=8, num_micro_batches=32, memory_cap=2, families=["1f1b", "v-min"])
    said = comparison_headline(comparison_summary(compared))
    assert said == "No schedule fits 2 activations on a device: V-Min needs least, 4."


def test_what_is_impossible_is_told_with_the_reason() -> None:
    document = comparison_document(compare(Costs.units(), num_stages=7, num_micro_batches=14))
    reasons = {row["name"]: row["reason"] for row in document["impossible"]}
    assert "even number" in reasons["dualpipe"]
    assert {row["name"] for row in document["rows"]} >= {"1f1b", "zb1p"}


def test_a_comparison_is_saved_and_read(tmp_path: Path) -> None:
    compared = compare(Costs.units(FB=2.6), num_devices=4, num_micro_batches=16, memory_cap=9.5, boundary="span")
    wt.save(compared, tmp_path / "x.json")
    assert comparison_document(wt.load(tmp_path / "x.json")) == comparison_document(compared)
    wt.save(compared, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == comparison_table(compared).write_csv()


def test_a_damaged_comparison_is_refused(tmp_path: Path) -> None:
    document = comparison_document(compare(Costs.units(), num_devices=4, num_micro_batches=16, families=["1f1b"]))
    wrong = {**document, "num_micro_batches": 0}
    with pytest.raises(DocumentError, match="num_micro_batches"):
        wt.pipeline.comparison_of(wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"num_stages": 4, "num_devices": 4}, "either num_stages or num_devices"),
        ({}, "either num_stages or num_devices"),
        ({"num_stages": 4, "memory_cap": -1}, "memory_cap = -1"),
        ({"num_stages": 4, "families": ["nope"]}, "no schedule 'nope'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        compare(Costs.units(), num_micro_batches=8, **arguments)  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize("boundary", ["barrier", "span"])
@pytest.mark.parametrize("units", [(1, 1, 1, 3), (2, 3, 1, 4.5), (1, 2, 2, 4)])
@pytest.mark.parametrize("size", [{"num_stages": 8}, {"num_devices": 4}])
def test_a_law_that_is_said_to_hold_is_what_is_simulated(
    boundary: str, units: tuple[float, float, float, float], size: dict[str, int]
) -> None:
    costs = Costs.units(*units[:3], FB=units[3])
    compared = compare(costs, num_micro_batches=24, boundary=boundary, **size)  # type: ignore[arg-type]
    for row in comparison_document(compared)["rows"]:
        for law in (row["published"], row["exact"]):
            if law is not None and law["holds"]:
                assert (law["difference_ns"], law["why_not"]) == (0, ""), (row["name"], law)
            else:
                assert law is None or law["why_not"]


def test_stages_that_differ_have_no_law() -> None:
    costs = replace(Costs.units(), forward_ns=(1000, 2000, 1000, 3000))
    rows = comparison_document(compare(costs, num_stages=4, num_micro_batches=8))["rows"]
    laws = [law for row in rows for law in (row["exact"], row["published"]) if law]
    assert laws and all(law["bubble_ns"] is None and "differ" in law["why_not"] for law in laws)


def test_what_would_not_fit_in_memory_is_refused_before_it_is_made() -> None:
    with pytest.raises(ScheduleError, match=r"54,525,952 chunks, and 16,000,000 are possible\. Name fewer"):
        candidates(Costs.units(), num_devices=1024, num_micro_batches=4096)
    with pytest.raises(ScheduleError, match=r"^1 schedule .* 16,777,216 chunks, and .* possible\. Compare fewer"):
        compare(Costs.units(), num_devices=4096, num_micro_batches=4096)


def test_large_schedules_are_compared_one_by_one_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared() -> Comparison:
        return compare(
            Costs.units(FB=3), num_stages=4, num_micro_batches=12, families=["1f1b", "seq1f1b:4", "dualpipe"]
        )

    kept = compared()
    assert kept.left_out == ""
    monkeypatch.setattr("weftrace.pipeline.comparing.comparison._MOST_KEPT", 143)  # of 3 x 4 x 12 chunks
    large = compared()
    assert all(each.schedule is None and each.simulation is None for each in large.candidates)
    assert large.left_out.startswith("3 schedules of this size would not fit in memory together")
    documents = [{**comparison_document(each), "left_out": ""} for each in (large, kept)]
    assert documents[0] == documents[1]
    assert comparison_block(large)["pictures"] == [None] * 3
    assert large.left_out in comparison_block(large)["facts"]


def test_progress_is_told_schedule_by_schedule() -> None:
    summary: list[tuple[int, int]] = []
    families = ["1f1b", "zbv", "dualpipe"]
    compare(
        Costs.units(), num_devices=2, num_micro_batches=8, families=families,
        on_progress=lambda done, total: summary.append((done, total)),
    )  # fmt: skip
    assert summary == [(0, 3), (1, 3), (2, 3)]


def test_the_front_is_what_no_other_beats_in_both() -> None:
    block = comparison_block(compare(Costs.units(FB=3), num_devices=8, num_micro_batches=32))
    rows: Any = block["rows"]
    for at, row in enumerate(rows):
        beaten = any(
            other.step_ns <= row.step_ns and other.peak_activations <= row.peak_activations
            and (other.step_ns, other.peak_activations) != (row.step_ns, row.peak_activations)
            for other in rows
        )  # fmt: skip
        twin = any(rows[i].step_ns == row.step_ns and i != at for i in block["front"])
        assert (at in block["front"]) == (not beaten and not twin)


def test_the_command_prints_80_columns_and_writes_all_forms(tmp_path: Path) -> None:
    files = [tmp_path / f"x{ending}" for ending in (".html", ".json", ".csv")]
    named = [word for file in files for word in ("-o", str(file))]
    run = CliRunner().invoke(
        program(), ["pipeline", "compare", "--stages", "8", "--micro-batches", "20", *named], env={"COLUMNS": "80"}
    )
    assert run.exit_code == 0, run.output
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert (
        "ZBV and interleaved zero bubble take least time of devices: a step of 123 units on 4 devices, 2.4 % of it idle"
        in " ".join(run.stdout.split())
    )
    assert all(file.stat().st_size > 1000 for file in files)


def test_steps_of_seconds_leave_the_milliseconds_by_which_a_law_is_off(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text('{"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}')
    size = ["--stages", "8", "--micro-batches", "20", "--costs", str(costs)]
    run = CliRunner().invoke(program(), ["pipeline", "compare", *size], env={"COLUMNS": "100"})
    assert "times in ms" in " ".join(run.stdout.split())
    rows = {words[0]: words[1:] for words in map(str.split, run.stdout.splitlines()) if words}
    assert rows["v-min"][0] == "14,428"  # the longest, 14.4 s
    assert rows["dualpipe"][3:6] == ["575.8", "574.8*", "−1.0"]


def test_names_are_whole_at_80_columns_and_laws_of_one_family_are_told_once(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text('{"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0}')
    size = ["--devices", "4", "--micro-batches", "16", "--costs", str(costs), "--memory-cap", "4.5"]
    names = [word for name in ("interleaved", "interleaved-fb") for word in ("--schedule", name)]
    run = CliRunner().invoke(program(), ["pipeline", "compare", *size, *names], env={"COLUMNS": "80"})
    assert "interleaved-fb:8" in run.stdout and "interleaved-fb:3 †" in run.stdout and "…" not in run.stdout
    laws = " ".join(run.stdout.partition("Laws")[2].split())
    assert laws.count("(D - 1)(F + B)") == 1 and "interleaved 1F1B with 2 to 8 stages per device, published" in laws


def test_of_many_schedules_that_are_equally_good_four_are_named() -> None:
    names = ["gpipe", "1f1b", "zb1p", "zb2p", "zbv", "v-half"]
    alike = compare(Costs.units(FB=3), num_devices=1, num_micro_batches=1, families=names)
    said = comparison_headline(comparison_summary(alike))
    assert said.startswith("GPipe, 1F1B, ZB1P and 3 others take least time: a step of 3 units")


def test_the_command_wants_one_size() -> None:
    run = CliRunner().invoke(program(), ["pipeline", "compare", "--micro-batches", "20"])
    assert run.exit_code == 2
    assert "give one of the two" in " ".join(run.output.split())


def test_costs_by_rank_compare_those_that_have_as_many_ranks() -> None:
    """Eight stages are on eight ranks, or on four; costs of none of all schedules are a mistake."""
    slow_last = Costs.units(rank_factor=(1, 1, 1, 1, 1, 1, 1, 2))
    compared = compare(slow_last, num_stages=8, num_micro_batches=16)
    assert {each.simulation.schedule.num_ranks for each in compared.ranked if each.simulation} == {8}
    reasons = [each["reason"] for each in comparison_document(compared)["impossible"]]
    assert "ZBV: costs: rank_factor has 8 values, for as many ranks; there are 4." in reasons
    with pytest.raises(ScheduleError, match="rank_factor has 3 values"):
        compare(Costs.units(rank_factor=(1, 1, 2)), num_stages=8, num_micro_batches=16)


def test_what_is_asked_for_wrongly_is_no_schedules_fault() -> None:
    for given, said in (
        ({"num_micro_batches": 0}, "num_micro_batches = 0"),
        ({"num_stages": "8"}, "num_stages = '8'"),
        ({"memory_cap": "9"}, "memory_cap = '9'"),
        ({"families": ["zbv", "zb3"]}, "there is no schedule 'zb3'"),
    ):
        with pytest.raises(ScheduleError, match=said):
            compare(Costs.units(), **({"num_stages": 8, "num_micro_batches": 16} | given))


def test_what_a_prompt_prints_is_a_line() -> None:
    compared = compare(Costs.units(), num_stages=4, num_micro_batches=8)
    for value in (compared, compared.candidates[0], compared.candidates[0].simulation):
        assert len(repr(value)) < 80
    assert "ZBV" in compared.in_lines()
    assert "on 2 devices" in compared.in_lines()


def test_all_that_costs_hold_is_told_beside_the_table() -> None:
    costs = Costs.units(latency=0.1, rank_factor=(1.0, 1.5, 1.0, 2.0), message_bytes=9, bytes_per_s=25e9, blocking=True)
    summary = costs_in(comparison_summary(compare(costs, num_devices=4, num_micro_batches=8, families=["1f1b"])))
    assert summary == (
        "F 1, I 1, W 1, F&B as F, then B, a message 0.1, links of 25.0 GB/s, messages block, "
        "ranks up to 2 times as slow"
    )
    slow = compare(Costs.units(rank_factor=1.25), num_devices=4, num_micro_batches=8, families=["1f1b"])
    assert costs_in(comparison_summary(slow)).endswith("all ranks 1.25 times as slow")


def test_a_model_that_takes_no_time_is_refused() -> None:
    with pytest.raises(ScheduleError, match="take no time, so no schedule is better than others"):
        compare(Costs.units(0, 0, 0), num_stages=4, num_micro_batches=8)


def test_what_a_schedule_needs_beside_an_order_is_said_where_it_is_best() -> None:
    compared = compare(Costs.units(FB=3), num_devices=8, num_micro_batches=32, memory_cap=3)
    document = comparison_summary(compared)
    assert document.choice == "seq1f1b:16"
    assert comparison_headline(document).endswith(
        " Seq1F1B with 16 slices needs attention that hands keys and values from slice to slice; a slice is taken to "
        "cost its part of a chunk."
    )
    assert [row.name for row in document.rows if row.needs] == ["seq1f1b:16", "seq1f1b"]


def test_one_of_a_thing_is_told_in_the_singular_and_a_sentence_begins_with_a_capital() -> None:
    alone = comparison_summary(
        compare(Costs.units(), num_devices=1, num_micro_batches=1, families=["interleaved:2", "interleaved:2"])
    )
    said = comparison_headline(alone)
    assert len(alone.rows) == 1 and said.startswith("Interleaved 1F1B takes least time: a step of 3 units, ")
    assert "with 1 activation and 1x the parameters on a device." in said


def test_a_comparison_without_a_possible_schedule_says_so_everywhere(tmp_path: Path) -> None:
    none = compare(Costs.units(), num_devices=3, num_micro_batches=4, families=["dualpipe"])
    document = comparison_summary(none)
    assert comparison_headline(document) == (
        "No schedule is possible here: 3 devices, 4 micro-batches, boundary: barrier."
    )
    wt.save(none, tmp_path / "none.csv")
    full = comparison_table(compare(Costs.units(), num_devices=4, num_micro_batches=8))
    assert (tmp_path / "none.csv").read_text().strip() == ",".join(full.columns)


def test_costs_of_nothing_are_refused() -> None:
    with pytest.raises(ScheduleError, match="F, I and W take no time"):
        compare(Costs.units(0, 0, 0), num_devices=8, num_micro_batches=32)
