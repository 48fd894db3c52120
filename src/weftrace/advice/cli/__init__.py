"""`weftrace critical-path` and `weftrace whatif`: options in, a function of the wing called, the result handed out."""
