"""JSON Schemas made from the types of documents: `python -m weftrace.files.schemas weftrace.report/1` prints one.

Without a name it lists all; with `--to FOLDER` it writes them, as a build does for the wheel's `weftrace/schemas/`.

A document is a TypedDict (or a msgspec struct) whose fields say what they mean with
`Annotated[int, Meta(ge=0, description="…")]`. Each wing lists its documents as `SCHEMAS` in its `outputs.py`.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict, get_args, get_type_hints

import msgspec
from msgspec import Meta

from weftrace.files.documents import AS_COLUMNS, SEAL
from weftrace.files.values import document_type
from weftrace.outputs import Output
from weftrace.wings import SHOWN

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: Numbers that documents are full of.
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Ns = Annotated[int, Meta(ge=0, description="A duration in nanoseconds.")]
Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1.000000001)]  # made of rounded parts: it may pass 1 by a hair


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSchema:
    """A type of documents. schema: what its field `schema` says."""

    document: type
    schema: str
    title: str

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of these documents."""
        return schema_of(self.document, schema=self.schema, title=self.title)

    def text(self) -> str:
        """The JSON Schema as a file holds it: of documents as they are written, long tables as columns."""
        return msgspec.json.format(msgspec.json.encode(_with_columns(self.json_schema())), indent=1).decode() + "\n"


def schema_of(document_type: Any, *, schema: str, title: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document's type, fields in the order in which the type has them.

    schema: what the document's field `schema` says, which becomes a `const`. The types inside it stand in `$defs`, each
    under its name; docstrings are descriptions. Fields that a type does not name are allowed, as readers of a document
    ignore what they do not know. Raises ValueError where two types in it have one name.
    """
    types = _types(document_type)
    (root,), parts = msgspec.json.schema_components([document_type])
    defs = {name: _readable(part, types.get(name)) for name, part in parts.items()}
    own = defs.pop(root["$ref"].rpartition("/")[2])
    own["properties"] = {**own["properties"], "schema": {"const": schema}}
    head = {"$schema": DIALECT, "$id": "urn:" + schema.replace(".", ":").replace("/", ":"), "title": title}
    return {**head, **own, **({"$defs": dict(sorted(defs.items()))} if defs else {})}


_COLUMNS = {
    "description": "In a document of more than 4 MB, a table of 100 rows or more: the values of each column, or the "
    "one value of all its rows.",
    "type": "object",
    "required": [AS_COLUMNS],
    "properties": {AS_COLUMNS: {"type": "object"}},
}


def _with_columns(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a document whose lists of objects may stand as columns (`document_text`)."""
    defs = schema.get("$defs", {})

    def inner(part: Any) -> Any:
        if isinstance(part, list):
            return [inner(each) for each in part]
        if not isinstance(part, dict):
            return part
        found = {key: inner(each) for key, each in part.items()}
        item = part.get("items", {}).get("$ref", "").rpartition("/")[2] if isinstance(part.get("items"), dict) else ""
        if part.get("type") != "array" or "properties" not in defs.get(item, {}):
            return found
        described = {"description": found.pop("description")} if "description" in found else {}
        return {**described, "anyOf": [found, {"$ref": "#/$defs/Columns"}]}

    whole: dict[str, Any] = inner(schema)
    return (
        {**whole, "$defs": dict(sorted({**whole["$defs"], "Columns": _COLUMNS}.items()))} if whole != schema else schema
    )


def schemas() -> Iterator[DocumentSchema]:
    """Those of the ground, then those of all wings."""
    for module in ("plan.document", *(f"{wing.name}.outputs" for wing in SHOWN)):
        found = import_module(f"weftrace.{module}")
        yield from getattr(found, "SCHEMAS", ())
        yield from (schema_for(each) for each in getattr(found, "OUTPUTS", ()) if each.title)


def schema_for(output: Output) -> DocumentSchema:
    """Of the document that an output with a title writes: its type, after the fields that every document has."""
    own = document_type(output.kind or output.value)
    head = {
        "schema": str,
        "weftrace": Annotated[str, Meta(description="Version of weftrace that wrote it.")],
        SEAL: NotRequired[Annotated[str, Meta(description="SHA-256 of all other fields as compact JSON.")]],
    }
    made = TypedDict(own.__name__, {**head, **get_type_hints(own, include_extras=True)})  # type: ignore[misc]
    made.__doc__ = own.__doc__
    return DocumentSchema(document=made, schema=output.schema, title=output.title)


def _readable(part: dict[str, Any], made_from: type | None) -> dict[str, Any]:
    """A part as a person would write it: no title but its name, its docstring in a paragraph, fields in their order."""
    part = {key: value for key, value in part.items() if key != "title"}
    if "description" in part:
        part["description"] = " ".join(inspect.cleandoc(part["description"]).split())
    if made_from is not None and "properties" in part:
        order = [name for name in get_type_hints(made_from) if name in part["properties"]]
        part["properties"] = {name: part["properties"][name] for name in order}
        part["required"] = [name for name in order if name in part["required"]]
    return part


def _types(document_type: Any) -> dict[str, type]:
    """Name -> class, of every class with fields that the type is made of."""
    found: dict[str, type] = {}
    left = [document_type]
    while left:
        each = left.pop()
        left += get_args(each)
        if isinstance(each, type) and getattr(each, "__annotations__", None):
            if found.setdefault(each.__name__, each) is not each:
                raise ValueError(f"two types of {document_type.__name__} are called {each.__name__}")
            left += [hint for hint in get_type_hints(each).values() if hint not in left and hint not in found.values()]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """List the schemas of documents, print those that are named, or write all into a folder."""
    parser = argparse.ArgumentParser(prog="python -m weftrace.files.schemas", description=main.__doc__)
    parser.add_argument("schema", nargs="*", help="what a document's field `schema` says, such as weftrace.report/1")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="write all schemas into this folder")
    asked = parser.parse_args(arguments)
    known = {each.schema: each for each in schemas()}
    if unknown := set(asked.schema) - set(known):
        parser.error(f"no schema {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if asked.to:
        for name, each in known.items():
            (asked.to / f"{name.replace('/', '.')}.schema.json").write_text(each.text(), encoding="utf-8")
    for name in () if asked.to else asked.schema or known:
        sys.stdout.write(known[name].text() if asked.schema else f"{name}  {known[name].title}\n")


if __name__ == "__main__":
    main()
