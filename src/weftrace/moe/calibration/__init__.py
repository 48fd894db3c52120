"""Costs from a measured trace: fitted on some of its layers, tested on the others."""
