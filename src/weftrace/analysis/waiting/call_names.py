"""What calls of the device's runtime are called, by what they do. Patterns that Python and Polars both read."""

from __future__ import annotations

#: Calls that wait for work: CUDA, HIP, and the driver's.
SYNC = r"(?i)^(cuda|hip|cu)(device|stream|event|ctx)?synchronize"
COPY = r"(?i)^(cuda|hip|cu)memcpy"
#: Copies that may return before they have ended: they wait for memory that is not pinned.
MAY_RETURN = r"(?i)memcpy.*async"
GRAPH = r"(?i)graphlaunch"
#: Calls that take or give back memory at once, and not in the order of a stream.
ALLOCATION = r"(?i)^(cuda|hip|cu)(mem)?(host)?(malloc|free|alloc)(managed|host)?(_v2)?$"
#: In the name of a copy on the device: memory that is not pinned.
PAGEABLE = r"(?i)pageable"
