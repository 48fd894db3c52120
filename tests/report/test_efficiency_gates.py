"""Gates of efficiency: a share that is too low, or that cannot be told, fails with a sentence; nothing else does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.report.rated import bare_file, rated_file
from weftrace.cli.main import main
from weftrace.errors import WeftraceError
from weftrace.report import analyze
from weftrace.report.cli.report import complete_gate
from weftrace.report.efficiency_gates import FIGURES, parse_efficiency_gate, unmet


def said(path: Path, *gates: str) -> list[str]:
    return unmet(analyze(str(path), timelines=False).document, [parse_efficiency_gate(gate) for gate in gates])


def test_a_gate_is_met_to_the_number(tmp_path: Path) -> None:
    path = rated_file().write(tmp_path / "trace.json")
    assert said(path, "rated=68.75%", "mfu=27%", "gemm=60%") == []
    assert said(path, "rated=68.76%") == ["rated: 68.8 % of device time has known FLOPs; it must be 68.8 % or more"]
    (sentence,) = said(path, "mfu=40 %")
    assert sentence.startswith("mfu: at least 28.0 % of the peak over the span")
    assert "FLOPs known for 68.8 % of device time; it must be 40.0 % or more" in sentence


def test_what_cannot_be_told_fails(tmp_path: Path) -> None:
    bare = bare_file().write(tmp_path / "bare.json")
    assert [sentence.split(": ")[1] for sentence in said(bare, *(f"{name}=0%" for name in FIGURES))] == [
        "unknown"
    ] * len(FIGURES)
    unheard = rated_file(device="NVIDIA Unheard").write(tmp_path / "unheard.json")
    assert said(unheard, "rated=60%") == []
    (sentence,) = said(unheard, "mfu=1%")
    assert "--hardware NAME" in sentence


def test_kernels_whose_names_do_not_tell_of_tensor_cores(tmp_path: Path) -> None:
    file = rated_file()
    for event in file.events:
        if event["cat"] == "kernel" and "gemm" in event["name"]:
            event["name"] = "nameless_kernel"
    (sentence,) = said(file.write(tmp_path / "trace.json"), "tensor-cores=50%")
    assert sentence.startswith("tensor-cores: unknown: 0.0 % of the time of matrix products")


def test_each_rank_of_a_job_is_held_to_it(tmp_path: Path) -> None:
    for rank, gemm_us in enumerate((150, 290)):
        rated_file(rank=rank, gemm_us=gemm_us).write(tmp_path / f"rank{rank}.json")
    (sentence,) = said(tmp_path, "gemm=60%")
    assert sentence.startswith("rank 1: gemm: ")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("mfuu=4%", "Did you mean mfu"), ("mfu", "is not a share"), ("mfu=4", "write mfu=40%"),
     ("=4%", "no share called ''"),
     ("mfu=-4%", "is not a share"), ("mfu=4%%", "is not a share")],
)  # fmt: skip
def test_what_is_no_gate_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(WeftraceError, match=wrong):
        parse_efficiency_gate(text)


def test_the_command_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(rated_file().write(tmp_path / "trace.json"))
    for gate, code in (("mfu=40%", 1), ("mfu=20%", 0), ("mfu=x", 2)):
        monkeypatch.setattr(sys, "argv", ["weftrace", "report", path, "-q", "--fail-below", gate])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code, gate
        err = capsys.readouterr().err
        assert ("--fail-below mfu: at least 28.0 %" in err) is (code == 1)


def test_names_are_completed() -> None:
    assert complete_gate("te") == ["tensor-cores="]
