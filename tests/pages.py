"""What every wing's pages promise: their modules are joined in order, none writes HTML from text, none is left over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from weftrace.render.page import KIT, page_script

_NEEDED = re.compile(r'^import \{[^}]*\} from "(\./|render/)(\w+)\.js";$', re.MULTILINE)


def modules_of(entry: str, home: str) -> list[str]:
    """The modules of a page as they are joined: "kit_dom", "module_timeline", ..."""
    return re.findall(r"^const (\w+) = \(\(\) =>", page_script(entry, home), re.MULTILINE)


def check_modules(home: str, entries: Iterable[str]) -> None:
    """Raises AssertionError where a page of `home` breaks one of the promises."""
    joined: set[str] = set()
    for entry in entries:
        order = modules_of(entry, home)
        assert order[-1] == f"module_{entry}"
        joined.update(order)
        for position, module in enumerate(order):
            kind, _, name = module.partition("_")
            source = files(KIT if kind == "kit" else home).joinpath("static", f"{name}.js").read_text("utf-8")
            assert "innerHTML" not in source and "insertAdjacentHTML" not in source and "document.write" not in source
            assert all(len(line) <= 120 for line in source.splitlines()), (
                f"{name}.js: a line is longer than 120 columns"
            )
            for where, needed in _NEEDED.findall(source):
                before = f"{'kit' if where == 'render/' else kind}_{needed}"
                assert order.index(before) < position, f"{module} comes before {before}"
    own = {f"module_{stem}" for stem in written(home)}
    assert own == {module for module in joined if module.startswith("module_")}


def written(home: str) -> set[str]:
    """The page modules that lie in a package's `static/`."""
    return {
        file.name.removesuffix(".js") for file in files(home).joinpath("static").iterdir() if file.name.endswith(".js")
    }


def rows_of(value: Any) -> Any:
    """What `packed_rows` made small, as it was: by code of the tests' own."""
    if isinstance(value, Mapping) and set(value) == {"row_keys", "row_columns"}:
        columns = [rows_of(column) for column in value["row_columns"]]
        number = max(map(len, columns))
        whole = [column * number if len(column) == 1 else column for column in columns]
        return [dict(zip(value["row_keys"], row, strict=True)) for row in zip(*whole, strict=True)]
    if isinstance(value, Mapping):
        return {key: rows_of(inner) for key, inner in value.items()}
    return [rows_of(each) for each in value] if isinstance(value, list) else value
