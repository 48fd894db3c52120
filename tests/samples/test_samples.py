"""The samples: each command that a sample names finds what is planted, at what it costs; same seed, same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.cli.test_cli import Run, run
from tests.fuzz import few
from weftrace.errors import OutputError
from weftrace.samples import Sample
from weftrace.samples.catalogue import PLANTED, write_sample
from weftrace.samples.values import Name

__all__ = ["run"]  # the fixture

#: What a command prints of what is planted, by the rule that finds it.
TOLD = {
    ("unfused-elementwise", "advise"): "Memory-bound kernels that follow each other take 8.4",
    ("exposed-collective", "report"): "Exposed communication takes 7.3 % of",
    ("exposed-collective", "critical-path"): "communication █ 7.03 7.3 %",
    ("exposed-collective", "diff"): "exposed all-reduce −",
    ("sync-every-step", "advise"): "The host waits for the device once per step in aten::item",
    ("straggler", "report"): "Rank 5 computes 1.25× as long as its peers",
    ("straggler", "stragglers"): "Rank 5 computes 1.25× as long as its peers",
    ("decode-gap", "report"): "for host code in schedule",
    ("decode-gap", "advise"): "The device is idle between steps of the engine, most in schedule",
    ("decode-outside-graphs", "advise"): "8 of 26 steps decode of 128 requests outside of graphs",
}


def told(run: Run, *command: str | Path) -> dict[str, Any]:
    code, text, err = run(*command, "--json")
    assert code == 0, err
    document: dict[str, Any] = json.loads(text)
    return document


@pytest.mark.replayed
@pytest.mark.parametrize("name", ["train", "job", "inference", "pair"])
def test_each_command_names_what_is_planted(
    name: Name, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("sample", name)
    assert code == 0 and err.startswith(f"wrote {name}/: ")
    assert " ".join(out.split()) == " ".join(Path(name, PLANTED).read_text().split())
    sample = write_sample(name)
    assert sum(Path(name, file).stat().st_size for file in sample.files) < 3_000_000
    printed: dict[str, str] = {}
    for each in sample.planted:
        assert each.cost_ns > 0.03 * sample.step_ns and " ".join(each.what.split()) in " ".join(out.split())
        for command in each.commands:
            if command not in printed:
                alone = ["--workers", "1"] if command == "weftrace report job/" else []  # to start processes takes long
                code, text, err = run(*command.split()[1:], *alone)
                assert code == 0, err
                printed[command] = " ".join(text.split())
            assert TOLD[each.finding, command.split()[1]] in printed[command], command


@pytest.mark.parametrize("seed", few([0, 3], 1))
@pytest.mark.parametrize(("name", "num"), [("train", 3), ("inference", 2)])
def test_advice_on_a_sample_saves_what_its_causes_cost(
    name: Name, num: int, seed: int, run: Run, tmp_path: Path
) -> None:
    sample = write_sample(name, str(tmp_path / name), seed=seed)
    found = {
        each["rule"]: each["gain"] for each in told(run, "advise", tmp_path / name / f"{name}.json.gz")["findings"]
    }
    assert len(sample.planted) == num
    for each in sample.planted:
        gain = found[each.finding]
        assert gain["low_ns"] <= each.cost_ns <= gain["high_ns"], each


@pytest.mark.parametrize("seed", few([0, 3], 1))
def test_the_straggler_and_the_change_cost_what_stragglers_and_diff_say(seed: int, run: Run, tmp_path: Path) -> None:
    (slow,) = write_sample("job", str(tmp_path / "job"), seed=seed).planted
    (cause,) = told(run, "stragglers", tmp_path / "job")["causes"]
    assert cause["ranks"] == [5] and cause["saved_ns"] == pytest.approx(slow.cost_ns, rel=0.02)
    (late,) = write_sample("pair", str(tmp_path / "pair"), seed=seed).planted
    diff = told(run, "diff", tmp_path / "pair" / "before", tmp_path / "pair" / "after")
    assert diff["before"]["median_ns"] - diff["after"]["median_ns"] == pytest.approx(late.cost_ns, rel=0.02)


@pytest.mark.parametrize("seed", few([0, 3], 1))
def test_what_if_on_the_sample_of_training_saves_what_its_causes_cost(seed: int, run: Run, tmp_path: Path) -> None:
    sample = write_sample("train", str(tmp_path / "train"), seed=seed)
    cost_ns = {each.finding: 3 * each.cost_ns for each in sample.planted}
    for finding, change in (
        ("unfused-elementwise", ("--scale", "module:GELU=0.125")),
        ("sync-every-step", ("--no-blocking", "aten::item")),
    ):
        answer = told(run, "whatif", tmp_path / "train" / "train.json.gz", *change)
        assert change[1].split("=")[0] in answer["headline"]
        assert answer["saved_ns"] == pytest.approx(cost_ns[finding], rel=0.02)


def test_the_sample_of_inference_says_which_steps_it_means(tmp_path: Path) -> None:
    write_sample("inference", str(tmp_path / "inference"))
    text = (tmp_path / "inference" / PLANTED).read_text()
    assert "16 for 64 requests, by CUDA graph, and 8 for 128." in text
    assert "A step takes 7.77 ms, the mean of 2 prompts and 24 decode steps with the gaps after them; 2 causes" in text


def test_time_is_told_by_module_and_its_backward(tmp_path: Path) -> None:
    write_sample("train", str(tmp_path / "train"))
    (rank,) = wt.analyze(tmp_path / "train" / "train.json.gz", by=("module",), timelines=False).document["ranks"]
    gelu = [node for node in rank["modules"]["nodes"] if node["name"].startswith("GELU")]
    # Forward 8 kernels that read and write 134 MB at 2.7 TB/s, backward 8 with half as much again; 4 layers, 3 steps.
    kernel_ns = 2 * 8_192 * 8_192 * 2 / 2_700
    assert sum(node["total_ns"] for node in gelu) == pytest.approx(8 * 4 * 3 * 2.5 * kernel_ns, rel=0.01)
    assert sum(node["backward_ns"] for node in gelu) == pytest.approx(8 * 4 * 3 * 1.5 * kernel_ns, rel=0.01)


def test_a_seed_gives_the_same_files_and_another_one_others(tmp_path: Path) -> None:
    def of(folder: str, seed: int) -> tuple[Sample, bytes]:
        sample = write_sample("train", str(tmp_path / folder), seed=seed)
        return sample, (tmp_path / folder / "train.json.gz").read_bytes()

    assert of("one", 0)[1] == of("two", 0)[1] != of("three", 1)[1]
    trace = wt.open(tmp_path / "one" / "train.json.gz")
    assert isinstance(trace, wt.Trace) and trace.simulated and "Simulated, not measured" in trace.info["sample"]


def test_nothing_but_an_earlier_sample_is_written_over(tmp_path: Path) -> None:
    write_sample("train", str(tmp_path / "train"))
    write_sample("train", str(tmp_path / "train"), seed=1)
    with pytest.raises(OutputError, match="no earlier sample of job"):
        write_sample("job", str(tmp_path / "train"))
    (tmp_path / "notes").write_text("mine")
    for folder in ("", "notes"):
        with pytest.raises(OutputError, match="folder"):
            write_sample("job", str(tmp_path / folder) if folder else str(tmp_path))
