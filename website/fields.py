"""Docstrings say "field: what it means. other: …" in running text; the reference has one line per field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import griffe


class Fields(griffe.Extension):
    """mkdocstrings reads docstrings through this (mkdocs.yml names it)."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        _list(cls, cls.attributes)

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        _list(func, (parameter.name for parameter in func.parameters))


def _list(described: griffe.Class | griffe.Function, names: Iterable[str]) -> None:
    if described.docstring is not None:
        described.docstring.value = fields_as_list(described.docstring.value, names)


def fields_as_list(docstring: str, names: Iterable[str]) -> str:
    """The docstring with each "name: " or "name, name: " that begins a sentence made an item of a list."""
    name = "|".join(map(re.escape, names))
    if not name:
        return docstring
    item = re.compile(rf"(?:\A|\n|(?<=[.;])\s)((?:(?:{name}), )*(?:{name})): ")
    return item.sub(lambda match: "\n\n- " + ", ".join(f"`{each}`" for each in match[1].split(", ")) + ": ", docstring)
