"""Which files of a job count together? Ranks in order, and why others are left out: one rule for reports and diffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args

from weftrace.trace.plain.values import PLACES, SHOWN
from weftrace.trace.plain.workers import called
from weftrace.trace.work import Basis

#: Why a rank's file is in no sum of its job: it holds no device work where others do, it records another world size
#: than most, or another file of the same rank comes first.
Apart = Literal["host", "world", "duplicate"]


class OneRank(Protocol):
    """A device of a rank, with what decides whether it counts; a dataclass. See `RankAnalysis`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rank(self) -> int | None: ...
    @property
    def device(self) -> int | None: ...
    @property
    def world_size(self) -> int | None: ...
    @property
    def path(self) -> str: ...
    @property
    def basis(self) -> Basis: ...
    @property
    def name(self) -> str: ...
    @property
    def places(self) -> tuple[tuple[str, int], ...]: ...


R = TypeVar("R", bound=OneRank)


def by_rank(rank: OneRank) -> tuple[bool, int, int, str]:
    """The key that puts ranks in order: by rank, unknown ones last, then device, then path."""
    return (rank.rank is None, rank.rank or 0, rank.device or 0, rank.path)


def placed(ranks: list[R]) -> tuple[list[R], tuple[str, ...]]:
    """Ranks of several plain files by the names that tell them apart in the job; numbered anew where each file, which
    knows only its own, has numbered them from 0. And what is to be said of that.
    """
    summary = [dict(rank.places) for rank in ranks]
    if len({rank.path for rank in ranks}) < 2 or not all(summary):
        return ranks, ()
    varied = [place for place in SHOWN if len({places.get(place) for places in summary}) > 1]
    names = [" ".join(f"{PLACES[place]} {places[place]}" for place in varied if place in places) for places in summary]
    is_told = len(set(names)) == len(ranks)
    if not is_told:
        names = [called(rank.rank, name) for rank, name in zip(ranks, names, strict=True)]
    ranks = [replace(rank, name=name or rank.name) for rank, name in zip(ranks, names, strict=True)]
    if not is_told or len({rank.rank for rank in ranks}) == len(ranks):
        return ranks, ()
    ranks = sorted(ranks, key=lambda rank: [dict(rank.places).get(place, -1) for place in PLACES])
    order = ", then ".join(PLACES[place] for place in PLACES if place in varied)
    ranks = [replace(rank, rank=number) for number, rank in enumerate(ranks)]
    return ranks, (f"the files number their ranks each for itself: here they count from 0, in order of {order}",)


def apart_of(ranks: Sequence[OneRank]) -> list[Apart | None]:
    """Why each rank is in no sum of the job: what it holds is another thing, of another job, or there already."""
    found: dict[str, Apart] = {}  # by file
    if len({r.path for r in ranks}) > 1 and any(r.basis == "device" for r in ranks):
        found |= {r.path: "host" for r in ranks if r.basis != "device"}
    worlds = Counter(world for world, _ in {(r.world_size, r.path) for r in ranks if r.path not in found} if world)
    if len(worlds) > 1:
        most = max(worlds.values())
        world = next(r.world_size for r in ranks if r.path not in found and worlds[r.world_size or 0] == most)
        found |= {r.path: "world" for r in ranks if r.path not in found and (r.world_size or world) != world}
    first: dict[int, str] = {}
    for r in ranks:
        if r.rank is not None and r.path not in found and first.setdefault(r.rank, r.path) != r.path:
            found[r.path] = "duplicate"
    return [found.get(r.path) for r in ranks]


def apart_notes(ranks: Sequence[OneRank], apart: Sequence[Apart | None], fate: Callable[[int], str]) -> Iterator[str]:
    """What is to be said of ranks that do not count, and of those that have no file. apart: of each why it does not.
    fate: what becomes of so many that do not, as in "rank 2 is ..."."""
    for kind, names, numbers in _notes(ranks, apart):
        number = len(names) or numbers[0]
        are, hold = ("is", "holds") if number == 1 else ("are", "hold")
        few = [f"{each:,}" for each in numbers]
        yield _NOTES[kind].format(
            few, names=_listed(names), listed=_listed(numbers), are=are, hold=hold, fate=fate(number)
        )


_NOTES: Mapping[str, str] = {
    "host": "{names} {hold} no device work: {fate}",
    "duplicate": "several files say that they are rank {listed}: {names} {are} {fate}, the first by name counts",
    "unknown file": "1 file does not say its rank, and its name does not show it",
    "unknown files": "{0[0]} files do not say their rank, and their names do not show it",
    "world": "files of different jobs? they record world sizes {listed}: {names} {are} {fate}",
    "missing": "{0[0]} of {0[1]} ranks have no file here: sums and means are over those that have",
}


def _notes(ranks: Sequence[OneRank], apart: Sequence[Apart | None]) -> Iterator[tuple[str, list[str], list[int]]]:
    """What is to be said: its key in `_NOTES`, the files that it is of, and numbers: ranks, world sizes or counts."""
    kept = {reason: [r for r, why in zip(ranks, apart, strict=True) if why == reason] for reason in get_args(Apart)}
    named = {reason: list(dict.fromkeys(map(name_of, those))) for reason, those in kept.items()}
    counted = [r for r, why in zip(ranks, apart, strict=True) if why is None]
    if named["host"]:
        yield "host", named["host"], []
    if again := kept["duplicate"]:
        yield (
            "duplicate",
            sorted({Path(r.path).name for r in again}),
            sorted({r.rank for r in again if r.rank is not None}),
        )
    num_files = len({r.path for r in counted})  # a process that drove several devices has one
    unknown = len({r.path for r in counted if r.rank is None})
    if unknown and num_files > 1:
        yield "unknown file" + "s" * (unknown > 1), [], [unknown]
    if named["world"]:
        sizes = {r.world_size for r in (*counted, *kept["world"], *again) if r.world_size}
        yield "world", named["world"], sorted(sizes)
        return
    world = next((r.world_size for r in counted if r.world_size), None)
    present = len({r.rank for r in counted if r.rank is not None})
    if world and num_files > 1 and present < world:
        yield "missing", [], [world - present, world]


def excluded_words(number: int) -> str:
    """What becomes of so many in a report, see `apart_notes`; in a comparison they are left out."""
    return f"in no sum and shown by {'itself' if number == 1 else 'themselves'}"


def name_of(rank: OneRank) -> str:
    """What a rank is called where its file matters: "rank 2 (trace2.json)", or its file alone."""
    file = Path(rank.path).name
    return file if rank.rank is None else f"rank {rank.rank} ({file})"


def names_of(ranks: Sequence[OneRank]) -> list[str]:
    """What ranks of one job are called: "rank 2", "rank 2, device 1" where a process drove several, "DP 0 PP 3" in a
    plain trace, else the file."""
    several = len({(r.rank, r.path) for r in ranks}) < len(ranks)
    return [_name(rank, with_device=several) for rank in ranks]


def _name(rank: OneRank, *, with_device: bool) -> str:
    if rank.name:  # a plain trace's, which has no devices
        return rank.name
    name = PurePath(rank.path).name if rank.rank is None else f"rank {rank.rank}"
    return f"{name}, device {rank.device}" if with_device and rank.device is not None else name


def _listed(values: Sequence[int | str]) -> str:
    shown = ", ".join(map(str, values[:5]))
    return shown + (f" and {len(values) - 5:,} more" if len(values) > 5 else "")
