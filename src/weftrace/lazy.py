"""Names of a package that are imported when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import get_data
from typing import Any

#: Name in the package -> (module, name there); the module itself where the second is "".
Homes = dict[str, tuple[str, str]]


def lazily(
    package: str,
    names: Mapping[str, Iterable[str]] | None = None,
    *,
    renamed: Mapping[str, tuple[str, str]] | None = None,
    packages: Iterable[str] = (),
    eager: Iterable[str] = (),
    on_missing: Callable[[str, ModuleNotFoundError], Exception | None] = lambda name, missing: None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """(`__getattr__`, `__dir__`, `__all__`) of a package.

    names: module -> names to take from it; by default those that the package's source re-exports to type checkers,
    `from module import Name as Name` under `if TYPE_CHECKING:`. renamed: name -> (module, its name there). packages:
    below this one, found as attributes but not listed in `__all__`. eager: names that the package has already.
    on_missing(name, error): the exception to raise where a name's module needs a package that is not installed; None
    raises the error itself.
    """
    homes: Homes = {name: (module, name) for module, listed in (names or {}).items() for name in listed}
    homes.update(_for_type_checkers(package) if names is None else {})
    homes.update(renamed or {})
    public = sorted({*homes, *eager})
    below = frozenset(packages)

    def get(name: str) -> Any:
        if name in below:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = homes[name]
        try:
            value = getattr(import_module(module), attribute)
        except ModuleNotFoundError as missing:
            summary = on_missing(name, missing)
            if summary is None:
                raise
            raise summary from missing
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*public, *below}), public


def without_torch(
    error: Callable[[str], Exception], text: str
) -> Callable[[str, ModuleNotFoundError], Exception | None]:
    """For `on_missing`: the error where torch is what is missing. text: of it, with {name} for what was asked for."""

    def raised(name: str, missing: ModuleNotFoundError) -> Exception | None:
        if (missing.name or "").partition(".")[0] != "torch":
            return None
        from weftrace.installing import install_command

        return error(f"{text.format(name=name)}: {install_command('torch')}")

    return raised


def _for_type_checkers(package: str) -> Homes:
    """What its imports `if TYPE_CHECKING:` re-export: `from module import Name as Name`."""
    body = ast.parse(get_data(package, "__init__.py") or b"").body
    blocks = [node.body for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]
    return {
        each.name: (node.module or "", each.name) for node in imports for each in node.names if each.asname == each.name
    }
