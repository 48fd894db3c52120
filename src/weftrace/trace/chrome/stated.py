"""What do the arguments of a file that no Kineto wrote say of each event: step, micro-batch, stage, rank?

Every writer names them otherwise. `SPELLINGS` lists the names that are known; case and what stands between words do not
count. Such a file is read twice: an ordinary one pays nothing for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from weftrace.trace.chrome.columns import Columns
from weftrace.trace.chrome.events import AllArgs, Event
from weftrace.trace.chrome.table import Table
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import Ints
from weftrace.trace.model import DEVICE_CATEGORIES, LAUNCH_CATEGORIES

#: What an argument says -> how it is spelled, in lower case and without anything between the words.
#: dp, pp, tp, cp, ep: places in data, pipeline, tensor, context and expert parallelism; pp is the stage. device: a
#: rank where nothing is called so.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "step": ("step", "stepid", "stepidx", "stepnum", "stepnumber", "globalstep", "trainstep", "trainingstep",
             "iteration", "iterationid", "iter", "iterid", "iteridx", "itr", "iterationnumber"),
    "micro_batch": ("microbatch", "microbatchid", "microbatchidx", "microbatchindex", "microbatchnumber", "microb",
                    "mb", "mbid", "mbidx", "mbindex", "ubatch", "ubatchid"),
    "pp": ("stage", "stageid", "stageidx", "stageindex", "pipelinestage", "ppstage", "pp", "pprank", "ppid",
           "pipelinerank", "pipelineparallelrank", "pipelinemodelparallelrank"),
    "dp": ("dp", "dprank", "dpid", "dataparallelrank", "replica", "replicaid"),
    "tp": ("tp", "tprank", "tpid", "tensorrank", "tensorparallelrank", "tensormodelparallelrank", "mprank"),
    "cp": ("cp", "cprank", "contextparallelrank"),
    "ep": ("ep", "eprank", "expertparallelrank"),
    "rank": ("rank", "rankid", "globalrank", "worldrank", "globalrankid"),
    "device": ("worker", "workerid", "gpu", "gpuid", "gpurank", "device", "deviceid"),
    "chunk": ("modelchunk", "modelchunkid", "chunk", "chunkid", "mc", "virtualstage", "virtualstageid", "vstage",
              "vpp", "vpprank", "virtualpipelinerank"),
    "seq": ("seq", "seqid", "seqno", "seqnum", "sequence", "sequenceid", "sequencenumber", "opseq", "opseqid"),
}  # fmt: skip
_FIELD = {spelling: field for field, spellings in SPELLINGS.items() for spelling in spellings}
_LARGEST = 1 << 31

#: Categories that only profilers of devices write: a file with one of them is no plain one.
#: https://github.com/pytorch/kineto/blob/main/libkineto/src/ActivityType.cpp
_KINETO = frozenset(
    (*DEVICE_CATEGORIES, *LAUNCH_CATEGORIES, "cpu_op", "user_annotation", "gpu_user_annotation", "python_function",
     "cuda_sync", "cuda_event", "collective_comm", "cpu_instant_event", "overhead", "glow_runtime",
     "mtia_insight", "hpu_op", "cuda_profiler_range")
)  # fmt: skip


def is_plain(events: pl.DataFrame) -> bool:
    """Whether no event is of a category that a profiler of devices writes."""
    found = events.get_column("cat").unique().cast(pl.String).drop_nulls()
    return bool(len(events)) and not any(cat in _KINETO or cat.startswith("mtia_") for cat in found)


class StatedTable(Table):
    """The same events as `Table` takes, with what their arguments say in place of their columns."""

    whole = True

    def __init__(self, *, exact: bool) -> None:
        super().__init__(Tally())
        self.exact = exact
        self.columns = self.stated = _StatedColumns()


class _StatedColumns(Columns):
    def __init__(self) -> None:
        super().__init__(Tally())
        self._height = 0
        self._found: dict[str, tuple[list[Ints], list[Ints]]] = {}  # field -> rows, values
        self._field: dict[str, str | None] = {}  # an argument as it is spelled -> field

    def append(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints) -> None:
        found: dict[str, dict[int, int]] = {}
        for row, event in enumerate(events, self._height):
            if isinstance(event.args, AllArgs):
                for key, item in event.args.every.items():
                    if (field := self._field_of(key)) is None or (value := _number(item)) is None:
                        continue
                    found.setdefault(field, {}).setdefault(row, value)
        for field, values in found.items():
            rows, numbers = self._found.setdefault(field, ([], []))
            rows.append(np.fromiter(values, np.int64, len(values)))
            numbers.append(np.fromiter(values.values(), np.int64, len(values)))
        self._height += len(events)

    def _field_of(self, key: str) -> str | None:
        if key not in self._field:
            if len(self._field) > 10_000:  # a hostile file
                self._field.clear()
            self._field[key] = _FIELD.get(re.sub(r"[^a-z0-9]", "", key.lower()))
        return self._field[key]

    def stated_frame(self) -> pl.DataFrame:
        """A row an event, in the file's order; a column a field of `SPELLINGS`, null where an event does not say."""
        columns = {}
        for field in SPELLINGS:
            values, known = np.zeros(self._height, np.int64), np.zeros(self._height, np.bool_)
            for rows, numbers in zip(*self._found.get(field, ((), ())), strict=True):
                values[rows], known[rows] = numbers, True
            columns[field] = pl.Series(field, values).set(pl.Series(~known), None)
        return pl.DataFrame(columns)


def _number(item: Any) -> int | None:
    """A count or index from 0, also in a text or as a fraction; the only one of a text such as "stage 2". A negative
    number stands for none."""
    if isinstance(item, str):
        found = re.findall(r"(?<![-\d])\d{1,9}(?!\d)", item[:64])
        return int(found[0]) if len(found) == 1 else None
    if isinstance(item, bool) or not isinstance(item, int | float):
        return None
    return int(item) if 0 <= item < _LARGEST and item == int(item) else None
