"""Operation lists as TOML: those that come with weftrace, and those that users write."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from weftrace.errors import ProfileError
from weftrace.files.documents import read_text, toml_of
from weftrace.moe.operations import WORKS, Direction, Lane, Operation, Overlap, Part
from weftrace.moe.requests import PHASES, ModelPhase

_CHOICES: dict[str, tuple[str, ...]] = {
    "work": WORKS, "direction": get_args(Direction), "lane": get_args(Lane), "part": get_args(Part),
}  # fmt: skip
_KEYS = ("name", "title", "kinds", "operations_of", "num_chunks", "all_sms", "source", "notes")
_MAX_CHUNKS = 64  # more only adds kernels' starts


def known_overlaps(kind: ModelPhase | None = None) -> tuple[str, ...]:
    """Names of the lists that come with weftrace. kind: only those for that kind of profile."""
    shipped = [_shipped_list(text, what, None) for _, what, text in _files()]
    return tuple(dict.fromkeys(each.name for each in shipped if kind is None or kind in each.kinds))


def complete_overlap(incomplete: str) -> list[str]:
    """Names of the lists that begin so."""
    return [name for name in known_overlaps() if name.startswith(incomplete)]


def load_overlap(name: str, kind: ModelPhase | None = None) -> Overlap:
    """A list that comes with weftrace, by name, or one of a user's, by the path of its TOML file.

    name: with a number after a colon, "chunked:8", cut in so many chunks. kind: of the profile that it is for; several
    lists may share a name, each for kinds of its own. Raises `ProfileError` where there is none, where the file is no
    such list, and where it is for other kinds.
    """
    plain, num_chunks = _split(name)
    found = [(what, text) for own, what, text in _files() if own == plain]
    if found:
        lists = [_shipped_list(text, what, num_chunks) for what, text in found]
    elif plain.endswith(".toml"):
        lists = [overlap_of(read_text(plain, error=ProfileError), plain, num_chunks=num_chunks)]
    else:
        raise ProfileError(f"no overlap {plain!r}; there are {', '.join(known_overlaps())}, or give a .toml file")
    for each in lists:
        if kind is None or kind in each.kinds:
            return each
    kinds = ", ".join(dict.fromkeys(known for each in lists for known in each.kinds))
    others = ", ".join(known_overlaps(kind))
    raise ProfileError(f"overlap {plain!r} is for {kinds}, not for {kind}; for that there are {others}")


def overlap_of(text: str, what: str, *, num_chunks: int | None = None) -> Overlap:
    """The list of a TOML text. what: names it in errors. num_chunks: instead of the text's own.

    Raises `ProfileError` for what is no such list.
    """
    raw = toml_of(text, what, error=ProfileError)
    given = raw.pop("operation", None)
    if unknown := sorted(set(raw) - set(_KEYS)):
        raise ProfileError(f"{what}: unknown key {unknown[0]!r}; the keys are {', '.join(_KEYS)}, operation")
    kinds = raw.get("kinds", list(PHASES))
    if not isinstance(kinds, list) or not kinds or any(kind not in PHASES for kind in kinds):
        raise ProfileError(f"{what}: kinds = {kinds!r}; it lists some of {', '.join(PHASES)}")
    all_sms, notes = raw.get("all_sms", False), raw.get("notes", [])
    if type(all_sms) is not bool:
        raise ProfileError(f"{what}: all_sms = {all_sms!r}; it is true or false")
    if not isinstance(notes, list):
        raise ProfileError(f"{what}: notes = {notes!r}; it is a list of texts")
    chunks = _num_chunks(raw, what, num_chunks)
    name = str(raw.get("name", Path(what).stem))
    return Overlap(
        name=name if num_chunks is None else f"{name}:{chunks}", title=str(raw.get("title", name)), kinds=tuple(kinds),
        operations=_operations(raw, given, chunks, what), num_chunks=chunks, all_sms=all_sms,
        source=str(raw.get("source", "")), notes=tuple(map(str, notes)),
    )  # fmt: skip


def _operations(raw: Mapping[str, Any], given: Any, num_chunks: int, what: str) -> tuple[Operation, ...]:
    other = raw.get("operations_of")
    if other is not None:
        if given is not None or not isinstance(other, str):
            raise ProfileError(f"{what}: operations_of = {other!r}; it names a list, and stands instead of operations")
        return load_overlap(other, next(iter(raw.get("kinds", PHASES)))).operations
    if not isinstance(given, list) or not given:
        raise ProfileError(f"{what}: it has no operations; each begins with [[operation]]")
    read = [_operation(each, f"{what}: operation {number}") for number, each in enumerate(given, 1)]
    if num_chunks > 1 and not any(is_cut for _, is_cut in read):
        raise ProfileError(f"{what}: {num_chunks} chunks, and no operation has each_chunk = true")
    return tuple(_cut(read, num_chunks))


def _cut(read: list[tuple[Operation, bool]], num_chunks: int) -> Iterator[Operation]:
    """Operations of chunks stand once for each: "MLP" becomes "MLP.0", "MLP.1" ... in its place."""
    cut = {each.name for each, is_cut in read if is_cut}

    def all_of(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(part for name in names for part in (_parts(name, num_chunks) if name in cut else (name,)))

    for each, is_cut in read:
        if not is_cut:
            yield replace(each, after=all_of(each.after), after_previous=all_of(each.after_previous))
            continue
        for chunk, name in enumerate(_parts(each.name, num_chunks)):
            own = tuple(f"{other}.{chunk}" if other in cut else other for other in each.after)
            yield replace(
                each, name=name, after=own, after_previous=all_of(each.after_previous), chunk=chunk,
                num_chunks=num_chunks, share=each.share / num_chunks,
            )  # fmt: skip


def _parts(name: str, num_chunks: int) -> tuple[str, ...]:
    return tuple(f"{name}.{chunk}" for chunk in range(num_chunks))


def _operation(raw: Any, where: str) -> tuple[Operation, bool]:
    """The operation, and whether it stands once for each chunk."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise ProfileError(f"{where}: it has no name")
    where = f"{where} ({raw['name']})"
    known = [item.name for item in fields(Operation)]
    if unknown := sorted(set(raw) - {*known, "each_chunk"}):
        raise ProfileError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(known)}, each_chunk")
    values = dict(raw)
    is_cut = values.pop("each_chunk", False)
    if type(is_cut) is not bool:
        raise ProfileError(f"{where}: each_chunk = {is_cut!r}; it is true or false")
    if "work" not in values:
        raise ProfileError(f"{where}: it does not say its work, one of {', '.join(WORKS)}")
    for key, value in values.items():
        _check_value(where, key, value)
    values |= {key: tuple(values[key]) for key in ("after", "after_previous") if key in values}
    values.setdefault("share", 1 / values.get("num_chunks", 1))
    values.setdefault("phase", values["name"])
    return Operation(**values), is_cut


def _check_value(where: str, key: str, value: Any) -> None:
    if key in _CHOICES and value not in _CHOICES[key]:
        raise ProfileError(f"{where}: {key} = {value!r}; it is one of {', '.join(_CHOICES[key])}")
    if key == "layer_shift" and (type(value) is not int or value not in (-1, 0, 1)):
        raise ProfileError(f"{where}: layer_shift = {value!r}; it is -1, 0 or 1")
    least = {"micro_batch": 0, "chunk": 0, "num_chunks": 1}.get(key)
    if least is not None and (type(value) is not int or value < least):
        raise ProfileError(f"{where}: {key} = {value!r}; it is a whole number of {least} or more")
    if key in ("after", "after_previous") and not (
        isinstance(value, list) and all(isinstance(item, str) for item in value)
    ):
        raise ProfileError(f"{where}: {key} = {value!r}; it is a list of names")
    if key == "share" and (not isinstance(value, int | float) or not 0 < value <= 1):
        raise ProfileError(f"{where}: share = {value!r}; it is above 0 and at most 1")
    if key == "phase" and not isinstance(value, str):
        raise ProfileError(f"{where}: phase = {value!r}; it is a text")


def _num_chunks(raw: Mapping[str, Any], what: str, wanted: int | None) -> int:
    own = raw.get("num_chunks", 1)
    if wanted is not None and "num_chunks" not in raw:
        raise ProfileError(f"{what}: it is not cut in chunks, so {wanted} chunks have no meaning")
    chunks = own if wanted is None else wanted
    if type(chunks) is not int or not 1 <= chunks <= _MAX_CHUNKS:
        raise ProfileError(f"{what}: num_chunks = {chunks!r}; it is a whole number from 1 to {_MAX_CHUNKS}")
    return chunks


def _split(name: str) -> tuple[str, int | None]:
    """ "chunked:8" -> "chunked", 8."""
    found = re.fullmatch(r"(.+):(\d{1,4})", name)
    return (name, None) if found is None else (found[1], int(found[2]))


@cache
def _files() -> tuple[tuple[str, str, str], ...]:
    """Name of the list, name of the file, text, of each that comes with weftrace."""
    home = files("weftrace.moe") / "overlaps"
    texts = [(each.name, each.read_text("utf-8")) for each in home.iterdir() if each.name.endswith(".toml")]
    return tuple((tomllib.loads(text)["name"], name, text) for name, text in sorted(texts))


@cache
def _shipped_list(text: str, what: str, num_chunks: int | None) -> Overlap:
    return overlap_of(text, what, num_chunks=num_chunks)
