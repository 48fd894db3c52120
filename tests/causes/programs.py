"""The programs that the simulated machine runs: a transformer that is trained or asked, eager, compiled or as a graph.

A program leaves places open (`Plant`) into which planted.py puts one cause. Without one, the device is nearly always
busy: its kernels take longer than the host needs to launch them. Names and nesting are those of recorded files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.causes.simulator import AMD, NVIDIA, US, Host, World

MAIN, AUTOGRAD, MONITOR = 0, 119, 64

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)"
)
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, "
    "c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"
)
GEMM = {
    "nvidia": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel_cublas",
    "amd": "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB0_AFC1",
}
MULTI_TENSOR = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0> >"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COPY_KERNEL = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}, std::array<char*, 2ul>, 4>"
)


def elementwise(functor: str) -> str:
    """The name of one of PyTorch's element-wise kernels."""
    return (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, std::array<char*, 2ul> >"
        f"(int, at::native::{functor}, std::array<char*, 2ul>)"
    )


@dataclass(frozen=True, kw_only=True)
class Op:
    """A module's one operator: what it calls, what it launches, how long the device works on it, in µs."""

    module: str
    function: str
    operators: tuple[str, ...]
    kernel: str
    us: float
    backward: str
    backward_operators: tuple[str, ...]


def linear(us: float) -> Op:
    return Op(
        module="Linear",
        function="torch/nn/modules/linear.py(125): forward",
        operators=("aten::linear", "aten::addmm"),
        kernel="gemm",
        us=us,
        backward="AddmmBackward0",
        backward_operators=("aten::mm", "aten::mm"),
    )


LAYER_NORM = Op(
    module="LayerNorm",
    function="torch/nn/modules/normalization.py(217): forward",
    operators=("aten::layer_norm", "aten::native_layer_norm"),
    kernel=NORM,
    us=22,
    backward="NativeLayerNormBackward0",
    backward_operators=("aten::native_layer_norm_backward",),
)
ATTENTION = Op(
    module="Attention",
    function="model.py(58): forward",
    operators=("aten::scaled_dot_product_attention", "aten::_flash_attention_forward"),
    kernel=FLASH,
    us=115,
    backward="ScaledDotProductFlashAttentionBackward0",
    backward_operators=("aten::_flash_attention_backward",),
)
ADD = Op(
    module="Dropout",
    function="torch/nn/modules/dropout.py(70): forward",
    operators=("aten::add",),
    kernel=elementwise("CUDAFunctor_add<c10::BFloat16>"),
    us=19,
    backward="AddBackward0",
    backward_operators=("aten::add_",),
)
GELU = Op(
    module="GELU",
    function="torch/nn/modules/activation.py(734): forward",
    operators=("aten::gelu",),
    kernel=elementwise("GeluCUDAKernelImpl"),
    us=31,
    backward="GeluBackward0",
    backward_operators=("aten::gelu_backward",),
)
LAYER = (LAYER_NORM, linear(150), ATTENTION, linear(60), ADD, LAYER_NORM, linear(190), GELU, linear(190), ADD)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """On what, and how, the program runs, and how it is recorded.

    loss_read: the loss is read in each step. ddp: gradients are all-reduced meanwhile. busy: the host has a little of
    many other things to do, as programs have. scale: how much longer kernels are. host: how much slower the host is.
    """

    vendor: str = "nvidia"
    style: str = "eager"
    training: bool = True
    stacks: bool = False
    steps: bool = True
    loss_read: bool = False
    ddp: bool = False
    busy: bool = False
    scale: float = 1.0
    layers: int = 4
    num_steps: int = 5
    host: float = 1.0
    seed: int = 0


class Plant:
    """One planted cause, of a size: what it does where the program leaves it a place. This one does nothing."""

    def __init__(self, size: float = 0.0) -> None:
        self.size = size

    def begin(self, run: Run) -> None:
        """Before the first step."""

    def batch(self, run: Run) -> None:
        """Where the next batch is fetched."""

    def forward(self, run: Run) -> None:
        """At the start of the model's forward pass."""

    def after_op(self, run: Run, number: int) -> None:
        """After the `number`-th operator of a forward pass."""

    def inside_op(self, run: Run, host: Host, number: int) -> None:
        """Inside an operator, before it launches."""

    def launch_extra(self, run: Run, kernel: str) -> int:
        """What a launch call takes beside its usual time, in ns."""
        return 0

    def graph_extra(self, run: Run) -> int:
        """What the launch of a graph takes beside its usual time, in ns."""
        return 0

    def backward_op(self, run: Run, host: Host) -> None:
        """Before an operator of the backward pass."""

    def after_backward(self, run: Run) -> None:
        """After the backward pass."""

    def optimizer(self, run: Run) -> None:
        """The optimizer's step: a few kernels, each for all parameters."""
        run.foreach_step()

    def after_step(self, run: Run) -> None:
        """At the end of a step."""

    def end(self, run: Run) -> None:
        """After the last step: what the recording lost."""


class Run:
    """One run of a program on a world of its own."""

    def __init__(self, setting: Setting, plant: Plant) -> None:
        self.setting = setting
        self.plant = plant
        self.rng = random.Random(setting.seed * 1_000_003 + 17)
        self.world = World(AMD if setting.vendor == "amd" else NVIDIA, random.Random(setting.seed))
        slow = setting.host * (1.6 if setting.stacks else 1.0)
        self.main = Host(self.world, MAIN, 1_000_000, slow=slow)
        self.autograd = Host(self.world, AUTOGRAD, 1_000_000, slow=setting.host)
        self.step = 0
        self.number = 0
        self.step_begins: list[int] = []
        self.modules: dict[str, int] = {}

    def address(self) -> str:
        """An address, as names of built-in methods have one: another one each time."""
        return f"0x7f{self.rng.randrange(16**10):010x}"

    @contextmanager
    def frames(self, *names: str, host: Host | None = None) -> Iterator[None]:
        """Python frames, one in the other."""
        host = host or self.main
        if not names:
            yield
            return
        with host.inside("frame", names[0]), self.frames(*names[1:], host=host):
            yield

    @contextmanager
    def operators(self, *names: str, host: Host | None = None) -> Iterator[None]:
        """Operators, one in the other; each takes some microseconds of its own before and after."""
        host = host or self.main
        if not names:
            yield
            return
        with host.inside("operator", names[0]):
            host.work(3.6 * US)
            with self.operators(*names[1:], host=host):
                yield
            host.work(1.5 * US)

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """record_function: the annotation begins inside the frames that open it, as in recorded files."""
        host = self.main
        with self.frames(
            "torch/autograd/profiler.py(751): __enter__",
            "torch/_ops.py(1112): __call__",
            f"<built-in method _record_function_enter_new of PyCapsule object at {self.address()}>",
        ):
            host.work(4 * US)
            begin = host.now
            host.work(1 * US)
        with host.inside("annotation", name) as found:
            found.begin = begin
            yield
            with self.frames("torch/autograd/profiler.py(761): __exit__"):
                host.work(5 * US)

    def kernel_name(self, name: str) -> str:
        return GEMM[self.setting.vendor] if name == "gemm" else name

    def device_ns(self, us: float) -> float:
        return us * US * self.setting.scale

    def launch(self, host: Host, kernel: str, us: float, *, call: str = "cudaLaunchKernel", stream: int = 7) -> None:
        """Launches a kernel; gemms of cuBLAS go through another call."""
        name = self.kernel_name(kernel)
        if kernel == "gemm" and call == "cudaLaunchKernel":
            call = "cudaLaunchKernelExC"
        extra = self.plant.launch_extra(self, name)
        host.launch(name, self.device_ns(us), call=call, stream=stream, extra_ns=extra)

    # the program ---------------------------------------------------------------------------------------------------

    def whole(self) -> World:
        """Runs all steps, and what profilers do at the end."""
        monitor = Host(self.world, MONITOR, 900_000)
        waiting = [
            monitor.inside("frame", name)
            for name in (
                "threading.py(1032): _bootstrap",
                "threading.py(1075): _bootstrap_inner",
                "tqdm/_monitor.py(60): run",
                "threading.py(655): wait",
                f"<built-in method acquire of _thread.lock object at {self.address()}>",
            )
        ]
        for frame in waiting:
            frame.__enter__()
        self.plant.begin(self)
        with self.frames("train.py(204): <module>", "train.py(171): main", "train.py(120): train_one_epoch"):
            for step in range(self.setting.num_steps):
                self.step = step
                self.step_begins.append(self.main.now)
                with self.annotation(f"ProfilerStep#{step + 12}"):
                    self.one_step()
            self.main.synchronize("cudaDeviceSynchronize")
        monitor.now = self.main.now + 300_000
        for frame in reversed(waiting):
            frame.__exit__(None, None, None)
        self.plant.end(self)
        return self.world

    def one_step(self) -> None:
        self.number = 0
        self.main.work(20 * US)
        self.plant.batch(self)
        if self.setting.busy:
            self.small_things()
        if self.setting.style == "graph":
            self.replay()
        elif self.setting.style == "compiled":
            self.compiled()
        else:
            self.eager()
        if self.setting.training and self.setting.style != "graph":
            self.backward()
            self.plant.after_backward(self)
            self.plant.optimizer(self)
        if self.setting.loss_read:
            with self.frames("train.py(139): log_loss"):
                self.item()
        self.plant.after_step(self)
        self.main.work(15 * US)

    def small_things(self) -> None:
        """What programs do besides: none of it is what makes a device idle."""
        host = self.main
        with self.frames("tqdm/std.py(1233): update", "tqdm/std.py(1325): refresh"):
            host.work(35 * US)
        if self.step == 0:
            for _ in range(3):
                with self.operators("aten::empty"), host.call("cudaMalloc"):
                    host.work(90 * US)
        if self.step == 2:
            with host.inside("gc", "Python GC"):
                host.work(240 * US)
        if self.step % 2:
            with self.frames("train.py(151): log_metrics", "logging/__init__.py(1519): info"):
                host.work(70 * US)
        with self.operators("aten::randperm"):
            host.work(22 * US)

    def all_reduce(self, host: Host, us: float) -> None:
        """Gradients of some layers are summed over ranks, on a stream of its own, while the backward pass goes on."""
        with (
            self.operators("c10d::allreduce_", "record_param_comms", host=host),
            host.inside("annotation", "nccl:all_reduce"),
        ):
            host.work(12 * US)
            self.world.waits[20] = self.world.ready(7)
            self.launch(host, ALL_REDUCE, us, call="cudaLaunchKernelExC", stream=20)

    # forward -------------------------------------------------------------------------------------------------------

    @contextmanager
    def module(self, kind: str, function: str) -> Iterator[None]:
        """A call of an nn.Module."""
        number = self.modules[kind] = self.modules.get(kind, -1) + 1
        with self.frames(f"nn.Module: {kind}_{number}", "torch/nn/modules/module.py(1779): _call_impl"):
            self.main.work(1.2 * US)
            with self.frames(function):
                self.main.work(1.5 * US)
                yield

    @contextmanager
    def model(self) -> Iterator[None]:
        self.modules.clear()
        outer = "DistributedDataParallel.forward" if self.setting.ddp else "## forward ##"
        with self.annotation(outer) if self.setting.ddp or self.setting.seed % 2 else self.frames():
            self.plant.forward(self)
            with self.module("Transformer", "model.py(140): forward"):
                yield

    def eager(self) -> None:
        host = self.main
        with self.model():
            for _ in range(self.setting.layers):
                with self.module("Block", "model.py(97): forward"):
                    for op in LAYER:
                        with self.module(op.module, op.function), self.operators(*op.operators):
                            self.plant.inside_op(self, host, self.number)
                            host.work(2.5 * US)
                            with self.operators("aten::empty"):
                                pass
                            self.launch(host, op.kernel, op.us)
                        host.work(3 * US)
                        self.plant.after_op(self, self.number)
                        self.number += 1

    def compiled(self) -> None:
        host = self.main
        with (
            self.model(),
            self.frames("torch/_dynamo/eval_frame.py(1076): compile_wrapper"),
        ):
            with self.operators("TorchDynamo Cache Lookup"):
                host.work(14 * US)
            names = ("Torch-Compiled Region: 0/0",) + (("CompiledFunction",) if self.setting.training else ())
            with (
                self.operators(*names),
                self.frames(
                    "torch/_inductor/output_code.py(612): __call__",
                    "/tmp/torchinductor_me/5k/c5kyjqobk3wgs24dmt2xuz6y5vqbjxpd5jwwkfy5kz6wmqrbopa3.py(287): call",
                ),
            ):
                host.work(30 * US)
                self.compiled_kernels(host)

    def compiled_kernels(self, host: Host, *, backward: bool = False) -> None:
        """What inductor's code launches: gemms by cuBLAS, all else as Triton kernels."""
        factor = 1.9 if backward else 1.0
        for layer in range(self.setting.layers):
            for number, op in enumerate(LAYER):
                if op.kernel == "gemm":
                    with self.operators("aten::mm", host=host):
                        self.plant.inside_op(self, host, self.number)
                        self.launch(host, op.kernel, op.us * factor)
                elif op.module != "GELU":
                    name = f"triton_per_fused_add_native_layer_norm_{number + layer % 2}"
                    with self.operators(name, host=host):
                        self.plant.inside_op(self, host, self.number)
                        host.work(4 * US)
                        self.launch(host, name, op.us * factor, call="cuLaunchKernel")
                host.work(1.5 * US)
                if not backward:
                    self.plant.after_op(self, self.number)
                self.number += 1

    def replay(self) -> None:
        """Inputs are copied into place, then one graph is launched."""
        host = self.main
        with self.frames("serve.py(88): decode", "torch/cuda/graphs.py(139): replay"):
            for _ in range(2):
                with self.operators("aten::copy_"):
                    self.small_copy("Memcpy HtoD (Pinned -> Device)")
            kernels = [
                (self.kernel_name(op.kernel), self.device_ns(op.us * (2.0 if self.setting.training else 1.0)))
                for _ in range(self.setting.layers * 2)
                for op in LAYER
            ]
            with self.frames(f"<built-in method replay of CUDAGraph object at {self.address()}>"):
                host.launch_graph(
                    kernels, call="cudaGraphLaunch", call_ns=260 * US, block_ns=self.plant.graph_extra(self)
                )

    # the rest of a training step -----------------------------------------------------------------------------------

    def backward(self) -> None:
        """The main thread sits in run_backward while another thread runs autograd's graph."""
        names = (
            "torch/_tensor.py(571): backward",
            "torch/autograd/__init__.py(243): backward",
            "torch/autograd/graph.py(823): _engine_run_backward",
            f"<built-in method run_backward of torch._C._EngineBase object at {self.address()}>",
        )
        host = self.autograd
        with self.annotation("## backward ##") if self.setting.seed % 3 else self.frames(), self.frames(*names):
            host.now = self.main.now + self.world.about(28 * US)
            if self.setting.style == "compiled":
                name = "CompiledFunctionBackward"
                with self.operators(f"autograd::engine::evaluate_function: {name}", name, host=host):
                    host.work(40 * US)
                    self.compiled_kernels(host, backward=True)
            else:
                for layer in range(self.setting.layers):
                    if self.setting.ddp and layer:
                        self.all_reduce(host, 620)
                    for op in reversed(LAYER):
                        self.plant.backward_op(self, host)
                        name = f"autograd::engine::evaluate_function: {op.backward}"
                        with self.operators(name, op.backward, host=host):
                            for operator in op.backward_operators:
                                with self.operators(operator, host=host):
                                    host.work(2.5 * US)
                                    self.launch(host, op.kernel, op.us * (1.0 if op.kernel == "gemm" else 1.8))
                if self.setting.ddp:
                    self.all_reduce(host, 260)
                    self.world.waits[7] = self.world.ready(20)
            self.main.wait_until(host.now + self.world.about(18 * US))

    def foreach_step(self) -> None:
        """An optimizer that works on all parameters at once."""
        with (
            self.frames("torch/optim/optimizer.py(485): wrapper"),
            self.annotation("Optimizer.step#AdamW.step"),
            self.frames("torch/optim/adam.py(246): step", "torch/optim/adam.py(599): _multi_tensor_adam"),
        ):
            for name in ("add_", "lerp_", "mul_", "addcmul_", "sqrt", "div_", "add_", "addcdiv_"):
                with self.operators(f"aten::_foreach_{name}"):
                    self.main.work(6 * US)
                    self.launch(self.main, MULTI_TENSOR, 55)
        with (
            self.frames("torch/optim/optimizer.py(1023): zero_grad"),
            self.annotation("Optimizer.zero_grad#AdamW.zero_grad"),
        ):
            self.main.work(30 * US)

    # what the host reads and copies --------------------------------------------------------------------------------

    def item(self) -> None:
        """tensor.item(): eight bytes to the host, which waits for all that was launched before."""
        with (
            self.frames(f"<built-in method item of Tensor object at {self.address()}>"),
            self.operators("aten::item", "aten::_local_scalar_dense"),
        ):
            self.blocking_copy("Memcpy DtoH (Device -> Pageable)", ns=1_900, num_bytes=8)

    def small_copy(self, name: str) -> None:
        """A few bytes, queued like a kernel: nobody waits."""
        call = "hipMemcpyAsync" if self.setting.vendor == "amd" else "cudaMemcpyAsync"
        self.main.launch(self.copy_name(name), 1_800, call=call, kind="gpu_memcpy", num_bytes=4_096)

    def blocking_copy(self, name: str, *, ns: float, num_bytes: int) -> None:
        """A small copy from or to pageable memory: queued, then waited for; AMD's runtime does both in one call."""
        host, world = self.main, self.world
        work = host.launch(
            self.copy_name(name), ns, call="cudaMemcpyAsync", kind="gpu_memcpy", num_bytes=num_bytes, exact=True
        )
        if self.setting.vendor == "amd":
            host.wait_until(work.end + world.about(world.machine.wake_ns))
            world.ranges[work.launch].end = host.now
        else:
            host.synchronize("cudaStreamSynchronize", stream=7)

    def copy_name(self, name: str) -> str:
        """What each maker's profiler calls a copy."""
        if self.setting.vendor == "amd":
            return "Memcpy DtoD (Device -> Device)" if "DtoH" in name else "Memcpy HtoD (Host -> Device)"
        return name
