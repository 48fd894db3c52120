"""A profile that ran, recorded: the report finds its phases and micro-batches, and what hid behind what."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import pytest

from tests.fuzz import is_thorough, thorough
from tests.living import Ranks
from weftrace.analysis import overlap
from weftrace.errors import ProfileError
from weftrace.moe import run as door
from weftrace.report import analyze
from weftrace.trace import Trace, open_trace, work_of

TIMES = 3 if is_thorough() else 1  # of each list, in turn
PHASES = {"ATTN", "SHARED", "MLP", "DISPATCH", "COMBINE"}


@pytest.fixture(scope="module")
def recorded(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Prefill on two ranks of gloo, by list; each of its recordings has its own folder."""
    home = tmp_path_factory.mktemp("captured")
    names = "two-micro-batches", "none"
    folders = {name: [home / f"{name}{number}" for number in range(TIMES)] for name in names}
    summary = ranks.run("tests.moe.runtime.captured_cases:captured", 2,
                     folders={name: list(map(str, listed)) for name, listed in folders.items()})  # fmt: skip
    assert (
        summary[0] == summary[1] == [[2048, True, []]] * TIMES + [[1024, True, []]] * TIMES
    )  # tokens of a step: 2 x 2 x 512
    return folders


def hidden(folder: Path) -> float:
    """The share of communication, from posted to done, under which this rank computed."""
    trace = open_trace(folder / "rank0.json.gz")
    assert isinstance(trace, Trace)
    share = overlap(work_of(trace)).hidden_fraction
    assert share is not None
    return share


def test_the_report_finds_phases_layers_and_both_micro_batches(recorded: dict[str, list[Path]]) -> None:
    folder = recorded["two-micro-batches"][0]
    assert sorted(path.name for path in folder.iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    for rank in analyze(folder).document["ranks"]:
        found = {(row["name"], row["layer"], row["micro_batch"]) for row in rank["phases"] if row["name"] in PHASES}
        assert found == {(name, layer, batch) for name in PHASES for layer in range(3) for batch in (0, 1)}
        assert [step["step"] for step in rank["steps"]] == [4, 5]
        assert rank["configuration"]["profile.overlap"] == "two-micro-batches"
        assert rank["configuration"]["profile.comm"].startswith("gloo; rows travel as fp8")


@thorough
def test_the_report_states_what_hid_and_without_overlap_it_is_less(recorded: dict[str, list[Path]]) -> None:
    """From posted to done, on gloo's threads: an ordering of medians over repeated runs.

    One run in a dozen of a busy machine may hide nothing at all.
    """
    overlapped, alone = ([hidden(folder) for folder in recorded[name]] for name in ("two-micro-batches", "none"))
    assert median(alone) < median(overlapped)
    (document,) = analyze(recorded["two-micro-batches"][0] / "rank0.json.gz").document["ranks"]
    assert document["hidden_fraction"] == pytest.approx(overlapped[0])


def test_the_command_runs_times_and_records_a_profile_in_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    door.app(
        ["train", "--overlap", "none", "--ep", "2", "--hidden", "128", "--layers", "2", "--tokens", "32",
         "--sequence", "16", "--steps", "1", "--recorded", "1", "--random-routing", "--dtype", "float64",
         "--device", "cpu", "--seed", "3", "--exact", "--profile", str(tmp_path)], standalone_mode=False,
    )  # fmt: skip
    summary = capsys.readouterr().out
    assert "tokens/s: 32 tokens a step on all ranks" in summary and f"{tmp_path}{os.sep}rank0.json.gz" in summary
    assert "note: all-to-all of 2 ranks emulated" in summary
    trace = open_trace(tmp_path / "rank0.json.gz")
    assert isinstance(trace, Trace)
    assert trace.configuration["profile.routing"] == "learned" and trace.configuration["capture.parallel"] == "ep=2"
    phases = work_of(trace).phases
    assert {"attn(F)", "mlp(B)", "attn(W)", "combine(B)"} <= set(phases["name"])
    assert set(phases.drop_nulls("layer")["layer"]) == {0, 1}


def test_ranks_that_were_asked_for_different_runs_are_told_so(ranks: Ranks) -> None:
    """Else they wait for each other until gloo's time is up, half an hour later."""
    summary = ranks.run("tests.moe.runtime.captured_cases:disagreeing", 2)
    assert summary == ["ranks were asked for different runs: layers is 1 on rank 0, 2 on rank 1"] * 2


@pytest.mark.parametrize(
    ("asked", "summary"),
    [(["--ep", "3"], "8 / 3"), (["--overlap", "training"], "not for prefill"), (["--device", "tpu"], "'tpu' is not"),
     (["--dtype", "int8"], "int8"), (["--dtype", "float8_e4m3fn"], "float64, float32, bfloat16, float16"),
     (["--experts", "10"], "10 experts cannot be cut into the 4 equal groups"),
     (["--model", "mixtral-8x7b", "--experts", "1"], "goes to 2 experts, and there are 1$"),
     (["--model", "gpt2"], "no experts"), (["--hidden", "100"], "128")],
)  # fmt: skip
def test_what_cannot_run_is_refused(asked: list[str], summary: str) -> None:
    with pytest.raises(ProfileError, match=summary):
        door.app(["prefill", "--steps", "1", *asked], standalone_mode=False)
