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
from tests.findings.planted.process import Form, Process
from tests.findings.planted.sharded import GATHER, Sharded
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


def engine(device: Device = H100, **changes: object) -> Program:
    form = Form(
        device=device, layers=8, num_steps=8, width=4_096, tokens=64, vocab=64_000, training=False, steps=True, host=2.0
    )
    return Program(kind=Engine, form=replace(form, **changes))  # type: ignore[arg-type]


def compiled(device: Device = H100, **changes: object) -> Program:
    return transformer(device, style="compiled", **changes)


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
    return max(10.0, per_step(program, share) / program.form.layers - 45)


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


def number_of_tiny(program: Program, share: float) -> float:
    """Kernels for each layer that take the share, with the time in which the device waits for the host."""
    slack = healthy_step_ns(program) - host_step_ns(program)
    return (1e3 * per_step(program, share) + slack) / 14e3 / program.form.layers


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
    return beyond_run_ahead(program, share)


def region_us(program: Program, share: float) -> float:
    """What a region takes of the host before its code runs."""
    regions = 2 * program.form.layers
    return max(0.0, beyond_run_ahead(program, share) / regions - 50)


def hooks_us(program: Program, share: float) -> float:
    """What FSDP's hooks take for a layer so that waiting leaves the device idle."""
    process = program.kind(program.form)
    assert isinstance(process, Sharded)
    process.start()
    forward = process.gather_ns / GATHER / 1e3
    return (1 - GATHER) * forward - 60 + per_step(program, share) / program.form.layers


def trained_share(program: Program, share: float) -> float:
    """The share of parameters that are trained, one by one, in this share of the time."""
    process = program.kind(program.form)
    assert isinstance(process, Transformer)
    fused = 28 * process.num_parameters / program.form.device.bandwidth * 1e9
    rest = healthy_step_ns(program) - fused
    return min(1.0, share / (1 - share) * rest / (84 / 28 * fused))


HOST_TRAINING = tuple(
    maker(device, loss_read=True)
    for maker, device in ((transformer, H100), (transformer, A100), (compiled, H100), (transformer, MI300X))
)
SMALL = (small(), small(A100), small(MI300X), small(training=False, layers=8))
ENGINES = (engine(), engine(A100), engine(MI300X), engine(seed=1))

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
            transformer(training=False, layers=8),
        ),
        sizes=(0.015, 0.05, 0.15),
        sized=each_layer,
    ),
    Cause(
        rule="data-loading",
        programs=(*HOST_TRAINING, transformer(), convnet(A100)),
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
    ),
    Cause(
        rule="old-gemm-kernels",
        programs=(transformer(), transformer(training=False), transformer(A100), compiled()),
        sizes=(1, 2, 3),
    ),
    Cause(
        rule="unfused-attention",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(training=False)),
        sizes=(512, 1_024, 4_096),
    ),
    Cause(
        rule="unfused-elementwise",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(training=False)),
        sizes=(1, 2, 3),
    ),
    Cause(
        rule="tiny-kernels",
        programs=(small(training=False), small(A100, training=False), small(MI300X, training=False)),
        sizes=(0.20, 0.35, 0.55),
        sized=number_of_tiny,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="optimizer-step",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(tokens=4_096)),
        sizes=(0.045, 0.10, 0.20),
        sized=trained_share,
    ),
    Cause(
        rule="allocator",
        programs=(transformer(), transformer(A100), transformer(MI300X)),
        sizes=(0.015, 0.05, 0.20),
        sized=each_layer,
    ),
    Cause(
        rule="pageable-copies",
        programs=(*HOST_TRAINING, convnet(H100), transformer(training=False, layers=8)),
        sizes=(0.015, 0.06, 0.25),
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
        programs=(convnet(), convnet(A100), convnet(MI300X), convnet(width=384)),
        sizes=(1, 2, 2),
        also_fine=("casts-and-copies",),
    ),
    Cause(
        rule="recomputation",
        programs=(transformer(), transformer(A100), transformer(MI300X)),
        sizes=(2, 3, 4),
    ),
    Cause(
        rule="ddp-overhead",
        programs=tuple(small(device, ddp=True, world_size=8) for device in (H100, A100, MI300X)),
        sizes=(0.02, 0.06, 0.15),
        sized=searched,
    ),
    Cause(
        rule="fsdp-rate-limiter",
        programs=(sharded(), sharded(A100), sharded(MI300X)),
        sizes=(0.03, 0.06, 0.12),
        sized=hooks_us,
        also_fine=("exposed-collective",),
    ),
    Cause(
        rule="unrecorded-work",
        programs=ENGINES,
        sizes=(0.10, 0.2, 0.4),
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
    causes = frozenset(program.form.plants)

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


def planted_case(cause: Cause, program: Program, strength: int, seed: int) -> Case:
    """One cause in one program, so strong."""
    share = cause.sizes[strength]
    size = cause.sized(program, share) if cause.sized else share
    changes: dict[str, object] = {}
    if cause.rule == "unfused-attention":
        changes["sequence"] = round(size)
    if cause.rule == "layout-transforms" and strength == 2:
        changes["width"] = program.form.width // 2
    return case_of(
        f"{cause.rule} {STRENGTHS[strength]} {words(program)} {seed}",
        program.having(plants={cause.rule: size}, seed=seed, **changes),
        frozenset(cause.also_fine + (cause.strong_also_fine if strength else ())),
        frozenset({cause.rule} if cause.has_gain else ()),
    )


def planted() -> Iterator[Callable[[], Case]]:
    """Each cause in each of its programs, in three strengths."""
    seeds = count(1)
    for cause in CAUSES:
        for program in cause.programs:
            for strength in range(len(cause.sizes)):
                seed = 4 * next(seeds) + program.form.seed

                yield partial(planted_case, cause, program, strength, seed)


HEALTHY: tuple[Program, ...] = (
    *(transformer(device) for device in (H100, A100, MI300X)),
    *(transformer(device, loss_read=True) for device in (H100, A100, MI300X)),
    *(transformer(device, training=False, layers=8) for device in (H100, A100, MI300X)),
    *(compiled(device) for device in (H100, A100, MI300X)),
    *(compiled(device, training=False) for device in (H100, A100, MI300X)),
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


def healthy() -> Iterator[Callable[[], Case]]:
    for number, program in enumerate(HEALTHY):
        yield partial(case_of, f"healthy {words(program)} {number}", program, frozenset(), frozenset())


def cases(*, every: int = 1, offset: int = 0) -> Iterator[Case]:
    """Every `every`-th case from the `offset`-th on: planted ones, then healthy ones. Nothing else is run."""
    makers = [*planted(), *healthy()]
    for make in makers[offset::every]:
        yield make()
