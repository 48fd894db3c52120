"""Fixtures for every test."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import browser, idle_pages, open_html
from tests.compile_once import share_compiled_functions
from tests.fuzz import examples, fuzz_cases, fuzz_seed, is_thorough
from tests.living import ranks
from tests.times import PROPERTY, processor_s
from tests.warm import warm

__all__ = ["browser", "idle_pages", "open_html", "ranks", "warm"]

ROOT = Path(__file__).resolve().parents[1]

# Deadlines fail on a busy machine for no fault of the code; in CI the examples are the same in every run, and fewer.
settings.register_profile("weftrace", deadline=None, max_examples=examples(100))
settings.register_profile("weftrace-ci", deadline=None, derandomize=True, max_examples=examples(75))
settings.load_profile("weftrace-ci" if os.environ.get("CI") else "weftrace")


# Tests run side by side, a process for each processor, where the libraries' own threads would get in each other's way.
# In a thorough run Polars keeps two, so that a result that depends on the order of threads has a chance to show itself.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
for variable, threads in (ONE_THREAD | {"POLARS_MAX_THREADS": "2" if is_thorough() else "1"}).items():
    os.environ.setdefault(variable, threads)
share_compiled_functions()


def shared_data_folder() -> Path:
    """Where recorded traces lie: $WEFTRACE_DATA, else ../shared/data beside the repository. It may not exist."""
    return Path(os.environ.get("WEFTRACE_DATA") or ROOT.parent / "shared" / "data")


def pytest_report_header() -> str:
    """Fuzz cases are others in every run; the seed that repeats them stands at the head and in each failure."""
    return f"fuzz: WEFTRACE_FUZZ_SEED={fuzz_seed()} WEFTRACE_FUZZ_CASES={fuzz_cases()}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No look for garbage while modules are imported and tests collected: it takes a third of that time. What is there
    then stays until the end, so that later looks need not go through it; and they are rarer than Python's every 700
    objects, which took a seventh of the tests' time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what only `make thorough` has."""
    left_out = [] if is_thorough() else [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Packed data hold the time at which they were packed, and workers must agree on a test's name."""
    return argname if isinstance(val, bytes) and val.startswith(b"\x1f\x8b") else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Loading a model from a file puts its folder first on the import path, for good; not in the tests."""
    before = list(sys.path)
    try:
        return (yield)
    finally:
        sys.path[:] = before


_STARTED_S = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("xmlpath"):  # to ask costs some milliseconds a test
        item.stash[_STARTED_S] = processor_s(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """For `python -m tests.times`. Before fixtures end: the last test would else get what the browser used in all."""
    if _STARTED_S in item.stash:
        item.user_properties.append((PROPERTY, f"{processor_s(item) - item.stash[_STARTED_S]:.3f}"))


# Tests of what reports and comparisons tell beside advice do without it: it is more than half of what a small report
# takes. The replay of a job, which tells its slowdown, is half of the rest. Commands that are processes of their own
# have both, and so do these folders and files.
ADVISED = ("findings", "advice", "test_docs.py", "test_finding_changes.py", "test_results_in_notebooks.py")
REPLAYED = (*ADVISED, "jobs")


@pytest.fixture(autouse=True)
def advice_where_it_is_tested(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No advice, as of files that are too large for it, but in ADVISED and in tests marked `advised`. Reports replay no
    job, but in REPLAYED and in tests marked `replayed` or `advised`."""
    marks = {mark.name for mark in request.node.iter_markers()}
    if not set(ADVISED).intersection(request.path.parts) and "advised" not in marks:
        monkeypatch.setattr("weftrace.report.build.MAX_ADVISED_EVENTS", 0)
        monkeypatch.setattr("weftrace.comparison.runs._MAX_ADVISED_EVENTS", 0)
        if not set(REPLAYED).intersection(request.path.parts) and "replayed" not in marks:
            monkeypatch.setattr("weftrace.report.build._slowdown", lambda *_: (None, ""))


@pytest.fixture(scope="session")
def recorded_traces(shared_data: Path) -> list[Path]:
    """The recorded traces, smallest first; those of more than 500 kB, packed, in a thorough run alone."""
    paths = sorted(shared_data.glob("**/*.json.gz"), key=lambda path: path.stat().st_size)
    assert paths, f"no traces in {shared_data}"
    return [path for path in paths if is_thorough() or path.stat().st_size < 500_000]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded traces, which are not part of the repository; the test is skipped where there is none."""
    folder = shared_data_folder()
    if not folder.is_dir():
        pytest.skip(f"no recorded traces in {folder}: set WEFTRACE_DATA to the folder that holds them")
    return folder
