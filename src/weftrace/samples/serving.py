"""An engine that serves a language model: prompts are read, then tokens are made step by step, most by CUDA graphs."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.samples.recorder import COMPUTE, COPIES, Recorder, Thread

_NORM = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*)"
_ROTARY = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*)"
_CACHE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>"
_SILU = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, int)"
_FLASH = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t>>"
_GEMM = "nvjet_tst_64x128_64x8_2x1_v_bz_splitK_TNT"
_ARGMAX = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float> > >()"
_FLOPS, _BYTES = 6.0e14, 2.6e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What is served. prompts: tokens of each. requests: that decode together.

    schedules_slowly: the host takes 1.2 ms between steps, instead of 0.1 ms. outgrows_graphs: a third of the decode
    steps has more requests than graphs were captured for.
    """

    ranks: tuple[int, ...] = (0,)
    prompts: tuple[int, ...] = (4_096, 2_048)
    layers: int = 16
    width: int = 4_096
    requests: int = 64
    decodes: int = 24
    schedules_slowly: bool = False
    outgrows_graphs: bool = False
    seed: int = 0

    def record(self) -> Recorder:
        """Run it."""
        recorder = Recorder("serving of a language model", seed=self.seed, world_size=1)
        main = Thread(recorder)
        for prompt in self.prompts:
            with main.inside(f"execute_context_1({prompt})_generation_0(0)"):
                self.eager(main, prompt)
                self.sample(main)
            self.schedule(main)
        for number in range(self.decodes):
            outgrown = self.outgrows_graphs and number % 3 == 1
            requests = self.requests * 2 if outgrown else self.requests
            with main.inside(f"execute_context_0(0)_generation_{requests}({requests})"):
                if outgrown:
                    self.eager(main, requests)
                else:
                    main.graph([(kernel, us) for _, kernel, us in self.kernels(requests)], host_us=60)
                self.sample(main)
            self.schedule(main)
        main.synchronize("cudaDeviceSynchronize", "Context Sync", list(main.ended))
        return recorder

    def kernels(self, tokens: int) -> list[tuple[str, str, float]]:
        """Operator, kernel and µs of what a step launches."""
        width, wide = self.width, 3 * self.width
        hidden = 2.0 * tokens * width

        def product(n: int, k: int) -> tuple[str, str, float]:
            return "aten::mm", _GEMM, 1e6 * max(2.0 * tokens * n * k / _FLOPS, 2.0 * n * k / _BYTES)

        def moving(operator: str, kernel: str, num_bytes: float) -> tuple[str, str, float]:
            return operator, kernel, 1.5 + 1e6 * num_bytes / _BYTES

        layer = [
            moving("_C::fused_add_rms_norm", _NORM, 4 * hidden),
            product(3 * width // 2, width),
            moving("_C::rotary_embedding", _ROTARY, 3 * hidden),
            moving("_C_cache_ops::reshape_and_cache_flash", _CACHE, hidden),
            moving("_vllm_fa3_C::fwd", _FLASH, 2.0e6 * self.requests / 4),
            product(width, width),
            moving("_C::fused_add_rms_norm", _NORM, 4 * hidden),
            product(2 * wide, width),
            moving("_C::silu_and_mul", _SILU, 3.0 * 2 * tokens * wide),
            product(width, wide),
        ]
        return [*layer * self.layers, product(32_000, width)]

    def eager(self, main: Thread, tokens: int) -> None:
        """Kernel by kernel, as Python gets to it."""
        for operator, kernel, us in self.kernels(tokens):
            main.launch(operator, kernel, us, host_us=35, shapes=[(tokens, self.width)])

    def sample(self, main: Thread) -> None:
        """The next tokens, and their copy to the host."""
        main.launch("aten::argmax", _ARGMAX, 12, host_us=12)
        main.join(COPIES, COMPUTE)
        main.launch("aten::to aten::copy_", "Memcpy DtoH (Device -> Pinned)", 2, stream=COPIES, host_us=10,
                    call="cudaMemcpyAsync", num_bytes=8 * self.requests)  # fmt: skip

    def schedule(self, main: Thread) -> None:
        """Which requests are next, once the tokens have come."""
        main.synchronize("cudaStreamSynchronize", "Stream Sync", [COPIES])
        with main.inside("schedule"):
            main.work(1_200 if self.schedules_slowly else 100)
