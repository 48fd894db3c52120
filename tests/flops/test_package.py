"""weft.flops as a package: quick to import, and clear where torch is missing."""

from __future__ import annotations

from tests.test_house import loaded_after, python

NEEDS_TORCH = ("profile", "count", "register_formula", "build_model", "FlopsProfiler")


def test_importing_it_brings_no_torch() -> None:
    assert "torch" not in loaded_after("import weft.flops; weft.flops.FlopsReport")


def test_without_torch_it_says_what_to_install() -> None:
    python(f"""
import sys
sys.modules["torch"] = None
import weft.flops
for name in {NEEDS_TORCH}:
    try:
        getattr(weft.flops, name)
    except weft.FlopsError as error:
        assert "pip install 'weft[torch]'" in str(error), error
    else:
        raise AssertionError(name)
""")


def test_public_names_exist() -> None:
    python("""
import weft.flops
for name in weft.flops.__all__:
    getattr(weft.flops, name)
assert set(weft.flops.__all__) == set(dir(weft.flops))
assert all(callable(getattr(weft.flops, name)) for name in weft.flops.__all__)  # a submodule of that name is not
""")
