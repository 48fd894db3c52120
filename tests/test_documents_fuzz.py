"""Saved documents that were damaged are used or refused in a sentence that names the place: never a traceback.

1,000 in each run, of all schemas alike; `make fuzz-documents` tries 100,000.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from functools import partial
from typing import Any

import pytest

import weftrace
from tests.documents_fuzz import Documents
from tests.fuzz import DEFAULT_CASES, for_each_case
from tests.saved_documents import saved_documents
from weftrace.errors import DocumentError
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
        for_each_case(partial(documents.check, schema), share=1_000 / DEFAULT_CASES / len(SCHEMAS))
    except Exception:
        if schema in NOT_YET:
            pytest.xfail("some damage of it is not told yet")
        raise


#: What was believed once, and ended in a traceback later: schema -> (place, the value there instead; None to drop it).
FOUND = [
    ("weftrace.flops.sweep/1", "points", []),
    ("weftrace.flops.sweep/1", "points.0.at", {}),
    ("weftrace.pipeline.slip/1", "actions.back_stage.1", [[1]]),
    ("weftrace.report/1", "lateness.late", 10**30),
    ("weftrace.report/1", "lateness.late", 99),
]


@pytest.mark.parametrize(("schema", "place", "value"), FOUND, ids=[f"{each[0]} {each[1]}" for each in FOUND])
def test_what_was_found_is_refused(documents: Documents, schema: str, place: str, value: object) -> None:
    *above, last = [int(each) if each.isdigit() else each for each in place.split(".")]
    for document in documents.by_schema[schema]:
        changed: Any = copy.deepcopy(document)
        inside = changed
        for each in above:
            inside = inside[each] if inside is not None else None
        if inside is None:
            continue
        inside[last] = value
        path = documents.folder / "found.json"
        path.write_text(json.dumps(changed))
        with pytest.raises(DocumentError, match=re.escape(str(above[0] if above else last))):
            weftrace.load(path)
        return
    pytest.fail(f"no {schema} has {place}")
