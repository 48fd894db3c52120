"""What SVG files of all wings are made of: their type, their two themes, numbers and texts."""

from __future__ import annotations

from html import escape

from weftrace.render.console_text import clean

FONT = "Inter,-apple-system,'Segoe UI',Roboto,'Noto Sans','Liberation Sans',Arial,sans-serif"
#: Light or dark follows the reader's system.
THEMES = {
    "light": {"panel": "#ffffff", "text": "#15181d", "muted": "#5a6270", "line": "#e2e5ea"},
    "dark": {"panel": "#14181f", "text": "#e8ebf0", "muted": "#9aa4b2", "line": "#262c36"},
}


def px(value: float) -> str:
    """Pixels to the hundredth, in the fewest characters."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def svg_text(text: str) -> str:
    """A text, as it may stand between tags."""
    return escape(clean(text), quote=False)
