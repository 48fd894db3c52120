"""Facts as data, a source beside each number: accelerators, models, and what part of its peak real work reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.facts.accelerators import DTYPES as DTYPES
    from weftrace.facts.accelerators import Hardware as Hardware
    from weftrace.facts.accelerators import hardware as hardware
    from weftrace.facts.accelerators import hardware_of_device as hardware_of_device
    from weftrace.facts.accelerators import known_hardware as known_hardware
    from weftrace.facts.accelerators import load_hardware as load_hardware
    from weftrace.facts.compute_capabilities import SmLimits as SmLimits
    from weftrace.facts.compute_capabilities import sm_limits as sm_limits
    from weftrace.facts.efficiencies import PublishedGemm as PublishedGemm
    from weftrace.facts.efficiencies import backward_factor as backward_factor
    from weftrace.facts.efficiencies import bytes_per_token as bytes_per_token
    from weftrace.facts.efficiencies import efficiency as efficiency
    from weftrace.facts.efficiencies import fixed_seconds as fixed_seconds
    from weftrace.facts.efficiencies import num_kernels as num_kernels
    from weftrace.facts.efficiencies import published_gemms as published_gemms
    from weftrace.facts.efficiencies import sustained_flops_per_s as sustained_flops_per_s
    from weftrace.facts.gemm_table import GemmRate as GemmRate
    from weftrace.facts.gemm_table import gemm_rate as gemm_rate
    from weftrace.facts.gemm_table import gemm_rates as gemm_rates
    from weftrace.facts.models import CompressedConfig as CompressedConfig
    from weftrace.facts.models import ExpertsConfig as ExpertsConfig
    from weftrace.facts.models import IndexerConfig as IndexerConfig
    from weftrace.facts.models import LatentConfig as LatentConfig
    from weftrace.facts.models import ModelConfig as ModelConfig
    from weftrace.facts.models import active_params as active_params
    from weftrace.facts.models import find_config as find_config
    from weftrace.facts.models import known_models as known_models
    from weftrace.facts.models import load_models as load_models
    from weftrace.facts.models import model_config as model_config
    from weftrace.facts.models import num_params as num_params

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
