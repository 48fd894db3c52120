"""Where does the time of one layer go? Of the time that one more layer adds: computing, communicating, exposed."""

from __future__ import annotations

import polars as pl

from weftrace.analysis.intervals import covered, of_events
from weftrace.moe.derived.phase_times import COMPUTES, kernels_of
from weftrace.moe.profiles import Profile


def layer_account(profile: Profile, rank: int) -> dict[str, float]:
    """layer_ns, and of it on the rank compute_ns, communication_ns, exposed_ns: of the time from the second layer's
    start to the last one's, by layer; of fewer than three layers, of all. The ends of a run, where nothing is beside a
    transfer, would otherwise count by how few layers are run."""
    kernels = kernels_of(profile, rank)
    compute, communication = (of_events(kernels.filter(each)) for each in (COMPUTES, pl.col("kind") == "communication"))
    layers = profile.layers
    parts = {"compute_ns": compute, "communication_ns": communication, "exposed_ns": communication - compute}
    return {
        "layer_ns": layers.layer_ns,
        **{
            name: float(covered(part, [layers.start_ns], [layers.end_ns])[0]) / layers.num_layers
            for name, part in parts.items()
        },
    }
