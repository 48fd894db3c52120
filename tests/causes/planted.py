"""The causes that are planted, one at a time, each in three strengths, and what a right answer says of them.

A cause is a `Plant` whose size is solved for, so that the device idles for 10, 25 or 50 % of the time. The truth is
what was planted: its name in the account, words of which the headline must have one, and remedies that would be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from tests.causes.programs import (
    ALL_REDUCE,
    BROADCAST,
    Plant,
    Run,
    Setting,
    elementwise,
)
from tests.causes.recorder import Recording
from tests.causes.simulator import US, Host, World, shared, union

STRENGTHS = (0.10, 0.25, 0.50)

GRAPH = r"captur\w* (a |the |it )?(as a )?graph|\b(CUDA|HIP) graphs?\b|torch\.compile"
PYTHON = r"(faster|less) Python"
WORKERS = r"num_workers|more workers|prefetch"
PIN = r"pin_memory|pinned|\bpin\b"
HOST_LAUNCH = r"waiting for the host to launch"
COLLECTIVES = r"overlap (the )?communication"
UNRECORDED = r"un-?recorded|not recorded|lacks?|missing|lost"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a right answer says.

    causes: names in the account of which the first must be one; the first of them is what was planted.
    words: regular expressions, each of which the headline must match.
    queued: "turnaround" is as right where the simulator's idle time before what was queued is more than the host's.
    wrong: regular expressions that neither headline nor findings may match.
    """

    causes: tuple[str, ...]
    words: tuple[str, ...]
    wrong: tuple[str, ...]
    queued: bool = False


@dataclass(frozen=True, kw_only=True)
class Case:
    """One planted cause on one program, in one strength: the share of the time for which the device idles through it.

    adds: whether that is what it idles beside the idle time of the program without the cause.
    """

    family: str
    setting: Setting
    strength: float
    plant: Callable[[float], Plant]
    sizes: tuple[float, float]
    truth: Truth
    adds: bool = True

    def __str__(self) -> str:
        setting = self.setting
        words = [self.family, f"{self.strength:.0%}", setting.vendor, setting.style]
        words += ["training" if setting.training else "inference"]
        words += ["DDP"] * setting.ddp + ["busy"] * setting.busy
        words += ["stacks"] * setting.stacks + ["no steps"] * (not setting.steps) + ["loss read"] * setting.loss_read
        return ", ".join([*words, f"seed {setting.seed}"])


@dataclass(frozen=True, kw_only=True)
class Made:
    """A case that was run: what happened, how it is recorded, and what of it was planted.

    planted_ns: idle time inside of what was planted (and until the next device work could start).
    without_ns: idle time of the same program without the cause.
    """

    case: Case
    world: World
    recording: Recording
    idle_ns: int
    planted_ns: int
    without_ns: int
    cut: dict[str, int]


def make(case: Case) -> Made:
    """Solves for the size of the cause, then runs the program with it."""
    world = run(case.setting, case.plant(solved(case)))
    return Made(
        case=case,
        world=world,
        recording=Recording(
            stacks=case.setting.stacks, steps=case.setting.steps, world_size=8 if case.setting.ddp else 1
        ),
        idle_ns=world.idle_ns(),
        planted_ns=shared(world.idle(), union(world.planted)),
        without_ns=run(case.setting, Plant()).idle_ns(),
        cut=world.cut(),
    )


def run(setting: Setting, plant: Plant) -> World:
    return Run(setting, plant).whole()


def solved(case: Case) -> float:
    """The size that makes the device idle for the case's share of the time, by bisection: idle grows with the size."""
    low, high = case.sizes
    if low == high:
        return low
    without = run(case.setting, Plant()).idle_ns() if case.adds else 0
    for _ in range(9):
        middle = math.sqrt(low * high)
        world = run(case.setting, case.plant(middle))
        if world.idle_ns() - without < case.strength * world.span_ns():
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


# the causes ----------------------------------------------------------------------------------------------------


class LoaderInline(Plant):
    """A DataLoader without workers: the main thread decodes and resizes images. Size: µs a step."""

    def batch(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames("torch/utils/data/dataloader.py(733): __next__"),
            run.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
            run.frames(
                "torch/utils/data/dataloader.py(789): _next_data",
                "torch/utils/data/_utils/fetch.py(44): fetch",
                "torch/utils/data/_utils/fetch.py(52): <listcomp>",
            ),
        ):
            for _ in range(4):
                with run.frames("dataset.py(41): __getitem__"):
                    with run.frames("dataset.py(57): read_image", f"<built-in method read of {run.address()}>"):
                        host.work(0.04 * self.size * US)
                    with run.frames("transforms.py(112): resize", f"<built-in method resize at {run.address()}>"):
                        host.work(0.19 * self.size * US)
            with run.frames("torch/utils/data/_utils/collate.py(382): default_collate"), run.operators("aten::stack"):
                host.work(0.05 * self.size * US)


class LoaderWorkers(Plant):
    """A DataLoader with workers that are too slow: the main thread waits for a queue. Size: µs a step."""

    pinned = False

    def batch(self, run: Run) -> None:
        host = run.main
        waits = (
            (
                "queue.py(171): get",
                "threading.py(327): wait",
                f"<built-in method acquire of _thread.lock object at {run.address()}>",
            )
            if self.pinned
            else (
                "multiprocessing/queues.py(98): get",
                "multiprocessing/connection.py(257): poll",
                "multiprocessing/connection.py(440): _poll",
                "multiprocessing/connection.py(1136): wait",
                "selectors.py(402): select",
                f"<built-in method poll of select.poll object at {run.address()}>",
            )
        )
        with (
            host.planted(),
            run.frames("torch/utils/data/dataloader.py(733): __next__"),
            run.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
            run.frames(
                "torch/utils/data/dataloader.py(1482): _next_data",
                "torch/utils/data/dataloader.py(1434): _get_data",
                "torch/utils/data/dataloader.py(1275): _try_get_data",
            ),
        ):
            with run.frames(*waits):
                host.work(self.size * US)
            host.work(60 * US)


class LoaderPinned(LoaderWorkers):
    """The same, where another thread pins memory: the main thread waits for a lock of queue.Queue."""

    pinned = True


class Python(Plant):
    """A function of the user's own after the step. Size: µs a step."""

    named = False

    def after_step(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.annotation("update metrics") if self.named else ExitStack(),
            run.frames("train.py(88): update_metrics"),
        ):
            for name in ("metrics.py(31): bleu", "metrics.py(77): rouge"):
                with run.frames(name):
                    for _ in range(6):
                        with run.frames("<built-in function sorted>"):
                            host.work(0.03 * self.size * US)
                        host.work(self.size * US / 12 - 0.03 * self.size * US)


class PythonNamed(Python):
    """The same, in a record_function of the user's."""

    named = True


class PythonEach(Plant):
    """A hook of the user's on some modules of the forward pass. Size: µs for each."""

    def after_op(self, run: Run, number: int) -> None:
        if number % 10 != 4:
            return
        with run.main.planted(), run.frames("hooks.py(12): check_activations", "hooks.py(29): describe"):
            run.main.work(self.size * US)


class Item(Plant):
    """tensor.item() in the forward pass, which a branch depends on. Size: how many for an operator."""

    def __init__(self, size: float) -> None:
        super().__init__(size)
        self.due = 0.0

    def after_op(self, run: Run, number: int) -> None:
        self.due += self.size
        while self.due >= 1:
            self.due -= 1
            with run.main.planted(), run.frames("model.py(75): clip_if_large"):
                run.item()


class PageableBatch(Plant):
    """batch.to("cuda") of pageable memory: the driver copies piece by piece, and the host stands. Size: µs a step."""

    def batch(self, run: Run) -> None:
        host, world = run.main, run.world
        with (
            host.planted(),
            run.frames("train.py(127): to_device", f"<built-in method to of Tensor object at {run.address()}>"),
            run.operators("aten::to", "aten::_to_copy", "aten::copy_"),
        ):
            with host.call("cudaMemcpyAsync"):
                launch = len(world.ranges) - 1
                host.wait_until(world.ready(7))
                host.work(0.7 * self.size * US)
                work = world.enqueue(
                    stream=7,
                    kind="gpu_memcpy",
                    name=run.copy_name("Memcpy HtoD (Pageable -> Device)"),
                    arrived=host.now + 2 * US,
                    ns=round(0.3 * self.size * US),
                    launch=launch,
                )
                work.num_bytes = round(self.size * 6_000)
                host.wait_until(work.end + world.about(world.machine.wake_ns))
            if run.setting.vendor != "amd":
                host.synchronize("cudaStreamSynchronize", stream=7)


class PageableSmall(Plant):
    """torch.tensor(list, device="cuda") in the forward pass: a small blocking copy. Size: how many for an operator."""

    def __init__(self, size: float) -> None:
        super().__init__(size)
        self.due = 0.0

    def after_op(self, run: Run, number: int) -> None:
        self.due += self.size
        while self.due >= 1:
            self.due -= 1
            with (
                run.main.planted(),
                run.frames("model.py(69): positions", f"<built-in method tensor of type object at {run.address()}>"),
                run.operators("aten::to", "aten::_to_copy", "aten::copy_"),
            ):
                run.blocking_copy("Memcpy HtoD (Pageable -> Device)", ns=2_200, num_bytes=2_048)


class Allocation(Plant):
    """Memory is freed and asked for anew in every step: the cache of the allocator does not fit. Size: µs a call."""

    def inside_op(self, run: Run, host: Host, number: int) -> None:
        if number % 10 != 3:
            return
        with host.planted(), run.operators("aten::empty", host=host):
            with host.call("cudaFree"):  # which waits for the device
                host.wait_until(run.world.all_done())
                host.work(0.4 * self.size * US)
            with host.call("cudaMalloc"):
                host.work(0.6 * self.size * US)


class AllocationOnly(Plant):
    """cudaMalloc alone, one in each step, which takes long. Size: µs."""

    def inside_op(self, run: Run, host: Host, number: int) -> None:
        if number == 5:
            with host.planted(), run.operators("aten::empty", host=host), host.call("cudaMalloc"):
                host.work(self.size * US)


class Collection(Plant):
    """Python collects garbage by itself, somewhere in the step. Size: µs a collection."""

    recorded = False

    def after_op(self, run: Run, number: int) -> None:
        if number == 7:
            host = run.main
            with host.planted(), host.inside("gc" if self.recorded else "hidden", "Python GC"):
                host.work(self.size * US)


class CollectionRecorded(Collection):
    """The same, with the profiler told to record it."""

    recorded = True


class CollectionCalled(Plant):
    """gc.collect() after each step."""

    def after_step(self, run: Run) -> None:
        with run.main.planted(), run.frames("train.py(142): free_memory", "<built-in function collect>"):
            run.main.work(self.size * US)


class Compilation(Plant):
    """torch.compile compiles again in the second step, because a shape changed. Size: µs."""

    timed = True
    when = 1

    def forward(self, run: Run) -> None:
        if run.step != self.when:
            return
        host = run.main
        tracing = ("dynamo", "entire_frame_compile", "_compile.compile_inner (dynamo_timed)") if self.timed else ()
        backend = ("compile_fx.<locals>.fw_compiler_base", "compile_fx_inner (dynamo_timed)") if self.timed else ()
        with (
            host.planted(),
            run.frames(
                "torch/_dynamo/eval_frame.py(1076): compile_wrapper",
                "torch/_dynamo/convert_frame.py(2522): __call__",
                "torch/_dynamo/convert_frame.py(1633): _compile",
            ),
            run.operators(*tracing),
            run.frames("torch/_dynamo/convert_frame.py(1699): _compile_inner"),
        ):
            with run.frames("torch/_dynamo/symbolic_convert.py(1681): run"):
                host.work(0.35 * self.size * US)
            with (
                run.operators(*backend),
                run.frames("torch/_inductor/compile_fx.py(803): compile_fx_inner"),
            ):
                host.work(0.25 * self.size * US)
                with run.frames(
                    "torch/_inductor/async_compile.py(648): wait", "concurrent/futures/_base.py(428): result"
                ):
                    host.work(0.4 * self.size * US)


class CompilationOld(Compilation):
    """The same with an older PyTorch, which gave compilation no ranges of its own."""

    timed = False


class TritonCompilation(Plant):
    """A Triton kernel of the user's is compiled when it is first called. Size: µs."""

    def after_op(self, run: Run, number: int) -> None:
        if run.step != 1 or number != 12:
            return
        host = run.main
        with (
            host.planted(),
            run.frames(
                "kernels.py(40): fused_rotary",
                "triton/runtime/jit.py(347): <lambda>",
                "triton/runtime/jit.py(569): run",
                "triton/compiler/compiler.py(226): compile",
            ),
        ):
            for stage in ("ast_to_ttir", "make_ttgir", "make_llir", "make_cubin"):
                with run.frames(f"triton/backends/nvidia/compiler.py(288): {stage}"):
                    host.work(0.24 * self.size * US)
            with host.call("cuModuleLoadData"):
                host.work(0.04 * self.size * US)


class ModuleLoading(Plant):
    """Code is loaded to the device by calls of their own. Size: µs in all."""

    def inside_op(self, run: Run, host: Host, number: int) -> None:
        if run.step == 1 and number % 8 == 2:
            with host.planted(), host.call("cuModuleLoadData"):
                host.work(self.size * US / 5)


class Lock(Plant):
    """Another thread holds a lock of the user's that the main thread needs in each step. Size: µs."""

    def after_step(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames("train.py(145): publish", "shared_state.py(22): update"),
            run.frames(f"<built-in method acquire of _thread.lock object at {run.address()}>"),
        ):
            host.work(self.size * US)


class Condition(Plant):
    """The main thread waits for another one to be done, by an event of threading. Size: µs."""

    def after_step(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames(
                "train.py(147): wait_for_checkpoint",
                "threading.py(655): wait",
                "threading.py(355): wait",
                f"<built-in method acquire of _thread.lock object at {run.address()}>",
            ),
        ):
            host.work(self.size * US)


class SmallKernels(Plant):
    """Nothing but kernels that are shorter than what it takes to launch them. Size: how much shorter."""

    def begin(self, run: Run) -> None:
        run.setting = replace(run.setting, scale=run.setting.scale / self.size)


class SlowGraph(Plant):
    """cudaGraphLaunch takes long before the first kernel can start. Size: µs."""

    def graph_extra(self, run: Run) -> int:
        return run.world.about(self.size * US)


class FirstUse(Plant):
    """One launch call, of a kernel that no step before needed, loads its code. Size: µs."""

    def __init__(self, size: float) -> None:
        super().__init__(size)
        self.loaded = False

    def after_op(self, run: Run, number: int) -> None:
        if run.step and number % 10 == 7:
            with run.operators("aten::masked_fill_"):
                run.launch(run.main, elementwise("masked_fill_kernel"), 17)

    def launch_extra(self, run: Run, kernel: str) -> int:
        if self.loaded or "masked_fill" not in kernel:
            return 0
        self.loaded = True
        return round(self.size * US)


class SlowCall(Plant):
    """One launch call of a kernel that has run before takes long. Size: µs."""

    def __init__(self, size: float) -> None:
        super().__init__(size)
        self.done = False

    def launch_extra(self, run: Run, kernel: str) -> int:
        if self.done or run.step != 2 or "Gelu" not in kernel:
            return 0
        self.done = True
        return round(self.size * US)


class FirstUses(Plant):
    """Every kernel's first launch loads its code. Size: µs for each."""

    def __init__(self, size: float) -> None:
        super().__init__(size)
        self.loaded: set[str] = set()

    def launch_extra(self, run: Run, kernel: str) -> int:
        if kernel in self.loaded:
            return 0
        self.loaded.add(kernel)
        return run.world.about(self.size * US) if len(self.loaded) > 1 else 0


class SingleTensorOptimizer(Plant):
    """Adam, parameter by parameter: some ten small kernels for each. Size: how many parameters."""

    scaled = False

    def optimizer(self, run: Run) -> None:
        host = run.main
        if self.scaled:
            with run.frames("torch/amp/grad_scaler.py(363): step"):
                run.item()
        with (
            host.planted(),
            run.frames("torch/optim/optimizer.py(485): wrapper"),
            run.annotation("Optimizer.step#Adam.step"),
            run.frames("torch/optim/adam.py(246): step", "torch/optim/adam.py(399): _single_tensor_adam"),
        ):
            for _ in range(round(self.size)):
                for name in ("add_", "lerp_", "mul_", "addcmul_", "sqrt", "div", "add_", "addcdiv_"):
                    with run.operators(f"aten::{name}"):
                        host.launch(elementwise(f"{name}Functor<float>"), 2_100)
                    host.work(2 * US)


class ScaledOptimizer(SingleTensorOptimizer):
    """The same after a GradScaler, which reads whether a gradient was infinite."""

    scaled = True


class ZeroGrad(Plant):
    """zero_grad(set_to_none=False): a fill for each parameter. Size: how many parameters."""

    def batch(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames("torch/optim/optimizer.py(1023): zero_grad"),
            run.annotation("Optimizer.zero_grad#AdamW.zero_grad"),
        ):
            for _ in range(round(self.size)):
                with run.operators("aten::zero_", "aten::fill_"):
                    host.launch(elementwise("FillFunctor<float>"), 1_900)
                host.work(3 * US)


class BufferBroadcast(Plant):
    """DDP sends BatchNorm's buffers to all ranks before each forward pass. Size: how many buffers."""

    def forward(self, run: Run) -> None:
        host = run.main
        num = round(self.size)
        with (
            host.planted(),
            run.frames(
                "torch/nn/parallel/distributed.py(1551): forward",
                "torch/nn/parallel/distributed.py(1482): _pre_forward",
                "torch/nn/parallel/distributed.py(2154): _sync_buffers",
            ),
        ):
            with run.operators("aten::flatten_dense_tensors"):
                for _ in range(num):
                    with run.operators("aten::view"):
                        host.work(14 * US)
                with run.operators("aten::cat"):
                    host.launch("void at::native::(anonymous namespace)::CatArrayBatchedCopy", 5_000)
            with (
                run.operators("c10d::broadcast_", "record_param_comms"),
                host.inside("annotation", "nccl:broadcast"),
            ):
                run.world.waits[20] = run.world.ready(7)
                work = host.launch(BROADCAST, 24_000, call="cudaLaunchKernelExC", stream=20)
                run.world.waits[7] = work.end
            with run.operators("aten::unflatten_dense_tensors"):
                for _ in range(num):
                    with run.operators("aten::narrow", "aten::slice"):
                        host.work(20 * US)
            for _ in range(num):
                with run.operators("aten::copy_"):
                    host.launch(
                        "Memcpy DtoD (Device -> Device)",
                        1_400,
                        call="cudaMemcpyAsync",
                        kind="gpu_memcpy",
                        num_bytes=256,
                    )


class Dropped(Plant):
    """Of the device's work, and the calls that launched it, a sample is recorded. Size: the share that is lost."""

    def end(self, run: Run) -> None:
        for work in run.world.device:
            if run.rng.random() < self.size:
                work.lost = run.world.ranges[work.launch].lost = True
        keep_ends(run.world)


class DroppedRecords(Plant):
    """A stretch of the device's records is lost, while calls are kept. Size: share of the records."""

    def end(self, run: Run) -> None:
        works = run.world.device
        first = round(len(works) * 0.4)
        for work in works[first : first + round(len(works) * min(0.55, self.size))]:
            work.lost = True


class HoleInGraph(Plant):
    """Kernels in the middle of each graph are not recorded. Size: share of its kernels."""

    def end(self, run: Run) -> None:
        by_launch: dict[int, list[int]] = {}
        for number, work in enumerate(run.world.device):
            if work.in_graph:
                by_launch.setdefault(work.launch, []).append(number)
        for numbers in by_launch.values():
            first = round(len(numbers) * 0.3)
            for number in numbers[first : first + round(len(numbers) * min(0.65, self.size))]:
                run.world.device[number].lost = True


class HiddenKernel(Plant):
    """In each step the stream waits for a kernel that another library runs, unseen by the profiler. Size: µs."""

    def after_op(self, run: Run, number: int) -> None:
        world, host = run.world, run.main
        if number != 17:
            return
        world.losing = True
        with host.call("cuLaunchKernelEx"):
            launch = len(world.ranges) - 1
            host.work(4 * US)
            work = world.enqueue(
                stream=33,
                kind="kernel",
                name="hidden",
                arrived=max(host.now, world.ready(7)),
                ns=world.about(self.size * US, 0.004),
                launch=launch,
            )
        world.losing = False
        with host.call("cudaStreamWaitEvent"):
            host.work(1 * US)
        world.waits[7] = work.end


class CutFile(Plant):
    """All records of whole steps are missing in the middle of the file. Size: how many steps, each on its own."""

    def end(self, run: Run) -> None:
        world = run.world
        begins = [*run.step_begins, world.all_done()]
        num = round(self.size)
        for begin, end in [begins[2 * k + 1 : 2 * k + 3] for k in range(num)]:
            for found in world.ranges:
                if found.end > begin and found.begin < end and found.end - found.begin < 2 * (end - begin):
                    found.lost = True
            for work in world.device:
                if work.begin < end and work.end > begin:
                    work.lost = True


class CutWindow(Plant):
    """All records of a stretch of time are missing; the host may run ahead of the device. Size: share of the span."""

    def end(self, run: Run) -> None:
        world = run.world
        first, last = world.device[0].begin, world.all_done()
        begin = first + round((last - first) * 0.3)
        end = begin + round((last - first) * self.size)
        for found in world.ranges:
            if found.end > begin and found.begin < end and found.end - found.begin < 2 * (end - begin):
                found.lost = True
        for work in world.device:
            if work.begin < end and work.end > begin:
                work.lost = True


class SilentBackward(Plant):
    """The thread that runs the backward pass has calls alone, no operators. Size: µs for an operator."""

    def begin(self, run: Run) -> None:
        run.setting = replace(run.setting, seed=run.setting.seed - run.setting.seed % 3 + 1)

    def backward_op(self, run: Run, host: Host) -> None:
        with host.planted():
            host.work(self.size * US)

    def end(self, run: Run) -> None:
        for found in run.world.ranges:
            if found.thread == run.autograd.thread and found.kind != "call":
                found.lost = True


class TinyAllReduces(Plant):
    """One small all-reduce for each tensor, each launched alone. Size: how many a step."""

    def after_backward(self, run: Run) -> None:
        host, world = run.main, run.world
        with host.planted(), run.frames("train.py(133): average_gradients"):
            for _ in range(round(self.size)):
                with (
                    run.frames("torch/distributed/distributed_c10d.py(2810): all_reduce"),
                    run.operators("c10d::allreduce_", "record_param_comms"),
                ):
                    host.work(48 * US / run.main.slow)
                    with host.inside("annotation", "nccl:all_reduce"):
                        world.waits[20] = world.ready(7)
                        work = host.launch(ALL_REDUCE, 8_500, call="cudaLaunchKernelExC", stream=20)
                        world.waits[7] = work.end
                    host.work(25 * US / run.main.slow)
                host.work(20 * US / run.main.slow)


class FullQueue(Plant):
    """More is launched than the queue holds: the host stands in launch calls while the device works."""


class Synchronize(Plant):
    """torch.cuda.synchronize() for a stopwatch in the forward pass. Size: how many for an operator."""

    call = "cudaDeviceSynchronize"

    def __init__(self, size: float) -> None:
        super().__init__(size)
        self.due = 0.0

    def after_op(self, run: Run, number: int) -> None:
        self.due += self.size
        while self.due >= 1:
            self.due -= 1
            with (
                run.main.planted(),
                run.frames(
                    "timing.py(18): stopwatch",
                    "torch/cuda/__init__.py(975): synchronize",
                    "<built-in function _cuda_synchronize>",
                ),
            ):
                run.main.synchronize(self.call)


class EventSynchronize(Synchronize):
    """The same by an event that is waited for."""

    call = "cudaEventSynchronize"


class HostOperator(Plant):
    """An operator on tensors of the host, such as a sort, between two that launch. Size: µs."""

    def after_step(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames("postprocess.py(44): keep_best", f"<built-in method sort of Tensor object at {run.address()}>"),
            run.operators("aten::sort"),
        ):
            host.work(self.size * US)


class Checkpoint(Plant):
    """torch.save after the third step. Size: µs."""

    def after_step(self, run: Run) -> None:
        if run.step != 2:
            return
        host = run.main
        with (
            host.planted(),
            run.frames("train.py(160): save_state", "torch/serialization.py(947): save"),
            run.frames("torch/serialization.py(1213): _save"),
        ):
            for _ in range(8):
                with run.frames(f"<built-in method write_record of PyTorchFileWriter object at {run.address()}>"):
                    host.work(self.size * US / 8)


class OwnLoader(Plant):
    """A function of the user's makes a batch from a file mapped into memory, without a DataLoader. Size: µs."""

    def batch(self, run: Run) -> None:
        host = run.main
        with host.planted(), run.frames("train.py(47): get_batch"):
            with run.frames("numpy/_core/memmap.py(289): __new__"):
                host.work(0.3 * self.size * US)
            with run.operators("aten::stack"):
                host.work(0.2 * self.size * US)
            host.work(0.5 * self.size * US)


class Scheduler(Plant):
    """An engine decides what to run next, between two graphs. Size: µs."""

    def batch(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames("vllm/v1/engine/core.py(317): step", "vllm/v1/core/sched/scheduler.py(187): schedule"),
        ):
            with run.frames("vllm/v1/core/kv_cache_manager.py(224): allocate_slots"):
                host.work(0.3 * self.size * US)
            host.work(0.7 * self.size * US)


class Logging(Plant):
    """A logger writes to a slow terminal after each step. Size: µs."""

    def after_step(self, run: Run) -> None:
        host = run.main
        with (
            host.planted(),
            run.frames(
                "logging/__init__.py(1519): info",
                "logging/__init__.py(1664): _log",
                "logging/__init__.py(1690): handle",
                "logging/__init__.py(1744): callHandlers",
                "logging/__init__.py(1022): handle",
                "logging/__init__.py(1131): emit",
            ),
        ):
            with run.frames("logging/__init__.py(974): format"):
                host.work(0.1 * self.size * US)
            with run.frames(f"<built-in method write of _io.TextIOWrapper object at {run.address()}>"):
                host.work(0.9 * self.size * US)


def keep_ends(world: World) -> None:
    """The first and the last of the device's work stay, so that the span does."""
    for work in (world.device[0], world.device[-1]):
        work.lost = world.ranges[work.launch].lost = False


# the cases ----------------------------------------------------------------------------------------------------

EVERY = (GRAPH, PYTHON, WORKERS, PIN, HOST_LAUNCH)


def truth(
    *causes: str, words: str, fits: tuple[str, ...] = (), also: tuple[str, ...] = (), queued: bool = False
) -> Truth:
    """The truth of a cause: all remedies but those that fit are wrong."""
    wrong = tuple(remedy for remedy in EVERY if remedy not in fits)
    return Truth(causes=causes, words=(words, *also), wrong=wrong, queued=queued)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A cause, the programs that it is planted in, and the truth, with Python stacks and without."""

    name: str
    plant: Callable[[float], Plant]
    sizes: tuple[float, float]
    truth: Truth
    without_stacks: Truth | None = None
    styles: tuple[str, ...] = ("eager",)
    training: tuple[bool, ...] = (True, False)
    stacks: tuple[bool, ...] = (True, False)
    vendors: tuple[str, ...] = ("nvidia", "amd")
    strengths: tuple[float, ...] = STRENGTHS
    adds: bool = True
    more: dict[str, object] = field(default_factory=dict)


# Without stacks nobody can know more than that the host did something that the file does not name.
NOTHING = truth("annotation", "nothing_recorded", "python", words="with_stack")
LOADER = truth("data_loading", words=r"data ?loader|data loading", fits=(WORKERS,))
EAGER_WORDS = r"launch|operator|eager|Python"
UNRECORDED_WORDS = (
    r"un-?recorded|not recorded|lacks|not in the file|sampled|nothing (was |is )?recorded|recorded nothing"
)

FAMILIES = (
    Family(
        name="loader",
        plant=LoaderInline,
        sizes=(200, 60_000),
        truth=LOADER,
        styles=("eager", "ddp", "compiled", "graph"),
    ),
    Family(name="loader workers", plant=LoaderWorkers, sizes=(200, 60_000), truth=LOADER, styles=("ddp", "compiled")),
    Family(name="loader pinned", plant=LoaderPinned, sizes=(200, 60_000), truth=LOADER, vendors=("nvidia",)),
    Family(
        name="Python",
        plant=Python,
        sizes=(200, 60_000),
        truth=truth("python", words=r"update_metrics|metrics\.py|bleu|rouge"),
        without_stacks=NOTHING,
        styles=("eager", "ddp", "compiled", "graph"),
    ),
    Family(
        name="Python, annotated",
        plant=PythonNamed,
        sizes=(200, 60_000),
        truth=truth("python", "annotation", words=r"update_metrics|metrics\.py|update metrics"),
        without_stacks=truth("annotation", "python", words="update metrics"),
        vendors=("nvidia",),
    ),
    Family(
        name="Python in hooks",
        plant=PythonEach,
        sizes=(5, 20_000),
        truth=truth("python", words=r"check_activations|hooks\.py|describe"),
        without_stacks=NOTHING,
        training=(False,),
    ),
    Family(
        name="item",
        plant=Item,
        sizes=(0.02, 3.0),
        truth=truth("blocking_sync", words=r"\bitem\b|_local_scalar_dense|Synchronize|MemcpyWithStream"),
        training=(False,),
        more={"scale": 0.6},
    ),
    Family(
        name="pageable batch",
        plant=PageableBatch,
        sizes=(50, 80_000),
        truth=truth("blocking_copy", words=r"cop(y|ies)|Memcpy", fits=(PIN,)),
    ),
    Family(
        name="pageable copies",
        plant=PageableSmall,
        sizes=(0.02, 3.0),
        truth=truth("blocking_copy", "blocking_sync", words=r"cop(y|ies)|Memcpy|pageable", fits=(PIN,)),
        training=(False,),
        vendors=("nvidia",),
        more={"scale": 0.6},
    ),
    Family(
        name="free and allocate",
        plant=Allocation,
        sizes=(20, 60_000),
        truth=truth("allocation", words=r"alloc|cudaMalloc|cudaFree|hipMalloc|hipFree|memory"),
    ),
    Family(
        name="allocate",
        plant=AllocationOnly,
        sizes=(200, 60_000),
        truth=truth("allocation", words=r"alloc|cudaMalloc|hipMalloc|memory"),
        vendors=("nvidia",),
    ),
    Family(
        name="collection recorded",
        plant=CollectionRecorded,
        sizes=(200, 60_000),
        truth=truth("garbage_collection", words=r"garbage|collect|GC"),
    ),
    Family(
        name="collection called",
        plant=CollectionCalled,
        sizes=(200, 60_000),
        truth=truth("garbage_collection", words=r"garbage|collect|GC"),
        styles=("eager", "ddp"),
        stacks=(True,),
    ),
    Family(
        name="collection unseen",
        plant=Collection,
        sizes=(200, 60_000),
        truth=NOTHING,
        stacks=(False,),
        training=(False,),
    ),
    Family(
        name="compilation",
        plant=Compilation,
        sizes=(1_000, 900_000),
        truth=truth("compilation", words=r"compil"),
        styles=("compiled",),
    ),
    Family(
        name="compilation, older",
        plant=CompilationOld,
        sizes=(1_000, 900_000),
        truth=truth("compilation", words=r"compil"),
        without_stacks=NOTHING,
        styles=("compiled",),
        vendors=("nvidia",),
    ),
    Family(
        name="compilation of Triton",
        plant=TritonCompilation,
        sizes=(1_000, 900_000),
        truth=truth("compilation", words=r"compil|Triton"),
        stacks=(True,),
    ),
    Family(
        name="module loading",
        plant=ModuleLoading,
        sizes=(1_000, 900_000),
        truth=truth("compilation", "first_use", words=r"ModuleLoad|load"),
        training=(False,),
    ),
    Family(
        name="lock",
        plant=Lock,
        sizes=(200, 60_000),
        truth=truth("lock", words=r"\block|shared_state|publish"),
        styles=("eager", "ddp"),
        stacks=(True,),
    ),
    Family(
        name="wait for a thread",
        plant=Condition,
        sizes=(200, 60_000),
        truth=truth("lock", words=r"\block|wait_for_checkpoint|thread"),
        stacks=(True,),
        vendors=("nvidia",),
    ),
    Family(
        name="eager launching",
        plant=SmallKernels,
        sizes=(0.7, 60),
        truth=truth("operators", "python", words=EAGER_WORDS, fits=(GRAPH, HOST_LAUNCH)),
        without_stacks=truth("operators", words=r"launch|operator|eager", fits=(GRAPH, HOST_LAUNCH)),
        vendors=("nvidia",),
        adds=False,
    ),
    Family(
        name="launch latency",
        plant=SmallKernels,
        sizes=(3.0, 60),
        truth=truth("launch_latency", words=r"latency", fits=(GRAPH,)),
        styles=("compiled",),
        training=(False,),
        stacks=(False,),
        vendors=("amd",),
        strengths=(0.45, 0.50, 0.55),
        adds=False,
        more={"host": 0.4, "scale": 0.3},
    ),
    Family(
        name="graph launch",
        plant=SlowGraph,
        sizes=(50, 80_000),
        truth=truth("graph_launch", words=r"GraphLaunch|graph('s)? launch|launch(es|ing)? (of )?(a |the )?graphs?"),
        styles=("graph",),
        training=(False,),
        more={"loss_read": True},
    ),
    Family(
        name="first use",
        plant=FirstUse,
        sizes=(1_000, 900_000),
        truth=truth("first_use", words=r"one (launch )?call|first|load"),
        training=(False,),
    ),
    Family(
        name="slow launch call",
        plant=SlowCall,
        sizes=(1_000, 900_000),
        truth=truth("launch_call", words=r"LaunchKernel|launch calls?"),
        training=(False,),
    ),
    Family(
        name="first uses",
        plant=FirstUses,
        sizes=(300, 200_000),
        truth=truth("first_use", words=r"first|load"),
        training=(False,),
    ),
    Family(
        name="optimizer",
        plant=SingleTensorOptimizer,
        sizes=(2, 1_200),
        truth=truth("optimizer", words=r"optimi[sz]er", fits=(GRAPH,), queued=True),
        styles=("eager", "compiled"),
        training=(True,),
        vendors=("nvidia",),
        more={"num_steps": 3, "loss_read": True},
    ),
    Family(
        name="optimizer, scaled",
        plant=ScaledOptimizer,
        sizes=(2, 1_200),
        truth=truth("optimizer", words=r"optimi[sz]er", fits=(GRAPH,), queued=True),
        styles=("eager", "compiled"),
        training=(True,),
        vendors=("nvidia",),
        more={"num_steps": 3, "loss_read": True},
    ),
    Family(
        name="zero_grad",
        plant=ZeroGrad,
        sizes=(2, 2_500),
        truth=truth("zero_grad", words=r"zero_grad|gradients", fits=(GRAPH,), queued=True),
        training=(True,),
        vendors=("nvidia",),
        more={"num_steps": 3, "loss_read": True},
    ),
    Family(
        name="buffer broadcast",
        plant=BufferBroadcast,
        sizes=(2, 800),
        truth=truth("buffer_broadcast", words=r"DDP|DistributedDataParallel|buffers?"),
        training=(True,),
        more={"ddp": True, "num_steps": 3, "loss_read": True},
    ),
    Family(
        name="sampled records",
        plant=Dropped,
        sizes=(0.03, 0.85),
        truth=truth("unrecorded", words=UNRECORDED_WORDS),
        styles=("eager", "compiled"),
        stacks=(False,),
    ),
    Family(
        name="lost records",
        plant=DroppedRecords,
        sizes=(0.03, 0.85),
        truth=truth("unrecorded", words=UNRECORDED_WORDS),
        stacks=(False,),
    ),
    Family(
        name="hole in a graph",
        plant=HoleInGraph,
        sizes=(0.03, 0.85),
        truth=truth("unrecorded", words=UNRECORDED_WORDS),
        styles=("graph",),
        training=(False,),
        stacks=(False,),
    ),
    Family(
        name="hidden kernel",
        plant=HiddenKernel,
        sizes=(100, 80_000),
        truth=truth("unrecorded", words=UNRECORDED_WORDS),
        training=(False,),
        stacks=(False,),
    ),
    Family(
        name="cut file",
        plant=CutFile,
        sizes=(1, 1),
        truth=truth("file_cut", "unrecorded", words=UNRECORDED_WORDS + r"|\bcut\b"),
        training=(False,),
        stacks=(False,),
        strengths=(0.10,),
        more={"loss_read": True, "num_steps": 9},
    ),
    Family(
        name="cut file twice",
        plant=CutFile,
        sizes=(2, 2),
        truth=truth("file_cut", "unrecorded", words=UNRECORDED_WORDS + r"|\bcut\b"),
        stacks=(False,),
        strengths=(0.25,),
        more={"loss_read": True, "num_steps": 8},
    ),
    Family(
        name="cut window",
        plant=CutWindow,
        sizes=(0.03, 0.7),
        truth=truth("file_cut", "unrecorded", words=UNRECORDED_WORDS + r"|\bcut\b"),
        stacks=(False,),
        more={"num_steps": 8},
    ),
    Family(
        name="silent backward",
        plant=SilentBackward,
        sizes=(5, 1_000),
        truth=truth("backward_thread", words=r"backward", fits=()),
        training=(True,),
        more={"seed": 1},
    ),
    Family(
        name="tiny all-reduces",
        plant=TinyAllReduces,
        sizes=(3, 2_500),
        truth=truth(
            "operators", words=r"launch|operator|eager|host", fits=(GRAPH, HOST_LAUNCH), also=(r"all-?_?reduce",)
        ),
        training=(True,),
        vendors=("nvidia",),
        more={"ddp": True, "num_steps": 3, "loss_read": True},
    ),
    Family(
        name="2,000 all-reduces",
        plant=TinyAllReduces,
        sizes=(2_000, 2_000),
        truth=truth(
            "operators", words=r"launch|operator|eager|host", fits=(GRAPH, HOST_LAUNCH), also=(r"all-?_?reduce",)
        ),
        training=(True,),
        vendors=("nvidia",),
        strengths=(0.9,),
        more={"ddp": True, "num_steps": 2},
    ),
    Family(
        name="synchronize",
        plant=Synchronize,
        sizes=(0.02, 3.0),
        truth=truth("blocking_sync", words=r"Synchronize|synchroni[sz]"),
        training=(False,),
        more={"scale": 0.6},
    ),
    Family(
        name="synchronize an event",
        plant=EventSynchronize,
        sizes=(0.02, 3.0),
        truth=truth("blocking_sync", words=r"Synchronize|synchroni[sz]"),
        training=(False,),
        vendors=("nvidia",),
        more={"scale": 0.6},
    ),
    Family(
        name="operator of the host",
        plant=HostOperator,
        sizes=(200, 60_000),
        truth=truth("operators", words=r"\bsort\b"),
        training=(False,),
    ),
    Family(
        name="checkpoint",
        plant=Checkpoint,
        sizes=(500, 300_000),
        truth=truth("checkpoint", words=r"checkpoint|save"),
        stacks=(True,),
        vendors=("nvidia",),
    ),
    Family(
        name="loader of one's own",
        plant=OwnLoader,
        sizes=(200, 60_000),
        truth=truth("data_loading", "python", words=r"get_batch|data loading", fits=(WORKERS,)),
        stacks=(True,),
        vendors=("nvidia",),
    ),
    Family(
        name="scheduler",
        plant=Scheduler,
        sizes=(50, 60_000),
        truth=truth("scheduler", words=r"schedul"),
        styles=("graph",),
        training=(False,),
        stacks=(True,),
    ),
    Family(
        name="logging",
        plant=Logging,
        sizes=(200, 60_000),
        truth=truth("logging", words=r"\blog"),
        stacks=(True,),
        vendors=("nvidia",),
    ),
    Family(
        name="full queue",
        plant=FullQueue,
        sizes=(1, 1),
        truth=truth("none", words=r"[Cc]omput|kernels|busy", also=()),
        training=(False,),
        strengths=(0.0,),
        more={"layers": 30, "num_steps": 8, "host": 0.5},
    ),
    Family(
        name="no idle",
        plant=Plant,
        sizes=(1, 1),
        truth=truth("none", words=r"[Cc]omput|kernels|busy"),
        styles=("eager", "compiled", "graph"),
        strengths=(0.0,),
        more={"loss_read": False},
    ),
)


def cases(offset: int = 0) -> Iterator[Case]:
    """All cases: each family in its styles, of both makers, with and without stacks, in three strengths; with another
    offset the same with other noise.
    """
    seed = 0
    for family in FAMILIES:
        for style in family.styles:
            for training in family.training:
                if (style == "graph" and training) or (style == "ddp" and not training):
                    continue
                for stacks in family.stacks:
                    for vendor in family.vendors:
                        for strength in family.strengths:
                            seed += 1
                            setting = Setting(
                                vendor=vendor,
                                style="eager" if style == "ddp" else style,
                                training=training,
                                ddp=style == "ddp",
                                stacks=stacks,
                                steps=seed % 4 != 0,
                                loss_read=seed % 5 == 0,
                                busy=seed % 3 == 0,
                                seed=seed + 10_000 * offset,
                            )
                            yield Case(
                                family=family.name,
                                setting=replace(setting, **family.more),  # type: ignore[arg-type]
                                strength=strength,
                                plant=family.plant,
                                sizes=family.sizes,
                                adds=family.adds,
                                truth=family.truth
                                if stacks or family.without_stacks is None
                                else family.without_stacks,
                            )
