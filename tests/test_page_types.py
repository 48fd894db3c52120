"""The types by which tsc checks the pages' code are those of the documents and blocks that pages hold."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from tests import page_types
from tests.experts.render import documents
from tests.flops.small_reports import TINY, UNTIMED
from tests.pages import page_blocks
from weftrace.experts.render.page import MoveColumns, placement_block
from weftrace.files.schemas import schemas
from weftrace.flops.render.block import FlopsBlock
from weftrace.flops.render.page import render_flops_html


def test_each_document_and_block_has_a_namespace() -> None:
    """Two of one name would hide each other."""
    names = re.findall(r"^declare namespace (\w+)", page_types.text(), re.MULTILINE)
    assert len(set(names)) == len(names) == len(list(schemas())) + len(page_types.BLOCKS)


@pytest.mark.parametrize(
    ("schema", "typescript"),
    [
        ({"type": "integer"}, "number"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["F", None]}, '"F" | null'),
        ({"type": "array", "items": {"type": ["number", "null"]}}, "(number | null)[]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "[string, number]"),
        ({"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}]}, "Count | null"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"const": 1}}, "required": ["a"]},
            "{\n  a: string;\n  b?: 1;\n}",
        ),
    ],
)
def test_types_by_hand(schema: dict[str, Any], typescript: str) -> None:
    assert page_types.typescript(schema) == typescript


def block(html: str, name: str) -> Any:
    return page_blocks(html)[name]


def check(value: Any, kind: Any) -> None:
    """Raises where the value is not of the type, or holds a field that the type does not name."""
    msgspec.convert(value, kind)
    assert set(value) <= set(kind.__annotations__)


@pytest.mark.parametrize(("report", "hardware"), [(TINY, "h100"), (TINY, None), (UNTIMED, None)])
def test_flops_blocks_are_of_their_type(report: Any, hardware: Any) -> None:
    check(block(render_flops_html(report, hardware), "weftrace-flops"), FlopsBlock)


def test_moves_are_of_their_type() -> None:
    check(json.loads(json.dumps(placement_block(documents.read(documents.placement()))))["moves"]["list"], MoveColumns)
