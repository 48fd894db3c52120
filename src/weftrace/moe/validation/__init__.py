"""Predicted against measured: calibrations on layers left out of the fit, simulated profiles beside recorded ones."""
