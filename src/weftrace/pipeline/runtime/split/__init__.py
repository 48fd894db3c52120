"""The backward of a stage in two: I, the gradient of its input; and W, the gradients of its weights, later."""
