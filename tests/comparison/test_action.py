"""The GitHub Action compares two artifacts: its steps are run with bash, as a runner runs them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.written import Step
from tests.comparison.written import run as written
from tests.conftest import ROOT
from weftrace.files.documents import read_document

yaml = pytest.importorskip("yaml")

# Stands for Python: "makes" a venv whose pip notes what it was asked for, and whose weftrace is the one on PATH.
PYTHON = """\
#!/bin/sh
[ "$1 $2" = "-m venv" ] && shift 2
mkdir -p "$1/bin"
printf '#!/bin/sh\\necho "$@" >> "{log}"\\n' > "$1/bin/python"
ln -s "{weftrace}" "$1/bin/weftrace"
chmod +x "$1/bin/python"
"""


class Runner:
    """Does the steps of a composite action. summary, output: what they wrote for the workflow's run."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.log = folder, folder / "pip.log"
        self.summary, self.output = folder / "summary.md", folder / "output.txt"
        (folder / "bin").mkdir()
        (folder / "temp dir").mkdir()
        (folder / "bin" / "python3").write_text(PYTHON.format(log=self.log, weftrace=programs / "weftrace"))
        (folder / "bin" / "python3").chmod(0o755)

    def run(self, **inputs: str) -> tuple[int, str]:
        """The exit code of the first step that fails, 0 where none does, and what was printed."""
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        given = {name: about.get("default", "") for name, about in action["inputs"].items()}
        given |= {name.replace("_", "-"): text for name, text in inputs.items()}
        assert all(given[name] for name, about in action["inputs"].items() if about.get("required"))
        printed = ""
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash" and "${{" not in step["run"]
            done = self._step(step, given)
            printed += done.stdout + done.stderr
            if done.returncode:
                return done.returncode, printed
        return 0, printed

    def _step(self, step: dict[str, Any], inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
        known = {f"inputs.{name}": text for name, text in inputs.items()} | {"github.action_path": str(ROOT)}
        given = {
            name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], text)
            for name, text in step.get("env", {}).items()
        }
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        environment = {
            **os.environ, **given, "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100",
            "RUNNER_TEMP": str(self.folder / "temp dir"), "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.output),
        }  # fmt: skip
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path, warm: Path) -> Runner:
    """In a folder with two artifacts: gemms take 130 µs for 100, and more of the all-reduce is hidden."""
    written(tmp_path, [Step()] * 4, name="before run")
    written(tmp_path, [Step(gemms_us=(130, 130, 130), hidden_us=60)] * 4, name="after")
    return Runner(tmp_path, warm)


def test_two_artifacts_are_compared_and_the_summary_is_written(runner: Runner) -> None:
    code, printed = runner.run(before="before run", after="after", fail_above="exposed=5%\nspan=10%\n")
    assert code == 0, printed
    assert runner.log.read_text().rstrip().endswith(f" {ROOT}")  # weftrace is that of the action's own checkout
    summary = runner.summary.read_text()
    assert summary.startswith("**A step takes 50.0 µs longer") and summary.count("✅ met") == 2
    assert runner.outputs["status"] == "0"
    assert Path(runner.outputs["markdown"]).read_text() == summary
    assert read_document(runner.outputs["json"])["schema"] == "weftrace.diff/1"


def test_a_gate_that_fails_fails_the_step_after_the_summary_is_written(runner: Runner) -> None:
    code, printed = runner.run(
        before="before run", after="after", fail_above="family:gemm=5%", fail_below="\nhidden=2%\nexposed=1%\n",
        args="--top 3",
    )  # fmt: skip
    assert code == 1
    assert "weftrace: --fail-above family:gemm: 300 µs → 390 µs" in printed
    assert runner.summary.read_text().count("❌ FAILED") == 2
    assert runner.outputs["status"] == "1"


def test_what_cannot_be_compared_is_told_and_no_input_is_a_command(runner: Runner) -> None:
    code, printed = runner.run(before="$(touch made)", after="; touch made", args="--workers 1")
    assert code == 3 and "$(touch made)" in printed
    assert not (runner.folder / "made").exists()
    assert runner.summary.read_text() == "weftrace diff made no comparison: its log says why (exit 3).\n"
