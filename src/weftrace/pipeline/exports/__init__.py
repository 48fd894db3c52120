"""A schedule as the settings of a training framework: one module per framework."""
