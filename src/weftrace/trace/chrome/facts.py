"""What does a file say of itself, beside its events: rank and world, devices, the origin of its times?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from weftrace.trace.chrome.json_text import NotJson, clean, lenient_json
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import MAX_NS
from weftrace.trace.limits import FACTS, NAME_CHARS
from weftrace.trace.model import CONFIGURED, GROUP_SIZE, Device

_MEMBER = re.compile(r'[\s,{\]\0]*"((?:[^"\\]|\\.)*+)"\s*:\s*')
_NOTHING_MORE = re.compile(r"[\s,{}\]\0]*\Z")
#: Where a file says how it was made: an object of plain values, which torch's add_metadata_json can write too.
CONFIGURATION_KEY = "weftrace"
_PLAIN = str | int | float | Decimal
#: What is counted of facts that are too long, or too many.
MANY_FACTS = f"facts of the file beyond {FACTS:,}, or of over {NAME_CHARS:,} characters, left out"
# Facts on which an analysis leans; they are looked for by name when damage hides them.
_NEEDED = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds")
#: Fields of `Device` that limit one SM, and Kineto's keys: of CUDA, then of ROCm where that has another one.
#: https://github.com/pytorch/kineto/blob/main/libkineto/src/DeviceProperties.cpp
DEVICE_LIMITS = {
    "max_threads_per_sm": ("maxThreadsPerMultiprocessor",),
    "registers_per_sm": ("regsPerMultiprocessor",),
    "shared_bytes_per_sm": ("sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
    "warp_size": ("warpSize",),
    "max_threads_per_block": ("maxThreadsPerBlock",),
}
CAPABILITY_KEYS = ("computeMajor", "computeMinor")


def facts_of(pieces: Sequence[bytes], tally: Tally) -> dict[str, Any]:
    """The top-level values of the file, from the text around its lists of events."""
    facts: dict[str, Any] = {}
    for piece in pieces:
        text = piece.decode("utf-8", "replace")
        found, sound = members(text)
        facts |= found
        if not sound:
            tally.repair("damaged text beside the events left out", text)
            for key in _NEEDED:
                if key not in facts and (match := re.search(rf'"{key}"\s*:\s*', text)):
                    facts |= _value(key, text, match.end())[0]
    return facts


def members(text: str) -> tuple[dict[str, Any], bool]:
    """The members of a JSON object that may lack its braces; and whether the text is sound to its end."""
    facts: dict[str, Any] = {}
    at = 0
    while match := _MEMBER.match(text, at):
        value, end = _value(match[1], text, match.end())
        if not value:
            return facts, False
        facts |= value
        at = end
    return facts, _NOTHING_MORE.match(text, at) is not None


def _value(key: str, text: str, at: int) -> tuple[dict[str, Any], int]:
    """{key: value} and where the value ends; {} where it is damaged. key: as JSON has it between its quotes."""
    try:
        value, end = lenient_json(text, at)
        return {lenient_json(f'"{key}"', 0)[0]: value}, end
    except NotJson:
        return {}, at


# --- what they mean -------------------------------------------------------------------------------------------------


def base_ns(facts: Mapping[str, Any]) -> int:
    """What the file says must be added to every time, so that times of different ranks share one origin."""
    base = _integer(facts.get("baseTimeNanoseconds"))
    return base if base is not None and 0 <= base < MAX_NS else 0


def distributed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`distributedInfo`, also where it is JSON within a text; empty where the file has none."""
    info = facts.get("distributedInfo")
    if isinstance(info, str):
        info, _ = members(info)
    return info if isinstance(info, dict) else {}


def small_count(value: Any) -> int | None:
    """A count or index below 2^31, a number or its text; None where it is neither."""
    number = _integer(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def text_of(value: Any) -> str:
    """A text that can be shown; empty where the value is none."""
    return clean(value) if isinstance(value, str) else ""


def devices(facts: Mapping[str, Any]) -> Iterator[Device]:
    """The accelerators that `deviceProperties` lists; what has no id is none."""
    properties = facts.get("deviceProperties")
    for item in properties[:FACTS] if isinstance(properties, list) else []:
        if isinstance(item, dict) and (number := small_count(item.get("id"))) is not None:
            memory = _integer(item.get("totalGlobalMem"))
            yield Device(
                id=number,
                name=text_of(item.get("name")),
                num_sms=small_count(item.get("numSms")),
                memory_bytes=memory if memory is not None and 0 <= memory < 1 << 62 else None,
                capability=_capability(item),
                **{field: _limit(item, keys) for field, keys in DEVICE_LIMITS.items()},
            )


def _capability(properties: Mapping[str, Any]) -> tuple[int, int] | None:
    major, minor = (small_count(properties.get(key)) for key in CAPABILITY_KEYS)
    return (major, minor) if major and minor is not None else None


def _limit(properties: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """The first of these that is a positive count: 0 is what a profiler writes that does not know it."""
    return next((number for key in keys if (number := small_count(properties.get(key)))), None)


def _group_size(groups: object) -> int | None:
    """Ranks of each process group that the file lists, where all have as many; else None."""
    listed = (
        [each.get("ranks") if isinstance(each, dict) else None for each in groups] if isinstance(groups, list) else []
    )
    sizes = {len(ranks) if isinstance(ranks, list) else None for ranks in listed}
    return sizes.pop() if len(sizes) == 1 else None


def info(facts: Mapping[str, Any], tally: Tally) -> dict[str, str]:
    """The plain values of the file, as texts, with NCCL's version, which Kineto puts beside the rank; and how it was
    made, where weftrace wrote it or captured it."""
    plain = {clean(key): clean(str(value)) for key, value in facts.items() if isinstance(value, _PLAIN)}
    if configured := _configuration(facts):
        plain.pop(CONFIGURATION_KEY, None)  # JSON within a text is the same once more
    every = plain | configured
    summary = dict(islice(((k, v) for k, v in every.items() if len(k) + len(v) <= NAME_CHARS), FACTS))
    if left_out := every.keys() - summary:
        tally.repair(MANY_FACTS, min(left_out), len(left_out))
    if nccl := text_of(distributed(facts).get("nccl_version")):
        summary.setdefault("nccl_version", nccl)
    if size := _group_size(distributed(facts).get("pg_config")):
        summary.setdefault(GROUP_SIZE, str(size))
    return summary


def _configuration(facts: Mapping[str, Any]) -> dict[str, str]:
    """What the object `weftrace` tells, or JSON of it within a text: plain values under names of `CONFIGURED`."""
    summary = facts.get(CONFIGURATION_KEY)
    if isinstance(summary, str):
        summary, _ = members(summary)
    found = (
        {key: value for key, value in summary.items() if isinstance(value, _PLAIN)} if isinstance(summary, dict) else {}
    )
    return {
        clean(key): str(value).lower() if isinstance(value, bool) else clean(str(value))
        for key, value in found.items()
        if key.startswith(CONFIGURED)
    }


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,19}\s*", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- the rank, from the file's name -----------------------------------------------------------------------------------

# torch.profiler.tensorboard_trace_handler names a file <host>_<process id>.<time>.pt.trace.json: no rank in that.
_PROCESS_AND_TIME = re.compile(r"_\d+\.\d{10,}(?=\.pt\.trace\.json)")
_COUNTED_OTHERWISE = frozenset(
    (
        "step",
        "steps",
        "iter",
        "iteration",
        "epoch",
        "v",
        "version",
        "seq",
        "layer",
        "layers",
        "node",
        "pid",
        "job",
        "run",
        "size",
    )
)


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name tells: rank0, rank-0, rank_3, worker7, else the only small number that stands between
    separators (`trace_0_.json`); None where there is none, or more than one."""
    name = _PROCESS_AND_TIME.sub("", re.split(r"[/\\]", path)[-1])
    for word in ("rank", "worker"):
        if match := re.search(rf"{word}[-_.=]?([0-9]{{1,6}})(?![0-9])", name, re.IGNORECASE):
            return int(match[1])
    parts = re.split(r"[-_.]", name)
    numbers = [
        int(part)
        for before, part in zip(["", *parts], parts, strict=False)
        if re.fullmatch(r"[0-9]{1,5}", part) and before.lower() not in _COUNTED_OTHERWISE
    ]
    return numbers[0] if len(numbers) == 1 else None
