"""The part of capture that needs torch: its profiler, started and stopped, and the loop's `step`."""
