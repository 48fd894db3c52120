"""Runs in which kernels only look as if a remedy helped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.efficiency.deceptions import BF16, FP32, H100, on, op
from tests.findings.rules.test_kernels import ADD, NATIVE, QK, SGEMM, SOFTMAX, TF32, Run, forward, found_by, numbers
from weftrace.advice.findings.advising import advise
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rules.clocks import slow_clocks
from weftrace.advice.findings.rules.fusion import unfused_attention, unfused_elementwise
from weftrace.advice.findings.rules.gemms import fp32_gemm
from weftrace.advice.findings.rules.optimizer import optimizer_step
from weftrace.advice.findings.rules.quality import warm_up_in_sample
from weftrace.trace import Trace, open_trace
from weftrace.trace.work import works_of

FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false> >(int)"

FUSED_ADAM = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >(int)"


# --- products in FP32 that faster units do not make faster ---------------------------------------------------------


def test_a_product_that_memory_bounds_gains_by_smaller_numbers_alone(tmp_path: Path) -> None:
    """A vector times 4096 x 11008: 180 MB in 60 µs are 90 % of 3.35 TB/s; TF32 moves the same, BF16 half."""
    found, gain = found_by(fp32_gemm, Run().product(SGEMM, 60, 1, 4096, 11008, FP32), tmp_path)
    assert found is not None
    assert gain is not None
    assert gain.low_ns < 500
    assert gain.high_ns == pytest.approx(30_000, rel=0.02)


def test_a_tiny_product_is_not_bound_by_arithmetic(tmp_path: Path) -> None:
    run = Run()
    for _ in range(5):
        run.product(SGEMM, 30, 64, 64, 64, FP32)
    assert found_by(fp32_gemm, run, tmp_path) == (None, None)


def test_shapes_that_cannot_be_tell_no_gain(tmp_path: Path) -> None:
    """Others would run at 139 % of the peak."""
    run = Run().product(SGEMM, 300, 2048, 2048, 2048, FP32).product(NATIVE, 400, 8192, 8192, 4096)
    found, gain = found_by(fp32_gemm, run, tmp_path)
    assert found is not None
    assert "cannot be right" in found.not_told
    assert (found.confidence, gain) == ("medium", None)


def test_peaks_alone_are_believed_less(tmp_path: Path) -> None:
    found, _ = found_by(fp32_gemm, Run()(SGEMM, 1_000, "aten::mm"), tmp_path)
    assert found is not None
    assert found.confidence == "medium"
    assert "100.0 % of the recording" in found.sentence


# --- softmaxes between products that are no attention ---------------------------------------------------------------


def test_a_router_between_batched_experts_is_no_attention(tmp_path: Path) -> None:
    """The gates are over 8 experts: the products have 8 batches, and no such matrix."""
    run = Run()
    for _ in range(3):
        run(NATIVE, 100, "aten::bmm", [[8, 512, 1024], [8, 1024, 2048]])
        run(SOFTMAX, 60, "aten::_softmax", [[4096, 8], [], []])
        run(NATIVE, 100, "aten::bmm", [[8, 512, 2048], [8, 2048, 1024]])
    assert found_by(unfused_attention, run, tmp_path) == (None, None)


def test_beside_fused_attention_only_sizes_prove_another(tmp_path: Path) -> None:
    run = Run()(FLASH, 100, "aten::_flash_attention_forward")
    for _ in range(2):
        run(NATIVE, 100, "aten::bmm")(SOFTMAX, 60, "aten::softmax")(NATIVE, 100, "aten::bmm")
    (tmp_path / "a").mkdir()
    assert found_by(unfused_attention, run, tmp_path / "a") == (None, None)
    found, _ = found_by(unfused_attention, forward(forward(run)), tmp_path)
    assert numbers(found)["softmaxes"] == 2


def test_a_sink_beside_the_scores_is_attention(tmp_path: Path) -> None:
    run = Run()
    for _ in range(2):
        run(NATIVE, 10, "aten::bmm", QK)(SOFTMAX, 50, "aten::_softmax", [[16, 512, 513]])
        run(NATIVE, 10, "aten::bmm", [[16, 512, 512], [16, 512, 64]])
    found, _ = found_by(unfused_attention, run, tmp_path)
    assert numbers(found)["softmaxes"] == 2


# --- kernels that follow each other and cannot be one -----------------------------------------------------------------


def test_kernels_whose_sizes_do_not_follow_are_no_chain(tmp_path: Path) -> None:
    """Updates of tensors that all differ, and the same kernels on one tensor, seen once as another shape."""
    run = Run()
    for at in range(1, 8):
        run(ADD, 60, "aten::lerp_", [[100 * at, 64], [100 * at, 64]])
    (tmp_path / "a").mkdir()
    assert found_by(unfused_elementwise, run, tmp_path / "a") == (None, None)
    run(NATIVE, 10)
    for shape in ([100, 64], [6400], [100, 64]):
        run(ADD, 60, "aten::add", [shape, [64]])
    found, _ = found_by(unfused_elementwise, run, tmp_path)
    assert found is not None
    assert found.cost_ns == 180_000


def test_kernels_that_are_fused_are_left_alone(tmp_path: Path) -> None:
    run = Run()
    for _ in range(3):
        run(NATIVE, 50)
        for kernel in ("_layer_norm_forward_kernel", "_swiglu_forward_kernel", "fused_rotary_embedding_kernel"):
            run(kernel, 30, "LigerOp")
    assert found_by(unfused_elementwise, run, tmp_path) == (None, None)


# --- steps of an optimizer -------------------------------------------------------------------------------------------


def test_a_step_that_evaluates_the_model_is_not_the_optimizers_work(tmp_path: Path) -> None:
    run = Run()
    for _ in range(150):
        run(NATIVE, 5, "aten::linear")
    run.file.host("Optimizer.step#LBFGS.step", -1, run.host)
    assert found_by(optimizer_step, run, tmp_path) == (None, None)


def test_a_fused_step_in_which_the_host_is_slow_is_not_to_be_fused(tmp_path: Path) -> None:
    """The device is done at 200 µs, the host launches the update at 2,100: no kernels to put together."""
    file = on(H100)
    for at in range(2):
        op(file, "aten::mm", 3_000 * at, [], BF16, dur=8)
        file.kernel(NATIVE, 3_000 * at + 10, 190, launch=3_000 * at + 2)
        op(file, "aten::sqrt", 3_000 * at + 100, [], BF16, dur=1_900)
        op(file, "aten::_fused_adamw_", 3_000 * at + 2_090, [], BF16, dur=20)
        file.kernel(FUSED_ADAM, 3_000 * at + 2_110, 300, launch=3_000 * at + 2_100)
        file.host("Optimizer.step#AdamW.step", 3_000 * at + 90, 2_030)
    trace = open_trace(file.write(tmp_path / "trace.json"))
    assert isinstance(trace, Trace)
    found = next(each for each in advise(trace).losses if each.rule == "optimizer-step")
    assert "though its kernels are fused" in found.sentence
    assert found.remedy is not None
    assert (found.remedy.switch, found.others, found.confidence) == ("", (), "medium")


# --- steps that differ in their work -------------------------------------------------------------------------------


def steps(folder: Path, kernels: Callable[[int], Iterable[tuple[str, float, Any]]], *, beside: int = 9) -> Evidence:
    """Six steps of kernels (name, µs, sizes of a product), back to back; a transfer runs beside all from one on."""
    file, host, device = on(H100), 0.0, 100_000.0
    for step in range(6):
        begin, since = host, device
        for name, took, dims in kernels(step):
            op(file, "aten::mm", host, dims, BF16, dur=8)
            file.kernel(name, device, took, launch=host + 2)
            host, device = host + 10, device + took
        file.host(f"ProfilerStep#{step}", begin, host - begin)
        if step >= beside:
            file.kernel(
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", since, device - since, stream=20, launch=begin
            )
    trace = open_trace(file.write(folder / "trace.json"))
    assert isinstance(trace, Trace)
    (work,) = works_of(trace)
    return Evidence(work=work)


@pytest.mark.parametrize(
    ("num", "took", "size", "is_found"),
    [(20, 200, 64, False), (10, 400, 128, False), (10, 400, 64, True)],
    ids=["more kernels", "larger shapes", "the same, slower"],
)
def test_a_first_step_of_more_work_is_no_warm_up(
    num: int, took: float, size: int, is_found: bool, tmp_path: Path
) -> None:
    def kernels(step: int) -> list[tuple[str, float, Any]]:
        if step:
            return [(NATIVE, 200, [[64, 64], [64, 64]])] * 10
        return [(NATIVE, took, [[size, 64], [64, 64]])] * num

    assert bool(list(warm_up_in_sample(steps(tmp_path, kernels)))) == is_found


def of_factors(*factors: float, sizes: bool = False) -> Callable[[int], list[tuple[str, float, Any]]]:
    """Products and a softmax of each step as many times as long; sizes: that grow as well."""

    def kernels(step: int) -> list[tuple[str, float, Any]]:
        dims = [[round(100 * factors[step]), 64], [64, 64]] if sizes else []
        return [(name, 200 * factors[step], dims) for name in (NATIVE, SOFTMAX, ADD)] * 5

    return kernels


def test_larger_shapes_are_no_lower_clocks(tmp_path: Path) -> None:
    assert not list(slow_clocks(steps(tmp_path, of_factors(1, 1, 1, 1.2, 1.2, 1.2, sizes=True))))


def test_communication_beside_is_no_lower_clock(tmp_path: Path) -> None:
    slower = of_factors(1, 1, 1, 1.2, 1.2, 1.2)
    (tmp_path / "a").mkdir()
    (found,) = slow_clocks(steps(tmp_path / "a", slower))
    assert isinstance(found, Found)
    assert "From step 3 on" in found.sentence
    assert not list(slow_clocks(steps(tmp_path, slower, beside=3)))


def test_a_steady_rise_is_a_guess(tmp_path: Path) -> None:
    (found,) = slow_clocks(steps(tmp_path, of_factors(1, 1.1, 1.2, 1.3, 1.4, 1.5)))
    assert isinstance(found, Found)
    assert "from step to step" in found.sentence
    assert found.confidence == "low"
    assert len(found.sentence) <= 170


# --- a guess is no headline ----------------------------------------------------------------------------------------


def test_a_guess_without_a_gain_is_no_headline(tmp_path: Path) -> None:
    """Kernels of another generation, all of the time, and nothing that shows what newer ones reach."""
    run = Run()
    for _ in range(3):
        run(TF32, 100)
    report = advise(run.evidence(tmp_path).trace)
    (guess,) = report.losses
    assert (guess.rule, guess.confidence, guess.gain) == ("old-gemm-kernels", "low", None)
    assert guess.value_ns == guess.cost_ns / 16
    assert report.headline == "Nothing that the rules look for is surely worth a change here."
