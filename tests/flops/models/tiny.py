"""Small relatives of the built-in models: the same code, a few thousand parameters."""

from __future__ import annotations

from weftrace.facts.models import ExpertsConfig, LatentConfig, ModelConfig

BERT = ModelConfig(
    name="bert-tiny",
    family="bert",
    vocab_size=96,
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    intermediate_size=80,
    max_positions=64,
    tied_head=True,
)
GPT2 = ModelConfig(
    name="gpt2-tiny",
    family="gpt2",
    vocab_size=96,
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    intermediate_size=128,
    max_positions=64,
    tied_head=True,
)
LLAMA = ModelConfig(
    name="llama-tiny",
    family="llama",
    vocab_size=96,
    hidden_size=32,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    intermediate_size=48,
    max_positions=64,
)
MIXTRAL = ModelConfig(
    name="mixtral-tiny",
    family="llama",
    vocab_size=96,
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    intermediate_size=48,
    max_positions=64,
    experts=ExpertsConfig(num_experts=4, top_k=2, intermediate_size=48),
)
QWEN3 = ModelConfig(
    name="qwen3-tiny",
    family="llama",
    vocab_size=96,
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    intermediate_size=48,
    max_positions=64,
    qk_norm=True,
    experts=ExpertsConfig(num_experts=8, top_k=3, intermediate_size=24),
)
DEEPSEEK = ModelConfig(
    name="deepseek-tiny",
    family="deepseek",
    vocab_size=96,
    hidden_size=32,
    num_layers=3,
    num_heads=4,
    intermediate_size=48,
    max_positions=64,
    experts=ExpertsConfig(
        num_experts=16,
        top_k=4,
        intermediate_size=16,
        num_shared=1,
        num_groups=4,
        top_groups=2,
        num_dense_layers=1,
        scoring="sigmoid",
        routed_scale=2.5,
    ),
    latent=LatentConfig(q_rank=24, kv_rank=16, rope_dim=8, nope_dim=16, v_dim=8),
)
TINY = (BERT, GPT2, LLAMA, MIXTRAL, QWEN3, DEEPSEEK)
