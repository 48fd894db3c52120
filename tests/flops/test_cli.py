"""`weftrace flops` as a person meets it: what it prints and writes, and what it says of mistakes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console
from typer.testing import CliRunner

import weftrace
from tests.cli.test_cli import Run, run
from weftrace.files.schemas import schema_for
from weftrace.flops.cli.app import app
from weftrace.flops.cli.script import of_rank
from weftrace.flops.document import read_flops
from weftrace.flops.outputs import DIFF
from weftrace.installing import install_command

__all__ = ["run"]  # the fixture

WORDS = "tests.flops.user_models:Words"


def squeezed(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    """A report of GPT-2 over 16 tokens."""
    path = tmp_path / "gpt2.json"
    assert run("flops", "gpt2", "--input", "2x8", "-o", path, "-q")[0] == 0
    return path


def test_the_published_bert_to_the_last_flop(run: Run) -> None:
    code, out, err = run("flops", "bert-large", "--input", "80x128", "--masked-positions", "1159", "--device", "meta")
    assert code == 0, err
    assert "6,407,707,099,136 forward" in out
    assert "6.41 TFLOP a step, 336 M parameters" in out
    assert "\x1b[" not in out


def test_help_has_the_options_the_examples_and_the_commands(run: Run) -> None:
    code, out, _ = run("flops", "--help")
    assert code == 0
    summary = squeezed(out)
    for part in (
        "--masked-positions",
        "--hardware",
        "weftrace flops --config ds_config.json train.py",
        "diff",
        "models",
        "show",
    ):
        assert part in summary
    code, out, err = run("flops")
    assert (code, "--hardware" in out + err) == (2, True), "without arguments it shows its help"
    assert "--fail-above" in run("flops", "diff", "--help")[1]


def test_models_are_listed(run: Run) -> None:
    code, out, _ = run("flops", "models")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("deepseek-v3 "))
    assert line.split()[1:6] == ["671", "G", "37.6", "G", "61"]
    assert "arXiv:2412.19437" in out


def test_files_of_every_kind(run: Run, tmp_path: Path) -> None:
    names = {kind: tmp_path / f"report.{kind}" for kind in ("json", "csv", "md", "html", "trace.json.gz")}
    arguments = [part for path in names.values() for part in ("-o", path)]
    code, out, err = run(
        "flops", WORDS, "--input", "3x5", "--device", "cpu", "--backward", "--steps", "1", *arguments, "-q"
    )
    assert (code, out) == (0, ""), err
    assert all(f"wrote {path}" in err for path in names.values())
    report = read_flops(names["json"])
    assert report.samples == 3
    rows = list(csv.DictReader(names["csv"].open()))
    assert {row["phase"] for row in rows} == {"forward", "backward"}
    assert "Words" in names["md"].read_text()
    assert names["html"].read_text()[:15].lower() == "<!doctype html>"
    assert json.loads(gzip.decompress(names["trace.json.gz"].read_bytes()))["traceEvents"]


def test_the_document_may_have_stdout_alone(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("flops", "gpt2", "--input", "1x4", "--json")
    assert (code, json.loads(out)["schema"]) == (0, "weftrace.flops/1")
    code, out, err = run("flops", WORDS.replace("Words", "Talks"), "--input", "1x4", "--device", "cpu", "--json")
    assert json.loads(out)["schema"] == "weftrace.flops/1"
    assert "here I am" in err
    table = tmp_path / "table.csv"
    code, out, _ = run("flops", "gpt2", "--input", "1x4", "--json", "-o", table)
    assert (code, json.loads(out)["schema"], table.is_file()) == (0, "weftrace.flops/1", True)


def test_an_input_is_never_overwritten(run: Run, saved: Path, tmp_path: Path) -> None:
    before = saved.read_bytes()
    for arguments in (("show", saved), ("diff", saved, saved)):
        code, _, err = run("flops", *arguments, "-o", saved)
        assert (code, "is an input" in squeezed(err)) == (2, True)
    config = tmp_path / "config.json"
    config.write_text("{}")
    for model in (config, tmp_path):
        code, _, err = run("flops", model, "-o", config)
        assert (code, "is an input" in squeezed(err)) == (2, True)
    assert (saved.read_bytes(), config.read_text()) == (before, "{}")


def test_the_doors_take_a_report_a_comparison_and_a_sweep(run: Run, saved: Path, tmp_path: Path) -> None:
    report = weftrace.load(saved)
    assert report == read_flops(saved)
    weftrace.save(report, tmp_path / "a.json.zst", tmp_path / "a.html", tmp_path / "a.csv", tmp_path / "a.md")
    assert weftrace.load(tmp_path / "a.json.zst") == report
    assert (tmp_path / "a.csv").read_bytes().decode() == weftrace.flops.to_csv(report)
    found, console = weftrace.flops.diff(report, report), Console(file=io.StringIO(), width=100)
    weftrace.save(found, tmp_path / "diff.json")
    assert weftrace.load(tmp_path / "diff.json") == found
    assert run("flops", "gpt2", "--sweep", "seq=4,8", "-o", tmp_path / "sweep.json", "-q")[0] == 0
    sweep = weftrace.load(tmp_path / "sweep.json")
    assert [point.at["seq"] for point in sweep.points] == [4, 8]
    for value in (report, weftrace.flops.account_of(report), found, sweep):
        weftrace.show(value, console)
    assert "Nothing changed" in console.file.getvalue()  # type: ignore[attr-defined]
    assert weftrace.figure(report, "tree").data and weftrace.figure(report, "phases").data


def test_timed_steps_and_a_trace(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "counters.trace.json"
    code, out, err = run(
        "flops", WORDS, "--input", "3x5", "--device", "cpu", "--optimizer", "sgd", "--steps", "2", "--warm-up", "1",
        "--hardware", "h100", "-o", trace,
    )  # fmt: skip
    assert code == 0, err
    for part in ("optimizer", "MFU", "peaks of H100 SXM", "2 steps after 1"):
        assert part in squeezed(out)
    assert "Prediction" not in out, "there is a measured time"
    assert json.loads(trace.read_text())["traceEvents"]


def test_decode_of_deepseek_is_predicted_with_its_assumptions(run: Run) -> None:
    code, out, err = run(
        "flops", "deepseek-v3", "--phase", "decode", "--batch", "128", "--context", "4096", "--hardware", "h800",
        "--depth", "1", "--top", "0",
    )  # fmt: skip
    assert code == 0, err
    summary = squeezed(out)
    for part in (
        "does not fit",
        "Prediction one step on one H800 SXM",
        "tokens/s: predicted, at most",
        "What was assumed - Matrix and vector work",
    ):
        assert part in summary


def test_deepseeks_text(run: Run) -> None:
    for layout, width in (("deepspeed", 70), ("deepspeed-old", 60)):
        code, out, err = run("flops", "gpt2", "--input", "2x8", "--text-layout", layout)
        assert code == 0, err
        (line,) = [line for line in out.splitlines() if line.startswith("world size:")]
        assert line.index("1") == width + 2


def test_a_sweep_as_table_json_and_csv(run: Run, tmp_path: Path) -> None:
    options = ("flops", "gpt2", "--phase", "decode", "--sweep", "batch=1,2", "--sweep", "context=8,16")
    code, out, err = run(*options, "--hardware", "a100", "-o", tmp_path / "s.json", "-o", tmp_path / "s.csv")
    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines() if line.lstrip()[:1].isdigit()] == [
        ["1", "8"], ["1", "16"], ["2", "8"], ["2", "16"],
    ]  # fmt: skip
    assert "assumed:" in out
    assert len(json.loads((tmp_path / "s.json").read_text())["points"]) == 4
    assert (tmp_path / "s.csv").read_text().startswith("batch,context,flops")
    code, out, _ = run(*options, "--json")
    assert (code, json.loads(out)["schema"]) == (0, "weftrace.flops.sweep/1")
    code, _, err = run(*options, "-o", "page.html")
    assert (code, "End it in .csv, .json" in squeezed(err)) == (2, True)
    code, _, err = run(*options, "--text-layout", "deepspeed")
    assert (code, "not for a sweep" in squeezed(err)) == (2, True)


def test_diff_exits_as_promised(run: Run, saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    run("flops", "gpt2", "--input", "2x9", "-o", other, "-q")
    code, out, _ = run("flops", "diff", saved, saved, "--fail-above", "0%")
    assert (code, "Nothing changed" in out) == (0, True)
    code, out, err = run("flops", "diff", saved, other, "--fail-above", "1%")
    assert code == 1
    assert "flops" in out and "differs from" in err
    assert run("flops", "diff", saved, other, "--fail-above", "50%")[0] == 0
    assert run("flops", "diff", saved, other)[0] == 0, "without a limit it only tells"
    assert run("flops", "diff", saved, tmp_path / "absent.json")[0] == 3
    code, out, _ = run("flops", "diff", saved, other, "--json", "--fail-above", "1%")
    assert (code, json.loads(out)["is_same"]) == (1, False)
    jsonschema.validate(json.loads(out), schema_for(DIFF).json_schema())
    code, _, err = run("flops", "diff", saved, other, "--fail-above", "much")
    assert (code, "is no fraction" in err) == (2, True)


def test_show_draws_a_saved_report(run: Run, saved: Path, tmp_path: Path) -> None:
    code, out, _ = run("flops", "show", saved, "--hardware", "h100", "-o", tmp_path / "again.html")
    assert code == 0
    assert "weftrace flops · gpt2" in out
    assert (tmp_path / "again.html").is_file()
    (tmp_path / "not.json").write_text("{}")
    code, _, err = run("flops", "show", tmp_path / "not.json")
    assert (code, "not.json" in err) == (3, True)
    code, _, err = run("flops", "show", saved, "-o", tmp_path / "step.trace.json")
    assert (code, "no module was timed" in err) == (3, True)


SCRIPT = """\
import argparse, sys, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--config"); parser.add_argument("--json"); parser.add_argument("--crash", action="store_true")
arguments = parser.parse_args()
model = nn.Linear(8, 4, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(5, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
if arguments.crash:
    raise RuntimeError("the script's own")
print("trained", arguments.config, arguments.json)
"""


@pytest.fixture
def script(tmp_path: Path) -> tuple[Path, Path]:
    """(a DeepSpeed configuration, a script that knows nothing of weftrace)"""
    config, script = tmp_path / "ds.json", tmp_path / "train.py"
    config.write_text('{"flops_profiler": {"enabled": true, "profile_step": 1, "detailed": false}}')
    script.write_text(SCRIPT)
    return config, script


def test_a_script_gets_its_own_arguments(run: Run, script: tuple[Path, Path], tmp_path: Path) -> None:
    config, path = script
    page = tmp_path / "mine.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code, out, err = run("flops", "-o", page, "--config", config, path, "--config", "theirs", "--json", "too")
    assert code == 0, err
    assert "trained theirs too" in out
    assert out.count("fwd MACs per GPU:") == 1
    assert "160 MACs" in out
    assert read_flops(page).modules[0].class_name == "Linear"
    assert not (tmp_path / "too").exists()


def test_a_scripts_document_may_have_stdout_alone(run: Run, script: tuple[Path, Path]) -> None:
    config, path = script
    code, out, err = run("flops", "--json", "--config", config, path)
    assert (code, json.loads(out)["schema"]) == (0, "weftrace.flops/1")
    assert "trained" in err and "fwd MACs per GPU:" in err


def test_each_rank_of_a_script_has_a_document_of_its_own() -> None:
    paths = ("a/report.json.gz", "page.html", "x.trace.json", "b.JSON")
    assert of_rank(paths, 3) == ("a/report.rank3.json.gz", "b.rank3.JSON")


@pytest.mark.parametrize("depth", [0, 1])
def test_a_scripts_markdown_is_as_deep_as_asked(
    run: Run, script: tuple[Path, Path], tmp_path: Path, depth: int
) -> None:
    config, path = script
    path.write_text(SCRIPT.replace("nn.Linear(8, 4, bias=False)", "nn.Sequential(nn.Linear(8, 4, bias=False))"))
    table = tmp_path / "table.md"
    code, _, err = run("flops", "--depth", depth, "-o", table, "--config", config, path)
    assert code == 0, err
    assert ("Linear" in table.read_text()) == bool(depth)


def test_a_scripts_exception_is_shown_as_python_would(run: Run, script: tuple[Path, Path]) -> None:
    config, path = script
    code, _, err = run("flops", "--config", config, path, "--crash")
    assert code == 1
    assert "RuntimeError: the script's own" in err
    assert "run_script" not in err, "weftrace's own frames help nobody"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("bert-lage",), "did you mean bert-large"),
        (("train.py",), "--config ds_config.json train.py"),
        (("gpt2",), "how many tokens"),
        (("gpt2", "gpt2"), "one model at a time"),
        (("gpt2", "--input", "2 by 8"), "is no input"),
        (("gpt2", "--input", "2x8", "--hardware", "abacus"), "abacus"),
        (("gpt2", "--input", "2x8", "--text-layout", "verse"), "is no layout"),
        (("gpt2", "--input", "2x8", "-o", "t.trace.json"), "a trace draws timed steps: say --steps 10"),
        (("gpt2", "--phase", "decode", "--context", "0"), "decode needs a context"),
        (("--config", "absent.json"), "Missing argument"),
        (("--batch", "3", "--config", "absent.json", "train.py"), "the script itself decides that"),
        (
            ("--optimizer", "adamw", "--warm-up", "2", "--config", "a.json", "b.py"),
            "--optimizer, --warm-up: the script",
        ),
        (
            ("--attention", "eager", "--experts", "bmm", "--config", "a.json", "b.py"),
            "--attention, --experts: the script",
        ),
        (("gpt2", "--input", "1x4", "--model", "GPT"), "for a script, with --config"),
        (("--hardware", "h100"), "Missing argument"),
        (("gpt2", "--sweep", "width=3"), "no sweep"),
        (("gpt2", "--input", "1x4", "-o", "/proc/x.json"), "no file can be made in /proc"),
        (("gpt2", "--input", "1x4", "-o", "page.pdf"), "its ending does not say what to write"),
        (
            ("gpt2", "--input", "1x4", "-o", "-"),
            "a document goes to standard output with --json, where the command has it",
        ),
        (("gpt2", "--input", "1x4", "--phase", "later"), "no phase 'later'"),
        (("gpt2", "--input", "1x4", "--parallel", "tp"), "write the axes once each"),
        (("bert-large", "--seq", "4", "--phase", "decode", "--context", "8"), "it cannot decode"),
        (("gpt2", "--nonsense"), "--nonsense"),
        (("gpt2", "--nonsense"), "weftrace flops -h' for help"),
        (
            (WORDS, "--input", "100000000000x512", "--device", "cpu"),
            "--input 100000000000x512 takes 372.5 TiB, more than cpu has room for; --device meta",
        ),
        (("gpt2", "--input", "100000000000x512", "--device", "cpu"), "takes 372.5 TiB"),
        (("bert-large", "--input", "foo=80x128"), "bert-large has no input 'foo'"),
        (("gpt2", "--input", "2x8:fp32"), "takes token ids, not float32"),
        ((WORDS, "--input", "2x8", "--attention", "sdpa"), "--attention: is for models by name"),
        ((WORDS, "--input", "2x8", "--experts", "bmm"), "--experts: is for models by name"),
        (("gpt2", "--seq", "8", "--sweep", "batch=1,2", "--sweep", "batch=3"), "batch is given twice"),
        (("gpt2", "--sweep", "batch=0,1"), "a batch is at least 1"),
        (("gpt2", "--device", "foo"), "no device 'foo'"),
        (("gpt2", "--dtype", "int8"), "not int8"),
        ((WORDS, "--input", "2x8", "--device", "vulkan"), "torch cannot use the device 'vulkan' here; --device meta"),
    ],
)
def test_mistakes_are_told_in_words(run: Run, arguments: tuple[str, ...], text: str) -> None:
    _is_told(run, arguments, 2, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("weftrace_absent:build",), "no module 'weftrace_absent'"),
        (("tests.flops.user_models:broken", "--device", "meta"), "ValueError: two lines of trouble (--traceback"),
        (("tests.flops.user_models:build", "--input", "2x3x9x9"), "cannot be multiplied"),
        (("--config", "absent.json", "train.py"), "absent.json: cannot be read"),
        (("nothere.json",), "nothere.json: no such file"),
    ],
)
def test_what_cannot_be_used_is_told_in_words(run: Run, arguments: tuple[str, ...], text: str) -> None:
    _is_told(run, arguments, 3, text)


def _is_told(run: Run, arguments: tuple[str, ...], expected: int, text: str) -> None:
    code, _, err = run("flops", *arguments)
    assert code == expected
    assert text in squeezed(err)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{bro", "is no JSON"),
        ("[1]", "is a JSON object with a model_type, not a list"),
        ('{"a": 1}', "It needs a model_type"),
        ('{"model_type": "zorgon"}', "does not know the model_type 'zorgon'. A newer one may"),
    ],
)
def test_what_is_wrong_with_a_configuration_comes_first(run: Run, tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "some.json"
    path.write_text(content)
    code, _, err = run("flops", path)
    assert (code, text in err) == (3, True), err
    assert err.count("\n") == 1
    assert "how many tokens" not in err


def test_traceback_shows_the_users_own(run: Run) -> None:
    code, _, err = run("flops", "tests.flops.user_models:broken", "--traceback")
    assert code == 3
    assert 'raise ValueError("two' in err


def test_torch_is_asked_for_where_it_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("weftrace.flops.runtime")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(weftrace.flops), "run_model", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = run("flops", "gpt2", "--input", "1x4")
    assert (code, install_command("torch") in err) == (3, True)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    code, _, err = run("flops", tmp_path / "config.json", "--input", "1x4")
    assert code == 3 and f"torch is missing: {install_command('hf')}" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("weftrace bert-l", "bert-large"),
        ("weftrace mo", "models"),
        ("weftrace gpt2 --hardware h8", "h800"),
        ("weftrace gpt2 --hardware H8", "H800"),
        ("weftrace --hard", "--hardware"),
        ("weftrace gpt2 --phase de", "decode"),
        ("weftrace gpt2 --experts b", "bmm"),
    ],
)
def test_names_are_completed(words: str, expected: str) -> None:
    count = len(words.split()) - 1
    environment = {"_WEFTRACE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = CliRunner().invoke(app, [], env=environment, prog_name="weftrace")
    assert expected in done.output.split()
