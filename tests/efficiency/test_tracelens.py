"""Where TraceLens's conventions differ, the numbers of both are known on paper, and the comparison names the reason.

What the comparison says of TraceLens's own test traces stands in docs; those files are not part of the repository.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tests.efficiency.compare_tracelens import compare, from_trace, main, rows_of
from tests.efficiency.deceptions import BF16, FLASH, H100, contiguous, on, op
from tests.tracefile import GEMM

NONE: list[Any] = [[]] * 8
BACKWARD = ["", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]

#: operator, dims, values, FLOPs and elements by TraceLens's conventions, verdict of each. All take 10 µs.
CALLS: list[tuple[str, Any, list[str], int, int, str, str]] = [
    ("aten::mm", [[64, 128], [128, 32]], ["", ""], 2 * 64 * 128 * 32,
     64 * 128 + 128 * 32 + 64 * 32, "equal", "equal"),
    ("aten::bmm", [[3, 5, 7], [3, 7, 11]], ["", ""], 2 * 3 * 5 * 7 * 11,
     3 * (5 * 7 + 7 * 11 + 5 * 11), "equal", "equal"),
    # 2 MNK + MN: a 1 / 2K of its own, 3 % of K = 16.
    ("aten::addmm", [[32], [64, 16], [16, 32], [], []], ["", "", "", "1", "1"], (2 * 16 + 1) * 64 * 32,
     64 * 16 + 16 * 32 + 64 * 32 + 32, "bias", "equal"),
    # [1, 8, 6, 6] by 16 filters of 3 x 3: 4 x 4 outputs.
    ("aten::convolution", [[1, 8, 6, 6], [16, 8, 3, 3], *NONE[:7]],
     ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"], 2 * 8 * 9 * 16 * 16,
     8 * 36 + 16 * 72 + 16 * 16, "equal", "equal"),
    ("aten::convolution_backward", [[1, 16, 4, 4], [1, 8, 6, 6], [16, 8, 3, 3], *NONE],
     [*BACKWARD, "[True, True, False]"], 2 * 2 * 8 * 9 * 16 * 16,
     2 * (8 * 36 + 16 * 72 + 16 * 16), "equal", "once"),
    # The first layer of a network: no gradient of its input.
    ("aten::convolution_backward", [[2, 16, 4, 4], [2, 3, 6, 6], [16, 3, 3, 3], *NONE],
     [*BACKWARD, "[False, True, False]"], 2 * 2 * 2 * 3 * 9 * 16 * 16,
     2 * (2 * 3 * 36 + 16 * 27 + 2 * 16 * 16), "mask", "mask"),
    (FLASH, [[2, 4, 10, 8]] * 3 + NONE[:4], ["", "", "", "0.", "False", "False", ""], 4 * 2 * 4 * 100 * 8,
     4 * 2 * 4 * 10 * 8, "equal", "sums"),
    # 210 pairs of 400, where S^2 / 2 says 200.
    (FLASH, [[2, 4, 20, 8]] * 3 + NONE[:4], ["", "", "", "0.", "True", "False", ""], 4 * 2 * 4 * 200 * 8,
     4 * 2 * 4 * 20 * 8, "causal", "sums"),
]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(sheet, trace) of the calls, each of them made twice."""
    folder, file, rows = tmp_path_factory.mktemp("tracelens"), on(H100), []
    for number, (operator, dims, values, flops, elements, *_) in enumerate(CALLS):
        types = [BF16 if each else "ScalarList" if value.startswith("[") else value and "Scalar"
                 for each, value in zip(dims, values, strict=True)]  # fmt: skip
        strides = [contiguous(each) for each in dims]
        for at in (200 * number, 200 * number + 100):
            op(file, operator, at, dims, types, values=values).kernel(GEMM, at + 20, 10, launch=at + 2)
        rows.append({"name": operator, "Input Dims_first": dims, "Input type_first": types, "name_count": 2,
                     "Input Strides_first": strides, "Concrete Inputs_first": values, "GFLOPS_first": flops / 1e9,
                     "Data Moved (MB)_first": 2 * elements / (1 << 20),
                     "Kernel Time (µs)_sum": 20})  # fmt: skip
    with (folder / "sheet.csv").open("w", newline="") as sheet:
        writer = csv.DictWriter(sheet, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "sheet.csv", file.write(folder / "trace.json")


def test_every_difference_has_its_reason(written: tuple[Path, Path]) -> None:
    sheet, trace = written
    theirs, ours = list(rows_of(sheet)), from_trace(trace)
    found = [compare(row, ours.get(row.key), theirs) for row in theirs]
    assert found == [(flops, moved, "same time") for *_, flops, moved in CALLS]


def test_formulas_alone_agree_likewise(written: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(written[0], None) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "8 rows, 0 with a difference that nothing explains"


def test_a_wrong_number_is_left(written: tuple[Path, Path], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(written[0].read_text().replace("0.000524288", "0.000525288"))
    assert main(wrong, written[1]) == 1
