"""Small runs on the CPU, recorded by torch's profiler, and what their files say by plain loops over the JSON."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

Path_ = tuple[str, ...]


def record(path: Path, *, scripted: bool = False, checkpoint: bool = False, **options: Any) -> Path:
    """Two training steps of a transformer of two layers, as `export_chrome_trace` writes them."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.checkpoint import checkpoint as again

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            return self.down(torch.relu(self.up(x)))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(16), Mlp()

        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            return x + self.mlp(self.norm(x))

    class Attending(Layer):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            return super().forward(x + self.attn(x, x, x, need_weights=False)[0])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList((Layer if scripted else Attending)() for _ in range(2))
            self.head = nn.Linear(16, 4)

        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    class Again(Model):
        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            for layer in self.layers:
                x = again(layer, x, use_reentrant=True)
            return self.head(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = torch.jit.script(Model()) if scripted else Again() if checkpoint else Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(2, 8, 16, requires_grad=True)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    for _ in range(4 if scripted else 1):
        step()
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        for _ in range(2):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


def times_by_module(path: Path) -> tuple[dict[Path_, int], int]:
    """(own time of each chain of modules, what belongs to none), ns: operators cut by those in them, each piece where
    its operator began, or of the backward where the forward operator of its number began. One thread, as on a CPU."""
    text = json.loads(path.read_text(), parse_float=Decimal)
    base = text.get("baseTimeNanoseconds", 0)
    events = [event for event in text["traceEvents"] if event.get("ph") == "X"]
    for event in events:
        if event["cat"] in ("cpu_op", "python_function"):
            event["start"] = base + round(event["ts"] * 1000)
            event["end"] = event["start"] + round(event["dur"] * 1000)
    order = sorted((e for e in events if e["cat"] == "cpu_op"), key=lambda e: (e["start"], -e["end"]))
    modules = [e for e in events if e["cat"] == "python_function" and e["name"].startswith("nn.Module: ")]
    modules.sort(key=lambda e: (e["start"], -e["end"]))
    own: Counter[Path_] = Counter()
    place_of_forward: dict[int, Path_] = {}
    stack: list[Any] = []
    last: Any = None
    for op in order:
        args = op["args"]
        while stack and stack[-1]["end"] <= op["start"]:
            stack.pop()
        op["around"] = stack[-1] if stack else None
        stack.append(op)
        number, of_forward = args.get("Sequence number", -1), args.get("Fwd thread id", 0)
        place: Path_ | None = None
        if of_forward and number in place_of_forward:
            place = last = place_of_forward[number]
        elif of_forward and number >= 0:
            last = None
        elif "AccumulateGrad" in op["name"]:
            place = last
        around = op["around"] and op["around"]["backward"]
        op["backward"] = (place, op["start"]) if place is not None else around
        op["said"] = args.get("Module Hierarchy", "") or (op["around"]["said"] if op["around"] else "")
        chain = [m for m in modules if m["start"] <= op["start"] < m["end"]]
        if op["said"] or op["backward"] is None:
            op["place"] = _chain(chain, op["said"])
        else:
            forward, began = op["backward"]
            op["place"] = _joined(forward, _chain([m for m in chain if m["start"] >= began], ""))
        if number >= 0 and not of_forward:
            place_of_forward[number] = op["place"]
    for op in order:
        inside = sum(min(o["end"], op["end"]) - o["start"] for o in order if o["around"] is op)
        own[op["place"]] += op["end"] - op["start"] - inside
    outside = own.pop((), 0)
    return dict(own), outside


def _chain(modules: list[Any], hierarchy: str) -> Path_:
    names = tuple(module["name"].removeprefix("nn.Module: ") for module in modules)
    said = re.findall(r"([^.()]+)\(([^()]*)\)::", hierarchy)
    return names + tuple(f"{n}: {kind}" if kind and n != "TOP" else n for n, kind in said)


def _joined(place: Path_, more: Path_) -> Path_:
    """A chain with what a checkpoint runs again in it; who is in it already is not entered twice."""
    for name in more:
        place = place[: place.index(name) + 1] if name in place else (*place, name)
    return place


def inclusive(own: dict[Path_, int]) -> dict[Path_, int]:
    """Each chain's time with that of all chains that begin with it."""
    total: dict[Path_, int] = defaultdict(int)
    for path, time_ns in own.items():
        for length in range(1, len(path) + 1):
            total[path[:length]] += time_ns
    return dict(total)
