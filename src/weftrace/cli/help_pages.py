"""The help of a command: what it does, its arguments, its options in groups, and examples that can be pasted.

A value is called what it is (TRACE, FILE, N), a flag has none, and no line is wider than the terminal.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

MOST_COLUMNS = 100
_TERM_COLUMNS = 26  # a longer term stands on a line of its own
_ARGUMENTS, _OPTIONS, _COMMANDS = "Arguments", "Options", "Commands"
_EXAMPLES = "[bold]Examples[/bold]"


def print_help(command: Any, context: Any) -> None:
    """Print the help of a command or of a group of them: one of Typer's, in its context."""
    from rich.console import Console

    width = min(shutil.get_terminal_size().columns, MOST_COLUMNS)
    console = Console(width=width, highlight=False)
    for line in help_lines(command, context, width):
        console.print(line, soft_wrap=True)


def help_lines(command: Any, context: Any, width: int) -> Iterator[Text]:
    """The lines of a command's help."""
    yield _text()
    pieces = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from _wrapped(_text("[bold]Usage:[/bold] ") + _plain(pieces), width)
    for paragraph in _paragraphs(command.help or ""):
        yield _text()
        yield from _wrapped(_text(paragraph), width)
    sections = _sections(command, context)
    column = max((len(term) for rows in sections.values() for term, _ in rows if len(term) <= _TERM_COLUMNS), default=0)
    for heading, rows in sections.items():
        yield _text()
        yield _plain(f"{heading}:", "bold")
        for term, meaning in rows:
            yield from _row(term, meaning, column, width)
    yield from _epilog_lines(command.epilog or "", width)
    yield _text()


def argument_name(param: Any) -> str:
    """What an argument is called in usage: TRACE..., [ARGS]..."""
    name = str(param.metavar or param.name.upper())
    return name if param.required or name.startswith("[") else f"[{name}]"


# --- sections ---------------------------------------------------------------------------------------------------------


def _sections(command: Any, context: Any) -> dict[str, list[tuple[str, Text]]]:
    """Heading -> rows of a term and what it means; those without a heading of their own come first."""
    found: dict[str, list[tuple[str, Text]]] = {_ARGUMENTS: [], _OPTIONS: []}
    for param in command.get_params(context):
        if getattr(param, "hidden", False):
            continue
        is_argument = param.param_type_name == "argument"
        heading = getattr(param, "rich_help_panel", None) or (_ARGUMENTS if is_argument else _OPTIONS)
        term = str(param.metavar or param.name.upper()) if is_argument else _option_term(param)
        found.setdefault(heading, []).append((term, _meaning(param)))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            heading = getattr(below, "rich_help_panel", None) or _COMMANDS
            found.setdefault(heading, []).append(
                (name, _text(next(_paragraphs(below.short_help or below.help or ""), "")))
            )
    if len(found[_OPTIONS]) == 1 or hasattr(command, "list_commands"):  # --help alone, or a group's: not the first
        found[_OPTIONS] = found.pop(_OPTIONS)
    return {heading: rows for heading, rows in found.items() if rows}


def _option_term(param: Any) -> str:
    names = sorted(param.opts, key=len)
    term = ", ".join(names) + "".join(f" / {name}" for name in param.secondary_opts)
    return term if param.is_flag else f"{term} {param.metavar or param.name.upper()}"


def _meaning(param: Any) -> Text:
    """What an option means, whether it may be repeated, and its default."""
    said = getattr(param, "help", None) or ""
    if getattr(param, "multiple", False) and "repeatable" not in said.lower():
        said = f"{said} Repeatable."
    found = _text(said)
    if param.param_type_name == "option" and param.required:
        found += _plain(" [required]", "dim")
    elif (default := _default(param)) is not None:
        found += _plain(f" [default: {default}]", "dim")
    return found


def _default(param: Any) -> str | None:
    shown, value = getattr(param, "show_default", False), param.default
    if isinstance(shown, str):
        return shown
    if not shown or isinstance(value, bool):
        return None
    value = value.value if isinstance(value, Enum) else value
    return str(value) if isinstance(value, str | int | float) and value != "" else None


# --- lines ------------------------------------------------------------------------------------------------------------


def _row(term: str, meaning: Text, column: int, width: int) -> Iterator[Text]:
    """A term and beside it what it means; below it, where it is longer than its column."""
    indent = " " * (column + 4)
    lines = list(_wrapped(meaning, width - len(indent)))
    first = _plain("  ") + _plain(term, "cyan")
    if len(term) > column:
        yield from (_plain("  ") + line for line in _wrapped(_plain(term, "cyan"), width - 2))
    elif lines:
        yield first + _plain(" " * (len(indent) - len(first))) + lines.pop(0)
    else:
        yield first
    yield from (_plain(indent) + line for line in lines)


def _epilog_lines(epilog: str, width: int) -> Iterator[Text]:
    """Paragraphs. A command has its comment on the line above it."""
    for paragraph in _paragraphs(epilog):
        if not paragraph.startswith("weftrace "):
            yield _text()
            yield from _wrapped(_text(paragraph.replace(_EXAMPLES, f"{_EXAMPLES}:")), width)
            continue
        command, _, comment = (part.strip() for part in re.sub(r" {2,}", "\0", paragraph, count=1).partition("\0"))
        if comment:
            yield from (_plain("  # ", "dim") + line for line in _wrapped(_plain(comment, "dim"), width - 4))
        yield from map(_plain, _command_lines(command, width))


def _command_lines(command: str, width: int) -> Iterator[str]:
    """A command, broken before options where it is long, so that it can still be pasted."""
    line = "  "
    for part in re.split(r" (?=--?\w|\| |\")", command):
        if len(line) + len(part) > width - 3 and line.strip():
            yield f"{line.rstrip()} \\"
            line = "      "
        line += f"{part} "
    yield line.rstrip()


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.strip():
            yield re.sub(r"\s*\n\s*", " ", paragraph.strip())


def _wrapped(text: Text, width: int) -> Iterator[Text]:
    from rich.console import Console

    for line in text.wrap(Console(width=width), width) if text.plain else ():
        line.rstrip()
        yield line


def _text(markup: str = "") -> Text:
    from rich.text import Text

    return Text.from_markup(markup)


def _plain(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style)
