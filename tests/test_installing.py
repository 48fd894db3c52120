"""The command that installs an extra is the one that works for the way weftrace was installed."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from weftrace import installing
from weftrace.installing import EXTRAS, Installation, here

ROOT = Path(__file__).resolve().parents[1]


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {name: tuple(packages) for name, packages in project["optional-dependencies"].items()} == EXTRAS


def made(prefix: Path, monkeypatch: pytest.MonkeyPatch, *, activated: bool = True, **url: Any) -> Installation:
    """An environment, and where weftrace in it is from."""
    programs = prefix / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("python", "pip"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs) if activated else "/usr/bin:/bin")
    return Installation(prefix=prefix, python=str(programs / "python"), url=url)


def test_a_checkout_a_folder_a_wheel_and_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "work tree"
    checkout.mkdir()
    venv = tmp_path / "venv"
    editable = made(venv, monkeypatch, url=checkout.as_uri(), dir_info={"editable": True})
    assert editable.command("hf") == f"pip install -e '{checkout}[hf]'"
    monkeypatch.chdir(checkout)
    assert editable.command("hf") == f"pip install -e '{checkout}[hf]'", "it works in every folder"
    assert (
        made(venv, monkeypatch, url=checkout.as_uri(), dir_info={}).command("torch")
        == f"pip install '{checkout}[torch]'"
    )
    wheel = checkout / "weftrace-1-py3-none-any.whl"
    found = made(venv, monkeypatch, url=wheel.as_uri(), archive_info={})
    assert found.command("ray") == "pip install 'ray[client]>=2.9'", "the wheel is gone"
    wheel.touch()
    assert found.command("ray") == f"pip install '{wheel}[ray]'"
    git = {"vcs": "git", "requested_revision": "v1", "commit_id": "abc"}
    cloned = made(venv, monkeypatch, url="https://example.org/weftrace.git", vcs_info=git)
    assert cloned.command("s3") == "pip install 'weftrace[s3] @ git+https://example.org/weftrace.git@v1'"


def test_the_packages_where_weftrace_has_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from an index, from which nothing is known to come, or run from a folder without being installed."""
    assert made(tmp_path, monkeypatch).command("hf") == "pip install 'torch>=2.4' 'transformers>=4.57'"


def test_the_tools_that_have_environments_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipx, uv = tmp_path / "pipx", tmp_path / "uv"
    by_pipx, by_uv = made(pipx, monkeypatch), made(uv, monkeypatch)
    (pipx / "pipx_metadata.json").touch()
    (uv / "uv-receipt.toml").touch()
    assert by_pipx.command("hf") == "pipx inject weftrace 'torch>=2.4' 'transformers>=4.57'"
    assert by_pipx.packages_command(["aiohttp"]) == "pipx inject weftrace aiohttp"
    assert by_uv.command("s3") == f"uv pip install --python {uv}/bin/python s3fs"


def test_the_pip_of_this_environment_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path / ".venv", monkeypatch, activated=False)
    assert found.command("gcs") == f"{tmp_path}/.venv/bin/python -m pip install gcsfs"
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.0\n")
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found.command("gcs") == f"uv pip install --python {tmp_path}/.venv/bin/python gcsfs"


def test_of_this_very_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `direct_url.json` says counts only where it is of the weftrace that runs."""
    assert here().python == sys.executable and "torch" in here().command("torch")
    monkeypatch.setattr(installing, "__file__", "/elsewhere/weftrace/installing.py")
    assert installing._direct_url() == {}
