"""Three accelerators: how fast kernels run on them, and what the kernels are called there.

A GEMM takes its FLOPs over the rate of its kernel, or its bytes over the memory's; everything else moves bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.causes.programs import elementwise
from tests.causes.simulator import AMD, NVIDIA, Machine

BF16, FP32, INT64 = "c10::BFloat16", "float", "long int"
WIDTH = {BF16: 2, FP32: 4, INT64: 8}
#: What a kernel takes at least, in ns.
LEAST_NS = 1_600


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """What is launched: its name, how long it runs, its grid and block, and by which call it is launched."""

    name: str
    ns: float
    blocks: int
    threads: int = 256
    call: str = "cudaLaunchKernel"

    @property
    def args(self) -> dict[str, object]:
        return {"grid": [self.blocks, 1, 1], "block": [self.threads, 1, 1]}


@dataclass(frozen=True, kw_only=True)
class Device:
    """An accelerator: peaks in FLOP/s by kind of arithmetic, bytes per second, the shares of them that kernels reach.

    native, old: shares of the peak that GEMM kernels made for it, and for its predecessor, reach.
    """

    name: str
    machine: Machine
    major: int
    minor: int
    num_sms: int
    memory: int
    bf16: float
    tf32: float
    fp32: float
    bytes_per_s: float
    native: float
    old: float
    gemm: str
    old_gemm: str = ""
    tf32_gemm: str = ""
    fp32_gemm: str = ""

    @property
    def vendor(self) -> str:
        return self.machine.vendor

    @property
    def properties(self) -> dict[str, object]:
        """What the file says of the device."""
        return {
            "name": self.name,
            "totalGlobalMem": self.memory,
            "computeMajor": self.major,
            "computeMinor": self.minor,
            "warpSize": 64 if self.vendor == "amd" else 32,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048,
            "numSms": self.num_sms,
        }

    def matmul(self, m: int, n: int, k: int, *, kind: str = "bf16", batch: int = 1) -> Kernel:
        """A GEMM of `batch` times [m, k] with [k, n]; kind: bf16, old (by a kernel of its predecessor), tf32, fp32."""
        rate = {
            "bf16": self.bf16 * self.native,
            "old": self.bf16 * self.old,
            "tf32": self.tf32 * self.native,
            "fp32": self.fp32 * 0.8,
        }[kind]
        name = {"bf16": self.gemm, "old": self.old_gemm, "tf32": self.tf32_gemm, "fp32": self.fp32_gemm}[kind]
        assert name, (self.name, kind)
        width = 4 if kind.endswith("32") else 2
        moved = width * batch * (m * k + k * n + m * n)
        tiles = batch * math.ceil(m / 128) * math.ceil(n / 128)
        persistent = kind == "bf16" and self.major >= 9 and self.vendor == "nvidia"
        return Kernel(
            name=name,
            ns=LEAST_NS + 1e9 * max(2.0 * batch * m * n * k / rate, moved / self.bandwidth),
            blocks=min(tiles, self.num_sms) if persistent else tiles,
            threads=384 if persistent else 256,
            call="cudaLaunchKernelExC" if persistent or self.vendor == "amd" else "cudaLaunchKernel",
        )

    @property
    def bandwidth(self) -> float:
        """What kernels reach of the memory's bytes per second."""
        return 0.8 * self.bytes_per_s

    def moving(self, name: str, num_bytes: float, *, call: str = "cudaLaunchKernel") -> Kernel:
        """A kernel that does nothing but read and write."""
        blocks = max(1, round(num_bytes / 16_384))
        return Kernel(name=name, ns=LEAST_NS + 1e9 * num_bytes / self.bandwidth, blocks=blocks, threads=128, call=call)

    def flash(self, flops: float, *, backward: bool = False) -> Kernel:
        """Attention in one kernel."""
        name = "bwd" if backward else "fwd"
        if self.vendor == "amd":
            return Kernel(
                name="bwd_kernel_dk_dv" if backward else "attn_fwd",
                ns=LEAST_NS + 1e9 * flops / (self.bf16 * self.native * 0.5),
                blocks=1024,
                call="cuLaunchKernel",
            )
        traits = "<64, 128, 128, 4, false, false, cutlass::bfloat16_t>"
        return Kernel(
            name=f"void pytorch_flash::flash_{name}_kernel<pytorch_flash::Flash_{name}_kernel_traits{traits} >"
            f"(pytorch_flash::Flash_{name}_params)",
            ns=LEAST_NS + 1e9 * flops / (self.bf16 * self.native * 0.6),
            blocks=1024,
        )


H100 = Device(
    name="NVIDIA H100 80GB HBM3",
    machine=NVIDIA,
    major=9,
    minor=0,
    num_sms=132,
    memory=85_018_279_936,
    bf16=989.4e12,
    tf32=494.7e12,
    fp32=66.9e12,
    bytes_per_s=3.35e12,
    native=0.62,
    old=0.27,
    gemm="sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    old_gemm="ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    tf32_gemm="sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    fp32_gemm="ampere_sgemm_128x128_tn",
)
A100 = Device(
    name="NVIDIA A100-SXM4-80GB",
    machine=NVIDIA,
    major=8,
    minor=0,
    num_sms=108,
    memory=85_099_413_504,
    bf16=312e12,
    tf32=156e12,
    fp32=19.5e12,
    bytes_per_s=2.039e12,
    native=0.7,
    old=0.3,
    gemm="ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
    old_gemm="volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",
    tf32_gemm="ampere_tf32_s1688gemm_fp32_128x128_ldg4_f2f_stages_32x3_tn",
    fp32_gemm="ampere_sgemm_128x128_tn",
)
MI300X = Device(
    name="AMD Instinct MI300X",
    machine=AMD,
    major=9,
    minor=4,
    num_sms=304,
    memory=205_571_227_648,
    bf16=1307.4e12,
    tf32=653.7e12,
    fp32=163.4e12,
    bytes_per_s=5.3e12,
    native=0.45,
    old=0.2,
    gemm="Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB0_AFC1_AFEM1",
)
DEVICES = (H100, A100, MI300X)


def two_tensors(functor: str) -> str:
    """The name of an element-wise kernel with a result and an input."""
    return elementwise(functor)


def three_tensors(functor: str) -> str:
    """The name of an element-wise kernel with a result and two inputs."""
    return elementwise(functor).replace("2ul", "3ul")
