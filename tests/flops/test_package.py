"""weftrace.flops as a package: quick to import, and clear where torch is missing."""

from __future__ import annotations

import weftrace.flops
from tests.test_house import loaded_after, python

NEEDS_TORCH = ("profile", "count", "register_formula", "build_model", "FlopsProfiler")


def test_importing_it_brings_no_torch() -> None:
    assert "torch" not in loaded_after("import weftrace.flops; weftrace.flops.FlopsReport")


def test_without_torch_it_says_what_to_install() -> None:
    python(f"""
import sys
sys.modules["torch"] = None
import weftrace.flops
for name in {NEEDS_TORCH}:
    try:
        getattr(weftrace.flops, name)
    except weftrace.flops.FlopsError as error:
        assert "torch" in str(error) and "pip install " in str(error), error
    else:
        raise AssertionError(name)
""")


def test_public_names_exist() -> None:
    names = vars(weftrace.flops)["__all__"]
    assert set(names) == set(dir(weftrace.flops))
    assert all(callable(getattr(weftrace.flops, name)) for name in names)
