"""A table of how far replays are off: a line a file, with the reason where there is no plan."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace
from tests.cli.test_cli import Run, run
from tests.tracefile import DISPATCH, GEMM, TraceFile
from weftrace.advice.replay_checks import check_replays

__all__ = ["run"]  # the fixture


@pytest.fixture
def late(tmp_path: Path) -> Path:
    return (
        TraceFile().kernel(GEMM, 100, 50).kernel(DISPATCH, 200, 100, stream=27, launch=150).write(tmp_path / "a.json")
    )


def test_each_file_is_replayed_or_told_why_not(late: Path, tmp_path: Path) -> None:
    host = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").write(tmp_path / "host.json")
    checks = check_replays([str(late), str(host), str(tmp_path / "none.json")])
    first, second, third = checks.files
    assert first.replay is not None and first.reason is None
    assert first.num_events == 2
    assert [(row["source"], row["count"]) for row in first.waits] == [("launch", 2)]
    assert (first.replay.span_ns, first.replay.late_starts) == (200_000, 1)
    assert first.replay.unexplained_ns == first.replay.late_ns > 10_000
    assert second.replay is None and "no work on a device" in str(second.reason)
    assert third.replay is None and third.reason and third.name.endswith("none.json")
    assert not checks.are_trustworthy


def test_the_command_prints_a_line_a_file_and_writes_what_is_read_back(run: Run, late: Path, tmp_path: Path) -> None:
    host = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").write(tmp_path / "host.json")
    outputs = [tmp_path / f"checks.{ending}" for ending in ("json", "csv", "md")]
    written = [each for path in outputs for each in ("-o", path)]
    code, out, err = run("critical-path", "--check", late, host, *written)
    assert code == 0, err
    summary = " ".join(out.split())
    assert "The replay is off by −20.00 % of the measured span; it is not to be trusted." in summary
    assert "host.json: no work on a device is recorded" in summary
    saved = weftrace.load(outputs[0])
    assert saved.files[0].replay.is_trustworthy is False
    assert outputs[1].read_text().count("\n") == 3 and "| a |" in outputs[2].read_text()
    assert run("critical-path", "--check", late, "--strict", "-q")[0] == 1
    assert run("critical-path", "--check", host, "-q")[0] == 3


def test_sources_of_waits_are_headed_by_the_docs_words(run: Run, tmp_path: Path) -> None:
    # one stream was held up by what ran before the recording: its first kernel starts long after its launch
    late = TraceFile(window=False).kernel("a", 500, 50, launch=10).kernel("b", 552, 50, launch=20)
    code, out, err = run("critical-path", "--check", late.write(tmp_path / "late.json"), "-o", tmp_path / "checks.md")
    assert code == 0, err
    heads = (tmp_path / "checks.md").read_text().splitlines()[2]
    assert heads.endswith("| launch | start |") and "origin" not in out
