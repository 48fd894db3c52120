"""Types for the pages' JavaScript, made from the types of documents and of page blocks.

`python -m tests.page_types` writes types/documents.d.ts, by which `tsc` checks what a page reads. A field that is
renamed in a document, or that may be null now, is then an error in every page that reads it otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from weftrace.advice.render.page import AdviceBlock, PathBlock, SensitivityBlock, WhatIfBlock
from weftrace.comparison.render.page import DiffBlock
from weftrace.experts.render.page import MoveColumns
from weftrace.files.schemas import schemas
from weftrace.files.values import document_type
from weftrace.flops.render.block import FlopsBlock
from weftrace.moe.render.page import ProfileBlock
from weftrace.pipeline.render.comparison_page import ComparisonBlock
from weftrace.pipeline.render.page import PageBlock
from weftrace.report.render.page import TimelineBlock

ROOT = Path(__file__).parents[1]
FILE = ROOT / "types" / "documents.d.ts"
#: Types of what pages hold that is no document, by the namespace in which a page finds it.
BLOCKS = {
    "timeline": TimelineBlock,
    "flops": FlopsBlock,
    "moves": MoveColumns,
    "schedules": PageBlock,
    "comparison": ComparisonBlock,
    "profile": ProfileBlock,
    "advice": AdviceBlock,
    "path": PathBlock,
    "what_if": WhatIfBlock,
    "sensitivity": SensitivityBlock,
    "diff": DiffBlock,
}
WIDTH = 120

Schema = Mapping[str, Any]


def text() -> str:
    """What the file holds: a namespace for each document and block, whose `Document` or `Block` is the whole."""
    parts = ["// Made by `make types` from the types of documents and page blocks. Do not edit.\n"]
    for schema in (each.json_schema() for each in schemas()):
        _, _, *path, _ = schema["$id"].split(":")
        # Flops have a sweep and a diff too; `export` is a word of the language.
        whole = path[0] == "profile" or path in (["flops", "diff"], ["pipeline", "export"])
        name = "_".join(path) if whole else path[-1]
        parts.append(namespace(name, {**schema.get("$defs", {}), "Document": schema}))
    for name, block in BLOCKS.items():
        (root,), defs = msgspec.json.schema_components([document_type(block)])
        own = root["$ref"].rpartition("/")[2]
        parts.append(namespace(f"{name}_block", {("Block" if key == own else key): part for key, part in defs.items()}))
    return "\n".join(parts)


def namespace(name: str, types: Mapping[str, Schema]) -> str:
    """A namespace of types, each made from a schema; `$ref` is read by the last part of its path."""
    lines = [f"declare namespace {name} {{"]
    for key, schema in types.items():
        lines += _comment(schema, "  ")
        shape = typescript(schema, "  ")
        head = f"interface {_name(key)} " if shape.startswith("{") else f"type {_name(key)} = "
        lines.append(f"  {head}{shape}" + ("" if shape.startswith("{") else ";"))
    return "\n".join([*lines, "}", ""])


def typescript(schema: Schema, indent: str = "") -> str:
    """The type that a JSON Schema describes: what is not listed in `required` may be missing, others only be null."""
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for either in ("anyOf", "oneOf"):
        if either in schema:
            return " | ".join(dict.fromkeys(typescript(one, indent) for one in schema[either]))
    kinds = schema.get("type", [])
    found = [_of_kind(kind, schema, indent) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " | ".join(dict.fromkeys(found)) or "unknown"


def _of_kind(kind: str, schema: Schema, indent: str) -> str:
    if kind == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(typescript(item, indent) for item in schema["prefixItems"]) + "]"
        inner = typescript(schema.get("items", {}), indent)
        return f"({inner})[]" if " | " in inner and not inner.startswith("{") else f"{inner}[]"
    if kind == "object":
        return _object(schema, indent)
    return {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}[kind]


def _object(schema: Schema, indent: str) -> str:
    if "properties" not in schema:
        others = schema.get("additionalProperties", True)
        return f"Record<string, {typescript(others, indent) if isinstance(others, dict) else 'unknown'}>"
    inside = indent + "  "
    lines = ["{"]
    for key, part in schema["properties"].items():
        lines += _comment(part, inside)
        may_miss = "" if key in schema.get("required", ()) else "?"
        lines.append(f"{inside}{key}{may_miss}: {typescript(part, inside)};")
    return "\n".join([*lines, indent + "}"])


def _comment(schema: Schema, indent: str) -> Iterator[str]:
    summary = " ".join(schema.get("description", "").split()).replace("*/", "* /")
    if summary:
        yield f"{indent}/** {summary} */"


def _name(key: str) -> str:
    """A type's name: `rank` and `ReportDocument.rank` alike are `Rank`."""
    key = re.sub(r"\W+", "_", key.rpartition(".")[2])
    return key[0].upper() + key[1:]


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
