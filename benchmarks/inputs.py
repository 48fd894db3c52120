"""The files that are measured: one recorded trace repeated in time, and copied over ranks.

Run as a program (`python -m benchmarks.inputs`) it makes what is missing in benchmarks/.cache and prints, as JSON,
where each file is. The recorded trace is DeepSeek-V3's published training profile, taken from $WEFTRACE_DATA or
../shared/data; where that is absent a trace simulated by weftrace stands in, and the result says so.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "benchmarks" / ".cache"
RECORDED = "deepseek-v3-train.json.gz"
NUM_REPEATS = 60
NUM_RANKS = 64
NUM_PAGE_EVENTS = 200_000
LARGE_BYTES = 1_000_000_000  # at least, of the file that several processes read
SIMULATED_BYTES = 188_000_000  # what 60 repeats of the recorded trace come to
PAUSE_US = 1_000  # between two repeats

NUMBERED = re.compile(r'("(?:correlation|External id|Ev Idx|Sequence number|graph id)":\s*)(\d+)')
FLOW = re.compile(r'("id":\s*)(\d+)')
TIME = re.compile(r'("ts":\s*)(\d+)')
STEP = re.compile(r"(ProfilerStep#)(\d+)")
RANK = re.compile(r'("distributedInfo":\s*\{[^}]*"rank":\s*)\d+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Files for the benchmarks, and how they were made.

    big: the trace repeated `num_repeats` times, big_bytes of JSON; large: until it is 1 GB; page: until it has
    `page_events` complete events; ranks: a folder with one file a rank. recorded: False where a simulated trace
    stands in.
    """

    source: str
    recorded: bool
    big: str
    big_bytes: int
    big_events: int
    num_repeats: int
    large: str
    large_bytes: int
    page: str
    page_events: int
    ranks: str
    num_ranks: int


def split_events(text: str) -> tuple[str, list[str], str]:
    """A trace as (text before the first event, the text of each event, text after the last)."""
    array = re.search(r'"traceEvents":\s*\[\s*', text)
    assert array, "not a trace: it has no traceEvents"
    decoder, events, at = json.JSONDecoder(), [], array.end()
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        events.append(text[at:end])
        rest = re.compile(r"\s*,?\s*").match(text, end)
        assert rest
        at = rest.end()
    return text[: array.end()], events, text[at:]


def shifted(text: str, time_us: int, ids: int, flows: bool, steps: int) -> str:
    """The text of some events, later in time and with other correlation, operator, flow and step numbers."""

    def plus(offset: int) -> Any:
        return lambda match: f"{match[1]}{int(match[2]) + offset}"

    text = NUMBERED.sub(plus(ids), TIME.sub(plus(time_us), text))
    return FLOW.sub(plus(ids), text) if flows else STEP.sub(plus(steps), text)


def repeat(text: str, num_repeats: int) -> Iterator[str]:
    """The same trace, happening `num_repeats` times in a row, as pieces of JSON text.

    Metadata and marks (ph M and i) are kept once: the end of the recording in the last repeat, all others in the first.
    """
    head, events, tail = split_events(text)
    parsed = [json.loads(event) for event in events]
    complete = [event for event in parsed if event["ph"] == "X"]
    start_us = min(event["ts"] for event in complete)
    period_us = math.ceil(max(event["ts"] + event.get("dur", 0) for event in complete) - start_us) + PAUSE_US
    ids = 1 + max(
        (int(m[2]) for event in events for m in [*NUMBERED.finditer(event), *FLOW.finditer(event)]), default=0
    )
    steps = len({name for event in complete for name in STEP.findall(event["name"])})

    kinds: dict[str, list[str]] = {"once": [], "flows": [], "complete": [], "end": []}
    for event, fields in zip(events, parsed, strict=True):
        ends = fields["name"] == "Record Window End"
        kind = {"X": "complete", "s": "flows", "t": "flows", "f": "flows"}.get(fields["ph"], "end" if ends else "once")
        kinds[kind].append(event)
    joined = {kind: ",\n  ".join(members) for kind, members in kinds.items()}

    yield head
    separator = ""
    for n in range(num_repeats):
        last = n == num_repeats - 1
        for kind in [*(["once"] if n == 0 else []), "complete", "flows", *(["end"] if last else [])]:
            if joined[kind]:
                yield separator
                yield shifted(joined[kind], n * period_us, n * ids, kind == "flows", n * steps)
                separator = ",\n  "
    yield "\n  " + tail


def write_gzip(path: Path, pieces: Iterator[str]) -> int:
    """Write pieces of text, compressed; the file appears when it is whole. Returns the bytes before compression."""
    unfinished = path.with_suffix(".part")
    num_bytes = 0
    with unfinished.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as out:
        for piece in pieces:
            num_bytes += out.write(piece.encode())
    unfinished.rename(path)
    return num_bytes


def recorded_folder() -> Path:
    """Where recorded traces lie; it may not exist."""
    return Path(os.environ.get("WEFTRACE_DATA") or ROOT.parent / "shared" / "data")


def source_trace() -> tuple[Path, bool]:
    """The trace to repeat, and whether it was recorded rather than simulated."""
    recorded = recorded_folder() / RECORDED
    if recorded.is_file():
        return recorded, True
    import weftrace
    from weftrace.plan import deepseek_training_layers

    simulated = CACHE / "simulated.json.gz"
    weftrace.save(weftrace.simulate(deepseek_training_layers()), simulated)
    return simulated, False


def make() -> Inputs:
    """Make what is missing in the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    source, recorded = source_trace()
    text = gzip.decompress(source.read_bytes()).decode()
    key = hashlib.sha256(text.encode() + Path(__file__).read_bytes()).hexdigest()[:12]
    folder = CACHE / f"{source.name.split('.')[0]}-{key}"
    described = folder / "inputs.json"
    if described.is_file():
        return Inputs(**json.loads(described.read_text()))

    for outdated in CACHE.glob(f"{source.name.split('.')[0]}-*"):
        shutil.rmtree(outdated)
    num_complete = sum(json.loads(event)["ph"] == "X" for event in split_events(text)[1])
    num_repeats = NUM_REPEATS if recorded else math.ceil(SIMULATED_BYTES / len(text))
    page_repeats = math.ceil(NUM_PAGE_EVENTS / num_complete)
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
    big_bytes = write_gzip(folder / "big.json.gz", repeat(text, num_repeats))
    large_bytes = write_gzip(folder / "large.json.gz", repeat(text, math.ceil(LARGE_BYTES / len(text))))
    write_gzip(folder / "page.json.gz", repeat(text, page_repeats))
    for rank in range(NUM_RANKS):
        one = RANK.sub(rf"\g<1>{rank}", text)
        write_gzip(folder / "ranks" / f"rank{rank}.json.gz", iter([one]))
    inputs = Inputs(
        source=source.name,
        recorded=recorded,
        big=str(folder / "big.json.gz"),
        big_bytes=big_bytes,
        big_events=num_repeats * num_complete,
        num_repeats=num_repeats,
        large=str(folder / "large.json.gz"),
        large_bytes=large_bytes,
        page=str(folder / "page.json.gz"),
        page_events=page_repeats * num_complete,
        ranks=str(folder / "ranks"),
        num_ranks=NUM_RANKS,
    )
    described.write_text(json.dumps(asdict(inputs), indent=1))
    return inputs


if __name__ == "__main__":
    start = time.perf_counter()
    made = asdict(make())
    print(json.dumps({"inside_s": time.perf_counter() - start, **made}))
