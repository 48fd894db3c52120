"""A Hugging Face configuration, read before anything is made of it: what is wrong with the file comes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weftrace.errors import FlopsError
from weftrace.files.documents import read_text
from weftrace.installing import install_command, upgrade_command


def read_config(source: str) -> Any:
    """The configuration object of a config.json or of the folder that holds one; nothing is downloaded.

    Raises `FlopsError`, in one line, where the file is not there, holds no JSON object, names a model that this version
    of transformers does not know, or transformers is missing.
    """
    file = Path(source)
    file = file / "config.json" if file.is_dir() else file
    if not file.exists():
        raise FlopsError(f"{file}: no such file; give a config.json or a folder that holds one (nothing is downloaded)")
    try:
        found = json.loads(read_text(file, error=FlopsError))
    except (ValueError, RecursionError) as error:
        raise FlopsError(f"{file}: is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise FlopsError(f"{file}: a configuration is a JSON object with a model_type, not {_kind(found)}")
    transformers = find_transformers()
    name = found.get("model_type")
    if isinstance(name, str) and name not in transformers.CONFIG_MAPPING:
        raise FlopsError(
            f"{file}: transformers {transformers.__version__} does not know the model_type {name!r}. A newer one may: "
            f"{upgrade_command('transformers')}; your own class is counted as ./file.py:build"
        )
    try:
        return transformers.AutoConfig.from_pretrained(str(file), local_files_only=True)
    except Exception as error:  # its checks raise errors of its dependencies too
        hint = "" if name else ". It needs a model_type, which says what to build"
        raise FlopsError(
            f"{file}: transformers cannot read this configuration: {_first_sentence(error)}{hint}"
        ) from error


def find_transformers() -> Any:
    """The transformers package. Raises `FlopsError`, with what to install, where it is missing."""
    try:
        import transformers
    except ImportError as error:
        raise FlopsError(
            f"a Hugging Face model needs transformers, which is not installed: {install_command('hf')}"
        ) from error
    return transformers


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}.get(type(value), "a number")


def _first_sentence(error: BaseException) -> str:
    """What is wrong, without the advice that follows it."""
    text = " ".join(str(error).split())
    return text.partition(". ")[0].removesuffix(".") or type(error).__name__
