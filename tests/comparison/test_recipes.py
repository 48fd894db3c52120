"""The recipes of docs/ci.md do what they say: each of their commands is run, with stand-ins for what they call.

`python train.py` gives the traces of after/, `gh` and `curl` those of before/, `mail` notes what it was sent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.test_action import Runner
from tests.comparison.written import write_pair
from tests.conftest import ROOT
from tests.test_docs import blocks

yaml = pytest.importorskip("yaml")

FOUND = list(blocks((ROOT / "docs" / "ci.md").read_text()))
GITHUB, COMMENT, GITLAB = (yaml.safe_load(block.text) for block in FOUND if block.language == "yaml")
STANDS_FOR = {
    "python": 'for folder; do :; done; cp -r "{samples}/after" "$folder"',
    "python3": """case "$*" in
"-m venv "*) mkdir -p "$3/bin"; for name in weftrace pip; do ln -s "$(command -v $name)" "$3/bin/$name"; done ;;
"-m zipfile "*) mkdir -p "$5"; cp -r "{samples}/before" "$5/traces" ;;
esac""",
    "pip": 'echo "pip $*" >> log.txt',
    "gh": """case "$*" in
"run list "*) echo 42 ;;
"run download 42 "*) cp -r "{samples}/before" baseline ;;
*) echo "gh $*" >> log.txt ;;
esac""",
    "curl": 'echo "$*" | grep -q -- "--output baseline.zip" && touch baseline.zip',
    "mail": 'echo "mail $*" >> log.txt; cat >> log.txt',
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    write_pair(folder)
    for name in ("before", "after"):
        (
            folder / name / "rank1.json.gz"
        ).unlink()  # no processes for the ranks of a job: it is the recipes that are tried
    return folder


@pytest.fixture
def programs(tmp_path: Path, samples: Path, warm: Path) -> str:
    """PATH with the stand-ins first."""
    folder = tmp_path / "stand-ins"
    folder.mkdir()
    for name, script in STANDS_FOR.items():
        (folder / name).write_text(f"#!/bin/sh\n{script.format(samples=samples)}\n")
        (folder / name).chmod(0o755)
    return os.pathsep.join((str(folder), str(warm), os.environ["PATH"]))


def run(script: str, folder: Path, programs: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more, "PATH": programs, "COLUMNS": "100"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


def test_github_the_workflow_records_fetches_and_compares(tmp_path: Path, programs: str, warm: Path) -> None:
    steps: list[dict[str, Any]] = GITHUB["jobs"]["compare"]["steps"]
    for step in steps:
        if "run" in step:
            done = run(step["run"], tmp_path, programs)
            assert done.returncode == 0, done.stderr
    (compare,) = (step for step in steps if step.get("uses", "").endswith("/weftrace@main"))
    (tmp_path / "action").mkdir()
    runner = Runner(tmp_path / "action", warm)
    for name in ("baseline", "traces"):
        shutil.copytree(tmp_path / name, runner.folder / name)
    code, printed = runner.run(**compare["with"])
    assert code == 0, printed
    assert runner.summary.read_text().count("✅ met") == 3
    (comment,) = COMMENT
    script = re.sub(r"\$\{\{ github.event.number \}\}", "7", comment["run"])
    assert run(script, tmp_path, programs, REPORT=runner.outputs["markdown"]).returncode == 0
    assert (tmp_path / "log.txt").read_text().startswith("gh pr comment 7 --body-file ")


def test_github_the_inputs_and_outputs_of_the_table_are_those_of_the_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    page = (ROOT / "docs" / "ci.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert re.findall(r"`([\w-]+)`", " ".join(rows)) == list(action["inputs"])
    assert all(f"`{name}`" in page.split("Its outputs are")[1].split(":")[0] for name in action["outputs"])


def test_gitlab_the_jobs_record_fetch_and_compare(tmp_path: Path, programs: str) -> None:
    variables = {"WEFTRACE": "../weftrace", "CI_JOB_TOKEN": "x", "CI_API_V4_URL": "https://git.example.org/api/v4",
                 "CI_PROJECT_ID": "7"}  # fmt: skip
    for job in ("record", "compare"):
        done = run("\n".join(GITLAB[job]["script"]), tmp_path, programs, **variables)
        assert done.returncode == 0, done.stderr
    assert all((tmp_path / name).is_file() for name in GITLAB["compare"]["artifacts"]["paths"])
    assert (tmp_path / "log.txt").read_text() == "pip install --quiet ../weftrace\n"


@pytest.mark.parametrize(("accepted", "is_slower"), [("before", False), ("faster", True)])
def test_cron_mails_where_the_night_is_slower(
    tmp_path: Path, programs: str, samples: Path, accepted: str, is_slower: bool
) -> None:
    (script,) = (block.text for block in FOUND if block.language == "shell")
    (tmp_path / "compare.sh").write_text(script.replace("--fail-above span=2%", _gate(accepted)))
    (tmp_path / "accepted").symlink_to(samples / ("before" if accepted == "faster" else accepted))
    done = run("sh ./compare.sh", tmp_path, programs)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log.txt").exists() == is_slower
    if is_slower:
        stated = (tmp_path / "log.txt").read_text()
        assert stated.startswith("mail -s training is slower: ") and "❌ FAILED" in stated


def _gate(accepted: str) -> str:
    """After takes less time than before; its GEMMs take more."""
    return "--fail-above family:gemm=2%" if accepted == "faster" else "--fail-above span=2%"
