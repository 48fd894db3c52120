"""How a field of a request is asked for on the command line: a mark beside its type, which `cli.requests` reads.

@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    ep: Annotated[Positive | None, Option("GPUs per group of experts.", metavar="N")] = None
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """help: a sentence; without it, the description in the field's `Meta`. flags: by default `--name-of-the-field`.

    completes: the words that it may be, or "package.module:function", from what is typed so far to what it may become.
    is_argument: it has no flag but a place. panel: heading in the help. shows_default: by default wherever the default
    is not None; a text is shown in its place. reads: makes the field's value of the option's text.
    """

    help: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    completes: str = ""
    is_argument: bool = False
    panel: str | None = None
    shows_default: bool | str | None = None
    reads: Callable[[str], Any] | None = None
