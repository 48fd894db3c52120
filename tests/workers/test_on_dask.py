"""A job on a Dask cluster of this machine. One cluster, so one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import thorough
from tests.workers import cluster_checks as checks
from tests.workers.cluster import cluster
from weftrace.workers import connect


@thorough
def test_a_job_on_dask(tmp_path: Path, subtests: pytest.Subtests) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'weftrace[dask]'")
    many, few = checks.write_ranks(tmp_path / "many"), checks.write_ranks(tmp_path / "few", 4)
    with cluster("dask") as addresses:
        with subtests.test("the document of 20 ranks is the local one"):
            checks.a_document_is_the_local_one(addresses["dask"], many)
        with connect(addresses["dask"]) as executor:
            checks.an_executor_is_sound(executor, few, tmp_path / "mark", subtests)
        with subtests.test("a lost head"):
            checks.a_lost_head_costs_what_is_not_done(addresses["dask"], few, tmp_path / "spool")
