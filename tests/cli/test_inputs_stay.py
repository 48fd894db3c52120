"""No command writes over a file that it reads, whatever the output is called: a link, a path from here, a hard link."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.tracefile import DISPATCH, GEMM, TraceFile
from weftrace.cli.main import main
from weftrace.errors import OutputError

Run = Callable[..., tuple[int, str]]
RULES = "[[rule]]\nname='mine'\nkind='compute'\nfamily='mine'\nmatch='x'\nsource='test'\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `weftrace ARGS`; its exit code, and what it said on stderr, in one line."""

    def command(*args: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["weftrace", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        return int(ended.value.code or 0), " ".join(said.replace("│", " ").split())

    return command


def trace(folder: Path, name: str = "trace.json", rank: int = 0) -> Path:
    file = TraceFile(rank=rank, world_size=2)
    return file.kernel(GEMM, 100, 100, blocks=112).kernel(DISPATCH, 150, 100, stream=27).write(folder / name)


def loads(folder: Path, name: str = "loads.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"loads": [[[5, 1, 2, 8, 3, 1, 1, 4]] * 2] * 6}))
    return path


def config(folder: Path, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1}))
    return path


def text(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content)
    return folder / name


OUT = "where -o and its file stand, if not at the end"
BALANCE = ["--slots", 8, "--gpus", 2]
#: What the command reads that its output would replace, and the command but for `-o OUT`.
COMMANDS: dict[str, Callable[[Path], tuple[Path, list[Any]]]] = {
    "report": lambda f: (trace(f), ["report", f / "trace.json"]),
    "report a folder": lambda f: (trace(f), ["report", f, "--workers", 1]),
    "report a glob": lambda f: (trace(f), ["report", f / "*.json"]),
    "report --ranks": lambda f: (trace(f, "rank1.json"), ["report", trace(f, "rank0.json"), f / "rank1.json",
                                                          "--ranks", 0]),
    "report --kernels": lambda f: (text(f, "rules.json", RULES), ["report", trace(f), "--kernels", f / "rules.json"]),
    "report --flops": lambda f: (text(f, "flops.json", "{}"), ["report", trace(f), "--flops", f / "flops.json"]),
    "annotate": lambda f: (trace(f), ["annotate", f / "trace.json"]),
    "annotate --kernels": lambda f: (text(f, "rules.json", RULES), ["annotate", trace(f), "--kernels",
                                                                    f / "rules.json"]),
    "annotate --flops": lambda f: (text(f, "flops.json", "{}"), ["annotate", trace(f), "--flops", f / "flops.json"]),
    "convert": lambda f: (trace(f), ["convert", f / "trace.json"]),
    "experts balance": lambda f: (loads(f), ["experts", "balance", f / "loads.json", *BALANCE]),
    "experts balance --from": lambda f: (text(f, "old.json", "{}"), ["experts", "balance", loads(f), *BALANCE, "--from",
                                                                    f / "old.json"]),
    "experts replay": lambda f: (loads(f), ["experts", "replay", f / "loads.json", *BALANCE]),
    "flops": lambda f: (config(f), ["flops", f / "config.json"]),
    "flops of a folder": lambda f: (config(f), ["flops", f]),
    "flops --config": lambda f: (text(f, "ds.json", "{}"), ["flops", OUT, "--config", f / "ds.json",
                                                               text(f, "a.py", "")]),
    "flops show": lambda f: (text(f, "flops.json", "{}"), ["flops", "show", f / "flops.json"]),
    "flops diff A": lambda f: (text(f, "a.json", "{}"), ["flops", "diff", f / "a.json", text(f, "b.json", "{}")]),
    "flops diff B": lambda f: (text(f, "b.json", "{}"), ["flops", "diff", text(f, "a.json", "{}"), f / "b.json"]),
}  # fmt: skip
SPELLINGS = ("same", "symbolic link", "hard link", "relative", "through a linked folder", "with dots")


def spelled(path: Path, spelling: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another name of a file."""
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.mkdir()
    other = elsewhere / f"other{''.join(path.suffixes)}"
    if spelling == "symbolic link":
        other.symlink_to(path)
        return str(other)
    if spelling == "hard link":
        os.link(path, other)
        return str(other)
    if spelling == "relative":
        monkeypatch.chdir(path.parent)
        return path.name
    if spelling == "through a linked folder":
        (elsewhere / "folder").symlink_to(path.parent)
        return str(elsewhere / "folder" / path.name)
    return str(path) if spelling == "same" else f"{elsewhere}/../{path.parent.name}/{path.name}"


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_would_replace_an_input_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, spelling: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    read, options = COMMANDS[command](folder)
    before = read.read_bytes()
    out = ["-o", spelled(read, spelling, monkeypatch)]
    at = options.index(OUT) if OUT in options else len(options)
    code, said = run(*options[:at], *out, *options[at + 1 :])
    assert (code, read.read_bytes()) == (2, before), said
    assert "is an input" in said


@pytest.mark.parametrize("command", ["annotate", "convert"])
@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_no_rank_is_written_over_another_ones_file(run: Run, tmp_path: Path, command: str, link: str) -> None:
    """In the folder of outputs, the name of rank 0 leads to the file of rank 1."""
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    files = [trace(folder, f"rank{rank}.json", rank) for rank in range(2)]
    name = out / ("rank0.parquet" if command == "convert" else "rank0.json")
    (os.symlink if link == "symbolic" else os.link)(files[1], name)
    before = [file.read_bytes() for file in files]
    code, said = run(command, folder, "-o", out, "--workers", 1)
    assert ([file.read_bytes() for file in files], code) == (before, 2), said
    assert "is an input" in said
    assert sorted(os.listdir(out)) == [name.name]


@pytest.mark.parametrize("ending", [".json", ".html"])
def test_save_refuses_the_file_that_a_trace_came_from(tmp_path: Path, ending: str) -> None:
    path = trace(tmp_path)
    before = path.read_bytes()
    link = tmp_path / f"link{ending}"
    link.symlink_to(path)
    for value in (wt.open(path), wt.open(path, ranks=[0]), wt.analyze(wt.open(path))):
        for target in (link, path) if ending == ".json" and isinstance(value, wt.Trace) else (link,):
            with pytest.raises(OutputError):
                wt.save(value, target)
    assert path.read_bytes() == before
    assert link.is_symlink()


def test_save_to_parquet_and_back_refuses_its_own_file(tmp_path: Path) -> None:
    value = wt.open(trace(tmp_path))
    wt.save(value, tmp_path / "t.parquet")
    again = wt.open(tmp_path / "t.parquet")
    with pytest.raises(OutputError, match="is an input"):
        wt.save(again, tmp_path / "t.parquet")
    assert wt.open(tmp_path / "t.parquet") == value
