"""The first sentence names the largest change and its cause: a run changed in one known way, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.comparison.written import Step, run
from weftrace.comparison import diff
from weftrace.comparison.stories import causes, headline

BEFORE = Step()

SAID = {
    "nothing": (
        BEFORE,
        "Nothing changed: a step takes 615 µs in both.",
    ),
    "gemm longer": (
        replace(BEFORE, gemms_us=(130, 130, 130)),
        "A step takes 90.0 µs longer (615 µs → 705 µs, +14.6 %): gemm kernels +90.0 µs, they take 1.30 times as long.",
    ),
    "fewer gemms": (
        replace(BEFORE, gemms_us=(100, 100)),
        "A step takes 100 µs less (615 µs → 515 µs, −16.3 %): gemm kernels −100 µs, 3 → 2 kernels a step.",
    ),
    "hidden": (
        replace(BEFORE, hidden_us=90),
        "A step takes 70.0 µs less (615 µs → 545 µs, −11.4 %): exposed all-reduce −70.0 µs, more of it hidden: "
        "20.0 % → 90.0 %, the kernels take 1.00 times as long.",
    ),
    "host": (
        replace(BEFORE, host_us=80),
        "A step takes 50.0 µs longer (615 µs → 665 µs, +8.1 %): idle time in which the host had launched nothing, "
        "before gemm kernels: +50.0 µs, they last 2.43 times as long.",
    ),
    "gemm longer, and hides more": (
        replace(BEFORE, gemms_us=(130, 130, 130), hidden_us=60),
        "A step takes 50.0 µs longer (615 µs → 665 µs, +8.1 %): gemm kernels +90.0 µs, they take 1.30 times as long; "
        "against it, exposed all-reduce −40.0 µs, more of it hidden: 20.0 % → 60.0 %, the kernels take 1.00 times as "
        "long.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str, tmp_path: Path) -> None:
    after, said = SAID[name]
    found = diff(run(tmp_path, [BEFORE] * 4, name="before"), run(tmp_path, [after] * 4, name="after"))
    assert headline(found) == said
    assert found.remainder_ns == 0
    assert sum(cause.change_ns for cause in causes(found)) == found.change_ns
