"""Promises about the package as a whole: what importing it costs, what it needs, and that its files agree."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = {"polars", "numpy", "plotly", "jinja2", "torch", "fsspec", "msgspec", "numba", "transformers"} | {
    "ray",
    "distributed",
}


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed; a failure shows its traceback."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a statement leaves loaded."""
    report = "import json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    names = python(f"import sys\n{statement}\n{report}")
    return set(json.loads(names.splitlines()[-1]))


def test_importing_weftrace_loads_nothing_heavy() -> None:
    assert loaded_after("import weftrace") & HEAVY == set()


def test_help_loads_nothing_heavy() -> None:
    show_help = """
try:
    sys.argv = ["weftrace", "--help"]
    from weftrace.cli.main import main
    main()
except SystemExit as stop:
    assert not stop.code, stop
"""
    assert loaded_after(show_help) & HEAVY <= {"msgspec"}  # in which requests state the bounds of their fields


def test_every_module_imports_without_extras() -> None:
    """torch, plotly, Ray and Dask are made unimportable; each module and public name must load all the same.

    The folders `runtime` are what runs models: without torch they have nothing to be, and weftrace.flops says so:
    test_package.py.
    """
    python("""
import importlib, pkgutil, re, sys
for name in ("torch", "plotly", "transformers", "ray", "distributed", "dask", "cloudpickle"):
    sys.modules[name] = None
import weftrace
runs_models = re.compile(r"weftrace\\.(flops(\\.deepspeed)?|pipeline|moe|capture)\\.runtime\\b").match
def refused(name):
    assert runs_models(name), name
for module in pkgutil.walk_packages(weftrace.__path__, "weftrace.", onerror=refused):
    if not module.name.endswith("__main__") and not runs_models(module.name):
        importlib.import_module(module.name)
for name in set(weftrace.__all__) - {"count", "profile"}:
    getattr(weftrace, name)
for name in ("count", "profile"):
    try:
        getattr(weftrace, name)
    except weftrace.WeftraceError as error:
        assert "torch" in str(error) and "pip install " in str(error), error
    else:
        raise AssertionError(f"weftrace.{name} runs models without torch?")
""")


def test_no_module_imports_itself_through_others() -> None:
    """Imports for type checkers count too: what two modules need of each other belongs below both."""
    graph = grimp.build_graph("weftrace", exclude_type_checking_imports=False)
    circles = [
        (module, needed)
        for module in graph.modules
        for needed in graph.find_modules_directly_imported_by(module)
        if graph.chain_exists(importer=needed, imported=module)
    ]
    assert circles == []


def test_parts_of_compiled_functions_are_named_in_compiled_functions_alone() -> None:
    """Called from Python, they would end the process: see `weftrace.compiled.compiled_part`."""
    texts = {path: path.read_text() for path in ROOT.glob("src/weftrace/**/*.py")}
    num_parts = 0
    for path, text in texts.items():
        if "@compiled_part" not in text:
            continue
        module = ast.parse(text)
        decorated = {
            function: each.id
            for function in module.body
            if isinstance(function, ast.FunctionDef)
            for each in function.decorator_list
            if isinstance(each, ast.Name) and each.id in ("compiled", "compiled_part", "compiled_when_slow")
        }
        parts = {function.name for function, decorator in decorated.items() if decorator == "compiled_part"}
        outside = [node for node in module.body if node not in decorated]
        named = {node.id for top in outside for node in ast.walk(top) if isinstance(node, ast.Name)}
        assert named & parts == set(), f"{path} calls them outside of compiled functions"
        assert all(name.startswith("_") for name in parts), f"{path}: parts of compiled functions are private"
        num_parts += len(parts)
    assert num_parts > 50


def test_public_names_are_listed_and_exist() -> None:
    python("""
import weftrace
assert len(set(weftrace.__all__)) == len(weftrace.__all__), "a name is listed twice"
assert set(weftrace.__all__) <= set(dir(weftrace)), set(weftrace.__all__) - set(dir(weftrace))
try:
    weftrace.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError("weftrace.no_such_name should not exist")
""")


def test_core_install_has_no_torch() -> None:
    required = importlib.metadata.requires("weftrace") or []
    core = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in required if "extra ==" not in requirement}
    assert core == {"fsspec", "isal", "jinja2", "msgspec", "numba", "numpy", "polars", "rich", "typer", "zstandard"}


def test_version_is_the_installed_one_and_has_a_changelog_entry() -> None:
    version = python("import weftrace; print(weftrace.__version__)").strip()
    assert importlib.metadata.version("weftrace") == version, "`make setup` installs the new version"
    entry = rf"^## .*\b({re.escape(version)}|Unreleased)\b"
    assert re.search(entry, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/weftrace/py.typed").is_file()


def test_every_dependency_is_pinned() -> None:
    pins = {
        line.split("==")[0].lower(): line.split("==")[1]
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    asked = PROJECT["project"]["dependencies"] + [r for group in PROJECT["dependency-groups"].values() for r in group]
    names = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in asked}
    assert names - set(pins) == set()
    assert pins["torch"] == "2.13.0"


@pytest.mark.parametrize("name", ["test", "times", "fuzz", "lint", "bench", "docs"])
def test_make_target_sets_up_by_itself(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{name}: \$\(VENV\)/\.ready-dev", makefile, re.MULTILINE), f"{name} does not set up"


def test_demo_needs_only_what_weftrace_needs() -> None:
    """No torch, no tools: the first of the environment's two steps, and that one installs no group."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: \$\(VENV\)/\.ready ##", makefile, re.MULTILINE)
    rule = makefile.split("\n$(VENV)/.ready: ")[1].split("\n\n")[0]
    assert "--group" not in rule and rule.count("$(INSTALL)") == 2  # what builds it, then weftrace
