"""A transformer: trained or asked, eager or compiled, alone, with DDP or with FSDP.

A layer is a list of pieces: a piece is what one module launches forward and backward. Glue is what only moves bytes;
compiled, neighbours of it become one kernel that reads what comes in once and writes what goes out once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

from tests.causes.programs import ALL_REDUCE, NORM
from tests.causes.simulator import US, Host
from tests.findings.planted.devices import BF16, FP32, Kernel, three_tensors, two_tensors
from tests.findings.planted.process import COMMUNICATION, Process, rounded

SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_{way}<c10::BFloat16, c10::BFloat16, float, 11, false, false>"
    "(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
)
ADD = three_tensors("CUDAFunctor_add<c10::BFloat16>")
MUL = three_tensors(
    "BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >"
)
SCALE = two_tensors(
    "AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >"
)
POW = two_tensors("pow_tensor_scalar_kernel_impl<c10::BFloat16, c10::BFloat16>")
TANH = two_tensors("tanh_kernel_cuda")
GELU = two_tensors("GeluCUDAKernelImpl")
GELU_BACKWARD = three_tensors("GeluBackwardCUDAKernelImpl")
RSQRT = two_tensors("rsqrt_kernel_cuda")
MEAN = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at::native::MeanOps<c10::BFloat16, "
    "float, float, c10::BFloat16>, unsigned int, c10::BFloat16, 4, 4> >(at::native::ReduceOp<c10::BFloat16>)"
)
NORM_BACKWARD = (
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float, false>"
    "(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*)"
)
NORM_GAMMA = (
    "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 64u, 1u, 32u, "
    "true, true, false>(long, long, c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*)"
)
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}::operator()() const::{lambda()#10}::operator()() const::{lambda(c10::BFloat16)#1}, "
    "std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
    "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)"
)
CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<at::native::(anonymous namespace)::"
    "OpaqueType<2u>, unsigned int, 3, 128, 1>(at::native::(anonymous namespace)::OpaqueType<2u>*)"
)
CONTIGUOUS = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}> >(int)"
)
EMBEDDING = (
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
)
LOG_SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMax{way}<4, float, float, float, at::native::"
    "(anonymous namespace)::LogSoftMax{way}Epilogue>(float*, float const*, int)"
)
FUSED_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::(anonymous namespace)::ADAM_MODE)1, false> >"
)
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
DISPATCH = (
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*, float*, int*, int*, int4 const*, "
    "float const*, long const*, float const*, bool const*, int const*, int, int, int, int, int, int, void**, int, int)"
)
#: What a dispatch holds of the SMs.
TAKEN_SMS = 24


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a module does.

    forward, backward: operators (one in the other, parted by spaces) with the kernel that the last launches.
    taken, given: bytes that glue reads and writes however it is fused; beside: what it reads from, and keeps for,
    others in the midst of a chain.
    """

    module: str
    node: str
    forward: tuple[tuple[str, Kernel], ...]
    backward: tuple[tuple[str, Kernel], ...]
    role: str = ""
    shapes: tuple[tuple[int, ...], ...]
    kind: str = BF16
    glue: bool = False
    taken: float = 0.0
    given: float = 0.0
    beside: float = 0.0


class Transformer(Process):
    """A decoder of `layers` layers."""

    # the pieces ------------------------------------------------------------------------------------------------------

    @property
    def tensor(self) -> float:
        """Bytes of one hidden state of all tokens."""
        return 2.0 * self.form.tokens * self.form.width

    def linear(self, name: str, k: int, n: int, *, kind: str = "bf16") -> Piece:
        device, m = self.device, self.form.tokens
        operators = {"fp32": FP32, "tf32": FP32}.get(kind, BF16)
        return Piece(
            module="Linear",
            role=name,
            node="AddmmBackward0",
            forward=(("aten::linear aten::addmm", device.matmul(m, n, k, kind=kind)),),
            backward=(
                ("aten::mm", device.matmul(m, k, n, kind=kind)),
                ("aten::mm", device.matmul(n, k, m, kind=kind)),
            ),
            shapes=((n,), (m, k), (k, n)),
            kind=operators,
        )

    def glue(
        self, operator: str, name: str, num_bytes: float, *, module: str = "Block", back: float = 1.5,
        beside: float = 0.0, scale: int = 1, node: str = "", back_name: str = "",
    ) -> Piece:  # fmt: skip
        """An operator that reads and writes tensors; `back`: bytes of its backward pass over those."""
        device = self.device
        backward: tuple[tuple[str, Kernel], ...] = ()
        if back:
            backward = ((f"{operator}_backward", device.moving(back_name or name, back * num_bytes)),)
        return Piece(
            module=module,
            node=node or operator.rsplit("::", 1)[1].strip("_").capitalize() + "Backward0",
            forward=((operator, device.moving(name, num_bytes)),),
            backward=backward,
            shapes=((self.form.tokens, self.form.width * scale),),
            glue=True,
            taken=self.tensor * scale,
            given=self.tensor * scale,
            beside=beside,
        )

    def norm(self) -> list[Piece]:
        """LayerNorm; or RMSNorm as it is written down, operator by operator."""
        tensor, device = self.tensor, self.device
        if self.planted("unfused-elementwise"):
            rows = 4.0 * self.form.tokens
            return [
                self.glue("aten::pow", POW, 2 * tensor, module="RMSNorm"),
                self.glue("aten::mean", MEAN, tensor, module="RMSNorm", back=1.0),
                self.glue("aten::add", ADD, 2 * rows, module="RMSNorm", back=0.0),
                self.glue("aten::rsqrt", RSQRT, 2 * rows, module="RMSNorm"),
                self.glue("aten::mul", MUL, 2 * tensor, module="RMSNorm"),
                self.glue("aten::mul", MUL, 2 * tensor, module="RMSNorm"),
            ]
        return [
            Piece(
                module="LayerNorm",
                node="NativeLayerNormBackward0",
                forward=(("aten::layer_norm aten::native_layer_norm", device.moving(NORM, 2 * tensor)),),
                backward=(
                    ("aten::native_layer_norm_backward", device.moving(NORM_BACKWARD, 3 * tensor)),
                    ("aten::native_layer_norm_backward", device.moving(NORM_GAMMA, 0.3 * tensor)),
                ),
                shapes=((self.form.tokens, self.form.width),),
                glue=True,
                taken=tensor,
                given=tensor,
            )
        ]

    def activation(self) -> list[Piece]:
        """GELU; or, of the strong forms, as the formula says it, operator by operator."""
        wide = 4 * self.tensor
        if self.cost("unfused-elementwise") >= 2:
            names = [("aten::mul", SCALE), ("aten::pow", POW), ("aten::mul", SCALE), ("aten::add", ADD)]
            names += [("aten::mul", SCALE), ("aten::tanh", TANH), ("aten::add", SCALE), ("aten::mul", MUL)]
            if self.cost("unfused-elementwise") < 3:
                names = names[-4:]
            return [self.glue(operator, name, 2 * wide, module="NewGELU", scale=4) for operator, name in names]
        return [
            self.glue(
                "aten::gelu", GELU, 2 * wide, module="GELU", scale=4, node="GeluBackward0", back_name=GELU_BACKWARD
            )
        ]

    def residual(self) -> list[Piece]:
        """The hidden state is added to; backward its gradient is."""
        return [self.glue("aten::add", ADD, 3 * self.tensor, back=1.0, beside=2 * self.tensor)]

    def attention(self) -> list[Piece]:
        form, device = self.form, self.device
        heads, batch = form.width // 64, form.tokens // form.sequence
        sequence = form.sequence
        flops = 4.0 * form.tokens * sequence * form.width
        shape = ((batch, heads, sequence, 64),) * 3
        if not self.planted("unfused-attention"):
            return [
                Piece(
                    module="Attention",
                    node="ScaledDotProductFlashAttentionBackward0",
                    forward=(
                        (
                            "aten::scaled_dot_product_attention aten::_scaled_dot_product_flash_attention "
                            "aten::_flash_attention_forward",
                            device.flash(flops / 2),
                        ),
                    ),
                    backward=(("aten::_flash_attention_backward", device.flash(1.25 * flops, backward=True)),),
                    shapes=shape,
                )
            ]
        scores = 2.0 * batch * heads * sequence * sequence
        first = device.matmul(sequence, sequence, 64, batch=batch * heads)
        second = device.matmul(sequence, 64, sequence, batch=batch * heads)
        return [
            Piece(
                module="Attention",
                node="BmmBackward0",
                forward=(("aten::matmul aten::bmm", first),),
                backward=(("aten::bmm", second), ("aten::bmm", second)),
                shapes=((batch * heads, sequence, 64), (batch * heads, 64, sequence)),
            ),
            Piece(
                module="Attention",
                node="SoftmaxBackward0",
                forward=(("aten::softmax aten::_softmax", device.moving(SOFTMAX.format(way="forward"), 2 * scores)),),
                backward=(("aten::_softmax_backward_data", device.moving(SOFTMAX.format(way="backward"), 3 * scores)),),
                shapes=((batch, heads, sequence, sequence),),
            ),
            Piece(
                module="Attention",
                node="BmmBackward0",
                forward=(("aten::matmul aten::bmm", second),),
                backward=(("aten::bmm", first), ("aten::bmm", second)),
                shapes=((batch * heads, sequence, sequence), (batch * heads, sequence, 64)),
            ),
        ]

    def gemm_kind(self, name: str) -> str:
        """By which kernels a GEMM runs."""
        old = {1: ("proj",), 2: ("qkv", "proj"), 3: ("qkv", "fc1", "fc2")}.get(round(self.cost("old-gemm-kernels")), ())
        return "old" if name in old else "bf16"

    def side(self) -> list[Piece]:
        """A side branch in FP32, which TF32 would do for."""
        if "fp32-gemm" not in self.form.plants:
            return []
        n = rounded(self.size("fp32-gemm"))
        kind = "fp32" if self.planted("fp32-gemm") else "tf32"
        return [self.linear("side", self.form.width, n, kind=kind)]

    def copies(self) -> list[Piece]:
        """Casts, concatenations and changes of layout that are needless. Size: bytes over a tensor's."""
        found: list[Piece] = []
        left = self.cost("casts-and-copies")
        names = [("aten::to aten::_to_copy aten::copy_", CAST, 3.0), ("aten::cat", CAT, 2.0)]
        names.append(("aten::contiguous aten::clone aten::copy_", CONTIGUOUS, 2.0))
        while left > 0.05:
            operators, name, share = names[len(found) % 3]
            share = min(share, left)
            left -= share
            kernel = self.device.moving(name, share * self.tensor)
            found.append(
                Piece(
                    module="Attention",
                    node="CatBackward0" if name == CAT else "ToCopyBackward0",
                    forward=((operators, kernel),),
                    backward=((operators, kernel),),
                    shapes=((self.form.tokens, self.form.width),),
                )
            )
        return found

    def layer(self) -> list[Piece]:
        width = self.form.width
        return [
            *self.norm(),
            self.linear("qkv", width, 3 * width, kind=self.gemm_kind("qkv")),
            *self.copies(),
            *self.attention(),
            self.linear("proj", width, width, kind=self.gemm_kind("proj")),
            *self.residual(),
            *self.norm(),
            *self.side(),
            self.linear("fc1", width, 4 * width, kind=self.gemm_kind("fc1")),
            *self.activation(),
            self.linear("fc2", 4 * width, width, kind=self.gemm_kind("fc2")),
            *self.residual(),
        ]

    @property
    def is_compiled(self) -> bool:
        """torch.compile is also the remedy for unfused glue."""
        form = self.form
        return form.style == "compiled" or "unfused-elementwise" in form.plants.keys() & form.removed

    def fused(self, pieces: list[Piece]) -> list[Piece]:
        """Neighbours of glue become one."""
        found: list[Piece] = []
        for is_glue, chain in groupby(pieces, key=lambda piece: piece.glue):
            chained = list(chain)
            if not is_glue:
                found += chained
                continue
            moved = chained[0].taken + chained[-1].given + sum(piece.beside for piece in chained)
            name = f"triton_per_fused_add_native_layer_norm_{len(found)}"
            if any(piece.module in ("GELU", "NewGELU") for piece in chained):
                name = f"triton_poi_fused_gelu_{len(found)}"
            found.append(
                Piece(
                    module="Block",
                    node="CompiledFunctionBackward",
                    forward=((name, self.device.moving(name, moved, call="cuLaunchKernel")),),
                    backward=(
                        (f"{name}_backward", self.device.moving(f"{name}9", 1.5 * moved, call="cuLaunchKernel")),
                    ),
                    shapes=chained[0].shapes,
                    glue=True,
                )
            )
        return found

    # a step ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        pieces = self.layer()
        self.pieces = self.fused(pieces) if self.is_compiled else pieces
        if self.planted("host-bound"):
            self.main.slow *= self.size("host-bound")
            self.autograd.slow *= self.size("host-bound")

    def one_step(self) -> None:
        self.batch()
        self.forward()
        if self.form.training:
            self.backward()
            self.optimizer_step()
        if self.form.loss_read:
            self.item()

    def batch(self) -> None:
        """The next batch: from a loader, and to the device."""
        size = self.cost("data-loading")
        workers = self.form.seed % 2
        kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
        with (
            self.frames("torch/utils/data/dataloader.py(733): __next__"),
            self.annotation(f"enumerate(DataLoader)#{kind}.__next__"),
        ):
            if workers:
                with self.frames("torch/utils/data/dataloader.py(1275): _try_get_data", "queue.py(171): get"):
                    self.busy(size)
            elif size:
                with self.frames("torch/utils/data/_utils/fetch.py(44): fetch", "dataset.py(41): __getitem__"):
                    self.busy(0.9 * size)
                self.op("aten::stack aten::cat", None)
                self.busy(0.1 * size)
            self.main.work(40 * US)
        copied = self.size("pageable-copies") or 8.0 * self.form.tokens
        with self.frames("train.py(127): to_device"):
            self.copied(copied, pinned=not self.planted("pageable-copies"))
        if self.step == 0 and self.planted("warm-up-in-sample"):
            self.warm_up()

    def warm_up(self) -> None:
        """What the first step alone does: memory is asked for, code is loaded, handles are made."""
        host, size = self.main, self.cost("warm-up-in-sample")
        self.op("aten::empty aten::fill_", self.device.moving(SCALE, 1e5))
        for call in ("cudaMalloc", "cuModuleLoadData", "cudaMalloc", "cuLibraryLoadData"):
            with self.operator("aten::empty"), host.call(call):
                self.busy(0.25 * size)

    def forward(self) -> None:
        with self.wrapped():
            if self.planted("recompilation") and self.step == 2:
                self.compile_again()
            embedded = self.device.moving(EMBEDDING, 2 * self.tensor)
            self.op("aten::embedding aten::index_select", embedded, (self.form.vocab, self.form.width))
            if self.is_compiled:
                self.compiled_layers()
            else:
                for number in range(self.form.layers):
                    with self.module("Block", "model.py(97): forward"):
                        self.layer_forward(number, self.pieces)
            self.head()

    @contextmanager
    def wrapped(self) -> Iterator[None]:
        """The model, in what wraps it."""
        self.modules.clear()
        with ExitStack() as stack:
            if self.form.ddp:
                stack.enter_context(self.frames("torch/nn/parallel/distributed.py(1637): forward"))
                stack.enter_context(self.annotation("DistributedDataParallel.forward"))
            stack.enter_context(self.module("GPT", "model.py(140): forward"))
            yield
        if self.form.ddp and self.form.training and self.planted("ddp-overhead"):
            self.search_unused()

    def search_unused(self) -> None:
        """find_unused_parameters=True: the graph is walked before each backward pass."""
        name = f"<built-in method prepare_for_backward of PyCapsule object at {self.address()}>"
        with self.frames(name), self.operator("torch.distributed.ddp.reducer::search_unused_parameters", us=8):
            self.busy(self.size("ddp-overhead"))

    def layer_forward(self, number: int, pieces: list[Piece]) -> None:
        """A layer, operator by operator."""
        for place, piece in enumerate(pieces):
            with self.module(piece.module, f"model.py({30 + place}): forward"):
                if place == 3 and self.planted("allocator"):
                    self.allocate_anew()
                if place == 3 and self.planted("unrecorded-work"):
                    self.unrecorded(self.size("unrecorded-work") * US)
                if piece.module == "GELU" and "sm-wait" in self.form.plants:
                    self.after(7, COMMUNICATION)
                for names, kernel in piece.forward:
                    if piece.role == "fc1" and "sm-wait" in self.form.plants:
                        self.dispatched_beside(names, kernel, piece)
                    else:
                        self.op(names, kernel, *piece.shapes, kind=piece.kind)
            self.main.work(3 * US)
        self.read_value()
        if number == 1 and self.step == 3 and self.planted("gc-pause"):
            kind = "gc" if self.form.stacks else "hidden"
            with self.main.inside(kind, "Python GC"):
                self.busy(self.size("gc-pause"))
        if "tiny-kernels" in self.form.plants:
            self.tiny()

    def dispatched_beside(self, names: str, kernel: Kernel, piece: Piece) -> None:
        """A GEMM that holds all SMs, and the dispatch of other tokens, which needs `TAKEN_SMS` of them at once.
        Launched second, it starts as the GEMM ends; launched first, both run, the GEMM on the SMs that are left.
        """
        took = self.size("sm-wait") * US
        dispatch = Kernel(name=DISPATCH, ns=took, blocks=TAKEN_SMS, threads=768, call="cudaLaunchKernelExC")
        before = self.world.ready(7)
        if self.planted("sm-wait"):
            self.op(names, kernel, *piece.shapes, kind=piece.kind)
            self.world.waits[COMMUNICATION] = self.world.ready(7)
            self.run(dispatch, stream=COMMUNICATION)
            return
        self.world.waits[COMMUNICATION] = before
        self.run(dispatch, stream=COMMUNICATION)
        slower = min(took, kernel.ns) * TAKEN_SMS / (self.device.num_sms - TAKEN_SMS)
        self.op(names, replace(kernel, ns=kernel.ns + slower), *piece.shapes, kind=piece.kind)

    def unrecorded(self, ns: float) -> None:
        """A kernel of another library, which the profiler does not see."""
        self.world.losing = True
        self.main.launch("hidden", ns)
        self.world.losing = False

    def read_value(self) -> None:
        """A value of the device is read, and the host works on; without the cause it works all the same."""
        if "sync-every-step" not in self.form.plants:
            return
        with self.frames("model.py(75): route"):
            if self.planted("sync-every-step"):
                self.blocking_read(self.form.seed % 4)
            self.busy(self.size("sync-every-step"))

    def blocking_read(self, kind: int) -> None:
        """item(), nonzero(), tolist() or a masked select: eight bytes that the host waits for."""
        if kind in (0, 2):
            self.item()
            return
        name, frame = (("aten::nonzero", "nonzero"), ("aten::masked_select", "masked_select"))[kind // 2]
        with self.frames(f"<built-in method {frame} of Tensor object at {self.address()}>"), ExitStack() as stack:
            for operator in (name,) if kind == 1 else (name, "aten::nonzero"):
                stack.enter_context(self.operator(operator, (self.form.tokens,), kind="bool"))
            self.run(self.device.moving("void at_cuda_detail::cub::DeviceReduceSingleTileKernel<int>(int)", 1e4))
            self.blocking_copy("Memcpy DtoH (Device -> Pageable)", ns=1_900, num_bytes=4)
            self.run(self.device.moving("void at_cuda_detail::cub::DeviceSelectSweepKernel<int>(int)", 2e4))

    def allocate_anew(self) -> None:
        """The cache has no block that fits: memory is given back, for which the driver waits, and asked for anew."""
        host, size = self.main, self.size("allocator")
        with self.operator("aten::empty", us=1):
            with host.call("cudaFree"):
                host.wait_until(self.world.all_done())
                self.busy(0.4 * size)
            self.memory_event(-(512 << 20))
            with host.call("cudaMalloc"):
                self.busy(0.6 * size)
            self.memory_event(512 << 20)

    def tiny(self) -> None:
        """A chain of operators on a few numbers. Size: how many; as a graph where it is mended."""
        kernel, number = self.device.moving(SCALE, 4_096), round(self.size("tiny-kernels"))
        if self.planted("tiny-kernels"):
            for _ in range(number):
                self.op("aten::mul", kernel, (1, 64), (1,))
        else:
            self.main.launch_graph(
                [(kernel.name, kernel.ns)] * number, call="cudaGraphLaunch", call_ns=8 * US, block_ns=0
            )

    def compile_again(self) -> None:
        """A shape changed: torch.compile traces and compiles once more."""
        size = self.size("recompilation")
        with (
            self.frames(
                "torch/_dynamo/eval_frame.py(1076): compile_wrapper", "torch/_dynamo/convert_frame.py(1633): _compile"
            ),
            self.operators("dynamo", "entire_frame_compile", "_compile.compile_inner (dynamo_timed)"),
        ):
            self.busy(0.4 * size)
            with self.operators("compile_fx.<locals>.fw_compiler_base", "compile_fx_inner (dynamo_timed)"):
                self.busy(0.6 * size)

    def compiled_layers(self) -> None:
        """Inductor's code calls kernels with little between; each break of the graph is a region of its own."""
        host = self.main
        parts = 1
        if "graph-breaks" in self.form.plants and self.planted("graph-breaks"):
            parts = 2 * self.form.layers
        all_of = [piece for _ in range(self.form.layers) for piece in self.pieces]
        each = -(-len(all_of) // parts)
        for part in range(parts):
            with self.frames("torch/_dynamo/eval_frame.py(1076): compile_wrapper"):
                with self.operators("TorchDynamo Cache Lookup"):
                    host.work(14 * US)
                    self.busy(self.cost("graph-breaks"))
                names = [f"Torch-Compiled Region: {part}/0"] + ["CompiledFunction"] * self.form.training
                with self.operators(*names), self.frames("torch/_inductor/output_code.py(612): __call__"):
                    host.work(30 * US)
                    for piece in all_of[part * each : (part + 1) * each]:
                        for operators, kernel in piece.forward:
                            self.op(operators.rsplit(" ", 1)[-1], kernel, *piece.shapes, kind=piece.kind)
                        host.work(1.5 * US)

    def head(self) -> None:
        """Logits, and the loss in FP32."""
        form, device = self.form, self.device
        logits = device.matmul(form.tokens, form.vocab, form.width)
        shapes = ((form.tokens, form.width), (form.width, form.vocab))
        self.op("aten::linear aten::mm", logits, *shapes)
        if form.training:
            scores = 4.0 * form.tokens * form.vocab
            shape = (form.tokens, form.vocab)
            self.op("aten::to aten::_to_copy aten::copy_", device.moving(CAST, 1.5 * scores), shape)
            name = LOG_SOFTMAX.format(way="Forward")
            self.op("aten::log_softmax aten::_log_softmax", device.moving(name, 2 * scores), shape, kind=FP32)
            loss = "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"
            self.op("aten::nll_loss aten::nll_loss_forward", device.moving(loss, 1e6), shape, kind=FP32)

    def head_backward(self, host: Host) -> None:
        form, device = self.form, self.device
        scores = 4.0 * form.tokens * form.vocab
        name = LOG_SOFTMAX.format(way="Backward")
        for node, operator, kernel in (
            ("LogSoftmaxBackward0", "aten::_log_softmax_backward_data", device.moving(name, 3 * scores)),
            ("ToCopyBackward0", "aten::to aten::_to_copy aten::copy_", device.moving(CAST, 1.5 * scores)),
            ("MmBackward0", "aten::mm", device.matmul(form.tokens, form.width, form.vocab)),
            ("MmBackward0", "aten::mm", device.matmul(form.vocab, form.width, form.tokens)),
        ):
            with self.node(node, host):
                self.op(operator, kernel, (form.tokens, form.vocab), host=host)

    @contextmanager
    def node(self, name: str, host: Host) -> Iterator[None]:
        """A node of autograd's graph."""
        with self.operators(f"autograd::engine::evaluate_function: {name}", name, host=host):
            yield

    def backward(self) -> None:
        """The main thread sits in run_backward while another thread runs autograd's graph."""
        host = self.autograd
        with self.frames("torch/_tensor.py(571): backward", "torch/autograd/graph.py(823): _engine_run_backward"):
            host.now = self.main.now + self.world.about(28 * US)
            self.head_backward(host)
            if self.is_compiled:
                with self.node("CompiledFunctionBackward", host):
                    host.work(40 * US)
                    for _ in range(self.form.layers):
                        for piece in reversed(self.pieces):
                            for operators, kernel in piece.backward:
                                self.op(operators.rsplit(" ", 1)[-1], kernel, *piece.shapes, kind=piece.kind, host=host)
            else:
                for number in reversed(range(self.form.layers)):
                    self.layer_backward(number, host)
            if self.form.ddp:
                self.after(7, COMMUNICATION, host)
            self.main.wait_until(host.now + self.world.about(18 * US))

    def layer_backward(self, number: int, host: Host) -> None:
        if self.planted("recomputation") and number < self.size("recomputation"):
            with self.node("CheckpointFunctionBackward", host):
                for piece in self.pieces:
                    for operators, kernel in piece.forward:
                        self.op(operators, kernel, *piece.shapes, kind=piece.kind, host=host)
        for piece in reversed(self.pieces):
            if piece.backward:
                with self.node(piece.node, host):
                    for operators, kernel in piece.backward:
                        self.op(operators, kernel, *piece.shapes, kind=piece.kind, host=host)
        if self.form.ddp:
            self.all_reduced(host)

    def all_reduced(self, host: Host) -> None:
        """The gradients of a layer are summed over ranks, on another stream, while the backward pass goes on."""
        num_bytes = 4.0 * 12 * self.form.width**2
        kernel = Kernel(
            name=ALL_REDUCE,
            ns=20 * US + 1e9 * 1.75 * num_bytes / 300e9,
            blocks=16,
            threads=544,
            call="cudaLaunchKernelExC",
        )
        with (
            self.operator("c10d::allreduce_", host=host),
            host.inside(
                "operator",
                "record_param_comms",
                **{
                    "Collective name": "allreduce",
                    "dtype": "Float",
                    "In msg nelems": round(num_bytes / 4),
                    "Out msg nelems": round(num_bytes / 4),
                    "Group size": self.form.world_size,
                    "Process Group Name": "0",
                    "Process Group Description": "default_pg",
                },
            ),
            host.inside("annotation", "nccl:all_reduce"),
        ):
            self.after(COMMUNICATION, 7, host)
            self.run(kernel, host=host, stream=COMMUNICATION)

    @property
    def num_parameters(self) -> float:
        return 12.0 * self.form.layers * self.form.width**2 + self.form.vocab * self.form.width

    def optimizer_step(self) -> None:
        """AdamW with FP32 states: a fused kernel for many parameters; or, parameter by parameter, one for each term."""
        host, device = self.main, self.device
        share = self.size("optimizer-step") or 1.0
        trained = share * self.num_parameters
        with (
            self.frames("torch/optim/optimizer.py(485): wrapper"),
            self.annotation("Optimizer.step#AdamW.step"),
        ):
            if self.planted("optimizer-step"):
                num = max(16, round(12 * self.form.layers * share))
                with self.frames("torch/optim/adam.py(345): _single_tensor_adam"):
                    for _ in range(num):
                        for name, width in (
                            ("mul_", 8), ("lerp_", 12), ("mul_", 8), ("addcmul_", 16), ("sqrt", 8), ("div", 8),
                            ("add_", 8), ("addcdiv_", 16),
                        ):  # fmt: skip
                            kernel = device.moving(two_tensors(f"{name}kernel_cuda<float>"), width * trained / num)
                            self.op(f"aten::{name}", kernel, (rounded(trained / num),), kind=FP32)
            else:
                with self.frames("torch/optim/adam.py(799): _fused_adam"):
                    for _ in range(4):
                        kernel = device.moving(FUSED_ADAM, 28 * trained / 4)
                        self.op("aten::_fused_adamw_", kernel, kind=FP32)
        with self.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            host.work(30 * US)
