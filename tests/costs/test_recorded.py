"""What a recorded call costs, by hand; and calls that were recorded in part, or that say something impossible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.custom_ops import load_custom_ops
from weftrace.costs.operators import find_overload
from weftrace.costs.recorded import RecordedCall, cost_of, is_counted
from weftrace.errors import RulesError

BF16, FP8 = "c10::BFloat16", "c10::Float8_e4m3fn"


def recorded(name: str, *arguments: tuple[Any, str, str], strides: list[Any] | None = None) -> RecordedCall:
    """A call, each argument as (dims, type, value)."""
    shapes, types, values = (json.dumps([argument[place] for argument in arguments]) for place in range(3))
    return RecordedCall(name, shapes, types, None if strides is None else json.dumps(strides), values)


def cost(name: str, *arguments: tuple[Any, str, str], strides: list[Any] | None = None) -> Cost:
    found = cost_of(recorded(name, *arguments, strides=strides))
    assert found is not None
    return found


def test_linear_layer() -> None:
    """2 x 141 x 512 x 512 on matrix units, a bias for each element; a matrix, a weight and a bias in, a matrix out."""
    found = cost(
        "aten::addmm",
        *[([512], BF16, ""), ([141, 512], BF16, ""), ([512, 512], BF16, ""), ([], "Scalar", "1"), ([], "Scalar", "1")],
    )
    assert (found.flops, found.vector_flops) == (2 * 141 * 512 * 512, 141 * 512)
    assert (found.read_bytes, found.written_bytes) == (2 * (512 + 141 * 512 + 512 * 512), 2 * 141 * 512)
    assert (found.dtype, found.kind, found.status) == ("bf16", Kind.MATMUL, Status.EXACT)


def test_first_convolution_backward_wants_one_gradient() -> None:
    """Its output mask asks for the weight's alone: 2 N C_out C_in k k H W once, not twice."""
    grad, x, weight = ([8, 64, 112, 112], "float", ""), ([8, 3, 224, 224], "float", ""), ([64, 3, 7, 7], "float", "")
    rest = [("ScalarList", "[0]"), ("ScalarList", "[2, 2]"), ("ScalarList", "[3, 3]"), ("ScalarList", "[1, 1]")]
    rest += [("Scalar", "False"), ("ScalarList", "[0, 0]"), ("Scalar", "1"), ("ScalarList", "[False, True, False]")]
    found = cost("aten::convolution_backward", grad, x, weight, *(([], type_, value) for type_, value in rest))
    assert found.flops == 2 * 8 * 64 * 3 * 49 * 112 * 112
    assert found.written_bytes == 4 * 64 * 3 * 49


def test_python_number_is_none_of_the_tensors() -> None:
    """x * 0.125 is recorded as a product with a tensor of type double without dimensions; so is a real one."""
    found = cost("aten::mul", ([4, 8], BF16, ""), ([], "double", ""))
    assert (found.read_bytes, found.written_bytes, found.dtype) == (64, 64, "bf16")
    assert cost("aten::mul", ([], "float", ""), ([], "double", "")).written_bytes == 4
    real = cost("aten::mul", ([4, 8], BF16, ""), ([], "float", ""))
    assert (real.read_bytes, real.written_bytes) == (68, 64)


def test_expanded_tensor_is_read_once() -> None:
    found = cost("aten::mul", ([4, 8], "float", ""), ([4, 8], "float", ""), strides=[[8, 1], [0, 1]])
    assert (found.read_bytes, found.written_bytes) == (4 * (32 + 8), 4 * 32)


def test_out_argument_is_written_and_not_read() -> None:
    arguments = [([4, 8], "float", ""), ([4, 8], "float", ""), ([], "Scalar", "1")]
    for out in ([4, 8], [0]):  # an empty one is made as large as the result
        found = cost("aten::add", *arguments, (out, "float", ""))
        assert (found.read_bytes, found.written_bytes) == (4 * 64, 4 * 32)


def test_shape_of_result_without_values_is_not_guessed() -> None:
    """sum over dimensions that were not recorded: its input is read; what it writes is not known."""
    call = RecordedCall("aten::sum", "[[1024, 40], [], [], []]", '["float", "", "Scalar", ""]')
    found = cost_of(call)
    assert found is not None
    assert (found.read_bytes, found.written_bytes, found.status) == (4 * 1024 * 40, 0, Status.UNKNOWN)
    assert "dim" in found.note


def test_texts_are_not_recorded_and_their_default_is_said() -> None:
    found = cost("aten::gelu", ([4, 8], BF16, ""), ([], "", ""))
    assert (found.status, found.vector_flops) == (Status.ESTIMATE, 5 * 32)
    assert "approximate" in found.note


def test_dtype_of_lists_is_that_of_others_else_the_likely_one() -> None:
    call = recorded("aten::cat", ([[2, 3], [4, 3]], "TensorList", ""), ([], "Scalar", "0"))
    costs = [cost_of(call, dtype) for dtype in ("float32", "bfloat16")]
    assert [(found.written_bytes, found.status) for found in costs if found] == [
        (4 * 18, Status.ESTIMATE),
        (2 * 18, Status.ESTIMATE),
    ]


def test_indices_are_not_recorded() -> None:
    found = cost("aten::index", ([30522, 512], BF16, ""), ([], "", ""))
    assert (found.read_bytes, found.status) == (0, Status.UNKNOWN)  # the table is not read as a whole


def test_views_cost_nothing_and_composites_are_left_to_their_parts() -> None:
    view = cost_of(RecordedCall("aten::transpose"))
    assert view is not None and view.kind is Kind.FREE
    assert not any(map(is_counted, ("aten::linear", "aten::matmul", "aten::to", "aten::conv2d", "AddmmBackward0")))
    assert is_counted("aten::where", '["bool", "float", "float"]')
    assert not is_counted("aten::where", '["bool", "float", "Scalar"]')


@pytest.mark.parametrize(
    ("shapes", "types"),
    [
        ("[[4, 8], [8", '["float", "float"]'),
        ("[[4, 8], [8, 4]]", '["float"]'),
        ('[["a"], [8, 4]]', '["float", "float"]'),
        ("[[4, 8], [8, 4]]", '["float", "c10::SomeType"]'),
        ("[[4, 8], 8]", '["float", "float"]'),
        ("[[4, 8], []]", '["float", "TensorList"]'),
        ("[[4, 8], [[8, 4], 3]]", '["float", "TensorList"]'),
        ("[]", "[]"),
        ("{}", "[]"),
        ("[[4, 8], [3, 5, 7]]", '["float", "Scalar"]'),
        ("[[], []]", '["", ""]'),
    ],
)
@pytest.mark.parametrize("name", ["aten::mm", "aten::add", "aten::cat", "aten::_foreach_add_", "triton_poi_fused_0"])
def test_what_cannot_be_read_is_said(name: str, shapes: str, types: str) -> None:
    found = cost_of(RecordedCall(name, shapes, types))
    assert found is not None
    assert found.status is not Status.EXACT or found.read_bytes > 0
    assert found.status is not Status.UNKNOWN or found.note


def test_without_shapes_there_is_no_cost() -> None:
    assert cost_of(RecordedCall("aten::mm")) is None


def test_kernels_of_torch_compile_move_each_tensor_once() -> None:
    tensor = ([10, 10], "float", "")
    found = cost("triton_poi_fused_add_cos_sin_0", tensor, tensor, tensor, ([], "Scalar", "100"))
    assert (found.read_bytes, found.written_bytes, found.vector_flops) == (800, 400, 0)
    assert is_counted("triton_red_fused_native_layer_norm_7") and found.status is Status.ESTIMATE


def test_collectives_move_what_they_are_given() -> None:
    """An all-reduce reads and writes its tensor; an all-gather of 8 ranks writes eight times what it reads."""
    reduced = cost("c10d::allreduce_", ([[4, 8]], "TensorList", ""), *[([], "", "")] * 3, ([], "Scalar", "True"))
    assert (reduced.read_bytes, reduced.written_bytes, reduced.kind) == (128, 128, Kind.COMM)
    name = "_c10d_functional::all_gather_into_tensor"
    gathered = cost(name, ([4, 8], BF16, ""), ([], "Scalar", "8"), ([], "", ""))
    assert (gathered.read_bytes, gathered.written_bytes, gathered.status) == (64, 512, Status.EXACT)


# -- operators of other libraries


def test_flash_attention_is_causal_from_the_bottom_right() -> None:
    """4 heads of 64, 128 queries and keys: pairs 128 x 129 / 2, of 4 x 64 FLOPs each."""
    side = ([2, 128, 4, 64], BF16, "")
    values = [("Scalar", "0.0"), ("Scalar", "0.125"), ("Scalar", "True"), ("Scalar", "-1"), ("Scalar", "-1")]
    values += [("Scalar", "0.0"), ("", ""), ("Scalar", "False")]
    found = cost("flash_attn::_flash_attn_forward", side, side, side, *(([], type_, value) for type_, value in values))
    assert (found.flops, found.full_flops) == (2 * 4 * 256 * 128 * 129 // 2, 2 * 4 * 256 * 128 * 128)
    assert (found.kind, found.written_bytes) == (Kind.ATTENTION, 2 * 2 * 128 * 4 * 64)


def test_products_of_engines() -> None:
    """Whichever way the weight lies; what is written is no input."""
    out, a = ([64, 4096], BF16, ""), ([64, 1024], FP8, "")
    scales = [([1], "float", ""), ([1], "float", ""), ([], "", "")]
    found = cost("_C::cutlass_scaled_mm", out, a, ([1024, 4096], FP8, ""), *scales)
    assert (found.flops, found.dtype) == (2 * 64 * 1024 * 4096, "fp8")
    assert (found.read_bytes, found.written_bytes) == (64 * 1024 + 1024 * 4096 + 8, 2 * 64 * 4096)
    found = cost("vllm::rocm_unquantized_gemm", ([46, 2880], BF16, ""), ([201088, 2880], BF16, ""), ([], "", ""))
    assert (found.flops, found.written_bytes) == (2 * 46 * 2880 * 201088, 2 * 46 * 201088)
    packed = cost(
        "sgl_kernel::cutlass_scaled_fp4_mm", out, ([64, 512], "unsigned char", ""), ([4096, 512], "unsigned char", "")
    )
    assert (packed.flops, packed.dtype) == (2 * 64 * 1024 * 4096, "fp4")


def test_experts_get_as_many_tokens_as_they_are_chosen_for() -> None:
    found = cost(
        "vllm::outplace_fused_experts",
        *[([10, 64], BF16, ""), ([8, 256, 64], BF16, ""), ([8, 64, 128], BF16, ""), ([10, 2], "float", "")],
        ([10, 2], "int", ""),
    )
    assert found.flops == 10 * 2 * (2 * 64 * 256 + 2 * 128 * 64)
    assert found.status is Status.ESTIMATE


def test_cache_is_not_read_and_lengths_are_not_known() -> None:
    rows, cache = ([8192, 8, 64], BF16, ""), ([224304, 32, 8, 64], BF16, "")
    found = cost("_C_cache_ops::reshape_and_cache_flash", rows, rows, cache, cache, ([8192], "long int", ""))
    assert found.moved_bytes == 4 * 2 * 8192 * 8 * 64 + 8 * 8192
    attention = cost("vllm::unified_attention_with_output", ([46, 64, 64], BF16, ""), *[([46, 8, 64], BF16, "")] * 2,
                     ([46, 64, 64], BF16, ""))  # fmt: skip
    assert "at least" in attention.note
    assert not is_counted("vllm::unified_attention_with_output")  # operators in it may know more


def test_own_rules(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        "[[operator]]\nname='mine'\nmatch='^mylib::matmul$'\nkind='gemm'\narguments='a b'\nsource='mine'\n"
        "[[operator]]\nname='vllm rocm gemm'\nmatch='^vllm::other$'\nkind='bytes'\narguments='a'\nsource='mine'\n",
        encoding="utf-8",
    )
    rules = load_custom_ops(own)
    call = recorded("mylib::matmul", ([4, 8], BF16, ""), ([16, 8], BF16, ""))
    known, unknown = cost_of(call, custom=rules), cost_of(call)
    assert known is not None and unknown is not None
    assert (known.flops, unknown.flops, unknown.status) == (2 * 4 * 8 * 16, 0, Status.UNKNOWN)
    assert is_counted("mylib::matmul", custom=rules) and not is_counted("mylib::matmul")
    assert not is_counted("vllm::rocm_unquantized_gemm", custom=rules)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[operator]]\nname='x'\n", "match"),
        ("[[operator]]\nname='x'\nmatch='('\nkind='gemm'\narguments='a b'\nsource='s'\n", "operator 'x'"),
        ("[[operator]]\nname='x'\nmatch='x'\nkind='gem'\narguments='a b'\nsource='s'\n", "kind"),
        ("[[operator]]\nname='x'\nmatch='x'\nkind='gemm'\narguments='a'\nsource='s'\n", "called 'b'"),
        ("[[operation]]\n", "operation"),
        ("operator = 3\n", "operator"),
    ],
)
def test_wrong_rules_end_in_a_sentence(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RulesError, match=says):
        load_custom_ops(path)


def test_overloads_are_told_by_number_and_types() -> None:
    names = {
        ("float", ""): ["self", "dtype"],
        ("float", "ScalarList", "Scalar", ""): ["self", "dim", "keepdim", "dtype"],
    }
    for types, wanted in names.items():
        overload = find_overload("aten::sum", types)
        assert overload is not None and [argument.name for argument in overload.arguments] == wanted
    added = find_overload("aten::add", ("float", "float", "Scalar", "float"))
    assert added is not None and added.outs == 1


def test_repetition_of_elements_is_made_of_other_operators() -> None:
    """repeat_interleave of a tensor, not of how often: its bytes are those of the clone that it calls."""
    assert is_counted("aten::repeat_interleave", '["long int","Scalar"]')
    assert not is_counted("aten::repeat_interleave", '["float","Scalar","Scalar",""]')
    assert not is_counted("aten::repeat_interleave", '["float","long int","Scalar",""]')


def test_result_given_is_the_last_of_four_tensors() -> None:
    """where(condition, a, b, out=r) is no where(condition) with three results."""
    tensors = [([6, 4], "bool", ""), *[([6, 4], "float", "")] * 3]
    found = cost("aten::where", *tensors)
    assert (found.read_bytes, found.written_bytes) == (24 * (1 + 4 + 4), 24 * 4)


def test_distances_of_rows_to_rows() -> None:
    found = cost("aten::_euclidean_dist", ([40, 3], "float", ""), ([30, 3], "float", ""))
    assert (found.flops, found.written_bytes) == (2 * 40 * 30 * 5, 4 * 40 * 30)


def test_bilinear_layer() -> None:
    """[6, 3] and [6, 4] to [6, 5]: 2 b o i j + 2 b o j."""
    lists = ["[1, 3]", "[0]", "[1, 2]", "[2, 3]"]
    tensors = [([6, 3], "float", ""), ([5, 3, 4], "float", ""), ([6, 4], "float", "")]
    found = cost("aten::_trilinear", *tensors, *(([], "ScalarList", text) for text in lists), ([], "Scalar", "1"))
    assert (found.flops, found.written_bytes) == (2 * 6 * 5 * 3 * 4 + 2 * 6 * 5 * 4, 4 * 6 * 5)


def test_tensor_without_a_dtype_is_none_that_is_known() -> None:
    """A nested tensor has neither shape nor dtype: x + 1 is no sum of a number."""
    found = cost("aten::add", ([], "", ""), ([], "long int", ""), ([], "Scalar", "1"))
    assert (found.moved_bytes, found.vector_flops, found.status) == (0, 0, Status.UNKNOWN)


def test_sparse_tensor_stores_at_most_what_its_shape_has() -> None:
    found = cost("aten::mul", ([6, 8], "float", ""), ([], "double", ""), strides=[[], []])
    assert (found.read_bytes, found.status) == (4 * 48, Status.UPPER_BOUND)


def test_tensors_that_are_not_defined_are_none() -> None:
    """The backward of dense flash attention has no cumulated lengths: the schema says tensors, the trace nothing."""
    each = [([4, 16, 2048, 64], BF16, "")] * 5
    lengths = [([4, 16, 2048], "float", ""), ([], "", ""), ([], "", "")]
    rest: list[tuple[list[int], str, str]] = [([], "Scalar", value) for value in ("2048", "2048", "0.", "True")]
    seeds: list[tuple[list[int], str, str]] = [([], "long int", ""), ([], "long int", ""), ([], "", "")]
    found = cost("aten::_scaled_dot_product_flash_attention_backward", *each, *lengths, *rest, *seeds)
    assert found.flops == 4 * 16 * (2 * 4 * 64) * (2048 * 2049 // 2)
    assert found.status is Status.EXACT
