"""Another placement, another schedule, another split of the SMs: what durations or order they give."""
