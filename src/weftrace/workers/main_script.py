"""What a new process needs of the program that started it: nothing, or a module of it, run once more."""

from __future__ import annotations

import ast
import linecache
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType


@contextmanager
def main_hidden(function: Callable[..., object]) -> Iterator[None]:
    """A new process imports the script that started it. A script without `if __name__ == "__main__"` would then do
    everything once more in each process, and fail; so the script is hidden from them where nothing of it is needed.
    """
    if b"__main__" in pickle.dumps(function):
        yield
        return
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def only_here(function: Callable[..., object]) -> str | None:
    """Why no other process of this machine can run the function, and what would help; None where others can."""
    try:
        pickled = pickle.dumps(function)
    except Exception as error:  # what __reduce__ raises is up to each type
        return (
            f"the function cannot be sent to other processes ({_said(error)}). Processes import it by its name: define "
            "it with `def` at the top level of a module, and give it more with functools.partial"
        )
    if (importing := _under_way().keys() - {"__main__"}) and (needed := importing & _strings_in(pickled)):
        return (
            f"other processes import {min(needed)} to find the function, and would make this call again, because it is "
            "at its top level. Put the call into a function, and call that when the import is done"
        )
    if b"__main__" not in pickled:
        return None
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None or not Path(path).is_file():
        return (
            "the function is defined in a notebook or at a prompt, which other processes cannot import. Put it into a "
            "file of its own, mine.py say, and `from mine import` it"
        )
    if _is_run_by_import(path):
        name = Path(path).name
        return (
            f"other processes import {name} to find the function, and would run all of it again. Put what it does, and "
            f'the call at line {_under_way()["__main__"]}, under\n    if __name__ == "__main__":\n        ...'
        )
    return None


def _strings_in(pickled: bytes) -> set[str]:
    """Names of modules among them."""
    import pickletools  # which takes as long to import as all else of this file

    return {argument for _, argument, _ in pickletools.genops(pickled) if isinstance(argument, str)}


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _under_way() -> dict[str, int]:
    """Modules whose top level is being run, by name, each with the line that it is at; of the main thread."""
    found: dict[str, int] = {}
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            found[frame.f_globals.get("__name__", "")] = frame.f_lineno
        frame = frame.f_back
    return found


def _is_run_by_import(path: str) -> bool:
    """Whether importing the script would get to the line that it is at: no `if __name__ == "__main__"` is around it."""
    line, text = _under_way().get("__main__"), "".join(linecache.getlines(path))
    if line is None or not text:
        return False
    return not any(
        part.lineno <= line <= (part.end_lineno or 0)
        for statement in ast.parse(text).body
        if isinstance(statement, ast.If) and _asks_for_main(statement.test)
        for part in statement.body
    )


def _asks_for_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`, alone or as a part of the condition."""
    return any(
        isinstance(node, ast.Compare)
        and any(isinstance(op, ast.Eq) for op in node.ops)
        and {"__name__", "__main__"}
        <= {*_names(node.left), *(name for part in node.comparators for name in _names(part))}
        for node in ast.walk(test)
    )


def _names(node: ast.expr) -> list[str]:
    return [node.id] if isinstance(node, ast.Name) else [str(node.value)] if isinstance(node, ast.Constant) else []
