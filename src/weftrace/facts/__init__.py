"""Facts as data, a source beside each number: accelerators, models, and what part of its peak real work reaches."""

from weftrace.facts.accelerators import DTYPES, Hardware, hardware, known_hardware, load_hardware
from weftrace.facts.efficiencies import PublishedGemm, efficiency, published_gemms, sustained_flops_per_s
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
    "Hardware",
    "IndexerConfig",
    "LatentConfig",
    "ModelConfig",
    "PublishedGemm",
    "active_params",
    "efficiency",
    "find_config",
    "hardware",
    "known_hardware",
    "known_models",
    "load_hardware",
    "load_models",
    "model_config",
    "num_params",
    "published_gemms",
    "sustained_flops_per_s",
]
