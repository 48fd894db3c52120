"""Kernel classes, on names as profilers write them, and on every kernel of the real traces."""

from __future__ import annotations

import gzip
import json
import re
import time
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, shared_data_folder
from tests.fuzz import examples, few
from weftrace.errors import RulesError, WeftraceError
from weftrace.trace.kernels import (
    BUILT_IN,
    CLASS_SCHEMA,
    COLLECTIVES,
    KINDS,
    KernelRules,
    bus_factor,
    class_of_metadata,
    classify,
    load_rules,
)

DATA = shared_data_folder()
RULES = load_rules()


def table(text: str) -> list[list[str]]:
    """Rows of "a | b | name": a name may hold anything but a line's end."""
    num_columns = text.strip().splitlines()[0].count(" | ")
    return [[cell.strip() for cell in line.split(" | ", num_columns)] for line in text.strip().splitlines()]


#: family, collective, role, name. NCCL 2.4 to 2.28 and RCCL; DeepEP in all its spellings and its like; custom
#: all-reduce, symmetric memory, NVSHMEM, userbuffers; what the host calls them. As profilers and sources spell them,
#: parameters cut short. Made up: deep_ep::some_new_kernel, {reduce_scatter,all_to_all}_kernel, kernel_gemm_all_reduce.
COMMUNICATION = table(
    """
    simulated         | dispatch       | barrier | weftrace::sim::communication::notify_dispatch(F)
    simulated         | combine        | barrier | weftrace::sim::communication::notify_combine(B)
    simulated         | dispatch       | data    | weftrace::sim::communication::dispatch(B)
    simulated         | combine        | data    | weftrace::sim::communication::combine(F)
    simulated         | send_recv      | data    | weftrace::sim::communication::send_forward
    simulated         | send_recv      | data    | weftrace::sim::communication::ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)
    simulated         | all_reduce     | data    | weftrace::sim::communication::grads all-reduce
    simulated         | all_reduce     | data    | weftrace::sim::communication::ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    simulated         | reduce_scatter | data    | weftrace::sim::communication::reduce_scatter
    simulated         | all_gather     | data    | weftrace::sim::communication::AllGather
    simulated         | all_to_all     | data    | weftrace::sim::communication::alltoall
    simulated         | broadcast      | data    | weftrace::sim::communication::broadcast
    simulated         | barrier        | barrier | weftrace::sim::communication::barrier
    simulated         | -              | data    | weftrace::sim::communication::transfer
    nccl              | all_reduce     | data    | ncclAllReduceRingLLKernel_sum_f32(ncclColl)
    nccl              | broadcast      | data    | ncclBroadcastRingLLKernel_copy_i8(ncclColl)
    nccl              | reduce_scatter | data    | ncclReduceScatterRingLLKernel_sum_f16(ncclColl)
    nccl              | all_gather     | data    | ncclAllGatherRingLLKernel_copy_i8(ncclColl)
    nccl              | reduce         | data    | ncclReduceRingLLKernel_sum_f32(ncclColl)
    nccl              | send_recv      | data    | ncclSendRecvKernel_copy_i8(ncclColl)
    nccl              | send_recv      | data    | ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)
    nccl              | all_reduce     | data    | ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)
    nccl              | all_reduce     | data    | ncclKernel_AllReduce_TREE_LL128_Sum_half(ncclWorkElem)
    nccl              | all_gather     | data    | ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)
    nccl              | all_to_all     | data    | ncclKernel_AllToAllPivot_RING_SIMPLE_Sum_int8_t(ncclDevComm*)
    nccl              | all_reduce     | data    | ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    nccl              | all_reduce     | data    | ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)
    nccl              | all_reduce     | data    | ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevComm*, unsigned long, ncclWork*)
    nccl              | all_gather     | data    | ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    nccl              | reduce_scatter | data    | ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    nccl              | broadcast      | data    | ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    nccl              | reduce         | data    | ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)
    nccl              | send_recv      | data    | ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)
    nccl              | all_reduce     | data    | ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)
    nccl              | all_reduce     | data    | ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16
    nccl              | reduce_scatter | data    | ncclSymkDevKernel_ReduceScatter_RailA2A_LsaLD_sum_f16
    nccl              | all_gather     | data    | ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)
    nccl              | -              | data    | ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)
    nccl              | -              | data    | ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)
    msccl             | -              | data    | mscclKernel_Sum_hip_bfloat16_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)
    deepep            | dispatch       | barrier | void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*)
    deepep            | dispatch       | barrier | void dpsk::ep::internode::notify_dispatch<false, 8>(int const*, long*, int)
    deepep            | barrier        | barrier | void dpsk::ep::internode::cached_notify<false>(int, int, int, int, int*)
    deepep            | dispatch       | data    | void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)
    deepep            | combine        | data    | void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*)
    deepep            | dispatch       | data    | void dpsk::ep::internode::dispatch_ll<true, 3, 10, 7168>(void*, float*, int*)
    deepep            | combine        | data    | void dpsk::ep::internode::combine_ll<3, 10, 7168, 9>(void*, void*, int*)
    deepep            | dispatch       | barrier | void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*, int*)
    deepep            | dispatch       | barrier | void deep_ep::layout::get_dispatch_layout<(int)256, (int)4, (int)8>(const long *)
    deepep            | dispatch       | barrier | void deep_ep::internode::notify_dispatch<false, 4>(int const*, int*, int)
    deepep            | dispatch       | data    | void deep_ep::internode::dispatch<false, 4, false, 7, 4>(int4*, float*, deep_ep::internode::SourceMeta*)
    deepep            | combine        | data    | void deep_ep::internode::combine<false, 4, __nv_bfloat16, 16, 4, 4, 16, 24>(int4*)
    deepep            | dispatch       | barrier | void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int const*)
    deepep            | dispatch       | barrier | void deep_ep::intranode::cached_notify_dispatch<8>(int const*, int)
    deepep            | combine        | barrier | void deep_ep::intranode::cached_notify_combine<(int)4>(void **, int *)
    deepep            | dispatch       | data    | void deep_ep::intranode::dispatch<(int)2, (int)768, (int)8192>(int4 *)
    deepep            | combine        | data    | void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)
    deepep            | barrier        | barrier | void deep_ep::intranode::barrier<8>(int**, int)
    deepep            | dispatch       | data    | void deep_ep::internode_ll::dispatch<(bool)1, (bool)1, (int)6144>(void *)
    deepep            | combine        | data    | void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*, void*, int*)
    deepep            | barrier        | barrier | void deep_ep::internode_ll::clean_low_latency_buffer<1024>(int*, int)
    deepep            | dispatch       | data    | void internode_ll::dispatch<true, 3, 10, 7168>(void*)
    deepep            | combine        | data    | void uccl::internode::combine<false, 4, __nv_bfloat16>(int4*)
    deepep            | dispatch       | data    | _ZN7deep_ep7elastic13dispatch_implILi8EEEvPv
    deepep            | combine        | data    | _ZN4dpsk2ep9internode7combineILb0ELi8EEEvP4int4
    deepep            | dispatch       | data    | void hybrid_ep::dispatch_kernel<hybrid_ep::tma_dispatch, 8>(int)
    deepep            | barrier        | barrier | hybrid_ep::device_sync_kernel(unsigned int*, unsigned int*)
    deepep            | dispatch       | data    | void deep_ep::elastic::hybrid_dispatch_impl<1>(void*)
    deepep            | send_recv      | data    | void deep_ep::elastic::pp_send_impl<8>(void*)
    deepep            | -              | data    | void deep_ep::elastic::engram_fetch_impl<8, 512>(void*)
    deepep            | -              | barrier | void deep_ep::elastic::engram_fetch_wait_impl<8, 512>(ncclDevComm, ncclWindow*)
    deepep            | -              | data    | void deep_ep::some_new_kernel<8>(int)
    mori              | dispatch       | data    | EpDispatchIntraNodeKernel_bf16
    mori              | combine        | data    | _ZN4mori3moe24EpCombineIntraNodeKernelIDF16bEEvNS0_20EpDispatchCombineArgsIT_EE
    trtllm_a2a        | dispatch       | data    | void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(int const*)
    trtllm_a2a        | combine        | data    | void tensorrt_llm::kernels::moe_comm::moeA2ACombineKernel<8>(int const*)
    trtllm_a2a        | barrier        | barrier | tensorrt_llm::kernels::moe_comm::moeA2APrepareDispatchKernel(int*)
    trtllm_a2a        | all_to_all     | data    | tensorrt_llm::kernels::moeAllToAllKernel(tensorrt_llm::kernels::MoeCommFieldInfo)
    pplx              | dispatch       | data    | a2a_dispatch_send_kernel
    pplx              | combine        | data    | a2a_combine_recv_kernel
    custom_all_reduce | all_reduce     | data    | void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)
    custom_all_reduce | all_reduce     | data    | void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*)
    custom_all_reduce | all_reduce     | data    | void aiter::cross_device_reduce_2stage<bf16, 8, false>(int)
    custom_all_reduce | reduce_scatter | data    | _ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataENS_11RankSignalsE
    custom_all_reduce | all_reduce     | data    | void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half,4>, true>, __half>(int)
    custom_all_reduce | all_reduce     | data    | void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, true, true>(int)
    custom_all_reduce | all_reduce     | data    | void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<(unsigned char)4, __nv_bfloat16, true>(int)
    custom_all_reduce | all_reduce     | data    | void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8, true, true>(AllReduceParams)
    custom_all_reduce | all_reduce     | data    | moefinalize_allreduce_fusion_kernel_oneshot_lamport
    custom_all_reduce | all_reduce     | data    | void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>(int)
    custom_all_reduce | all_reduce     | data    | void allreduce_LL_2node<__half>(mscclpp::MemoryChannelDeviceHandle*)
    symmetric_memory  | all_reduce     | data    | void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)
    symmetric_memory  | all_reduce     | data    | void <unnamed>::one_shot_all_reduce_kernel<float, (int)16, (int)8>(float **)
    symmetric_memory  | all_reduce     | data    | void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)
    symmetric_memory  | all_gather     | data    | void (anonymous namespace)::multimem_all_gather_kernel<16>(char*)
    symmetric_memory  | all_reduce     | data    | multimem_all_reduce_kernel
    symmetric_memory  | all_reduce     | data    | void two_shot_all_reduce_bias_rms_norm_kernel<c10::BFloat16, 16, 2>(int)
    symmetric_memory  | barrier        | barrier | c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**, int, int, int)
    nvshmem           | barrier        | barrier | void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)
    nvshmem           | barrier        | barrier | nvshmemi_signal_wait_until_on_stream_kernel(unsigned long volatile*, int, unsigned long)
    nvshmem           | all_to_all     | data    | void alltoall_on_stream_kernel<float>(int, float*, float const*)
    nvshmem           | all_reduce     | data    | void rdxn_on_stream_kernel<float, (rdxn_ops)4>(int, float*)
    nvshmem           | all_to_all     | data    | c10d::nvshmem_extension::allToAllV(void*, void*, long*, unsigned long, int, int)
    nvshmem           | all_to_all     | barrier | c10d::nvshmem_extension::exchangeSplitAndOffset(long*, int, int)
    nvshmem           | all_gather     | data    | void fcollect_on_stream_kernel<float>(int, float*, float const*)
    nvshmem           | reduce_scatter | data    | void reducescatter_on_stream_kernel<float, (rdxn_ops)4>(int, float*)
    nvshmem           | broadcast      | data    | void broadcast_on_stream_kernel<float>(int, float*, float const*)
    nvshmem           | -              | data    | nvshmemi_signal_op_on_stream_kernel(unsigned long*, unsigned long, int, int)
    userbuffers       | send_recv      | data    | kuserbuffers_pushsend(int*, int*, int4*, int4*, int)
    userbuffers       | -              | barrier | kuserbuffers_inc(int*)
    userbuffers       | all_gather     | data    | void userbuffers_fp16_sum_inplace_gpu_rw_ag<2>(int, int)
    userbuffers       | reduce_scatter | data    | void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8<8, float>(int)
    userbuffers       | all_reduce     | data    | userbuffers_fp16_sum_inplace_gpu_mc(int, int, int)
    userbuffers       | all_reduce     | data    | userbuffers_fp16_sum_gpu_mc_rmsnorm
    oneccl            | all_reduce     | data    | oneccl_allreduce_pcie
    oneccl            | -              | data    | oneccl_allgatherv_pcie
    mscclpp           | -              | data    | void mscclpp::executionKernel<float, mscclpp::LL16Packet>(int)
    custom_collective | all_gather     | data    | void mscclpp::allgather6<float>(float*)
    custom_collective | reduce_scatter | data    | reduce_scatter_kernel
    custom_collective | all_to_all     | data    | all_to_all_kernel
    halo_exchange     | send_recv      | data    | void push_pull_halos_1d_kernel<uint4, true, true>(int)
    host              | all_reduce     | data    | gloo:all_reduce
    host              | all_reduce     | data    | nccl:all_reduce
    host              | all_reduce     | data    | c10d::allreduce_
    host              | all_reduce     | data    | _c10d_functional::all_reduce
    host              | all_to_all     | data    | symm_mem::all_to_all_vdev
    host              | reduce_scatter | data    | symm_mem::reduce_scatter_out
    host              | all_gather     | data    | nccl:_all_gather_base
    host              | all_gather     | data    | c10d::_allgather_base_
    host              | reduce_scatter | data    | nccl:_reduce_scatter_base
    host              | reduce_scatter | data    | c10d::reduce_scatter_tensor_coalesced_
    host              | all_to_all     | data    | nccl:all_to_all
    host              | all_to_all     | data    | c10d::alltoall_base_
    host              | broadcast      | data    | c10d::broadcast_
    host              | reduce         | data    | c10d::reduce_
    host              | gather         | data    | c10d::gather_
    host              | scatter        | data    | c10d::scatter_
    host              | send_recv      | data    | nccl:send 0->1
    host              | send_recv      | data    | c10d::recv_any_source_
    host              | coalesced      | data    | nccl:coalesced
    host              | barrier        | barrier | nccl:all_reduce_barrier
    host              | barrier        | barrier | c10d::barrier
    host              | -              | barrier | _c10d_functional::wait_tensor
    host              | -              | data    | record_param_comms
    """  # noqa: E501
)

#: family, one block per SM, name
COMPUTE = table(
    """
    simulated     | persistent | weftrace::sim::compute::attn(F)
    gemm          | -          | nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN
    gemm          | -          | nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN
    gemm          | -          | nvjet_sm100_tst_64x8_64x16_2x4_h_bz_splitK_TNT
    gemm          | -          | sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas
    gemm          | -          | ampere_sgemm_128x64_nn
    gemm          | -          | ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn
    gemm          | -          | volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn
    gemm          | -          | void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)
    gemm          | -          | void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>(int)
    gemm          | -          | cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x64x16_1x1x1_3_tnn_align1_bias_f32_relu
    gemm          | -          | void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(int)
    gemm          | -          | void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>)
    gemm          | -          | void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024, int>(int)
    gemm          | -          | void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float>(int)
    gemm          | -          | std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(int)
    gemm          | -          | Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256_MI16x16x1_SN_LDSB1
    gemm          | -          | _ZN5aiter24bf16gemm_bf16_tn_256x256E.kd
    gemm          | -          | void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<int> >(int)
    gemm          | -          | void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int)
    gemm          | -          | void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 4, 16, 4, 4, false, 4, 8, false>(int4 const*)
    gemm          | -          | void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>(int)
    gemm          | -          | matmul_kernel
    gemm          | persistent | matmul_kernel_persistent
    gemm          | -          | triton_tem_fused_mm_0
    gemm          | persistent | void deep_gemm::sm90_bf16_gemm_impl<(cute::UMMA::Major)0, 0u, 4096u>(int*)
    gemm          | persistent | void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4, cute::tuple<int>, cutlass::gemm::KernelTmaWarpSpecializedPingpong>, cutlass::bfloat16_t> > > >(int)
    gemm          | persistent | kernel_cutlass_kernel___main__PersistentDenseGemmKernel_object_at__TiledMMA_ThrLayoutVMNK11110000
    gemm          | -          | void cutlass::Kernel2<bytedance::flux::GemmV2CommNone_Kernel<cutlass::gemm::kernel::Gemm<SM90_64x128x16_RS> > >(int)
    norm          | -          | fused_add_rms_norm_kernel
    moe_routing   | -          | mega_moe_pre_dispatch_kernel
    gemm          | -          | void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<int> >(int)
    gemm_fp8      | persistent | void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>(dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel::Params)
    gemm_fp8      | persistent | void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_dptp128c_acc::GemmKernel>(int)
    gemm_fp8      | persistent | void dpsk::gemm::fp8_gemm_kernel<7168u, 16384u, 128u, 128u, 128u, 5u, 128u, 128u, 2u, (dpsk::gemm::GemmType)0>(int)
    gemm_fp8      | persistent | void deep_gemm::fp8_gemm_kernel<2112u, 7168u, 64u, 32u, 128u, 0u, 64u, 1u, 8u, 128u, 128u, 1u, true, (deep_gemm::GemmType)0>(int)
    gemm_fp8      | persistent | void deep_gemm::sm100_fp8_gemm_1d1d_impl<(cute::UMMA::Major)0, (cute::UMMA::Major)0, 128u>(int)
    gemm_fp8      | persistent | void cutlass::device_kernel<vllm::enable_sm90_or_later<cutlass::gemm::kernel::GemmUniversal<int, cutlass::float_e4m3_t, cutlass::gemm::PersistentScheduler> > >(int)
    gemm_fp8      | -          | nvjet_qqtst_128x128_128x6_2x1_v_bz_coopA_TNT
    gemm_fp8      | -          | _w8a8_block_fp8_matmul
    gemm_fp8      | -          | Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_UserArgs_MT256x256x128
    gemm_fp4      | -          | nvjet_sm100_ootst_128x128_256x4_2x1_h_bz_TNT
    gemm_grouped  | persistent | void cutlass::device_kernel<dpsk::grouped_gemm::cuda::m_grouped_fp8_ptp128c::GemmKernel>(int)
    gemm_grouped  | -          | dpsk::grouped_gemm::cuda::utils::fill_tensormaps_kernel(CUtensorMap_st, CUtensorMap_st*, void*, int, long)
    gemm_grouped  | persistent | void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 256u, 128u, 128u, 0u, 128u, 4u, 3u, 128u, 128u, 2u, true, (deep_gemm::GemmType)2>(int)
    gemm_grouped  | persistent | void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> >, int> >(int)
    gemm_grouped  | -          | fused_moe_kernel
    gemm_grouped  | -          | _matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu
    gemm_grouped  | persistent | _p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1
    gemm_grouped  | -          | bmm_E2m1_E2m1E2m1_Fp32_t128x8x512u2_s5_et128x8_m128x8x64_cga1x1x1_16dp256b_rM_TN_transOut_swiGlu_dynBatch_sm100f
    gemm_grouped  | -          | void ck::kernel_moe_mxgemm_2lds<ck::GridwiseMoeGemmMX<int> >(int)
    gemm_grouped  | -          | _ZN5aiter31fmoe_bf16_blockscaleFp8_g1u1_vsE.kd
    gemm_grouped  | -          | void moe::marlin_moe_wna16::Marlin<__nv_bfloat16, 256, 4>(int4 const*)
    attention     | -          | void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128, 12, 2, false, 1, cutlass::bfloat16_t, 128>, true, flash::SingleTileScheduler, flash::SeqLenTraits<true> >(int)
    attention     | -          | void cutlass::device_kernel<flash::FlashAttnBwd<flash::CollectiveMainloopBwd<2, cute::tuple<cute::C<1> > > > >(int)
    attention     | persistent | void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>, flash::VarlenDynamicPersistentTileScheduler<128, 256, 32, false, false, true> > > >(int)
    attention     | -          | void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> >(int)
    attention     | -          | void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<int>(pytorch_flash::Flash_bwd_params)
    attention     | -          | kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor
    attention     | -          | void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, cutlass::bfloat16_t> >(Flash_fwd_mla_params)
    attention     | -          | void flash::flash_fwd_splitkv_mla_combine_kernel<cutlass::bfloat16_t, float, long, 512, 64>(Flash_fwd_mla_params)
    attention     | -          | get_mla_metadata_kernel(Mla_metadata_params)
    attention     | -          | void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u> >(int)
    attention     | -          | void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u>(int)
    attention     | -          | cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0
    attention     | -          | fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params)
    attention     | -          | _ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelINS_24BlockFmhaPipelineQRKSVSE
    attention     | -          | _ZN5aiter24fmha_fwd_hd128_bf16_causalE.kd
    attention     | -          | _ZN5aiter45mla_a8w8_qh32_qseqlen4_gqaratio32_lse_cprr_psE.kd
    attention     | persistent | fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausalP16VarSeqQ128Kv128PersistentContext
    attention     | -          | void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, 0, false, 512>(float*)
    attention     | -          | attn_fwd
    attention     | -          | _fwd_grouped_kernel_stage1
    attention     | -          | kernel_unified_attention_2d
    attention     | -          | triton_tem_fused_flex_attention_0
    attention     | -          | qk_int8_sv_f8_accum_f32_attn_inst_buf
    attention     | -          | void deep_gemm::sm90_fp8_mqa_logits<64u, 128u>(int)
    ssm           | -          | _chunk_scan_fwd_kernel
    ssm           | -          | void causal_conv1d_channellast_fwd_kernel<Causal_conv1d_channellast_fwd_kernel_traits<128, 8> >(int)
    kv_cache      | -          | void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)
    norm          | -          | void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<__nv_bfloat16, 7168u> >(layer_norm::FwdParams)
    norm          | -          | void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)
    norm          | -          | void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel_32x32<float, float>(long)
    norm          | -          | _ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE
    norm          | -          | void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)
    norm          | -          | triton_per_fused__to_copy_native_layer_norm_0
    norm          | -          | triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0
    activation    | -          | void cuda::swiglu_forward_with_weight_and_per_token_cast_to_fp8_with_channels_impl<__nv_bfloat16, true>(int)
    activation    | -          | void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(silu(float const&))>(int)
    activation    | -          | void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>(int)
    activation    | -          | void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2} >(int)
    quantize      | -          | void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16, 128, false, 128, false>(__nv_bfloat16 const*, int)
    quantize      | -          | void cuda::per_channel_cast_and_transpose<256, 128, true, true, true, false, true>(void const*)
    quantize      | -          | void cuda::cast_back_impl<__nv_fp8x2_e4m3>(void const*, void*, float const*)
    quantize      | -          | void per_token_group_quant_8bit_kernel<__nv_bfloat16, c10::Float8_e4m3fn, false>(int)
    quantize      | -          | void transformer_engine::detail::cast_transpose_fused_kernel<true, false>(int)
    quantize      | -          | void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>(float const*)
    quantize      | -          | void deep_gemm::transpose_and_pack_fp32_into_ue8m0<512u, 4096u>(float*, unsigned int*)
    rope          | -          | void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)
    rope          | -          | rotary_kernel
    rope          | -          | void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheHeadParallelismKernel<false, 128u>(int)
    rope          | -          | void tensorrt_llm::kernels::applyMLARopeAndAssignQKVKernelGeneration<__nv_bfloat16>(int)
    moe_routing   | -          | void cuda::reduce_fused_impl<__nv_bfloat16, false, false>(int4 const*)
    moe_routing   | -          | cuda::expand_to_fused_with_scales_impl(int4 const*, int4*, float const*)
    moe_routing   | -          | void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, int>(float const*)
    moe_routing   | -          | void vllm::moe::moe_align_block_size_kernel<int>(int*)
    moe_routing   | -          | _combined_routing_compute
    moe_routing   | -          | _permute_kernel
    moe_routing   | -          | _fwd_kernel_ep_scatter_2
    softmax       | -          | void (anonymous namespace)::softmax_warp_forward<float, float, float, 1, false, false>(float*)
    loss          | -          | void at::native::vectorized_elementwise_kernel<4, at::native::mse_kernel_cuda(at::TensorIteratorBase&)::{lambda()#1} >(int)
    loss          | -          | void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*)
    optimizer     | -          | void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4> >(int)
    optimizer     | -          | void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>(long)
    embedding     | -          | void split_embedding_codegen_forward_unweighted_kernel<c10::Half, c10::Half, float, false, long, 2ul, 32ul>(int)
    embedding     | -          | void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(int, int, int)
    index         | -          | void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<int> >(long)
    index         | -          | void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)
    index         | -          | void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel<true, float> >(int)
    sampling      | -          | void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, (cub::BlockScanAlgorithm)2>(float*)
    sort          | -          | void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)
    sort          | -          | void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false>(int*)
    rng           | -          | void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(int)
    rng           | -          | void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 8>(int)
    copy          | -          | void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 3, 128, 1>(float*)
    copy          | -          | void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2} > >(int)
    copy          | -          | void cuda::batched_transpose<512, 128, 1, 1>(unsigned char const*)
    copy          | -          | void dpsk::grouped_gemm::cuda::utils::transpose<512, 128, 4, 4>(unsigned char const*)
    copy          | -          | _copy_tensor_kernel
    reduction     | -          | void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >(int)
    reduction     | -          | void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int> >(int)
    reduction     | -          | triton_red_fused_add_sum_0
    elementwise   | -          | triton_poi_fused_add_cos_sin_0
    elementwise   | -          | triton_poi_fused_all_reduce_wait_tensor_1
    optimizer     | -          | triton_for_fused_0
    loss          | -          | triton_red_fused__log_softmax_nll_loss_forward_3
    softmax       | -          | triton_per_fused__softmax_2
    embedding     | -          | triton_poi_fused_embedding_0
    elementwise   | -          | void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, at::detail::Array<char*, 3> >(int)
    elementwise   | -          | void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)
    conv          | -          | sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_stage3
    conv          | -          | triton_tem_fused_convolution_4
    conv          | -          | volta_scudnn_128x64_relu_interior_nn_v1
    conv          | -          | cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1
    conv          | -          | turing_h1688cudnn_256x64_sliced1x2_ldg8_relu_exp_small_nhwc_tn_v1
    conv          | -          | volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1
    conv          | -          | void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int, float const*)
    conv          | -          | void wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int, int, int, float const*)
    conv          | -          | void dgrad_engine<float, 512, 6, 5, 3, 3, 3, true>(int, int, int, float const*)
    conv          | -          | wgrad2d_shmem_tiling_kernel
    conv          | -          | void fft2d_r2c_32x32<float, false, 1u, true>(float2*, float const*)
    conv          | -          | void cudnn::gemm::computeOffsetsKernel(cudnn::gemm::ComputeOffsetsParams)
    conv          | -          | void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)
    conv          | -          | void cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK<cutlass_cudnn_train::MatrixShape<4, 128>, 4> >(int)
    conv          | -          | Im2d2Col
    conv          | -          | Im2d2Col_v2.kd
    conv          | -          | MIOpenConvUni
    inductor      | -          | triton__0d1d2d3de
    inductor      | -          | triton__
    inductor      | -          | triton_fused_add_0_0d1d2d
    conv          | -          | void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(int)
    pool          | -          | void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, int>(float const*)
    gemm          | -          | aten::addmm
    norm          | -          | aten::native_layer_norm
    copy          | -          | aten::copy_
    host_operator | -          | aten::add
    """  # noqa: E501
)

#: family, name
MEMORY = table(
    """
    deepep_copy | void deep_ep::elastic::dispatch_copy_epilogue_impl<false, true, 24, 8, 16, 1, 8, 1>(void*, int*)
    deepep_copy | _ZN7deep_ep7elastic28combine_reduce_epilogue_implILb1ELi24EEEvPv
    simulated  | weftrace::sim::memory::offload
    memcpy_h2d | Memcpy HtoD (Pageable -> Device)
    memcpy_h2d | Memcpy HtoD (Host -> Device)
    memcpy_d2h | Memcpy DtoH (Device -> Pinned)
    memcpy_d2d | Memcpy DtoD (Device -> Device)
    memcpy_p2p | Memcpy PtoP (Device -> Device)
    memcpy     | Memcpy HtoH (Pageable -> Pinned)
    memcpy_h2d | Memcpy M2D (Memory -> Device)
    memcpy_d2h | [CUDA memcpy DtoH]
    memset     | Memset (Device)
    memset     | [CUDA memset]
    memcpy     | __amd_rocclr_copyBuffer.kd
    memset     | __amd_rocclr_fillBufferAligned.kd
    """
)


#: family, name. Of flux and CUTLASS the template that tells, in a shortened kernel.
FUSED = table(
    """
    mega_moe        | void deep_gemm::sm100_fp8_fp4_mega_moe_impl<8192u, 7168u, 2048u, 256u, 8u>(void*, int*)
    mega_moe        | sm90_nvfp4_mega_moe_impl
    mega_moe        | kernel_cutlass_fc1fc2_kernel_impl_flashinfermegamoe_object_at_0
    mega_moe        | mega_moe
    flux            | void cutlass::Kernel2<bytedance::flux::GemmV2AGKernel_Device<cutlass::gemm::kernel::Gemm<int> > >(int)
    flux            | void cutlass::device_kernel<bytedance::flux::GemmV3ReduceScatter_Kernel<cute::tuple<int> > >(int)
    gemm_collective | void cutlass::device_kernel<cutlass::distributed::kernel::DistributedGemmKernelWrapper<cutlass::gemm::kernel::GemmUniversal<int>, int> >(int)
    gemm_collective | kernel_gemm_all_reduce
    gemm_collective | all_gather_matmul_kernel
    gemm_collective | fused_allreduce_gemm_kernel
    gemm_collective | ag_gemm_kernel
    gemm_collective | tilelink_ag_gemm
    gemm_collective | gemm_rs_kernel
    gemm_collective | gemm_ar
    gemm_collective | kernel_gemm_rs_producer_persistent
    gemm_collective | kernel_consumer_gemm_persistent
    gemm_collective | persistent_gemm_all_scatter
    gemm_collective | kernel_moe_rs_gemm
    gemm_collective | kernel_dispatch_group_gemm
    """  # noqa: E501
)


@cache
def listed() -> dict[str, dict[str, Any]]:
    """What each name of the tables is, told of all at once: a rule is compiled in each call."""
    names = [row[-1] for row in (*COMMUNICATION, *COMPUTE, *MEMORY, *FUSED)]
    return {row["name"]: row for row in classify(pl.Series(names), RULES).rows(named=True)}


def one(name: str, rules: KernelRules = RULES) -> dict[str, Any]:
    if rules is RULES and name in listed():
        return listed()[name]
    return classify(pl.Series([name]), rules).row(0, named=True)


@pytest.mark.parametrize(("family", "collective", "role", "name"), COMMUNICATION)
def test_communication(family: str, collective: str, role: str, name: str) -> None:
    row = one(name)
    found = [row["kind"], row["family"], row["collective"] or "-", row["role"]]
    assert found == ["communication", family, collective, role], row


@pytest.mark.parametrize(("family", "persistent", "name"), COMPUTE)
def test_compute(family: str, persistent: str, name: str) -> None:
    row = one(name)
    found = (row["kind"], row["family"], row["persistent"], row["collective"], row["role"])
    assert found == ("compute", family, persistent == "persistent", None, None), row


@pytest.mark.parametrize(("family", "name"), MEMORY)
def test_memory(family: str, name: str) -> None:
    row = one(name)
    assert (row["kind"], row["family"], row["collective"], row["role"]) == ("memory", family, None, None), row


@pytest.mark.parametrize(("family", "name"), FUSED)
def test_fused(family: str, name: str) -> None:
    row = one(name)
    assert (row["kind"], row["family"], row["collective"], row["role"]) == ("fused", family, None, None), row


def test_the_table_is_long_enough_to_mean_something() -> None:
    names = [row[-1] for row in (*COMMUNICATION, *COMPUTE, *MEMORY, *FUSED)]
    assert len(names) == len(set(names)) >= 200


def test_persistent_communication_holds_one_block_per_sm() -> None:
    assert one("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")["persistent"]
    assert one("void deep_ep::internode::dispatch<false, 4, false, 7, 4>(int4*)")["persistent"]
    assert not one("void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)")["persistent"]


# ----------------------------------------------------------------------------------------------- classify as a function


def test_a_name_that_no_rule_knows_is_other_compute_and_says_so() -> None:
    row = one("frobnicate<int>(float*)")
    assert row == {
        "name": "frobnicate<int>(float*)",
        "kind": "compute",
        "family": "other",
        "collective": None,
        "role": None,
        "persistent": False,
        "rule": None,
    }


def test_repeated_null_and_categorical_names_keep_their_rows() -> None:
    names = ["Memset (Device)", "attn_fwd", "Memset (Device)", None, "attn_fwd"]
    for series in (pl.Series(names), pl.Series("k", names, dtype=pl.Categorical)):
        table = classify(series, RULES)
        assert dict(table.schema) == CLASS_SCHEMA
        assert table["name"].to_list() == names
        assert table["family"].to_list() == ["memset", "attention", "memset", "other", "attention"]


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.text() | st.sampled_from([row[-1] for row in COMMUNICATION]), max_size=20))
def test_any_text_has_a_class_whatever_its_neighbours(names: list[str]) -> None:
    together = classify(pl.Series(names, dtype=pl.String), RULES)
    assert together["name"].to_list() == names
    assert set(together["kind"]) <= set(KINDS)
    assert together.rows() == classify(pl.Series(names[::-1], dtype=pl.String), RULES).rows()[::-1]


def test_no_names_give_an_empty_table_of_the_same_columns() -> None:
    assert dict(classify(pl.Series([], dtype=pl.String), RULES).schema) == CLASS_SCHEMA


def test_no_rules_leave_everything_other() -> None:
    assert one("attn_fwd", KernelRules(rules=()))["family"] == "other"


def test_ten_thousand_names_take_less_than_a_second() -> None:
    # the slow case: names that fall through every rule, and long ones
    names = pl.Series([f"void my::kernel_{i}<{'float, ' * 20}{i}>({'int*, ' * 20}int)" for i in range(10_000)])
    start = time.process_time()  # other tests may be running
    classes = classify(names, RULES)
    took_s = time.process_time() - start
    assert classes["rule"].null_count() == 10_000
    assert took_s < 1


# -------------------------------------------------------------------------------------------------------- the rule file


def test_every_rule_of_ours_is_complete_and_compiles() -> None:
    document = tomllib.loads(BUILT_IN.read_text("utf-8"))
    assert len(document["rule"]) == len(RULES) == len({rule.name for rule in RULES.rules})
    for rule in RULES.rules:
        assert rule.source, rule
        pl.Series([""]).str.contains(rule.match)
        assert not pl.Series([""]).str.contains(rule.match).item(), f"{rule.name} matches the empty name"
        assert (rule.role is None) == (rule.kind != "communication"), rule
        assert rule.collective is None or rule.collective in COLLECTIVES


def test_a_collective_called_barrier_moves_no_data() -> None:
    assert all(rule.role == "barrier" for rule in RULES.rules if rule.collective == "barrier")


def test_every_rule_of_ours_is_the_first_match_of_some_name() -> None:
    names = pl.Series([row[-1] for row in (*COMMUNICATION, *COMPUTE, *MEMORY, *FUSED)])
    used = set(classify(names, RULES)["rule"])
    assert [rule.name for rule in RULES.rules if rule.name not in used] == []


def test_asking_for_an_unknown_rule_lists_those_there_are() -> None:
    with pytest.raises(RulesError, match="nccl_all_reduce"):
        RULES.rule("nccl_all_reduze")


# ----------------------------------------------------------------------------------------------------- the user's files


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


MINE = """
[[rule]]
name = "my_dispatch"
kind = "communication"
family = "my_ep"
collective = "dispatch"
match = '^my_ep::dispatch'
source = "my_ep 1.2"
"""


def test_a_users_rule_is_tried_before_ours(tmp_path: Path) -> None:
    mine = """
    [[rule]]
    name = "our_gemm"
    kind = "compute"
    family = "our_gemm"
    persistent = true
    match = '^nvjet_'
    source = "measured"
    """
    rules = load_rules(write(tmp_path / "a.toml", MINE), write(tmp_path / "b.toml", mine))
    assert [rule.name for rule in rules.rules[:2]] == ["our_gemm", "my_dispatch"]  # the last file first
    assert one("my_ep::dispatch<8>(int)", rules)["family"] == "my_ep"
    assert one("my_ep::dispatch<8>(int)", rules)["role"] == "data"
    assert one("nvjet_tst_128x128", rules)["persistent"]
    assert rules.rule("my_dispatch").file == str(tmp_path / "a.toml")
    assert len(RULES) + 2 == len(rules)


def test_an_override_stays_in_place_and_keeps_what_it_does_not_state(tmp_path: Path) -> None:
    text = """
    [[rule]]
    name = "memcpy_p2p"
    kind = "communication"
    collective = "send_recv"
    """
    rules = load_rules(write(tmp_path / "p2p.toml", text))
    assert [rule.name for rule in rules.rules] == [rule.name for rule in RULES.rules]
    row = one("Memcpy PtoP (Device -> Device)", rules)
    assert (row["kind"], row["family"], row["collective"], row["role"]) == (
        "communication",
        "memcpy_p2p",
        "send_recv",
        "data",
    )


def test_an_override_that_changes_the_kind_drops_collective_and_role(tmp_path: Path) -> None:
    text = '[[rule]]\nname = "deepep_layout"\nkind = "compute"\nfamily = "moe_routing"\n'
    row = one("void deep_ep::layout::get_dispatch_layout<8>(int)", load_rules(write(tmp_path / "l.toml", text)))
    assert (row["kind"], row["family"], row["collective"], row["role"]) == ("compute", "moe_routing", None, None)


def test_the_guide_tells_the_truth(tmp_path: Path) -> None:
    """docs/kernel-classes.md: its example file loads and does what it says, and its lists of families are complete."""
    guide = (ROOT / "docs" / "kernel-classes.md").read_text("utf-8")
    example = guide.split("```toml\n")[1].split("```")[0]
    rules = load_rules(write(tmp_path / "my.toml", example))
    assert one("void my_ep::dispatch<8>(int)", rules)["rule"] == "my_dispatch"
    assert one("Memcpy PtoP (Device -> Device)", rules)["kind"] == "communication"
    for kind in KINDS:
        listed = guide.split(f"Families of {kind}:")[1].split(".\n")[0]
        stated = set(re.findall(r"`(\w+)`", listed))
        assert stated == {rule.family for rule in RULES.rules if rule.kind == kind}
    assert all(f"`{collective}`" in guide for collective in COLLECTIVES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]]\nname = 'x", "not TOML: Expected"),
        ("[[rule]]\nkind = 'compute'", "rule 1 has no name"),
        (MINE + MINE, "'my_dispatch' is stated twice"),
        ("[[rules]]\nname = 'x'", r"unknown key 'rules'.*\[\[rule\]\]"),
        ("rule = 3", "must be a list of tables"),
        (MINE.replace("family", "familly"), "unknown key 'familly'"),
        (MINE.replace("match = '^my_ep::dispatch'\n", ""), "'match' is missing"),
        (
            MINE.replace('"communication"', '"comms"'),
            "unknown kind 'comms'; choose from compute, communication, memory",
        ),
        (MINE.replace('"dispatch"', '"despatch"'), "unknown collective 'despatch'"),
        (MINE + 'role = "wait"', "unknown role 'wait'; choose from data, barrier"),
        (MINE.replace('"communication"', '"compute"'), "'collective' is for communication.*'compute'"),
        (MINE + "persistent = 1", "'persistent' must be true or false"),
        (MINE.replace('"my_ep"', '""'), "'family' must be a text"),
        (MINE.replace("^my_ep", "(my_ep"), "bad regex.*unclosed group"),
        (MINE.replace("^my_ep", "(?=my_ep)"), "bad regex.*look-around"),
    ],
)
def test_a_wrong_file_is_refused_and_named(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path / "mine.toml", text)
    with pytest.raises(RulesError, match=f"(?s)mine.toml.*{says}"):
        load_rules(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"nowhere\.toml: cannot be read"):
        load_rules(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(RulesError, match=r"latin\.toml: not UTF-8"):
        load_rules(tmp_path / "latin.toml")


# ------------------------------------------------------------------------------------------------- metadata, bus factor


@pytest.mark.parametrize(
    ("stated", "collective"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("allgather", "all_gather"),
        ("_allgather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("reduce_scatter", "reduce_scatter"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_all", "all_to_all"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("broadcast", "broadcast"),
        ("_broadcast_oop", "broadcast"),
        ("reduce", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("send", "send_recv"),
        ("recv", "send_recv"),
        ("barrier", "barrier"),
        ("coalesced", "coalesced"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("AllReduce", "all_reduce"),
        ("wait", None),
        ("", None),
    ],
)
def test_collective_of_metadata(stated: str, collective: str | None) -> None:
    assert class_of_metadata(stated) == collective
    assert collective is None or collective in COLLECTIVES


@pytest.mark.parametrize(
    ("collective", "group_size", "factor"),
    [
        ("all_reduce", 8, 1.75),  # 2 * 7 / 8
        ("all_reduce", 2, 1.0),
        ("all_reduce", 1, 0.0),
        ("all_gather", 8, 0.875),  # 7 / 8
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 64, 63 / 64),
        ("gather", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send_recv", 2, 1.0),
        ("dispatch", 64, 1.0),
        (None, 8, 1.0),
    ],
)
def test_bus_factor(collective: str | None, group_size: int, factor: float) -> None:
    assert bus_factor(collective, group_size) == factor


def test_a_group_without_ranks_has_no_bus_factor() -> None:
    with pytest.raises(WeftraceError, match="all_reduce needs a group of at least 1 rank, not 0"):
        bus_factor("all_reduce", 0)


# ---------------------------------------------------------------------------------------------------------- real traces


def device_events(path: Path) -> pl.DataFrame:
    """name and dur_ns of the device events of a trace; read the plain way, independent of weftrace's reader."""
    document = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    events = document["traceEvents"] if isinstance(document, dict) else document
    rows = [
        (event["name"], round(float(event["dur"]) * 1000))
        for event in events
        if str(event.get("cat")).lower() in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    return pl.DataFrame(rows, schema={"name": pl.String, "dur_ns": pl.Int64}, orient="row")


def real_traces() -> list[Any]:
    paths = sorted(DATA.rglob("*.json.gz"))
    if not paths:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no traces in {DATA}; set WEFTRACE_DATA"))]
    return [pytest.param(path, id=path.name) for path in paths]


@pytest.mark.parametrize("path", few(real_traces(), 8))
def test_every_kernel_of_the_real_traces_has_a_name(path: Path) -> None:
    events = device_events(path)
    table = classify(events["name"], RULES)
    assert table.filter(pl.col("rule").is_null())["name"].unique().to_list() == []


@pytest.fixture
def deepseek() -> pl.DataFrame:
    path = DATA / "deepseek-v3-train.json.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here; set WEFTRACE_DATA")
    events = device_events(path)
    return events.hstack(classify(events["name"], RULES).drop("name"))


def test_deepseek_communication_is_the_36_deepep_kernels(deepseek: pl.DataFrame) -> None:
    communication = deepseek.filter(pl.col("kind") == "communication")
    assert communication.height == 36
    assert communication["name"].str.contains("^void dpsk::ep::").all()
    assert deepseek["name"].str.contains("^void dpsk::ep::").sum() == 36
    # kernels of one stream do not overlap, so a sum of durations is their union: 113,440 and 32,988 us
    assert round(communication["dur_ns"].sum() / 1000) == 113_440
    waiting = communication.filter(pl.col("role") == "barrier")
    assert waiting["dur_ns"].sum() // 1000 == 32_988
    assert waiting.height == 20  # 12 cached_notify, 4 notify_dispatch, 4 get_dispatch_layout


def test_deepseek_counts_by_class(deepseek: pl.DataFrame) -> None:
    assert deepseek.height == 983
    assert deepseek.filter(pl.col("kind") == "memory").height == 20  # 12 memsets, 8 memcpys
    collectives = deepseek.filter(pl.col("role") == "data").group_by("collective").len().sort("collective").rows()
    assert collectives == [("combine", 8), ("dispatch", 8)]
    assert deepseek.filter(pl.col("family") == "other").is_empty()
    fp8 = deepseek.filter(pl.col("family").is_in(["gemm_fp8", "gemm_grouped"]) & pl.col("persistent"))
    assert fp8.height == 60 + 64 + 16
    casts = deepseek.filter(pl.col("name").str.contains(r"cuda::per_\w+_cast|cast_back"))
    assert (casts["kind"] == "compute").all()
    assert (casts["family"] == "quantize").all()
