"""What each stream of a device ran, and what its ops waited for: launches, other streams, free SMs."""
