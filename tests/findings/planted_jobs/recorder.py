"""Writes jobs that ran as torch.profiler does: a Kineto file for each rank. Nothing of weftrace is imported."""

from __future__ import annotations

import json
from pathlib import Path

from tests.findings.planted_jobs.engine import COMMUNICATION, COPY, HOST, Op, Times
from tests.findings.planted_jobs.programs import Program

PID, AUTOGRAD = 52_100, 52_417
BASE_US = 4_203_669_000_000.0

_GEMM = ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_{0}_n_tilesize128x256x64_warpgroupsize2x1x1_execute_segment_k_off_"
         "kernel__5x_cublas")  # fmt: skip
_CIJK = ("Cijk_{0}_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1_"
         "GRVWA8_GRVWB8_ISA942")  # fmt: skip
_POINTWISE = ("void at::native::vectorized_elementwise_kernel<4, at::native::{0}(at::TensorIteratorBase&)"
              "::{{lambda()#2}}>(int, at::native::{0}(at::TensorIteratorBase&)::{{lambda()#2}})")  # fmt: skip
_GROUPED = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<"
    "cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>>>"
)
_DEEP_EP = "void deep_ep::intranode::{0}<8>({1})"

#: family -> kernel, kernel on AMD where it is another, operator, its function of autograd.
KERNELS = {
    "gemm": (_GEMM.format("tn"), _CIJK.format("Alik_Bljk"), "aten::mm", ""),
    "gemm_dgrad": (_GEMM.format("nn"), _CIJK.format("Ailk_Bljk"), "aten::mm", "MmBackward0"),
    "gemm_wgrad": (_GEMM.format("nt"), _CIJK.format("Ailk_Bjlk"), "aten::mm", "MmBackward0"),
    "grouped": (_GROUPED, "void ck::kernel_grouped_gemm_xdl_cshuffle<256, 128, 64>(void const*)", "aten::_grouped_mm",
                "GroupedMmBackward0"),
    "attention": ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>"
                  "(flash::Flash_fwd_params)", "attn_fwd", "aten::_flash_attention_forward", ""),
    "attention_backward": ("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, "
                           "128, 8, cutlass::bfloat16_t>>(flash::Flash_bwd_params)", "bwd_kernel_fuse",
                           "aten::_flash_attention_backward", "ScaledDotProductFlashAttentionBackward0"),
    "norm": ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
             "", "aten::native_layer_norm", ""),
    "norm_backward": ("void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, "
                      "float>(c10::BFloat16 const*)", "", "aten::native_layer_norm_backward",
                      "NativeLayerNormBackward0"),
    "activation": (_POINTWISE.format("GeluCUDAKernelImpl"), "", "aten::gelu", ""),
    "activation_backward": (_POINTWISE.format("GeluBackwardCUDAKernelImpl"), "", "aten::gelu_backward",
                            "GeluBackward0"),
    "loss": ("void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<c10::BFloat16, float, "
             "long>(c10::BFloat16*)", "", "aten::nll_loss_forward", ""),
    "optimizer": ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
                  "::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float"
                  ", 4>>(int)", "", "aten::_fused_adamw_", ""),
    "notify_dispatch": (_DEEP_EP.format("notify_dispatch", "int const*, int*"), "", "deep_ep::intranode_dispatch", ""),
    "notify_combine": (_DEEP_EP.format("cached_notify_combine", "void**, int*"), "", "deep_ep::intranode_combine", ""),
    "dispatch": (_DEEP_EP.format("dispatch", "int4*, float*"), "", "deep_ep::intranode_dispatch", ""),
    "combine": (_DEEP_EP.format("combine", "__nv_bfloat16*, float*"), "", "deep_ep::intranode_combine", ""),
    "batch": ("", "", "aten::copy_", ""),
    "item": ("", "", "aten::_local_scalar_dense", ""),
}  # fmt: skip

#: what -> NCCL's kernel, its name in the metadata, the operator of c10d.
COLLECTIVES = {
    "all_reduce": ("AllReduce_Sum_bf16_RING_LL", "allreduce", "c10d::allreduce_"),
    "all_gather": ("AllGather_RING_LL", "_allgather_base", "c10d::_allgather_base_"),
    "reduce_scatter": ("ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base", "c10d::_reduce_scatter_base_"),
    "all_to_all": ("SendRecv", "all_to_allv", "c10d::alltoall_base_"),
    "send": ("SendRecv", "send", "c10d::send"),
    "recv": ("SendRecv", "recv", "c10d::recv_"),
}
_LANES = ("compute", "comm", "gathers", "scatters", "forward send", "forward recv", "backward send", "backward recv")
_HIP = {"cudaLaunchKernel": "hipLaunchKernel", "cudaLaunchKernelExC": "hipExtLaunchKernel",
        "cudaMemcpyAsync": "hipMemcpyWithStream", "cudaStreamSynchronize": "hipStreamSynchronize",
        "cudaDeviceSynchronize": "hipDeviceSynchronize", "cudaEventRecord": "hipEventRecord",
        "cudaStreamWaitEvent": "hipStreamWaitEvent"}  # fmt: skip


def save(program: Program, times: Times, folder: Path) -> Path:
    """A file for each rank that is recorded, in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in program.setup.shown:
        (folder / f"rank{rank}.json").write_text(_File(program, times, rank).text())
    return folder


class _File:
    """The events of a rank."""

    def __init__(self, program: Program, times: Times, rank: int) -> None:
        self.program, self.setup, self.times, self.rank = program, program.setup, times, rank
        self.is_amd = self.setup.vendor == "amd"
        self.ahead = self.setup.clock_ns * (self.setup.noise(f"{rank} clock", 1.0) - 1)
        self.lines: list[str] = []
        self.correlation, self.number = 1_000, 0
        self.seq: dict[str, int] = {}

    def event(self, category: str, name: str, pid: object, tid: object, begin: float, end: float,
              args: dict[str, object]) -> None:  # fmt: skip
        at = BASE_US + (begin + self.ahead) / 1000
        self.lines.append(f'{{"ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {json.dumps(pid)}, '
                          f'"tid": {json.dumps(tid)}, "ts": {at:.3f}, "dur": {(end - begin) / 1000:.3f}, '
                          f'"args": {json.dumps(args)}}}')  # fmt: skip

    def host(self, category: str, name: str, thread: int, begin: float, end: float, **args: object) -> None:
        self.number += 1
        tid = PID if thread == 1 else AUTOGRAD
        self.event(category, name, PID, tid, begin, end, {"External id": self.number, **args})

    def call(self, name: str, thread: int, begin: float, end: float) -> int:
        self.correlation += 1
        tid = PID if thread == 1 else AUTOGRAD
        self.event("cuda_runtime", _HIP[name] if self.is_amd else name, PID, tid, begin, end,
                   {"External id": self.number, "correlation": self.correlation})  # fmt: skip
        return self.correlation

    def text(self) -> str:
        ops, begin, end = self.program.ops, self.times.begin, self.times.end
        launched = {op.launch: at for at, op in enumerate(ops) if op.rank == self.rank and op.launch >= 0}
        for found in self.program.ranges:
            if found.rank == self.rank:
                category = "cpu_op" if found.name.startswith("aten::") else "user_annotation"
                self.host(category, found.name, found.thread, begin[found.first] - 400, end[found.last] + 200)
        free = 0.0  # since when the host has had nothing to do: a call that waits has been there since
        for at, op in enumerate(ops):
            if op.rank == self.rank and op.kind == HOST:
                self.host_work(op, free if "sync" in op.category else begin[at], end[at], launched.get(at, -1))
                free = end[at]
        mine = [at for at, op in enumerate(ops) if op.rank == self.rank]
        first, last = min(begin[at] for at in mine), max(end[at] for at in mine)
        self.event("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", first - 30_000, last + 30_000, {})
        for tid, name in ((PID, "python3"), (AUTOGRAD, "pt_autograd_0")):
            self.lines.append(f'{{"ph": "M", "name": "thread_name", "pid": {PID}, "tid": {tid}, "ts": 0.0, '
                              f'"args": {{"name": "thread {tid} ({name})"}}}}')  # fmt: skip
        return json.dumps(self.head())[:-1] + ', "traceEvents": [\n' + ",\n".join(self.lines) + "\n]}"

    def head(self) -> dict[str, object]:
        size = max(self.setup.world, len(self.setup.ranks))
        device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_018_279_936, "computeMajor": 9,
                  "computeMinor": 0, "warpSize": 32, "numSms": 132}  # fmt: skip
        if self.is_amd:
            device |= {"name": "AMD Instinct MI300X", "totalGlobalMem": 205_571_227_648, "computeMinor": 4,
                       "warpSize": 64, "numSms": 304}  # fmt: skip
        return {"schemaVersion": 1, "deviceProperties": [device], "with_stack": 0, "record_shapes": 0,
                "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": size, "pg_count": 1,
                                    "nccl_version": "2.21.5"}, "displayTimeUnit": "ms"}  # fmt: skip

    def host_work(self, op: Op, begin: float, end: float, at: int) -> None:
        if op.category == "sync":
            self.call("cudaStreamSynchronize", op.thread, begin, end)
        elif op.category == "device sync":
            self.call("cudaDeviceSynchronize", op.thread, begin, end)
        elif op.category == "gc":
            self.host("python_function", "Python GC", op.thread, begin, end)
        elif op.category == "launch":
            self.launch(op, begin, end, self.program.ops[at], at)

    def launch(self, host: Op, begin: float, end: float, op: Op, at: int) -> None:
        """Python, then an operator, in which the call is."""
        opened, called = begin + 0.3 * (end - begin), end - min(5_000.0, 0.4 * (end - begin))
        if op.kind == COMMUNICATION and op.family in COLLECTIVES:
            kernel, name, operator = COLLECTIVES[op.family]
            kernel = f"ncclDevKernel_{'Generic_1' if self.is_amd else kernel}(ncclDevKernelArgsStorage<4096ul>)"
            args = self.metadata(op, name)
            self.host("cpu_op", operator, host.thread, opened, end)
            self.host("cpu_op", "record_param_comms", host.thread, opened + 500, end - 200, **args)
            call = "cudaLaunchKernelExC"
            self.call("cudaEventRecord", host.thread, called - 2_000, called - 1_200)
            self.call("cudaStreamWaitEvent", host.thread, called - 1_000, called - 300)
        else:
            nvidia, amd, operator, backward = KERNELS[op.family]
            kernel, args = (amd or nvidia) if self.is_amd else nvidia, {}
            if op.after and op.kind != COPY:
                self.call("cudaStreamWaitEvent", host.thread, begin + 200, begin + 900)
            if backward and host.thread == 2:
                self.host("cpu_op", f"autograd::engine::evaluate_function: {backward}", host.thread, opened, end)
                opened += 800
            self.host("cpu_op", operator, host.thread, opened, end - 300)
            call = "cudaMemcpyAsync" if op.kind == COPY else "cudaLaunchKernel"
        correlation = self.call(call, host.thread, called, end - 400)
        stream = (0 if self.is_amd else 7) + 4 * _LANES.index(op.lane)
        shown: dict[str, object] = {"External id": self.number, "device": 0, "stream": stream,
                                    "correlation": correlation}  # fmt: skip
        if op.kind == COPY:
            shown["bytes"] = op.num_bytes
        else:
            shown |= {"grid": [op.blocks, 1, 1], "block": [512 if op.kind == COMMUNICATION else 256, 1, 1]}
        category = "gpu_memcpy" if op.kind == COPY else "kernel"
        self.event(category, op.name if op.kind == COPY else kernel, 0, stream, self.times.begin[at],
                   self.times.end[at], shown | args)  # fmt: skip

    def metadata(self, op: Op, name: str) -> dict[str, object]:
        """What NCCL's record says: elements of both sides, the group, and which of its collectives it is."""
        elements, size = op.num_bytes // 2, len(op.group)
        given = elements // size if op.family == "all_gather" else elements
        got = elements // size if op.family == "reduce_scatter" else elements
        group = f"{sorted(op.group)}"
        peer = {"send": "Dst Rank", "recv": "Src Rank"}.get(op.family)
        counted = f"{op.meet[0]} {op.meet[-1]}" if peer and op.meet else group
        self.seq[counted] = self.seq.get(counted, 0) + 1
        world = max(self.setup.world, len(self.setup.ranks))
        return {"Collective name": name, "In msg nelems": given, "Out msg nelems": got, "Group size": size,
                "dtype": "BFloat16", "Process Group Name": "0" if size == world else f"{1 + min(op.group)}",
                "Process Group Description": "default_pg" if size == world else "tensor_parallel",
                "Process Group Ranks": group, **({peer: op.peer} if peer else {}),
                "Seq": self.seq[counted]}  # fmt: skip
