"""`weftrace diff`: options in, a function of the wing called, the result handed out."""
