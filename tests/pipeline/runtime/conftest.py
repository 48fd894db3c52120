"""Fixtures of the runtime's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.runtime.living import Ranks


@pytest.fixture(scope="session")
def ranks(warm: Path) -> Iterator[Ranks]:
    """Four processes on gloo; a case may use the first two, three or all."""
    found = Ranks(warm / "python")
    yield found
    found.end()
