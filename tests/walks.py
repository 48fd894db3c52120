"""How many files does a value pass through, and how often from one to another? The walks of ARCHITECTURE.md, counted.

    python -m tests.walks

Four small runs, each with one thing in it: one device event to the JSON of a report; one layer's loads to the JSON of a
placement; one operator call to all files that a report of FLOPs is written as; one Op to the trace that simulating it
gives. While a run goes on, every Python function of the package that is called notes its file, and a move where its
caller stands in another. Compiled loops are not seen, and what runs while a module is imported does not count.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

_EVENT = {
    "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 5,
         "args": {"device": 0, "stream": 7}},
    ]
}  # fmt: skip
_MODEL = "from torch import nn\nbuild = lambda: nn.Linear(4, 2)\n"


def walk(run: Callable[[], object], package: str) -> tuple[list[str], int]:
    """(the package's files, from its folder on, in which a function was called while `run` ran; calls between them)."""
    root = str(Path(str(import_module(package).__file__)).parent) + "/"
    seen: set[str] = set()
    moves = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal moves
        here = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name != "<module>" and here.startswith(root):
            seen.add(here)
            there = "" if frame.f_back is None else frame.f_back.f_code.co_filename
            moves += there.startswith(root) and there != here

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(name.removeprefix(root) for name in seen), moves


def command(package: str, *arguments: object) -> Callable[[], None]:
    """What runs a command line in this process, its output thrown away. Raises RuntimeError where it fails."""

    def run() -> None:
        sys.argv = [package, *map(str, arguments)]
        out = io.TextIOWrapper(io.BytesIO())
        try:
            with redirect_stdout(out), redirect_stderr(io.StringIO()) as said:
                main: Callable[[], None] = import_module(f"{package}.cli.main").main
                main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{arguments}: {said.getvalue()}") from end

    return run


def walks(package: str, folder: Path) -> dict[str, tuple[list[str], int]]:
    """Walk -> the files it enters, and its moves between them.

    package: "weftrace", or "weft" as it was called before. folder: to write to.
    """
    is_old = package == "weft"
    trace, loads, model = folder / "trace.json", folder / "loads.json", folder / "model.py"
    trace.write_text(json.dumps(_EVENT))
    loads.write_text(json.dumps([[[4, 3, 2, 1]]]))
    model.write_text(_MODEL)
    plan = import_module(f"{package}.plan")
    op = plan.Op(id="a", name="gemm", duration_ns=5, resource=plan.Resource(rank=0, stream=7))
    json_out: list[object] = ["--json", "-"] if is_old else ["--json"]
    page, document, table, text = (folder / f"out.{suffix}" for suffix in ("html", "json", "csv", "md"))
    placed: list[object] = ["-o", document, "--html"] if is_old else ["-o", document, "-o", page]
    written: list[object] = (
        ["--html", page, "--json", document, "--csv", table, "--markdown", text]
        if is_old
        else ["-o", page, "-o", document, "-o", table, "-o", text]
    )
    balance = ["experts", "balance", loads, "--slots", 4, "--gpus", 2, "--policy", "global"]
    runs: dict[str, Callable[[], object]] = {
        "one event": command(package, "report", trace, *json_out),
        "one load": command(package, *balance, *placed),
        "one operator call": command(package, "flops", f"{model}:build", "--input", "1x4", *written),
        "one Op": lambda: plan.simulate(
            plan.Plan(name="one", ops=(op,)) if is_old else plan.Plan.of((op,), name="one")
        ),
    }
    for run in runs.values():
        run()  # once before: what is imported and compiled at the first use is not the walk
    return {name: walk(run, package) for name, run in runs.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for name, (entered, moves) in walks(sys.argv[1] if len(sys.argv) > 1 else "weftrace", Path(made)).items():
            print(f"{name}: {len(entered)} files, {moves} calls between them\n    " + "\n    ".join(entered))
