"""The command line: thin calls of public functions. The only place that prints or exits."""
