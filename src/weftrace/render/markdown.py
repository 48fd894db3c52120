"""Markdown in which a name from a trace is a text and nothing else: it marks, links and mentions nothing, and breaks no
table. What a forge acts on even where it is escaped (an @name, an address, #12) stands as code, where none acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from weftrace.files.plain_text import clean
from weftrace.render.console_text import shorten_middle

#: What marks something; an underscore within a word does not.
_MARKS = re.compile(r"[\\`*\[\]<>#~]|(?<![^\W_])_|_(?![^\W_])")
#: What opens a list, a heading or a forge's command where a line begins with it.
_OPENING = re.compile(r"[-+=/]|(?<=\d)[.)](?=\s|$)")
_WORDS = re.compile(r"[^\s|]+")
#: A word that GitHub or GitLab makes a link, a mention, a reference or a formula of: addresses; @name; #12, !12, %12,
#: ~label and $12; GH-12; [epic:12]; a commit.
_LIVE = re.compile(
    r"""[@$] | :// | www\. | [#!%&~][\w"{] | \bGH-\d | [\[*]\w+:\w
    | \b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST = 2_000  # characters of a text: of a longer one nobody reads the middle


class Markdown(str):
    """Text that is Markdown already, and stands in a table as it is."""

    __slots__ = ()


def markdown_table(
    heads: Sequence[str], lines: Iterable[Sequence[str]], *, are_numbers: Sequence[bool] | None = None
) -> str:
    """A pipe table of texts, which are escaped here, and of Markdown. are_numbers: the columns that stand to the right;
    all but the first, where nothing is said."""
    to_right = are_numbers or [False, *(True for _ in heads[1:])]
    cells = [[_cell(each) for each in line] for line in (heads, *lines)]
    cells.insert(1, ["--:" if right else "---" for right in to_right])
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def markdown_text(text: str) -> Markdown:
    """A text as a line of Markdown, or a part of one."""
    shown = _inline(text)
    opening = _OPENING.search(shown, 0, 12)
    if opening is None or shown[: opening.start()].strip("0123456789"):
        return Markdown(shown)
    return Markdown(f"{shown[: opening.start()]}\\{shown[opening.start() :]}")


def markdown_code(text: str) -> Markdown:
    """A text as code. A "|" stands outside of it, because only tables read one that is escaped in code."""
    shown = " ".join(clean(text).split())
    return Markdown(r"\|".join(_code(part) if part else "" for part in shown.split("|")))


def _cell(text: str) -> str:
    return text if isinstance(text, Markdown) else _inline(text)


def _inline(text: str) -> str:
    shown = shorten_middle(clean(text).strip(), _LONGEST)
    return _WORDS.sub(_word, shown).replace("|", r"\|")


def _word(found: re.Match[str]) -> str:
    word = found[0]
    return _code(word) if _LIVE.search(word) else _MARKS.sub(r"\\\g<0>", word)


def _code(text: str) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " * (text[0] == "`" or text[-1] == "`")
    return f"{fence}{space}{text}{space}{fence}"
