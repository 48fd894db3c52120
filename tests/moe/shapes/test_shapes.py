"""FLOPs and bytes of a layer's parts: by pencil on small shapes, and by the published formulas on DeepSeek-V3."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weftrace.errors import ProfileError
from weftrace.facts import ModelConfig, load_models, model_config, num_params
from weftrace.moe.shapes import products
from weftrace.moe.shapes.cores import (
    backward_core,
    cache_dims,
    cached_pairs,
    causal_core,
    causal_pairs,
    decode_core,
)
from weftrace.moe.shapes.layer import Layer, parts_of
from weftrace.moe.shapes.memory_bound_ops import memory_bound, transposed_operands
from weftrace.moe.shapes.parts import Amount, Part, backward_of, batched, in_bf16, product

V3 = model_config("deepseek-v3")
T, S, H = 4096, 4096, 7168


def flops(parts: tuple[Part, ...]) -> dict[str, Amount]:
    return {part.name: part.flops for part in parts}


def layer(model: ModelConfig = V3, **changes: object) -> Layer:
    """DeepSeek's training profile: 4,096 tokens, 64 GPUs, balanced."""
    whole = Layer(
        model=model, tokens=T, sequence=S, requests=None, rows=8 * T, local_experts=4, shared_in_mlp=True
    )  # fmt: skip
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_a_product_by_pencil() -> None:
    # 3 rows of 256, two matrices 256 x 128: 2 scales a row, 2 scales a matrix, of 4 bytes; BF16 out
    part = product("p", 3, 256, 128, groups=2)
    assert part.flops == 2 * 3 * 256 * 128
    assert part.moved_bytes == 3 * (256 + 8) + 2 * (256 * 128 + 8) + 3 * 128 * 2
    assert in_bf16(part).moved_bytes == 2 * (3 * 256 + 2 * 256 * 128 + 3 * 128)
    assert (part.params, part.widths) == (2 * 256 * 128, 3 * 384)
    weights = backward_of(part, "wgrad")
    assert weights.flops == part.flops == backward_of(part, "dgrad").flops
    assert weights.moved_bytes - part.moved_bytes == weights.gradient_bytes == 8 * part.params
    assert in_bf16(weights).moved_bytes - in_bf16(part).moved_bytes == 8 * part.params
    assert batched("b", 12, 4, 5, 3).moved_bytes == 2 * (12 * 4 + 3 * 4 * 5 + 12 * 5)


def test_pairs_by_pencil() -> None:
    # a query at place p of 8 sees p keys: 4 on average; with a window of 2: 0 + 1 + 2 * 6 over p = 0 ... 7, less half a
    # key where the window fills: the mean of min(p, 2) from 0 to 8 is (1/2 * 2 * 2 + 2 * 6) / 8 = 1.75
    assert causal_pairs(8, 8) == 32
    assert causal_pairs(8, 8, most=2) == 14
    assert causal_pairs(8, 8, most=8) == causal_pairs(8, 8, most=99) == 32
    assert causal_pairs(8, 8, stride=4) == 8
    assert causal_pairs(16, 8) == 64  # two prompts
    assert (cached_pairs(3, 100), cached_pairs(3, 100, most=20), cached_pairs(3, 100, stride=4)) == (300, 60, 75)


def test_deepseek_v3_by_the_published_formulas() -> None:
    assert flops(products.before_core(V3, T, absorbed=False)) == {
        "q_a": 2 * T * H * 1536,
        "kv_a": 2 * T * H * 576,
        "q_b": 2 * T * 1536 * 24576,
        "kv_b": 2 * T * 512 * 32768,
    }
    assert flops(products.after_core(V3, T, absorbed=False)) == {"o": 2 * T * 16384 * H}
    assert sum(flops(products.shared(V3, T)).values()) == 6 * T * H * 2048
    assert sum(flops(products.routed(V3, 8 * T, 4)).values()) == 6 * 8 * T * H * 2048
    assert flops(causal_core(V3, T, S)) == {"core": 128 * T * S * (192 + 128)}
    assert flops(backward_core(V3, T, S)) == {"core": 128 * T * S * (3 * 192 + 2 * 128)}
    (decode,) = decode_core(V3, 128, 64, 4096)
    assert decode.flops == 2 * 128 * 128 * 4096 * (576 + 512)
    assert decode.moved_bytes == 64 * 4096 * 576 * 2 + 2 * 128 * 128 * (576 + 512)
    assert 2 * cache_dims(V3) * 61 == 70_272  # bytes a token
    assert products.gate(V3, T).flops == 2 * T * H * 256
    assert sum(part.params for part in products.dense(V3, T)) == 3 * H * 18432


def test_decode_absorbs_kv_b_into_the_query_and_the_output() -> None:
    before = products.before_core(V3, 128, absorbed=True)
    after = products.after_core(V3, 128, absorbed=True)
    assert [part.name for part in (*before, *after)] == ["q_a", "kv_a", "q_b", "q_absorbed", "o_absorbed", "o"]
    assert before[3].flops == 2 * 128 * 128 * 128 * 512 == after[0].flops  # heads x tokens x 128 x 512
    assert before[3].params + after[0].params == 512 * 32768  # kv_b, once


def test_grouped_query_attention() -> None:
    qwen = model_config("qwen3-235b-a22b")  # 64 heads of 128, 4 of keys, hidden 4096
    assert flops((*products.before_core(qwen, T, absorbed=False), *products.after_core(qwen, T, absorbed=False))) == {
        "q": 2 * T * 4096 * 8192,
        "k": 2 * T * 4096 * 512,
        "v": 2 * T * 4096 * 512,
        "o": 2 * T * 8192 * 4096,
    }
    assert products.shared(qwen, T) == ()
    (core,) = causal_core(qwen, T, S)
    assert core.flops == 64 * T * S * (128 + 128)
    assert core.moved_bytes == 2 * T * (64 * 256 + 2 * 4 * 128)
    (decode,) = decode_core(qwen, 128, 64, 4096)
    assert decode.moved_bytes == 2 * (64 * 4096 * 2 * 4 * 128 + 128 * 64 * 256)


def test_sparse_attention_sees_what_its_indexer_chose() -> None:
    v32 = model_config("deepseek-v3.2")
    scores, core = decode_core(v32, 128, 64, 65536)
    assert core.flops == 2 * 128 * 128 * 2048 * (576 + 512)  # 2,048 keys, however long the cache
    assert scores.flops == 2 * 64 * 128 * 65536 * 128
    assert decode_core(v32, 128, 64, 1024)[1].flops == 2 * 128 * 128 * 1024 * (576 + 512)
    prompt = causal_core(v32, T, 65536)[1]
    assert prompt.flops == 2 * 128 * (T * 2048 - T * 2048 * 2048 // (2 * 65536)) * (576 + 512)
    names = [part.name for part in products.before_core(v32, T, absorbed=True)]
    assert names == ["q_a", "kv_a", "q_b", "q_absorbed", "index_q", "index_k"]


def test_compressed_attention_of_an_average_layer() -> None:
    flash = model_config("deepseek-v4-flash")  # 43 layers: 2 see the window alone, 21 CSA, 20 HCA
    scores, core = decode_core(flash, 10, 5, 65536)
    pairs = 10 * 128 + (21 * 10 * 512 + 20 * 10 * 65536 // 128) // 43
    assert core.flops == 2 * 64 * pairs * (512 + 512)
    assert scores.flops == 2 * 64 * 10 * (65536 // 4) * 128 * 21 // 43
    o_a, o_b = products.after_core(flash, T, absorbed=False)
    assert o_a.flops == 2 * T * 64 * 512 * 1024 and o_b.flops == 2 * T * 8 * 1024 * 4096


MODELS = [config for config in load_models() if config.experts is not None]


@pytest.mark.parametrize("model", MODELS, ids=lambda config: str(config.name))
def test_matrices_add_up_to_the_models_parameters(model: ModelConfig) -> None:
    """All products of all layers, and what stands outside of them, is nearly every parameter."""
    experts = model.experts
    assert experts is not None
    attention = (*products.before_core(model, 1, absorbed=False), *products.after_core(model, 1, absorbed=False))
    one = (*products.shared(model, 1), *products.routed(model, 1, experts.num_experts), products.gate(model, 1))
    num_dense = experts.num_dense_layers
    total = model.num_layers * sum(part.params for part in attention)
    total += (model.num_layers - num_dense) * sum(part.params for part in one)
    total += (
        num_dense * sum(part.params for part in products.dense(model, 1)) + 2 * model.vocab_size * model.hidden_size
    )
    assert total == pytest.approx(num_params(model), rel=0.005)  # norms; columns of an average layer, rounded down
    assert total <= num_params(model)


def test_glue_is_what_was_counted_on_deepseek_v3() -> None:
    attention = parts_of("attn", "F", layer())[-1]
    mlp = parts_of("mlp", "F", layer())[-1]
    assert attention.moved_bytes == pytest.approx(511_000 * T) and mlp.moved_bytes == pytest.approx(676_000 * T)
    assert parts_of("attn", "B", layer())[-1].moved_bytes == pytest.approx(1.9 * 511_000 * T)
    assert parts_of("mlp", "B", layer())[-1].moved_bytes == pytest.approx(1.6 * 676_000 * T)
    # 9 rows a token make 676 kB: a GPU with no rows is left the shared one
    assert parts_of("mlp", "F", layer(rows=0))[-1].moved_bytes == pytest.approx(676_000 * T / 9)
    assert memory_bound("mlp", products.shared(V3, T)).moved_bytes == pytest.approx(676_000 * T / 9)


def names(work: str, direction: str, of: Layer) -> list[str]:
    return [f"{part.name} {part.backward}".strip() for part in parts_of(work, direction, of)]


def test_what_an_operation_consists_of() -> None:
    train = layer()
    assert names("attn", "F", train) == ["q_a", "kv_a", "q_b", "kv_b", "core", "o", "gate", "attention"]
    assert names("attn", "B", train) == [
        *("gate dgrad", "gate wgrad", "q_b", "kv_b", "core dgrad", "o dgrad"),
        *("q_a dgrad", "kv_a dgrad", "q_b dgrad", "kv_b dgrad", "attention dgrad"),
    ]
    assert names("attn", "W", train) == [f"{name} wgrad" for name in ("q_a", "kv_a", "q_b", "kv_b", "o")]
    assert names("mlp", "F", train) == ["w13", "w2", "shared_w13", "shared_w2", "mlp"]
    assert names("mlp", "W", train) == [
        *("operands wgrad", "w13 wgrad", "w2 wgrad", "shared_w13 wgrad", "shared_w2 wgrad")
    ]
    assert transposed_operands(8 * T, H).moved_bytes == 4 * 8 * T * (H + 4 * 56)
    serve = layer(tokens=128, requests=64, rows=1024, local_experts=2, shared_in_mlp=False)
    assert names("attn-0", "F", serve) == ["attention", "q_a", "kv_a", "q_b", "q_absorbed"]
    assert names("attn-1", "F", serve) == ["core", "o_absorbed", "o", "gate", "attention"]
    assert names("shared", "F", serve) == ["shared_w13", "shared_w2", "mlp"]
    assert names("mlp", "F", serve) == ["w13", "w2", "mlp"]
    assert names("shared", "F", layer(model_config("mixtral-8x7b"), rows=2 * T)) == []
    with pytest.raises(ProfileError, match=r"attn-0\(B\): training has no such work"):
        parts_of("attn-0", "B", train)


def test_halves_of_attention_are_the_whole() -> None:
    prompt = layer(shared_in_mlp=False)
    whole, halves = parts_of("attn", "F", prompt), (*parts_of("attn-0", "F", prompt), *parts_of("attn-1", "F", prompt))
    assert sum(part.flops for part in whole) == sum(part.flops for part in halves)
    assert sum(part.moved_bytes for part in whole) == pytest.approx(sum(part.moved_bytes for part in halves))


def test_rows_by_layer_and_rank_stay_arrays() -> None:
    rows_LR = np.array([[8.0 * T, 0.0], [T, 2.0 * T]])
    w13 = parts_of("mlp", "F", layer(rows=rows_LR))[0]
    assert np.array_equal(w13.flops, 2 * rows_LR * H * 4096)
    assert not [part for part in parts_of("mlp", "F", layer(fp8=False)) if part.dtype == "fp8"]
