"""A wing is one folder and one line: without them the house still stands. Tried on a copy, for each wing but one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fuzz import few
from weftrace.wings import SHOWN, WINGS

REMOVABLE = [wing.name for wing in WINGS if wing.name != "report"]


@pytest.fixture(params=few(REMOVABLE, 2), scope="module")
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy of the package and of the lint contracts without a wing; (its folder, the wing's name). Bytecode goes with
    it: to compile all of the package again takes longer than the tests."""
    wing: str = request.param
    copy = tmp_path_factory.mktemp(f"without_{wing}")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "*.nbc", "*.nbi"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.rmtree(copy / "src/weftrace" / wing)
    wings = copy / "src/weftrace/wings.py"
    lines = wings.read_text().splitlines(keepends=True)
    named = [line for line in lines if re.match(rf'\s*Wing\("{wing}"', line)]
    assert len(named) == 1, f"{wing} is not named in exactly one line of wings.py"
    wings.write_text("".join(line for line in lines if line not in named))
    return copy, wing


def python(folder: Path, *arguments: str) -> str:
    """Run Python on the copy, and nothing but the copy."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={"PYTHONPATH": str(folder / "src"), "COLUMNS": "100"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_house_stands_without_a_wing_and_the_other_commands_work(without: tuple[Path, str]) -> None:
    folder, wing = without
    # One process for all: to start one takes longer than each of them.
    shown, _, found = python(
        folder,
        "-c",
        f"""
import importlib, pkgutil, sys
for library in ("torch", "transformers"):  # they take most of the time, and nothing but the runtimes needs them
    sys.modules[library] = None
from weftrace.cli.main import main
for arguments in (["--help"], ["demo", "--quiet", "-o", "demo.html", "-o", "demo.json"]):
    sys.argv = ["weftrace", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
import weftrace
print("a document of", weftrace.load("demo.json").document["schema"])
for module in pkgutil.walk_packages(weftrace.__path__, "weftrace.", onerror=print):
    if ".runtime" not in module.name:
        importlib.import_module(module.name)
for name in weftrace.__all__:
    try:
        getattr(weftrace, name)
    except weftrace.WeftraceError as error:
        assert "torch" in str(error) and "pip install " in str(error), error
assert not [name for name in sys.modules if name.startswith("weftrace.{wing}")]
print(weftrace.__file__)
""",
    ).partition("a document of ")
    assert found.splitlines()[-1].startswith(str(folder))
    commands = re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE)
    others = {name for shown in SHOWN if shown.name != wing for name in shown.commands or (shown.name,)}
    assert set(commands) == {name for name in others if "-" not in name}
    assert found.splitlines()[0] == "weftrace.report/1"


def test_the_contracts_hold(without: tuple[Path, str]) -> None:
    folder, _ = without
    summary = python(
        folder, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"
    )
    assert "0 broken" in summary, summary
