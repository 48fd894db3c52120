"""Snapshots of torch's allocator made by hand, with the fields that torch 2.5 and later write."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20
_START_US = 1_700_000_000_000_000


def frames(*names: str) -> list[dict[str, Any]]:
    """ "train.py:10:forward", the innermost first."""
    split = (name.split(":") for name in names)
    return [{"filename": f"/home/someone/{file}", "line": int(line), "name": name} for file, line, name in split]


LINEAR = [
    {"filename": "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", "line": 114, "name": "forward"},
    *frames("model.py:10:forward", "train.py:90:main"),
]
ADAM = frames("optimizer.py:5:step", "train.py:95:main")


def block(num_bytes: int, state: str, stack: list[dict[str, Any]], requested: int | None = None) -> dict[str, Any]:
    asked = 0 if state == "inactive" else num_bytes if requested is None else requested
    return {"address": 0, "size": num_bytes, "requested_size": asked, "state": state, "frames": stack}


def segment(address: int, *blocks: dict[str, Any], device: int = 0, kind: str = "large") -> dict[str, Any]:
    at = address
    for each in blocks:
        each["address"] = at
        at += each["size"]
    return {
        "device": device, "address": address, "total_size": at - address, "stream": 0, "segment_type": kind,
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": LINEAR, "blocks": list(blocks),
    }  # fmt: skip


def entry(action: str, address: int, num_bytes: int, at_us: int, stack: list[dict[str, Any]]) -> dict[str, Any]:
    where = {"device_free": address} if action == "oom" else {"addr": address}
    return {"action": action, "size": num_bytes, "stream": 0, "time_us": _START_US + at_us, "frames": stack, **where}


def snapshot() -> dict[str, Any]:
    """Two segments of 22 MiB: 8 MiB (100 bytes less asked for) of a linear layer, 4 of an optimizer that the history
    does not hold, 1 freed and awaited, 7 and 2 free. Its peak is 18 MiB - 100, when 6 MiB stood beside both."""
    first = 0x7F0000000000
    linear = block(8 * MIB, "active_allocated", LINEAR, 8 * MIB - 100)
    rest = block(4 * MIB, "active_allocated", ADAM), block(MIB, "active_pending_free", LINEAR)
    free = block(7 * MIB, "inactive", [])
    history = [
        entry("segment_alloc", first, 20 * MIB, 0, LINEAR),
        entry("alloc", first, 8 * MIB - 100, 1, LINEAR),
        entry("alloc", first + 13 * MIB, 6 * MIB, 5, ADAM),
        entry("free_requested", first + 13 * MIB, 6 * MIB, 9, ADAM),
        entry("free_completed", first + 13 * MIB, 6 * MIB, 9, ADAM),
        entry("oom", 3 * MIB, 100 * MIB, 12, LINEAR),
        entry("snapshot", 0, 0, 20, []),
    ]
    return {
        "segments": [
            segment(first, linear, *rest, free),
            segment(first + (1 << 32), block(2 * MIB, "inactive", []), kind="small"),
        ],
        "device_traces": [history, []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.0,
        },
        "external_annotations": [],
    }
