"""Two real trainings on CPUs, advised, mended as advised, and measured again: the gain told and the gain got.

`python -m tests.findings.real_remedies` prints the table. Both variants are timed by the clock, by turns and without
the profiler, before some steps of each are recorded: what is got rests on nothing that weftrace read, and other work of
the machine slows both alike. Told and got differ by what steps take longer under the profiler, and where cores are few:
while one rank waits, or none loads data, the others have them for themselves.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weftrace.advice.findings.advising import advise
from weftrace.analysis.findings import AdviceReport, Finding
from weftrace.units import duration, percent

#: Steps that are timed, and recorded, at once; by turns how often.
STEPS, TURNS = 8, 3
#: A batch is read in this time, as from a slow disk.
_READ_S = 0.02
#: An environment answers in this time, or in that.
_ACT_S = (0.04, 0.005)
#: Widths of the layers, rows of a batch.
_WIDTH, _ROWS = 512, 256
_SIDES = ("before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedied:
    """What was advised by `rule`, and what mending the script as advised brought. Times in ns, of a step; gains as
    shares of it. remains: what the rule says of the mended script."""

    name: str
    rule: str
    advice: AdviceReport
    finding: Finding | None
    before_ns: float
    after_ns: float
    remains: Finding | None

    @property
    def told(self) -> tuple[float, float] | None:
        """Shares of the recorded step."""
        gain = self.finding.gain if self.finding else None
        return None if gain is None else (gain.low_share, gain.high_share)

    @property
    def got(self) -> float:
        return 1 - self.after_ns / self.before_ns


def remedied(folder: Path) -> Iterator[Remedied]:
    """Both trainings, one after the other."""
    for name, rule, train, ranks in (
        ("a data loader in the loop", "data-loading", _with_loader, 1),
        ("the loss of all ranks read in each step", "sync-every-step", _with_reads, 2),
    ):
        place = folder / rule
        place.mkdir(parents=True)
        times = _trained(train, ranks, place)
        before, after = (advise(place / side, workers=1) for side in _SIDES)
        yield Remedied(
            name=name, rule=rule, advice=before, finding=_of(before, rule), before_ns=times["before"],
            after_ns=times["after"], remains=_of(after, rule),
        )  # fmt: skip


def table_of(rows: list[Remedied]) -> str:
    lines = []
    for row in rows:
        finding = row.finding
        lines += [
            f"{row.name}: {duration(row.before_ns)} a step",
            f"  found: {finding.sentence if finding else 'nothing by ' + row.rule}",
            f"  do:    {finding.remedy.remedy if finding and finding.remedy else '–'}",
            f"  told:  it saves {finding.gain.words if finding and finding.gain else 'what is not told'}",
            f"  got:   {duration(row.before_ns - row.after_ns)} ({percent(row.got)}): {duration(row.after_ns)} a step",
            f"  left:  {row.remains.sentence if row.remains else 'nothing by ' + row.rule}",
        ]
    return "\n".join(lines)


def _of(advice: AdviceReport, rule: str) -> Finding | None:
    return next((each for each in advice.findings if each.rule == rule), None)


def _trained(train: Callable[[int, int, Path], None], ranks: int, place: Path) -> dict[str, float]:
    """Side -> its step in ns by the clock, of the slowest rank; its traces are in a folder of its name."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    spawned = multiprocessing.get_context("spawn")
    processes = [spawned.Process(target=train, args=(rank, port, place)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    times = [json.loads((place / f"times{rank}.json").read_text()) for rank in range(ranks)]
    return {side: max(each[side] for each in times) * 1e9 for side in _SIDES}


def _training() -> Callable[[Any], Any]:
    """A step of a small network; its loss."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [layer for _ in range(3) for layer in (torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(_WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch: Any) -> Any:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


class _Slow:
    """Batches that are read slowly."""

    def __len__(self) -> int:
        return 1_000

    def __getitem__(self, at: int) -> Any:
        import torch

        time.sleep(_READ_S)
        return torch.full((_ROWS, _WIDTH), at / len(self))


def _with_loader(rank: int, port: int, folder: Path) -> None:
    from torch.utils.data import DataLoader

    step = _training()
    ahead: dict[str, Any] = {
        "num_workers": 2, "persistent_workers": True, "prefetch_factor": 4, "multiprocessing_context": "fork"
    }  # fmt: skip
    slow: Any = _Slow()
    plain, mended = iter(DataLoader(slow, batch_size=None)), iter(DataLoader(slow, batch_size=None, **ahead))
    _measured(lambda _: step(next(plain)), lambda _: step(next(mended)), rank, folder)


def _with_reads(rank: int, port: int, folder: Path) -> None:
    """Each rank trains on what its environment gives, which takes longer by turns, never on both ranks at once."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    step, batch = _training(), torch.randn(_ROWS // 4, _WIDTH)

    def before(number: int, every: int = 1) -> None:
        time.sleep(_ACT_S[(number + rank) % 2])
        loss = step(batch)
        if number % every == every - 1:
            dist.all_reduce(loss)
            loss.item()

    _measured(before, partial(before, every=STEPS), rank, folder)
    dist.destroy_process_group()


def _measured(before: Callable[[int], Any], after: Callable[[int], Any], rank: int, folder: Path) -> None:
    """Warm up, time both by turns, then record some steps of each."""
    from torch.profiler import ProfilerActivity, profile, schedule

    sides = dict(zip(_SIDES, (before, after), strict=True))
    took = dict.fromkeys(_SIDES, 0.0)
    for turn in range(TURNS + 1):  # the first warms up
        for side, step in sides.items():
            began = time.perf_counter()
            for number in range(STEPS):
                step(number)
            took[side] += (time.perf_counter() - began) * (turn > 0)
    (folder / f"times{rank}.json").write_text(json.dumps({side: each / TURNS / STEPS for side, each in took.items()}))
    for side, step in sides.items():
        place = folder / side / f"rank{rank}.json"
        place.parent.mkdir(exist_ok=True)
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=0, warmup=STEPS, active=STEPS),
            on_trace_ready=lambda found, place=place: found.export_chrome_trace(str(place)),
        ) as profiler:
            for number in range(2 * STEPS):
                step(number)
                profiler.step()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(table_of(list(remedied(Path(sys.argv[1] if len(sys.argv) > 1 else made)))))
