"""Reports that are their documents: what can be done with them follows from the document's type and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from weftrace.files.documents import document_as
from weftrace.files.schemas import DocumentSchema
from weftrace.outputs import Output, text_writer

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console


def report_kind(
    report: type,
    schema: DocumentSchema,
    *,
    show: Callable[[Any, Console], None],
    table: Callable[[Any], pl.DataFrame],
    markdown: Callable[[Any], str] | None = None,
    page: Callable[[Any], str] | None = None,
) -> Output:
    """Of a report that can be made of its document alone, its field `document`: shown, a table and Markdown are made of
    that, a page of the report."""

    def load(document: Mapping[str, Any], what: str) -> Any:
        return report(document=document_as(document, schema.document, schema=schema.schema, what=what))

    save = {".csv": text_writer(lambda value: table(value.document).write_csv())}
    if markdown is not None:
        save[".md"] = text_writer(lambda value: markdown(value.document))
    if page is not None:
        save[".html"] = text_writer(page)
    return Output(
        value=report,
        schema=schema.schema,
        document=lambda value: value.document,
        load=load,
        show=lambda value, console: show(value.document, console),
        save=save,
    )
