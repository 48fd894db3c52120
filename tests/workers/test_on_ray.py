"""A job on a Ray cluster of this machine, by Ray's client and as a part of the cluster. One cluster, so one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import thorough
from tests.workers import cluster_checks as checks
from tests.workers.cluster import cluster
from weftrace.workers import connect


@thorough
def test_a_job_on_ray(tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'weftrace[ray]'")
    many, few = checks.write_ranks(tmp_path / "many"), checks.write_ranks(tmp_path / "few", 4)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with cluster("ray") as addresses:
        monkeypatch.setenv("RAY_ADDRESS", addresses["ray"])
        with connect("ray") as executor:
            checks.an_executor_is_sound(executor, few, tmp_path / "mark", subtests)
        with subtests.test("the document of 20 ranks is the local one"):
            checks.a_document_is_the_local_one(addresses["client"], many)
    with cluster("ray") as addresses, subtests.test("a lost head"):  # a server of clients ends with the last of them
        checks.a_lost_head_costs_what_is_not_done(addresses["client"], few, tmp_path / "spool")
