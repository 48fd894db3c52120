"""Real trainings get what was told: run by hand, `python -m tests.findings.real_remedies`, or by `make thorough`."""

from __future__ import annotations

from pathlib import Path

from tests.findings.real_remedies import remedied, table_of
from tests.fuzz import thorough


@thorough
def test_remedies_bring_what_was_told(tmp_path: Path) -> None:
    """The found rule is right, and the remedy brings at least a quarter of what is told at most: the machine's other
    work is in both times."""
    rows = list(remedied(tmp_path))
    for row in rows:
        assert row.told is not None, table_of(rows)
        assert row.got > row.told[1] / 4, table_of(rows)
        assert row.remains is None or row.finding is None or row.remains.cost_share < row.finding.cost_share / 2
