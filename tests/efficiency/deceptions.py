"""Traces made to deceive whoever rates operators: each has a known answer, and a plausible way to be wrong and sure.

A function builds a trace and says what is true of it; `DECEPTIONS` has them all by name. Times are µs here and ns in
the answers; M, N and K of most products are small enough to multiply on paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile

BF16, FP32, FP8 = "c10::BFloat16", "float", "c10::Float8_e4m3fn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
TF32 = "ampere_sgemm_tf32_128x128_tn"
#: Of stride, padding, dilation, transposed, output padding, groups.
CONV_TYPES = ["ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]
H100, A100 = ("NVIDIA H100 80GB HBM3", 132, (9, 0)), ("NVIDIA A100-SXM4-80GB", 108, (8, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of a made trace.

    file: the trace. says: the answer in words. device_ns: of all device events, overlaps of one call once.
    flops: on matrix units, of all calls together: None where nobody can know them, so that none may be claimed.
    most_flops: where values that are not recorded decide: what they are at most, and the answer says *at most*.
    flops_ns: device time of the calls that have FLOPs, memsets apart. calls: of those operators.
    bytes_of: operator -> bytes read and written once by all its calls. no_shapes_ns, no_operator_ns: those parts.
    rows: of the table of shapes, at least. dtype: which peak is the right one. step, device: to select.
    no_peak: operators that the memory's peak says nothing of. whole_chip: else its peaks are not those of its name.
    warns: a rate above the peak, which must not stand there without its sentence.
    """

    file: TraceFile
    says: str
    device_ns: int
    flops: int | None = 0
    most_flops: int | None = None
    flops_ns: int = 0
    calls: int | None = None
    bytes_of: dict[str, int] | None = None
    no_shapes_ns: int | None = None
    no_operator_ns: int | None = None
    rows: int = 0
    dtype: str = ""
    no_peak: tuple[str, ...] = ()
    whole_chip: bool = True
    step: int | None = None
    device: int | None = None
    warns: bool = False


DECEPTIONS: dict[str, Callable[[], Truth]] = {}


def deception(build: Callable[[], Truth]) -> Callable[[], Truth]:
    DECEPTIONS[build.__name__] = build
    return build


def on(*chips: tuple[str, int, tuple[int, int]]) -> TraceFile:
    """A file recorded on such chips, numbered in order."""
    file = TraceFile()
    file.facts["deviceProperties"] = [
        {"id": number, "name": name, "numSms": sms, "totalGlobalMem": 1 << 36, "computeMajor": major,
         "computeMinor": minor, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32, "regsPerMultiprocessor": 65536,
         "sharedMemPerMultiprocessor": 233472, "maxThreadsPerBlock": 1024}
        for number, (name, sms, (major, minor)) in enumerate(chips)
    ]  # fmt: skip
    return file


def op(file: TraceFile, name: str, at: float, dims: Any, types: Any = BF16, *, dur: float = 10, values: Any = None,
       strides: Any = None, tid: int = 1, **args: Any) -> TraceFile:  # fmt: skip
    """Adds an operator with its inputs. types: one of all tensors, or a list. values: None records none."""
    if isinstance(types, str):
        types = [types if dim else "Scalar" for dim in dims]
    args |= {"Input Dims": dims, "Input type": types}
    args["Input Strides"] = [contiguous(dim) for dim in dims] if strides is None else strides
    if values is not None:
        args["Concrete Inputs"] = values
    return file.host(name, at, dur, cat="cpu_op", tid=tid, **args)


def mm(file: TraceFile, at: float, m: int, k: int, n: int, *, dur: float, types: str = BF16, kernel: str = GEMM,
       tid: int = 1, name: str = "aten::mm", **where: Any) -> TraceFile:  # fmt: skip
    """[m, k] x [k, n] at `at`, for 10; its kernel starts 20 after and takes `dur`."""
    op(file, name, at, [[m, k], [k, n]], types, values=["", ""], tid=tid)
    return file.kernel(kernel, at + 20, dur, launch=at + 2, launch_tid=tid, **where)


def as_args(named: dict[str, Any]) -> dict[str, Any]:
    """Kineto's names of arguments have spaces."""
    return named


def contiguous(dims: Any) -> Any:
    if dims and isinstance(dims[0], list):
        return [contiguous(dim) for dim in dims]
    strides: list[int] = []
    step = 1
    for dim in reversed(dims):
        strides.insert(0, step)
        step *= dim
    return strides


# --- Which operator a kernel belongs to -------------------------------------------------------------------------


@deception
def nested_operators() -> Truth:
    """linear > addmm, both with shapes; and AddmmBackward0 > mm, where the outer one has a gradient's shape."""
    file = on(H100)
    op(file, "aten::linear", 0, [[64, 128], [32, 128], [32]], dur=30)
    op(file, "aten::addmm", 5, [[32], [64, 128], [128, 32], [], []], values=["", "", "", "1", "1"], dur=20)
    file.kernel(GEMM, 40, 10, launch=10)
    op(file, "AddmmBackward0", 100, [[64, 32]], dur=30)
    mm(file, 105, 32, 64, 128, dur=7)
    flops = 2 * 64 * 128 * 32 * 2
    return Truth(file=file, flops=flops, flops_ns=17_000, calls=2, device_ns=17_000, no_shapes_ns=0, no_operator_ns=0,
                 says="Each product counts once, whichever of the nested operators it is shown under.")  # fmt: skip


@deception
def inside_an_annotation() -> Truth:
    file = on(H100).host("layer.0", 0, 100).host("nn.Module: Linear_0", 0, 90, cat="python_function")
    mm(file, 10, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000, no_operator_ns=0,
                 says="A range around an operator changes nothing.")  # fmt: skip


@deception
def another_thread_at_the_same_time() -> Truth:
    """The backward's thread launches while an operator of the main thread is open, and has the same name."""
    file = on(H100)
    op(file, "aten::mm", 0, [[1024, 1024], [1024, 1024]], dur=1_000)
    mm(file, 100, 8, 16, 4, dur=10, tid=2)
    return Truth(file=file, flops=2 * 8 * 16 * 4, flops_ns=10_000, calls=1, device_ns=10_000, rows=1,
                 says="The launch's own thread decides: 1,024 FLOPs, not 2.1 GFLOP.")  # fmt: skip


@deception
def five_kernels_on_two_streams() -> Truth:
    """Stream 7: 20-30, 30-40, 60-70; stream 8: 25-45, 65-75. The union is 25 + 15 = 40 µs, the sum 60."""
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 32]])
    for start, dur, stream in ((20, 10, 7), (30, 10, 7), (60, 10, 7), (25, 20, 8), (65, 10, 8)):
        file.kernel(GEMM, start, dur, launch=2, stream=stream)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=40_000, calls=1, device_ns=40_000,
                 says="One call, counted once, and 40 µs: overlaps once, the gap between not at all.")  # fmt: skip


@deception
def memset_inside() -> Truth:
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 32]])
    file.kernel("Memset (Device)", 20, 5, launch=2, cat="gpu_memset", call="cudaMemsetAsync")
    file.kernel(GEMM, 25, 10, launch=4)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=15_000,
                 says="The memset is told apart: the product took 10 µs.")  # fmt: skip


@deception
def kernels_of_before_the_recording() -> Truth:
    """Their launch calls were not recorded; one has the External id of an operator that is."""
    file = on(H100)
    mm(file, 100, 64, 128, 32, dur=10)
    file.kernel(GEMM, 0, 50, linked=False, correlation=9_001).kernel(GEMM, 50, 30, linked=False, correlation=9_002)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=90_000, no_operator_ns=80_000,
                 says="80 of 90 µs have no operator, and are part of the total.")  # fmt: skip


@deception
def one_correlation_for_all() -> Truth:
    """ROCm 6.1 wrote correlation 0 on kernels of communication; one launch call has it too, inside an operator."""
    file = on(("AMD Instinct MI300X", 304, (9, 4)))
    op(file, "aten::mm", 0, [[64, 128], [128, 32]])
    file.host("hipLaunchKernel", 2, 1, cat="cuda_runtime", correlation=0)
    for start in (20, 40, 60):
        file.kernel("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", start, 10, linked=False, correlation=0)
    return Truth(file=file, flops=0, flops_ns=0, calls=0, device_ns=30_000,
                 says="Three kernels of communication are no product, whatever number they share.")  # fmt: skip


@deception
def replayed_graph() -> Truth:
    """A replay of ten kernels is launched within a range of compiled code, whose inputs are recorded."""
    file = on(H100)
    op(file, "Torch-Compiled Region: 0/0", 0, [[1024, 1024], [1024, 1024]], dur=50)
    file.host("cudaGraphLaunch", 5, 5, cat="cuda_runtime", correlation=777)
    for number in range(10):
        file.kernel(GEMM, 20 + 10 * number, 10, linked=False, correlation=777,
                    **as_args({"graph id": 3, "graph node id": number}))  # fmt: skip
    mm(file, 200, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=110_000,
                 says="100 µs of a replay have no operator that says what they compute: no FLOPs.")  # fmt: skip


@deception
def two_devices_at_the_same_time() -> Truth:
    """One process drives two devices; both run the same shape during the same 10 µs."""
    file = on(H100, H100)
    mm(file, 0, 64, 128, 32, dur=10)
    op(file, "aten::mm", 11, [[64, 128], [128, 32]], dur=5).kernel(GEMM, 20, 10, launch=12, device=1)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000, device=1,
                 says="Each device has its own call and its own 10 µs.")  # fmt: skip


@deception
def duplicated_external_ids() -> Truth:
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 32]], **as_args({"External id": 5}))
    op(file, "aten::mm", 100, [[512, 512], [512, 512]], **as_args({"External id": 5}))
    file.kernel(GEMM, 20, 10, launch=2, **as_args({"External id": 5}))
    file.kernel(GEMM, 120, 40, launch=102, **as_args({"External id": 5}))
    return Truth(file=file, flops=2 * 64 * 128 * 32 + 2 * 512**3, flops_ns=50_000, calls=2, device_ns=50_000, rows=2,
                 says="The launch call says which operator: 10 µs of the small one, 40 of the large.")  # fmt: skip


# --- Which time ---------------------------------------------------------------------------------------------------


def _two_steps() -> TraceFile:
    """Step 1: a product of 10 µs that runs into step 2 by 6; step 2: one of 20 µs."""
    file = on(H100)
    file.host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100)
    op(file, "aten::mm", 80, [[64, 128], [128, 32]]).kernel(GEMM, 96, 10, launch=82)
    op(file, "aten::mm", 110, [[64, 128], [128, 32]]).kernel(GEMM, 130, 20, launch=112)
    return file


@deception
def all_steps() -> Truth:
    return Truth(file=_two_steps(), flops=2 * 2 * 64 * 128 * 32, flops_ns=30_000, calls=2, device_ns=30_000, rows=1,
                 says="Two calls, 30 µs.")  # fmt: skip


@deception
def second_step_alone() -> Truth:
    return Truth(file=_two_steps(), flops=2 * 64 * 128 * 32, flops_ns=20_000, calls=1, device_ns=20_000, step=2,
                 says="A kernel that began before the step brings no FLOPs into it.")  # fmt: skip


@deception
def durations_that_are_no_numbers() -> Truth:
    file = on(H100)
    mm(file, 0, 64, 128, 32, dur=10)
    mm(file, 100, 64, 128, 32, dur=float("nan"))
    mm(file, 200, 64, 128, 32, dur=-5)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="A call whose time is unknown is not rated: its FLOPs would raise the rate.")  # fmt: skip


@deception
def zero_duration() -> Truth:
    file = on(H100)
    mm(file, 0, 64, 128, 32, dur=0)
    return Truth(file=file, flops=0, flops_ns=0, calls=0, device_ns=0,
                 says="What took no time has no rate, and its FLOPs raise no other's.")  # fmt: skip


@deception
def processor_alone() -> Truth:
    """No device: operators are the work, linear 0-30 holds addmm 5-25."""
    file = on(H100)
    op(file, "aten::linear", 0, [[64, 128], [32, 128], [32]], dur=30)
    op(file, "aten::addmm", 5, [[32], [64, 128], [128, 32], [], []], values=["", "", "", "1", "1"], dur=20)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=20_000, calls=1, device_ns=30_000,
                 says="One product, in 20 µs of the operators' 30; no peak of a GPU.")  # fmt: skip


@deception
def no_shapes_at_all() -> Truth:
    file = on(H100).host("aten::mm", 0, 10, cat="cpu_op").kernel(GEMM, 20, 10, launch=2)
    return Truth(file=file, flops=0, calls=0, device_ns=10_000, no_shapes_ns=10_000, no_operator_ns=0,
                 says="All of the time has no shapes, with the sentence how to record them.")  # fmt: skip


@deception
def some_without_shapes() -> Truth:
    file = on(H100).host("aten::mm", 0, 10, cat="cpu_op").kernel(GEMM, 20, 30, launch=2)
    mm(file, 100, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=40_000, no_shapes_ns=30_000,
                 no_operator_ns=0, says="Same name, one with shapes and one without: 10 µs rated, not 40.")  # fmt: skip


# --- Which peak ---------------------------------------------------------------------------------------------------


@deception
def tf32_by_the_kernel() -> Truth:
    """137.4 GFLOP in 1,000 µs: 137 TFLOP/s, 7 times the A100's FP32 peak, 88 % of its TF32 peak."""
    file = on(A100)
    mm(file, 0, 4096, 4096, 4096, dur=1_000, types=FP32, kernel=TF32)
    return Truth(file=file, flops=2 * 4096**3, flops_ns=1_000_000, calls=1, device_ns=1_000_000, dtype="tf32",
                 says="Stored as FP32, computed in TF32.")  # fmt: skip


@deception
def fp32_that_is_fp32() -> Truth:
    """137.4 GFLOP in 10 ms: 13.7 TFLOP/s, 70 % of the A100's FP32 peak; TF32 would say 9 %."""
    file = on(A100)
    mm(file, 0, 4096, 4096, 4096, dur=10_000, types=FP32, kernel="ampere_sgemm_128x64_tn")
    return Truth(file=file, flops=2 * 4096**3, flops_ns=10_000_000, calls=1, device_ns=10_000_000, dtype="fp32",
                 says="No tensor core ran.")  # fmt: skip


@deception
def above_every_peak() -> Truth:
    """BF16, 137.4 GFLOP in 100 µs: 1,374 TFLOP/s on an A100 of 312."""
    file = on(A100)
    mm(file, 0, 4096, 4096, 4096, dur=100)
    return Truth(file=file, flops=2 * 4096**3, flops_ns=100_000, calls=1, device_ns=100_000, dtype="bf16", warns=True,
                 says="4.4 times the peak: never without the sentence that dtype, clock or chip is wrong.")  # fmt: skip


@deception
def bytes_above_the_peak() -> Truth:
    """x + y of 2^20 floats in 1 µs: 12.6 TB/s on a chip of 3.35: the cache held them."""
    file = on(H100)
    op(file, "aten::add", 0, [[1 << 20], [1 << 20], []], FP32, values=["", "", "1"]).kernel(ADD, 20, 1, launch=2)
    return Truth(file=file, flops=0, device_ns=1_000, bytes_of={"aten::add": 3 << 22}, warns=True,
                 says="Above the memory's peak: never without its sentence.")  # fmt: skip


@deception
def fp8_product() -> Truth:
    file = on(H100)
    op(file, "aten::_scaled_mm", 0, [[512, 1024], [1024, 256], [], [], [], [], []],
       [FP8, FP8, FP32, FP32, "", "", "Scalar"],
       values=["", "", "", "", "", "", "15", "True"], strides=[[1024, 1], [1, 1024], [], [], [], [], []])  # fmt: skip
    file.kernel("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128_cublas", 20, 10, launch=2)
    return Truth(file=file, flops=2 * 512 * 1024 * 256, flops_ns=10_000, calls=1, device_ns=10_000, dtype="fp8",
                 says="The FP8 peak, not that of its BF16 output or its FP32 scales.")  # fmt: skip


@deception
def unknown_chip() -> Truth:
    file = on(("NVIDIA B999 Ultra", 500, (19, 0)))
    mm(file, 0, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="A rate and no share of a peak.")  # fmt: skip


@deception
def nameless_chip() -> Truth:
    file = on(("", 304, (9, 4)))
    mm(file, 0, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="A rate and no share of a peak.")  # fmt: skip


# --- What a call costs --------------------------------------------------------------------------------------------


@deception
def expanded_input() -> Truth:
    """x + row, the row expanded to [1024, 1024] with stride 0: 4 MiB read, 4 KiB of the row, 4 MiB written."""
    file = on(H100)
    op(file, "aten::add", 0, [[1024, 1024], [1024, 1024], []], FP32, values=["", "", "1"],
       strides=[[1024, 1], [0, 1], []])  # fmt: skip
    file.kernel(ADD, 20, 10, launch=2)
    return Truth(file=file, device_ns=10_000, bytes_of={"aten::add": (2 << 22) + 4096},
                 says="What is read is what is stored: 4 KiB, not 4 MiB.")  # fmt: skip


@deception
def transposed_strides() -> Truth:
    file = on(H100)
    for at, strides in ((0, [[128, 1], [32, 1]]), (100, [[1, 64], [1, 128]])):
        op(file, "aten::mm", at, [[64, 128], [128, 32]], strides=strides).kernel(GEMM, at + 20, 10, launch=at + 2)
    return Truth(file=file, flops=2 * 2 * 64 * 128 * 32, flops_ns=20_000, calls=2, device_ns=20_000,
                 bytes_of={"aten::mm": 2 * 2 * (64 * 128 + 128 * 32 + 64 * 32)},
                 says="Layout changes neither FLOPs nor bytes.")  # fmt: skip


@deception
def empty_products() -> Truth:
    file = on(H100)
    op(file, "aten::mm", 0, [[0, 128], [128, 64]]).kernel(ADD, 20, 10, launch=2)
    op(file, "aten::bmm", 100, [[0, 5, 6], [0, 6, 7]]).kernel(ADD, 120, 10, launch=102)
    op(file, "aten::mm", 200, [[64, 0], [0, 32]]).kernel(ADD, 220, 10, launch=202)
    return Truth(file=file, flops=0, device_ns=30_000, bytes_of={"aten::mm": 2 * (128 * 64 + 64 * 32)},
                 says="No FLOPs, no division by nothing; K = 0 still writes zeros.")  # fmt: skip


@deception
def same_shapes_other_values() -> Truth:
    """One shape, stride 1 and stride 2: 4 outputs a side, and 2."""
    file, dims = on(H100), [[1, 8, 6, 6], [16, 8, 3, 3], [], [], [], [], [], [], []]
    for at, stride in ((0, 1), (100, 2)):
        values = ["", "", "", f"[{stride}, {stride}]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]
        op(file, "aten::convolution", at, dims, [BF16, BF16, "", *CONV_TYPES], values=values)
        file.kernel(GEMM, at + 20, 10, launch=at + 2)
    return Truth(file=file, flops=2 * 8 * 9 * 16 * (16 + 4), flops_ns=20_000, calls=2, device_ns=20_000, rows=2,
                 says="Two rows: what decides the cost is in the values, not the shapes.")  # fmt: skip


@deception
def same_shapes_other_types() -> Truth:
    file = on(H100)
    mm(file, 0, 64, 128, 32, dur=10)
    mm(file, 100, 64, 128, 32, dur=40, types=FP32, kernel="ampere_sgemm_128x64_tn")
    return Truth(file=file, flops=2 * 2 * 64 * 128 * 32, flops_ns=50_000, calls=2, device_ns=50_000, rows=2,
                 bytes_of={"aten::mm": (2 + 4) * (64 * 128 + 128 * 32 + 64 * 32)},
                 says="Two rows with two peaks.")  # fmt: skip


@deception
def convolution_without_values() -> Truth:
    """Before torch 2.2 no values were recorded. Stride 1 without padding would give the most: 2*8*9*16*16."""
    file = on(H100)
    op(file, "aten::convolution", 0, [[1, 8, 6, 6], [16, 8, 3, 3], [], [], [], [], [], [], []],
       [BF16, BF16, "", *CONV_TYPES])  # fmt: skip
    file.kernel(GEMM, 20, 10, launch=2)
    return Truth(file=file, flops=None, device_ns=10_000,
                 says="Stride, padding and groups are unknown, so is the output: no FLOPs.")  # fmt: skip


@deception
def grouped_and_transposed_convolutions() -> Truth:
    """[2, 8, 10] by [8, 1, 3], 8 groups: 2*2*8*8*3; transposed [2, 8, 10] by [8, 4, 3], stride 2: 2*2*8*10*4*3."""
    file = on(H100)
    op(file, "aten::convolution", 0, [[2, 8, 10], [8, 1, 3], [], [], [], [], [], [], []],
       [BF16, BF16, "", *CONV_TYPES], values=["", "", "", "[1]", "[0]", "[1]", "False", "[0]", "8"])  # fmt: skip
    file.kernel(GEMM, 20, 10, launch=2)
    op(file, "aten::convolution", 100, [[2, 8, 10], [8, 4, 3], [], [], [], [], [], [], []],
       [BF16, BF16, "", *CONV_TYPES], values=["", "", "", "[2]", "[0]", "[1]", "True", "[0]", "1"])  # fmt: skip
    file.kernel(GEMM, 120, 10, launch=102)
    return Truth(file=file, flops=2 * 2 * 8 * 8 * 3 + 2 * 2 * 8 * 10 * 4 * 3, flops_ns=20_000, calls=2,
                 device_ns=20_000, says="A transposed one does its work at each input, not each output.")  # fmt: skip


@deception
def convolution_backward_for_the_weight_alone() -> Truth:
    """The first layer's: output 4 x 4, mask [False, True, False]."""
    file = on(H100)
    op(file, "aten::convolution_backward", 0, [[1, 16, 4, 4], [1, 8, 6, 6], [16, 8, 3, 3], *[[]] * 8],
       [BF16, BF16, BF16, "ScalarList", *CONV_TYPES, "ScalarList"],
       values=["", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1",
               "[False, True, False]"])  # fmt: skip
    file.kernel(GEMM, 20, 10, launch=2)
    return Truth(file=file, flops=2 * 8 * 9 * 16 * 16, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="One gradient, not two.")  # fmt: skip


def _attention(name: str, dims: Any, values: Any, types: Any = None) -> TraceFile:
    file = on(H100)
    op(file, name, 0, dims, types or [BF16 if len(dim) > 1 else "Scalar" for dim in dims], values=values)
    return file.kernel("flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128>>", 20, 10, launch=2)


FLASH = "aten::_scaled_dot_product_flash_attention"


@deception
def causal_attention() -> Truth:
    """S = 10: 55 pairs of 100, where S^2 / 2 says 50."""
    file = _attention(FLASH, [[2, 4, 10, 8]] * 3 + [[]] * 4, ["", "", "", "0.", "True", "False", ""])
    return Truth(file=file, flops=2 * 4 * 55 * 8 * 4, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="S(S+1)/2 pairs.")  # fmt: skip


@deception
def causal_flag_unrecorded() -> Truth:
    file = _attention(FLASH, [[2, 4, 10, 8]] * 3 + [[]] * 4, None)
    return Truth(file=file, flops=None, most_flops=2 * 4 * 100 * 8 * 4, flops_ns=10_000, device_ns=10_000,
                 says="At most all pairs.")  # fmt: skip


@deception
def grouped_queries() -> Truth:
    """32 heads of queries, 8 of keys: work by the queries' heads, bytes by each."""
    file = _attention(FLASH, [[1, 32, 10, 8], [1, 8, 10, 8], [1, 8, 10, 8], [], [], [], []],
                      ["", "", "", "0.", "False", "False", ""])  # fmt: skip
    return Truth(file=file, flops=32 * 100 * 8 * 4, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="32 heads of products.")  # fmt: skip


@deception
def attention_with_dropout() -> Truth:
    file = _attention(FLASH, [[2, 4, 10, 8]] * 3 + [[]] * 4, ["", "", "", "0.1", "False", "False", ""])
    return Truth(file=file, flops=2 * 4 * 100 * 8 * 4, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="Dropout changes no product.")  # fmt: skip


@deception
def lengths_unknown() -> Truth:
    """100 tokens of 4 sequences, the longest 40: their lengths stand in a tensor. At most 40+40+20: 3,600 pairs."""
    file = _attention("aten::_flash_attention_forward",
                      [[100, 2, 8]] * 3 + [[5], [5], *[[]] * 9],
                      ["", "", "", "", "", "40", "40", "0.", "False", "False", "", "", "", ""],
                      [BF16, BF16, BF16, "int", "int", *["Scalar"] * 5, "", "", "", ""])  # fmt: skip
    return Truth(file=file, flops=None, most_flops=2 * 100 * 40 * 8 * 4, flops_ns=10_000, device_ns=10_000,
                 says="At most; never exact, and not 100 x 100 pairs as of one sequence.")  # fmt: skip


@deception
def numbers_beyond_64_bits() -> Truth:
    file = on(H100)
    mm(file, 0, 1 << 31, 1 << 31, 1 << 31, dur=10)
    mm(file, 100, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, device_ns=20_000,
                 says="No device holds such a matrix: left out, neither negative nor a traceback.")  # fmt: skip


@deception
def shapes_that_contradict() -> Truth:
    file = on(H100)
    op(file, "aten::mm", 0, [[4, 5], [6, 7]]).kernel(GEMM, 20, 10, launch=2)
    op(file, "aten::mm", 100, [[4], [6, 7]]).kernel(GEMM, 120, 10, launch=102)
    op(file, "aten::mm", 200, [[-4, 5], [5, 7]]).kernel(GEMM, 220, 10, launch=202)
    op(file, "aten::bmm", 300, [[2, 4, 5]]).kernel(GEMM, 320, 10, launch=302)
    return Truth(file=file, flops=None, device_ns=40_000, says="No product: no FLOPs, and no traceback.")


@deception
def out_variant() -> Truth:
    """mm.out is recorded as aten::mm with three tensors; the third is written, not read."""
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 32], [64, 32]], values=["", "", ""]).kernel(GEMM, 20, 10, launch=2)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 bytes_of={"aten::mm": 2 * (64 * 128 + 128 * 32 + 64 * 32)},
                 says="The output is moved once.")  # fmt: skip


@deception
def names_of_other_namespaces() -> Truth:
    file = on(H100)
    mm(file, 0, 64, 128, 32, dur=10, name="mylib::mm")
    mm(file, 100, 64, 128, 32, dur=10, name="mm")
    mm(file, 200, 64, 128, 32, dur=10, name="mylib::aten::mm_like")
    return Truth(file=file, flops=0, device_ns=30_000, no_shapes_ns=0,
                 says="No formula of ours is theirs: bytes of their inputs, said to be just that.")  # fmt: skip


@deception
def lists_of_tensors() -> Truth:
    """cat of [2, 3] and [4, 3]: 18 floats read and written; _foreach_add_ of two pairs of 5 and 7: 24 read, 12
    written."""
    file = on(H100)
    op(file, "aten::cat", 0, [[[2, 3], [4, 3]], []], ["TensorList", "Scalar"], values=["", "0"])
    file.kernel(ADD, 20, 10, launch=2)
    op(file, "aten::_foreach_add_", 100, [[[5], [7]], [[5], [7]], []], ["TensorList", "TensorList", "Scalar"],
       values=["", "", "1"])  # fmt: skip
    file.kernel(ADD, 120, 10, launch=102)
    return Truth(file=file, flops=0, device_ns=20_000,
                 says="A TensorList's dtype is not recorded: bytes as an estimate, or none.")  # fmt: skip


@deception
def long_lists_are_left_empty() -> Truth:
    """torch writes [] for a list of more than 30 tensors: the optimizer's 200 pairs look like nothing at all."""
    file = on(H100)
    op(file, "aten::_foreach_add_", 0, [[], [], []], ["TensorList", "TensorList", "Scalar"], values=["", "", "1"])
    file.kernel("void at::native::multi_tensor_apply_kernel<>", 20, 500, launch=2)
    return Truth(file=file, flops=0, device_ns=500_000, bytes_of=None,
                 says="Not 0 bytes, not 0 B/s: unknown.")  # fmt: skip


@deception
def values_cut_short() -> Truth:
    file = on(H100)
    op(file, "aten::convolution", 0, [[1, 8, 6, 6], [16, 8, 3, 3], [], [], [], [], [], [], []],
       [BF16, BF16, "", *CONV_TYPES], values=["", "", "", "[1, ", "[0, 0", "", "Fal", "", ""])  # fmt: skip
    file.kernel(GEMM, 20, 10, launch=2)
    return Truth(file=file, flops=None, device_ns=10_000, says="What cannot be read is not known.")


@deception
def fewer_types_than_shapes() -> Truth:
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 32]], []).kernel(GEMM, 20, 10, launch=2)
    op(file, "aten::mm", 100, [[64, 128], [128, 32]], ["c10::Float3_made_up"] * 2).kernel(GEMM, 120, 10, launch=102)
    return Truth(file=file, flops=None, device_ns=20_000, bytes_of={"aten::mm": 0},
                 says="A dtype that nobody knows has no size and no peak: no bytes are claimed.")  # fmt: skip


@deception
def complex_product() -> Truth:
    """A complex multiply-add is four real ones."""
    file = on(H100)
    mm(file, 0, 64, 128, 32, dur=10, types="c10::complex<float>")
    return Truth(file=file, flops=4 * 2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="8 MNK.")  # fmt: skip


@deception
def a_collective_is_no_memory_traffic() -> Truth:
    file = on(H100)
    op(file, "c10d::allreduce_", 0, [[[1 << 20]], [], []], ["TensorList", "", ""], values=["", "", ""])
    file.kernel(ALL_REDUCE, 20, 100, launch=2)
    return Truth(
        file=file, flops=0, device_ns=100_000, says="Its bytes cross the network: no share of the memory's peak."
    )


@deception
def views_take_no_device_time() -> Truth:
    file = on(H100)
    op(file, "aten::t", 0, [[1 << 15, 1 << 15]]).host("aten::mm", 100, 10, cat="cpu_op").kernel(
        GEMM, 120, 5, launch=102
    )
    return Truth(file=file, flops=0, device_ns=5_000, no_shapes_ns=5_000, rows=0, says="A view is in no table.")


@deception
def broadcast_bmm() -> Truth:
    """One matrix against 16 by stride 0: FLOPs of 16, bytes of one."""
    file = on(H100)
    op(file, "aten::bmm", 0, [[16, 64, 128], [16, 128, 32]], strides=[[8192, 128, 1], [0, 32, 1]])
    file.kernel(GEMM, 20, 10, launch=2)
    return Truth(file=file, flops=16 * 2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 bytes_of={"aten::bmm": 2 * (16 * 64 * 128 + 128 * 32 + 16 * 64 * 32)},
                 says="16 products; the second matrix is read once.")  # fmt: skip


# --- What stands in recorded files --------------------------------------------------------------------------------


def _cache_update(name: str) -> TraceFile:
    file = on(H100)
    op(file, name, 0,
       [[8192, 8, 64], [8192, 8, 64], [224304, 32, 8, 64], [224304, 32, 8, 64], [8192], [], [], []],
       [BF16, BF16, BF16, BF16, "long int", "", "float", "float"])  # fmt: skip
    file.kernel("vllm::reshape_and_cache_flash_kernel", 20, 24, launch=2)
    return file


@deception
def cache_of_an_unknown_operator() -> Truth:
    """An engine's kernel writes 2 MiB of keys into a cache of 7 GiB, which is an argument: 353 GB in 24 calls."""
    return Truth(file=_cache_update("engine::update_cache"), device_ns=24_000, no_peak=("engine::update_cache",),
                 says="14.7 GB in 24 µs would be 180 times the memory's peak: the cache is not read.")  # fmt: skip


@deception
def cache_of_a_known_operator() -> Truth:
    """Of vllm's operator it is known that the cache is not read: keys and values once in and once out, 8192 slots."""
    moved = 4 * 8192 * 8 * 64 * 2 + 8192 * 8 + 2 * 4
    return Truth(file=_cache_update("_C_cache_ops::reshape_and_cache_flash"), device_ns=24_000,
                 bytes_of={"_C_cache_ops::reshape_and_cache_flash": moved},
                 says="Keys and values once in and once out; the cache is not read.")  # fmt: skip


@deception
def lookups_in_a_large_table() -> Truth:
    """16 rows of 4,096 out of 128,256: 128 KiB read, with 16 indices of 8 bytes, and 128 KiB written."""
    file = on(H100)
    op(file, "aten::embedding", 0, [[128256, 4096], [16], [], [], []], [BF16, "long int", "Scalar", "Scalar", "Scalar"],
       values=["", "", "-1", "False", "False"])  # fmt: skip
    file.kernel("void at::native::(anonymous namespace)::indexSelectLargeIndex<>", 20, 10, launch=2)
    op(file, "aten::index_select", 100, [[128256, 4096], [], [16]], [BF16, "Scalar", "long int"], values=["", "0", ""])
    file.kernel("void at::native::(anonymous namespace)::indexSelectLargeIndex<>", 120, 10, launch=102)
    moved = 2 * 16 * 4096 * 2 + 16 * 8
    return Truth(file=file, device_ns=20_000, bytes_of={"aten::embedding": moved, "aten::index_select": moved},
                 says="The rows that are looked up, not the table of 1 GB.")  # fmt: skip


@deception
def copy_over_the_bus() -> Truth:
    """100 MiB from pageable host memory in 20 ms: 5 GB/s of PCIe, and nothing of the device's memory."""
    file = on(H100)
    op(file, "aten::copy_", 0, [[100 << 20], [100 << 20], []], ["unsigned char", "unsigned char", "Scalar"],
       values=["", "", "False"])  # fmt: skip
    file.kernel("Memcpy HtoD (Pageable -> Device)", 20, 20_000, launch=2, cat="gpu_memcpy", call="cudaMemcpyAsync",
                bytes=100 << 20)  # fmt: skip
    return Truth(file=file, device_ns=20_000_000, no_peak=("aten::copy_",),
                 says="Held against the bus or nothing: 0.3 % of the memory's peak means nothing.")  # fmt: skip


@deception
def reduction_over_ranks() -> Truth:
    file = on(H100)
    op(file, "c10d::_allreduce_base_", 0, [[1 << 20], [], []], [BF16, "", ""], values=["", "", ""], dur=30)
    op(file, "record_param_comms", 5, [[1 << 20], [], []], [BF16, "", ""], dur=20)
    file.kernel(ALL_REDUCE, 20, 100, launch=7)
    return Truth(file=file, device_ns=100_000, no_peak=("c10d::_allreduce_base_", "record_param_comms"),
                 says="Its bytes cross the network.")  # fmt: skip


@deception
def matmul_of_a_batch() -> Truth:
    """matmul [2, 3, 4] x [4, 5] > mm [6, 4] x [4, 5]: 240 FLOPs; einsum of a list > bmm: another 2*2*3*4*5."""
    file = on(H100)
    op(file, "aten::matmul", 0, [[2, 3, 4], [4, 5]], values=["", ""], dur=40)
    mm(file, 10, 6, 4, 5, dur=10)
    op(file, "aten::einsum", 100, [[], [[2, 3, 4], [2, 4, 5]], []], ["", "TensorList", ""],
       values=["bik,bkj->bij", "", ""], dur=40)  # fmt: skip
    op(file, "aten::bmm", 110, [[2, 3, 4], [2, 4, 5]], values=["", ""]).kernel(GEMM, 130, 10, launch=112)
    return Truth(file=file, flops=240 + 240, flops_ns=20_000, calls=2, device_ns=20_000, says="Once each.")


@deception
def attention_in_pieces() -> Truth:
    """The fallback of attention: bmm, softmax, bmm inside, of 10 µs each; S = 10, all pairs."""
    file = on(H100)
    op(file, "aten::scaled_dot_product_attention", 0, [[2, 4, 10, 8]] * 3 + [[]] * 5,
       [BF16, BF16, BF16, "", "Scalar", "Scalar", "", "Scalar"],
       values=["", "", "", "", "0.", "False", "", "False"], dur=100)  # fmt: skip
    op(file, "aten::bmm", 10, [[8, 10, 8], [8, 8, 10]], values=["", ""]).kernel(GEMM, 30, 10, launch=12)
    op(file, "aten::_softmax", 30, [[8, 10, 10], [], []], values=["", "-1", "False"]).kernel(ADD, 50, 10, launch=32)
    op(file, "aten::bmm", 50, [[8, 10, 10], [8, 10, 8]], values=["", ""]).kernel(GEMM, 70, 10, launch=52)
    return Truth(file=file, flops=4 * 2 * 4 * 100 * 8, device_ns=30_000, flops_ns=20_000,
                 says="Its products count once, as one call of attention or as two products.")  # fmt: skip


@deception
def equal_boundaries() -> Truth:
    """Both operators start and end together, and the launch call begins with them."""
    file = on(H100)
    op(file, "mylib::block", 0, [[64, 128]]).host("x", 0, 10)
    op(file, "aten::mm", 0, [[64, 128], [128, 32]], values=["", ""]).kernel(GEMM, 20, 10, launch=0)
    op(file, "aten::mm", 10, [[8, 16], [16, 4]], values=["", ""]).kernel(GEMM, 40, 5, launch=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32 + 2 * 8 * 16 * 4, flops_ns=15_000, calls=2, device_ns=15_000,
                 says="The inner one, and the one that begins rather than the one that ends.")  # fmt: skip


@deception
def runtime_and_driver_calls() -> Truth:
    """cudaLaunchKernelExC holds cuLaunchKernelEx with the same correlation: one launch, one kernel."""
    file = on(H100)
    mm(file, 0, 64, 128, 32, dur=10, call="cudaLaunchKernelExC")
    file.host("cuLaunchKernelEx", 2.2, 0.5, cat="cuda_driver", correlation=1)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000,
                 says="Once.")  # fmt: skip


@deception
def dims_that_are_no_numbers() -> Truth:
    file = on(H100)
    deep: Any = [64, 128]
    for _ in range(300):
        deep = [deep]
    for number, dims in enumerate(([[None, 5], [5, 7]], [["s0", 5], [5, 7]], [[4.5, 5], [5, 7]], [deep, deep], "text",
                                   [{"a": 1}, [5, 7]], [[True, 5], [5, 7]])):  # fmt: skip
        at = 100 * number
        op(file, "aten::mm", at, dims, [BF16, BF16], strides=[[], []]).kernel(GEMM, at + 20, 10, launch=at + 2)
    return Truth(file=file, flops=None, device_ns=70_000, says="No sizes: no FLOPs, no traceback.")


@deception
def lists_of_an_optimizer() -> Truth:
    """More than 30 parameters: torch writes [] for each list. Without lists there are neither bytes nor a rate."""
    file = on(H100)
    op(file, "aten::_fused_adamw_", 0, [[]] * 16, ["TensorList"] * 6 + ["Scalar"] * 10,
       values=[*[""] * 6, "0.001", "0.9", "0.999", "0.01", "1e-08", "False", "False", "", "", ""])  # fmt: skip
    file.kernel("void at::native::multi_tensor_apply_kernel<>", 20, 500, launch=2)
    return Truth(file=file, device_ns=500_000, bytes_of={"aten::_fused_adamw_": 0}, no_peak=("aten::_fused_adamw_",),
                 says="Unknown.")  # fmt: skip


@deception
def int8_product() -> Truth:
    file = on(A100)
    mm(file, 0, 512, 1024, 256, dur=10, types="signed char", name="aten::_int_mm",
       kernel="ampere_igemm_int8_128x128_ldg16_relu_tn")  # fmt: skip
    return Truth(file=file, flops=2 * 512 * 1024 * 256, flops_ns=10_000, calls=1, device_ns=10_000, dtype="int8",
                 says="Operations of INT8 against its own peak.")  # fmt: skip


@deception
def part_of_a_chip() -> Truth:
    """MI300X split in eight (CPX): the name is whole, 38 of 304 units are there."""
    file = on(("AMD Instinct MI300X", 38, (9, 4)))
    mm(file, 0, 4096, 4096, 4096, dur=1_000, kernel="Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1")
    return Truth(file=file, flops=2 * 4096**3, flops_ns=1_000_000, calls=1, device_ns=1_000_000, whole_chip=False,
                 says="137 TFLOP/s are 84 % of an eighth of the chip, not 11 % of it.")  # fmt: skip


@deception
def two_precisions_of_one_shape() -> Truth:
    """The first call was made before TF32 was allowed: 10 ms in FP32, 70 % of its peak; then 1 ms, 88 % of TF32's."""
    file = on(A100)
    mm(file, 0, 4096, 4096, 4096, dur=10_000, types=FP32, kernel="ampere_sgemm_128x64_tn")
    mm(file, 20_000, 4096, 4096, 4096, dur=1_000, types=FP32, kernel=TF32)
    return Truth(file=file, flops=2 * 2 * 4096**3, flops_ns=11_000_000, calls=2, device_ns=11_000_000,
                 says="Both together are 128 % of the FP32 peak and 16 % of TF32's: neither is a share.")  # fmt: skip


# --- Operators that hand their call on ----------------------------------------------------------------------------


@deception
def product_of_a_sharded_tensor() -> Truth:
    """Tensor parallelism over 8: the DTensor's operator has the whole shape, the one inside what this rank computes."""
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 256]], dur=50)
    mm(file, 10, 64, 128, 32, dur=10)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000, rows=1,
                 says="A rank computes its own part: an eighth of the DTensor's FLOPs.")  # fmt: skip


@deception
def autocast_of_a_product() -> Truth:
    """baddbmm of FP32 tensors: autocast copies them to BF16, then calls it again with those."""
    file = on(H100)
    op(file, "aten::bmm", 0, [[2, 64, 128], [2, 128, 32]], FP32, dur=100)
    op(file, "aten::_to_copy", 5, [[2, 64, 128]], FP32, values=[""], dur=10)
    file.kernel(ADD, 10, 5, launch=6)
    op(file, "aten::bmm", 20, [[2, 64, 128], [2, 128, 32]], BF16, dur=20)
    file.kernel(GEMM, 30, 10, launch=25)
    moved = 2 * 2 * (64 * 128 + 128 * 32 + 64 * 32)
    return Truth(file=file, flops=2 * 2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=15_000, dtype="bf16",
                 bytes_of={"aten::bmm": moved}, says="The product reads BF16; the copy is no part of it.")  # fmt: skip


@deception
def product_in_fp8_within_one_in_bf16() -> Truth:
    """A tensor of another library says it is BF16, and calls _scaled_mm with what it holds."""
    file = on(H100)
    op(file, "aten::mm", 0, [[64, 128], [128, 32]], BF16, dur=100)
    op(file, "aten::_scaled_mm", 20, [[64, 128], [128, 32], [], []], ["c10::Float8_e4m3fn"] * 2 + ["float"] * 2, dur=20)
    file.kernel("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128", 30, 10, launch=25)
    return Truth(file=file, flops=2 * 64 * 128 * 32, flops_ns=10_000, calls=1, device_ns=10_000, dtype="fp8",
                 says="What computes is the product in FP8.")  # fmt: skip


@deception
def operators_that_call_their_out_form() -> Truth:
    """The inner one has its result as an argument: it is the same call, and the outer one fills it first."""
    file = on(H100)
    op(file, "aten::mse_loss_backward", 0, [[], [64, 32], [64, 32], []], ["float", "float", "float", "Scalar"],
       values=["", "", "", "1"], dur=50)  # fmt: skip
    op(file, "aten::mse_loss_backward", 20, [[], [64, 32], [64, 32], [], [64, 32]],
       ["float", "float", "float", "Scalar", "float"], values=["", "", "", "1", ""], dur=20)  # fmt: skip
    file.kernel(ADD, 30, 10, launch=25)
    return Truth(file=file, device_ns=10_000, bytes_of={"aten::mse_loss_backward": 4 + 4 * 3 * 64 * 32},
                 says="One call of the loss's backward.")  # fmt: skip
