"""Columns of numbers as a page holds them: little-endian, in base64, so that 200,000 events stay small."""

from __future__ import annotations

import base64
from typing import Any, Literal, TypedDict

import numpy.typing as npt


class PackedColumn(TypedDict):
    """Little-endian numbers in base64."""

    type: Literal["u1", "u2", "u4", "f8"]
    data: str


def packed(values: npt.NDArray[Any]) -> PackedColumn:
    """The smallest type that holds the values exactly, and their bytes. values: integers, none below 0."""
    top = int(values.max()) if values.size else 0
    assert not values.size or int(values.min()) >= 0, f"negative value {values.min()} in a page's column"
    kind: Literal["u1", "u2", "u4", "f8"] = (
        "u1" if top < 1 << 8 else "u2" if top < 1 << 16 else "u4" if top < 1 << 32 else "f8"
    )
    return {"type": kind, "data": base64.b64encode(values.astype(f"<{kind}").tobytes()).decode("ascii")}
