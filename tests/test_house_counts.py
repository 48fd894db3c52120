"""The counts of the house, on a wing that can be counted by hand."""

from __future__ import annotations

from tests.house_counts import counts, short_modules, table

VALUES = '''"""A docstring
of two lines."""

from dataclasses import dataclass  # counts


@dataclass
class Tree:
    """What grows."""

    # a comment
    height: float
    age: int
    name: str
'''
DOCUMENT = '''from typing import TypedDict
from weftrace.wood.trees import Tree


class TreeDocument(TypedDict):
    height: float
    age: int
    leaves: int
    name: str


def document(tree: Tree, a, b, c, d, e, f, g, h, i, j) -> TreeDocument:
    text = """two
lines"""
    return {"height": tree.height, "age": tree.age, "leaves": tree.name, "name": told(tree.name)}
'''
FILES = {
    "src/weftrace/wood/trees.py": VALUES,
    "src/weftrace/wood/document.py": DOCUMENT,
    "src/weftrace/wood/schema.json": "{\n}\n",
    "src/weftrace/wood/render/static/wood.js": "// one\n/* two\nthree */\nconst four = 4; // five\n\n",
}


def test_by_hand() -> None:
    found = counts(FILES)
    lines = found["Lines of code"]
    assert (lines["Python"], lines["JS, CSS and HTML"], lines["generated and committed"]) == (6 + 11, 1, 2)
    assert found["Python by room"]["values"] == 6 and found["Python by room"]["documents"] == 11
    assert list(found["Written again"].values()) == [1, 1, 2, 1, 2, 0]
    assert found["Renamed words"]["told"] == 1
    trees = {name: text for name, text in FILES.items() if name.endswith(".py")}
    assert short_modules(trees) == {"weftrace.wood.trees": "weftrace.wood.document"}
    assert "| Python | 17 | 17 |" in table(["before", "after"], [found, found])
