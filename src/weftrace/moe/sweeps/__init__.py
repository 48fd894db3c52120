"""Many profiles: every combination of settings, and from which batch on overlapping pays."""
