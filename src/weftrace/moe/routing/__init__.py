"""Which ranks do tokens go to? Distinct nodes and GPUs of a token, and what that gives each rank to do: a `Load`."""
