"""The checks of examples/pipeline_gpu.py, on processes of a living set."""

from __future__ import annotations

import importlib.util
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[3]


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("pipeline_gpu", ROOT / "examples" / "pipeline_gpu.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["pipeline_gpu"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = _loaded()


def checks() -> list[Any]:
    every = {"families": list(script.FAMILIES), "ways": list(script.WAYS), "checks": list(script.CHECKS)}
    return list(script.checks_of(Namespace(processes=4, **every)))


def checked(group: Any, at: int, folder: str, steps: int) -> dict[str, float]:
    """The at-th of them."""
    check = checks()[at]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found: dict[str, float] = script.CHECKS[check.kind](check, folder, steps, torch.device("cpu"))
        return found
    finally:
        torch.set_default_dtype(default)
