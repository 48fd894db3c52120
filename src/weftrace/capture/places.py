"""Where a rank's files lie, and that none is there already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weftrace.errors import CaptureError


@dataclass(frozen=True, slots=True)
class World:
    """Which process this is: rank of world_size, local_rank on its host; restart: how often torchrun began anew."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    restart: int = 0


def world_of(environment: Mapping[str, str]) -> World:
    """As torchrun tells a process; a process of its own where nothing does."""

    def number(name: str, otherwise: int) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdecimal() else otherwise

    rank = number("RANK", 0)
    return World(
        rank, number("WORLD_SIZE", rank + 1), number("LOCAL_RANK", rank), number("TORCHELASTIC_RESTART_COUNT", 0)
    )


@dataclass(frozen=True, slots=True)
class Places:
    """Names of a rank's files: `rank3.json.gz`, or where there are several `step20/rank3.json.gz`, a folder for each
    recording, which `weftrace report` reads as one run. What torchrun starts again writes to `restart1/` and so on.
    """

    folder: Path
    rank: int
    has_one_file: bool

    def of(self, first_step: int) -> Path:
        below = self.folder if self.has_one_file else self.folder / f"step{first_step}"
        return below / f"rank{self.rank}.json.gz"


def prepared(folder: str | os.PathLike[str], world: World, *, has_one_file: bool) -> Places:
    """The folder, made where it is missing. Raises `CaptureError` where it cannot be written, or where a file of this
    rank is there already: recordings are never overwritten, and two runs in one folder would be read as one."""
    home = Path(folder) / f"restart{world.restart}" if world.restart else Path(folder)
    places = Places(home, world.rank, has_one_file)
    try:
        home.mkdir(parents=True, exist_ok=True)
        found = sorted(home.glob(places.of(0).name if has_one_file else f"step*/{places.of(0).name}"))
    except OSError as error:
        raise CaptureError(
            f"{home}: no recording can be written here: {error.strerror}. Choose another folder."
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise CaptureError(f"{home}: no permission to write a recording here. Choose another folder.")
    if found:
        raise CaptureError(
            f"{found[0]}: is there already, and recordings are not overwritten. Give each run a folder of its own, or "
            f"remove what is in {home}."
        )
    return places
