"""Which name of the one run is which of the other? Kernels, operators and phases, by name, by rule, by operator."""
