"""README.md and docs/start.md pasted from top to bottom into an empty folder, as a newcomer does.

weftrace is the wheel in a venv that holds its core dependencies and nothing else. An extra is there from the command on
that installs it, `pip install '.[hf]'`; its packages are those of the venv that runs the tests. Files that a document
shows are saved where it shows them. What is quoted below a command is what it printed, in a terminal of 80 columns.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.test_distribution import ENVIRONMENT, built
from tests.test_docs import SETTING_UP, blocks, commands, in_shell, not_printed, shared

__all__ = ["built", "shared"]  # the fixtures

ROOT = Path(__file__).resolve().parents[1]


def dependencies(requirement: str, found: dict[str, Distribution]) -> None:
    """The installed distribution that meets a requirement, and all that it depends on, into `found`."""
    wanted = Requirement(requirement)
    try:
        here = distribution(wanted.name)
    except PackageNotFoundError:  # an optional accelerator
        return
    key = f"{here.name}{sorted(wanted.extras)}"
    if key in found:
        return
    found[key] = here
    for each in here.requires or ():
        needs = Requirement(each)
        if needs.marker is None or any(needs.marker.evaluate({"extra": extra}) for extra in (*wanted.extras, "")):
            dependencies(each, found)


class Venv:
    """A virtual environment with the wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        with zipfile.ZipFile(wheel) as files:
            files.extractall(self.packages)
        self.lend_compiled()
        (self.bin / "weftrace").write_text(
            f"#!{self.bin / 'python'}\nimport sys\nfrom weftrace.cli.main import main\nsys.exit(main())\n"
        )
        (self.bin / "weftrace").chmod(0o755)
        self.add("weftrace")

    def lend_compiled(self) -> None:
        """What Numba and Python compiled of the same files in this checkout: both believe a file that has the time of
        its source. To compile it all again takes a minute."""
        source = ROOT / "src"
        for path in (self.packages / "weftrace").rglob("*.py"):
            known = source / path.relative_to(self.packages)
            os.utime(path, ns=(known.stat().st_atime_ns, known.stat().st_mtime_ns))
            for kept in (known.parent / "__pycache__").glob(f"{path.stem}.*[ci]"):  # .nbc, .nbi and .pyc
                (path.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copy2(kept, path.parent / "__pycache__")

    def add(self, requirement: str) -> None:
        """Link what a requirement needs from the venv that runs the tests."""
        found: dict[str, Distribution] = {}
        dependencies(requirement, found)
        for each in found.values():
            for top in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
                link = self.packages / top
                if each.name != "weftrace" and not link.exists():
                    link.symlink_to(Path(str(each.locate_file(top))))

    def run(self, command: list[str], folder: Path) -> str:
        environment = ENVIRONMENT | {"PATH": f"{self.bin}:/usr/bin:/bin", "COLUMNS": "80", "HOME": str(folder.parent)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each command would compile weftrace's source again
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout


def pasted(document: Path, venv: Venv, folder: Path) -> Iterator[tuple[str, float]]:
    """Each command of the document, run in the folder, and the seconds that it took."""
    output = ""
    for block in blocks(document.read_text()):
        if block.file:
            (folder / block.file).write_text(block.text + "\n")
        elif in_shell(block):
            output = ""
            for line, command in commands(block):
                words = shlex.split(command, comments=True)
                extra = re.fullmatch(r"\.(\[\w+\])", words[-1])
                if words[:2] == ["pip", "install"] and extra:
                    venv.add(f"weftrace{extra[1]}")
                elif words[0] not in (*SETTING_UP, "make"):
                    before = time.perf_counter()
                    output += venv.run(["bash", "-o", "pipefail", "-c", command], folder)
                    yield f"{document.name}:{line}: {command}", time.perf_counter() - before
        elif block.language == "python" and not block.skipped:
            before = time.perf_counter()
            venv.run([str(venv.bin / "python"), "-c", block.text], folder)
            yield f"{document.name}:{block.line}: python", time.perf_counter() - before
        elif block.language == "text":
            missing = not_printed(block.text, output)
            assert missing == [], f"{document.name}:{block.line}: not printed by the commands before"


@pytest.mark.parametrize("name", ["README.md", "docs/start.md"])
def test_a_newcomer_can_paste_it(name: str, built: dict[str, Path], tmp_path: Path) -> None:
    venv, folder = Venv(tmp_path / "venv", built["wheel"]), tmp_path / "empty"
    folder.mkdir()
    look = "from importlib.util import find_spec as f; print(f('torch'), f('pytest'), f('plotly'))"
    assert venv.run(["python", "-c", look], folder) == "None None None\n"
    times = list(pasted(ROOT / name, venv, folder))
    print("\n".join(f"{seconds:6.1f} s  {command}" for command, seconds in times))
    assert times
