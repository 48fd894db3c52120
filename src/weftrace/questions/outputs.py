"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

import io

import polars as pl

from weftrace.files.output import write_output
from weftrace.files.schemas import schema_for
from weftrace.outputs import Output
from weftrace.questions.asking import Answer
from weftrace.questions.document import SCHEMA, TABLES_SCHEMA, SavedAnswer, Tables, answer_document, answer_of
from weftrace.questions.render.terminal import markdown, print_answer

TABLES = Output(value=Tables, schema=TABLES_SCHEMA, title="Tables and columns that questions are asked of")
SCHEMAS = (schema_for(TABLES),)  # they are printed, and not loaded


def _csv(answer: Answer) -> str:
    """Numbers as they are; lists, which CSV has not, as text."""
    nested = [name for name, dtype in answer.frame.schema.items() if dtype.is_nested()]
    texts = [
        pl.Series(name, [None if value is None else str(value) for value in answer.frame.get_column(name).to_list()])
        for name in nested
    ]
    return answer.frame.with_columns(texts).write_csv()


def _save_parquet(answer: Answer, path: str) -> None:
    buffer = io.BytesIO()
    answer.frame.write_parquet(buffer, compression="zstd")
    write_output(path, [buffer.getvalue()])


ANSWER = Output(
    value=Answer,
    schema=SCHEMA,
    title="A question to a trace, and its answer",
    kind=SavedAnswer,
    document=answer_document,
    load=answer_of,
    show=lambda answer, console: print_answer(answer, console),
    csv=_csv,
    markdown=markdown,
    save={".parquet": _save_parquet},
)

OUTPUTS: tuple[Output, ...] = (ANSWER,)
