"""A wing's `runtime` without torch: it imports, and says what to install."""

from __future__ import annotations

import pytest

from tests.test_house import python


@pytest.mark.parametrize(
    ("package", "error", "summary"),
    [
        ("weftrace.moe.runtime", "ProfileError", "split_prompts runs layers"),
        ("weftrace.pipeline.runtime", "PipelineRunError", "verify_split runs models"),
    ],
)
def test_without_torch_its_names_say_what_to_install(package: str, error: str, summary: str) -> None:
    printed = python(f"""
import sys
sys.modules["torch"] = None
import {package} as runtime
from weftrace.errors import {error}
for name in runtime.__all__:
    try:
        getattr(runtime, name)
    except {error} as error:
        last = error
    else:
        raise AssertionError(f"{{name}} runs without torch?")
print(last)
""")
    assert printed.startswith(f"{package}.{summary}, with torch: ") and "pip install " in printed
