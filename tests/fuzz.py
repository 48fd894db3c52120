"""How many examples, damaged files and random plans a run of the tests tries, and which: few, others each time unless
told. `make fuzz` tries more."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

DEFAULT_CASES = 400
# From so many cases on, a test tries all of its own examples.
ALL_EXAMPLES = 1_200


def fuzz_seed() -> int:
    """$WEFTRACE_FUZZ_SEED, else one by chance that this process and those it starts (the workers) then agree on."""
    return int(os.environ.setdefault("WEFTRACE_FUZZ_SEED", str(random.SystemRandom().randrange(1_000_000))))


def fuzz_cases() -> int:
    """$WEFTRACE_FUZZ_CASES: how many files in all; plans are five for every six of them."""
    return int(os.environ.setdefault("WEFTRACE_FUZZ_CASES", str(DEFAULT_CASES)))


def examples(num: int) -> int:
    """How many of `num` examples a test tries in this run: a third where $WEFTRACE_FUZZ_CASES is not set."""
    return min(num, max(5, num * fuzz_cases() // ALL_EXAMPLES))


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
