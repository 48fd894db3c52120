"""The cases: jobs with one to three planted causes in three strengths, and healthy ones of every form.

A cause is what turns a job's knobs by a size, and what its remedy turns back. Sizes are solved for, so that the cause
costs a share of the recorded span, or given, where the rule's threshold is of something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import exp, log
from pathlib import Path
from typing import Any

from tests.findings.planted_jobs.engine import Times, run, span_ns
from tests.findings.planted_jobs.programs import Program, program
from tests.findings.planted_jobs.recorder import save
from tests.findings.planted_jobs.setups import MS, US, Setup

Knobs = Mapping[str, Any]

STRENGTHS = ("mild", "middle", "strong")
#: Costs of these depend on how far the host is ahead, so on the number of steps.
HOSTS_LEAD = ("gc-pause", "data-loading")
#: What any job may be told beside: that its hidden communication is to be left alone.
ALWAYS_FINE = frozenset({"leave-it"})


@dataclass(frozen=True, kw_only=True)
class Cause:
    """turn: knobs for a size. back: knobs of the remedy. costs: shares of the span for which the sizes are solved
    between the two `sizes`; without them `sizes` are those of the three strengths. gains: whether the remedy promises
    any.
    """

    rule: str
    turn: Callable[[Any], Knobs]
    back: Knobs
    sizes: tuple[Any, ...]
    costs: tuple[float, ...] = ()
    also_fine: frozenset[str] = frozenset()
    gains: bool = True

    def size(self, base: Setup, strength: int) -> Any:
        if not self.costs:
            return self.sizes[strength]
        base = replace(base, steps=base.steps if self.rule in HOSTS_LEAD else 2)
        low, high = map(log, self.sizes)
        for _ in range(5):  # costs grow with the size
            middle = (low + high) / 2
            turned = replace(base, **self.turn(exp(middle)))
            if 1 - span(replace(turned, **self.back)) / span(turned) < self.costs[strength]:
                low = middle
            else:
                high = middle
        return exp((low + high) / 2)


@dataclass(frozen=True)
class Case:
    """A job and its truth. gain: the share of the recorded span that is saved where that cause alone is removed."""

    title: str
    base: Setup
    planted: tuple[Cause, ...] = ()
    strength: int = 0
    beside: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        base = self.base
        return f"{self.title}, {base.form}, {base.vendor}, {len(base.shown)} of {base.num_ranks}, seed {base.seed}"

    @cached_property
    def setup(self) -> Setup:
        made = self.base
        for cause in self.planted:
            made = replace(made, **cause.turn(cause.size(made, self.strength)))
        return made

    @property
    def causes(self) -> frozenset[str]:
        return frozenset(cause.rule for cause in self.planted)

    @property
    def also_fine(self) -> frozenset[str]:
        fine = ALWAYS_FINE | self.beside
        for cause in self.planted:
            fine |= cause.also_fine
        if len(self.base.shown) < self.base.num_ranks and len(self.base.shown) == 1:
            fine |= {"ranks-missing"}
        return fine - self.causes

    @cached_property
    def gain(self) -> Mapping[str, float]:
        return {cause.rule: self._saved((cause,)) for cause in self.planted if cause.gains}

    @cached_property
    def all_gain(self) -> float:
        return self._saved(tuple(cause for cause in self.planted if cause.gains))

    def mended(self, *causes: Cause) -> Setup:
        """The job with the remedies of these causes, of all where none is named."""
        found = self.setup
        for cause in causes or self.planted:
            found = replace(found, **cause.back)
        return found

    def _saved(self, causes: tuple[Cause, ...]) -> float:
        return 1 - span(self.mended(*causes)) / span(self.setup) if causes else 0.0

    def write(self, folder: Path) -> Path:
        return write(self.setup, folder)


def write(setup: Setup, folder: Path) -> Path:
    """A folder of files, or the file of a rank that is recorded alone."""
    made, times = ran(setup)
    save(made, times, folder)
    return folder if len(setup.shown) > 1 else folder / f"rank{setup.shown[0]}.json"


@lru_cache(maxsize=4)
def ran(setup: Setup) -> tuple[Program, Times]:
    made = program(setup)
    return made, run(made.ops)


@lru_cache(maxsize=256)
def span(setup: Setup) -> float:
    made, times = ran(setup)
    return span_ns(made.ops, times)


# --- causes -----------------------------------------------------------------------------------------------------------

EXPOSED, ENDS = "exposed-collective", "first-and-last-collective"


def knob(*names: str, **others: Any) -> Callable[[Any], Knobs]:
    return lambda size: dict.fromkeys(names, size) | others


ONE_BUCKET = Cause(rule=EXPOSED, turn=knob("layer_mb", layers_per_bucket=100), back={"layers_per_bucket": 1},
                   sizes=(20.0, 420.0), costs=(0.075, 0.15, 0.25), also_fine=frozenset({ENDS}))  # fmt: skip
NO_PREFETCH = Cause(rule=EXPOSED, turn=knob("layer_mb", prefetch=False), back={"prefetch": True}, sizes=(30.0, 600.0),
                    costs=(0.075, 0.15, 0.30))  # fmt: skip
ONE_CONNECTION = Cause(rule="one-connection", turn=knob("layer_mb", queue="order"), back={"queue": ""},
                       sizes=(40.0, 900.0), costs=(0.14, 0.22, 0.30), also_fine=frozenset({ENDS}))  # fmt: skip
ONE_QUEUE = replace(ONE_CONNECTION, turn=knob("layer_mb", queue="serial"))


def tensors(*megabytes: float) -> Cause:
    return Cause(rule=EXPOSED, turn=knob("activation_mb", chunks=1), back={"chunks": 4}, sizes=megabytes)


def straggler(rank: int, family: str = "gemm") -> Cause:
    return Cause(rule="straggler", turn=lambda x: {"slow": ((rank, x),), "slow_family": family}, back={"slow": ()},
                 sizes=(1.02, 2.5), costs=(0.045, 0.09, 0.18))  # fmt: skip


def slow_host(rank: int) -> Cause:
    return Cause(rule="straggler", turn=lambda x: {"slow_host": ((rank, x),)}, back={"slow_host": ()},
                 sizes=(1.5, 16.0), costs=(0.045, 0.09, 0.18), also_fine=frozenset({"host-bound"}))  # fmt: skip


def slow_clocks(rank: int) -> Cause:
    return Cause(rule="slow-clocks", turn=lambda x: {"slow": ((rank, x),), "slow_family": ""}, back={"slow": ()},
                 sizes=(1.045, 1.09, 1.18), also_fine=frozenset({"straggler"}))  # fmt: skip


def slow_from(step: int) -> Cause:
    return Cause(rule="slow-clocks", turn=lambda x: {"slow_since": (step, x)}, back={"slow_since": (10_000, 1.0)},
                 sizes=(1.045, 1.09, 1.18))  # fmt: skip


def loader(*ranks: int, is_alone: bool = True) -> Cause:
    return Cause(rule="data-loading", turn=lambda x: {"loader_ns": tuple((rank, x) for rank in ranks)},
                 back={"loader_ns": ()}, sizes=(4 * MS, 80 * MS), costs=(0.11, 0.16, 0.30),
                 also_fine=frozenset({"straggler"} if is_alone else ()))  # fmt: skip


def syncs(number: int) -> Cause:
    return Cause(rule="sync-every-step", turn=knob("sync_work_ns", syncs=number), back={"blocks": False},
                 sizes=(50 * US, 5 * MS), costs=(0.02, 0.06, 0.15))  # fmt: skip


def pause(rank: int, step: int, is_recorded: bool = False) -> Cause:
    return Cause(rule="gc-pause", turn=lambda x: {"pause": (rank, step, x), "is_pause_recorded": is_recorded},
                 back={"pause": (-1, -1, 0.0)}, sizes=(15 * MS, 150 * MS), costs=(0.06, 0.15, 0.30))  # fmt: skip


HOST_BOUND = Cause(rule="host-bound", turn=knob("launch_ns"), back={"launch_ns": 6 * US}, sizes=(14 * US, 140 * US),
                   costs=(0.30, 0.45, 0.60), also_fine=frozenset({"optimizer-step"}))  # fmt: skip
EXPERTS = Cause(rule="expert-imbalance", turn=knob("skew"), back={"is_even": True}, sizes=(1.3, 1.6, 2.0))
CONTENTION = Cause(rule="contention", turn=knob("beside"), back={"beside": 1.0}, sizes=(1.15, 1.3, 1.6))
SMALL = Cause(rule="small-collectives", turn=knob("alpha_ns", pieces=10), back={"pieces": 1}, sizes=(15 * US, 200 * US),
              costs=(0.045, 0.09, 0.18), also_fine=frozenset({EXPOSED, ENDS}))  # fmt: skip
SLOW_LINK = Cause(rule="slow-collectives", turn=lambda share: {"link": share * 450e9}, back={"link": 400e9},
                  sizes=(0.40, 0.30, 0.20), also_fine=frozenset({EXPOSED, ENDS}))  # fmt: skip
SEQUENCES = Cause(rule="sequence-imbalance", turn=knob("sequences"), back={"is_even": True}, sizes=(0.1, 0.97),
                  costs=(0.075, 0.14, 0.21))  # fmt: skip
FIRST_AND_LAST = Cause(rule=ENDS, turn=knob("tail_mb"), back={"tail_mb": 4.0}, sizes=(20.0, 1500.0),
                       costs=(0.03, 0.06, 0.12), also_fine=frozenset({EXPOSED}))  # fmt: skip
LAST = replace(FIRST_AND_LAST, costs=(0.015, 0.03, 0.06))
ACROSS_NODES = Cause(rule="tensor-parallel-across-nodes", turn=knob("activation_mb", link=46e9, chunks=1),
                     back={"link": 400e9}, sizes=(4.0, 150.0), costs=(0.27, 0.38, 0.50),
                     also_fine=frozenset({EXPOSED, "slow-collectives"}))  # fmt: skip


def bubble(*micro_batches: int) -> Cause:
    return Cause(rule="pipeline-bubble", turn=knob("micro_batches"), back={"schedule": "zb1p"}, sizes=micro_batches)


def slow_stage(*stages: tuple[int, ...]) -> Cause:
    return Cause(rule="slow-stage", turn=knob("stages"), back={"is_even": True}, sizes=stages,
                 also_fine=frozenset({"pipeline-bubble"}))  # fmt: skip


RANKS_MISSING = Cause(rule="ranks-missing", turn=knob("layer_mb"), back={}, sizes=(64.0, 140.0, 260.0), gains=False)
LEAVE_IT = Cause(rule="leave-it", turn=knob("layer_mb"), back={"link": 800e9}, sizes=(300.0, 370.0, 440.0))

# --- jobs -------------------------------------------------------------------------------------------------------------

EIGHT, FOUR, TWO = tuple(range(8)), tuple(range(4)), (0, 1)
DDP = Setup(form="ddp")
FSDP = Setup(form="fsdp")
TENSOR = Setup(form="tensor", ranks=TWO, unit_ns=2 * MS, layers=3, chunks=2)
MOE = Setup(form="moe", layers=4)
PIPELINE = Setup(form="pipeline", ranks=TWO, unit_ns=0.8 * MS, steps=3, launch_ns=40 * US, activation_mb=4.0,
                 micro_batches=16)  # fmt: skip
SHORT = replace(DDP, unit_ns=0.4 * MS, launch_ns=14 * US, layer_mb=8.0)
BUSY = replace(DDP, layer_mb=290.0, stem=1.0)
HEAVY = replace(DDP, ranks=EIGHT, steps=3, unit_ns=0.6 * MS, layer_mb=160.0, launch_ns=22 * US)


def amd(setup: Setup) -> Setup:
    """AMD's links join eight."""
    return replace(setup, vendor="amd", ranks=EIGHT, steps=min(3, setup.steps))


def alone(setup: Setup) -> Setup:
    return replace(setup, recorded=setup.ranks[:1])


def _planted() -> Iterator[tuple[tuple[Cause, ...], Setup]]:
    one, missing = alone(DDP), RANKS_MISSING
    yield (ONE_BUCKET,), DDP
    yield (ONE_BUCKET,), amd(DDP)
    yield (NO_PREFETCH,), FSDP
    yield (NO_PREFETCH,), amd(FSDP)
    yield (tensors(50.0, 85.0, 120.0),), TENSOR
    yield (tensors(34.0, 57.0, 80.0),), replace(TENSOR, ranks=FOUR)
    behind = replace(FSDP, gathers_behind=True, stem=0.02)
    yield (ONE_CONNECTION,), behind
    yield (ONE_CONNECTION,), replace(behind, ranks=EIGHT)
    yield (ONE_QUEUE,), amd(behind)
    yield (straggler(2),), DDP
    yield (straggler(5),), amd(DDP)
    yield (straggler(1),), FSDP
    yield (straggler(1),), TENSOR
    yield (straggler(0, "attention"),), replace(DDP, attention=0.5)
    yield (slow_host(3),), DDP
    yield (EXPERTS,), MOE
    yield (EXPERTS,), replace(MOE, ranks=EIGHT)
    yield (EXPERTS,), replace(MOE, ranks=TWO)
    yield (EXPERTS,), replace(amd(MOE), deep_ep=False)
    yield (CONTENTION,), BUSY
    yield (CONTENTION,), amd(BUSY)
    yield (CONTENTION,), replace(FSDP, layer_mb=260.0)
    yield (SMALL,), SHORT
    yield (SMALL,), amd(SHORT)
    yield (SMALL,), replace(SHORT, form="fsdp")
    yield (SLOW_LINK,), HEAVY
    yield (SLOW_LINK,), amd(HEAVY)
    yield (SLOW_LINK,), replace(HEAVY, form="fsdp", layer_mb=220.0)
    yield (bubble(16, 8, 4),), replace(PIPELINE, ranks=FOUR)
    yield (bubble(5, 3, 2),), PIPELINE
    yield (bubble(12, 6, 4),), replace(PIPELINE, ranks=(0, 1, 2), vendor="amd")
    layers = replace(PIPELINE, micro_batches=12, unit_ns=2.4 * MS)
    yield (slow_stage((4, 3), (2, 1), (3, 1)),), layers
    yield (slow_stage((3, 4), (1, 2), (1, 3)),), replace(layers, vendor="amd")
    yield (slow_stage((3, 4, 3), (1, 2, 1), (1, 3, 1)),), replace(layers, ranks=(0, 1, 2), micro_batches=20, steps=2)
    lengths = replace(DDP, attention=0.5, steps=5)
    yield (SEQUENCES,), lengths
    yield (SEQUENCES,), replace(amd(lengths), steps=4)
    yield (SEQUENCES,), replace(lengths, form="fsdp")
    yield (FIRST_AND_LAST,), FSDP
    yield (FIRST_AND_LAST,), amd(FSDP)
    yield (LAST,), DDP
    nodes = replace(TENSOR, ranks=(0, 8), world=16)
    yield (ACROSS_NODES,), nodes
    yield (ACROSS_NODES,), replace(nodes, ranks=(0, 1, 8, 9))
    yield (slow_clocks(3),), DDP
    yield (slow_clocks(6),), amd(DDP)
    yield (slow_clocks(1),), FSDP
    yield (slow_from(2),), DDP
    yield (slow_from(2), missing), one
    yield (missing,), one
    yield (missing,), alone(amd(FSDP))
    yield (LEAVE_IT,), replace(BUSY, stem=1.2)
    yield (replace(LEAVE_IT, sizes=(250.0, 310.0, 370.0)),), amd(replace(BUSY, stem=1.2))
    yield (replace(LEAVE_IT, sizes=(180.0, 230.0, 280.0)),), FSDP
    yield (pause(1, 1),), DDP
    yield (pause(2, 2),), amd(DDP)
    yield (pause(0, 1, True), missing), one
    yield (pause(3, 1),), FSDP
    yield (loader(1),), DDP
    yield (loader(4),), amd(DDP)
    yield (loader(*FOUR, is_alone=False),), DDP
    yield (loader(0), missing), one  # the rank that is recorded, or nothing of it would show
    yield (syncs(1),), DDP
    yield (syncs(2),), amd(DDP)
    yield (syncs(4), missing), one
    small = replace(DDP, unit_ns=0.3 * MS, launch_ns=12 * US, layer_mb=16.0)
    yield (HOST_BOUND,), small
    yield (HOST_BOUND,), amd(small)
    # Several at once.
    yield (ONE_BUCKET, straggler(1)), DDP
    yield (NO_PREFETCH, slow_clocks(2)), FSDP
    yield (SLOW_LINK, syncs(1)), HEAVY
    yield (ONE_BUCKET, syncs(1)), DDP
    yield (EXPERTS, pause(1, 1)), MOE
    yield (SEQUENCES, LAST), lengths
    yield (CONTENTION, straggler(3)), BUSY
    yield (slow_clocks(1), syncs(2), pause(2, 2)), DDP
    yield (ONE_BUCKET, straggler(2), syncs(1)), DDP
    yield (replace(loader(*FOUR, is_alone=False), costs=(0.2, 0.25, 0.3)), pause(1, 2)), DDP
    yield (bubble(16, 8, 4), straggler(2)), replace(PIPELINE, ranks=FOUR)


def _healthy() -> Iterator[tuple[str, Setup]]:
    for vendor in ("nvidia", "amd"):
        of = amd if vendor == "amd" else replace
        yield "buckets behind the backward pass", of(DDP)
        yield "buckets behind it, waits that rotate", replace(of(DDP), wander=0.012, steps=6)
        yield "buckets of two layers", replace(of(DDP), layers_per_bucket=2, layers=6, steps=3)
        yield "much communication behind the backward pass", of(BUSY)
        yield "units gathered ahead", of(FSDP)
        yield "units gathered ahead, waits that rotate", replace(of(FSDP), wander=0.012, steps=6)
        yield "large units gathered ahead", replace(of(FSDP), layer_mb=200.0)
        yield "even experts", replace(of(MOE), deep_ep=vendor == "nvidia")
        yield "a pipeline of many micro-batches", replace(PIPELINE, vendor=vendor)
        yield "a pipeline of more", replace(PIPELINE, vendor=vendor, micro_batches=24, steps=2)
    yield "a small job", replace(DDP, ranks=TWO)
    yield "a large one", replace(DDP, ranks=EIGHT, steps=3)
    yield "tensors summed by parts", TENSOR
    yield "tensors summed by parts, four ranks", replace(TENSOR, ranks=FOUR)
    yield "even experts, two ranks", replace(MOE, ranks=TWO)
    yield "three stages", replace(PIPELINE, ranks=(0, 1, 2), micro_batches=24, steps=2)
    yield "clocks apart", replace(DDP, clock_ns=2 * MS)
    yield "a little contention", replace(BUSY, beside=1.03)
    yield "sequences that hardly differ", replace(DDP, sequences=0.02)
    yield "short kernels", replace(SHORT, ranks=EIGHT)


def _all() -> Iterator[Case]:
    for number, (causes, base) in enumerate(_planted()):
        for strength, word in enumerate(STRENGTHS):
            seed, clock = number * 3 + strength, (0.0, 0.5 * MS)[number % 2]
            title = f"{' and '.join(cause.rule for cause in causes)}, {word}"
            yield Case(title, replace(base, seed=seed, clock_ns=clock), causes, strength)
    for number, (title, base) in enumerate(_healthy()):
        yield Case(f"healthy: {title}", replace(base, seed=1000 + number), beside=frozenset({"warm-up-in-sample"}))


def cases(*, every: int = 1, offset: int = 0) -> Iterator[Case]:
    """Every n-th case, from the one at the offset on."""
    for number, case in enumerate(_all()):
        if number % every == offset % every:
            yield case
