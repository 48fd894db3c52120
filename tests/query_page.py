"""What docs/query.md repeats of the code: the tables, their columns, and what its questions print.

`python -m tests.query_page` fills it in. Tables stand after `<!-- tables -->`, columns after `<!-- columns -->`, up to
the next paragraph that is none of theirs. A fence after `<!-- printed of SOURCE -->` holds what the command before it
prints of a recorded trace, or of `written`; those of traces that are not there stay as they are.
"""

from __future__ import annotations

import io
import random
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.conftest import shared_data_folder
from tests.tracefile import GEMM, TraceFile
from weftrace.questions.asking import ask
from weftrace.questions.columns import TABLES
from weftrace.questions.render.terminal import print_answer

FILE = Path(__file__).parents[1] / "docs" / "query.md"
WRITTEN = "a written trace"
_QUESTION = re.compile(
    r"(```sh\n(weftrace query [^`]*?)\n```\n\n<!-- printed of ([^>]+) -->\n```\n)(.*?)(```\n)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Question:
    """A worked question of the page. source: what its output is printed of."""

    sql: str
    human: bool
    source: str
    printed: str


def questions(page: str) -> Iterator[Question]:
    """Those of the page, in order."""
    return (_question(found) for found in _QUESTION.finditer(page))


def _question(found: re.Match[str]) -> Question:
    _, command, source, printed, _ = found.groups()
    _, _, _, sql, *options = shlex.split(command)
    assert set(options) <= {"--human"}, options
    return Question(sql=sql, human=bool(options), source=source, printed=printed)


def filled(page: str) -> str:
    """The page as the code has it now."""
    page = re.sub(
        r"(<!-- tables -->\n\n).*?\n\n(?!\|)", lambda found: found[1] + _tables() + "\n\n", page, flags=re.DOTALL
    )
    page = page[: page.index("<!-- columns -->")] + "<!-- columns -->\n\n" + _columns()
    return _QUESTION.sub(lambda found: found[1] + _printed(_question(found)) + found[5], page)


def _tables() -> str:
    rows = [f"| [`{name}`](#{name}) | {table.meaning} |" for name, table in TABLES.items()]
    return "\n".join(["| table | a row is |", "|---|---|", *rows])


def _columns() -> str:
    parts = []
    for name, table in TABLES.items():
        rows = [
            f"| `{each.name}` | {_type(str(each.dtype))} | {each.unit} | {each.meaning} |" for each in table.columns
        ]
        parts.append(
            "\n".join([f"### {name}", "", table.meaning, "", "| column | type | in | |", "|---|---|---|---|", *rows])
        )
    return "\n\n".join(parts).replace("...", "…") + "\n"


def _type(dtype: str) -> str:
    return {"Int64": "whole", "Float64": "fraction", "String": "text", "Boolean": "yes or no"}[dtype]


def _printed(question: Question) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = written(Path(folder)) if question.source == WRITTEN else shared_data_folder() / question.source
        return printed(question, source) if source.exists() else question.printed


def printed(question: Question, source: Path) -> str:
    """What a terminal of 100 columns shows."""
    console = Console(file=io.StringIO(), width=100, color_system=None)
    print_answer(ask(source, question.sql, workers=1), console, human=question.human)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines()) + "\n"


def written(folder: Path) -> Path:
    """A step of sharded training on 8 ranks as NCCL's metadata tells it: 24 layers are gathered, 24 gradients scattered
    while gemms run, and one all-reduce over 2 ranks ends it."""
    chance = random.Random(1)
    file = TraceFile(world_size=8).host("ProfilerStep#1", 0, 100_000)
    for layer in range(24):
        begins = 20 + 2000 * layer
        for kind, elements, at in (("allgather", 33_554_432, 0), ("reduce_scatter", 33_554_432, 900)):
            file.kernel(
                f"ncclDevKernel_{'AllGather_RING' if at == 0 else 'ReduceScatter_Sum_bf16_RING'}_LL(int)", begins + at,
                chance.randrange(300, 420), stream=20, launch=begins + at - 15,
                **_recorded(kind, elements, 8, "fsdp", 2 * layer + (at > 0)),
            )  # fmt: skip
        file.kernel(GEMM, begins + 200, 1500, launch=begins - 5, blocks=132)
    file.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 48_500, 140, stream=20, launch=48_100,
                **_recorded("allreduce", 4_194_304, 2, "dp", 1, dtype="Float"))  # fmt: skip
    return file.write(folder / "written.json")


def _recorded(kind: str, elements: int, ranks: int, group: str, seq: int, dtype: str = "BFloat16") -> dict[str, Any]:
    """What PyTorch's profiler writes of a collective."""
    sizes = {"In msg nelems": elements // (ranks if kind == "allgather" else 1), "Out msg nelems": elements}
    return {
        "Collective name": kind,
        **sizes,
        "dtype": dtype,
        "Group size": ranks,
        "Process Group Name": group,
        "Seq": seq,
    }


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text()))
