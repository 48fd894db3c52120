"""The operation list: what a mixture-of-experts layer does, in which order, on which lane, and what waits for what.

An `Overlap` is data: simulated by `as_plan`, executed by `runtime`, written by users as a TOML file. Operations are in
the order in which the host issues them; those of one lane run in that order, as on a CUDA stream.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from weftrace.errors import ProfileError
from weftrace.moe.setting import KINDS, Kind
from weftrace.notebook import InNotebook

#: What a layer consists of. attn: attention and the routing gate; attn-0: its projections before the attention core;
#: attn-1: the core, the output projection and the gate; shared: the shared expert; mlp: the routed experts (in training
#: the shared expert too); dispatch and combine: tokens to their experts, and back.
Work = Literal["attn", "attn-0", "attn-1", "shared", "mlp", "dispatch", "combine"]
WORKS: tuple[Work, ...] = get_args(Work)
Direction = Literal["F", "B", "W"]
#: compute and side: two streams of kernels; communication: kernels that move tokens, and hold SMs; network: transfers
#: that hold none.
Lane = Literal["compute", "side", "communication", "network"]
#: whole; or of a transfer that holds no SM: the short kernel that issues it, the transfer, the short kernel that ends
#: it.
Part = Literal["whole", "issue", "transfer", "receive"]
_CHOICES: dict[str, tuple[str, ...]] = {
    "work": WORKS, "direction": get_args(Direction), "lane": get_args(Lane), "part": get_args(Part),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(InNotebook):
    """One operation of a layer.

    name: unique in the list. direction: F forward, B backward, W weight gradients. micro_batch: whose tokens.
    share: which part of the work of its name this is: weight gradients on two lanes are two operations of 0.5 each.
    chunk, num_chunks: of a micro-batch cut in pieces, which one this works on; its share is 1 / num_chunks.
    after: operations of the same layer that have ended before this starts; after_previous: of the layer before.
    phase: the host range that it is launched in, which it may share with its other parts.
    layer_shift: -1 where it works on the layer before the one that its repetition of the list is about, 1 on the layer
    after: lists that interleave layers. What it waits for is told by repetition all the same.
    """

    name: str
    work: Work
    direction: Direction = "F"
    micro_batch: int = 0
    lane: Lane = "compute"
    part: Part = "whole"
    share: float = 1.0
    chunk: int = 0
    num_chunks: int = 1
    after: tuple[str, ...] = ()
    after_previous: tuple[str, ...] = ()
    phase: str = ""
    layer_shift: int = 0

    @property
    def moves_tokens(self) -> bool:
        return self.work in ("dispatch", "combine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap(InNotebook):
    """An operation list of one layer (in training of a pair of layers), which is repeated.

    name, title: what it is called, short and in words. kinds: profiles that it is for. operations: in issue order.
    source: who published it. notes: what to know before trusting it.

    Raises `ProfileError` where two operations share a name, one waits for what the list does not have, or what waits
    for what goes in a circle.
    """

    name: str
    title: str
    kinds: tuple[Kind, ...]
    operations: tuple[Operation, ...]
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self)

    def __getitem__(self, name: str) -> Operation:
        found = next((each for each in self.operations if each.name == name), None)
        if found is None:
            raise ProfileError(f"overlap {self.name!r} has no operation {name!r}; it has {', '.join(self.names)}")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.operations)

    @property
    def num_micro_batches(self) -> int:
        return 1 + max(each.micro_batch for each in self.operations)

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "overlap", self.title
        yield "for", ", ".join(self.kinds)
        lanes = dict.fromkeys(each.lane for each in self.operations)
        yield from ((lane, " ".join(each.name for each in self.operations if each.lane == lane)) for lane in lanes)


def known_overlaps() -> tuple[str, ...]:
    """Names of the lists that come with weftrace."""
    home = files("weftrace.moe") / "overlaps"
    return tuple(sorted(each.name.removesuffix(".toml") for each in home.iterdir() if each.name.endswith(".toml")))


def load_overlap(name: str) -> Overlap:
    """A list that comes with weftrace, by name, or one of a user's, by the path of its TOML file.

    Raises `ProfileError`, listing the names, where there is none, and where the file is no such list.
    """
    if name in known_overlaps():
        return overlap_of((files("weftrace.moe") / "overlaps" / f"{name}.toml").read_text("utf-8"), name)
    if not name.endswith(".toml"):
        raise ProfileError(f"no overlap {name!r}; there are {', '.join(known_overlaps())}, or give a .toml file")
    try:
        return overlap_of(Path(name).read_text("utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def overlap_of(text: str, what: str) -> Overlap:
    """The list of a TOML text. what: names it in errors. Raises `ProfileError` for what is no such list."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{what}: not TOML: {error}") from error
    given = raw.pop("operation", None)
    if not isinstance(given, list) or not given:
        raise ProfileError(f"{what}: it has no operations; each begins with [[operation]]")
    operations = tuple(_operation(each, f"{what}: operation {number}") for number, each in enumerate(given, 1))
    known = {"name", "title", "kinds", "source", "notes"}
    if unknown := sorted(set(raw) - known):
        raise ProfileError(f"{what}: unknown key {unknown[0]!r}; the keys are {', '.join(sorted(known))}, operation")
    kinds = raw.get("kinds", list(KINDS))
    if not isinstance(kinds, list) or any(kind not in KINDS for kind in kinds):
        raise ProfileError(f"{what}: kinds = {kinds!r}; it lists some of {', '.join(KINDS)}")
    name = str(raw.get("name", Path(what).stem))
    return Overlap(
        name=name, title=str(raw.get("title", name)), kinds=tuple(kinds), operations=operations,
        source=str(raw.get("source", "")), notes=tuple(map(str, raw.get("notes", ()))),
    )  # fmt: skip


def check(overlap: Overlap) -> None:
    """Raise `ProfileError` where the list cannot run."""
    of = f"overlap {overlap.name!r}"
    names = set(overlap.names)
    if len(names) < len(overlap.operations):
        twice = next(name for name in overlap.names if overlap.names.count(name) > 1)
        raise ProfileError(f"{of}: two operations are called {twice!r}")
    for each in overlap.operations:
        for other in (*each.after, *each.after_previous):
            if other not in names:
                raise ProfileError(f"{of}: {each.name!r} waits for {other!r}, which the list does not have")
    if circle := _circle(overlap):
        raise ProfileError(f"{of}: its operations wait for each other in a circle: {' -> '.join(circle)}")


def _circle(overlap: Overlap) -> list[str]:
    """Operations that wait for each other, through `after` and through the order of a lane; none where all can run."""
    waits = {each.name: set(each.after) for each in overlap.operations}
    last: dict[str, str] = {}
    for each in overlap.operations:
        if each.lane in last:
            waits[each.name].add(last[each.lane])
        last[each.lane] = each.name
    while free := [name for name, on in waits.items() if not on & waits.keys()]:
        for name in free:
            del waits[name]
    if not waits:
        return []
    path = [next(iter(waits))]
    while path[-1] not in path[:-1]:
        path.append(next(iter(sorted(waits[path[-1]] & waits.keys()))))
    return path[path.index(path[-1]) :]


def _operation(raw: Any, where: str) -> Operation:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise ProfileError(f"{where}: it has no name")
    where = f"{where} ({raw['name']})"
    known = {item.name: item for item in fields(Operation)}
    if unknown := sorted(set(raw) - set(known)):
        raise ProfileError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(known)}")
    values = dict(raw)
    if "work" not in values:
        raise ProfileError(f"{where}: it does not say its work, one of {', '.join(WORKS)}")
    for key, value in values.items():
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ProfileError(f"{where}: {key} = {value!r}; it is one of {', '.join(_CHOICES[key])}")
        if key == "layer_shift" and value not in (-1, 0, 1):
            raise ProfileError(f"{where}: layer_shift = {value!r}; it is -1, 0 or 1")
        if key in ("micro_batch", "chunk", "num_chunks") and (type(value) is not int or value < 0):
            raise ProfileError(f"{where}: {key} = {value!r}; it is a whole number")
        if key in ("after", "after_previous"):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ProfileError(f"{where}: {key} = {value!r}; it is a list of names")
            values[key] = tuple(value)
        if key == "share" and (not isinstance(value, int | float) or not 0 < value <= 1):
            raise ProfileError(f"{where}: share = {value!r}; it is above 0 and at most 1")
    values.setdefault("share", 1 / values.get("num_chunks", 1))
    values.setdefault("phase", values["name"])
    return Operation(**values)
