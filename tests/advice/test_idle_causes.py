"""Answers in which the host decides name the causes of the one account, and no remedy that it does not support."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.advice import NoHostGaps, what_if
from weftrace.advice.document import critical_path_report
from weftrace.advice.jobs import infer_job

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def eager(name: str, cat: str, dur: float) -> TraceFile:
    """Twenty kernels of 10 µs, each launched at the end of so long an operator or annotation."""
    file = TraceFile()
    for number in range(20):
        at = number * (dur + 20)
        file.host(name, at, dur + 5, cat=cat).kernel(GEMM, at + dur + 4, 10, launch=at + dur)
    return file


@pytest.mark.parametrize(
    ("name", "cat", "dur", "path", "remedy"),
    [
        ("aten::mm", "cpu_op", 100, "eager operators", "a captured graph comes near to it"),
        (
            LOADER,
            "user_annotation",
            2_000,
            "the data loader",
            "most idle time is not launching: the largest cause is the data",
        ),
    ],
)
def test_the_cause_is_that_of_the_account(
    tmp_path: Path, name: str, cat: str, dur: float, path: str, remedy: str
) -> None:
    inferred = infer_job(eager(name, cat, dur).trace(tmp_path))
    assert f"for {path}" in critical_path_report(inferred).headline
    limits = " ".join(what_if(inferred, [NoHostGaps()]).limits)
    assert remedy in limits
    assert ("captured graph" in limits) == (name == "aten::mm")
