"""A FLOPs report back from its document, or why it is none. What follows from the report is not read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from weftrace.errors import FlopsError
from weftrace.files.documents import read_document
from weftrace.flops.cost import PHASES, Cost, Kind, Phase, Status
from weftrace.flops.document.types import SCHEMA
from weftrace.flops.document.write import CLOCK, COST, MODULE, PARALLEL, PLAIN
from weftrace.flops.values import Clock, FlopsReport, Module, OpCount, Parallel, Timing

_COUNTS = COST[: COST.index("dtype")]


def report_of(document: Mapping[str, Any], *, what: str = "report") -> FlopsReport:
    """The report that a document holds, equal to the one it was made of.

    what: how an error names it, a file's path say. Raises `FlopsError` where it is no `weftrace.flops/1`, or a field is
    missing or of the wrong kind.
    """
    if document.get("schema") != SCHEMA:
        raise FlopsError(f"{what}: not a {SCHEMA} document: its schema is {document.get('schema')!r}")
    try:
        costs = [_cost(row) for row in document["costs"]]
        signatures = [(row["op"], row["signature"], costs[row["cost"]]) for row in document["signatures"]]
        times = document["times"]
        report = FlopsReport(
            modules=tuple(_read_module(row) for row in document["modules"]),
            ops=_read_ops(document["ops"], signatures),
            global_ops=_read_ops(document["global_ops"], signatures),
            times=tuple(
                Timing(module=module, phase=Phase(phase), samples_ns=tuple(samples))
                for module, phase, samples in zip(times["module"], times["phase"], times["samples_ns"], strict=True)
            ),
            clock=Clock(
                **{name: document["clock"][name] for name in CLOCK if name != "step_ns"}
                | {"step_ns": tuple(document["clock"]["step_ns"])}
            ),
            parallel=Parallel(**{name: document["parallel"][name] for name in PARALLEL}),
            settings=dict(document["settings"]),
            notes=tuple(document["notes"]),
            global_partial=document.get("global_partial", ""),
            **{name: document[name] for name in PLAIN},
        )
    except KeyError as error:
        raise FlopsError(f"{what}: a {SCHEMA} document without the field {error}") from error
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise FlopsError(f"{what}: a {SCHEMA} document with a broken field: {error}") from error
    _check(report, what)
    return report


def read_flops(path: str | os.PathLike[str]) -> FlopsReport:
    """The report of a JSON file (plain, .gz or .zst) that `weftrace flops -o report.json` made.

    Raises `FlopsError`, naming the file and what is wrong, where it cannot be read, is cut off, is not JSON or holds no
    report.
    """
    return report_of(read_document(path, error=FlopsError, schema=SCHEMA), what=str(path))


def _check(report: FlopsReport, what: str) -> None:
    """Indices that point nowhere, and trees whose parents do not come first, would give wrong sums later."""
    for index, module in enumerate(report.modules):
        if module.parent is not None and not 0 <= module.parent < index:
            raise FlopsError(
                f"{what}: module {index} ({module.path!r}) has the parent {module.parent}, not an earlier one"
            )
    for name, entries in (("ops", report.ops), ("global_ops", report.global_ops), ("times", report.times)):
        numbers = {entry.module for entry in entries}
        strange = sorted(number for number in numbers if not 0 <= number < len(report.modules))
        if strange:
            raise FlopsError(f"{what}: {name} names module {strange[0]}, and there are {len(report.modules)}")


def _read_module(row: Mapping[str, Any]) -> Module:
    return Module(**{name: row[name] for name in MODULE if name != "aliases"} | {"aliases": tuple(row["aliases"])})


def _cost(row: Mapping[str, Any]) -> Cost:
    numbers = {name: row[name] for name in COST}
    for name in _COUNTS:
        if type(numbers[name]) is not int:
            raise ValueError(f"{name} of a cost is {numbers[name]!r}, not a whole number")
    return Cost(**numbers | {"kind": Kind(row["kind"]), "status": Status(row["status"])})


def _read_ops(rows: Mapping[str, Sequence[Any]], signatures: Sequence[tuple[str, str, Cost]]) -> tuple[OpCount, ...]:
    ops = []
    of_name = {phase.value: phase for phase in PHASES}
    for module, phase, number, calls in zip(
        rows["module"], rows["phase"], rows["signature"], rows["calls"], strict=True
    ):
        op, text, cost = signatures[number]
        ops.append(OpCount(module=module, phase=of_name[phase], op=op, signature=text, calls=calls, cost=cost))
    return tuple(ops)
