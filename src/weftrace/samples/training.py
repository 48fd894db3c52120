"""Data-parallel training of a small transformer: the program of three samples, and what may be wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from weftrace.samples.recorder import AUTOGRAD, COMMUNICATION, COMPUTE, COPIES, MAIN, Recorder, Thread

_POINTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}, std::array<char*, 2ul> >(int, at::native::{0},"
    " std::array<char*, 2ul>)"
)
_SCALED = "AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >"
_ATTENTION = "void flash::flash_{0}_kernel<flash::Flash_{0}_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >"
_NORM = "void at::native::(anonymous namespace)::{0}<c10::BFloat16, float>(int, float, c10::BFloat16 const*)"
_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, false> >"
)
_NORMS = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<c10::BFloat16, (NormType)1> >"
)
_GEMM = {"fwd": "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT", "dgrad": "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_NNT",
         "wgrad": "nvjet_tst_128x256_64x4_1x2_h_bz_coopB_NTN"}  # fmt: skip
#: GELU as its formula says it, operator by operator: 0.5 x (1 + tanh(c (x + 0.044715 x^3))).
_WRITTEN_OUT = (
    ("pow", "pow_tensor_scalar_kernel_impl<c10::BFloat16, c10::BFloat16>"), ("mul", _SCALED),
    ("add", "CUDAFunctor_add<c10::BFloat16>"), ("mul", _SCALED), ("tanh", "tanh_kernel_cuda"),
    ("add", "CUDAFunctorOnSelf_add<c10::BFloat16>"), ("mul", _SCALED), ("mul", _SCALED),
)  # fmt: skip
#: What an H100 reaches: FLOP/s of GEMMs, bytes/s of its memory, bytes/s on the bus of an all-reduce over NVLink.
_FLOPS, _BYTES, _BUS = 7.0e14, 2.7e12, 3.0e11
_BUCKETS = 3

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained, on how many ranks, and what is wrong with it.

    reads_norm: the norm of the gradients is read by .item() in every step. is_unfused: GELU is written out, eight
    kernels in place of one. reduces_late: gradients are reduced when the backward pass has ended. slow: rank -> factor
    on the time of its kernels.
    """

    ranks: tuple[int, ...] = (0,)
    world_size: int = 8
    steps: int = 3
    layers: int = 4
    width: int = 2_048
    tokens: int = 8_192
    reads_norm: bool = False
    is_unfused: bool = False
    reduces_late: bool = False
    slow: tuple[tuple[int, float], ...] = ()
    seed: int = 0

    def record(self) -> Recorder:
        """Run it."""
        recorder = Recorder("training of a small transformer", seed=self.seed, world_size=self.world_size)
        slow = dict(self.slow)
        for rank in self.ranks:
            _Run(self, Thread(recorder, rank, slow=slow.get(rank, 1.0))).steps()
        return recorder


class _Run:
    """One rank's run: forward on the main thread, backward on autograd's."""

    def __init__(self, form: Training, main: Thread) -> None:
        self.form, self.main = form, main
        self.autograd = Thread(main.recorder, main.rank, AUTOGRAD, main.slow, ended=main.ended, awaited=main.awaited)
        self.count = 0
        self.sequence = 100
        self.forwards: list[int] = []  # autograd's numbers of what the backward pass goes through, the last first
        self.modules: Counter[str] = Counter()

    def steps(self) -> None:
        with self.main.inside("train.py(71): main", "python_function"):
            for step in range(10, 10 + self.form.steps):
                with (
                    self.main.inside(f"ProfilerStep#{step}"),
                    self.main.inside("train.py(48): train_step", "python_function"),
                ):
                    self.modules.clear()
                    self.step()
        self.main.synchronize("cudaDeviceSynchronize", "Context Sync", list(self.main.ended))

    def step(self) -> None:
        form, main = self.form, self.main
        with main.inside("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            main.work(150)
        main.launch(
            "aten::to aten::_to_copy aten::copy_", "Memcpy HtoD (Pinned -> Device)", 3, stream=COPIES,
            call="cudaMemcpyAsync", num_bytes=8 * form.tokens,
        )  # fmt: skip
        main.join(COMPUTE, COPIES)
        with main.inside("forward"), main.inside("nn.Module: Transformer_0", "python_function"):
            self.model()
        self.backward()
        self.clip()
        self.optimizer()

    # the forward pass -----------------------------------------------------------------------------------------------

    def model(self) -> None:
        form, main = self.form, self.main
        main.launch(
            "aten::embedding aten::index_select", "void at::native::vectorized_gather_kernel<16, long>(char*, char*)",
            self.moved(2), shapes=[(32_000, form.width), (form.tokens,)],
        )  # fmt: skip
        for layer in range(form.layers):
            with main.inside(f"nn.Module: Block_{layer}", "python_function"):
                self.forward()
        self.norm(has_backward=False)
        self.linear(4 * form.width)
        main.launch("aten::nll_loss_forward", "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float>()", 20)

    def moved(self, tensors: float, *, wide: bool = False) -> float:
        """µs to read and write so many hidden states; wide: of the feed-forward layer, four times as wide."""
        form = self.form
        return 2.0 * form.tokens * form.width * tensors * (4 if wide else 1) / _BYTES * 1e6

    def product(self, n: int, k: int) -> float:
        """µs of a product of all tokens, [tokens, k] by [k, n]."""
        return 2.0 * self.form.tokens * n * k / _FLOPS * 1e6

    @contextmanager
    def module(self, kind: str) -> Iterator[None]:
        """A module of this kind, numbered as torch does."""
        with self.main.inside(f"nn.Module: {kind}_{self.modules[kind]}", "python_function"):
            self.modules[kind] += 1
            yield

    def kept(self) -> int:
        """Autograd's number of the next operator that the backward pass goes through."""
        self.sequence += 1
        self.forwards.append(self.sequence)
        return self.sequence

    def linear(self, n: int, k: int = 0) -> None:
        k = k or self.form.width
        shapes = [(n,), (self.form.tokens, k), (k, n)]
        with self.module("Linear"):
            self.main.launch("aten::linear aten::addmm", _GEMM["fwd"], self.product(n, k), shapes=shapes, blocks=132,
                             sequence=self.kept())  # fmt: skip

    def norm(self, *, has_backward: bool = True) -> None:
        hidden = (self.form.tokens, self.form.width)
        sequence = self.kept() if has_backward else None
        with self.module("LayerNorm"):
            self.main.launch("aten::layer_norm aten::native_layer_norm", _NORM.format("vectorized_layer_norm_kernel"),
                             self.moved(2), shapes=[hidden], sequence=sequence)  # fmt: skip

    def residual(self) -> None:
        hidden = (self.form.tokens, self.form.width)
        self.main.launch("aten::add", _POINTWISE.format("CUDAFunctor_add<c10::BFloat16>"), self.moved(3),
                         shapes=[hidden] * 2)  # fmt: skip

    def attention(self) -> float:
        return self.product(self.form.width, self.form.width) * 1.2

    def forward(self) -> None:
        form = self.form
        self.norm()
        self.linear(3 * form.width)
        heads = (4, form.tokens // 4, form.width // 128, 128)
        self.main.launch("aten::scaled_dot_product_attention aten::_flash_attention_forward", _ATTENTION.format("fwd"),
                         self.attention(), shapes=[heads] * 3, sequence=self.kept())  # fmt: skip
        self.linear(form.width)
        self.residual()
        self.norm()
        self.linear(4 * form.width)
        with self.module("GELU"):
            for name, functor in _WRITTEN_OUT if form.is_unfused else (("gelu", "GeluCUDAKernelImpl"),):
                self.main.launch(f"aten::{name}", _POINTWISE.format(functor), self.moved(2, wide=True),
                                 shapes=[(form.tokens, 4 * form.width)], sequence=self.kept())  # fmt: skip
        self.linear(form.width, 4 * form.width)
        self.residual()

    # the backward pass ----------------------------------------------------------------------------------------------

    def backward(self) -> None:
        form, main = self.form, self.main
        self.autograd.pending = [main.work(15)]
        with self.autograd.inside("backward"):
            self.gradient("AddmmBackward0", [self.mm("dgrad", 4 * form.width), self.mm("wgrad", 4 * form.width)])
            marks = [form.layers * (bucket + 1) // _BUCKETS for bucket in range(_BUCKETS)]
            for layer in range(1, form.layers + 1):
                self.layer_backward()
                if layer in marks and not form.reduces_late:
                    self.reduce()
            if form.reduces_late:
                for _ in marks:
                    self.reduce()
        main.pending = [self.autograd.last]

    def mm(self, way: str, n: int, k: int = 0) -> tuple[str, str, float, list[Shape]]:
        k = k or self.form.width
        return "aten::mm", _GEMM[way], self.product(n, k), [(self.form.tokens, n), (n, k)]

    def gradient(self, node: str, kernels: Sequence[tuple[str, str, float, list[Shape]]]) -> None:
        name, sequence = f"autograd::engine::evaluate_function: {node}", self.forwards.pop()
        with self.autograd.inside(name, "cpu_op", sequence=sequence, forward_thread=MAIN):
            for operator, kernel, us, shapes in kernels:
                self.autograd.launch(f"{node} {operator}", kernel, us, shapes=shapes)

    def layer_backward(self) -> None:
        form, hidden = self.form, (self.form.tokens, self.form.width)
        wide = (form.tokens, 4 * form.width)
        norm = [("aten::native_layer_norm_backward", _NORM.format("layer_norm_grad_input_kernel_vectorized"),
                 self.moved(3), [hidden] * 2)]  # fmt: skip
        self.gradient("AddmmBackward0", [self.mm(way, form.width, 4 * form.width) for way in ("dgrad", "wgrad")])
        for name, functor in reversed(_WRITTEN_OUT) if form.is_unfused else (("gelu_backward", "GeluBackwardCUDA"),):
            row = (f"aten::{name}", _POINTWISE.format(functor), self.moved(3, wide=True), [wide] * 2)
            self.gradient(f"{name.removesuffix('_backward').capitalize()}Backward0", [row])
        self.gradient("AddmmBackward0", [self.mm(way, 4 * form.width) for way in ("dgrad", "wgrad")])
        self.gradient("NativeLayerNormBackward0", norm)
        self.gradient("AddmmBackward0", [self.mm(way, form.width) for way in ("dgrad", "wgrad")])
        attention = ("aten::_flash_attention_backward", _ATTENTION.format("bwd"), 2.5 * self.attention(), [hidden] * 3)
        self.gradient("ScaledDotProductFlashAttentionBackward0", [attention])
        self.gradient("AddmmBackward0", [self.mm(way, 3 * form.width) for way in ("dgrad", "wgrad")])
        self.gradient("NativeLayerNormBackward0", norm)

    def reduce(self) -> None:
        """All-reduce a bucket of gradients, on a stream of its own, once they are there."""
        form, thread = self.form, self.autograd
        elements = 12 * form.width**2 * form.layers // _BUCKETS
        us = 2 * elements * 2 * (form.world_size - 1) / form.world_size / _BUS * 1e6
        group = str(list(range(form.world_size)))
        thread.join(COMMUNICATION, COMPUTE)
        self.count += 1
        thread.launch(
            "c10d::allreduce_ record_param_comms", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage"
            "<4096ul>)", us, stream=COMMUNICATION, call="cudaLaunchKernelExC", host_us=25,
            meet=self.count if len(form.ranks) > 1 else None, collective="allreduce", in_elems=elements,
            out_elems=elements, dtype="BFloat16", group="0", group_size=form.world_size, group_ranks=group,
            comm_seq=self.count,
        )  # fmt: skip

    def clip(self) -> None:
        """The norm of the gradients, which is logged: where it is read, the host waits until the device has it."""
        main, num_bytes = self.main, 2 * 12 * self.form.width**2 * self.form.layers
        main.join(COMPUTE, COMMUNICATION)
        with main.inside("clip_grad_norm_"):
            main.launch("aten::_foreach_norm", _NORMS, num_bytes / _BYTES * 1e6)
        if self.form.reads_norm:
            with main.inside("aten::item", "cpu_op"):
                main.launch("aten::_local_scalar_dense", "Memcpy DtoH (Device -> Pageable)", 1.5,
                            call="cudaMemcpyAsync", num_bytes=4)  # fmt: skip
                main.synchronize("cudaStreamSynchronize", "Stream Sync", [COMPUTE])
        with main.inside("log_metrics"), main.inside("train.py(31): log_metrics", "python_function"):
            main.work(1_300)

    def optimizer(self) -> None:
        main, form = self.main, self.form
        with main.inside("Optimizer.step#AdamW.step"):
            for _ in range(4):
                # A parameter has 14 bytes of state: read and written.
                us = 2 * 14 * 3 * form.width**2 * form.layers / _BYTES * 1e6
                main.launch("aten::_fused_adamw_", _ADAM, us, host_us=40)
