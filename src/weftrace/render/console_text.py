"""Text from a trace made fit for a terminal: nothing in a name may colour, move or forge what is printed.

Names in a trace are untrusted. They reach the console only as `rich.text.Text` built from `clean`, never as a string
that rich would read for markup, and with `TextOnly` around all that is printed, also for consoles without Unicode.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from weftrace.files.plain_text import clean as clean
from weftrace.files.plain_text import without_surrogates

# One column for one column, so that a table or a picture keeps its shape.
_ASCII = str.maketrans(
    "µμ–—−±·×÷…≤≥→◀▶‹›⊃∩⌊⌋†▴▾“”’■█▓▒░▞▏│┃╷─━╌┼┬├▁▂▃▄▅▆▇",
    'uu---~.x/~<>><><>>&[]+^v""\'##%:.m||||-=-+++.::***#',
)


def fitted(text: str, width: int) -> str:
    """`text` cut or padded to exactly `width` columns (a wide character takes two)."""
    return set_cell_size(text, max(width, 0))


def shorten_middle(text: str, width: int) -> str:
    """`text` in at most `width` columns; what does not fit is taken out of the middle, where `…` stands for it.

    The end of a name gets a third of the room: template arguments and variants stand there.
    """
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) // 3
    head = width - 1 - tail
    start = _first_columns(text, head)
    end = _first_columns(text[::-1], tail)[::-1]
    return f"{start}…{end}"


def shorten_start(text: str, width: int) -> str:
    """The end of `text`, in at most `width` columns; `…` stands for what does not fit."""
    return text if cell_len(text) <= width else ("…" + _first_columns(text[::-1], width - 1)[::-1])[:width]


def _first_columns(text: str, width: int) -> str:
    columns = 0
    for at, character in enumerate(text):
        columns += cell_len(character)
        if columns > width:
            return text[:at]
    return text


def kernel_label(name: str, width: int | None = None) -> str:
    """A kernel's name for a person: `void` and the list of parameters left out, then what it takes to fit `width`.

    CUTLASS's wrapper goes first (`cutlass::device_kernel<Kernel>` to `Kernel`: only what it wraps tells two of them
    apart), then namespaces but the last (`gemm::fp8::Kernel` to `fp8::Kernel`), then all of them, then the middle.

    Only a last group of parentheses that follows a name directly is a list of parameters, so `Memcpy DtoH (Device ->
    Pinned)` keeps its own.
    """
    label = clean(name).strip().removeprefix("void ")
    label = _without_parameters(label) or label
    if width is None or cell_len(label) <= width:
        return label
    wrapped = re.fullmatch(r"cutlass::device_kernel<(.*)>", label)
    if wrapped:
        label = wrapped[1].strip()
    # A word is tried from its start alone and given up whole: from each of its letters, a long name takes a minute.
    namespace = r"(?:\(anonymous namespace\)|(?<!\w)\w++)::"
    last_kept = re.sub(rf"(?:{namespace})+(?={namespace})", "", label)
    fits = cell_len(last_kept) <= width or cell_len(last_kept.split("<")[0]) <= width // 2
    return shorten_middle(last_kept if fits or wrapped else re.sub(namespace, "", label), width)


def _without_parameters(name: str) -> str:
    for suffix in (" const", " [clone .kd]", ".kd"):
        name = name.removesuffix(suffix)
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            follows_name = at > 0 and not name[at - 1].isspace() and name[at - 1] not in ":<,("
            return name[:at] if follows_name else name
    return name


# What a runner of GitHub Actions or Azure Pipelines takes for a command in a log: a word after two colons that begin a
# line, and these brackets anywhere.
_COLONS = re.compile(r"(?m)^([^\S\n]*):(?=:\w)")
_BRACKETS = re.compile(r"##(?=(?:vso)?\[)")


@dataclass(frozen=True, slots=True)
class TextOnly:
    """A renderable in lines of `clean` text, none of which is a command to a runner of CI.

    is_ascii: column for column; what has no likeness becomes `?`.
    """

    content: RenderableType
    is_ascii: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        begun = ""  # of the line, without blanks
        for text, style, control in console.render(self.content, options):
            shown = ascii_text(text) if self.is_ascii else text
            if shown != "\n" and not control:
                shown = "\n".join(map(clean, shown.split("\n")))
                shown = _BRACKETS.sub(r"#\\x23", shown)
                if not begun or "\n" in shown:
                    shown = _COLONS.sub(r"\1\\x3a", shown)
            begun = "" if shown.endswith("\n") else begun + shown.strip()
            yield Segment(shown, style, control)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self.content)


def ascii_text(text: str) -> str:
    """`text` in ASCII, taking the same number of columns; a byte of a file's name that is no UTF-8 becomes `\\xff`."""
    return text if text.isascii() else "".join(map(_ascii_of, without_surrogates(text).translate(_ASCII)))


def _ascii_of(character: str) -> str:
    if character.isascii():
        return character
    plain = unicodedata.normalize("NFKD", character)[0]  # e of é, 2 of ²
    return plain if plain.isascii() and cell_len(character) == 1 else "?" * cell_len(character)


def suited(content: RenderableType, console: Console) -> RenderableType:
    """`content` as text alone, in ASCII where the console's encoding is not a UTF."""
    return TextOnly(content, is_ascii=console.options.ascii_only)


def joined(parts: Iterable[Text | str], separator: str = "") -> Text:
    """Pieces of text in one; strings are taken as they are, never read for markup."""
    return Text(separator).join(Text(part) if isinstance(part, str) else part for part in parts)
