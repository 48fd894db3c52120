"""`weftrace profile pays`: from which batch on does overlapping pay?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.moe.requests import PANELS, Request
from weftrace.options import Option

EPILOG = """[bold]Examples[/bold]

weftrace profile pays decode --batch 8..512            requests per GPU; every batch is simulated

weftrace profile pays prefill --batch 1024..16384/512  tokens per GPU, in steps of 512

weftrace profile pays decode --batch 8..512 --overlap two-batch --overlap chunked:2 --ep 32"""
#: Options of a request that mean nothing here: one rank with balanced routing is simulated, and tokens are the batch.
_WITHOUT = (
    "tokens", "gpu_tokens", "overlap", "layers", "ranks", "routing", "seed", "spread", "loads", "contention",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What is tried: batches, and lists to hold against none."""

    batch: Annotated[
        str,
        Option(
            "Batches of one GPU, FROM..TO or FROM..TO/STEP: requests in decode, tokens in prefill.", metavar="RANGE"
        ),
    ]
    overlaps: Annotated[
        tuple[str, ...],
        Option(
            "Lists to hold against none, repeatable.", ("--overlap",), metavar="NAME|FILE",
            completes="weftrace.moe.overlap_files:complete_overlap",
        ),
    ] = ()  # fmt: skip


def run(request: Request, tried: Batches, to: outputs.Destination) -> None:
    """Find the smallest batch at which overlap pays. Every batch is simulated, with and without overlap."""
    from weftrace.moe.outputs import PAYS
    from weftrace.moe.sweeps.break_even import BASE, pays

    if BASE in tried.overlaps:
        raise typer.BadParameter(f"the others are compared with {BASE} already; name another", param_hint="--overlap")
    wanted = to.wanted(writes=PAYS)
    batches = parse_batches(tried.batch)
    with outputs.progress_bar("simulating lists") as on_progress:
        found = pays(request, batches, overlaps=tried.overlaps or None, on_progress=on_progress)
    outputs.deliver(found, PAYS, wanted)


def parse_batches(text: str) -> Sequence[int]:
    """ "8..512", "1024..16384/512" -> every batch of the range. Raises `typer.BadParameter`."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*(?:/\s*(\d{1,9}))?\s*", text)
    first, last, step = (int(part or 1) for part in match.groups()) if match else (0, 0, 0)
    if not 0 < first <= last or not step:
        raise typer.BadParameter(f"{text!r} is no range; write it like 8..512 or 1024..16384/512", param_hint="--batch")
    return range(first, last + 1, step)


command = command_of(
    (Request, Batches, outputs.Destination), run, without=_WITHOUT, narrowed={"kind": Literal["prefill", "decode"]},
    panels=PANELS,
)  # fmt: skip
