"""A transformer: trained or asked, eager or compiled, alone or with DDP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from tests.causes.programs import ALL_REDUCE
from tests.causes.simulator import US, Host
from tests.findings.planted.devices import BF16, FP32, Kernel, two_tensors
from tests.findings.planted.layers import Call, Layers, Piece
from tests.findings.planted.names import CAST, DISPATCH, EMBEDDING, FUSED_ADAM, LOG_SOFTMAX, SCALE
from tests.findings.planted.process import COMMUNICATION, rounded

#: What a dispatch holds of the SMs.
TAKEN_SMS = 24


class Transformer(Layers):
    """A decoder of `layers` layers."""

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

    def forward(self) -> None:
        with self.wrapped():
            if self.planted("recompilation") and self.step == 2:
                self.compile_again() if self.is_compiled else self.tune()
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

    def layer_forward(self, number: int, pieces: list[Piece]) -> None:
        """A layer, operator by operator."""
        self.memory_event(round(8 * self.tensor))
        for place, piece in enumerate(pieces):
            with self.module(piece.module, f"model.py({30 + place}): forward"):
                if place == 3 and self.planted("allocator"):
                    self.allocate_anew()
                if place == 3 and self.planted("unrecorded-work"):
                    self.unrecorded(self.size("unrecorded-work") * US)
                if piece.module == "GELU" and "sm-wait" in self.form.plants:
                    self.after(7, COMMUNICATION)
                for call in piece.forward:
                    if piece.role == "fc1" and "sm-wait" in self.form.plants:
                        self.dispatched_beside(call)
                    else:
                        self.called(call)
            self.main.work(3 * US)
        self.read_value()
        if number == 1 and self.step == 3 and self.planted("gc-pause"):
            self.collect_garbage()
        if "tiny-kernels" in self.form.plants:
            self.tiny()

    def called(self, call: Call, *, host: Host | None = None) -> None:
        """Runs a call; of compiled code only its last operator is there."""
        operators = call.operators.rsplit(" ", 1)[-1] if self.is_compiled else call.operators
        self.op(operators, call.kernel, *call.shapes, kind=call.kind, host=host)

    def dispatched_beside(self, call: Call) -> None:
        """A GEMM that holds all SMs, and the dispatch of other tokens, which needs `TAKEN_SMS` of them at once.
        Launched second, it starts as the GEMM ends; launched first, both run, the GEMM on the SMs that are left.
        """
        took = self.size("sm-wait") * US
        dispatch = Kernel(name=DISPATCH, ns=took, blocks=TAKEN_SMS, threads=768, call="cudaLaunchKernelExC")
        self.after(COMMUNICATION, 7)
        if self.planted("sm-wait"):
            self.called(call)
            self.world.waits[COMMUNICATION] = self.world.ready(7)
            self.run(dispatch, stream=COMMUNICATION)
            return
        self.run(dispatch, stream=COMMUNICATION)
        slower = min(took, call.kernel.ns) * TAKEN_SMS / (self.device.num_sms - TAKEN_SMS)
        self.called(replace(call, kernel=replace(call.kernel, ns=call.kernel.ns + slower)))

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
                    self.inductor([piece.forward for piece in all_of[part * each : (part + 1) * each]], host)

    def inductor(self, chains: list[tuple[Call, ...]], host: Host) -> None:
        """What compiled code calls, one after the other; or a graph of it."""
        if self.form.style == "graph":
            before = len(self.world.device)
            kernels = [call.kernel for chain in chains for call in chain]
            with self.frames("torch/cuda/graphs.py(139): replay", host=host):
                named = [(kernel.name, kernel.ns) for kernel in kernels]
                host.launch_graph(named, call="cudaGraphLaunch", call_ns=90 * US, block_ns=0)
            for work, kernel in zip(self.world.device[before:], kernels, strict=True):
                work.args = kernel.args
            return
        for chain in chains:
            for call in chain:
                self.called(call, host=host)
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
        m, n, k = form.tokens, form.vocab, form.width
        copied = "aten::to aten::_to_copy aten::copy_"
        for node, operator, kernel, shapes in (
            ("LogSoftmaxBackward0", "aten::_log_softmax_backward_data", device.moving(name, 3 * scores), ((m, n),) * 2),
            ("ToCopyBackward0", copied, device.moving(CAST, 1.5 * scores), ((m, n),)),
            ("MmBackward0", "aten::mm", device.matmul(m, k, n), ((m, n), (n, k))),
            ("MmBackward0", "aten::mm", device.matmul(n, k, m), ((n, m), (m, k))),
        ):
            with self.node(node, host):
                self.op(operator, kernel, *shapes, host=host, kind=FP32 if "softmax" in operator else BF16)

    @contextmanager
    def node(self, name: str, host: Host) -> Iterator[None]:
        """A node of autograd's graph."""
        with self.operators(f"autograd::engine::evaluate_function: {name}", name, host=host):
            yield

    def backward(self) -> None:
        """The main thread sits in run_backward while another thread runs autograd's graph."""
        with self.frames("torch/_tensor.py(571): backward", "torch/autograd/graph.py(823): _engine_run_backward"):
            self.autograd.now = self.main.now + self.world.about(28 * US)
            self.backward_of(self.autograd)
            self.main.wait_until(self.autograd.now + self.world.about(18 * US))

    def backward_of(self, host: Host) -> None:
        """What a thread of autograd's runs."""
        self.head_backward(host)
        if self.is_compiled:
            with self.node("CompiledFunctionBackward", host):
                host.work(40 * US)
                backward = [piece.backward for piece in reversed(self.pieces)]
                self.inductor(backward * self.form.layers, host)
        else:
            for number in reversed(range(self.form.layers)):
                self.layer_backward(number, host)
        if self.form.ddp:
            self.after(7, COMMUNICATION, host)

    def layer_backward(self, number: int, host: Host) -> None:
        if self.planted("recomputation") and number < self.size("recomputation"):
            with self.node("CheckpointFunctionBackward", host):
                for piece in self.pieces:
                    for call in piece.forward:
                        self.called(call, host=host)
        for piece in reversed(self.pieces):
            if piece.backward:
                with self.node(piece.node, host):
                    for call in piece.backward:
                        self.called(call, host=host)
        self.memory_event(-round(8 * self.tensor), host)
        if self.form.ddp:
            self.all_reduced(number, host)

    def all_reduced(self, number: int, host: Host) -> None:
        """The gradients of a layer are summed over ranks, on another stream, while the backward pass goes on; the last
        bucket is a small one.
        """
        num_bytes = 4.0 * 12 * self.form.width**2 * (1.0 if number else 0.1)
        kernel = Kernel(
            name=self.collective_name(ALL_REDUCE),
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
