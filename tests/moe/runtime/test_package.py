"""`weftrace.moe.runtime` without torch: it imports, and says what to install."""

from __future__ import annotations

from tests.test_house import python


def test_without_torch_its_names_say_what_to_install() -> None:
    told = python("""
import sys
sys.modules["torch"] = None
import weftrace.moe.runtime as runtime
from weftrace.errors import ProfileError
for name in runtime.__all__:
    try:
        getattr(runtime, name)
    except ProfileError as error:
        last = error
    else:
        raise AssertionError(f"{name} runs without torch?")
print(last)
""")
    assert told == "weftrace.moe.runtime.split_prompts runs layers, with torch: pip install 'weftrace[torch]'\n"
