"""Plain English where a user reads: `python -m tests.plain_english [FILE…]` prints phrases to change, and what to say.

It reads README.md, the documents in docs/, the site's start page, what contributors read, commands' help texts, and
the strings of src/ (Python, JavaScript, TOML, the pages' templates). Code in a text counts as one word.
plain_english.toml lists the phrases. If a pattern finds a phrase that is fine, make the pattern narrower or rephrase:
there is no mark to switch it off.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

#: A sentence of more words is hard to follow: make it two.
MOST_WORDS = 35


@dataclass(frozen=True)
class Idiom:
    """A phrase that stops readers: how to find it, what to say instead, and an example of it.

    pattern: a regular expression, matched without regard to case, on one line.
    except_in: files in which the phrase is a term, or a value of documents.
    """

    pattern: str
    instead: str
    example: str
    except_in: tuple[str, ...] = ()

    @property
    def found(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.IGNORECASE | re.MULTILINE)


_LIST = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
#: Documents and packages that still have phrases to change; it only ever gets shorter.
EXCEPTIONS: list[str] = _LIST["exceptions"]
IDIOMS = [
    Idiom(
        each["pattern"].replace("PER", _LIST["PER"]).replace("VERB", _LIST["VERB"]),
        each["instead"],
        each["example"],
        tuple(each.get("except_in", ())),
    )
    for each in _LIST["idioms"]
]


class Text(NamedTuple):
    """A run of prose in a file; lines: the line of the file in which each line of it is."""

    words: str
    lines: list[int]

    def line(self, at: int) -> int:
        return self.lines[min(self.words.count("\n", 0, at), len(self.lines) - 1)]


class Hit(NamedTuple):
    file: str
    line: int
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: “{self.phrase}”: {self.instead}"


def files() -> list[Path]:
    """All that users and contributors read."""
    documents = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "website/index.md")]
    package = [path for kind in ("py", "js", "toml", "html", "md") for path in ROOT.glob(f"src/weftrace/**/*.{kind}")]
    return [*documents, *sorted(ROOT.glob("docs/**/*.md")), *sorted(package)]


def texts(path: Path) -> Iterator[Text]:
    """The prose in a file."""
    kinds = {".md": _of_markdown, ".py": _of_python, ".js": _of_javascript, ".toml": _of_toml, ".html": _of_html}
    return kinds[path.suffix](path)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _of_markdown(path: Path) -> Iterator[Text]:
    """Paragraphs, items of lists and cells of tables, without code, comments and the targets of links."""
    text = re.sub(r"^( *)```.*?^ *```", _blank, path.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", _blank, text, flags=re.DOTALL)
    text = re.sub(r"(``.+?``|`[^`]+`)", lambda m: "CODE" + _blank(m), text)
    text = re.sub(r"\]\([^)]*\)", "", text).replace("[", "").replace("*", "")
    part: list[str] = []
    lines: list[int] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        starts = not line.strip() or re.match(r"\s*([-+>|#]|\d+\. )|    ", line)
        if starts and part:
            yield Text("\n".join(part), lines)
            part, lines = [], []
        if line.startswith("    ") and not re.match(r"\s*([-+]|\d+\.) ", line) and not part:
            continue  # a picture or output
        if line.startswith("|"):
            yield from (Text(cell.strip(), [number]) for cell in line.split("|") if cell.strip())
        elif line.strip():
            part.append(line.strip(" #>"))
            lines.append(number)


def _of_python(path: Path) -> Iterator[Text]:
    """String constants, f-strings with a word in place of each value, and the docstrings of commands (help)."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    apart = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    apart |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    if "cli" in path.parts:
        commands = (node.body[0] for node in nodes if isinstance(node, ast.FunctionDef) and "run" in node.name)
        apart -= {id(first.value) for first in commands if isinstance(first, ast.Expr)}
    for node in nodes:
        if id(node) in apart:
            continue
        words = ""
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = inspect.cleandoc(node.value)
        if " " in words.strip() and isinstance(node, ast.expr):
            one_line = node.lineno == node.end_lineno or "\n" not in words.strip()
            yield Text(words, [node.lineno] if one_line else list(range(node.lineno, (node.end_lineno or 0) + 1)))


def _of_javascript(path: Path) -> Iterator[Text]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.strip().startswith(("//", "*", "/*")):
            continue
        for match in re.finditer(r'"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`', line):
            words = re.sub(r"\$\{[^}]*\}", "VALUE", match[1] or match[2] or "")
            if " " in words.strip():
                yield Text(words, [number])


def _of_toml(path: Path) -> Iterator[Text]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        for match in re.finditer(r'"((?:[^"\\]|\\.)*)"', "" if line.startswith("#") else line):
            if " " in match[1].strip():
                yield Text(match[1], [number])


def _of_html(path: Path) -> Iterator[Text]:
    """The text of a page's template, and its tooltips, without what the template fills in."""
    text = re.sub(r"{#.*?#}|{%.*?%}|<(script|style)\b.*?</\1>", _blank, path.read_text(), flags=re.DOTALL)
    text = re.sub(r"{{.*?}}", "VALUE", text)
    for match in re.finditer(r'>([^<>]* [^<>]*)<|(?:title|aria-label)="([^"]*)"', text):
        yield Text(match[1] or match[2], [text.count("\n", 0, match.start()) + 1])


_SENTENCE = re.compile(r"(?<=;) |(?<=[.!?:]) (?=[A-Z0-9“*\[(])|(?<=[.!?:;])\n|\n(?= *\n| *[-+*] )")
#: A long text without any of these is a list of names.
_PROSE = {"the", "a", "an", "is", "are", "that"}
_FOUND = [(idiom, idiom.found) for idiom in IDIOMS]


def hits_in(found_texts: Iterable[Text], file: str) -> Iterator[Hit]:
    """The phrases of a file's texts that are to change. All its texts are searched at once, for speed."""
    in_file = list(found_texts)
    starts = [0, *accumulate(len(text.words) + 1 for text in in_file)]
    joined = "\n".join(text.words.replace("\n", " ") for text in in_file)
    for idiom, found in _FOUND:
        for match in found.finditer(joined) if file not in idiom.except_in else ():
            number = bisect_right(starts, match.start()) - 1
            line = in_file[number].line(match.start() - starts[number])
            yield Hit(file, line, match[0].strip(), idiom.instead)
    for text in in_file:
        at = 0
        for end in [*(match.end() for match in _SENTENCE.finditer(text.words)), len(text.words)]:
            if end - at > 2 * MOST_WORDS:
                words = re.findall(r"\b(?!CODE\b)[\w'’-]*[A-Za-z][\w'’-]*", text.words[at:end])
                if len(words) > MOST_WORDS and _PROSE & {word.lower() for word in words}:
                    yield Hit(
                        file, text.line(at), " ".join(words[:6]) + " …", f"{len(words)} words: make it two sentences"
                    )
            at = end


def hits(paths: Iterable[Path]) -> list[Hit]:
    """All phrases to change in some files."""
    return [hit for path in paths for hit in hits_in(texts(path), str(path.relative_to(ROOT)))]


def excepted(file: str) -> str | None:
    """The exception that a file is under, a package if need be."""
    return next((name for name in EXCEPTIONS if file == name or file.startswith(f"{name}/")), None)


if __name__ == "__main__":
    everything = hits([Path(name).resolve() for name in sys.argv[1:]] or files())
    print(*everything, sep="\n")
    print(f"{len(everything)} phrases in {len({hit.file for hit in everything})} files", file=sys.stderr)
    sys.exit(bool(everything))
