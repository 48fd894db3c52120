"""All cases: a cause in a program, several of them, and healthy programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from tests.causes.recorder import save
from tests.findings.planted.case import Case
from tests.findings.planted.causes import CAUSES, STRENGTHS, TOGETHER, changes_of
from tests.findings.planted.devices import A100, H100, MI300X
from tests.findings.planted.parallel import Parallel
from tests.findings.planted.programs import (
    Program,
    compiled,
    convnet,
    engine,
    graphs,
    kept,
    sharded,
    small,
    transformer,
    words,
)

HEALTHY: tuple[Program, ...] = (
    *(transformer(device) for device in (H100, A100, MI300X)),
    *(transformer(device, loss_read=True) for device in (H100, A100, MI300X)),
    *(transformer(device, training=False, layers=8) for device in (H100, A100, MI300X)),
    *(compiled(device) for device in (H100, A100, MI300X)),
    *(compiled(device, training=False) for device in (H100, A100, MI300X)),
    *(graphs(device) for device in (H100, MI300X)),
    graphs(loss_read=True),
    *(convnet(device) for device in (H100, A100, MI300X)),
    *(engine(device) for device in (H100, A100, MI300X)),
    *(small(device) for device in (H100, A100, MI300X)),
    *(transformer(device, ddp=True, world_size=8) for device in (H100, A100, MI300X)),
    transformer(stacks=True),
    transformer(A100, stacks=True, loss_read=True),
    convnet(loss_read=True),
    engine(seed=1),
    engine(A100, tokens=128, seed=1),
    transformer(tokens=16_384),
    transformer(sequence=4_096),
    compiled(loss_read=True, stacks=True),
)

#: What looks like a cause: hidden behind work that was launched before, too little to matter, or needed.
NEAR_MISSES: tuple[tuple[str, Callable[[], Program]], ...] = (
    ("loader hidden", lambda: kept(transformer(), "data-loading", 9_000)),
    ("loader hidden", lambda: kept(convnet(A100), "data-loading", 20_000)),
    ("loader quick", lambda: kept(transformer(A100, loss_read=True), "data-loading", 600)),
    ("one small read a layer", lambda: kept(transformer(A100), "sync-every-step", 20)),
    ("few small pageable copies", lambda: kept(transformer(MI300X), "pageable-copies", 200_000)),
    ("small head in FP32", lambda: kept(transformer(), "fp32-gemm", 48)),
    ("small head in FP32", lambda: kept(transformer(A100, training=False, layers=8), "fp32-gemm", 64)),
    ("few casts", lambda: kept(transformer(), "casts-and-copies", 0.8)),
    ("few casts", lambda: kept(transformer(MI300X, training=False, layers=8), "casts-and-copies", 1.0)),
    ("tiny kernels hidden", lambda: kept(transformer(training=False), "tiny-kernels", 4)),
    ("collection hidden", lambda: kept(transformer(A100, stacks=True), "gc-pause", 4_000)),
    ("recomputes, memory full", lambda: kept(transformer(filled=0.88), "recomputation", 4).having(num_steps=5)),
    ("recomputes, memory full", lambda: kept(transformer(A100, filled=0.88), "recomputation", 4)),
    ("few parameters one by one", lambda: kept(transformer(), "optimizer-step", 0.04)),
    ("gap of an engine", lambda: engine(loss_read=True, tokens=256)),
    ("graph launch hidden", lambda: kept(engine(), "graph-launch", 300)),
    ("sharded", sharded),
    ("sharded", lambda: sharded(A100, layers=8)),
    ("sharded", lambda: sharded(MI300X, layers=8)),
)


def saved_ns(program: Program, *rules: str) -> int:
    """The span of the program with these causes removed."""
    return replace(program, form=program.form.without(*rules)).span_ns()


def case_of(name: str, program: Program, also_fine: frozenset[str], with_gain: frozenset[str]) -> Case:
    """Runs the program, and again without each cause."""
    process, world = program.whole()
    span = world.span_ns()
    causes = frozenset(program.form.plants) - program.form.justified

    def write(folder: Path) -> Path:
        path = folder / f"{name.replace(' ', '_')}.json.gz"
        save(world, process.recording, path)
        return path

    gain = {rule: 1 - saved_ns(program, rule) / span for rule in sorted(causes & with_gain)}
    every = sum(gain.values()) if len(causes) == 1 else 1 - saved_ns(program, *(causes & with_gain)) / span
    return Case(name=name, causes=causes, also_fine=also_fine - causes, write=write, gain=gain, all_gain=every)


def planted() -> Iterator[partial[Case]]:
    """Each cause in each of its programs, in three strengths."""
    seeds = count(1)
    for cause in CAUSES:
        for program in cause.programs:
            for strength in range(len(cause.sizes)):
                seed = 4 * next(seeds) + program.form.seed

                yield partial(together_case, (cause.rule,), program, strength, seed)


def together_case(rules: tuple[str, ...], program: Program, strength: int, seed: int) -> Case:
    """Several causes in one program, each so strong."""
    causes = [next(cause for cause in CAUSES if cause.rule == rule) for rule in rules]
    changed = program
    for cause in causes:
        changed = changed.having(**changes_of(cause, program, strength))
    plants: dict[str, float] = {}
    fine: frozenset[str] = frozenset()
    with_gain: frozenset[str] = frozenset()
    for rule, cause in zip(rules, causes, strict=True):
        share = cause.sizes[strength]
        plants[rule] = cause.sized(changed, share) if cause.sized else share
        fine |= frozenset(cause.also_fine + (cause.strong_also_fine if strength else ()))
        with_gain |= frozenset({rule} if cause.has_gain else ())
    if program.kind is Parallel:  # collectives are all in the open, and the first device works more than the other
        fine |= {"exposed-collective", "straggler"}
    name = f"{' + '.join(rules)} {STRENGTHS[strength]} {words(program)} {seed}"
    return case_of(name, changed.having(plants=plants, seed=seed), fine, with_gain)


def together() -> Iterator[Callable[[], Case]]:
    """Two or three causes in a program, in three strengths."""
    seeds = count(2_001)
    for rules, programs in TOGETHER:
        for program in programs:
            for strength in range(len(STRENGTHS)):
                yield partial(together_case, rules, program, strength, 4 * next(seeds) + program.form.seed)


def near_miss(name: str, number: int, make: Callable[[], Program]) -> Case:
    program = make()
    return case_of(f"healthy, {name}, {words(program)} {number}", program, frozenset(), frozenset())


def healthy() -> Iterator[Callable[[], Case]]:
    for number, program in enumerate(HEALTHY):
        yield partial(case_of, f"healthy {words(program)} {number}", program, frozenset(), frozenset())
    for number, (name, make) in enumerate(NEAR_MISSES, start=len(HEALTHY)):
        yield partial(near_miss, name, number, make)


def cases(*, every: int = 1, offset: int = 0) -> Iterator[Case]:
    """Every `every`-th case from the `offset`-th on: one cause, several, none. Nothing else is run."""
    makers: list[Callable[[], Case]] = [*planted(), *together(), *healthy()]
    for make in makers[offset::every]:
        yield make()
