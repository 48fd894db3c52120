"""docs/plan.md: its Python runs, and prints what the document says."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

from tests.conftest import ROOT

DOCUMENT = ROOT / "docs" / "plan.md"


def test_examples_print_what_the_document_says() -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    names: dict[str, object] = {}
    for (_, code), (_, printed) in zip(blocks[::2], blocks[1::2], strict=True):
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, str(DOCUMENT), "exec"), names)
        assert out.getvalue() == printed
