"""Models that weftrace builds itself, from numbers alone: on any device, meta above all, nothing downloaded."""

from weftrace.flops.runtime.models.build import active_fraction, build_model, model_inputs, run_phase

__all__ = ["active_fraction", "build_model", "model_inputs", "run_phase"]
