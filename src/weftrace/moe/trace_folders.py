"""Traces of a profile as files: a folder, one compressed file a rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weftrace.errors import OutputError, TraceError
from weftrace.files.sources import open_bytes
from weftrace.moe.profiles import Profile
from weftrace.trace import write_chrome
from weftrace.trace.chrome.facts import CONFIGURATION_KEY, members
from weftrace.trace.job import SUFFIXES


def trace_names(num_ranks: int) -> list[str]:
    """Files of the ranks, in order."""
    width = len(str(num_ranks - 1))
    return [f"rank-{rank:0{width}}.json.gz" for rank in range(num_ranks)]


def check_folder(folder: str, kind: str, num_ranks: int) -> None:
    """Raises `OutputError` where a folder holds traces that would then be taken for ranks of this profile, or files of
    its names that something else wrote: only an earlier profile of this kind is written over."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise OutputError(f"{folder}: is a file; traces go into a folder")
    if path.is_dir():
        own = set(trace_names(num_ranks))
        others = sorted(each.name for each in path.iterdir() if each.name.endswith(SUFFIXES) and each.name not in own)
        if others:
            raise OutputError(
                f"{folder}: holds {others[0]}, which is no trace of this profile and would be read as one of its "
                "ranks. Choose another folder."
            )
        for name in sorted(own):
            if (path / name).exists() and _simulated_kind(path / name) != kind:
                raise OutputError(
                    f"{folder}: holds {name}, which is no simulated profile of {kind} and would be overwritten. Choose "
                    "another folder."
                )


def _simulated_kind(path: Path) -> str | None:
    """Of which kind the profile is that was simulated into a file, by its head; None of every other file."""
    try:
        head = next(open_bytes(path).chunks, b"")
    except TraceError:
        return None
    facts, _ = members(head.decode("utf-8", "replace"))  # sound up to the events, which the head cuts
    made = facts.get(CONFIGURATION_KEY) if facts.get("weftrace_simulated") else None
    return made.get("profile.kind") if isinstance(made, dict) else None


def write_traces(
    profile: Profile, folder: str, *, on_progress: Callable[[int, int], object] = lambda done, total: None
) -> int:
    """Write the trace of each rank; bytes of all. Raises `OutputError`."""
    check_folder(folder, profile.setting.kind, profile.num_ranks)
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    num_bytes = 0
    for rank, name in enumerate(trace_names(profile.num_ranks)):
        write_chrome(profile.trace(rank), home / name)
        num_bytes += (home / name).stat().st_size
        on_progress(rank + 1, profile.num_ranks)
    return num_bytes
