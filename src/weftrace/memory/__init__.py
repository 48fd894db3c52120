"""Memory of a device: of a trace's memory events, and of snapshots of torch's allocator, read without running them.

import weftrace as wt

wt.memory.read_snapshot("dump_snapshot.pickle").devices[0].history.peak_bytes
wt.memory.memory_of("train.json.gz").devices[0].alive      # who held what at the peak of a trace
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.memory.of_traces import TraceMemory as TraceMemory
    from weftrace.memory.of_traces import memory_of as memory_of
    from weftrace.memory.snapshot_of_memory import AllocatorHistory as AllocatorHistory
    from weftrace.memory.snapshot_of_memory import DeviceMemory as DeviceMemory
    from weftrace.memory.snapshot_of_memory import MemorySnapshot as MemorySnapshot
    from weftrace.memory.snapshot_of_memory import read_snapshot as read_snapshot

    __all__: list[str]

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
