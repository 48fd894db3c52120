"""How much a run of the tests tries: few examples, damaged files, random plans and cases of a kind; all of them where
$WEFTRACE_FUZZ_CASES is 1,200 or more (`make thorough`). Files and plans are others in each run unless a seed is set."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

DEFAULT_CASES = 200
# From so many cases on, a test tries all of its own examples.
ALL_EXAMPLES = 1_200


def fuzz_seed() -> int:
    """$WEFTRACE_FUZZ_SEED, else one by chance that this process and those it starts (the workers) then agree on."""
    return int(os.environ.setdefault("WEFTRACE_FUZZ_SEED", str(random.SystemRandom().randrange(1_000_000))))


def fuzz_cases() -> int:
    """$WEFTRACE_FUZZ_CASES: how many files in all; plans are five for every six of them."""
    return int(os.environ.setdefault("WEFTRACE_FUZZ_CASES", str(DEFAULT_CASES)))


def examples(num: int) -> int:
    """How many of `num` examples a test tries in this run: a sixth where $WEFTRACE_FUZZ_CASES is not set."""
    return min(num, max(5, num * fuzz_cases() // ALL_EXAMPLES))


def is_thorough() -> bool:
    """Whether this run tries all."""
    return fuzz_cases() >= ALL_EXAMPLES


def few(cases: Iterable[Case], most: int) -> list[Case]:
    """The cases of a test that this run tries: `most` of them, the first, the last and others evenly between them; all
    in a thorough run. For cases of one kind, each of which proves what the others do on other input.
    """
    found = list(cases)
    if is_thorough() or len(found) <= most:
        return found
    return [found[round(number * (len(found) - 1) / max(1, most - 1))] for number in range(most)]


def thorough(test: Any) -> Any:
    """A test that only a thorough run has: what it proves is proved by another one, on less."""
    return pytest.mark.thorough(test)


def thorough_case(*values: object) -> Any:
    """A case of a parametrized test that only a thorough run has."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def for_each_case(check: Callable[[str], None], *, share: float, block: int = 0, num_blocks: int = 1) -> None:
    """Call a check with the seed of each case of one block, of `num_blocks`, of a `share` of the run's cases.

    A case is drawn from its seed, "seed of the run:number", and from nothing else. Whatever a check raises says it.
    """
    num = round(share * fuzz_cases())
    for number in range(block * num // num_blocks, (block + 1) * num // num_blocks):
        try:
            check(f"{fuzz_seed()}:{number}")
        except BaseException as error:
            error.add_note(f"fuzz case {fuzz_seed()}:{number}; WEFTRACE_FUZZ_SEED={fuzz_seed()} brings it again")
            raise
