"""Weftrace keeps its own failures away from the program it counts; here each of them fails the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weftrace.flops.runtime.count.uncounted import Uncounted


@pytest.fixture
def may_lose() -> None:
    """For tests that break counting on purpose."""


@pytest.fixture(autouse=True)
def nothing_is_lost(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    uncounted: list[str] = []
    note = Uncounted.note

    def noted(self: Uncounted, what: str, error: Exception) -> str:
        uncounted.append(f"{what}: {error!r}")
        return note(self, what, error)

    monkeypatch.setattr(Uncounted, "note", noted)
    yield
    if "may_lose" not in request.fixturenames:
        assert not uncounted
