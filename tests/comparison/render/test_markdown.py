"""Markdown for a pull request: the answer first, the rest folded, nothing read as a mark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weftrace as wt
from tests.comparison.written import Step, run
from weftrace.comparison.diffs import Diff
from weftrace.comparison.document import diff_document
from weftrace.comparison.gates import judged, parse_gate
from weftrace.comparison.render.markdown import diff_markdown

STRANGE = "mine::<b>bold</b>|`x`_*[y](z)"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Diff:
    folder = tmp_path_factory.mktemp("markdown")
    after = Step(gemms_us=(130, 130, 130), hidden_us=60, extra={STRANGE: 10.0})
    return wt.diff(run(folder, [Step()] * 4, name="before"), run(folder, [after] * 4, name="after"))


def test_headline_verdict_gates_and_parts_stand_above_the_fold(found: Diff) -> None:
    gates = [parse_gate("family:gemm=5%", "above"), parse_gate("hidden=2%", "below")]
    text = diff_markdown(diff_document(found, judged(found, gates)))
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
    text = diff_markdown(diff_document(found))
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    named = next(line for line in text.splitlines() if "mine::" in line)
    assert r"mine::\<b\>bold\</b\>\|\`x\`\_\*\[y\]" in named
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")


def test_no_cause_is_told_of_runs_that_are_not_comparable(tmp_path: Path) -> None:
    one, other = (run(tmp_path, [Step()] * 3, name=f"r{rank}", rank=rank, world_size=2) for rank in (0, 1))
    found = wt.diff(one, other)
    text = diff_markdown(diff_document(found, judged(found, [parse_gate("span=1%", "above")])))
    assert text.startswith("**Not comparable: different ranks")
    assert "| span | – | – | – | +1% | ➖ not judged |" in text
    assert "why" not in text and "that moved" not in text
