"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

import io

from weftrace.files.output import write_output
from weftrace.files.schemas import schema_for
from weftrace.outputs import Output
from weftrace.questions.asking import Answer
from weftrace.questions.document import SCHEMA, TABLES_SCHEMA, SavedAnswer, Tables, answer_document, answer_of
from weftrace.questions.render.terminal import markdown, print_answer

TABLES = Output(value=Tables, schema=TABLES_SCHEMA, title="Tables and columns that questions are asked of")
SCHEMAS = (schema_for(TABLES),)  # they are printed, and not loaded


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
    table=lambda answer: answer.frame,
    markdown=markdown,
    save={".parquet": _save_parquet},
)

OUTPUTS: tuple[Output, ...] = (ANSWER,)
