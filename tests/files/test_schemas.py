"""Schemas are made from the types of documents: by hand on a small one, then those of every wing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict

import jsonschema
import pytest
from msgspec import Meta

from weftrace.files.schemas import DocumentSchema, main, schema_of, schemas

Count = Annotated[int, Meta(ge=0)]


class Leaf(TypedDict):
    """What hangs on a tree
    in autumn."""

    weight: Annotated[float | None, Meta(description="In grams; null where not weighed.")]
    age: Count


class TreeDocument(TypedDict):
    schema: Literal["weftrace.tree/1"]
    leaves: list[Leaf]
    first: Annotated[Leaf | None, Meta(description="The oldest.")]
    counts: NotRequired[dict[str, Count]]


def test_a_schema_by_hand() -> None:
    made = schema_of(TreeDocument, schema="weftrace.tree/1", title="A tree")
    assert made == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:weftrace:tree:1",
        "title": "A tree",
        "type": "object",
        "properties": {
            "schema": {"const": "weftrace.tree/1"},
            "leaves": {"type": "array", "items": {"$ref": "#/$defs/Leaf"}},
            "first": {"description": "The oldest.", "anyOf": [{"$ref": "#/$defs/Leaf"}, {"type": "null"}]},
            "counts": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        },
        "required": ["schema", "leaves", "first"],
        "$defs": {
            "Leaf": {
                "description": "What hangs on a tree in autumn.",
                "type": "object",
                "properties": {
                    "weight": {
                        "description": "In grams; null where not weighed.",
                        "anyOf": [{"type": "number"}, {"type": "null"}],
                    },
                    "age": {"type": "integer", "minimum": 0},
                },
                "required": ["weight", "age"],
            }
        },
    }
    assert list(made["properties"]) == ["schema", "leaves", "first", "counts"]  # the order of the type, not of letters
    assert list(made["$defs"]["Leaf"]["properties"]) == ["weight", "age"]


def test_two_types_of_one_name_are_refused() -> None:
    other = TypedDict("other", {"as": int})
    other.__name__ = "Leaf"
    both = TypedDict("both", {"schema": str, "one": Leaf, "from": other})
    with pytest.raises(ValueError, match="two types of both are called Leaf"):
        schema_of(both, schema="weftrace.both/1", title="")


@pytest.mark.parametrize("kept", list(schemas()), ids=lambda kept: kept.schema)
def test_schemas_of_all_documents_are_schemas(kept: DocumentSchema) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(kept.text()))


def test_one_is_printed_and_all_are_listed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["weftrace.report/1"])
    report = capsys.readouterr().out
    assert json.loads(report)["$id"] == "urn:weftrace:report:1"
    main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [each.schema for each in schemas()]
    main(["--to", str(tmp_path)])
    assert len(list(tmp_path.iterdir())) == len(list(schemas()))
    assert (tmp_path / "weftrace.report.1.schema.json").read_text("utf-8") == report
    with pytest.raises(SystemExit):
        main(["weftrace.tree/1"])
    assert "no schema weftrace.tree/1; there are weftrace.plan/2" in capsys.readouterr().err
