"""No module bears the name of a public function of its package: `import weftrace.x.f as f` would give either."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import weftrace


def packages() -> Iterator[ModuleType]:
    """weftrace and every package in it."""
    yield weftrace
    for found in pkgutil.walk_packages(weftrace.__path__, "weftrace."):
        if found.ispkg:
            yield import_module(found.name)


def clashes(package: ModuleType) -> list[str]:
    """Submodules whose name is also that of a value which the package gives away."""
    modules = {found.name for found in pkgutil.iter_modules(package.__path__)}
    if hasattr(package, "__all__"):  # what it lists are values, even where a submodule has taken the place of one
        return sorted(modules.intersection(package.__all__))
    return sorted(name for name in modules & vars(package).keys() if not isinstance(vars(package)[name], ModuleType))


def test_no_module_bears_the_name_of_a_value_of_its_package() -> None:
    found = {package.__name__: clashes(package) for package in packages()}
    assert {name: names for name, names in found.items() if names} == {}


def test_a_clash_would_be_found() -> None:
    package = ModuleType("package")
    package.__path__ = [str(path) for path in weftrace.__path__]
    package.__all__ = ["api"]  # type: ignore[attr-defined]
    package.api = len  # type: ignore[attr-defined]
    assert clashes(package) == ["api"]
