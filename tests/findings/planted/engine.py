"""A serving engine that decodes: each step is a graph; sampled tokens go to the host, which schedules what is next."""

from __future__ import annotations

from tests.causes.simulator import US
from tests.findings.planted.devices import Kernel, three_tensors
from tests.findings.planted.process import COPIES, Form, Process

PAGED = {
    "nvidia": "void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, (vllm::Fp8Type)0>",
    "amd": "_ZN12_GLOBAL__N_137paged_attention_ll4mi_QKV_mfma16_kernelI14__hip_bfloat16S0_Li16ELi128EEEvv",
}
RMS_NORM = (
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*)"
)
ROTARY = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*)"
CACHE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>"
SILU = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, int)"
ARGMAX = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, "
    "long, 4, 4> >(at::native::ReduceOp<float>)"
)
CONTEXT = 384
#: What an engine's Python takes for an operator outside of graphs.
PYTHON_US = 30


class Engine(Process):
    """`tokens` requests at a time; width, vocab: of the model. `loss_read`: the host waits for the tokens of a step
    before it launches the next one; otherwise it waits for those of the step before.
    """

    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self.copied_at: list[int] = []

    @property
    def waits_at_once(self) -> bool:
        return self.planted("decode-gap") or self.form.loss_read

    def requests(self) -> int:
        """How many decode together: in some steps more than there are graphs for."""
        outside = (self.step * 7 + 3) % self.form.num_steps < self.size("decode-outside-graphs")
        return self.form.tokens * (2 if outside else 1)

    def step_name(self) -> str:
        requests = self.requests()
        if self.form.seed % 2:
            kv = requests * CONTEXT
            return f"step[DECODE bs={requests} g_sq={requests} g_sqsq={requests} g_sqsk={kv} g_sk={kv}]"
        return f"execute_context_0(0)_generation_{requests}({requests})"

    def decode_kernels(self, requests: int) -> list[tuple[str, Kernel]]:
        """What a step launches, with the operators for it."""
        form, device, m = self.form, self.device, requests
        width, wide = form.width, 7 * form.width // 2
        hidden = 2.0 * m * width
        layer = [
            ("_C::fused_add_rms_norm", device.moving(RMS_NORM, 4 * hidden)),
            ("aten::mm", device.matmul(m, 3 * width // 2, width)),
            ("_C::rotary_embedding", device.moving(ROTARY, 3 * hidden)),
            ("_C_cache_ops::reshape_and_cache_flash", device.moving(CACHE, hidden)),
            ("_C::paged_attention_v2", device.moving(PAGED[device.vendor], m * CONTEXT * 4_096.0)),
            ("aten::mm", device.matmul(m, width, width)),
            ("_C::fused_add_rms_norm", device.moving(RMS_NORM, 4 * hidden)),
            ("aten::mm", device.matmul(m, 2 * wide, width)),
            ("_C::silu_and_mul", device.moving(SILU, 6.0 * m * wide)),
            ("aten::mm", device.matmul(m, width, wide)),
        ]
        return layer * form.layers + [("aten::mm", device.matmul(m, form.vocab, width))]

    def one_step(self) -> None:
        host, requests = self.main, self.requests()
        host.work(30 * US)
        for _ in range(2):
            with self.operator("aten::copy_"):
                self.small_copy("Memcpy HtoD (Pinned -> Device)")
        kernels = self.decode_kernels(requests)
        if requests > self.form.tokens and self.planted("decode-outside-graphs"):
            with self.frames("vllm/v1/worker/gpu_model_runner.py(2301): _model_forward"):
                for name, kernel in kernels:
                    self.op(f"vllm::unified {name}", kernel, (requests, self.form.width))
                    self.busy(PYTHON_US)
        else:
            self.launch_step(kernels)
        scores = 2.0 * requests * self.form.vocab
        self.op("aten::div", self.device.moving(three_tensors("DivFunctor<float>"), 2 * scores))
        self.op("aten::argmax", self.device.moving(ARGMAX, scores))
        self.tokens_to_host()

    def launch_step(self, kernels: list[tuple[str, Kernel]]) -> None:
        """A graph: one call. Some of what ran in it may not be recorded."""
        before = len(self.world.device)
        with self.frames("torch/cuda/graphs.py(139): replay"):
            self.main.launch_graph(
                [(kernel.name, kernel.ns) for _, kernel in kernels],
                call="cudaGraphLaunch",
                call_ns=60 * US,
                block_ns=round(self.cost("graph-launch") * US),
            )
        ran = self.world.device[before:]
        for work, (_, kernel) in zip(ran, kernels, strict=True):
            work.args = kernel.args
        if self.planted("unrecorded-work"):
            lost = round(self.size("unrecorded-work") * len(ran))
            for work in ran[len(ran) // 3 : len(ran) // 3 + lost]:
                work.lost = True

    def tokens_to_host(self) -> None:
        """The sampled tokens are copied; then what they tell is worked on: the host detokenises and schedules."""
        host, world = self.main, self.world
        self.after(COPIES, 7)
        with self.operator("aten::to"), self.operator("aten::copy_"):
            work = host.launch(
                self.copy_name("Memcpy DtoH (Device -> Pinned)"), 1_900, call="cudaMemcpyAsync", kind="gpu_memcpy",
                num_bytes=8 * self.requests(), stream=COPIES,
            )  # fmt: skip
        self.event("cudaEventRecord")
        self.copied_at.append(work.end)
        due = self.copied_at[-1] if self.waits_at_once else ([0, *self.copied_at])[-2]
        with host.call("cudaEventSynchronize"):
            host.work(1 * US)
            if due > host.now:
                host.wait_until(due + world.about(world.machine.wake_ns))
        with self.frames("vllm/v1/core/sched/scheduler.py(188): schedule", "vllm/v1/engine/detokenizer.py(91): update"):
            self.busy(80 + self.size("decode-gap"))
