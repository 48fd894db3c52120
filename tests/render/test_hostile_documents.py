"""Saved documents of each schema in which all texts are hostile: what they are drawn and written as is texts alone."""

from __future__ import annotations

import io
import json
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from rich.console import Console

import weftrace as wt
from tests.fuzz import thorough
from tests.render.hostile_names import hostile_names, read, renamed
from tests.saved_documents import saved_documents
from weftrace.api import _outputs_of
from weftrace.errors import OutputError
from weftrace.outputs import writers

#: Pages that only the command makes: a saved document does not hold the schedules that they draw.
_WITHOUT_PAGE = {"weftrace.pipeline.recommendation/1", "weftrace.pipeline.slip/1"}


@thorough
def test_every_output_of_every_document(tmp_path: Path) -> None:
    names = cycle([name.encode("utf-8", "replace").decode() for name in hostile_names(1_000)])
    for schema, documents in saved_documents(tmp_path).items():
        for document in documents:
            unsealed = {key: value for key, value in document.items() if key != "sha256"}
            load = partial(_loaded, folder=tmp_path)
            value = load(renamed(unsealed, names, load))
            suffixes = {suffix for output in _outputs_of(value) for suffix in writers(output)}
            for suffix in suffixes & {".svg", ".csv", ".md", ".json", ".html"}:
                path = tmp_path / f"out{suffix}"
                if suffix == ".html" and schema in _WITHOUT_PAGE:
                    with pytest.raises(OutputError):
                        wt.save(value, path)
                    continue
                wt.save(value, path)
                try:
                    read(path)
                except AssertionError as error:
                    pytest.fail(f"{schema} as {suffix}: {error}")
            printed = io.StringIO()
            wt.show(value, Console(file=printed, width=100))
            assert not [each for each in printed.getvalue() if not each.isprintable() and each != "\n"], schema


def _loaded(document: object, *, folder: Path) -> object:
    path = folder / "renamed.json"
    path.write_text(json.dumps(document))
    return wt.load(path)
