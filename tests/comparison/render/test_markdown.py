"""Markdown for a pull request: the answer first, the rest folded, nothing read as a mark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weftrace as wt
from tests.comparison.written import Step, run
from weftrace.comparison.diffs import Diff
from weftrace.comparison.document import diff_report
from weftrace.comparison.gates import judged, parse_gate
from weftrace.comparison.render.markdown import diff_markdown
from weftrace.comparison.render.words import mover_names, part_names, without_common_folders

STRANGE = "mine::<b>bold</b>|`x`_*[y](z)"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Diff:
    folder = tmp_path_factory.mktemp("markdown")
    after = Step(gemms_us=(130, 130, 130), hidden_us=60, extra={STRANGE: 10.0})
    return wt.diff(run(folder, [Step()] * 4, name="before"), run(folder, [after] * 4, name="after"))


def test_headline_verdict_gates_and_parts_stand_above_the_fold(found: Diff) -> None:
    gates = [parse_gate("family:gemm=5%", "above"), parse_gate("hidden=2%", "below")]
    text = diff_markdown(diff_report(found, judged(found, gates)))
    seen, _, folded = text.partition("<details>")
    headline, verdict, gate_table, parts, families, *rest = seen.strip().split("\n\n")
    assert headline.startswith("**A step takes 60.0 µs longer") and headline.endswith("**")
    assert verdict == "Comparable." and not rest
    assert gate_table.splitlines()[2:] == [
        "| family:gemm | 300 µs | 390 µs | +30.0 % | +5% | ❌ FAILED |",
        "| hidden | 20.0 % | 60.0 % | +40.0 points | −2 points | ✅ met |",
    ]
    assert parts.splitlines()[2] == "| compute | 500.0 | 600.0 | +100.0 | longer |"
    assert parts.splitlines()[-1] == "| **step** | **615.0** | **675.0** | **+60.0** |  |"
    assert families.splitlines()[2] == "| gemm | 300.0 | 390.0 | +90.0 | 3 | longer |"
    assert "Kernels that moved" in folded and "without step 3: the last: no next step ends it" in folded
    assert len(seen.splitlines()) < 25


def test_a_table_is_a_table_and_a_name_is_no_mark(found: Diff) -> None:
    text = diff_markdown(diff_report(found))
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    named = next(line for line in text.splitlines() if "mine::" in line)
    assert r"mine::\<b\>bold\</b\>\|\`x\`\_\*\[y\]" in named
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")


def test_no_cause_is_told_of_runs_that_are_not_comparable(tmp_path: Path) -> None:
    one, other = (run(tmp_path, [Step()] * 3, name=f"r{rank}", rank=rank, world_size=2) for rank in (0, 1))
    found = wt.diff(one, other)
    text = diff_markdown(diff_report(found, judged(found, [parse_gate("span=1%", "above")])))
    assert text.startswith("**Not comparable: different ranks")
    assert "| span | – | – | – | +1% | ➖ not judged |" in text
    assert "why" not in text and "that moved" not in text


def test_no_row_is_listed_twice(tmp_path: Path) -> None:
    """Eight families moved: five above the fold, below it the three that are left out there."""
    families = ("cudnn_conv", "layer_norm", "softmax", "elementwise", "reduce", "embedding", "adam_foreach")
    names = [f"void {name}_kernel<float>()" for name in families]
    before, after = (
        Step(extra={name: us * scale for us, name in enumerate(names, 5)}, hidden_us=hidden, gemms_us=(100.0 * scale,))
        for scale, hidden in ((1, 20), (2, 60))
    )
    found = wt.diff(run(tmp_path, [before] * 4, name="before"), run(tmp_path, [after] * 4, name="after"))
    seen, _, folded = diff_markdown(diff_report(found)).partition("<details>")
    first = [line for line in seen.splitlines() if line.count("|") > 5][-6:]
    more = folded.partition("</details>")[0]
    assert "More kernel families that moved" in more
    assert first[-1].startswith("| ") and "more, below" in first[-1]
    assert not {line.split("|")[1] for line in first} & {
        line.split("|")[1] for line in more.splitlines()[6:] if line.startswith("|")
    }


def test_the_reasons_not_to_compare_are_told_once(tmp_path: Path) -> None:
    one = run(tmp_path, [Step()] * 3, name="r0", rank=0, world_size=2)
    other = run(tmp_path, [Step()] * 3, name="r1", rank=1, world_size=4)
    document = diff_report(wt.diff(one, other))
    headline, also, *_ = diff_markdown(document).split("\n\n")
    assert "different ranks" in headline and "worlds" not in headline
    assert also == "Also: the worlds differ: 2 ranks before, 4 ranks after."


def test_movers_of_one_name_are_told_apart(found: Diff) -> None:
    document = diff_report(found)
    row = document.movers["family"][0]
    twins = [{**row, "part": "exposed communication", "cause": cause} for cause in ("data", "barrier")]
    document.movers["family"] = [*twins, {**row, "part": "exposed memory", "cause": None}]  # type: ignore[list-item]
    assert mover_names(document.movers["family"]) == ["gemm, data", "gemm, barriers", "gemm, exposed memory"]


def test_communication_that_moves_data_is_called_so_beside_barriers(found: Diff) -> None:
    parts = diff_report(found).parts
    row = next(part for part in parts if part["part"] == "exposed communication")
    assert part_names([row]) == ["exposed communication"]
    both = [row, {**row, "cause": "barrier"}]
    assert part_names(both) == ["exposed communication: data", "exposed communication: barriers"]  # type: ignore[arg-type]


def test_paths_are_told_apart_by_what_differs() -> None:
    assert without_common_folders("/a/b/one/rank0.json.gz", "/a/b/two/rank0.json.gz") == (
        "one/rank0.json.gz",
        "two/rank0.json.gz",
    )
    assert without_common_folders("/a/b/x.json", "/a/b/y.json") == ("x.json", "y.json")
    assert without_common_folders("/a/before", "/a/before/new.json") == ("before", "before/new.json")
    assert without_common_folders("/a/x.json", "/a/x.json") == ("/a/x.json", "/a/x.json")
