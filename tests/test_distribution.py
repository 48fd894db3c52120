"""What is handed to others, a wheel and an sdist: what they hold, what they say of themselves, and that they work.

Both are built by the build backend itself and installed into an empty venv, without a network. Their dependencies are
those of the venv that runs the tests: that the ranges in pyproject.toml can be met is shown by `make demo` in a fresh
clone, not here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.fuzz import few
from tests.test_docs import made_once, shared
from weftrace.files.schemas import schemas
from weftrace.version import __version__

__all__ = ["shared"]  # the fixture

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Not the package of this checkout, which PYTHONPATH may name.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: object, folder: Path = ROOT) -> str:
    """What a command printed; its errors are shown where it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def built(shared: Path) -> dict[str, Path]:
    """ "wheel" and "sdist", from this checkout; built once for all processes."""

    def build(part: Path) -> None:
        run(sys.executable, "-m", "hatchling", "build", "-d", part)

    folder = made_once(shared / "built", build)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


@pytest.fixture(scope="session")
def metadata(built: dict[str, Path]) -> Message:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        text = wheel.read(f"weftrace-{__version__}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


def files_of(package: Path) -> set[str]:
    """What a wheel or an sdist holds; of an sdist, without the folder that holds it all."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return set(wheel.namelist())
    with tarfile.open(package) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def tracked(folder: str) -> set[str]:
    """The files of a folder of the checkout that belong to it: not what tools left there."""
    left = {"__pycache__", ".pytest_cache", ".cache"}
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not left.intersection(path.parts)
    }


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    files = {name for name in files_of(built["wheel"]) if ".dist-info/" not in name}
    made = {f"weftrace/schemas/{each.schema.replace('/', '.')}.schema.json": each.text() for each in schemas()}
    assert files == {name.removeprefix("src/") for name in tracked("src/weftrace")} | set(made)
    with zipfile.ZipFile(built["wheel"]) as wheel:
        assert {name: wheel.read(name).decode() for name in made} == made
    assert {Path(name).suffix for name in files} >= {".py", ".toml", ".json", ".js", ".css", ".html", ".typed"}


def test_the_sdist_holds_what_building_and_testing_need(built: dict[str, Path]) -> None:
    files = files_of(built["sdist"])
    for folder in ("src", "tests", "benchmarks", "docs"):
        assert tracked(folder) - files == set()
    assert {"README.md", "CHANGELOG.md", "LICENSE", "Makefile", "constraints.txt", "pyproject.toml"} <= files
    assert not [
        name for name in files if any(made in name for made in ("node_modules", "__pycache__", ".venv", ".cache"))
    ]


def test_metadata_for_an_index_page(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("weftrace", __version__)
    assert metadata["Summary"] == PROJECT["description"] and len(metadata["Summary"]) < 200
    assert metadata["License-Expression"] == "MIT" and metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    classifiers = metadata.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers and "Programming Language :: Python :: 3.11" in classifiers
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    asked = {re.split(r"[^\w.-]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert asked == {re.split(r"[^\w.-]", line)[0] for line in PROJECT["dependencies"]}
    assert metadata.get_all("Project-URL") is None, "a link to a page: does it exist? then say so here"


def test_readme_on_an_index_page(metadata: Message) -> None:
    """It is Markdown, complete, and leads nowhere that an index does not have."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    page = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    for heading in re.findall(r"^## (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert f"<h2>{heading}</h2>" in page
    assert "한국어" in (ROOT / "README.md").read_text() and "한국어" not in page, "an index has one page, in English"
    addresses = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert [address for address in addresses if not re.match(r"https?://|#", address)] == []
    assert "](" not in re.sub(r"<code.*?</code>", "", page, flags=re.DOTALL), (
        "a link that Markdown does not read as one"
    )


@pytest.mark.parametrize("kind", few(["sdist", "wheel"], 1))
def test_it_installs_and_works_in_an_empty_venv(built: dict[str, Path], tmp_path: Path, kind: str) -> None:
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    packages = Path(run(venv / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # A folder named in a .pth lends its packages, but its own .pth files, such as that of this checkout, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    alone = ("--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--quiet")
    run(sys.executable, "-m", "pip", "--python", venv, "install", *alone, "--ignore-installed", built[kind])
    where = run(venv / "bin/python", "-c", "import weftrace; print(weftrace.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(venv)
    weftrace = venv / "bin/weftrace"
    assert "weftrace demo" in run(weftrace, "--help", folder=tmp_path)
    assert run(weftrace, "demo", "-q", "-o", "demo.html", folder=tmp_path) == ""
    assert (tmp_path / "demo.html").read_text().startswith("<!doctype html>")
    assert len(list((packages / "weftrace" / "schemas").iterdir())) == len(list(schemas()))
