"""Names that mean the same have one key by a rule that is told; names of other kernels never do."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from weftrace.comparison.alignment.name_rules import KERNEL_RULES, PHASE_RULES, NameRule, keys_of

CUTLASS = "void cutlass::Kernel2<cutlass_80_{0}>(cutlass_80_{0}::Params)"
TENSILE = "Cijk_{0}_UserArgs_MT{1}_MI16x16x1_SN_LDSB1_AFC1_GRVWA{2}_GSUAMB_ISA{3}_IU1_K1_MIWT1_1_WG64_4_1"
FLASH = "void flash_{0}_kernel<Flash_{0}_traits<{1}, 128, cutlass::{2}>, {3}, false>(Flash_{0}_params)"
LAMBDA = (
    "void at::native::elementwise_kernel<128, 4, at::native::copy_kernel(){{lambda()#{0}}}::{{lambda({1})#1}}>(int)"
)
CK = "_ZN7ck_tile6kentryILi{0}ENS_12Rmsnorm2dFwdIDF16bELNS_21Rmsnorm2dFusedAddEnumE{1}EEEEvT0_"

#: rule, a name, the other
SAME = [
    ("compile number", "triton_poi_fused_add_3", "triton_poi_fused_add_7"),
    ("compile number", "triton_tem_fused_mm_12", "triton_tem_fused_mm_4"),
    ("compile hash", "_fwd_kernel_0d1d2d34d5de", "_fwd_kernel_0d1d2d3de45d"),
    ("compile hash", "void at::native::_GLOBAL__N__8c9e9aa4_21_A_cu_9978a9c4_1::f<int>(int)",
     "void at::native::(anonymous namespace)::f<int>(int)"),
    ("compile hash", "_ZN5aiter24bf16gemm_bf16_tn_256x256E.kd", "_ZN5aiter24bf16gemm_bf16_tn_256x256E"),
    ("compile hash", "attn_fwd [clone .kd]", "attn_fwd"),
    ("template arguments", "void unrolled<Fill<bool>, at::detail::Array<char*, 1>, Offsets<1, unsigned int> >(int)",
     "void unrolled<Fill<bool>, std::array<char*, 1ul>, 4, Offsets<1, unsigned int> >(int)"),
    ("compile hash", "cutlass_fbe8f37a_kernel", "cutlass_0aa1c2d3_kernel"),
    ("tile sizes", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NTT"),
    ("tile sizes", "nvjet_sm100_tst_64x8_64x16_2x4_h_bz_splitK_TNT", "nvjet_sm100_tst_128x8_64x12_2x1_2cta_v_bz_TNT"),
    ("tile sizes", CUTLASS.format("tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"),
     CUTLASS.format("tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8")),
    ("tile sizes", "cutlass3x_sm90_tensorop_s64x256x16gemm_bf16_bf16_f32_bf16_bf16_128x256x64_2x1x1_0_tnn_align8",
     "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_128x128x64_1x2x1_3_tnn_align4"),
    ("tile sizes", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_5x_cublas",
     "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1_5x_cublas"),
    ("tile sizes", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn",
     "ampere_bf16_s16816gemm_bf16_256x64_ldg8_f2f_stages_32x4_nn"),
    ("tile sizes", TENSILE.format("Alik_Bljk_BBS_BH_Bias", "32x32x256", 8, "942"),
     TENSILE.format("Alik_Bljk_BBS_BH_Bias", "448x32x64", 2, "942")),
    ("tile sizes", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "_matmul_ogs_NNT_bf16xbf16xmxfp4_64x128x128x1"),
    ("tile sizes", "bmm_Bfloat16_E2m1E2m1_Fp32_bA16_bB16_bC16_t128x8x256u2_s6_et128x8_m128x8x16",
     "bmm_Bfloat16_E2m1E2m1_Fp32_bA16_bB16_bC16_t128x64x256u2_s6_et128x64_m128x64x16"),
    ("template numbers", "void deep_gemm::fp8_gemm_kernel<2112u, 7168u, 64u, true, (deep_gemm::GemmType)0>(int)",
     "void deep_gemm::fp8_gemm_kernel<4096u, 512u, 128u, true, (deep_gemm::GemmType)0>(int)"),
    ("template numbers", "void reduce_kernel<512, 1, ReduceOp<float, Sum<float>, unsigned int, float, 4> >(int)",
     "void reduce_kernel<512, 1, ReduceOp<float, Sum<float>, unsigned int, float, 4, 4> >(int)"),
    ("template numbers", FLASH.format("fwd", "64", "half_t", "true"), FLASH.format("fwd", "128", "half_t", "true")),
    ("template numbers", CK.format(1, 1), CK.format(4, 1)),
    ("template arguments", FLASH.format("fwd", "64", "half_t", "true"), FLASH.format("fwd", "64", "half_t", "false")),
    ("template arguments", LAMBDA.format(2, "float"), LAMBDA.format(3, "float")),
    ("template numbers", "void f<4, at::native::Add<float>, at::detail::Array<char*, 3> >(int)",
     "void f<8, at::native::Add<float>, std::array<char*, 3ul> >(int)"),
]  # fmt: skip

#: One kernel and another: another operation, type, layout, architecture, epilogue, direction.
OTHER = [
    ("triton_poi_fused_add_3", "triton_poi_fused_mul_3"),
    ("triton_poi_fused_add_3", "triton_red_fused_add_3"),
    ("triton_1", "triton_2"),
    ("main_kernel_1", "main_kernel_2"),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT"),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", "nvjet_sm100_tst_128x256_64x4_1x2_h_bz_coopA_NTT"),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_bias_NTT"),
    (CUTLASS.format("tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"),
     CUTLASS.format("tensorop_f16_s16816gemm_f16_256x128_64x3_tn_align2")),
    (CUTLASS.format("tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"),
     CUTLASS.format("tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align2")),
    (CUTLASS.format("tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"),
     CUTLASS.format("tensorop_bf16_s16816gemm_bf16_256x128_64x3_nn_align2")),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8", "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8"),
    (TENSILE.format("Alik_Bljk_BBS", "16x16x4", 8, "942"), TENSILE.format("Alik_Bljk_HHS", "16x16x4", 8, "942")),
    (TENSILE.format("Alik_Bljk_BBS", "16x16x4", 8, "942"), TENSILE.format("Ailk_Bljk_BBS", "16x16x4", 8, "942")),
    (TENSILE.format("Alik_Bljk_BBS", "16x16x4", 8, "942"), TENSILE.format("Alik_Bljk_BBS", "16x16x4", 8, "90a")),
    (FLASH.format("fwd", "64", "bfloat16_t", "true"), FLASH.format("bwd", "64", "bfloat16_t", "true")),
    (FLASH.format("fwd", "64", "bfloat16_t", "true"), FLASH.format("fwd", "64", "half_t", "true")),
    (LAMBDA.format(2, "float"), LAMBDA.format(2, "c10::BFloat16")),
    (CK.format(1, 1), CK.format(1, 0)),
    ("void deep_gemm::fp8_gemm_kernel<64u, (deep_gemm::GemmType)0>(int)",
     "void deep_gemm::fp8_gemm_kernel<64u, (deep_gemm::GemmType)1>(int)"),
    ("void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256>(int)",
     "void marlin::Marlin<__nv_bfloat16, 2814749767172868l, 256>(int)"),
    ("void f<4, at::native::Add<float> >(int)", "void f<4, at::native::Mul<float> >(int)"),
    ("void cast<__nv_fp8x2_e4m3, 128>(int)", "void cast<__nv_fp8x2_e5m2, 128>(int)"),
    ("void f<128, at::native::OpaqueType<4> >(int)", "void f<128, at::native::OpaqueType<2> >(int)"),
    ("void copy<fp8x4>(int)", "void copy<fp16x4>(int)"),
    ("void foo(float*, int)", "void foo(half*, int)"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "ncclDevKernel_AllGather_RING_LL(x)"),
    ("attn_fwd", "attn_bwd"),
    ("kernel_unified_attention_2d", "kernel_unified_attention_3d"),
]  # fmt: skip


def first_rule(one: str, other: str, rules: tuple[NameRule, ...] = KERNEL_RULES) -> str | None:
    for rule, key, same in zip(rules, keys_of(one, rules), keys_of(other, rules), strict=True):
        if key == same:
            return rule.name
    return None


@pytest.mark.parametrize(("rule", "one", "other"), SAME)
def test_names_that_a_compiler_or_a_tuner_changed_have_one_key(rule: str, one: str, other: str) -> None:
    assert first_rule(one, other) == rule


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_operation_type_layout_or_architecture_has_another_key(one: str, other: str) -> None:
    assert first_rule(one, other) is None


DOCUMENTED = re.findall(
    r"^\| ([a-z ]+) \| .* \| `([^`]+)` → `([^`]+)` \|$", (ROOT / "docs" / "diff.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("rule", "one", "other"), DOCUMENTED)
def test_examples_of_the_docs_are_matched_by_the_rule_beside_them(rule: str, one: str, other: str) -> None:
    assert first_rule(one, other, PHASE_RULES if rule in ("numbers", "step number") else KERNEL_RULES) == rule


def test_every_rule_is_documented() -> None:
    assert [rule for rule, _, _ in DOCUMENTED] == [rule.name for rule in (*KERNEL_RULES, *PHASE_RULES[1:])]


@pytest.mark.parametrize(
    ("one", "other", "rule"),
    [
        ("iteration_5", "iteration_105", "step number"),
        ("Train Step #5", "Train Step #6", "step number"),
        ("conv1", "conv2", "numbers"),
        ("execute_32_context_0(sq0sk0)_generation_32(sq32sk55086)",
         "execute_8_context_1(sq9sk9)_generation_7(sq7sk900)", "numbers"),
        ("layer 12", "layer 13", None),
        ("layers.12.mlp", "layers.13.mlp", None),
        ("micro_batch 3 of step 5", "micro_batch 3 of step 9", "step number"),
        ("micro_batch 3 of step 5", "micro_batch 4 of step 9", None),
        ("fp8 gemm", "fp16 gemm", None),
        ("Optimizer.step#AdamW.step", "Optimizer.step#SGD.step", None),
    ],
)  # fmt: skip
def test_numbers_of_phases_are_taken_out_but_those_of_a_models_parts(one: str, other: str, rule: str | None) -> None:
    assert first_rule(one, other, PHASE_RULES) == rule
