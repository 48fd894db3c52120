"""What is each cause of idle time called in sentences?"""

from __future__ import annotations

#: Cause -> what it is called after "The device waited … for".
WORDS: dict[str, str] = {
    "garbage_collection": "Python's garbage collection",
    "compilation": "compilation",
    "data_loading": "the data loader",
    "buffer_broadcast": "DDP's broadcast of buffers",
    "allocation": "the allocation of device memory",
    "scheduler": "the engine's scheduler",
    "logging": "logging",
    "checkpoint": "saving a checkpoint",
    "zero_grad": "zero_grad",
    "optimizer": "the optimizer's step",
    "lock": "a lock or a hand-over between threads",
    "blocking_sync": "the host, which had waited for the device",
    "blocking_copy": "blocking copies",
    "graph_launch": "a graph launch that blocked",
    "first_use": "the first use of a kernel",
    "operators": "eager operators",
    "python": "Python code between operators",
    "backward_thread": "a launching thread that recorded nothing",
    "annotation": "host code with only its annotation known",
    "nothing_recorded": "the host, which recorded nothing",
    "launch_call": "launch calls",
    "launch_latency": "launch latency",
    "turnaround": "turnaround between queued kernels",
    "held": "queued work that something held",
    "unrecorded": "unrecorded work",
    "file_cut": "what was cut from the file",
    "unknown": "causes that the file does not tell",
}

#: Causes that end where more launches are fused or captured: small operators, one after another.
LAUNCH_BOUND = ("operators", "python", "launch_call", "launch_latency")
