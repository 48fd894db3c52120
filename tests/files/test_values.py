"""A value is its document: there, back, checked, and its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

import jsonschema
import numpy as np
import polars as pl
import pytest
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from weftrace.errors import DocumentError
from weftrace.files.columns import Shown, columns_of, frame_of
from weftrace.files.plain_text import csv_of
from weftrace.files.schemas import schema_of
from weftrace.files.values import OPTIONAL, UNSAVED, As, document_type, filled, from_document, to_document


class KernelRow(TypedDict):
    """A kernel."""

    name: Annotated[str, Meta(description="As the profiler wrote it."), Shown("kernel", wide=True)]
    total_ns: Annotated[int, Meta(ge=0, description="Sum of the durations.")]
    share: Annotated[float | None, Meta(description="Of the device's time.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part."""

    of_ns: Annotated[int, Meta(ge=0)]
    by: Literal["a", "b"] = "a"

    def __post_init__(self) -> None:
        if self.of_ns == 13:
            raise ValueError("13 ns are not a time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole."""

    parts: tuple[Part, ...]
    kernels: Annotated[pl.DataFrame, As(list[KernelRow])]
    at: Annotated[NDArray[np.int64], As(list[int])]
    notes: Mapping[str, int] = field(default_factory=dict)
    flops: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    secret: Annotated[str, UNSAVED] = "unsaid"

    @property
    def sum_ns(self) -> Annotated[int, Meta(ge=0, description="Of the parts.")]:
        return sum(part.of_ns for part in self.parts)


ROWS: list[KernelRow] = [{"name": "gemm", "total_ns": 3, "share": None}]
WHOLE = Whole(parts=(Part(of_ns=1), Part(of_ns=2, by="b")), kernels=frame_of(KernelRow, ROWS), at=np.array([1, 2]))
DOCUMENT = {
    "parts": [{"of_ns": 1, "by": "a"}, {"of_ns": 2, "by": "b"}],
    "kernels": ROWS,
    "at": [1, 2],
    "notes": {},
    "sum_ns": 3,
}


def test_a_value_becomes_its_document_and_is_read_back() -> None:
    assert to_document(WHOLE) == DOCUMENT
    back = from_document(Whole, {**DOCUMENT, "sum_ns": 77, "unknown": 1}, what="x.json")
    assert back.parts == WHOLE.parts
    assert back.kernels.equals(WHOLE.kernels) and back.kernels.schema == WHOLE.kernels.schema
    assert back.at.tolist() == [1, 2] and back.sum_ns == 3 and back.flops is UNSET and back.secret == "unsaid"
    assert to_document(back) == DOCUMENT


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        ({"parts": [{"of_ns": 1}, {"of_ns": -1, "by": "a"}]}, "$.parts[0]"),
        ({"parts": [{"of_ns": -1, "by": "a"}]}, "$.parts[0].of_ns"),
        ({"parts": [{"of_ns": 13, "by": "a"}]}, "$.parts[0]"),
        ({"parts": [{"of_ns": 1, "by": "c"}]}, "$.parts[0].by"),
        ({"kernels": [{"name": "gemm", "total_ns": "3", "share": None}]}, "$.kernels[0].total_ns"),
        ({"kernels": None}, "$.kernels"),
        ({"flops": -1}, "$.flops"),
        ({"notes": {"a": None}}, "$.notes"),
    ],
)
def test_a_broken_field_is_named(broken: dict[str, object], place: str) -> None:
    with pytest.raises(DocumentError) as caught:
        from_document(Whole, {**DOCUMENT, **broken}, what="x.json")
    assert str(caught.value).startswith("x.json: a broken field: ") and f"`{place}" in str(caught.value)


def test_another_schema_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"not a weftrace\.whole/1 document: its schema is 'other'"):
        from_document(Whole, {**DOCUMENT, "schema": "other"}, schema="weftrace.whole/1", what="x.json")


def test_its_json_schema_is_that_of_the_type() -> None:
    schema = schema_of(document_type(Whole), schema="weftrace.whole/1", title="A whole")
    jsonschema.validate({**DOCUMENT, "schema": "weftrace.whole/1"}, schema)
    assert list(schema["properties"]) == ["parts", "kernels", "at", "notes", "flops", "sum_ns", "schema"]
    assert "flops" not in schema["required"] and "secret" not in schema["properties"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**DOCUMENT, "schema": "weftrace.whole/1", "parts": [{"of_ns": -1, "by": "a"}]}, schema)


def test_a_table_is_the_columns_of_its_rows() -> None:
    name, total, share = columns_of(KernelRow)
    assert (name.label, name.dtype, name.style, name.wide) == ("kernel", pl.String(), "text", True)
    assert (total.label, total.unit, total.style, total.meaning) == ("total", "ns", "time", "Sum of the durations.")
    assert (share.dtype, share.style) == (pl.Float64(), "share")
    assert frame_of(KernelRow, []).schema == frame_of(KernelRow, ROWS).schema
    assert csv_of(frame_of(KernelRow, ROWS)) == "name,total_ns,share\ngemm,3,\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """A value that got a field later than its first documents."""

    of_ns: int
    by: str = "a"
    source: Annotated[str, OPTIONAL] = "unknown"


def test_a_field_that_may_be_missing_has_its_default() -> None:
    assert from_document(Later, {"of_ns": 1, "by": "b"}, what="x") == Later(of_ns=1, by="b")
    assert to_document(Later(of_ns=1)) == {"of_ns": 1, "by": "a", "source": "unknown"}
    with pytest.raises(DocumentError, match="missing required field `by`"):
        from_document(Later, {"of_ns": 1}, what="x")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"parts": [{"of_ns": 2**70, "by": "a"}]}, r"\$.parts\[0\].of_ns"),
        ({"kernels": [{**ROWS[0], "total_ns": 2**70}]}, r"\$.kernels"),
    ],
)
def test_whole_numbers_that_no_table_holds_are_refused(change: dict[str, object], place: str) -> None:
    with pytest.raises(DocumentError, match=place):
        from_document(Whole, {**DOCUMENT, **change}, what="x")


def test_a_value_is_filled_from_others_with_fields_of_the_same_names() -> None:
    assert filled(Later, Part(of_ns=3, by="b"), source="here") == Later(of_ns=3, by="b", source="here")
    assert filled(Later, Part(of_ns=3), Later(of_ns=4, source="there")) == Later(of_ns=3, source="there")
