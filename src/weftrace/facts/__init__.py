"""Facts as data, a source beside each number: accelerators, models, and what part of its peak real work reaches."""

from weftrace.facts.accelerators import DTYPES, Hardware, hardware, hardware_of_device, known_hardware, load_hardware
from weftrace.facts.compute_capabilities import SmLimits, sm_limits
from weftrace.facts.efficiencies import (
    PublishedGemm,
    backward_factor,
    bytes_per_token,
    efficiency,
    fixed_seconds,
    num_kernels,
    published_gemms,
    sustained_flops_per_s,
)
from weftrace.facts.gemm_table import GemmRate, gemm_rate, gemm_rates
from weftrace.facts.models import (
    CompressedConfig,
    ExpertsConfig,
    IndexerConfig,
    LatentConfig,
    ModelConfig,
    active_params,
    find_config,
    known_models,
    load_models,
    model_config,
    num_params,
)

__all__ = [
    "DTYPES",
    "CompressedConfig",
    "ExpertsConfig",
    "GemmRate",
    "Hardware",
    "IndexerConfig",
    "LatentConfig",
    "ModelConfig",
    "PublishedGemm",
    "SmLimits",
    "active_params",
    "backward_factor",
    "bytes_per_token",
    "efficiency",
    "find_config",
    "fixed_seconds",
    "gemm_rate",
    "gemm_rates",
    "hardware",
    "hardware_of_device",
    "known_hardware",
    "known_models",
    "load_hardware",
    "load_models",
    "model_config",
    "num_kernels",
    "num_params",
    "published_gemms",
    "sm_limits",
    "sustained_flops_per_s",
]
