"""What names of kernels tell of how they compute: real spellings, and ones that deceive."""

from __future__ import annotations

import re
import tomllib

import polars as pl
import pytest

from weftrace.analysis.efficiency.peaks import over_peak_sentence, peak_of
from weftrace.analysis.efficiency.precision import (
    PRECISION_SCHEMA,
    RULES,
    KernelPrecision,
    is_older,
    kernel_precision,
    precision_of,
)
from weftrace.facts import DTYPES, hardware

FA3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
    "flash::CollectiveMainloopFwdSm90<{i}2, cute::tuple<cute::C<{i}1>, cute::C<{i}1>, cute::C<{i}1> >, "
    "cute::tuple<cute::C<{i}128>, cute::C<{i}176>, cute::C<{i}128> >, {i}128, cutlass::bfloat16_t, float, "
    "cutlass::arch::Sm90, false> > > >(T1)"
)
TOLD = {
    # cuBLAS before Hopper: the first type is the result's; s1688 alone is TF32, with a type beside it that type
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x3_tn": ("bf16", True, (128, 128, 32), "sm80"),
    "ampere_bf16_s1688gemm_bf16_128x64_ldg8_f2f_tn": ("bf16", True, (128, 64, None), "sm80"),
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn": ("fp16", True, (128, 128, None), "sm75"),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4>(...)": (
        "tf32", True, (128, 256, 16), "sm80",
    ),
    "cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1": ("bf16", True, (256, 128, None), "sm75"),
    "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8": ("bf16", True, (32, 32, 128), "sm80"),
    "cutlass_80_tensorop_i16832gemm_s8_128x256_128x3_tn_align16": ("int8", True, (128, 256, 128), "sm80"),
    "cutlass_80_tensorop_d884gemm_64x128_16x3_nn_align1": ("fp64", True, (64, 128, 16), "sm80"),
    "volta_h884gemm_128x256_ldg8_nn": ("fp16", True, (128, 256, None), "sm70"),
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn": ("fp16", True, (128, 64, None), "sm70"),
    "ampere_sgemm_128x64_nn": ("fp32", False, (128, 64, None), "sm80"),
    "volta_sgemm_64x32_sliced1x4_nn": ("fp32", False, (64, 32, None), "sm70"),
    "volta_dgemm_64x64_nn": ("fp64", False, (64, 64, None), "sm70"),
    # xmma: what is stored comes first, what multiplies second
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x16_stage6_warpsize2x2x1_tensor16x8x8": (
        "tf32", True, (128, 64, 16), "sm80",
    ),
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_execute_kernel__5x_cublas": (
        "fp32", False, (64, 256, 8), "sm80",
    ),
    "sm90_xmma_gemm_bf16f32_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel": (
        "bf16", True, (128, 128, 64), "sm90",
    ),
    "sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64_stage3": ("fp8", True, (128, 128, 64), "sm89"),
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4": (
        "tf32", True, (128, 128, 16), "sm80",
    ),
    # nvjet
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN": ("bf16", True, (192, 192, 64), None),
    "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT": ("fp16", True, (256, 128, 64), None),
    "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT": ("fp8", True, (128, 256, 128), None),
    "nvjet_sm100_tst_384x32_64x4_2x1_2cta_v_bz_TNT": ("bf16", True, (384, 32, 64), "sm100"),
    "nvjet_sm100_ootst_128x128_256x4_2x1_v_bz_TNT": ("fp4", True, (128, 128, 256), "sm100"),
    "nvjet_sss_tf32_128x256_TNT": ("tf32", True, None, None),
    # convolutions
    "cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4": ("tf32", True, (128, 128, 16), None),
    "cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1": ("fp32", False, (128, 64, None), "sm70"),
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": ("fp32", False, None, "sm70"),
    "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5>(int)": ("fp32", False, None, None),
    # attention: head dimension first in FlashAttention 2; cuDNN's f16 is BF16 too
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 32, 4, false, false, cutlass::bfloat16_t> >(P)": (
        "bf16", True, (128, 32, 64), None,
    ),
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64, (int)128, (int)32, cutlass::half_t>>(P)": (
        "fp16", True, (128, 32, 64), None,
    ),
    "void flash_fwd_kernel<Flash_fwd_kernel_traits": (None, True, None, None),
    FA3.format(i=""): ("bf16", True, (128, 176, 128), "sm90"),
    FA3.format(i="(int)"): ("bf16", True, (128, 176, 128), "sm90"),
    "void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<64> >, cutlass::bfloat16_t> >": (
        None, False, None, None,
    ),
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80": ("bf16", True, (64, 128, None), "sm80"),
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80": ("tf32", True, (64, 64, None), "sm80"),
    "fmha_cutlassF_f32_aligned_64x64_rf_sm75": ("fp32", False, (64, 64, None), "sm75"),
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1": (
        None, True, (64, 128, 128), "sm90",
    ),
    # CUTLASS 3, DeepGEMM, weights of few bits
    "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 112u, 128u, 1u>(x)": ("fp8", True, (128, 112, 128), None),
    "void deep_gemm::sm90_bf16_gemm_impl<0u>(x)": ("bf16", True, None, "sm90"),
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>, cutlass::float_e4m3_t, "
    "cutlass::bfloat16_t> >": ("fp8", True, None, None),
    "void marlin::Marlin<1125899906909960l, 1125899907892224l>(x)": (None, True, None, None),
    # AMD
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT160x256x64_MI16x16x1_SN_ISA942_IU1": (
        "bf16", True, (160, 256, 64), "gfx942",
    ),
    "Cijk_Alik_Bljk_B_BS_BH_Bias_UserArgs_MT16x16x128_MI16x16x1_SN_ISA942_": ("bf16", True, (16, 16, 128), "gfx942"),
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_1LDSB0": ("fp16", True, (128, 128, 16), None),
    "Cijk_Ailk_Bjlk_SB_Bias_AS_UserArgs_MT64x16x16_MI16x16x1_SN_ISA90a_": ("fp32", True, (64, 16, 16), "gfx90a"),
    "Cijk_Alik_Bljk_S_MX_B_Bias_AS_UserArgs_MT192x16x64_MI16x16x1_SN_": ("tf32", True, (192, 16, 64), None),
    "Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x16_SN_LDSB0": ("fp32", False, (16, 16, 16), None),
    "Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_UserArgs_MT256": ("fp8", None, None, None),
    "Custom_Cijk_Alik_Bljk_F8B8BS_BH_MT256x256x128_MI16x16x1_SN_shortname1": ("fp8", True, (256, 256, 128), None),
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4_ws1x1": ("bf16", True, (256, 64, 8), None),
    "_ZN5aiter24bf16gemm_bf16_tn_256x256E.kd": ("bf16", True, None, None),
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": ("bf16", True, (16, 128, 256), None),
    # what multiplies nothing, and what does not tell
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >(int)": (
        None, False, None, None,
    ),
    "void at::native::elementwise_kernel<128, 2, at::native::bf16_gemm_like>(int)": (None, False, None, None),
    "void fbgemm_gpu::permute_2D_data_kernel<false, int>(int)": (None, False, None, None),
    "Memcpy HtoD (Pageable -> Device)": (None, False, None, None),
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (None, False, None, None),
    "gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128>": (None, False, None, None),
    "triton_poi_fused_add_cos_sin_0": (None, False, None, None),
    "triton_tem_fused_mm_0": (None, None, None, None),
    "triton_red_fused_native_layer_norm_3": (None, None, None, None),
    "fused_norm_bf16_gemm_kernel": (None, None, None, None),  # made: a norm that holds a product
    "my_bf16_tf32_fp8_kernel": (None, None, None, None),
    "": (None, None, None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_a_name_tells(name: str) -> None:
    found = precision_of(name)
    assert (found.dtype, found.tensor_cores, found.tile, found.architecture) == TOLD[name]
    assert found.split_k is found.sparse is False


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "sm80_xmma_sparse_gemm_f16f16_f16f32_f32_tt_t_tilesize128x128x64_stage3_sptensor16x8x32_execute_kernel_5x",
            KernelPrecision(dtype="fp16", tensor_cores=True, tile=(128, 128, 64), sparse=True, architecture="sm80"),
        ),
        (
            "cutlass3x_sm90_sptensorop_s64x256x64spgemm_e4m3_e4m3_f32_bf16_bf16_128x256x128_2x1x1_0_tnt_align32",
            KernelPrecision(dtype="fp8", tensor_cores=True, tile=(128, 256, 128), sparse=True, architecture="sm90"),
        ),
        (
            "nvjet_hsh_32x64_64x16_4x1_v_bz_splitK_TNN",
            KernelPrecision(dtype="fp16", tensor_cores=True, tile=(32, 64, 64), split_k=True),
        ),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_ffma_execute_split_k_kernel__5x_cublas",
            KernelPrecision(dtype="fp32", tensor_cores=False, tile=(64, 256, 8), split_k=True, architecture="sm80"),
        ),
        (
            "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(x)",
            KernelPrecision(tensor_cores=False, split_k=True),
        ),
        ("Cijk_SS_BiasS_HAS_ScaleAlphaVec_PostGSU4_VW2", KernelPrecision(tensor_cores=False, split_k=True)),
        # parts of the keys, not of the depth
        ("void flash::flash_fwd_splitkv_kernel<x>(y)", KernelPrecision(tensor_cores=True)),
    ],
)
def test_split_k_and_sparsity(name: str, told: KernelPrecision) -> None:
    assert precision_of(name) == told


def test_rows_follow_the_names_that_were_given() -> None:
    names = pl.Series(["ampere_sgemm_32x32_tn", None, "nothing", "ampere_sgemm_32x32_tn"], dtype=pl.Categorical)
    frame = kernel_precision(names)
    assert dict(frame.schema) == PRECISION_SCHEMA
    assert frame.get_column("dtype").to_list() == ["fp32", None, None, "fp32"]
    assert frame.get_column("split_k").to_list() == [False] * 4
    assert kernel_precision(pl.Series([], dtype=pl.String)).is_empty()


def test_every_rule_is_whole() -> None:
    for rule in tomllib.loads(RULES.read_text("utf-8"))["rule"]:
        assert rule["source"].strip(), rule
        assert rule["tells"] in ("precision", "tile", "split_k", "sparse", "architecture")
        assert set(rule) <= {"tells", "match", "source", "dtype", "tensor_cores", "value"}
        groups = re.compile(rule["match"]).groups
        if isinstance(told := rule.get("dtype", rule.get("value", "")), dict) or "{}" in told:
            assert groups == 1, rule
        dtypes = rule.get("dtype", {})
        assert set(dtypes.values() if isinstance(dtypes, dict) else [dtypes]) <= set(DTYPES)


def test_older_architectures() -> None:
    assert is_older("sm80", (9, 0))
    assert is_older("sm75", (8, 6))
    assert not is_older("sm80", (8, 6))
    assert not is_older("sm100", (9, 0))
    assert not is_older("gfx90a", (9, 4))
    assert not is_older(None, (9, 0))
    assert not is_older("sm80", None)


A100 = hardware("A100")


@pytest.mark.parametrize(
    ("stored", "kernel", "tensor", "sparse", "dtype", "flops_per_s"),
    [
        ("fp32", "tf32", True, False, "tf32", 156e12),
        ("fp32", None, None, False, "fp32", 19.5e12),
        ("fp32", "fp32", False, False, "fp32", 19.5e12),
        ("bf16", "bf16", True, False, "bf16", 312e12),
        ("bf16", None, None, False, "bf16", 312e12),
        ("bf16", None, False, False, "fp32", 19.5e12),  # gemv: on CUDA cores
        ("fp16", "fp16", True, True, "fp16", 624e12),
        ("fp64", None, False, False, "fp64", 19.5e12),
    ],
)
def test_the_peak_of_what_computes(
    stored: str, kernel: str | None, tensor: bool | None, sparse: bool, dtype: str, flops_per_s: float
) -> None:
    peak = peak_of(stored, kernel, tensor, A100, sparse=sparse)
    assert (peak.dtype, peak.flops_per_s) == (dtype, flops_per_s)
    assert ("2:4" in peak.note) == sparse


def test_a_peak_that_the_chip_lacks_says_what_is_used_instead() -> None:
    assert "is used instead" in peak_of("fp8", "fp8", True, A100).note


def test_a_rate_above_its_peak_has_its_sentence() -> None:
    fp32, bf16 = peak_of("fp32", None, None, A100), peak_of("bf16", "bf16", True, A100)
    assert over_peak_sentence(19.5e12, fp32, A100, stored_dtype="fp32") == ""
    assert over_peak_sentence(46.8e12, fp32, A100, stored_dtype="fp32") == (
        "FP32 products at 2.4 times the FP32 peak of A100 SXM 80GB (19.5 TFLOP/s): they ran as TF32, though no "
        "kernel's name says so, or the accelerator is another."
    )
    # TF32 does not explain it, or the name says that it is FP32
    for rate, kernel in ((160e12, None), (46.8e12, "fp32")):
        assert "dtype, the clock or the accelerator is wrong" in over_peak_sentence(
            rate, fp32, A100, stored_dtype="fp32", kernel_dtype=kernel
        )
    told = over_peak_sentence(313e12, bf16, A100, stored_dtype="bf16", kernel_dtype="bf16")
    assert told.startswith("BF16 products above the BF16 peak of A100")
