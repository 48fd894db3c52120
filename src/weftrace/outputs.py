"""The outputs of a value: how it is shown, saved, loaded and drawn. Each wing lists them in its `outputs.py`; the
functions `weftrace.show`, `save`, `load` and `figure`, and the commands, find what they need in that list."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from weftrace.errors import OutputError

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

#: Endings of a document's file: JSON, plain or compressed.
DOCUMENT_SUFFIXES = (".json", ".json.gz", ".json.zst")


class Load(Protocol):
    """From a document to its value."""

    def __call__(self, document: Mapping[str, Any], /, *, what: str) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The ways out of a value of one type, and back.

    value: the type. schema, title: of its document, which `to_document` makes of the value and `from_document` reads
    back, unless document(value) and load(document, what=) say otherwise (`what` names the document in errors).
    kind: the type that the document's JSON Schema is made of, where that is not `value`.
    show(value, console): its summary in the terminal. page, markdown, csv: the text of a file with that suffix; table:
    the frame that is written as CSV. save: suffix of a file -> writer(value, path), for all else; documents save
    themselves as `DOCUMENT_SUFFIXES`.
    figures: name -> function(value) that gives a plotly figure; the first is the one to show where none is named.
    derived(value): what follows from a value and all that leaves the house needs, worked out once; `document`, `save`,
    `page` and the like, and `figures` take it. inputs(value): the files that it was made of, which it is never written
    over.
    """

    value: type
    schema: str = ""
    title: str = ""
    kind: Any = None
    document: Callable[[Any], Mapping[str, Any]] | None = None
    load: Load | None = None
    show: Callable[[Any, Console], None] | None = None
    page: Callable[[Any], str] | None = None
    markdown: Callable[[Any], str] | None = None
    csv: Callable[[Any], str] | None = None
    table: Callable[[Any], pl.DataFrame] | None = None
    save: Mapping[str, Callable[[Any, str], object]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    derived: Callable[[Any], Any] = lambda value: value
    inputs: Callable[[Any], Iterable[str]] = lambda value: ()

    def __post_init__(self) -> None:
        if self.title and self.document is None:
            object.__setattr__(self, "document", self._document)
        if self.title and self.load is None:
            object.__setattr__(self, "load", self._load)

    def _document(self, value: Any) -> dict[str, Any]:
        from weftrace.files.values import to_document
        from weftrace.version import __version__

        return {"schema": self.schema, "weftrace": __version__, **to_document(value)}

    def _load(self, document: Mapping[str, Any], /, *, what: str) -> Any:
        from weftrace.files.values import from_document

        return from_document(self.value, document, schema=self.schema, what=what)


def writers(output: Output) -> dict[str, Callable[[Any, str], object]]:
    """Suffix -> writer(derived value, path): the output's own, those of its texts, those of its document."""
    found = dict(output.save)
    table = output.table
    csv = output.csv if table is None else lambda value: _csv(table(value))
    for suffix, text in ((".html", output.page), (".md", output.markdown), (".csv", csv)):
        if text is not None:
            found.setdefault(suffix, text_writer(text))
    if output.document is not None:
        for suffix in DOCUMENT_SUFFIXES:
            found.setdefault(suffix, _document_writer(output.document))
    return found


def _csv(frame: pl.DataFrame) -> str:
    from weftrace.files.plain_text import csv_of

    return csv_of(frame)


def text_writer(text: Callable[[Any], str]) -> Callable[[Any, str], object]:
    """A writer of what is one text."""

    def write(value: Any, path: str) -> None:
        from weftrace.files.output import write_output

        write_output(path, [text(value)])

    return write


def adapter_for(value: type, output: Output, derived: Callable[[Any], Any]) -> Output:
    """The outputs of a type from which another's values are derived: shown, saved and drawn as those, not loaded."""
    show = output.show
    assert show is not None, output.value
    return replace(
        output, value=value, schema="", title="", document=output.document, load=None, derived=derived,
        show=lambda each, console: show(derived(each), console),
    )  # fmt: skip


def suffix_of(path: str | os.PathLike[str], suffixes: Iterable[str]) -> str:
    """The longest of the suffixes that a file's name ends in. Raises `OutputError`, listing them, where none fits."""
    name = os.path.basename(os.fspath(path)).lower()
    fitting = [suffix for suffix in suffixes if name.endswith(suffix)]
    if not fitting:
        raise OutputError(
            f"{path}: its ending does not say what to write. End it in {', '.join(suffixes) or '(nothing is written)'}."
        )
    return max(fitting, key=len)


def refuse_inputs(paths: Iterable[str | os.PathLike[str]], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raises `OutputError` where writing one of the paths would overwrite one of the inputs, by whatever name."""
    read = {_file(source) for source in inputs}
    for path in paths:
        if _file(path) in read:
            raise OutputError(f"{path}: is an input, which is never overwritten. Choose another name.")


def refuse_input(path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """`refuse_inputs` of one path."""
    refuse_inputs([path], inputs)


def _document_writer(document: Callable[[Any], Mapping[str, Any]]) -> Callable[[Any, str], object]:
    def write(value: Any, path: str) -> None:
        from weftrace.files.documents import write_document

        write_document(document(value), path)

    return write


def _file(path: str | os.PathLike[str]) -> object:
    """Which file a path means: equal for all its names, links included; of one that is not there, where it would be."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # it is not there, or no path of this machine
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
