"""How much memory was allocated when, and by whom? Of a trace's memory events, or of an allocator's history."""

from weftrace.analysis.memory.use_of_memory import MemoryUse, memory_use

__all__ = ["MemoryUse", "memory_use"]
