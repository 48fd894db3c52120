"""Compile inner loops with Numba: once per machine, into a cache on disk (beside the source, or NUMBA_CACHE_DIR). Where
none can be written, each process compiles them for itself, and a `CompileWarning` says so.

A compiled function calls only compiled functions of its own file. Numba's cache looks at the file of the function
alone, so a caller in another file would keep running an old version.

Compiling costs processor time, so `compiled_part` makes the parts of a function cheap (no machine code of their own),
and `compiled_when_slow` compiles nothing as long as the interpreter is quick enough.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from multiprocessing import parent_process
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import caching, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from weftrace.errors import CompileWarning

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE_S = 0.3  # about what compiling a function of `compiled_when_slow` takes


def compiled(function: Function, signature: Any = None) -> Function:
    """Compile at the first call, or here for the types of `signature`, and keep the result on disk; releases the GIL
    while it runs.
    """
    njit: Any = numba.njit
    dispatcher = _once(njit(nogil=True, pipeline_class=_WholeCompiler)(function))
    dispatcher._cache = cast(Any, _Cache)(function)
    if signature is not None:
        dispatcher.compile(signature)
        dispatcher.disable_compile()
    return cast(Function, dispatcher)


def compiled_part(function: Function) -> Function:
    """Compile a function that only compiled functions of its file call. It becomes part of their machine code and has
    none of its own. A call from Python ends the process.
    """
    options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    njit: Any = numba.njit  # whose annotations lack these two
    return cast(Function, _once(njit(**options, pipeline_class=_PartCompiler)(function)))


def compiled_when_slow(function: Function) -> Function:
    """Like `compiled`, but the first calls are interpreted, until they have taken `PATIENCE_S` together.

    Results are the same either way, so the function must not add up floats with `sum` (NumPy takes another order than
    Numba), nor sort ties with an unstable sort.
    """
    whole: Any = compiled(function)
    plain: list[Callable[..., Any]] = []
    spent_s = 0.0

    @wraps(function)
    def call(*args: Any) -> Any:
        nonlocal spent_s
        if spent_s >= PATIENCE_S or whole.overloads or is_compiled(whole):
            return whole(*args)
        if not plain:
            plain.append(interpreted(whole))
        began = time.process_time()
        result = plain[0](*args)
        spent_s += time.process_time() - began
        return result

    cast(Any, call).compiled = whole
    return cast(Function, call)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether this machine's cache has a compiled version of such a function (perhaps an outdated one)."""
    whole: Any = getattr(function, "compiled", function)
    return any(Path(whole.stats.cache_path).glob(f"*.{whole.__name__}-*.nbi"))


def is_kept(function: Callable[..., Any]) -> bool:
    """Whether the compiled version of such a function can be kept on disk."""
    whole: Any = getattr(function, "compiled", function)
    return not isinstance(whole._cache._impl.locator, _Beside)


def interpreted(function: Any, known: dict[str, Any] | None = None) -> Callable[..., Any]:
    """The plain Python of a compiled function, calling the plain Python of the functions that it calls."""
    known = {} if known is None else known
    plain = function.py_func
    if plain.__name__ not in known:
        names: dict[str, Any] = dict(plain.__globals__)
        known[plain.__name__] = FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__)
        for name in plain.__code__.co_names:
            value = names.get(name)
            value = getattr(value, "compiled", value)
            if hasattr(value, "py_func"):
                names[name] = interpreted(value, known)
    return cast(Callable[..., Any], known[plain.__name__])


class _Beside(caching.InTreeCacheLocator):
    """The folder beside the source where Numba finds none to write in; an installer may have compiled into it."""

    def ensure_cache_path(self) -> None:
        pass


class _Files(caching.CompileResultCacheImpl):
    _locator_classes = [*caching.CompileResultCacheImpl._locator_classes, _Beside]  # noqa: RUF012 # as of the class above


class _Cache(caching.FunctionCache):
    """Numba's cache of a function, where a failure costs the time to compile it and no more."""

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = cast(Any, super()).load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file raises anything; the next save writes it anew
            with suppress(OSError):
                cast(Any, self).flush()
        if found is None and isinstance(self._impl.locator, _Beside):  # before it takes its time
            _tell_not_kept("no folder for it can be written")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if isinstance(self._impl.locator, _Beside):
            return
        try:
            cast(Any, super()).save_overload(sig, data)
        except Exception as error:  # a full disk, files of another user, a damaged one that cannot be emptied
            _tell_not_kept(getattr(error, "strerror", None) or type(error).__name__)


@cache  # once per process
def _tell_not_kept(why: str) -> None:
    if parent_process() is None:  # which tells it for all of its workers
        warnings.warn(
            f"what is compiled here cannot be kept ({why}), so each run compiles it again, which takes up to a minute. "
            "Let NUMBA_CACHE_DIR name a folder that can be written.",
            CompileWarning,
            stacklevel=2,
        )


def _once(dispatcher: Any) -> Any:
    """Numba compiles `part(1)` for the literal 1 and again for integers; here it does so for integers alone."""
    template = dispatcher.get_call_template
    unliteral: Any = types.unliteral
    dispatcher.get_call_template = lambda args, kws: template(tuple(unliteral(arg) for arg in args), kws)
    return dispatcher


class _Part(JITCodeLibrary):
    """A part's code, inlined but not optimized further: whoever calls it optimizes it, and makes machine code of it."""

    def _optimize_final_module(self) -> None:
        codegen: Any = self._codegen
        made = codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap")
        passes, *builder = made if isinstance(made, tuple) else (made,)
        passes.run(self._final_module, *builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _PartCompiler(Compiler):
    def compile_extra(self, func: Callable[..., Any]) -> Any:
        target = self.state.targetctx  # a copy for this compilation
        self.state.library = cast(Any, _Part)(target.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        target.get_executable = _no_executable
        return cast(Any, super()).compile_extra(func)


class _WholeCompiler(Compiler):
    def compile_extra(self, func: Callable[..., Any]) -> Any:
        result = cast(Any, super()).compile_extra(func)
        for environment in result._find_referenced_environments():  # those of its parts, which have none to set
            self.state.targetctx.codegen().set_env(environment.env_name, environment)
        return result


def _no_executable(library: Any, described: Any, environment: Any) -> Any:
    """What Python would call, without an address: nothing does."""
    library._ensure_finalized()
    return _dynfunc.make_function(described.lookup_module(), described.qualname, "", 0, environment, (library,))
