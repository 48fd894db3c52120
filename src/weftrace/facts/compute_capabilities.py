"""What does one SM hold at one time? NVIDIA's limits by compute capability: `compute_capabilities.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weftrace.errors import WeftraceError
from weftrace.facts.tables import read_tables

BUILT_IN = Path(__file__).with_name("compute_capabilities.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmLimits:
    """What one SM of a compute capability holds at most at one time.

    shared_bytes_reserved: shared memory of each block that CUDA itself takes. register_granularity: registers are given
    to a warp in multiples of it; shared_granularity: shared memory to a block in multiples of so many bytes.
    """

    capability: str
    max_blocks_per_sm: int
    max_threads_per_sm: int
    registers_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_reserved: int
    register_granularity: int
    shared_granularity: int
    source: str


def sm_limits(capability: tuple[int, int]) -> SmLimits | None:
    """The limits of a compute capability, (9, 0); None where they are not known here."""
    return _limits().get(".".join(map(str, capability)))


@cache
def _limits() -> dict[str, SmLimits]:
    entries = read_tables(BUILT_IN, "capability", what="limits of SMs", error=WeftraceError)
    return {entry["capability"]: SmLimits(**entry) for entry in entries}
