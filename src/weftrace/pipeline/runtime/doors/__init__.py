"""Ways in and out for code that is written for another pipeline runtime: torch's, and DualPipe's."""
