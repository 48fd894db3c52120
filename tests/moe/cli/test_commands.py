"""`weftrace profile`: traces, documents, sweeps and what pays, and how wrong wishes are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import weftrace as wt
from weftrace.cli.main import program
from weftrace.errors import WeftraceError
from weftrace.moe.cli.pays import parse_batches


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program(), ["profile", *arguments], env={"COLUMNS": "80"})


def test_a_folder_gets_a_trace_a_rank_that_tells_how_it_was_made(tmp_path: Path) -> None:
    folder = f"{tmp_path / 'out'}/"
    done = run("train", "--ranks", "2", "--layers", "2", "--routing", "random", "-o", folder, "-q")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in Path(folder).iterdir()) == ["rank-0.json.gz", "rank-1.json.gz"]
    trace = wt.open(Path(folder) / "rank-1.json.gz")
    assert isinstance(trace, wt.Trace)
    assert (trace.rank, trace.world_size, trace.simulated) == (1, 64, True)
    assert trace.info["profile.overlap"] == "training"
    assert trace.info["profile.costs"] == "published"


def test_a_folder_with_other_ranks_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank-7.json.gz").touch()
    done = run("decode", "--layers", "2", "-o", str(tmp_path))
    assert isinstance(done.exception, WeftraceError)
    assert "holds rank-7.json.gz, which is no trace of this profile" in str(done.exception)


def test_only_an_earlier_profile_of_its_kind_is_written_over(tmp_path: Path) -> None:
    """A recorded `rank-0.json.gz`, and another profile's, would be lost in silence."""
    file = tmp_path / "rank-0.json.gz"
    for content in (b"", b"no trace", gzip.compress(b'{"traceEvents": []}')):
        file.write_bytes(content)
        done = run("decode", "--layers", "2", "-o", str(tmp_path))
        assert isinstance(done.exception, WeftraceError) and "would be overwritten" in str(done.exception)
        assert file.read_bytes() == content
    file.unlink()
    for ep in ("32", "64"):  # the second over the first
        assert run("decode", "--layers", "2", "--ep", ep, "-q", "-o", str(tmp_path)).exit_code == 0
    done = run("prefill", "--layers", "2", "-o", str(tmp_path))
    assert "holds rank-0.json.gz, which is no simulated profile of prefill" in str(done.exception)
    trace = wt.open(file)
    assert isinstance(trace, wt.Trace) and trace.info["profile.ep"] == "64"


def test_a_document_is_written_and_printed(tmp_path: Path) -> None:
    done = run("prefill", "--layers", "2", "--json", "-o", str(tmp_path / "p.json"))
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "p.json").read_text())
    assert printed["setting"]["comm_sms"] == 24


def test_a_sweep_is_written_as_document_and_table(tmp_path: Path) -> None:
    done = run(
        "prefill", "--layers", "3", "--sweep", "ep=8,48", "--sweep", "overlap=none,dual-batch",
        "-o", str(tmp_path / "s.json"), "-o", str(tmp_path / "s.csv"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "is fastest" in done.stdout
    assert len(json.loads((tmp_path / "s.json").read_text())["rows"]) == 4
    assert (tmp_path / "s.csv").read_text().startswith("ep,overlap,gpu_tokens,layer_ns,")


def test_what_pays_is_told_in_the_first_sentence(tmp_path: Path) -> None:
    done = run("pays", "decode", "--batch", "8..128/8", "--overlap", "dual-batch", "-o", str(tmp_path / "p.json"))
    assert done.exit_code == 0, done.output
    assert "a GPU (batches from 8 to 128, in steps of 8): dual-batch from" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--ep", "48"], "48 GPUs cannot hold equal parts of deepseek-v3's 256 experts: 256 / 48"),
        (["decode", "--gpu-tokens", "255"], "255 tokens of a GPU cannot be cut in 2 equal micro-batches"),
        (["prefill", "--comm-sms", "140"], "140 SMs for communication leave none of the 132 SMs"),
        (["prefill", "--costs", "nowhere.json"], "nowhere.json: cannot be read"),
        (["prefill", "--overlap", "training"], "overlap 'training' is for train, not for prefill"),
    ],
)
def test_what_cannot_be_is_refused_with_both_numbers(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, WeftraceError)
    assert message in str(done.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ["prefill", "--tokens", "1", "--gpu-tokens", "2"],
        ["prefill", "-o", "a.xyz"],
        ["pays", "decode", "--batch", "8..8", "--overlap", "none"],
    ],
)
def test_wrong_use_is_told_as_such(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_batches_are_read_as_written() -> None:
    assert list(parse_batches("8..12")) == [8, 9, 10, 11, 12]
    assert list(parse_batches("1024..2048/512")) == [1024, 1536, 2048]
    assert list(parse_batches("1..600")) == list(range(1, 601)), "none is skipped that the user did not skip"
    with pytest.raises(typer.BadParameter):
        parse_batches("5..9/0")


@pytest.mark.parametrize(
    ("words", "expected", "never"),
    [
        ("train --model deepseek-v3", "deepseek-v3.2", "bert-base"),
        ("pays --model ", "mixtral-8x7b", "llama-3-8b"),
        ("prefill --hardware h8", "h800", "h100"),
        ("pays --overlap two-", "two-batch", "none"),
        ("decode --costs r", "roofline", "published"),
    ],
)
def test_names_are_completed(words: str, expected: str, never: str) -> None:
    line = f"weftrace profile {words}"
    environment = {"_WEFTRACE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    found = CliRunner().invoke(program(), [], env=environment, prog_name="weftrace").output.split()
    assert expected in found and never not in found


@pytest.mark.parametrize("model", ["deepseek-v5", "bert-base"])
def test_models_that_a_profile_can_have_are_named(model: str) -> None:
    done = run("train", "--model", model)
    assert isinstance(done.exception, WeftraceError) and done.exception.exit_code == 2
    assert "deepseek-v3.2" in str(done.exception) and "gpt2" not in str(done.exception)


def test_a_folder_without_its_slash_is_told_how_to_be_one(tmp_path: Path) -> None:
    done = run("decode", "-o", str(tmp_path / "out"))
    said = "".join(done.output.replace("│", " ").split())  # the box may break the name
    assert done.exit_code == 2 and f"{tmp_path}/out/" in said and not (tmp_path / "out").exists()
