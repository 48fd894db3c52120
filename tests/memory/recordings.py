"""Recordings with memory events, as the profiler writes them."""

from __future__ import annotations

from tests.tracefile import GEMM, TraceFile

CUDA, HIP, CPU = 1, 6, 0


class MemoryFile(TraceFile):
    """With memory events: each is (µs, address, bytes), and the sums are kept as the profiler keeps them."""

    def __init__(self, *, before: int = 0, reserved: int = 0) -> None:
        super().__init__()
        self.allocated, self.reserved = before, reserved

    def change(self, ts: float, address: int, num_bytes: int, *, device_type: int = CUDA, device: int = 0, tid: int = 1,
               sums: bool = True) -> MemoryFile:  # fmt: skip
        self.allocated += num_bytes
        self.reserved = max(self.reserved, self.allocated) if device_type else 0
        totals = {"Total Allocated": self.allocated, "Total Reserved": self.reserved} if sums else {}
        args = {"Device Type": device_type, "Device Id": device, "Addr": address, "Bytes": num_bytes, **totals}
        event = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": tid, "ts": ts, "cat": "cpu_instant_event"}
        self.events.append({**event, "args": args})
        return self


def training() -> MemoryFile:
    """Before it 1,000 bytes of which 300 are freed. At 30 a product's 600, at 40 a sum's 200 through aten::empty, at 50
    the product's are freed and at 60 the same address is 100 of nobody. The peak is 1,500, at 40."""
    file = MemoryFile(before=1_000, reserved=2_000)
    file.kernel(GEMM, 20, 100, launch=10)
    file.host("forward", 25, 30).host("aten::mm", 28, 4, cat="cpu_op").host("aten::add", 38, 4, cat="cpu_op")
    file.host("aten::empty", 39, 2, cat="cpu_op")
    file.change(15, 5, -300).change(30, 1, 600).change(40, 2, 200).change(50, 1, -600).change(60, 1, 100)
    return file
