"""What commands of `weftrace flops` share: torch where it is there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from weftrace.errors import FlopsError

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport


def needs_torch(kind: str = "user") -> Callable[..., FlopsReport]:
    """`run_model`. Raises `FlopsError` where torch is missing or, of a kind of model that transformers builds, that."""
    missing = [name for name in ("torch", "transformers")[: 1 + (kind == "config")] if not _is_there(name)]
    if missing and kind == "config":
        from weftrace.installing import install_command

        raise FlopsError(
            f"a Hugging Face model is counted with torch and transformers; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing: {install_command('hf')}"
        )
    from weftrace.flops import run_model

    return run_model


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it was imported, in a way that says nothing of where from
        return False
