"""How inner loops are compiled: once for a machine, by Numba, into a cache beside the source.

A compiled function calls only compiled functions of its own file. Numba keys a function's cache by the file that it
stands in, so a caller in another file would keep running an old version of what it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, signature: Any = None) -> Function:
    """Compile at the first call, or here for the types of `signature`, and keep the result on disk; releases the GIL
    while it runs.
    """
    return cast(Function, numba.njit(signature, cache=True, nogil=True)(function))


def compiled_part(function: Function) -> Function:
    """Compile a function that only compiled functions of its file call: with no door from Python, which is a fifth of
    the time that compiling takes. A call from Python ends the process.
    """
    njit: Any = numba.njit  # whose annotations lack these two
    return cast(Function, njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether this machine's cache has a compiled version of such a function (perhaps an outdated one)."""
    folder = Path(cast(Any, function).stats.cache_path)
    return any(folder.glob(f"*.{function.__name__}-*.nbi"))
