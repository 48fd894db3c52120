"""Saved documents that were damaged are used or refused in a sentence that names the place: never a traceback.

2,000 of every 400 cases of `tests.fuzz`, of all schemas alike; `make fuzz-documents` tries 100,000.
"""

from __future__ import annotations

import sys
from functools import partial

import pytest

from tests.documents_fuzz import Documents
from tests.fuzz import DEFAULT_CASES, for_each_case
from tests.saved_documents import saved_documents
from weftrace.files.schemas import schemas

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does"),
    pytest.mark.xdist_group("documents"),
]

#: Schemas of documents that are written for other programs, and never read.
UNREAD = {"weftrace.query_tables/1"}
SCHEMAS = sorted({each.schema for each in schemas()} - UNREAD)
#: Those of which some damage is still not told: this list shrinks to nothing.
NOT_YET: set[str] = set()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    folder = tmp_path_factory.mktemp("documents")
    return Documents(saved_documents(folder), folder)


def test_there_is_a_document_of_every_schema(documents: Documents) -> None:
    assert sorted(documents.by_schema) == SCHEMAS


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_wrong_is_told_with_its_place(documents: Documents, schema: str) -> None:
    try:
        for_each_case(partial(documents.check, schema), share=2_000 / DEFAULT_CASES / len(SCHEMAS))
    except Exception:
        if schema in NOT_YET:
            pytest.xfail("some damage of it is not told yet")
        raise
