"""Rules of kernels on small made traces: what they find, its cost to the nanosecond, and what the replay saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.efficiency.deceptions import A100, BF16, FP32, H100, on, op
from weftrace.advice.findings.advising import replays_of
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rules.copies import casts_and_copies, layout_transforms
from weftrace.advice.findings.rules.fusion import unfused_attention, unfused_elementwise
from weftrace.advice.findings.rules.gemms import fp32_gemm, old_gemm_kernels
from weftrace.advice.findings.rules.recomputing import recomputation
from weftrace.analysis.findings import Gain
from weftrace.trace import Trace, open_trace
from weftrace.trace.work import works_of

SGEMM = "ampere_sgemm_128x64_nn"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x16_stage4_warpsize2x2x1_tensor16x8x8_kernel"
NATIVE = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
OLD = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(cutlass_75_tensorop)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>(int)"
SOFTMAX_BACK = "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, false, false>(float*)"
CROSS_ENTROPY = (
    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(int)"
)
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float>>(int)"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
TRITON = "triton_poi_fused_add_mul_0"
NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(int)"
CONV = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_kernel"

Rule = Callable[[Evidence], Iterable[Found | Missing]]


class Run:
    """Kernels back to back on a stream, each launched early by an operator of its own: times in µs."""

    def __init__(self, chip: tuple[str, int, tuple[int, int]] = H100) -> None:
        self.file = on(chip)
        self.host, self.device = 0.0, 10_000.0

    def __call__(self, kernel: str, dur: float, name: str | None = "aten::mm", dims: Any = (), types: Any = BF16,
                 *, tid: int = 1, **args: Any) -> Run:  # fmt: skip
        if name is not None:
            op(self.file, name, self.host, list(dims), types, dur=8, tid=tid, **args)
        self.file.kernel(kernel, self.device, dur, launch=self.host + 2, launch_tid=tid)
        self.host, self.device = self.host + 10, self.device + dur
        return self

    def product(self, kernel: str, dur: float, m: int, k: int, n: int, types: str = BF16) -> Run:
        return self(kernel, dur, "aten::mm", [[m, k], [k, n]], types, values=["", ""])

    def evidence(self, folder: Path, *, frames: bool = False) -> Evidence:
        trace = open_trace(self.file.write(folder / "trace.json"), frames=frames)
        assert isinstance(trace, Trace)
        (work,) = works_of(trace)
        return Evidence(work=work)


def found_by(rule: Rule, run: Run, folder: Path) -> tuple[Found | None, Gain | None]:
    """What the rule found, and its gain."""
    evidence = run.evidence(folder)
    found = [each for each in rule(evidence) if isinstance(each, Found)]
    assert len(found) <= 1
    return (found[0], replays_of(evidence).gain_of(found[0])[0]) if found else (None, None)


def numbers(found: Found | None) -> dict[str, float]:
    assert found is not None
    assert len(found.sentence) <= 170
    assert found.sentence.endswith(".")
    return {number.name: number.value for number in found.evidence}


# --- 12: FP32 beside the tensor cores -----------------------------------------------------------------------------


def test_products_in_fp32_are_found_with_the_rate_of_others(tmp_path: Path) -> None:
    """FP32 at 50 % of 66.9 TFLOP/s, BF16 at 50 % of 989.4: a tenth and less remains, 66.9 / 494.7 and 66.9 / 989.4."""
    flops = 2 * 4096**3
    slow, fast = flops / (0.5 * 66.9e12) * 1e6, flops / (0.5 * 989.4e12) * 1e6
    run = Run().product(SGEMM, round(slow, 3), 4096, 4096, 4096, FP32).product(NATIVE, round(fast, 3), 4096, 4096, 4096)
    found, gain = found_by(fp32_gemm, run, tmp_path)
    assert found is not None
    assert found.cost_ns == pytest.approx(slow * 1e3, abs=2)
    assert numbers(found)["of the time of all products"] == pytest.approx(slow / (slow + fast), rel=1e-4)
    assert gain is not None
    assert gain.low_ns == pytest.approx(slow * 1e3 * (1 - 66.9 / 494.7), rel=1e-3)
    assert gain.high_ns == pytest.approx(slow * 1e3 * (1 - 66.9 / 989.4), rel=1e-3)


def test_tf32_is_no_fp32(tmp_path: Path) -> None:
    assert found_by(fp32_gemm, Run(A100).product(TF32, 500, 1024, 1024, 1024, FP32), tmp_path) == (None, None)


def test_few_products_in_fp32_are_no_finding(tmp_path: Path) -> None:
    run = Run().product(SGEMM, 40, 64, 64, 64, FP32).product(NATIVE, 1_000, 4096, 4096, 4096)
    assert found_by(fp32_gemm, run, tmp_path) == (None, None)


def test_solvers_need_fp32(tmp_path: Path) -> None:
    run = Run()(SGEMM, 500, "aten::linalg_solve_ex", [[64, 64]], FP32)
    assert found_by(fp32_gemm, run, tmp_path) == (None, None)


def test_a_chip_without_faster_units_is_left_alone(tmp_path: Path) -> None:
    run = Run(("Tesla P100-SXM2-16GB", 56, (6, 0))).product("pascal_sgemm_128x64_nn", 500, 1024, 1024, 1024, FP32)
    assert found_by(fp32_gemm, run, tmp_path) == (None, None)


def test_without_shapes_peaks_alone_bound_the_gain(tmp_path: Path) -> None:
    found, gain = found_by(fp32_gemm, Run()(SGEMM, 1_000, "aten::mm"), tmp_path)
    assert found is not None
    assert "half of the gain by peaks" in found.reason
    assert gain is not None
    assert gain.low_ns == pytest.approx(1e6 * (1 - 66.9 / 494.7) / 2, abs=2)
    assert gain.high_ns == pytest.approx(1e6 * (1 - 66.9 / 989.4), abs=2)


def test_a_file_that_names_no_device_shows_its_tensor_cores(tmp_path: Path) -> None:
    run = Run().product(SGEMM, 500, 1024, 1024, 1024, FP32)
    run.file.facts.pop("deviceProperties")
    (tmp_path / "a").mkdir()
    assert found_by(fp32_gemm, run, tmp_path / "a") == (None, None)
    found, gain = found_by(fp32_gemm, run.product(TF32, 500, 1024, 1024, 1024, FP32), tmp_path)
    assert found is not None
    assert (found.cost_ns, found.confidence, found.not_told) == (500_000, "medium", "the chip's peaks are not known")
    assert gain is None


# --- 13: kernels of an older device -------------------------------------------------------------------------------


def test_older_kernels_are_held_against_native_ones(tmp_path: Path) -> None:
    """Like sizes take 500 µs in an older kernel and 200 in a native one: 300 of 500 could be saved, 150 as a rule."""
    run = Run().product(OLD, 500, 4096, 4096, 4095).product(NATIVE, 200, 4096, 4096, 4096)
    found, gain = found_by(old_gemm_kernels, run, tmp_path)
    assert found is not None
    assert found.cost_ns == 500_000
    assert numbers(found)["of it, sizes that 8 does not divide"] == 1
    assert found.confidence == "high"
    assert gain is not None
    assert gain.low_ns == pytest.approx(150_000, rel=1e-3)
    assert gain.high_ns == pytest.approx(300_000, rel=1e-3)


def test_older_kernels_that_are_as_fast_are_no_finding(tmp_path: Path) -> None:
    run = Run().product(OLD, 210, 4096, 4096, 4096).product(NATIVE, 200, 4096, 4096, 4104)
    assert found_by(old_gemm_kernels, run, tmp_path) == (None, None)


def test_native_kernels_are_no_older_ones(tmp_path: Path) -> None:
    assert found_by(old_gemm_kernels, Run(A100).product(TF32, 500, 1024, 1024, 1024, FP32), tmp_path) == (None, None)


def test_without_a_native_kernel_no_gain_is_told(tmp_path: Path) -> None:
    found, gain = found_by(old_gemm_kernels, Run().product(OLD, 500, 4096, 4096, 4096), tmp_path)
    assert found is not None
    assert found.not_told
    assert found.confidence == "low"
    assert gain is None


# --- 14: attention that is not fused ------------------------------------------------------------------------------

QK, PV = [[16, 512, 64], [16, 64, 512]], [[16, 512, 512], [16, 512, 64]]


def forward(run: Run, *, softmax: float = 100) -> Run:
    """A product, a scale, the softmax and a product: 10, 20, `softmax` and 10."""
    run(NATIVE, 10, "aten::bmm", QK)(MUL, 20, "aten::mul", [[16, 512, 512]])
    run(SOFTMAX, softmax, "aten::_softmax", [[16, 512, 512]])
    return run(NATIVE, 10, "aten::bmm", PV)


def backward(run: Run) -> Run:
    """Two products, the softmax's backward, a scale, two products: 40, 100 and 20, 40."""
    run(NATIVE, 20, "aten::bmm", PV)(NATIVE, 20, "aten::bmm", PV)
    run(SOFTMAX_BACK, 100, "aten::_softmax_backward_data", [[16, 512, 512]])(MUL, 20, "aten::mul", [[16, 512, 512]])
    return run(NATIVE, 20, "aten::bmm", QK)(NATIVE, 20, "aten::bmm", QK)


def test_the_softmax_between_two_products_is_attention(tmp_path: Path) -> None:
    """Two layers, 240 µs of softmaxes and scales; products stay."""
    run = forward(forward(Run()(ADD, 500, "aten::add")))
    found, gain = found_by(unfused_attention, run(ADD, 50, "aten::add"), tmp_path)
    assert found is not None
    assert found.cost_ns == 240_000
    assert numbers(found) == {
        "softmax": 200_000, "masks, scales, casts and dropout": 40_000, "its products": 40_000,
        "of it, longer than their FLOPs need": 0, "softmaxes": 2,
    }  # fmt: skip
    assert found.where.operator == "aten::_softmax"
    assert gain is not None
    assert gain.low_ns == pytest.approx(240_000, rel=1e-3)


def test_the_backward_multiplies_four_times_and_once_more(tmp_path: Path) -> None:
    """Its 80 µs of products become 100: 120 of softmax and scale less 20, and 120 of the forward."""
    found, gain = found_by(unfused_attention, backward(forward(Run())), tmp_path)
    assert found is not None
    assert found.cost_ns == 240_000
    assert numbers(found)["its products"] == 100_000
    assert gain is not None
    assert gain.low_ns == pytest.approx(220_000, rel=1e-2)


def test_products_that_memory_bounds_count_as_attention(tmp_path: Path) -> None:
    """Products reach 0.5 % of the peak where a linear reaches 70 %: most of their 2,000 µs go; softmaxes take 4 %."""
    run = Run().product(NATIVE, 200, 4096, 4096, 4096)
    for _ in range(2):
        run(NATIVE, 500, "aten::bmm", QK)(SOFTMAX, 45, "aten::_softmax", [[16, 512, 512]])(NATIVE, 500, "aten::bmm", PV)
    found, gain = found_by(unfused_attention, run, tmp_path)
    assert found is not None
    rate = 2 * 4096**3 / 200e-6
    needed_ns = 2 * 2 * (2 * 16 * 512 * 512 * 64) / rate * 1e9
    assert found.cost_ns == 90_000
    assert numbers(found)["of it, longer than their FLOPs need"] == pytest.approx(2_000_000 - needed_ns, rel=1e-3)
    assert gain is not None
    assert gain.low_ns == pytest.approx(90_000, rel=1e-3)
    assert gain.high_ns == pytest.approx(2_090_000 - needed_ns / 2, rel=1e-3)


def test_a_loss_and_a_router_are_no_attention(tmp_path: Path) -> None:
    """A classifier's log_softmax, a router's softmax before the experts are chosen, and that of a product alone."""
    run = Run()
    for _ in range(3):
        run.product(NATIVE, 50, 512, 512, 512)(SOFTMAX, 100, "aten::_log_softmax", [[512, 512]])
        run(CROSS_ENTROPY, 10, "aten::nll_loss_forward")
        run.product(NATIVE, 50, 512, 512, 512)(SOFTMAX, 100, "aten::_softmax", [[512, 512]])
        run("void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", 10, "aten::topk")
        run(NATIVE, 10, "aten::bmm", PV)(NATIVE, 10, "aten::bmm", PV)
    assert found_by(unfused_attention, run, tmp_path) == (None, None)


def test_little_attention_is_no_finding(tmp_path: Path) -> None:
    run = forward(forward(Run()(NATIVE, 10_000), softmax=200), softmax=200)
    assert found_by(unfused_attention, run, tmp_path) == (None, None)


def test_without_operators_products_around_are_believed_less(tmp_path: Path) -> None:
    run = Run()
    for _ in range(2):
        run(NATIVE, 10, None)(SOFTMAX, 50, None)(NATIVE, 10, None)
    found, _ = found_by(unfused_attention, run, tmp_path)
    assert found is not None
    assert (found.cost_ns, found.confidence) == (100_000, "medium")


# --- 15: memory-bound kernels after each other --------------------------------------------------------------------


def test_a_chain_takes_as_long_as_its_longest_kernel(tmp_path: Path) -> None:
    """30 + 50 + 20 beside a product of 100, twice: of 200 µs of chains 100 remain at best, 150 by half."""
    run = Run()
    for _ in range(2):
        run(ADD, 30, "aten::add")(MUL, 50, "aten::mul")(ADD, 20, "aten::add")(NATIVE, 100)
    found, gain = found_by(unfused_elementwise, run, tmp_path)
    assert found is not None
    assert found.cost_ns == 200_000
    told = numbers(found)
    assert (told["chains"], told["of the time of kernels"]) == (2, 0.5)
    assert gain is not None
    assert gain.low_ns == pytest.approx(50_000, rel=1e-3)
    assert gain.high_ns == pytest.approx(100_000, rel=1e-3)


def test_long_chains_are_told_though_little_is_memory_bound(tmp_path: Path) -> None:
    """Six kernels of 10 µs beside 940: 6 %, of which 50 µs are saved at best."""
    run = Run()(NATIVE, 470)
    for _ in range(6):
        run(MUL, 10, "aten::mul")
    found, gain = found_by(unfused_elementwise, run(NATIVE, 470), tmp_path)
    assert found is not None
    assert found.cost_ns == 60_000
    assert gain is not None
    assert gain.high_ns == pytest.approx(50_000, rel=1e-3)


def test_kernels_on_their_own_and_compiled_ones_are_no_chain(tmp_path: Path) -> None:
    run = Run()
    for _ in range(3):
        run(ADD, 50, "aten::add")(NATIVE, 50)(TRITON, 30, "triton")(TRITON, 30, "triton")(NATIVE, 50)
    assert found_by(unfused_elementwise, run, tmp_path) == (None, None)


def test_the_optimizer_has_a_rule_of_its_own(tmp_path: Path) -> None:
    run = Run()(NATIVE, 100)(ADD, 50, "aten::add")(MUL, 50, "aten::mul")
    run.file.host("Optimizer.step#SGD.step", 9, 100)
    assert found_by(unfused_elementwise, run, tmp_path) == (None, None)


def test_thresholds_of_a_training_are_higher(tmp_path: Path) -> None:
    """22 % of the time: enough in an inference, not beside a backward."""
    run = Run()(NATIVE, 780)(ADD, 110, "aten::add")(MUL, 110, "aten::mul")
    (tmp_path / "a").mkdir()
    assert found_by(unfused_elementwise, run, tmp_path / "a")[0] is not None
    run.file.host("autograd::engine::evaluate_function: MulBackward0", 100, 1, cat="cpu_op")
    assert found_by(unfused_elementwise, run, tmp_path) == (None, None)


def test_attention_and_copies_are_left_out(tmp_path: Path) -> None:
    run = forward(forward(Run()))
    run(ADD, 100, "aten::add")(COPY, 300, "aten::copy_", [[64], [64]], [BF16, FP32])(MUL, 100, "aten::mul")
    found, _ = found_by(unfused_elementwise, run(NATIVE, 10)(ADD, 40, "aten::add")(MUL, 30, "aten::mul"), tmp_path)
    assert found is not None
    assert found.cost_ns == 70_000  # the copy is told elsewhere, and what it parts does not follow each other
    assert "(attention's and copies left out)" in found.sentence


# --- 31 and 32: copies --------------------------------------------------------------------------------------------


def test_casts_are_told_by_operator_and_dtypes(tmp_path: Path) -> None:
    run = Run()(NATIVE, 500)(COPY, 60, "aten::copy_", [[64], [64], []], [BF16, FP32, "Scalar"])
    run(COPY, 40, "aten::clone", [[64]])(NATIVE, 100)
    found, gain = found_by(casts_and_copies, run, tmp_path)
    assert found is not None
    assert found.cost_ns == 100_000
    assert "aten::copy_ from FP32 to BF16 (60 % of it)" in found.sentence
    assert numbers(found)["of it, from one dtype to another"] == 60_000
    assert gain is not None
    assert gain.method == "bound"
    assert gain.high_ns == pytest.approx(100_000, rel=1e-3)


def test_few_copies_and_those_of_fsdp_are_no_finding(tmp_path: Path) -> None:
    run = Run()(NATIVE, 900)(COPY, 50, "aten::copy_", [[64], [64]], [BF16, FP32])
    run(COPY, 500, "fsdp::split_with_sizes_copy")
    assert found_by(casts_and_copies, run, tmp_path) == (None, None)


def test_transforms_of_layout_around_convolutions(tmp_path: Path) -> None:
    run = Run(A100)(NHWC, 20, "aten::cudnn_convolution")(CONV, 200, "aten::cudnn_convolution")
    run("void cuda::batched_transpose<512, 128>(int)", 10, "aten::convolution_backward")
    run("void cuda::batched_transpose<512, 128>(int)", 10, "aten::contiguous")
    found, gain = found_by(layout_transforms, run, tmp_path)
    assert found is not None
    assert found.cost_ns == 30_000
    assert gain is not None
    assert gain.high_ns == pytest.approx(30_000, rel=1e-3)


def test_few_transforms_of_layout_are_no_finding(tmp_path: Path) -> None:
    run = Run(A100)(NHWC, 20, "aten::cudnn_convolution")(CONV, 800, "aten::cudnn_convolution")
    assert found_by(layout_transforms, run, tmp_path) == (None, None)


# --- 33: the forward again in the backward ------------------------------------------------------------------------


def checkpointed(*, dims: Any = ((64, 64), (64, 64)), memory: float | None = None, node: str = "Mul",
                 sequence: int | None = 7) -> Run:  # fmt: skip
    """A forward of 100 µs; in the backward's thread it runs again (100), then the backward (200)."""
    run = Run()
    run(NATIVE, 100, "aten::mm", [[64, 64], [64, 64]], **{"Sequence number": 1, "Fwd thread id": 0})
    begin = run.host
    numbered = {} if sequence is None else {"Sequence number": sequence, "Fwd thread id": 0}
    run(NATIVE, 100, "aten::mm", dims, tid=2, **numbered)
    run(NATIVE, 200, "aten::mm", [[64, 64], [64, 64]], tid=2)
    engine = "autograd::engine::evaluate_function: "
    run.file.host(f"{engine}{node}Backward0", begin - 1, 30, cat="cpu_op", tid=2)
    run.file.host(f"{engine}MmBackward0", begin + 9.5, 9, cat="cpu_op", tid=2)
    if memory is not None:
        taken = int(memory * (1 << 36))
        for at, size in ((0, taken), (25, -taken)):
            run.file.events.append(
                {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": at,
                 "args": {"Device Type": 1, "Device Id": 0, "Addr": 64, "Bytes": size, "Total Allocated": max(size, 0),
                          "Total Reserved": taken}}
            )  # fmt: skip
    return run


@pytest.mark.parametrize(("node", "sequence"), [("Mul", 7), ("CheckpointFunction", None)])
def test_the_forward_again_in_the_backward(node: str, sequence: int | None, tmp_path: Path) -> None:
    """100 of 400 µs; half of it by a selective checkpoint. Sequence numbers tell it, or a checkpoint's node."""
    found, gain = found_by(recomputation, checkpointed(node=node, sequence=sequence), tmp_path)
    assert found is not None
    assert found.cost_ns == 100_000
    assert "25.0 % of the time" in found.sentence
    assert found.confidence == "medium"
    assert gain is not None
    assert gain.low_ns == pytest.approx(50_000, rel=1e-3)
    assert gain.high_ns == pytest.approx(100_000, rel=1e-3)


@pytest.mark.parametrize(("memory", "confidence"), [(0.5, "high"), (0.9, None)])
def test_memory_decides(memory: float, confidence: str | None, tmp_path: Path) -> None:
    found, _ = found_by(recomputation, checkpointed(memory=memory), tmp_path)
    assert (found and found.confidence) == confidence


def test_a_backward_that_is_differentiated_again_is_none(tmp_path: Path) -> None:
    """What has sequence numbers of its own in the backward has sizes that no forward had."""
    assert found_by(recomputation, checkpointed(dims=((64, 128), (128, 64))), tmp_path) == (None, None)
