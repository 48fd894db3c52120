"""What the terminal, the pages and the docs say alike of critical paths and what-ifs, and what the terms mean."""

from __future__ import annotations


def off(error: float) -> str:
    """An error with its sign: "+0.82 %"."""
    return f"{100 * error:+.2f} %"
