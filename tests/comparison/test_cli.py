"""`weftrace diff` as a person meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import weftrace as wt
from tests.cli.test_cli import Run, run
from tests.comparison.test_straggler_attribution import work_and_meet
from tests.comparison.written import Step
from tests.comparison.written import run as written
from tests.tracefile import GEMM
from weftrace.comparison.cli.diff import complete_gate
from weftrace.files.documents import read_document

__all__ = ["run"]  # the fixture


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Gemms take 130 µs for 100, and more of the all-reduce is hidden; see `Step`."""
    folder = tmp_path_factory.mktemp("diff")
    after = Step(gemms_us=(130, 130, 130), hidden_us=60, extra={"void mine::extra(float*)": 10.0})
    runs = [written(folder, [step] * 4, name=name) for name, step in (("before", Step()), ("after", after))]
    return runs[0].path, runs[1].path


def test_a_trace_with_itself_is_empty_and_passes_any_gate(run: Run, pair: tuple[str, str]) -> None:
    gates = [each for name in ("span", "exposed", "idle", "launches") for each in ("--fail-above", f"{name}=0%")]
    code, out, err = run("diff", pair[0], pair[0], *gates, "--fail-below", "hidden=0%")
    assert (code, err) == (0, "")
    assert "Nothing changed" in out and "Kernel families" not in out
    assert out.count(" met") == 5


def test_the_sentence_comes_first_then_parts_that_add_up_then_movers(run: Run, pair: tuple[str, str]) -> None:
    code, out, err = run("diff", *pair)
    assert (code, err) == (0, "")
    title, opening, *_ = out.split("\n\n")
    assert title.startswith("weftrace diff · ") and " → " in title and title.endswith("rank 0")
    assert opening.startswith("Comparable.\nA step takes 60.0 µs longer (615 µs → 675 µs")
    heads = [
        line.split("  ")[0] for line in out.splitlines() if re.match(r"What a step|Kernel|Operator|Phase|Gate", line)
    ]
    assert heads == ["What a step is made of", "Kernel families", "Kernels"]
    rows = {name: [float(each.replace("−", "-")) for each in numbers] for name, *numbers in (
        re.split(r"  +", line.strip())[:4]
        for line in out.splitlines() if re.match(r"(compute|exposed communication|idle: host wait|step) ", line)
    )}  # fmt: skip
    assert rows["step"] == [615.0, 675.0, 60.0]
    assert sum(change for name, (_, _, change) in rows.items() if name != "step") == pytest.approx(60.0)
    assert re.search(r"gemm +300\.0 +390\.0 +\+90\.0 +3 +longer", out)
    assert re.search(r"mine::extra +0\.0 +10\.0 +\+10\.0 +0 → 1 +new", out)
    assert "\x1b[" not in out


def test_each_gate_that_fails_is_a_line_and_the_exit_is_1(run: Run, pair: tuple[str, str]) -> None:
    asked = ("--fail-above", "family:gemm=5%", "--fail-above", "exposed=5%", "--fail-above", "kernel:mine=5%")
    code, out, err = run("diff", *pair, *asked, "--fail-below", "exposed=10us", "--fail-below", "span=0%")
    assert code == 1
    assert err.splitlines() == [
        "weftrace: --fail-above family:gemm: 300 µs → 390 µs, +30.0 %; it may rise by 5 %",
        "weftrace: --fail-above kernel:mine: 0 ns → 10.0 µs, new, which no percentage of 0 allows; it may rise by 5 %",
        "weftrace: --fail-below exposed: 80.0 µs → 40.0 µs, −40.0 µs; it may fall by 10.0 µs",
    ]
    assert out.count("FAILED") == 3 and out.count(" met") == 2


def test_gates_stand_in_the_document_with_values_and_results(run: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "diff.json"
    code, out, _ = run("diff", *pair, "--fail-above", "hidden=10%", "--json", "-o", path)
    assert code == 1
    document = json.loads(out)
    assert document.pop("sha256") and document == read_document(path)
    (gate,) = document["gates"]
    assert (gate["figure"], gate["limit"], gate["is_met"]) == ("hidden", "10%", False)
    assert (gate["before"], gate["after"]) == (pytest.approx(0.2), pytest.approx(0.6))
    code, out, _ = run("diff", *pair, "-q")
    assert (code, out) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fail-above", "expsoed=5%"), "Did you mean exposed?"),
        (("--fail-below", "span=5"), "write 5% or 300us"),
        (("--fail-above", "family:gem=5%"), "family:gem: not found in either run. Did you mean family:gemm?"),
        (("--beyond-noise",), "it needs --fail-above or --fail-below"),
    ],
)
def test_a_wrong_gate_is_wrong_usage(run: Run, pair: tuple[str, str], arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run("diff", *pair, *arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())


def test_runs_that_cannot_be_compared_exit_3_and_no_gate_is_judged(run: Run, tmp_path: Path) -> None:
    one, other = (written(tmp_path, [Step()] * 3, name=f"r{rank}", rank=rank, world_size=2).path for rank in (0, 1))
    code, out, err = run("diff", one, other, "--fail-above", "span=1%")
    assert code == 3
    assert err.startswith("weftrace: not comparable: different ranks") and err.endswith("; gates are not judged\n")
    assert "Not comparable: different ranks" in out and "not judged" in out
    assert "Kernel families" not in out and "why" not in out


def test_a_missing_input_and_an_input_as_output_are_refused(run: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    code, _, err = run("diff", pair[0], tmp_path / "nothing.json")
    assert code == 3 and "nothing.json" in err
    code, _, err = run("diff", *pair, "-o", pair[1])
    assert code == 2 and "never overwritten" in " ".join(err.replace("│", " ").split())


def test_figures_are_listed_with_what_they_are(run: Run) -> None:
    from weftrace.comparison.render.words import FIGURE_TERMS

    code, out, _ = run("diff", "--figures")
    assert code == 0
    summary = " ".join(out.split())
    assert all(" ".join(f"{form} {meaning}".split()) in summary for form, meaning in FIGURE_TERMS.items())


def test_a_late_rank_is_told_with_what_it_did_itself(run: Run, tmp_path: Path) -> None:
    before = work_and_meet(4).write(tmp_path / "before")
    after = work_and_meet(4, late=2, delay=300_000).write(tmp_path / "after")
    code, out, err = run("diff", before, after, "--workers", "1", "--fail-above", "lateness=50us")
    assert code == 1
    assert "ranks wait 224 µs more for rank 2, which is late." in " ".join(out.split())
    assert re.search(r"^rank 2 +0\.8 +225\.1 +\+224\.4 +gemm \+300 µs *$", out, re.MULTILINE)
    assert re.search(r"^waiting for late ranks +3\.0 +226\.0 ", out, re.MULTILINE)
    assert re.search(r"^rank 0 +\S+ +\S+ +\+298\.1 +waiting for late ranks: rank 2 +\+299\.5 *$", out, re.MULTILINE)
    assert err.startswith("weftrace: --fail-above lateness: 2.97 µs → 226 µs, +223 µs; it may rise by 50.0 µs")


def test_names_of_figures_are_completed() -> None:
    assert complete_gate("ex") == ["exposed=", "exposed:"]
    assert complete_gate("fam") == ["family:"]
    assert "family:gemm=" in complete_gate("family:g")


def test_a_saved_comparison_prints_what_the_command_printed(run: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    from weftrace.comparison.document import DiffReport

    path = tmp_path / "diff.json.gz"
    _, printed, _ = run("diff", *pair, "--fail-above", "span=20%", "-o", path)
    again = wt.load(path)
    assert isinstance(again, DiffReport)
    from rich.console import Console

    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    wt.show(again, console)
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        line.rstrip() for line in printed.splitlines()
    ]


def test_a_saved_report_is_a_side_and_a_page_has_the_events_of_a_trace(
    run: Run, pair: tuple[str, str], tmp_path: Path
) -> None:
    before, after = pair
    report, page = tmp_path / "report.json.gz", tmp_path / "diff.html"
    run("report", before, "--quiet", "-o", str(report))
    _, summary, _ = run("diff", before, after, "--json", "-o", str(page))
    code, said, err = run("diff", str(report), after, "--json")
    assert (code, err) == (0, "")
    assert json.loads(said)["headline"] == json.loads(summary)["headline"]
    assert GEMM in page.read_text()


def test_a_page_has_the_pictures_of_both_traces(run: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    """The command keeps the work of both only where a page is asked for."""
    pages = [tmp_path / "command.html", tmp_path / "python.html"]
    code, _, err = run("diff", *pair, "-q", "-o", pages[0])
    assert code == 0, err
    wt.save(wt.diff(*pair, advises=True), pages[1])
    assert pages[0].read_text() == pages[1].read_text()


def test_jobs_without_a_rank_in_common_are_not_compared(run: Run, tmp_path: Path) -> None:
    for name, ranks in (("before", (0, 1)), ("after", (2, 3))):
        work_and_meet(4).write(tmp_path / name)
        for path in (tmp_path / name).iterdir():
            if path.name not in {f"rank{rank}.json" for rank in ranks}:
                path.unlink()
    outputs = [tmp_path / f"diff.{ending}" for ending in ("html", "md", "json", "csv")]
    code, out, err = run(
        "diff", tmp_path / "before", tmp_path / "after", "--workers", "1", "--fail-above", "exposed=5%",
        *(each for path in outputs for each in ("-o", path)),
    )  # fmt: skip
    assert code == 3, err
    assert "weftrace: not comparable: " in err and "; gates are not judged" in err
    assert "before: no rank that both have" in out and "before alone has rank 0 (4.61 ms a step)" in out
    assert read_document(outputs[2])["parts"] == []
