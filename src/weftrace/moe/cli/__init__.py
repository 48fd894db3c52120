"""`weftrace profile`: options in, a function of the wing called, the result handed to the one way out."""
