"""The few doors: `load`, `show`, `save` and `figure` take any value of weftrace, whichever wing it lives in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weftrace.errors import DocumentError, WeftraceError
from weftrace.files.documents import read_document
from weftrace.files.output import write_output
from weftrace.kinds import DOCUMENT_SUFFIXES, Kind, refuse_input, suffix_of, writers
from weftrace.plan import Plan, plan_of, to_json
from weftrace.trace import Trace, save_parquet, write_chrome
from weftrace.wings import kinds

if TYPE_CHECKING:
    from rich.console import Console

_GROUND = (
    Kind(
        value=Trace,
        save={
            **dict.fromkeys(DOCUMENT_SUFFIXES, write_chrome),
            ".parquet": save_parquet,
        },
    ),
    Kind(
        value=Plan,
        schema="weftrace.plan/1",
        load=plan_of,
        save=dict.fromkeys(DOCUMENT_SUFFIXES, lambda plan, path: write_output(path, [to_json(plan)])),
    ),
)


def load(path: str | os.PathLike[str]) -> Any:
    """The value of a document that weftrace wrote: a Report, a Placement, a Replay, a FlopsReport, a Plan.

    path: JSON, plain or compressed; its field `schema` tells which document it is. Traces have a door of their own:
    `weftrace.open`. Raises `DocumentError`, naming the file, where it cannot be read or is no such document.
    """
    document = read_document(path)
    schema = document.get("schema")
    known = {kind.schema: kind for kind in _kinds() if kind.load is not None}
    kind = known.get(schema) if isinstance(schema, str) else None
    if kind is None or kind.load is None:
        hint = " A trace is opened with weftrace.open." if "traceEvents" in document else ""
        raise DocumentError(
            f"{path}: not a document of weftrace: its schema is {schema!r}, known are {', '.join(sorted(known))}.{hint}"
        )
    return kind.load(document, os.fspath(path))


def show(value: Any, console: Console | None = None) -> None:
    """Print a value's summary: to the terminal, to a notebook's cell, or to the console that is given.

    Raises `WeftraceError` for what weftrace does not know how to show.
    """
    for kind in _kinds_of(value):
        if kind.show is not None:
            kind.show(value, console or _console())
            return
    raise WeftraceError(f"a {type(value).__name__} is not a value that weftrace can show")


def save(value: Any, *paths: str | os.PathLike[str]) -> None:
    """Write a value to files; the suffix of each decides what is written: a page, a document, a table, a trace.

    A Trace, a Job or a Report becomes a page as .html. Files are written whole or not at all. Raises `OutputError`,
    listing the suffixes that the value can be saved as, and where a path is the file that the value came from.
    """
    found = writers(list(_kinds_of(value)))
    chosen = [(os.fspath(path), found[suffix_of(path, found)]) for path in paths]
    for path, write in chosen:
        refuse_input(path, [source for source in [getattr(value, "path", "")] if source])
        write(value, path)


def figure(value: Any, kind: str | None = None) -> Any:
    """A plotly figure of a value, for a notebook or a document.

    kind: which of its figures; the first by default. Raises `WeftraceError`, listing them, where it has no such figure,
    and where plotly is missing.
    """
    known = {name: draw for each in _kinds_of(value) for name, draw in each.figures.items()}
    if not known:
        raise WeftraceError(f"a {type(value).__name__} has no figures")
    chosen = next(iter(known)) if kind is None else kind
    if chosen not in known:
        raise WeftraceError(f"a {type(value).__name__} has no figure {kind!r}; choose from {', '.join(known)}")
    return known[chosen](value)


def _kinds() -> Iterator[Kind]:
    yield from _GROUND
    yield from kinds()


def _kinds_of(value: Any) -> Iterator[Kind]:
    return (kind for kind in _kinds() if isinstance(value, kind.value))


def _console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=False)
