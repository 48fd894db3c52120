"""What does a DeepSpeed configuration ask of a profile? Its "flops_profiler" block, and the batch sizes beside it.

Keys and defaults are those of DeepSpeed 0.19.8; every other block of the file is left alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from weftrace.errors import FlopsError
from weftrace.files.documents import read_text

BLOCK = "flops_profiler"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedFlopsConfig:
    """The block, and the sizes of a step.

    enabled: profile at all. profile_step: optimizer steps that are complete when the profiled one begins (1: the second
    step is profiled). module_depth: levels below the root in the aggregated profile, -1 for all. top_modules: classes
    listed at each depth. detailed: print the tree. output_file: None is standard output.
    recompute_fwd_factor: above 0, recomputation counts in the FLOPS of the backward (what was recomputed is counted,
    not assumed). train_batch_size, train_micro_batch_size_per_gpu, gradient_accumulation_steps: None where the file
    does not say, or says "auto".
    """

    enabled: bool = False
    recompute_fwd_factor: float = 0.0
    profile_step: int = 1
    module_depth: int = -1
    top_modules: int = 1
    detailed: bool = True
    output_file: str | None = None
    train_batch_size: int | None = None
    train_micro_batch_size_per_gpu: int | None = None
    gradient_accumulation_steps: int | None = None


_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_FLAGS = ("enabled", "detailed")
_LOWEST = {"profile_step": 0, "module_depth": -1, "top_modules": 1}
_KEYS = (*_FLAGS, *_LOWEST, "recompute_fwd_factor", "output_file")


def read_deepspeed_config(path: str | Path) -> DeepSpeedFlopsConfig:
    """The configuration in a JSON file. Raises `FlopsError` where it cannot be read, has no block, or a value is
    wrong.
    """
    text = read_text(path, error=FlopsError)
    try:
        document = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits; lists in lists
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise FlopsError(
            f"{path}: not JSON: {why}. DeepSpeed takes no comments and no trailing commas either"
        ) from error
    return parse_deepspeed_config(document, str(path))


def parse_deepspeed_config(document: Any, where: str = "the DeepSpeed configuration") -> DeepSpeedFlopsConfig:
    """The same of a dictionary, as is given to `deepspeed.initialize(config=...)`. where: named in errors."""
    if not isinstance(document, Mapping):
        raise FlopsError(f"{where}: a DeepSpeed configuration is a JSON object, not {_kind(document)}")
    if BLOCK not in document:
        near = get_close_matches(BLOCK, [str(key) for key in document], n=1)
        hint = (
            f"; did you mean {BLOCK!r} where it says {near[0]!r}?" if near else f'; add "{BLOCK}": {{"enabled": true}}'
        )
        raise FlopsError(f"{where}: no block {BLOCK!r}{hint}")
    block = document[BLOCK]
    if not isinstance(block, Mapping):
        raise FlopsError(f"{where}: {BLOCK} is a JSON object, not {_kind(block)}")
    values: dict[str, Any] = {str(key): _checked(where, str(key), value) for key, value in block.items()}
    values |= {name: _size(where, name, document[name]) for name in _SIZES if name in document}
    return DeepSpeedFlopsConfig(**values)


def _checked(where: str, key: str, value: Any) -> Any:
    at = f"{where}: {BLOCK}.{key}"
    if key not in _KEYS:
        near = get_close_matches(key, _KEYS, n=1)
        raise FlopsError(
            f"{at}: no such key; " + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_KEYS)}")
        )
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise FlopsError(f"{at}: true or false, not {_kind(value)}")
    elif key in _LOWEST:
        if isinstance(value, bool) or not isinstance(value, int):
            raise FlopsError(f"{at}: a whole number, not {_kind(value)}")
        if value < _LOWEST[key]:
            raise FlopsError(
                f"{at}: {value} is below {_LOWEST[key]}" + (", which stands for all" if value < -1 else "")
            )
    elif key == "recompute_fwd_factor":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise FlopsError(f"{at}: a number, not {_kind(value)}")
        if not 0 <= value < float("inf"):
            raise FlopsError(f"{at}: {value} is no factor; 0 leaves recomputation out, 1 is a whole forward")
        return float(value)
    elif value is not None and not isinstance(value, str):
        raise FlopsError(f"{at}: a path or null, not {_kind(value)}")
    return (value or None) if key == "output_file" else value


def _size(where: str, name: str, value: Any) -> int | None:
    if value is None or value == "auto":  # filled in by Hugging Face's Trainer
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FlopsError(f'{where}: {name}: a whole number above 0 or "auto", not {_kind(value)}')
    return value


def _once(pairs: list[tuple[str, Any]], path: str | Path) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise FlopsError(f"{path}: the key {twice!r} stands twice in one object; remove one")
    return found


def _kind(value: Any) -> str:
    return "null" if value is None else f"{json.dumps(value, default=repr)[:60]}"
