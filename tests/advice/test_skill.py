"""The skill file for coding agents: its commands work, and the fields that it names are there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.test_cli import Run, run
from tests.test_docs import blocks, commands, in_shell, samples, shared
from weftrace.advice.cli.skill import SKILL
from weftrace.analysis.findings import AdviceReport, Finding, Gain, NotFound, Remedy, Where

__all__ = ["run", "samples", "shared"]  # fixtures

TEXT = SKILL.read_text("utf-8")


def test_it_is_a_skill_as_agents_read_it(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("skill", "-o", tmp_path / "SKILL.md")
    assert (code, out) == (0, "") and (tmp_path / "SKILL.md").read_text() == TEXT
    assert run("skill")[1] == TEXT
    front = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", TEXT)
    assert front and front[1] == "weftrace" and len(front[2]) < 1024
    assert len(TEXT) < 12_000  # under 4,000 tokens


def test_no_other_file_is_written(run: Run, tmp_path: Path) -> None:
    for target in (tmp_path / "skill.json", SKILL, tmp_path / "nowhere" / "SKILL.md"):
        assert run("skill", "-o", target)[0] == 2
    assert SKILL.read_text("utf-8") == TEXT


def test_its_commands_work(run: Run, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for each in samples.iterdir():
        (folder / each.name).symlink_to(each)
    monkeypatch.chdir(folder)
    found = [command for block in blocks(TEXT) if in_shell(block) for _, command in commands(block)]
    assert len(found) >= 9
    for command in found:
        program, *words = shlex.split(command)
        assert program == "weftrace"
        words, target = (words[:-2], words[-1]) if ">" in words else (words, "")
        code, out, err = run(*words)
        assert code == 0, f"{command}\n{err}"
        if target:
            Path(target).write_text(out)
    for name in ("advice", "diff", "whatif", "sensitivity", "path", "stragglers"):
        assert json.loads(Path(f"{name}.json").read_text())["headline"]
    whatif = json.loads(Path("whatif.json").read_text())
    assert {"replayed_ns", "after_ns", "low_ns", "high_ns"} <= whatif.keys() and "is_trusted" in whatif["trust"]


def test_the_fields_that_it_names_are_there() -> None:
    part = TEXT[TEXT.index("## How to read advice.json") : TEXT.index("## What not to conclude")]
    named = {name for path in re.findall(r"`([a-z_.\[\]]+)`", part) for name in re.split(r"[.\[\]]+", path) if name}
    known = {name for kind in (AdviceReport, Finding, Gain, NotFound, Remedy, Where) for name in kind.__annotations__}
    words = {"finding", "remark", "replay", "bound", "measured", "null", "low", "false", "weftrace", "advice"}
    assert named - known - words == set()
