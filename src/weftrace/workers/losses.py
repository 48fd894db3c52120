"""Why a task gave nothing, told for whoever waits for it."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass

#: What Dask and Ray raise where the worker of a task died; told by name, since neither need be installed.
_DEATHS = frozenset({"KilledWorker", "WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "LocalRayletDiedError"})


class HeadLost(Exception):
    """The head of a cluster no longer answers, so that nothing more comes back."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What stands for the result of a task that gave none. why: a sentence, without its end."""

    why: str


def killed() -> Lost:
    """A process of this machine died over the task, twice, the second time alone."""
    return Lost("the process that read it was killed, most likely for lack of memory; try fewer --workers")


def is_death(error: BaseException) -> bool:
    """Whether a cluster says that the task's worker died: over this task, or over one beside it."""
    return type(error).__name__ in _DEATHS


def loss_of(error: BaseException) -> Lost:
    """What an exception of a future means, which is none of the task's own."""
    if isinstance(error, CancelledError) or type(error).__name__ in ("FutureCancelledError", "TaskCancelledError"):
        return Lost("it was cancelled before it was done, by its executor or because its cluster was lost")
    if isinstance(error, HeadLost):
        return Lost(f"it was not done when {error}")
    if isinstance(error, BrokenExecutor):
        return Lost(
            "a worker of the executor died, most likely for lack of memory, and took what was left with it; this "
            "file may not be the cause. Without `executor`, weftrace's own processes find the file that kills them"
        )
    if is_death(error):
        return Lost(
            "the worker that read it died, each time it was tried and at last with nothing beside it, most likely for "
            "lack of memory. Give workers more memory (its log has the limit), or leave the file out"
        )
    if "pickle" in f"{type(error).__name__} {error}".lower():
        return Lost(
            f"the function, or its result, cannot be pickled ({said(error)}). Pass a "
            "function that is defined at the top level of a module, and let it return plain values or frames"
        )
    return Lost(f"its worker gave no result: {type(error).__name__}: {said(error)}")


def said(error: BaseException) -> str:
    """The line of an exception's text that tells most: the last of a traceback, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["it does not say why"]
    return lines[-1 if "Traceback" in str(error) or "ray::" in lines[0] else 0].rstrip(".")
