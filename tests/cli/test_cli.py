"""The command line as a person meets it: what it prints, where, with which exit code, and what it leaves behind."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pytest
import typer

from tests.browser import Open
from tests.tracefile import DISPATCH, GEMM, TraceFile
from weftrace.cli.main import main, program
from weftrace.errors import ClusterWarning
from weftrace.wings import SHOWN

T = TypeVar("T")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `weftrace ARGS`; exit code, stdout, stderr."""

    def command(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["weftrace", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err

    return command


def small(rank: int = 0) -> TraceFile:
    """Two phases, one after the other: a GEMM of 100 µs, and a dispatch of 100 µs of which the GEMM hides half."""
    return (
        TraceFile(rank=rank, world_size=4)
        .host("ProfilerStep#1", 0, 1000)
        .host("mlp(F)", 10, 20)
        .kernel(GEMM, 100, 100, launch=15, blocks=112)
        .host("dispatch(B)", 40, 20)
        .kernel(DISPATCH, 150, 100, launch=45, stream=27, blocks=20)
    )


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return small().write(tmp_path / "train.json")


def test_report_prints_the_headline_and_the_exact_account(run: Run, train: Path) -> None:
    code, out, err = run("report", train)
    assert code == 0
    assert "all of it in dispatch; 50.0 % of communication is hidden." in " ".join(out.split())
    assert re.search(r"exposed communication +50.0 µs +33.3 %", out)
    assert "\x1b[" not in out, "no colour where stdout is no terminal"
    assert err == ""


def test_report_writes_json_and_html_and_says_so_on_stderr(run: Run, train: Path, tmp_path: Path) -> None:
    page, numbers = tmp_path / "report.html", tmp_path / "report.json"
    code, out, err = run("report", train, "-o", page, "-o", numbers, "-q")
    assert (code, out) == (0, "")
    assert f"wrote {page}" in err and f"wrote {numbers}" in err
    rank = json.loads(numbers.read_text())["ranks"][0]
    assert (rank["span_ns"], rank["exposed_communication_ns"]) == (150_000, 50_000)
    assert page.read_text().startswith("<!doctype html>")


def test_the_shell_may_expand_a_glob_and_any_number_of_files_is_a_job(run: Run, tmp_path: Path) -> None:
    for rank in range(3):
        small(rank).write(tmp_path / f"rank{rank}.json")
    files = sorted(tmp_path.glob("*.json"))
    code, out, _ = run("report", *files, "--workers", 1, "--json")
    assert (code, [rank["rank"] for rank in json.loads(out)["ranks"]]) == (0, [0, 1, 2])
    _, one, _ = run("report", files[1], "--json")
    assert [rank["rank"] for rank in json.loads(one)["ranks"]] == [1]
    code, out, _ = run("lanes", *files[:2], "--workers", 1)
    assert code == 0 and "rank 0" in out and "rank 1" in out


def test_each_ending_is_written_and_a_wrong_one_lists_them(run: Run, train: Path, tmp_path: Path) -> None:
    packed = tmp_path / "report.json.gz"
    assert run("report", train, "-o", packed, "-q")[0] == 0
    assert json.loads(gzip.decompress(packed.read_bytes()))["schema"] == "weftrace.report/1"
    code, _, err = run("report", train, "-o", tmp_path / "report.docx")
    summary = " ".join(err.replace("│", " ").split())
    assert code == 2 and ".html" in summary and ".json.gz" in summary
    code, _, err = run("report", train, "-o", packed, "-o", packed)
    assert code == 2 and "named twice" in " ".join(err.replace("│", " ").split())
    code, _, err = run("report", train, "-o", "-")
    assert code == 2 and "--json" in err


@pytest.mark.parametrize("command", ["report", "annotate", "convert"])
@pytest.mark.parametrize("spelling", ["same", "link", "relative"])
def test_an_input_is_never_overwritten(
    run: Run, train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, spelling: str
) -> None:
    before = train.read_bytes()
    out: str | Path = train
    if spelling == "link":
        out = tmp_path / "link.json"
        out.symlink_to(train)
    elif spelling == "relative":
        monkeypatch.chdir(tmp_path)
        out = Path("train.json")
    code, _, err = run(command, train, "-o", out)
    assert (code, train.read_bytes()) == (2, before)
    assert "is an input" in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("command", ["report", "annotate", "convert"])
@pytest.mark.parametrize("of", ["a file", "a folder"])
@pytest.mark.parametrize(
    ("output", "summary"),
    [("", "it is empty: give a name"), (" ", "it is empty: give a name"), ("-", "only files are written")],
)
def test_an_output_without_a_name_is_refused_in_a_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, of: str, output: str, summary: str
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [small(rank).write(tmp_path / f"rank{rank}.json") for rank in range(2)]
    code, out, err = run(command, tmp_path if of == "a folder" else files[0], "-o", output, "--workers", 1)
    assert (code, out) == (2, "")
    assert summary in " ".join(err.replace("│", " ").split())
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize("command", ["report", "annotate", "convert"])
def test_a_folder_where_one_file_is_to_be_written_is_refused(
    run: Run, train: Path, tmp_path: Path, command: str
) -> None:
    code, _, err = run(command, train, "-o", tmp_path)
    assert code == 2 and "is a folder; give the name of a file in it" in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("options", [["report"], ["lanes"], ["annotate", "--in-place"], ["convert", "-o", "x.json"]])
def test_an_empty_name_of_a_trace_is_not_the_folder_where_one_stands(
    run: Run, train: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(train.parent)
    before = train.read_bytes()
    code, _, err = run(options[0], "", *options[1:])
    assert (code, train.read_bytes()) == (3, before) and "an empty path: give a trace's file" in err


@pytest.mark.parametrize("command", ["report", "annotate", "convert"])
def test_no_file_of_a_folder_is_overwritten(run: Run, tmp_path: Path, command: str) -> None:
    files = [small(rank).write(tmp_path / f"rank{rank}.json") for rank in range(2)]
    if command == "convert":  # its files end in .parquet, so converted ones are what it could overwrite
        assert run("convert", tmp_path, "-o", tmp_path, "--workers", 1)[0] == 0
        for file in files:
            file.unlink()
        files = [file.with_suffix(".parquet") for file in files]
    before = [file.read_bytes() for file in files]
    code, _, err = run(command, tmp_path, "-o", files[0] if command == "report" else tmp_path, "--workers", 1)
    assert (code, [file.read_bytes() for file in files]) == (2, before)
    assert "is an input" in " ".join(err.replace("│", " ").split())


def test_other_inputs_are_not_overwritten_either(run: Run, train: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text("[[rule]]\nname='mine'\nkind='compute'\nfamily='mine'\nmatch='x'\nsource='test'\n")
    before = rules.read_bytes()
    assert run("report", train, "--kernels", rules, "-o", rules)[0] == 2
    assert rules.read_bytes() == before


@pytest.mark.parametrize(("command", "name"), [("convert", "rank0.parquet"), ("annotate", "rank0.json")])
def test_two_ranks_of_one_name_do_not_overwrite_each_other(run: Run, tmp_path: Path, command: str, name: str) -> None:
    for folder in ("monday", "tuesday"):
        (tmp_path / folder).mkdir()
        small().write(tmp_path / folder / "rank0.json")
    traces = [tmp_path / folder / "rank0.json" for folder in ("monday", "tuesday")]
    code, _, err = run(command, *traces, "-o", tmp_path / "out")
    assert code == 2 and all(part in flat(err) for part in ("monday", "tuesday", name, "folder of its own"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        (["annotate", "train.json", "-o", "lanes.html"], ".json.zst"),
        (["annotate", "train.json", "-o", "lanes.parquet"], ".json.zst"),
        (["convert", "train.json", "-o", "train.csv"], ".parquet"),
        (["convert", "train.json", "train2.json", "-o", "both.parquet"], "folder"),
        (["annotate", "train.json", "train2.json", "-o", "both.json.gz"], "folder"),
        (["report", "train.json", "-o", "absent/report.html"], "no folder absent"),
    ],
)
def test_an_output_that_does_not_fit_is_refused_before_a_trace_is_read(
    run: Run, train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], summary: str
) -> None:
    small(1).write(tmp_path / "train2.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weftrace.trace.open_trace", None)
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*arguments)
    assert code == 2 and summary in flat(err) and out == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("how", [["-q"], ["--json"]])
def test_a_rank_that_cannot_be_read_is_told_whatever_is_printed(run: Run, tmp_path: Path, how: list[str]) -> None:
    small(0).write(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").write_text("{broken")
    code, _, err = run("report", tmp_path, *how)
    assert code == 0 and "rank1.json" in err


def flat(text: str) -> str:
    """A boxed message as one line, whatever its width."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split()).replace("- ", "-")


def test_annotate_in_place_is_asked_for(run: Run, tmp_path: Path) -> None:
    one = small().write(tmp_path / "one.json")
    code, _, err = run("annotate", one)
    assert code == 2 and "--in-place" in " ".join(err.replace("│", " ").split())
    assert run("annotate", one, "-o", tmp_path / "out.json", "--in-place")[0] == 2
    assert run("annotate", one, "--in-place")[0] == 0
    assert any(event["pid"] == "weftrace" for event in json.loads(one.read_text())["traceEvents"])
    folder = tmp_path / "job"
    folder.mkdir()
    files = [small(rank).write(folder / f"rank{rank}.json") for rank in range(2)]
    assert run("annotate", folder, "--in-place", "--workers", 1)[0] == 0
    assert all('"pid":"weftrace"' in file.read_text().replace(" ", "") for file in files)
    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize(
    "command",
    [
        "report {} -q",
        "lanes {} -q",
        "critical-path {} -q",
        "whatif {} --scale gemm=0.5 -q",
        "query {} -q SQL",
        "convert {} -o {out}",
        "annotate {} -o {out}",
        "diff {} {whole} -q",
        "pipeline slip {plan} {} -q",
        "pipeline recommend --trace {} -q --devices 2 --micro-batches 4",
        "profile calibrate {cut} -q",
    ],
)
@pytest.mark.parametrize("is_job", [False, True])
def test_every_command_says_that_a_file_is_cut_short(run: Run, tmp_path: Path, command: str, is_job: bool) -> None:
    traces, plan = tmp_path / "traces", tmp_path / "plan.txt"
    traces.mkdir()
    plan.write_text("micro-batches: 2\nreplica 0: 0\nrank 0: 0F0 0B0 0F1 0B1\n")
    cut = small().write(traces / "rank0.json")
    cut.write_text(cut.read_text()[:-3])
    whole = small().write(tmp_path / "whole.json")
    if is_job:
        small(rank=1).write(traces / "rank1.json")
    out = tmp_path / ("out" if is_job else "out.parquet" if "convert" in command else "out.json")
    words = command.format(traces if is_job else cut, out=out, whole=whole, plan=plan, cut=cut).split()
    _, printed, err = run(*("select count(*) from kernels" if word == "SQL" else word for word in words))
    assert printed == ""
    said = [line for line in err.splitlines() if "cut short" in line]
    assert str(cut) in said[0] and "the list of events is not closed" in said[0], err


def test_strict_fails_on_what_was_lost(run: Run, tmp_path: Path) -> None:
    whole = small().write(tmp_path / "rank0.json")
    assert run("report", whole, "--strict", "-q")[0] == 0
    (tmp_path / "rank1.json").write_text('{"traceEvents": [')
    assert run("report", tmp_path, "--workers", 1, "-q")[0] == 0, "a broken rank is told, and no failure"
    code, _, err = run("report", tmp_path, "--workers", 1, "--strict", "-q")
    assert code == 1 and "rank1.json" in err and "1 unusable" in err
    lossy = tmp_path / "lossy.json"
    document = json.loads(whole.read_text())
    document["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": -5})
    lossy.write_text(json.dumps(document))
    code, _, err = run("report", lossy, "--strict", "-q")
    assert code == 1 and "1 lost events" in err


def test_json_to_stdout_is_nothing_but_json(run: Run, train: Path) -> None:
    code, out, _ = run("report", train, "--json")
    assert code == 0
    assert json.loads(out)["schema"] == "weftrace.report/1"


def test_a_step_can_be_chosen_and_a_wrong_one_is_told_which_exist(run: Run, train: Path) -> None:
    assert run("report", train, "--step", 1)[0] == 0
    code, out, err = run("report", train, "--step", 9)
    assert (code, out) == (3, "")
    assert "no step 9: steps in this file: 1" in err


def test_what_a_step_launched_can_be_chosen_by_name(run: Run, tmp_path: Path) -> None:
    file = small().host("ProfilerStep#2", 1000, 1000).kernel(GEMM, 2000, 10, launch=1100)
    train = file.kernel(DISPATCH, 1990, 30, launch=50, stream=27).write(tmp_path / "train.json")  # of 1, runs into 2

    def step(*by: str) -> dict[str, object]:
        code, out, _ = run("report", train, "--step", 2, *by, "--json")
        rank = json.loads(out)["ranks"][0]
        return {key: rank[key] for key in ("step", "step_by", "communication_ns")} | {"code": code}

    window = {"step": 2, "step_by": "window", "communication_ns": 20_000, "code": 0}
    assert step() == step("--step-by", "window") == window
    assert step("--step-by", "launch") == window | {"step_by": "launch", "communication_ns": 0}
    assert run("lanes", train, "--step", 2, "--step-by", "launch")[0] == 0
    by_launch = tmp_path / "by-launch.json"
    assert run("annotate", train, "--step", 2, "--step-by", "launch", "-o", by_launch)[0] == 0
    for command in (("report",), ("lanes",), ("annotate", "-o", tmp_path / "no.json")):
        code, _, err = run(command[0], train, "--step-by", "launch", *command[1:])
        assert code == 2 and "needs --step" in " ".join(err.replace("│", " ").split())


def test_users_rules_extend_ours(run: Run, train: Path, tmp_path: Path) -> None:
    rules = tmp_path / "my.toml"
    rules.write_text("[[rule]]\nname='mine'\nkind='communication'\nfamily='mine'\nmatch='xmma_gemm'\nsource='test'\n")
    _, out, _ = run("report", train, "--kernels", rules, "--json")
    assert json.loads(out)["ranks"][0]["compute_ns"] == 0


def test_a_folder_is_a_job_and_a_broken_rank_does_not_stop_it(run: Run, tmp_path: Path) -> None:
    for rank in range(3):
        small(rank).write(tmp_path / f"rank{rank}.json")
    (tmp_path / "rank3.json").write_text('{"traceEvents": [')
    code, out, _ = run("report", tmp_path, "--workers", 1, "--json")
    document = json.loads(out)
    assert code == 0
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1, 2]
    assert [failure["path"] for failure in document["failures"]] == ["rank3.json"]
    _, out, _ = run("report", tmp_path, "--ranks", "0,2-3", "--workers", 1, "--json")
    assert [rank["rank"] for rank in json.loads(out)["ranks"]] == [0, 2]


def test_a_job_of_broken_files_only_fails(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text("{}")
    (tmp_path / "rank1.json").write_text("")
    code, _, err = run("report", tmp_path, "--workers", 1)
    assert code == 3
    assert "rank0.json" in err and "rank1.json" in err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("absent.json", None, "no such file"),
        ("empty.json", b"", "is empty"),
        ("page.json", b"<!DOCTYPE html><html>", "HTML"),
        ("other.json", b'{"a": 1}', "no traceEvents"),
        ("cut.json.gz", gzip.compress(b'{"traceEvents": [' + b" " * 9000)[:20], "cut.json.gz"),
    ],
)
def test_mistakes_get_one_line_that_names_the_file(
    run: Run, tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, out, err = run("report", path)
    assert (code, out) == (3, "")
    assert err.startswith("weftrace: ") and err.count("\n") == 1
    assert name in err and says in err


@pytest.mark.parametrize(
    ("name", "arguments", "code", "says"),
    [
        ("a.json", ["nothere"], 2, "No command and no file is called 'nothere'."),
        ("-x.json", ["-x.json"], 2, "for the file of that name: weftrace ./-x.json"),
        ("a.json", ["experts", "demo", "--windows", "2"], 2, "must be at least 8"),
        ("a.json", ["experts", "demo", "--windows", "20000"], 2, "must be at most 10000"),
        ("a.json", ["flops", "a.json"], 3, "a.json is a trace, not a model's config.json: weftrace report a.json"),
    ],
)
def test_what_was_meant_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: list[str], code: int, says: str
) -> None:
    small().write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    found, _, err = run(*arguments)
    assert found == code
    assert says in " ".join(err.replace("│", " ").split())


def test_of_many_broken_ranks_ten_are_told_one_by_one(run: Run, tmp_path: Path) -> None:
    for rank in range(14):
        (tmp_path / f"rank{rank}.json").write_text("[]")
    code, _, err = run("report", tmp_path, "--workers", 1)
    assert code == 3
    assert [line.split(":")[0] for line in err.splitlines()] == ["weftrace"] * 11
    assert err.endswith("weftrace: … and 4 more files that cannot be used\n")


# --- clusters -----------------------------------------------------------------------------------------------------


class Chatty(ThreadPoolExecutor):
    """A cluster of one thread, which prints as Ray does."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        print("(raylet) A worker died")
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of clusters that were connected to; each is a `Chatty`."""
    asked: list[str] = []

    def connect(address: str, **_: object) -> Executor:
        asked.append(address)
        warnings.warn("the scheduler has no workers yet", ClusterWarning, stacklevel=2)
        return Chatty(1)

    monkeypatch.setattr("weftrace.workers.connect", connect)
    return asked


def test_the_ranks_of_a_job_are_read_on_a_cluster(run: Run, tmp_path: Path, asked_for: list[str]) -> None:
    for rank in range(3):
        small(rank).write(tmp_path / f"rank{rank}.json")
    _, here, _ = run("report", tmp_path, "--json", "--workers", 1)
    code, there, err = run("report", tmp_path, "--json", "--cluster", "dask://head")
    assert (code, there, asked_for) == (0, here, ["dask://head"])
    assert err == "weftrace: the scheduler has no workers yet\n" + 3 * "(raylet) A worker died\n"


def test_ranks_are_converted_on_a_cluster(
    run: Run, tmp_path: Path, asked_for: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(2):
        small(rank).write(tmp_path / f"rank{rank}.json")
    monkeypatch.chdir(tmp_path)
    code, _, err = run("convert", tmp_path, "-o", "out", "--cluster", "ray")
    assert (code, asked_for, err.splitlines()[-1]) == (0, ["ray"], "wrote 2 files to out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rank0.parquet", "rank1.parquet"]


def test_a_folder_that_workers_do_not_share_is_told(
    run: Run, tmp_path: Path, asked_for: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(2):
        small(rank).write(tmp_path / f"rank{rank}.json")
    monkeypatch.setattr("weftrace.report.cli.convert.save", lambda trace, path: None)  # as good as another disk
    code, _, err = run("convert", tmp_path, "-o", tmp_path / "out", "--cluster", "ray")
    assert code == 2 and "was written to where workers of ray are; give a folder that all machines share" in err


def test_one_file_needs_no_cluster(run: Run, train: Path, asked_for: list[str]) -> None:
    code, _, err = run("report", train, "--cluster", "ray://head:10001")
    assert (code, asked_for) == (0, [])
    assert err == "weftrace: one file is read here: ray://head:10001 shares out the files of a job\n"


@pytest.mark.parametrize("command", [["report"], ["convert", "-o", "out"]], ids=lambda words: words[0])
def test_a_wrong_address_is_refused_before_any_trace_is_read(run: Run, train: Path, command: list[str]) -> None:
    train.write_text("no trace")
    code, out, err = run(*command, train, "--cluster", "tcp://head:8786")
    assert (code, out) == (2, "")
    assert "--cluster" in err and "'tcp://head:8786' names no cluster" in err


def test_a_folder_without_traces(run: Run, tmp_path: Path) -> None:
    code, _, err = run("lanes", tmp_path)
    assert code == 3
    assert "folder without traces" in err


@pytest.mark.parametrize(("option", "value"), [("--ranks", "3-1"), ("--ranks", "a"), ("--max-bytes", "much")])
def test_options_that_cannot_be_read(run: Run, train: Path, option: str, value: str) -> None:
    code, _, err = run("report", train, option, value)
    assert code == 2
    assert option in err and value in err


def test_max_bytes_bounds_what_a_file_expands_to(run: Run, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 5_000_000))
    code, _, err = run("report", bomb, "--max-bytes", "1MB")
    assert code == 3
    assert "--max-bytes" in err


def test_an_output_that_cannot_be_written_leaves_nothing(run: Run, train: Path, tmp_path: Path) -> None:
    code, _, err = run("report", train, "-o", tmp_path / "absent" / "report.html", "-q")
    assert code == 2
    assert "absent" in err
    assert not (tmp_path / "absent").exists()


def test_lanes_draws_both_bands(run: Run, train: Path) -> None:
    code, out, _ = run("lanes", train, "--width", 80)
    assert code == 0
    assert "112 SMs" in out and "20 SMs" in out and "mlp(F)" in out and "dispatch(B)" in out


def test_lanes_are_written_as_a_picture(run: Run, train: Path, tmp_path: Path) -> None:
    picture = tmp_path / "lanes.svg"
    code, out, _ = run("lanes", train, "--from", 0, "--to", 1, "-o", picture)
    assert code == 0 and "112 SMs" in out
    text = picture.read_text()
    assert text.startswith("<svg") and "112 SMs<" in text and ">mlp(F)<" in text
    for wrong in (tmp_path / "lanes.png", train):
        assert run("lanes", train, "-o", wrong)[0] == 2


def test_lanes_are_written_as_a_page_that_zooms(run: Run, train: Path, tmp_path: Path, open_html: Open) -> None:
    code, _, _ = run("lanes", train, "--from", 0, "--to", 0.1, "-q", "-o", tmp_path / "lanes.html")
    page = open_html((tmp_path / "lanes.html").read_text())
    assert code == 0 and page.evaluate("[weftrace.lanes.view.start, weftrace.lanes.view.end]") == [0, 1e5]
    assert page.locator(".lane-label b").all_inner_texts() == ["compute", "communication"]
    page.locator("#lanes-fit").click()
    assert page.evaluate("weftrace.lanes.view.end === weftrace.block.picture.span_ns")


def test_annotate_keeps_the_original_and_adds_lanes(run: Run, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "annotated.json"
    assert run("annotate", train, "-o", out)[0] == 0
    original, annotated = json.loads(train.read_text()), json.loads(out.read_text())
    events = annotated["traceEvents"]
    assert events[: len(original["traceEvents"])] == original["traceEvents"]
    added = events[len(original["traceEvents"]) :]
    assert {event["pid"] for event in added} == {"weftrace"}
    assert {"mlp(F)", "dispatch(B)", "exposed communication"} <= {e["name"] for e in added if e["ph"] == "X"}
    assert {"SMs held", "queue length"} <= {e["name"] for e in added if e["ph"] == "C"}
    code, _, err = run("annotate", out, "-o", tmp_path / "twice.json")
    assert code == 3 and "already has weftrace's lanes" in err
    assert not (tmp_path / "twice.json").exists()


def test_annotate_refuses_what_it_would_ignore(run: Run, train: Path, tmp_path: Path) -> None:
    to_file = ("annotate", train, "-o", tmp_path / "annotated.json")
    for arguments, text in (
        (("--hardware", "h100"), "--hardware: it needs --flops"),
        (
            ("--flops", "flops.json", "--step", 3, "--workers", 2),
            "--step, --workers: it does not work together with --flops",
        ),
    ):
        code, _, err = run(*to_file, *arguments)
        assert (code, text in " ".join(err.replace("│", " ").split())) == (2, True), err
    assert not (tmp_path / "annotated.json").exists()


def test_convert_there_and_back(run: Run, train: Path, tmp_path: Path) -> None:
    parquet, back = tmp_path / "train.parquet", tmp_path / "back.json.gz"
    assert run("convert", train, "-o", parquet)[0] == 0
    assert run("convert", parquet, "-o", back)[0] == 0
    documents = [json.loads(run("report", path, "--json")[1])["ranks"][0] for path in (train, parquet, back)]
    for document in documents:
        document.pop("path")
        document["quality"].pop("skipped")
    assert documents[0] == documents[1] == documents[2]
    assert run("convert", train, "-o", tmp_path / "train.txt")[0] == 2


def test_convert_a_job_into_a_folder(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "traces"
    source.mkdir()
    for rank in range(2):
        small(rank).write(source / f"rank{rank}.json")
    assert run("convert", source, "-o", tmp_path / "parquet", "--workers", 1)[0] == 0
    assert sorted(path.name for path in (tmp_path / "parquet").iterdir()) == ["rank0.parquet", "rank1.parquet"]


def test_demo_needs_nothing_and_states_its_error(run: Run, tmp_path: Path) -> None:
    page, trace = tmp_path / "demo.html", tmp_path / "demo.trace.json.gz"
    code, out, _ = run("demo", "-o", page, "-o", trace)
    assert code == 0
    assert "DeepSeek's published profile measures 129.0 ms" in " ".join(out.split())
    assert page.exists()
    code, out, _ = run("report", trace, "--json")
    assert json.loads(out)["ranks"][0]["simulated"] is True


@pytest.mark.parametrize("command", ["report", "lanes", "annotate", "convert", "demo"])
def test_help_shows_examples(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"weftrace {command}" in out and "Examples" in out


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['weftrace', '--help']\n"
        "try:\n    from weftrace.cli.main import main; main()\nexcept SystemExit: pass\n"
        "heavy = {'polars', 'numpy', 'plotly', 'jinja2', 'torch', 'fsspec'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


def test_a_closed_pipe_is_no_error(train: Path) -> None:
    weftrace = [sys.executable, "-m", "weftrace.cli.main", "report", str(train)]
    with subprocess.Popen(weftrace, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_of_the_commands_only_the_one_asked_for_is_built() -> None:
    """And it is the same; who asks for one that is not there is still told which there are."""
    whole: Any = typer.main.get_command(program())
    for name, command in whole.commands.items():
        alone: Any = typer.main.get_command(program(name))
        assert list(alone.commands) == [name]
        (found,) = alone.commands.values()
        assert [option.opts for option in found.params] == [option.opts for option in command.params]
        assert sorted(getattr(found, "commands", ())) == sorted(getattr(command, "commands", ()))
        assert [option.opts for option in alone.params] == [option.opts for option in whole.params]
    assert list(typer.main.get_command(program("repot")).commands) == list(whole.commands)  # type: ignore[attr-defined]


def test_a_command_imports_its_own_wing_alone(tmp_path: Path) -> None:
    """Also where the shell completes its options; and each wing says in wings.py which commands it has."""
    code = (
        "import sys\nfrom weftrace.cli.main import program, _asked\nprogram(_asked())\n"
        "print(*sorted({name.split('.')[1] for name in sys.modules if '.cli.' in name and 'weftrace' in name}))"
    )
    zsh = {"_WEFTRACE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "weftrace pipeline show --"}
    bash = {"_WEFTRACE_COMPLETE": "complete_bash", "COMP_WORDS": "weftrace\npipeline\nshow\n--", "COMP_CWORD": "3"}
    for arguments, complete in ((["pipeline"], {}), ([], zsh), ([], bash)):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], env=os.environ | complete, capture_output=True, text=True,
            check=True, cwd=tmp_path,
        )  # fmt: skip
        assert done.stdout == "cli pipeline\n"
    for wing in SHOWN:
        found: Any = typer.main.get_command(program(wing.commands[0] if wing.commands else wing.name))
        assert len(found.commands) == 1
    listed = [name for wing in SHOWN for name in (wing.commands or (wing.name,))]
    whole: Any = typer.main.get_command(program())
    assert sorted(listed) == sorted(whole.commands)


def test_parquet_has_the_limit_of_json_and_a_missing_digest_is_said_once(run: Run, train: Path, tmp_path: Path) -> None:
    """One line on stderr for a whole job, and a note for each of its ranks."""
    new, old = tmp_path / "new.parquet", tmp_path / "old"
    assert run("convert", train, "-o", new)[0] == 0
    assert run("report", new, "--max-bytes", "10")[0] == 3
    text = pl.read_parquet_metadata(new)["weftrace.trace"]
    old.mkdir()
    for rank in range(2):
        pl.read_parquet(new).write_parquet(old / f"rank{rank}.parquet", metadata={"weftrace.trace": text})
    code, out, err = run("report", old, "--json")
    assert code == 0 and out.count("the file cannot be checked") == 2
    assert err.count("cannot be checked") == 1 and "rank0.parquet and 1 other file" in err
