"""Which causes are planted in which programs, how strongly, and what else is then true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path

from tests.causes.recorder import save
from tests.causes.simulator import World
from tests.findings.planted.case import Case
from tests.findings.planted.convnet import ConvNet
from tests.findings.planted.devices import A100, DEVICES, H100, MI300X, Device
from tests.findings.planted.engine import Engine
from tests.findings.planted.parallel import Parallel
from tests.findings.planted.process import Form, Process, rounded
from tests.findings.planted.sharded import GATHER, QUICK_GATHER, Sharded
from tests.findings.planted.transformer import Transformer

#: A size for a cause, from the form that it is planted in and the share of the time that it shall take.
Sizing = Callable[["Program", float], float]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A kind of process, and the form that it has."""

    kind: type[Process]
    form: Form

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.form)))

    def having(self, **changes: object) -> Program:
        return replace(self, form=replace(self.form, **changes))  # type: ignore[arg-type]

    def whole(self) -> tuple[Process, World]:
        process = self.kind(self.form)
        return process, process.whole()

    def span_ns(self) -> int:
        return self.whole()[1].span_ns()


@lru_cache(maxsize=256)
def healthy_step_ns(program: Program) -> float:
    """What a step takes on the device, without causes."""
    return program.span_ns() / program.form.num_steps


@lru_cache(maxsize=256)
def host_step_ns(program: Program) -> float:
    """What a step takes of the host, where it waits for nothing."""
    process, _ = program.having(loss_read=False).whole()
    begins = process.step_begins
    return (begins[-1] - begins[0]) / (len(begins) - 1)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A rule's cause, as it is planted.

    programs: the forms it is planted in, before it is. sizes: three strengths, as shares of the time or as sizes.
    sized: the size for a share; left out, `sizes` are sizes. also_fine: rules that are true besides, by strength.
    """

    rule: str
    programs: tuple[Program, ...]
    sizes: tuple[float, float, float]
    sized: Sizing | None = None
    also_fine: tuple[str, ...] = ()
    strong_also_fine: tuple[str, ...] = ()
    has_gain: bool = True


def transformer(device: Device = H100, **changes: object) -> Program:
    """A large one, whose device is always busy."""
    form = Form(device=device, layers=4, num_steps=4, training=True)
    return Program(kind=Transformer, form=replace(form, **changes))  # type: ignore[arg-type]


def narrow(device: Device = H100, **changes: object) -> Program:
    """One of few channels, and so with much to move for what it computes."""
    width = 1_024 if device is H100 else 640
    form = Form(device=device, layers=4, num_steps=4, width=width, tokens=32_768, sequence=512, vocab=2_048)
    return Program(kind=Transformer, form=replace(form, **changes))  # type: ignore[arg-type]


def small(device: Device = H100, **changes: object) -> Program:
    """One whose host is not far ahead of its device."""
    fast = {H100.name: 4_096, A100.name: 2_048, MI300X.name: 5_120}[device.name]
    form = Form(device=device, layers=4, num_steps=5, width=1_024, tokens=fast, sequence=1_024, vocab=8_192)
    return Program(kind=Transformer, form=replace(form, **changes))  # type: ignore[arg-type]


def convnet(device: Device = H100, **changes: object) -> Program:
    form = Form(device=device, layers=4, num_steps=4, width=512, tokens=100_352)
    return Program(kind=ConvNet, form=replace(form, **changes))  # type: ignore[arg-type]


def sharded(device: Device = H100, **changes: object) -> Program:
    form = Form(device=device, layers=6, num_steps=4, world_size=8)
    return Program(kind=Sharded, form=replace(form, **changes))  # type: ignore[arg-type]


def parallel(device: Device = H100, **changes: object) -> Program:
    """DataParallel on two devices; the smaller the batch, the more it costs."""
    form = Form(device=device, layers=4, num_steps=4, tokens=4_096)
    return Program(kind=Parallel, form=replace(form, **changes))  # type: ignore[arg-type]


def engine(device: Device = H100, **changes: object) -> Program:
    form = Form(
        device=device,
        layers=12,
        num_steps=8,
        width=4_096,
        tokens=64,
        vocab=64_000,
        training=False,
        steps=True,
        host=2.0,
    )
    return Program(kind=Engine, form=replace(form, **changes))  # type: ignore[arg-type]


def compiled(device: Device = H100, **changes: object) -> Program:
    return transformer(device, style="compiled", **changes)


def graphs(device: Device = H100, **changes: object) -> Program:
    """torch.compile(mode="reduce-overhead"): compiled code, replayed as graphs."""
    return transformer(device, style="graph", **changes)


# sizes for a share of the time -------------------------------------------------------------------------------------


def per_step(program: Program, share: float) -> float:
    """Microseconds a step that make up the share, where the host does not run ahead over steps."""
    return share / (1 - share) * healthy_step_ns(program) / 1e3


def beyond_run_ahead(program: Program, share: float) -> float:
    """The same, where what the host takes must first be more than what the device does."""
    return (healthy_step_ns(program) / (1 - share) - host_step_ns(program)) / 1e3


def loader(program: Program, share: float) -> float:
    return (per_step if program.form.loss_read else beyond_run_ahead)(program, share)


def each_layer(program: Program, share: float) -> float:
    """Microseconds for each of a step's layers, less what it takes anyway to get going again."""
    return max(10.0, per_step(program, share) / program.form.layers - 35)


def once(program: Program, share: float) -> float:
    """Microseconds once in the whole recording."""
    return per_step(program, share) * program.form.num_steps


def slower_host(program: Program, share: float) -> float:
    """How much slower the host is; what the driver takes stays."""
    once = host_step_ns(program)
    twice = host_step_ns(program.having(plants={"host-bound": 2.0}))
    return 1 + (healthy_step_ns(program) / (1 - share) - once) / (twice - once)


def copied_bytes(program: Program, share: float) -> float:
    return per_step(program, share) * 6e3


#: What it takes to launch one tiny kernel.
TINY_NS = 10_500


def number_of_tiny(program: Program, share: float) -> float:
    """Kernels for each layer that take the share, with the time in which the device waits for the host."""
    slack = healthy_step_ns(program) - host_step_ns(program)
    return (1e3 * per_step(program, share) + slack) / TINY_NS / program.form.layers


def side_width(program: Program, share: float) -> float:
    """The width of a branch in FP32 that takes the share of the GEMMs' time."""
    device, form = program.form.device, program.form
    slower = device.bf16 * device.native / (device.fp32 * 0.8)
    return share / (1 - share) / slower * 12 * form.width


def copied_tensors(program: Program, share: float) -> float:
    """Copies for each layer and pass, in tensors, that take the share of kernels' time."""
    process = program.kind(program.form)
    assert isinstance(process, Transformer)
    passes = 2 * program.form.layers if program.form.training else program.form.layers
    each = 1e6 * process.tensor / program.form.device.bandwidth
    return per_step(program, share) / passes / each


def searched(program: Program, share: float) -> float:
    return share if program.kind is Parallel else beyond_run_ahead(program, share)


def region_us(program: Program, share: float) -> float:
    """What a region takes of the host before its code runs."""
    regions = 2 * program.form.layers
    return max(0.0, beyond_run_ahead(program, share) / regions - 50)


def hooks_us(program: Program, share: float) -> float:
    """What FSDP's hooks take for a layer so that waiting leaves the device idle."""
    process = program.kind(program.form)
    assert isinstance(process, Sharded)
    process.start()
    forward = process.gather_ns / QUICK_GATHER / 1e3
    return (1 - GATHER) * forward - 60 + per_step(program, share) / (program.form.layers - 2)


def lost_share(program: Program, share: float) -> float:
    """The share of a graph's kernels; or microseconds for each layer."""
    return share if program.kind is Engine else per_step(program, share) / program.form.layers


def trained_share(program: Program, share: float) -> float:
    """The share of parameters that are trained, one by one, in this share of the time."""
    process = program.kind(program.form)
    assert isinstance(process, Transformer)
    fused = 28 * process.num_parameters / program.form.device.bandwidth * 1e9
    rest = healthy_step_ns(program) - fused
    return min(1.0, share / (1 - share) * rest / (84 / 28 * fused))


HOST_TRAINING = (
    transformer(loss_read=True),
    transformer(A100, loss_read=True, seed=1),
    compiled(loss_read=True, seed=1),
    transformer(MI300X, loss_read=True, seed=2),
    graphs(loss_read=True),
)
SMALL = (small(), small(A100), small(MI300X), small(training=False, layers=8))
ENGINES = (engine(), engine(A100, tokens=32), engine(MI300X), engine(seed=1))

CAUSES = (
    Cause(
        rule="host-bound",
        programs=SMALL,
        sizes=(0.30, 0.45, 0.65),
        sized=slower_host,
    ),
    Cause(
        rule="sync-every-step",
        programs=(
            transformer(),
            transformer(A100, seed=1),
            transformer(MI300X, seed=2),
            transformer(training=False, layers=8, seed=3),
        ),
        sizes=(0.02, 0.06, 0.15),
        sized=each_layer,
        also_fine=("pageable-copies",),  # what is read goes to pageable memory
    ),
    Cause(
        rule="data-loading",
        programs=(*HOST_TRAINING, transformer(), convnet(A100), transformer(stacks=True, loss_read=True, seed=2)),
        sizes=(0.075, 0.20, 0.45),
        sized=loader,
        # Without the read of the loss at the step's end, the host would run ahead and hide the loader.
        also_fine=("sync-every-step",),
    ),
    Cause(
        rule="decode-gap",
        programs=ENGINES,
        sizes=(0.15, 0.30, 0.50),
        sized=per_step,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="decode-outside-graphs",
        programs=ENGINES,
        sizes=(2, 4, 6),
        also_fine=("host-bound", "tiny-kernels"),
    ),
    Cause(
        rule="sm-wait",
        programs=(transformer(training=False, layers=8), transformer(A100, training=False, layers=8)),
        sizes=(0.03, 0.06, 0.12),
        sized=lambda program, share: per_step(program, share) / program.form.layers,
        also_fine=("exposed-collective",),
    ),
    Cause(
        rule="fp32-gemm",
        programs=(transformer(), transformer(A100), transformer(training=False), small()),
        sizes=(0.075, 0.30, 0.60),
        sized=side_width,
        also_fine=("old-gemm-kernels",),  # there is no newer kernel for FP32
    ),
    Cause(
        rule="old-gemm-kernels",
        programs=(transformer(), transformer(training=False), transformer(A100), compiled(), graphs()),
        sizes=(1, 2, 3),
    ),
    Cause(
        rule="unfused-attention",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(training=False)),
        sizes=(512, 1_024, 4_096),
    ),
    Cause(
        rule="unfused-elementwise",
        programs=(narrow(), narrow(A100), narrow(MI300X), narrow(training=False)),
        sizes=(2, 3, 3),
    ),
    Cause(
        rule="tiny-kernels",
        programs=(small(training=False), small(A100, training=False), small(MI300X, training=False)),
        sizes=(0.20, 0.35, 0.55),
        sized=number_of_tiny,
        also_fine=("host-bound", "unfused-elementwise"),  # they are element-wise, and launched one by one
    ),
    Cause(
        rule="optimizer-step",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(tokens=4_096)),
        sizes=(0.045, 0.10, 0.20),
        sized=trained_share,
        strong_also_fine=("unfused-elementwise",),  # its kernels are element-wise too
    ),
    Cause(
        rule="allocator",
        programs=(transformer(), transformer(A100), transformer(MI300X)),
        sizes=(0.02, 0.06, 0.20),
        sized=each_layer,
    ),
    Cause(
        rule="pageable-copies",
        programs=(*HOST_TRAINING, convnet(H100), transformer(training=False, layers=8)),
        sizes=(0.02, 0.06, 0.25),
        sized=copied_bytes,
    ),
    Cause(
        rule="gc-pause",
        programs=(
            *HOST_TRAINING[:2],
            transformer(MI300X, loss_read=True, stacks=True),
            transformer(stacks=True, loss_read=True),
        ),
        sizes=(0.15, 0.30, 0.50),
        sized=once,
    ),
    Cause(
        rule="recompilation",
        programs=(
            *(compiled(device, loss_read=True) for device in DEVICES),
            compiled(training=False, loss_read=True),
            transformer(loss_read=True),
            transformer(MI300X, loss_read=True),
        ),
        sizes=(0.10, 0.40, 0.80),
        sized=once,
    ),
    Cause(
        rule="warm-up-in-sample",
        programs=HOST_TRAINING,
        sizes=(0.45, 1.0, 3.0),
        sized=lambda program, share: share * healthy_step_ns(program) / 1e3,
        has_gain=False,
    ),
    Cause(
        rule="graph-breaks",
        programs=tuple(small(device, style="compiled") for device in (H100, A100, MI300X)),
        sizes=(0.15, 0.30, 0.50),
        sized=region_us,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="graph-launch",
        programs=tuple(program.having(loss_read=True) for program in ENGINES),
        sizes=(0.15, 0.30, 0.50),
        sized=per_step,
        also_fine=("host-bound", "decode-gap"),
    ),
    Cause(
        rule="casts-and-copies",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(training=False)),
        sizes=(0.12, 0.20, 0.30),
        sized=copied_tensors,
        strong_also_fine=("unfused-elementwise",),
    ),
    Cause(
        rule="layout-transforms",
        programs=(convnet(), convnet(A100, width=320), convnet(MI300X, width=320), convnet(width=384)),
        sizes=(1, 2, 2),
        also_fine=("casts-and-copies",),
        strong_also_fine=("unfused-elementwise",),  # with norm and activation they are a quarter of the time
    ),
    Cause(
        rule="recomputation",
        programs=(transformer(), transformer(A100), transformer(MI300X)),
        sizes=(2, 3, 4),
    ),
    Cause(
        rule="ddp-overhead",
        programs=(
            *(small(device, ddp=True, world_size=8) for device in (H100, A100, MI300X)),
            parallel(),
            parallel(A100),
        ),
        sizes=(0.02, 0.06, 0.15),
        sized=searched,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="fsdp-rate-limiter",
        programs=(sharded(), sharded(A100), sharded(MI300X)),
        sizes=(0.035, 0.08, 0.14),
        sized=hooks_us,
        also_fine=("exposed-collective", "first-and-last-collective"),
    ),
    Cause(
        rule="unrecorded-work",
        programs=(*ENGINES, transformer(), transformer(MI300X, training=False)),
        sizes=(0.10, 0.2, 0.4),
        sized=lost_share,
        has_gain=False,
    ),
)
STRENGTHS = ("mild", "middle", "strong")


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


def words(program: Program) -> str:
    """What a program is, for a case's name."""
    form = program.form
    device = form.device.name.split()[1].split("-")[0] if form.device is not MI300X else "MI300X"
    kind = program.kind.__name__.lower()
    return " ".join([device, kind, form.style, "training" if form.training else "inference"])


def changes_of(cause: Cause, program: Program, strength: int) -> dict[str, object]:
    """What else the program needs for a cause of this strength."""
    if program.kind is Parallel:
        return {"tokens": (8_192, 4_096, 2_048)[strength]}
    if cause.rule == "unfused-attention":
        return {"sequence": round(cause.sizes[strength])}
    if cause.rule == "unfused-elementwise" and strength == 2:
        return {"width": rounded(0.55 * program.form.width)}
    if cause.rule == "layout-transforms" and strength == 2:
        return {"width": program.form.width // 2}
    return {}


def planted() -> Iterator[partial[Case]]:
    """Each cause in each of its programs, in three strengths."""
    seeds = count(1)
    for cause in CAUSES:
        for program in cause.programs:
            for strength in range(len(cause.sizes)):
                seed = 4 * next(seeds) + program.form.seed

                yield partial(together_case, (cause.rule,), program, strength, seed)


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


def kept(program: Program, rule: str, size: float) -> Program:
    """The program with something that looks like a cause, and is none."""
    form = program.form
    return program.having(plants={**form.plants, rule: size}, justified=form.justified | {rule})


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

#: Causes that are planted together, and where.
TOGETHER: tuple[tuple[tuple[str, ...], tuple[Program, ...]], ...] = (
    (("data-loading", "fp32-gemm"), (transformer(loss_read=True), transformer(A100, loss_read=True))),
    (("data-loading", "pageable-copies"), (transformer(loss_read=True), transformer(MI300X, loss_read=True))),
    (("sync-every-step", "casts-and-copies"), (transformer(), transformer(A100), transformer(MI300X))),
    (("unfused-attention", "optimizer-step"), (transformer(), transformer(A100), transformer(MI300X))),
    (("allocator", "unfused-elementwise"), (narrow(), narrow(A100), narrow(MI300X))),
    (("recomputation", "old-gemm-kernels"), (transformer(), transformer(A100))),
    (("gc-pause", "data-loading"), (transformer(loss_read=True, stacks=True), transformer(MI300X, loss_read=True))),
    (("recompilation", "old-gemm-kernels"), (compiled(loss_read=True), compiled(A100, loss_read=True))),
    (("layout-transforms", "data-loading"), (convnet(loss_read=True), convnet(MI300X, loss_read=True))),
    (("decode-gap", "decode-outside-graphs"), ENGINES),
    (("warm-up-in-sample", "pageable-copies"), (transformer(loss_read=True), transformer(A100, loss_read=True))),
    (
        ("data-loading", "fp32-gemm", "casts-and-copies"),
        (transformer(loss_read=True), transformer(A100, loss_read=True)),
    ),
    (("sync-every-step", "unfused-attention", "optimizer-step"), (transformer(), transformer(MI300X))),
    (
        ("pageable-copies", "layout-transforms", "data-loading"),
        (convnet(loss_read=True), convnet(A100, loss_read=True)),
    ),
    (("allocator", "recomputation", "fp32-gemm"), (transformer(), transformer(A100))),
)


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
    makers = [*planted(), *together(), *healthy()]
    for make in makers[offset::every]:
        yield make()
