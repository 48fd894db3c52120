"""What every wing's pages promise: their modules are joined in order, none writes HTML from text, none is left over;
and what a page holds, read back."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np

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


def page_blocks(html: str) -> dict[str, Any]:
    """The page's JSON blocks by id, inflated; rows that stand as columns still do (`rows_of`)."""
    found = re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', html, re.DOTALL)
    return {name: _inflated_block(json.loads(text)) for name, text in found}


def _inflated_block(value: Any) -> Any:
    return json.loads(_inflated(value["deflated"])) if set(value) == {"deflated", "size"} else value


def _inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)


def numbers_of(column: Any) -> Any:
    """The numbers of a packed column, as int64: by code of the tests' own."""
    if "deflated" not in column:
        return np.frombuffer(base64.b64decode(column["data"]), f"<{column['type']}").astype(np.int64)
    width = int(column["type"][1])
    planes = np.frombuffer(_inflated(column["data"]), np.uint8)
    whole = np.ascontiguousarray(planes.reshape(width, -1).T).view(f"<u{width}").ravel()
    return (np.cumsum(whole, dtype=whole.dtype) if column["deflated"] == "steps" else whole).astype(np.int64)


def rows_of(value: Any) -> Any:
    """What `packed_rows` made small, as it was: by code of the tests' own."""
    if isinstance(value, Mapping) and set(value) == {"numbers", "from"}:
        return (numbers_of(value["numbers"]) + value["from"]).tolist()
    if isinstance(value, Mapping) and "row_columns" in value:
        columns = [rows_of(column) for column in value["row_columns"]]
        number = max(map(len, columns))
        whole = [column * number if len(column) == 1 else column for column in columns]
        cells = map(list, zip(*whole, strict=True))
        return [dict(zip(value["row_keys"], row, strict=True)) for row in cells] if "row_keys" in value else [*cells]
    if isinstance(value, Mapping):
        return {key: rows_of(inner) for key, inner in value.items()}
    return [rows_of(each) for each in value] if isinstance(value, list) else value
