"""What can be done with a value of weftrace: shown, saved, loaded, drawn. Each wing lists its kinds of values; the
doors (`weftrace.show`, `save`, `load`, `figure`) and the commands find what they need in that list."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from weftrace.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

#: Endings of a document's file: JSON, plain or compressed.
DOCUMENT_SUFFIXES = (".json", ".json.gz", ".json.zst")


class Load(Protocol):
    """From a document to its value."""

    def __call__(self, document: Mapping[str, Any], /, *, what: str) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of value, and the ways out of it and back.

    value: the type. document(value): it as JSON-able values, whose `schema` is `schema`; load(document, what=) is the
    way back, `what` naming the document in errors. show(value, console): its summary in the terminal.
    save: suffix of a file -> writer(value, path); documents save themselves as `DOCUMENT_SUFFIXES`.
    figures: name -> function(value) that gives a plotly figure; the first is the one to show where none is named.
    prepared(value): what follows from a value and all that leaves the house needs, worked out once; `document`, `save`
    and `figures` take it. inputs(value): the files that it was made of, which it is never written over.
    """

    value: type
    schema: str = ""
    document: Callable[[Any], Mapping[str, Any]] | None = None
    load: Load | None = None
    show: Callable[[Any, Console], None] | None = None
    save: Mapping[str, Callable[[Any, str], object]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    prepared: Callable[[Any], Any] = lambda value: value
    inputs: Callable[[Any], Iterable[str]] = lambda value: ()


def writers(kind: Kind) -> dict[str, Callable[[Any, str], object]]:
    """Suffix -> writer(prepared value, path), the kind's own and those of its document."""
    found = dict(kind.save)
    if kind.document is not None:
        for suffix in DOCUMENT_SUFFIXES:
            found.setdefault(suffix, _document_writer(kind.document))
    return found


def text_writer(text: Callable[[Any], str]) -> Callable[[Any, str], object]:
    """A writer of what is one text."""

    def write(value: Any, path: str) -> None:
        from weftrace.files.output import write_output

        write_output(path, [text(value)])

    return write


def made_of(value: type, kind: Kind, prepared: Callable[[Any], Any]) -> Kind:
    """The kind of what another kind's values are made of: shown, saved and drawn as that is, and not loaded."""
    show = kind.show
    assert show is not None, kind.value
    return replace(
        kind, value=value, schema="", load=None, prepared=prepared,
        show=lambda each, console: show(prepared(each), console),
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
