"""Facts as data: the tables of a TOML file, ours or a user's."""

from __future__ import annotations

import copyreg
from pathlib import Path
from types import MappingProxyType
from typing import Any

from weftrace.errors import WeftraceError
from weftrace.files.documents import read_text, toml_of


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


# Python pickles no read-only mappings, and what holds them travels to processes that read ranks.
copyreg.pickle(MappingProxyType, lambda mapping: (_read_only, (dict(mapping),)))


def read_tables(path: Path, key: str, *, what: str, error: type[WeftraceError], hint: str = "") -> list[dict[str, Any]]:
    """The tables under `[[key]]`, in the file's order; none where the file has no such key.

    what: what the tables are, for errors ("kernel rules"). hint: added where the file is not TOML. Raises `error`,
    naming the file, where it cannot be read, is not TOML, or holds anything else.
    """
    document = toml_of(read_text(path, error=error), str(path), error=error, hint=hint)
    unknown = sorted(set(document) - {key})
    if unknown:
        raise error(f"{path}: unknown key {unknown[0]!r}; {what} are tables under [[{key}]]")
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise error(f"{path}: {key!r} must be a list of tables; begin each with [[{key}]]")
    return entries
