"""Models that weft builds itself, from numbers alone: on any device, the meta device above all, nothing downloaded."""

from weft.flops.runtime.models.build import active_fraction, build_model, model_inputs, run_phase

__all__ = ["active_fraction", "build_model", "model_inputs", "run_phase"]
