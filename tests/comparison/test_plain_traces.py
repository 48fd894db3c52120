"""Ranges that no profiler of devices wrote are compared like any others, though one range may be several pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.trace.plain.pipeline_job import converted, even, simulate, write
from weftrace.comparison.diffs import diff
from weftrace.comparison.runs import run_of


def test_a_range_in_whose_midst_its_thread_communicates_counts_once(tmp_path: Path) -> None:
    document = converted(simulate(dp=1, pp=2, cost=even))
    for event in document["traceEvents"]:
        event["tid"] = 0  # one thread a rank
    first: dict[int, dict[str, Any]] = {}
    for event in document["traceEvents"]:
        if event["cat"] == "compute":
            first.setdefault(event["args"]["rank"], event)
    for event in first.values():  # a transfer in the midst of the first computation of each rank
        document["traceEvents"].append(
            {**event, "name": "send", "cat": "comm", "ts": event["ts"] + event["dur"] / 4, "dur": event["dur"] / 2}
        )
    run = run_of(write(tmp_path / "plain.json", document))
    assert run.ranks
    for rank in run.ranks:
        assert int(rank.shares["own_ns"].sum()) == rank.span_ns
    assert diff(run, run).change_ns == 0
