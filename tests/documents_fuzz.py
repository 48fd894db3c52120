"""Saved documents, damaged: each is either used as if it were whole, or refused in a sentence that names the place.

python -m tests.documents_fuzz 4000 weftrace.flops/1      4,000 cases of one schema, failures by where they arise
"""

from __future__ import annotations

import io
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
from rich.console import Console

import weftrace as wt
from tests.fuzz import fuzz_seed
from tests.saved_documents import saved_documents
from weftrace.api import _outputs_of
from weftrace.errors import WeftraceError
from weftrace.facts import hardware
from weftrace.outputs import writers

Path_ = tuple[str | int, ...]  # keys and indices, from the document to a value in it
Use = Callable[[Any, Path], object]

SECONDS = 10  # in which a case is done, on a busy machine too
SPARE_BYTES = 8 << 30  # of address space, beyond what the process has
#: What names a place; what is no JSON, or too deep for any reader, has none.
_SAY_WHERE = ("$", "schema", "row ", "not JSON", "nested too deeply")
STOP = 0.25  # how often a walk ends above the leaves

STRANGE: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 0.5, -1e308, 1e308, 10**7, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30, "", "text",
    "12", "a\x1b[31mb", "x" * 5_000, [], {}, [[]], [None], [0], ["text"], {"a": 1}, {"a": {"b": []}}, [[[[[[[[1]]]]]]]],
    10**99, {"as_columns": {"a": [1, 2], "b": 3}}, {"as_columns": {}}, "\uffff", "\u202e", "\0",
    *(msgspec.Raw(text.encode()) for text in (
        "9" * 400, "9" * 5_000, "-1e999", "1e400", "NaN", "Infinity", '"\\ud800"', "1" + "0" * 99 + ".5",
        "[" * 500 + "]" * 500, "[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"a": 1, "a": 2}', "-0.0", "5e-324",
    )),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Damage:
    """A mutation: what was done, and to the value at which place."""

    what: str
    place: Path_

    def __str__(self) -> str:
        return f"{self.what} at ${''.join(f'[{key}]' if isinstance(key, int) else f'.{key}' for key in self.place)}"


def damaged(document: dict[str, Any], rng: random.Random) -> tuple[Any, Damage]:
    """The document with one value changed; all else is shared with it."""
    place, value = _drawn(document, rng)
    what = rng.choice(_CHANGES)
    if what == "dropped" and place:
        return _with(document, place, None, drop=True), Damage(what, place)
    changed = _changed(value, what, rng)
    return _with(document, place, changed), Damage(f"{what} to {str(changed)[:40]!r}", place)


def _drawn(document: Any, rng: random.Random) -> tuple[Path_, Any]:
    place: Path_ = ()
    value = document
    while isinstance(value, dict | list) and value and (not place or rng.random() > STOP):
        key = rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
        place, value = (*place, key), value[key]
    return place, value


_CHANGES = ("dropped", "dropped", "null", "replaced", "replaced", "replaced", "bent", "bent", "bent")


def _changed(value: Any, what: str, rng: random.Random) -> Any:
    """A value of the same kind but for its size, or any other."""
    if what == "null":
        return None
    if what == "bent" and isinstance(value, bool):
        return not value
    if what == "bent" and isinstance(value, int | float):
        return rng.choice(
            [-value, value + 1, value - 1, value * 1_000_003, value / 3, str(value), [value], float(value)]
        )
    if what == "bent" and isinstance(value, str):
        return rng.choice([value.upper(), value[: len(value) // 2], value * 2, [value], f" {value}", f"{value}/2"])
    if what == "bent" and isinstance(value, list):
        half = value[: len(value) // 2]
        return rng.choice([half, value + value, value[::-1], [value], value[1:], [*value, None], dict(enumerate(half))])
    if what == "bent" and isinstance(value, dict):
        renamed = {f"{key}_": each for key, each in value.items()}
        return rng.choice([renamed, [value], {"a": value}, list(value.values()), list(value)])
    return rng.choice(STRANGE)


def _with(value: Any, place: Path_, changed: Any, *, drop: bool = False) -> Any:
    if not place:
        return changed
    key, *rest = place
    copy = value.copy()
    if rest or not drop:
        copy[key] = _with(value[key], tuple(rest), changed, drop=drop)
    else:
        del copy[key]
    return copy


def uses_of(value: Any, folder: Path) -> Iterator[tuple[str, Use]]:
    """What commands do with a document: print it, write it anew in every way, and take it as an input."""
    yield "show", lambda value, _: wt.show(value, Console(file=io.StringIO(), width=80))
    for output in _outputs_of(value):
        for suffix in writers(output):
            if not suffix.endswith((".gz", ".zst")) and "annotated" not in suffix:
                yield suffix, partial(_save, to=folder / f"out{suffix}")
    yield from _INPUTS.get(_schema_of(value), {}).items()


def _save(value: Any, _: Path, *, to: Path) -> None:
    wt.save(value, to)


def _schema_of(value: Any) -> str:
    return next((output.schema for output in _outputs_of(value) if output.schema), "")


# --- documents as inputs ----------------------------------------------------------------------------------------------


def _flops_diff(value: Any, _: Path) -> None:
    from tests.flops.small_reports import TINY
    from weftrace.flops.several.diff import diff

    wt.show(diff(TINY, value), Console(file=io.StringIO(), width=80))


def _flops_costs(_: Any, path: Path) -> None:
    from weftrace.pipeline.measured.flops_costs import costs_of_flops

    costs_of_flops(path, hardware("h100"), 2)


def _compared(_: Any, path: Path) -> None:
    from weftrace.comparison import diff

    wt.show(diff(path, path), Console(file=io.StringIO(), width=80))


def _costs(value: Any, _: Path) -> None:
    from weftrace.pipeline import compare

    compare(value, num_stages=2, num_micro_batches=2, families=["1f1b", "zb1p"])


def _replanned(value: Any, _: Path) -> None:
    from weftrace.experts import replan

    loads = np.arange(1, 33).reshape(2, 16)
    replan(value.placement, loads)


def _calibrated(_: Any, path: Path) -> None:
    from weftrace.moe.requested import profile_of
    from weftrace.moe.requests import Request

    profile_of(Request(kind="train", costs=str(path), layers=3))


def _plan(value: Any, _: Path) -> None:
    from weftrace.plan import timetable

    timetable(value)


_INPUTS: Mapping[str, Mapping[str, Use]] = {
    "weftrace.flops/1": {"flops diff": _flops_diff, "--flops": _flops_costs},
    "weftrace.report/1": {"diff": _compared},
    "weftrace.pipeline.costs/1": {"--costs": _costs},
    "weftrace.placement/1": {"--from": _replanned},
    "weftrace.profile.calibration/1": {"profile --costs": _calibrated},
    "weftrace.plan/2": {"timetable": _plan},
}


# --- cases ------------------------------------------------------------------------------------------------------------


class Documents:
    """Whole documents by schema, and a folder to damage them in."""

    def __init__(self, by_schema: Mapping[str, list[dict[str, Any]]], folder: Path) -> None:
        self.by_schema = by_schema
        self.folder = folder
        self._file = folder / "damaged.json"
        self._uses: dict[str, list[tuple[str, Use]]] = {}

    def uses(self, schema: str) -> list[tuple[str, Use]]:
        if schema not in self._uses:
            self._file.write_bytes(msgspec.json.encode(self.by_schema[schema][0]))
            value = wt.load(self._file)
            self._uses[schema] = [(name, use) for name, use in uses_of(value, self.folder) if self._can(use, value)]
        return self._uses[schema]

    def _can(self, use: Use, value: Any) -> bool:
        """Whether the whole document can be used so: some pages need what only a run holds."""
        try:
            use(value, self._file)
        except WeftraceError:
            return False
        return True

    def check(self, schema: str, seed: str) -> None:
        """Damage a document and use it. Raises what no command may raise, AssertionError for a place not named."""
        rng = random.Random(f"{schema} {seed}")
        document, damage = damaged(rng.choice(self.by_schema[schema]), rng)
        name, use = rng.choice(self.uses(schema))
        self._file.write_bytes(msgspec.json.encode(document))
        try:
            with _limited():
                use(wt.load(self._file), self._file)
        except WeftraceError as error:
            summary = str(error).replace(str(self._file), "")
            assert _names(summary, damage), f"{schema}, {damage}, {name}: the place is not named: {error}"
        except BaseException as error:
            error.add_note(f"{schema}, {damage}, {name}")
            raise


def _names(summary: str, damage: Damage) -> bool:
    """Whether a sentence says where: by the place (`$.a[3]`), or by the name of a field that holds it."""
    named = {key.removesuffix("_ns") for key in damage.place if isinstance(key, str)}
    return not damage.place or any(each in summary for each in (*_SAY_WHERE, *named))


@contextmanager
def _limited() -> Iterator[None]:
    """Within it, what takes too long raises TimeoutError, and what takes too much memory MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _too_long(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"it takes more than {SECONDS} s")


def main(schemas: list[str], cases: int) -> None:
    """Print how many cases of each schema fail, and where."""
    with tempfile.TemporaryDirectory() as folder:
        documents = Documents(saved_documents(Path(folder)), Path(folder))
        print(f"seed {fuzz_seed()}; {len(documents.by_schema)} documents")
        for schema in schemas or sorted(documents.by_schema):
            failures: Counter[str] = Counter()
            first: dict[str, str] = {}
            for number in range(cases):
                try:
                    documents.check(schema, f"{fuzz_seed()}:{number}")
                except Exception as error:
                    where = _where(error)
                    failures[where] += 1
                    first.setdefault(where, f"{str(error)[:300]} {getattr(error, '__notes__', '')}")
            print(f"{schema}: {sum(failures.values())} of {cases} fail", flush=True)
            for where, number in failures.most_common():
                print(f"  {number:>5} {where}\n        {first[where]}")


def _where(error: BaseException) -> str:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/src/weftrace/" in each.filename]
    if isinstance(error, AssertionError) and "is not named" in str(error):
        return "no place: " + str(error).partition("is not named: ")[2].partition("damaged.json")[2][:60]
    place = f"{frames[-1].filename.partition('/src/')[2]}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} {place}"


if __name__ == "__main__":
    main(sys.argv[2:], int(sys.argv[1]))
