"""What a layer of a model computes and moves: products, attention cores, memory-bound kernels. No times."""
