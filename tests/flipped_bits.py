"""What loading does with a file in which one bit is wrong: `python -m tests.flipped_bits SEED NUM FILE …` prints
it as JSON.

Each flip is loaded in a process of its own, a fork of one that has imported the libraries and computed nothing. It is
"refused" (a WeftraceError), "told" (the trace says what was lost or mended), or "equal" to the original. Whatever else
comes out is listed under "wrong": other events and no word, a traceback, a process that died or took too long.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy  # noqa: F401 # what loading imports, before the forks
import polars  # noqa: F401
import zstandard  # noqa: F401
from isal import isal_zlib  # noqa: F401

import weftrace
from weftrace.errors import WeftraceError
from weftrace.plan import Plan, to_json
from weftrace.trace import Trace, open_trace
from weftrace.wings import outputs

OUTCOMES = ("refused", "told", "equal")
_SECONDS = 120
_SEAL = re.compile("[0-9a-f]{64}")


def load(path: Path) -> tuple[str, bool]:
    """A digest of all that a file says, and whether its reader says that something was lost or mended."""
    value = open_trace(path, workers=1) if path.name.startswith("trace") else weftrace.load(path)
    if isinstance(value, Plan):
        return _digest(to_json(value)), False
    if isinstance(value, Trace):
        quality, facts = value.quality, (value.rank, value.world_size, value.devices, value.tracks, value.window_ns)
        said = bool(quality.dropped or quality.repaired or quality.truncated or quality.unchecked)
        return _digest(value.events.write_ndjson() + repr((facts, sorted(value.info.items())))), said
    copy = path.with_name("copy.json")
    weftrace.save(value, copy)
    fields = json.loads(copy.read_text()).items()  # without the seal, under whatever name it now has
    return _digest(repr([(key, value) for key, value in fields if not _SEAL.fullmatch(str(value))])), False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def outcomes(path: Path, bits: list[int]) -> Counter[str]:
    """How many of these flips of a file end in what."""
    stored = path.read_bytes()
    found: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        copy, answer = Path(folder, path.name), Path(folder, "answer")
        copy.write_bytes(stored)
        assert _apart(lambda: answer.write_text(load(copy)[0])) == 0
        original = answer.read_text()
        for bit in bits:
            damaged = bytearray(stored)
            damaged[bit // 8] ^= 1 << bit % 8
            copy.write_bytes(damaged)
            answer.write_text("no answer")

            def attempt() -> None:
                try:
                    digest, said = load(copy)
                    answer.write_text("told" if said else "equal" if digest == original else "other events")
                except WeftraceError as error:
                    answer.write_text("refused" if "\n" not in str(error) else "refused in several lines")

            status = _apart(attempt)
            outcome = answer.read_text() if status == 0 else f"ended with {status}"
            found[outcome if outcome in OUTCOMES else f"wrong: bit {bit}: {outcome}"] += 1
    return found


def _apart(function: Callable[[], object]) -> int:
    """Run a function in a fork; its exit status, minus the signal where one ended it."""
    if (child := os.fork()) == 0:
        signal.alarm(_SECONDS)
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(seed: str, number: str, *files: str) -> None:
    list(outputs())  # imports the features
    found = {}
    for file in files:
        bits = random.Random(seed + Path(file).name).choices(range(8 * os.path.getsize(file)), k=int(number))
        found[Path(file).name] = outcomes(Path(file), bits)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
