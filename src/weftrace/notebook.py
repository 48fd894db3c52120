"""How a value shows itself in a notebook: a short table of what it holds, never its contents."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, cast

from weftrace.units import duration, size

_MAX_ROWS = 40
_MAX_TEXT = 120
_MAX_PICTURE = 1_000_000
_FEW = 8


class InNotebook:
    """Gives a value `_repr_html_`. A class that has more to say than its headline or fields overrides `_describe`."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The first fact, for values whose fields would fill a screen: dataclasses with repr=False."""
        name, text = next(iter(self._describe()), ("", ""))
        return f"<{type(self).__name__}: {name}{': ' * bool(name)}{text}>"

    def in_lines(self) -> str:
        """What a notebook shows, as text: a line a fact."""
        rows = list(self._describe())
        width = max((len(name) for name, _ in rows), default=0) + 2
        return "\n".join([type(self).__name__, *(f"{name:{width}}{text}" for name, text in rows)])

    def _repr_html_(self) -> str:
        rows = list(self._describe())
        more = [("…", f"{len(rows) - _MAX_ROWS} more")] if len(rows) > _MAX_ROWS else []
        cells = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in [*rows[:_MAX_ROWS], *more]
        )
        picture = self._picture()
        source = b64encode(picture.encode()).decode() if len(picture) <= _MAX_PICTURE else ""
        # as an image, so that its styles stay inside and it follows the reader's light or dark
        shown = f'<img alt="" style="max-width:100%" src="data:image/svg+xml;base64,{source}">' if source else ""
        return f"<table><caption>{escape(type(self).__name__)}</caption>{cells}</table>{shown}"

    def _picture(self) -> str:
        """SVG below the table in a notebook; none by default."""
        return ""

    def _describe(self) -> Iterable[tuple[str, str]]:
        """(name, text) of each line. By default a value's headline, else its fields, each in a few words."""
        if isinstance(headline := getattr(self, "headline", None), str):
            return [("headline", headline)]
        fields = dataclasses.fields(cast(Any, self))
        return [(field.name, in_words(getattr(self, field.name), field.name)) for field in fields]


def in_words(value: Any, name: str = "") -> str:
    """A value in a few words: numbers with the unit that the name ends in, the size of what is large."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = duration(value) if name.endswith("_ns") else size(value) if name.endswith("_bytes") else f"{value:,}"
    elif isinstance(value, str) or value is None or isinstance(value, bool):
        text = "–" if value is None else str(value)
    elif hasattr(value, "shape"):
        text = " × ".join(f"{length:,}" for length in value.shape) + f" {type(value).__name__}"
    elif isinstance(value, Mapping | Sequence | set | frozenset):
        is_short = not isinstance(value, Mapping) and len(value) <= _FEW
        is_plain = is_short and all(isinstance(each, int | float | str) for each in value)
        text = ", ".join(str(each) for each in value) if is_plain else f"{len(value):,} entries"
    else:
        text = repr(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
