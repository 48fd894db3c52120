"""Operators without arithmetic: views (nothing); copies, casts, joins, factories, nearest neighbours and random numbers
(bytes).
"""

from __future__ import annotations

from weftrace.costs.cost import Cost, Kind
from weftrace.costs.formulas.elementwise import written_in_place, written_only
from weftrace.costs.registry import Call, Key, rule, vector_cost
from weftrace.costs.tensors import is_tensor, storage_bytes

# Views, metadata and memory that is set aside and not touched.
VIEWS = """
    view _reshape_alias _unsafe_view t t_ transpose transpose_ permute expand slice select detach detach_ alias
    unsqueeze unsqueeze_ squeeze squeeze_ split split_with_sizes unbind unfold unsafe_split unsafe_split_with_sizes
    as_strided as_strided_ diagonal view_as_real view_as_complex _conj _neg_view lift_fresh lift _fw_primal
    _make_dual _sparse_broadcast_to _values values _indices indices crow_indices col_indices ccol_indices
    row_indices slice_inverse _nested_view_from_buffer _nested_view_from_jagged _nested_get_values
    _nested_get_offsets _nested_get_lengths _nested_get_ragged_idx _nested_get_jagged_dummy _nested_get_min_seqlen
    _nested_get_max_seqlen _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets
    _nested_compute_contiguous_strides_offsets empty empty_like empty_strided empty_permuted new_empty
    new_empty_strided empty_quantized _efficientzerotensor set_ set resize_ resize resize_as_ resize_as
    _resize_output_ _resize_output is_pinned is_same_size is_set_to sym_size sym_stride sym_numel sym_storage_offset
    sym_is_contiguous size stride numel dim is_contiguous storage_offset _local_scalar_dense record_stream
    _has_same_storage_numel _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
    _sparse_compressed_tensor_with_dims sparse_compressed_tensor _coalesced_ _coalesced is_coalesced _nnz _dimI
    _dimV sparse_dim dense_dim _validate_compressed_sparse_indices qscheme q_scale q_zero_point q_per_channel_scales
    q_per_channel_zero_points q_per_channel_axis int_repr _fused_sdp_choice _assert_async _assert_scalar
    _assert_tensor_metadata _functional_assert_async _functional_assert_scalar sym_constrain_range
    sym_constrain_range_for_size _functional_sym_constrain_range _functional_sym_constrain_range_for_size
    _make_dep_token _print _use_cudnn_ctc_loss _use_miopen_ctc_loss _cudnn_rnn_flatten_weight _linalg_check_errors
    _lazy_clone prim_device
"""
# Every element read and written once.
COPIES = """
    clone _to_copy _copy_from _copy_from_and_resize _pin_memory lift_fresh_copy _reshape_copy cat stack _stack _cat
    _chunk_cat block_diag flip roll rot90 repeat pixel_shuffle pixel_unshuffle channel_shuffle constant_pad_nd
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d tril
    triu tril_ triu_ diag_embed diagonal_copy unfold_copy col_indices_copy crow_indices_copy ccol_indices_copy
    row_indices_copy values_copy _values_copy indices_copy _indices_copy alias_copy detach_copy expand_copy
    permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unsqueeze_copy view_copy view_as_real_copy view_as_complex_copy as_strided_copy _conj_copy
    _neg_view_copy _fw_primal_copy _make_dual_copy _reshape_alias_copy narrow_copy select_scatter slice_scatter
    diagonal_scatter as_strided_scatter copy _to_dense _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr
    _to_sparse_bsc to_mkldnn mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight _mkldnn_reshape
    _mkldnn_transpose _mkldnn_transpose_ complex _nested_from_padded _nested_from_padded_tensor to_padded_tensor
    _nested_tensor_from_tensor_list _nested_tensor_from_mask _jagged_to_padded_dense_forward
    _padded_dense_to_jagged_forward _pack_padded_sequence _coalesce sparse_mask _sparse_mask_projection
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo upsample_nearest1d upsample_nearest2d
    upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d max_unpool2d
    max_unpool3d affine_grid_generator _spdiags _nested_from_padded_and_nested_example
    _nested_tensor_from_mask_left_aligned _cslt_compress
"""
# Only written: whatever they are given is not read.
FACTORIES = """
    zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full arange range linspace logspace eye
    scalar_tensor tril_indices triu_indices fill_ zero_ fill zero bartlett_window blackman_window hamming_window
    hann_window kaiser_window fft_fftfreq fft_rfftfreq _new_zeros_with_same_feature_meta
"""
# A gradient put into zeros: the gradient is read, the whole is written.
INTO_ZEROS = """
    select_backward slice_backward diagonal_backward unfold_backward
"""


@rule(*(f"aten::{name}" for name in VIEWS.split()), key=Key.NAME)
def _view(call: Call) -> Cost:
    return Cost(kind=Kind.FREE)


@rule("aten::repeat_interleave.Tensor", *(f"aten::{name}" for name in (COPIES + INTO_ZEROS).split()))
def _copied(call: Call) -> Cost:
    """Inputs read, outputs written."""
    return vector_cost(call, 0, kind=Kind.MOVE)


@rule("aten::_foreach_zero_", "aten::_foreach_zero", *(f"aten::{name}" for name in FACTORIES.split()))
def _made(call: Call) -> Cost:
    return written_only(call)


@rule("aten::copy_", "aten::copy_sparse_to_sparse_")
def _copy_into(call: Call) -> Cost:
    """The source is read; what stood in the target is not."""
    target, source = call.args[0], call.args[1]
    cost = vector_cost(call, 0, kind=Kind.MOVE)
    read = storage_bytes(source) if is_tensor(source) else 0
    return Cost(read_bytes=read, written_bytes=storage_bytes(target), dtype=cost.dtype, kind=Kind.MOVE)


@rule("aten::_foreach_copy_", "aten::_foreach_copy", "aten::_foreach_clone")
def _foreach_copy(call: Call) -> Cost:
    sources = call.args[1] if len(call.args) > 1 else call.args[0]
    moved = sum(storage_bytes(tensor) for tensor in sources)
    return Cost(read_bytes=moved, written_bytes=call.written_bytes or written_in_place(call), kind=Kind.MOVE)


# Gradients of padding and of nearest neighbours.
SUMMED = """
    reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward upsample_nearest1d_backward upsample_nearest2d_backward
    upsample_nearest3d_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
    _upsample_nearest_exact3d_backward
"""


@rule(*(f"aten::{name}" for name in SUMMED.split()))
def _summed(call: Call) -> Cost:
    """Each element of the output's gradient is added somewhere."""
    return vector_cost(call, call.args[0].numel())


# Views and marks that other libraries of torch register.
MARKS = (
    "prims::view_of",
    "inductor::resize_storage_bytes_",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
)
rule(*MARKS, key=Key.NAME)(_view)


# Random numbers: bytes written. The integer arithmetic of a generator is not counted as FLOPs.
RANDOM = """
    rand rand_like randn randn_like randint randint_like randperm normal normal_functional bernoulli multinomial poisson
    binomial _standard_gamma _sample_dirichlet uniform exponential geometric cauchy log_normal random _philox_normal
    _philox_uniform _philox_key_split _philox_key_fold_in _cudnn_init_dropout_state _fill_mem_eff_dropout_mask_
"""
RANDOM_IN_PLACE = (
    "normal_ uniform_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ random_ _philox_normal_ _philox_uniform_"
)


@rule(*(f"aten::{name}" for name in RANDOM.split()))
def _random(call: Call) -> Cost:
    return vector_cost(call, 0, kind=Kind.MOVE)


@rule(*(f"aten::{name}" for name in RANDOM_IN_PLACE.split()))
def _random_in_place(call: Call) -> Cost:
    return written_only(call)
