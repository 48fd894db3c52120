"""Job: the traces of many ranks of one run. It holds paths; events live only where and while a rank is worked on."""

from __future__ import annotations

import glob
import hashlib
import os
import pickle
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from weftrace.errors import TraceError, WeftraceError
from weftrace.files.sources import DEFAULT_MAX_BYTES, is_remote
from weftrace.files.standard_input import STANDARD_INPUT, located
from weftrace.notebook import InNotebook
from weftrace.trace.chrome.reader import rank_in_name, read_chrome
from weftrace.trace.chrome.recorders import told_of_files
from weftrace.trace.model import Trace
from weftrace.units import KIB
from weftrace.workers.losses import Lost
from weftrace.workers.main_script import only_here
from weftrace.workers.processes import usable_processors
from weftrace.workers.sharing import in_processes, through
from weftrace.workers.spool import Spool, code_key, file_keys

SUFFIXES = (".json", ".json.gz", ".json.zst", ".parquet")

#: Where traces lie below a folder that holds none, plugins/profile/… say; files that are looked at to name their tool.
_DEPTHS = ("*/*", "*/*/*", "*/*/*/*")
MOST_LOOKED_AT, _HEAD_BYTES = 20, 64 * KIB

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(InNotebook):
    """A rank's file that could not be used, and why."""

    path: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(InNotebook, Generic[T]):
    """What `Job.map` got from one file: a value, a failure, or neither where its rank was not asked for.

    rank: as the trace tells it; None where it does not, or could not be read. ranks: those of a file that holds many.
    truncated: where and why the file ended early; None where it is whole.
    """

    path: str
    rank: int | None = None
    value: T | None = None
    failure: Failure | None = None
    ranks: frozenset[int] = frozenset()
    truncated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(InNotebook):
    """Traces of one run, a file a rank.

    paths: in order of rank as far as names tell it. ranks: only these, where given. max_bytes: limit on each file's
    decompressed size. frames: read Python frames too. on_truncated: gets the path of each file that ended early,
    when it is read, and where and why.
    """

    source: str
    paths: tuple[str, ...]
    ranks: frozenset[int] | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    frames: bool = False
    on_truncated: Callable[[str, str], None] | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"Job({self.source!r}, {len(self.paths)} files)"

    def map(
        self,
        function: Callable[[Trace], T],
        *,
        workers: int | None = None,
        executor: Executor | None = None,
        on_done: Callable[[str], None] | None = None,
        spool: Spool | None = None,
    ) -> list[Outcome[T]]:
        """Apply a function to each rank's trace; outcomes in the order of `paths`.

        function: picklable, called where the trace was read; only its result travels. workers: processes, 1 for none
        besides this one; by default `worthwhile_processes`: one per 4 MB of packed files, at most one per processor,
        because to start one takes as long as to read so much. executor: used instead of processes of this machine: any
        of `concurrent.futures`, or a cluster's (`weftrace.workers.connect`), which reads each file by its absolute path
        or URL; `workers` is then how many files it gets at once, all by default. on_done: gets each path that is done.
        spool: keeps results until its block has ended, for a later call of the same function with the same arguments,
        files and weftrace to continue from. For functions in modules that stay as they are, of the trace alone.

        A file that fails, or whose worker dies, gives a Failure; the others go on. Ranks that were asked for and that
        no file holds give one Failure more, the last. Warns, and reads here, where no other process can run the
        function; raises ClusterError where no worker of a cluster can.
        """
        wanted = list(dict.fromkeys(path for path in self.paths if self._wanted(path)))
        tasks = [_Task(path, str(located(path)), self.ranks, self.max_bytes, self.frames) for path in wanted]
        done: dict[str, Outcome[T]] = {}
        share_out = partial(_shared_out, partial(_apply, function), workers=workers, executor=executor)
        is_long = executor is not None or _work([task.at for task in tasks]) >= _SPOOLED_BYTES
        results = share_out(tasks) if spool is None or not is_long else _resumed(spool, function, tasks, share_out)
        for task, result in results:
            if isinstance(result, Lost):
                result = Outcome(path=task.path, failure=Failure(path=task.path, error=f"{task.path}: {result.why}."))
            done[task.path] = result
            self._tell(task.path, result.truncated)
            if on_done is not None:
                on_done(task.path)
        outcomes = [done[path] for path in wanted]
        if absent := self._absent(outcomes):
            among = f"among {len(self.paths)} files; files named after another rank were not opened"
            error = f"{self.source}: no trace of rank {', '.join(map(str, absent))} {among}."
            outcomes.append(Outcome(path=self.source, failure=Failure(path=self.source, error=error)))
        return outcomes

    def traces(self) -> Iterator[Trace]:
        """Read one trace after another, here. Raises WeftraceError at the first that cannot be read."""
        for path in self.paths:
            if self._wanted(path):
                trace = read(path, max_bytes=self.max_bytes, frames=self.frames)
                self._tell(path, trace.quality.truncated)
                if (chosen := trace if self.ranks is None else _of_ranks(trace, self.ranks)) is not None:
                    yield chosen

    def _tell(self, path: str, truncated: str | None) -> None:
        if truncated and self.on_truncated is not None:
            self.on_truncated(path, truncated)

    def _absent(self, outcomes: Sequence[Outcome[T]]) -> list[int]:
        """Ranks that were asked for, and that neither a trace nor the name of a broken file tells."""
        summary = {o.rank if o.failure is None else rank_in_name(o.path) for o in outcomes}
        summary |= {rank for o in outcomes for rank in o.ranks}
        return sorted((self.ranks or frozenset()) - summary)

    def _wanted(self, path: str) -> bool:
        """False only where the name itself tells a rank that was not asked for."""
        named = rank_in_name(path) if "rank" in Path(path).name.lower() else None
        return self.ranks is None or named is None or named in self.ranks


@dataclass(frozen=True, slots=True)
class _Task:
    """path: as the job names it. at: where the file is read. seen: by the machine that sends this to another."""

    path: str
    at: str
    ranks: frozenset[int] | None
    max_bytes: int
    frames: bool
    seen: bool = False

    def to_travel(self) -> _Task:
        """For other machines, which do not share this one's working folder."""
        if is_remote(self.path):
            return self
        path = os.path.abspath(self.path)
        return replace(self, at=path, seen=os.path.exists(path))


def _resumed(
    spool: Spool,
    function: Callable[[Trace], T],
    tasks: Sequence[_Task],
    share_out: Callable[[Sequence[_Task]], Iterator[tuple[_Task, Outcome[T] | Lost]]],
) -> Iterator[tuple[_Task, Outcome[T] | Lost]]:
    """What a call before this one kept and would be the same now; then the results of the other tasks."""
    try:
        pickled = pickle.dumps(function)
    except Exception:  # a lambda, say
        pickled = b"__main__"
    if b"__main__" in pickled:  # whose code may be another under the same name
        return share_out(tasks)
    common = hashlib.sha256(pickled).hexdigest(), code_key()
    keys: list[bytes | None] = []
    for task, file in zip(tasks, file_keys([task.at for task in tasks]), strict=True):
        ranks = None if task.ranks is None else sorted(task.ranks)
        parts = *common, file, task.path, ranks, task.max_bytes, task.frames
        keys.append(None if file is None else repr(parts).encode())
    return spool.resumed(
        tasks, keys, share_out, named=lambda task: task.path, is_kept=lambda outcome: outcome.failure is None
    )


def _shared_out(
    call: Callable[[_Task], Outcome[T]], tasks: Sequence[_Task], workers: int | None, executor: Executor | None
) -> Iterator[tuple[_Task, Outcome[T] | Lost]]:
    if executor is not None:
        return through(executor, call, [task.to_travel() for task in tasks], workers)
    count = min(workers or worthwhile_processes([task.at for task in tasks]), len(tasks))
    if count > 1 and (reason := only_here(call)) is not None:
        warnings.warn(f"the ranks are read one after another, by this process alone: {reason}", stacklevel=3)
        count = 1
    return in_processes(call, tasks, count) if count > 1 else ((task, call(task)) for task in tasks)


# What a process reads and analyses while another one starts, in bytes of packed files; what an empty file takes of it.
_START_BYTES, _FILE_BYTES = 4_000_000, 400_000
#: From how many bytes on a job takes long enough here that its results are kept as they come.
_SPOOLED_BYTES = 4 * _START_BYTES


def worthwhile_processes(paths: Sequence[str], processors: int | None = None) -> int:
    """How many processes are to read files: each has to be worth its start, by the bytes that it reads.

    processors: that there are for it, by default those that this process may use. Remote files take one per processor.
    """
    most = usable_processors() if processors is None else processors
    return max(1, min(most, _work(paths) // _START_BYTES))


def _work(paths: Sequence[str]) -> int:
    """What it takes to read files, in bytes of packed files; without end where one is remote."""
    if any(map(is_remote, paths)):
        return sys.maxsize
    sizes = [(path, os.path.getsize(path) if os.path.exists(path) else 0) for path in paths]
    return sum(_FILE_BYTES + (size // 10 if path.endswith(".json") else size) for path, size in sizes)


def _apply(function: Callable[[Trace], T], task: _Task) -> Outcome[T]:
    truncated = None
    try:
        trace: Trace | None = read(task.at, max_bytes=task.max_bytes, frames=task.frames, workers=1)
        assert trace is not None
        trace = replace(trace, path=task.path)
        rank, truncated = trace.rank, trace.quality.truncated
        held = frozenset(w.rank for w in trace.plain.workers if w.rank is not None) if trace.plain else frozenset()
        if task.ranks is not None and (trace := _of_ranks(trace, task.ranks)) is None:
            return Outcome(path=task.path, rank=rank)
        return Outcome(path=task.path, rank=rank, value=function(trace), ranks=held, truncated=truncated)
    except WeftraceError as error:
        summary = _unseen(task) if task.seen and not os.path.exists(task.at) else str(error).replace(task.at, task.path)
    except MemoryError:
        summary = f"{task.path}: not enough memory to read it; try fewer --workers."
    except Exception as error:  # a bug, ours or the function's, must not cost the other ranks their results
        *_, at = traceback.extract_tb(error.__traceback__)
        summary = (
            f"{task.path}: unexpected {type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})."
        )
    return Outcome(path=task.path, failure=Failure(path=task.path, error=summary), truncated=truncated)


def _unseen(task: _Task) -> str:
    return (
        f"{task.at}: is there where this was started, not on {socket.gethostname()}, where a worker was to read it. "
        "Put the traces where all machines see them by one path (a shared file system), or name them by URLs (s3://…)."
    )


def _of_ranks(trace: Trace, ranks: frozenset[int]) -> Trace | None:
    """The trace, if it is of one of these ranks; of a file that holds many ranks, what is theirs."""
    if trace.plain is None:
        return trace if trace.rank in ranks else None
    plain = trace.plain.of_ranks(ranks)
    if not plain.workers:
        return None
    return replace(trace, plain=plain, rank=plain.workers[0].rank if len(plain.workers) == 1 else None)


@overload
def open_trace(
    source: str | os.PathLike[str],
    /,
    *,
    ranks: None = None,
    frames: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
    workers: int | None = None,
) -> Trace | Any: ...  # a Trace of a file, a Job of a folder: which of them, only the disk knows
@overload
def open_trace(
    *sources: str | os.PathLike[str],
    ranks: Iterable[int] | None = None,
    frames: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
    workers: int | None = None,
) -> Job: ...
def open_trace(
    *sources: str | os.PathLike[str],
    ranks: Iterable[int] | None = None,
    frames: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
    workers: int | None = None,
) -> Trace | Job:
    """Open what a path names: a file gives a Trace, a folder, a glob or several paths give a Job.

    sources: Kineto/Chrome JSON, plain or compressed, or Parquet written by weftrace; local, or a URL that fsspec opens.
    ranks: of a Job, only these. frames: read Python frames too, for time by module and by function. max_bytes: limit on
    a file's decompressed size. on_progress: gets stored bytes read. workers: processes that read a single file, see
    `read_chrome`; `Job.map` has its own.

    Raises TraceError when there is nothing to open or a single file cannot be used.
    """
    if not sources:
        raise TraceError("no trace is named: give a file, a folder, a glob or several of them")
    found = dict.fromkeys(path for source in sources for path in find_traces(source))
    paths = sorted(found, key=_by_rank)
    if len(paths) == 1 and ranks is None:
        return read(paths[0], frames=frames, max_bytes=max_bytes, on_progress=on_progress, workers=workers)
    name = str(sources[0]) if len(sources) == 1 else _common_name(sources)
    only = None if ranks is None else frozenset(ranks)
    return Job(source=name, paths=tuple(paths), ranks=only, max_bytes=max_bytes, frames=frames)


def _common_name(sources: Sequence[str | os.PathLike[str]]) -> str:
    """What several paths are called together: the folder that holds them all, else how many they are."""
    folders = {str(Path(source).parent) for source in sources}
    return folders.pop() if len(folders) == 1 and folders != {"."} else f"{len(sources)} files"


def find_traces(path: str | os.PathLike[str]) -> list[str]:
    """The trace files that a path, folder or glob names, by rank where names tell it. Raises TraceError for none."""
    name = str(path)
    if not name.strip():
        raise TraceError("an empty path: give a trace's file, a folder of ranks or a glob.")
    if is_remote(name):
        found = _remote(name) if any(c in name for c in "*?[") or name.endswith("/") else [name]
    elif Path(name).is_dir():
        found = [str(entry) for entry in Path(name).iterdir() if entry.name.endswith(SUFFIXES) and _is_named(entry)]
        if not found:
            raise TraceError(f"{name}: a folder without traces: {_no_traces_in(Path(name))}")
    elif any(c in name for c in "*?[") and not Path(name).exists():
        found = [entry for entry in glob.glob(name, recursive=True) if _is_named(Path(entry))]
        if not found:
            raise TraceError(f"{name}: matches no file. Check the pattern; quote it so that the shell leaves it alone.")
    else:
        found = [name]
    return sorted(found, key=_by_rank)


def _no_traces_in(folder: Path) -> str:
    """What a folder without traces holds instead, and what helps: traces further down, or files of other tools."""
    below = (found.parent for depth in _DEPTHS for found in folder.glob(depth) if found.name.endswith(SUFFIXES))
    if (there := next(below, None)) is not None:
        return f"they lie in {there}. Give that folder."
    files = sorted(path for path in folder.iterdir() if path.is_file())[:MOST_LOOKED_AT]
    if told := told_of_files((str(path), _head(path)) for path in files):
        return f"no file ends in {', '.join(SUFFIXES)}. {told}"
    return f"no file ends in {', '.join(SUFFIXES)}. Give the folder that holds them."


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _is_named(path: Path) -> bool:
    """A file, or a link to nothing: that one is some rank's, and who left it out would not say so."""
    return path.is_file() or _is_dangling(path)


def _is_dangling(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _remote(name: str) -> list[str]:
    import fsspec

    try:
        fs, root = fsspec.core.url_to_fs(name)
        entries = fs.glob(root) if any(c in name for c in "*?[") else fs.ls(root, detail=False)
    except Exception as error:  # each backend raises types of its own
        raise TraceError(f"{name}: cannot be listed: {error}") from error
    found = [fs.unstrip_protocol(entry) for entry in entries if str(entry).endswith(SUFFIXES)]
    if not found:
        raise TraceError(f"{name}: no traces there: no file ends in {', '.join(SUFFIXES)}.")
    return found


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    with open(located(path), "rb") as file:
        return file.read(4) == b"PAR1"


def _by_rank(path: str) -> tuple[int, str]:
    rank = rank_in_name(path)
    return (1 << 40 if rank is None else rank, path)


def read(
    path: str | os.PathLike[str],
    *,
    frames: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
    workers: int | None = None,
) -> Trace:
    """Read one trace file of any kind that weftrace knows. frames: read Python frames too; a Parquet file has none.
    workers: see `read_chrome`.

    Raises TraceError when it cannot be used.
    """
    if not is_remote(str(path)) and _is_dangling(Path(path)):
        raise TraceError(f"{path}: a link to {os.readlink(path)}, which is not there.")
    if str(path).endswith(".parquet") or (str(path) == STANDARD_INPUT and _is_parquet(path)):
        from weftrace.trace.parquet import load_parquet

        return load_parquet(path, max_bytes=max_bytes)
    return read_chrome(path, frames=frames, max_bytes=max_bytes, on_progress=on_progress, workers=workers)
