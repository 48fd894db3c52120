"""The programs that causes are planted in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from tests.causes.simulator import World
from tests.findings.planted.convnet import ConvNet
from tests.findings.planted.devices import A100, H100, MI300X, Device
from tests.findings.planted.engine import Engine
from tests.findings.planted.parallel import Parallel
from tests.findings.planted.process import Form, Process
from tests.findings.planted.sharded import Sharded
from tests.findings.planted.transformer import Transformer


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


def words(program: Program) -> str:
    """What a program is, for a case's name."""
    form = program.form
    device = form.device.name.split()[1].split("-")[0] if form.device is not MI300X else "MI300X"
    kind = program.kind.__name__.lower()
    return " ".join([device, kind, form.style, "training" if form.training else "inference"])


def kept(program: Program, rule: str, size: float) -> Program:
    """The program with something that looks like a cause, and is none."""
    form = program.form
    return program.having(plants={**form.plants, rule: size}, justified=form.justified | {rule})
