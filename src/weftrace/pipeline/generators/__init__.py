"""Orders that people have published, made for any number of ranks and micro-batches.

`families.generate("zbv", num_ranks=8, num_micro_batches=32)` makes each by its name. Each part may import those after
it: families; one_stage, looped, sliced, v_shape, dualpipe and overlapped; sweeps, squeeze and columns; arguments.
"""
