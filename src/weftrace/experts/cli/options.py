"""Options that the commands of `weftrace experts` share, and how their texts are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from weftrace.cli import options, outputs

if TYPE_CHECKING:
    from weftrace.experts import LoadHistory, Placement

DEFAULT_MAX_BYTES = "8GiB"


def parse_numbers(text: str | None, name: str) -> list[float] | None:
    """ "1,1,0.8" or "1*2,0.8" -> [1.0, 1.0, 0.8]."""
    if text is None:
        return None
    numbers: list[float] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:\*\s*(\d{1,6}))?\s*", part)
        if match is None:
            raise typer.BadParameter(f"{part!r} is no number; write them like 1,1,0.8 or 1*2,0.8", param_hint=name)
        numbers += [float(match[1])] * int(match[2] or 1)
    return numbers


def parse_whole_numbers(text: str | None, name: str) -> list[int] | None:
    """ "9*31,8" -> [9, ..., 9, 8]."""
    numbers = parse_numbers(text, name)
    if numbers is None:
        return None
    if any(number != int(number) for number in numbers):
        raise typer.BadParameter(f"{text!r}: whole numbers, please", param_hint=name)
    return [int(number) for number in numbers]


def parse_gpus(text: str | None, name: str) -> frozenset[int]:
    """ "0,3-5" -> {0, 3, 4, 5}."""
    return frozenset(options.parse_ranks(text, what="GPUs", option=name) or ())


def parse_pins(texts: Iterable[str], layers: tuple[int, ...]) -> list[tuple[int, ...]]:
    """ "12:3" -> (12, 3), expert 12 on GPU 3 in all layers; "5:12:3" the same in the layer that has number 5 alone,
    which is (2, 12, 3) where `layers` are numbered from 3."""
    pins = []
    for text in texts:
        if re.fullmatch(r"\d{1,9}(:\d{1,9}){1,2}", text) is None:
            raise typer.BadParameter(f"{text!r} is no pin; write EXPERT:GPU or LAYER:EXPERT:GPU", param_hint="--pin")
        *layer, expert, gpu = (int(number) for number in text.split(":"))
        if layer and layer[0] not in layers:
            known = f"{min(layers)} to {max(layers)}"
            raise typer.BadParameter(f"{text!r}: the loads have no layer {layer[0]}, but {known}", param_hint="--pin")
        pins.append((*(layers.index(number) for number in layer), expert, gpu))
    return pins


def parse_fraction(text: str | None, name: str) -> float | None:
    """ "6%" or "0.06" -> 0.06; "all" and no text -> None."""
    if text is None or text == "all":
        return None
    fraction = options.parse_part(text, name)
    if fraction > 1:
        raise typer.BadParameter(f"{text!r} is more than the whole; write it like 6% or 0.06", param_hint=name)
    return fraction


def parse_list(text: str) -> tuple[str, ...]:
    """ "last, ema" -> ("last", "ema")."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def inputs_of(loads: str, *others: str | None) -> list[str]:
    """The files that a command reads, which no output may overwrite; of a folder of loads, those in it."""
    from weftrace.experts.recorded.files import files_of

    return [*files_of([loads])[0], *(other for other in others if other is not None)]


def read_history(source: str, window_steps: int, max_bytes: str) -> LoadHistory:
    """Recorded loads in windows; what was left out of them is said on stderr."""
    from weftrace.experts import read_loads, windows_of

    history = read_loads(source, max_bytes=options.parse_size(max_bytes))
    if window_steps > 1:
        history = windows_of(history, window_steps)
    for note in history.notes:
        typer.echo(f"weftrace: {note}", err=True)
    return history


def read_before(path: str, history: LoadHistory) -> tuple[Placement, LoadHistory]:
    """The placement before, and the loads with its layers' numbers where a recording numbers none of its own.

    Raises `LoadsError` where both number their layers, and differ.
    """
    from weftrace.errors import LoadsError
    from weftrace.experts.document import read_report

    report = read_report(path)
    before, layers = report.placement, report.layers
    plain = tuple(range(history.num_layers))
    if history.layers in (layers, plain) and len(layers) == history.num_layers:
        return before, replace(history, layers=layers)
    if layers != plain:
        ours, its = (f"{len(those)} layers from {those[0]} to {those[-1]}" for those in (history.layers, layers))
        raise LoadsError(f"{history.source}: the loads are of {ours}, and the placement {path} of {its}")
    return before, history


@contextmanager
def balancing_progress(what: str) -> Iterator[Callable[[str], None]]:
    """What is being done, on stderr where that is a terminal; gives the function to call with each next thing."""
    _tell_of_compiling()
    with outputs.working(what) as on_progress:
        yield lambda text: on_progress(f"{what}: {text}")


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, where that is a terminal; gives the function to call with how many are done, and of how many."""
    with outputs.progress_bar(what) as on_progress:
        _tell_of_compiling()
        yield on_progress


def _tell_of_compiling() -> None:
    """Say so where what follows takes long for a reason that will not come back."""
    from weftrace.compiled import is_compiled, is_kept
    from weftrace.experts.packing.packing_kernels import pack_layers

    if is_kept(pack_layers) and not is_compiled(pack_layers):
        typer.echo(
            "weftrace: compiling the solvers, once per machine, about 20 s; `weftrace experts warm` does it beforehand",
            err=True,
        )
