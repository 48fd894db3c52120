"""Names that a trace can hold and that a reader of SVG, CSV, JSON, Markdown or HTML would take for something else; and
a reader of each, which knows nothing of how weftrace writes."""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from weftrace.errors import WeftraceError

#: What is tried, whole and joined at random.
PIECES = (
    # XML and HTML
    "\uffff", "\ufffe", "\x00", "\x0b", "\x1b[31m", "\x7f", "\x85", "\ud800", "\udfff", "\ufdd0", "\U0001ffff",
    "]]>", "<!--", "-->", "<![CDATA[", "&#0;", "&bogus;", "</title>", "</style>", "</svg><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>", '" onload="alert(1)', "'><b>", "</script>", "<svg/onload=alert(1)>", "{{7*7}}",
    # spreadsheets
    "=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", '=HYPERLINK("http://evil.example","x")', ";=1;",
    "=cmd|' /C calc'!A0", "-", '"', '","', '"=1', "＝1+1", "a\r\n=b", ",=1", "'=1",
    # Markdown
    "@everyone", "a@evil.example", "org/repo#12", "#12", "GH-12", "!12", "%12", "~bug", "$12", "&12", "[epic:12]",
    "[[page]]", "[a](http://evil.example)", "![a](//evil.example/p.png)", "<http://evil.example>", "www.evil.example",
    "https://evil.example/?a|b", "ftp://evil.example", "mailto:a@evil.example", "[a]: http://evil.example", "[^1]",
    "|", "| a | b |", "\\|", "\\", "`", "``", "```\ncode", "`@a`", "a`@b``c", "**b**", "__b__", "~~s~~", "*", "_a_",
    "# h", "- l", "+ l", "1. l", "12) l", "> q", "---", "===", "***", "/close", "&lt;b&gt;", "$x$", ":+1:", "|---|",
    "<details>", "</details>", "<summary>", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "    code", "\tcode", "a  \nb",
    # ordinary, long, and of other scripts
    "void at::native::vec<4, at::Half>(int, float*)", "ProfilerStep#12", "nccl:all_reduce", "naïve", "数据加载",
    "שלום", "\u202egnp.exe", "👩\u200d💻", "e\u0301", "\u2028", "\u200b", "Ω" * 40, "a" * 300, "a b " * 60, "",
)  # fmt: skip


def hostile_names(number: int, seed: int = 0) -> list[str]:
    """So many names: each piece, then pieces joined at random."""
    rng = random.Random(seed)
    joined = ("".join(rng.choices((*PIECES, "kernel", " ", "::"), k=rng.randint(2, 5))) for _ in range(number))
    return [*PIECES, *joined][:number]


def read(path: Path) -> None:
    """Raises where a file is not what its ending says, or holds what acts."""
    data = path.read_bytes()
    text = data.decode("utf-8")
    match path.suffix:
        case ".svg":
            _read_svg(text)
        case ".csv":
            _read_csv(text)
        case ".md":
            _read_markdown(text)
        case ".json":
            json.loads(text, parse_constant=_no_number)
        case ".html":
            _read_html(text)


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def _read_svg(text: str) -> None:
    root = ElementTree.fromstring(text)
    tags = {each.tag.removeprefix("{http://www.w3.org/2000/svg}") for each in root.iter()}
    assert tags <= {"svg", "title", "style", "g", "rect", "path", "text"}, tags
    assert not [key for each in root.iter() for key in each.attrib if key.startswith("on") or "href" in key]


_RUNS = re.compile(r"\s*[=+\-@＝＋－＠]")


def _read_csv(text: str) -> None:
    """Under each separator that a spreadsheet may use; the number of cells of that which is the file's."""
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert len({len(row) for row in rows if row}) <= 1
    for separator in ",;\t":
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            acting = [cell for cell in row if _RUNS.match(cell) and not _is_number(cell.partition(",")[0])]
            assert not acting, acting


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: What a forge acts on in a text, wherever no code stands (GitHub's and GitLab's documentation of references).
_ACTS = re.compile(
    r"@\w|://|www\.\w|(?<!\w)[#!%&~$]\w|\w#\d|\bGH-\d|\[\w+:\d|\$\S+\$|(?<![\w.])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}\b"
)
_TAGS = re.compile(r"</?(details|summary)>")


def _read_markdown(text: str) -> None:
    text = re.sub(r"^\*(weftrace [\w.; ,]+)\*$", r"\1", text, flags=re.MULTILINE)  # our own emphasis
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    widths: list[int] = []
    for token in tokens:
        if token.type == "html_block":
            left = _TAGS.sub("", token.content)
            assert "<" not in left, token.content
        assert token.type not in ("code_block", "hr", "blockquote_open") or token.markup == ">", token
        assert token.type != "heading_open" or token.markup.startswith("#"), "a heading that is underlined"
        widths += [0] * (token.type == "tr_open")
        if token.type in ("th_open", "td_open"):
            widths[-1] += 1
        for inline in token.children or ():
            assert inline.type not in ("link_open", "image", "html_inline", "s_open", "em_open", "hardbreak"), inline
        shown = "".join(each.content for each in token.children or () if each.type != "code_inline")
        assert not (found := _ACTS.search(shown)), (found, shown)
    # a line that begins with "|" is a row of a table, and has as many cells as its table: cells too many are not shown
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in block.splitlines()}) == 1, block
    assert not re.search(r"^/\w", text, re.MULTILINE), "a command of a forge"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.acting: list[str] = []
        self.blocks: list[str] = []
        self.is_block = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.acting += [name for name, value in attrs if name.startswith("on") or (name == "src" and value)]
        self.is_block = tag == "script" and ("type", "application/json") in attrs

    def handle_data(self, data: str) -> None:
        if self.is_block:
            self.blocks.append(data)
            self.is_block = False


def _read_html(text: str) -> None:
    found = _Tags()
    found.feed(text)
    found.close()
    scripts = found.tags["script"] - len(found.blocks)
    assert scripts == 1 and found.tags["style"] == 1 and not found.acting, (found.tags, found.acting)
    assert not found.tags["iframe"] and not found.tags["img"], found.tags
    for block in found.blocks:
        json.loads(block, parse_constant=_no_number)


def renamed(document: Any, names: Iterable[str], load: Callable[[Any], object]) -> Any:
    """A copy of a document in which every text that may be another one is one of the names.

    load: raises where a document may not be so. Texts at the same place, whatever their row, are tried together.
    """
    changed = copy.deepcopy(document)
    places: dict[tuple[object, ...], list[tuple[Any, Any]]] = {}
    for at, holder, key in _texts(changed, ()):
        places.setdefault(at, []).append((holder, key))
    taken = iter(names)
    for at, found in places.items():
        if at[0] in ("schema", "weftrace", "sha256"):
            continue
        was = [holder[key] for holder, key in found]
        for holder, key in found:
            holder[key] = next(taken)
        try:
            load(changed)
        except WeftraceError:
            for (holder, key), text in zip(found, was, strict=True):
                holder[key] = text
    return changed


def _texts(value: Any, at: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], Any, Any]]:
    """(place without its rows, what holds it, under which key) of each text."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        place = (*at, key if isinstance(value, dict) else None)
        if isinstance(inner, str):
            yield place, value, key
        elif isinstance(inner, dict | list):
            yield from _texts(inner, place)
