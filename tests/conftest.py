"""Fixtures for every test."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import browser, open_html

__all__ = ["browser", "open_html"]

ROOT = Path(__file__).resolve().parents[1]

# Deadlines fail on a busy machine for no fault of the code; in CI the examples are the same in every run.
settings.register_profile("weftrace", deadline=None)
settings.register_profile("weftrace-ci", deadline=None, derandomize=True)
settings.load_profile("weftrace-ci" if os.environ.get("CI") else "weftrace")


def shared_data_folder() -> Path:
    """Where recorded traces lie: $WEFTRACE_DATA, else ../shared/data beside the repository. It may not exist."""
    return Path(os.environ.get("WEFTRACE_DATA") or ROOT.parent / "shared" / "data")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Loading a model from a file puts its folder first on the import path, for good; not in the tests."""
    before = list(sys.path)
    try:
        return (yield)
    finally:
        sys.path[:] = before


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded traces, which are not part of the repository; the test is skipped where there is none."""
    folder = shared_data_folder()
    if not folder.is_dir():
        pytest.skip(f"no recorded traces in {folder}: set WEFTRACE_DATA to the folder that holds them")
    return folder
