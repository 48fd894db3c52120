"""What the parts that speak DeepSpeed's language share: where its text goes, in which layout, without which classes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from weftrace.errors import FlopsError, OutputError
from weftrace.flops.deepspeed.strings import LAYOUTS, Layout


def write_text(text: str, output_file: str | None) -> None:
    """To a file, whose folder is made, or to standard output. Raises `OutputError` where the file cannot be written."""
    if not output_file:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(output_file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: the profile cannot be written: {error}") from error


def layout_of(name: str) -> Layout:
    """The layout of that name. Raises `FlopsError` where there is none."""
    if name not in LAYOUTS:
        raise FlopsError(f"no layout {name!r}; choose from {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def places_of(model: nn.Module, types: Sequence[type[nn.Module]]) -> frozenset[str]:
    """Paths of the modules of exactly these classes."""
    return frozenset(path for path, module in model.named_modules() if type(module) in tuple(types))
