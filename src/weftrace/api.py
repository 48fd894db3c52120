"""The few doors: `load`, `show`, `save` and `figure` take any value of weftrace, whichever wing it lives in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from weftrace.cli.outputs import stdout
from weftrace.errors import DocumentError, WeftraceError
from weftrace.files.documents import read_document
from weftrace.files.output import write_output
from weftrace.notebook import InNotebook
from weftrace.outputs import DOCUMENT_SUFFIXES, Output, refuse_input, suffix_of, writers
from weftrace.plan import Plan, load_parquet, plan_of, to_json
from weftrace.plan import save_parquet as save_plan
from weftrace.trace import Trace, save_parquet, write_chrome
from weftrace.wings import outputs

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import Console

_GROUND = (
    Output(
        value=Trace,
        inputs=lambda trace: [trace.path] if trace.path else [],
        save={
            **dict.fromkeys(DOCUMENT_SUFFIXES, write_chrome),
            ".parquet": save_parquet,
        },
    ),
    Output(
        value=Plan,
        schema="weftrace.plan/2",
        load=plan_of,
        save={
            **dict.fromkeys(DOCUMENT_SUFFIXES, lambda plan, path: write_output(path, [to_json(plan)])),
            ".parquet": save_plan,
        },
    ),
)


def load(path: str | os.PathLike[str]) -> Any:
    """The value of a document that weftrace wrote: a Report, a Placement, a Replay, a FlopsReport, a Plan.

    path: JSON, plain or compressed; its field `schema` tells which document it is; or a plan as Parquet. Traces have a
    door of their own: `weftrace.open`. Raises a `WeftraceError` that names the file (a `DocumentError` for most) where
    it cannot be read or is no such document.
    """
    if os.fspath(path).lower().endswith(".parquet"):
        return load_parquet(path)
    document = read_document(path)
    schema = document.get("schema")
    known = {output.schema: output for output in _outputs() if output.load is not None}
    output = known.get(schema) if isinstance(schema, str) else None
    if output is None or output.load is None:
        hint = " A trace is opened with weftrace.open." if "traceEvents" in document else ""
        raise DocumentError(
            f"{path}: not a document of weftrace: its schema is {schema!r}, known are {', '.join(sorted(known))}.{hint}"
        )
    return output.load(document, what=os.fspath(path))


def show(value: Any, console: Console | None = None) -> None:
    """Print a value's summary: to the terminal, to a notebook's cell, or to the console that is given.

    What has no summary of its own is told as in a notebook, a line a fact. Raises `WeftraceError` for what is no value
    of weftrace.
    """
    from rich.text import Text

    from weftrace.render.console_parts import print_blocks

    to = stdout() if console is None else console
    for output in _outputs_of(value):
        if output.show is not None:
            output.show(value, to)
            return
    if not isinstance(value, InNotebook):
        raise WeftraceError(f"a {type(value).__name__} is not a value that weftrace can show")
    print_blocks([Text(value.in_lines())], to, to.width)


def save(value: Any, *paths: str | os.PathLike[str]) -> None:
    """Write a value to files; the suffix of each decides what is written: a page, a document, a table, a trace.

    A Trace, a Job or a Report becomes a page as .html. Files are written whole or not at all. Raises `OutputError`,
    listing the suffixes that the value can be saved as, and where a path is a file that the value came from.
    """
    found = list(_outputs_of(value))
    homes = {suffix: number for number, output in reversed(list(enumerate(found))) for suffix in writers(output)}
    chosen = [(path, suffix_of(path, homes)) for path in (os.fspath(each) for each in paths)]
    for path, suffix in chosen:
        refuse_input(path, found[homes[suffix]].inputs(value))
    derived = {number: found[number].derived(value) for number in {homes[suffix] for _, suffix in chosen}}
    for path, suffix in chosen:
        number = homes[suffix]
        writers(found[number])[suffix](derived[number], path)


def page(value: Any, height: int = 900) -> Page:
    """A value's interactive page, for a notebook's cell: it needs no network, no server and no file beside it.

    height: of the cell, in pixels. Raises `WeftraceError` where a value has no page.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        save(value, path)
        return Page(path.read_text(encoding="utf-8"), height)


@dataclass(frozen=True, slots=True)
class Page:
    """A page that a notebook shows in a frame of its own, so that its styles and keys stay inside."""

    html: str
    height: int

    def __repr__(self) -> str:
        return f"<Page: {len(self.html):,} characters>"

    def _repr_html_(self) -> str:
        # In ASCII: the page runs only the script that its policy has the digest of, and a document around it that
        # declares no encoding may be read as another one.
        inside = escape(self.html).encode("ascii", "xmlcharrefreplace").decode("ascii")
        return (
            f'<iframe srcdoc="{inside}" width="100%" height="{self.height}" '
            'style="border:0;width:100%" sandbox="allow-scripts allow-downloads allow-popups"></iframe>'
        )


def figure(value: Any, kind: str | None = None) -> Figure:
    """A plotly figure of a value, for a notebook or a document.

    kind: which of its figures; the first by default. Raises `WeftraceError`, listing them, where it has no such figure,
    and where plotly is missing.
    """
    known = {name: each for each in _outputs_of(value) for name in each.figures}
    if not known:
        raise WeftraceError(f"a {type(value).__name__} has no figures")
    chosen = next(iter(known)) if kind is None else kind
    if chosen not in known:
        raise WeftraceError(f"a {type(value).__name__} has no figure {kind!r}; choose from {', '.join(known)}")
    home = known[chosen]
    return home.figures[chosen](home.derived(value))


def _outputs() -> Iterator[Output]:
    yield from _GROUND
    yield from outputs()


def _outputs_of(value: Any) -> Iterator[Output]:
    return (output for output in _outputs() if isinstance(value, output.value))
