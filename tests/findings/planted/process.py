"""One process that drives one device, and what every program of such a process does: operators, copies, steps.

A program is a `Process` with a `one_step`. Its causes are `plants`: rule ids with a size each. A rule that is also
`removed` was mended as its remedy says: what is needless is gone, what is needed stays.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from tests.causes.programs import Plant, Run, Setting
from tests.causes.recorder import Recording
from tests.causes.simulator import US, Host, World
from tests.findings.planted.devices import BF16, H100, Device, Kernel

#: Streams beside that of the kernels (7).
COMMUNICATION, COPIES = 20, 13

Shape = tuple[int, ...]

#: The noise of kernels' durations, as a logarithm.
NOISE = NormalDist(0.0, 0.03)

#: What operators take beside tensors, in the order of their arguments: stride, padding, dilation and so on.
_CONVOLVED = ("[1, 1]", "[1, 1]", "[1, 1]")
SCALARS: dict[str, tuple[str, ...]] = {
    "aten::add": ("1",),
    "aten::conv2d": ("", *_CONVOLVED, "1"),
    "aten::convolution": ("", *_CONVOLVED, "False", "[0, 0]", "1"),
    "aten::_convolution": ("", *_CONVOLVED, "False", "[0, 0]", "1", "False", "False", "True", "True"),
    "aten::cudnn_convolution": (*_CONVOLVED, "1", "False", "False", "True"),
    "aten::miopen_convolution": ("", *_CONVOLVED, "1", "False", "False"),
    "aten::convolution_backward": ("[0]", *_CONVOLVED, "False", "[0, 0]", "1", "[True, True, False]"),
}


@dataclass(frozen=True, kw_only=True)
class Form(Setting):
    """Which program runs on what, and how it is recorded.

    width, tokens, sequence, vocab: of a transformer: hidden size, tokens a step, tokens a sequence, words.
    filled: the share of the device's memory that is taken before the first step.
    plants: causes, each with a size. removed: of them, what was mended. justified: of them, what is right as it is:
    hidden, too little to matter, or needed.
    """

    device: Device = H100
    width: int = 2048
    tokens: int = 8192
    sequence: int = 2048
    vocab: int = 16_384
    shapes: bool = True
    world_size: int = 1
    plants: Mapping[str, float] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    justified: frozenset[str] = frozenset()
    filled: float = 0.4

    def without(self, *rules: str) -> Form:
        """The same with these causes removed."""
        return replace(self, removed=self.removed | set(rules))


class Process(Run):
    """A run of a program."""

    def __init__(self, form: Form) -> None:
        super().__init__(replace(form, vendor=form.device.vendor), Plant())
        self.form = form
        self.device = form.device
        self.launched: dict[str, int] = {}
        self.shift = 0
        self.allocated = round(form.filled * form.device.memory)

    def planted(self, rule: str) -> bool:
        """Whether the cause is there, and not removed."""
        return rule in self.form.plants and rule not in self.form.removed

    def size(self, rule: str) -> float:
        """The cause's size, also where it is removed; 0 where it never was there."""
        return self.form.plants.get(rule, 0.0)

    def cost(self, rule: str) -> float:
        """The cause's size; 0 where it is removed."""
        return self.size(rule) if self.planted(rule) else 0.0

    @property
    def hidden(self) -> Shape:
        """The shape of a hidden state of all tokens."""
        return (self.form.tokens, self.form.width)

    @property
    def tensor(self) -> float:
        """Its bytes."""
        return 2.0 * self.form.tokens * self.form.width

    @property
    def recording(self) -> Recording:
        """How the run is recorded."""
        form = self.form
        return Recording(
            stacks=form.stacks,
            steps=form.steps,
            world_size=form.world_size,
            shapes=form.shapes,
            device=form.device.properties,
        )

    def one_step(self) -> None:
        raise NotImplementedError

    def step_name(self) -> str:
        return f"ProfilerStep#{self.step + 12}"

    def start(self) -> None:
        """Before the first step."""

    def stop(self) -> None:
        """After the last one."""

    def whole(self) -> World:
        """Runs all steps."""
        self.start()
        with self.frames("train.py(204): <module>", "train.py(171): main"):
            for step in range(self.form.num_steps):
                self.step = step
                self.step_begins.append(self.main.now)
                with self.annotation(self.step_name()):
                    self.one_step()
            self.main.synchronize("cudaDeviceSynchronize")
        self.stop()
        return self.world

    # what programs are made of --------------------------------------------------------------------------------------

    @contextmanager
    def operator(
        self, name: str, *shapes: Shape, kind: str = BF16, host: Host | None = None, us: float = 3.6
    ) -> Iterator[None]:
        """An operator with the shapes of its inputs."""
        host = host or self.main
        with host.inside("operator", name, **(inputs(name, shapes, kind) if self.form.shapes else {})):
            host.work(us * US)
            yield
            host.work(0.4 * us * US)

    def busy(self, us: float, host: Host | None = None) -> None:
        """The host works for a time that is known but for a little noise."""
        (host or self.main).now += round(us * US * self.rng.uniform(0.97, 1.03))

    def run(self, kernel: Kernel, *, host: Host | None = None, stream: int = 7) -> None:
        """Launches a kernel. Its noise depends on how often one of its name ran before, and so stays as it is where
        another cause is removed.
        """
        number = self.launched[kernel.name] = self.launched.get(kernel.name, 0) + 1
        drawn = (zlib.crc32(f"{self.form.seed} {kernel.name} {number}".encode()) + 0.5) / 2**32
        ns = kernel.ns * math.exp(NOISE.inv_cdf(drawn))
        work = (host or self.main).launch(kernel.name, ns, call=kernel.call, stream=stream + self.shift, exact=True)
        work.args = kernel.args

    def op(
        self,
        names: str,
        kernel: Kernel | None,
        *shapes: Shape,
        kind: str = BF16,
        host: Host | None = None,
        stream: int = 7,
    ) -> None:
        """Operators, one in the other (parted by spaces), the last of which launches a kernel."""
        with ExitStack() as stack:
            for name in names.split():
                stack.enter_context(self.operator(name, *shapes, kind=kind, host=host))
            if kernel is not None:
                self.run(kernel, host=host, stream=stream)

    def event(self, call: str, host: Host | None = None) -> None:
        """cudaEventRecord, cudaStreamWaitEvent: a call that is soon over."""
        host = host or self.main
        with host.call(call):
            host.work(1.2 * US)

    def after(self, waiting: int, awaited: int, host: Host | None = None) -> None:
        """What is launched next on one stream waits for what was launched last on another."""
        self.event("cudaEventRecord", host)
        self.event("cudaStreamWaitEvent", host)
        self.world.waits[waiting] = max(self.world.waits.get(waiting, 0), self.world.ready(awaited))

    def copied(self, num_bytes: float, *, pinned: bool, stream: int = 7) -> None:
        """A copy to the device. From pinned memory it is queued like a kernel; from pageable memory the host stands
        until the driver has copied all of it, piece by piece.
        """
        host, world = self.main, self.world
        seconds = num_bytes / (48e9 if pinned else 6e9)
        name = self.copy_name(f"Memcpy HtoD ({'Pinned' if pinned else 'Pageable'} -> Device)")
        queued = pinned and self.device.vendor == "amd"
        with self.operator("aten::to"), self.operator("aten::_to_copy"), self.operator("aten::copy_"):
            work = host.launch(
                name,
                seconds * 1e9 + 1_500,
                stream=stream,
                call="hipMemcpyAsync" if queued else "cudaMemcpyAsync",
                kind="gpu_memcpy",
                num_bytes=round(num_bytes),
            )
            found = world.ranges[work.launch]
            found.args = {"bytes": f"{num_bytes:.0f}", "kind": "1"}
            if not pinned:
                host.wait_until(work.end - 2 * US)
                found.end = host.now
                if self.device.vendor != "amd":
                    host.synchronize("cudaStreamSynchronize", stream=stream)

    def blocking_copy(self, name: str, *, ns: float, num_bytes: int) -> None:
        """AMD's runtime says in the call's arguments which way a copy goes: 1 to the device, 2 from it."""
        before = len(self.world.device)
        super().blocking_copy(name, ns=ns, num_bytes=num_bytes)
        call = self.world.ranges[self.world.device[before].launch]
        call.args = {"bytes": f"{num_bytes}", "kind": "2" if "DtoH" in name else "1"}

    def collective_name(self, name: str) -> str:
        """RCCL runs every collective under one name."""
        return "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)" if self.device.vendor == "amd" else name

    def memory_event(self, num_bytes: int, host: Host | None = None) -> None:
        """What the allocator gives or takes back."""
        host = host or self.main
        self.allocated += num_bytes
        self.world.memory.append(
            (
                host.now,
                host.thread,
                {
                    "Total Reserved": max(self.allocated, round((self.form.filled + 0.05) * self.device.memory)),
                    "Total Allocated": self.allocated,
                    "Bytes": num_bytes,
                    "Addr": 0x7F0000000000 + abs(num_bytes),
                    "Device Id": 0,
                    "Device Type": 1,
                    "Ev Idx": len(self.world.ranges),
                },
            )
        )


def rounded(number: float, to: int = 64) -> int:
    """The next multiple of `to`."""
    return max(to, math.ceil(number / to) * to)


def inputs(operator: str, shapes: tuple[Shape, ...], kind: str) -> dict[str, object]:
    """What record_shapes writes of an operator: its tensors, then its scalars."""
    if operator == "aten::linear":
        bias, taken, weight = shapes if len(shapes) == 3 else ((), *shapes)
        shapes = (taken, weight[::-1], bias)
    if operator in ("aten::_flash_attention_forward", "aten::_flash_attention_backward"):
        shapes = tuple((batch, sequence, heads, width) for batch, heads, sequence, width in shapes)
    scalars = SCALARS.get(operator, ())
    return {
        "Input Dims": [list(shape) for shape in shapes] + [[]] * len(scalars),
        "Input type": [kind if shape else "" for shape in shapes]
        + [("ScalarList" if "[" in scalar else "Scalar") if scalar else "" for scalar in scalars],
        "Concrete Inputs": [""] * len(shapes) + list(scalars),
    }
