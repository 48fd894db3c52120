"""Mixture-of-experts layers across GPUs: training, prefill and decode profiles, simulated and executed.

    profile = wt.moe.make_profile(wt.moe.Setting.of("prefill", ep=32))   # the published one, but for what is given
    wt.show(profile)                                       # what runs beside what, and where each time comes from
    wt.moe.throughput(profile).tokens_per_gpu              # tokens a second
    overlap = wt.moe.load_overlap("two-micro-batches")     # the operation list: data, one of yours as well
    wt.moe.validate(wt.open("simulated/"), wt.open("measured/"))

`weftrace.moe.runtime` executes a list, and is the only part that needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.moe.as_plan import plan_of as plan_of
    from weftrace.moe.calibration.fit import calibrate as calibrate
    from weftrace.moe.calibration.values import Calibration as Calibration
    from weftrace.moe.calibration.values import read_calibration as read_calibration
    from weftrace.moe.derived.late_ranks import stragglers as stragglers
    from weftrace.moe.derived.limits import bottleneck as bottleneck
    from weftrace.moe.derived.phase_times import phase_table as phase_table
    from weftrace.moe.derived.tokens_per_second import throughput as throughput
    from weftrace.moe.operations import Operation as Operation
    from weftrace.moe.operations import Overlap as Overlap
    from weftrace.moe.operations import check as check
    from weftrace.moe.overlap_files import known_overlaps as known_overlaps
    from weftrace.moe.overlap_files import load_overlap as load_overlap
    from weftrace.moe.pieces import Piece as Piece
    from weftrace.moe.pieces import Prices as Prices
    from weftrace.moe.profiles import Profile as Profile
    from weftrace.moe.profiles import make_profile as make_profile
    from weftrace.moe.profiles import simulated as simulated
    from weftrace.moe.requested import profile_of as profile_of
    from weftrace.moe.requests import Request as Request
    from weftrace.moe.routing.load import Load as Load
    from weftrace.moe.routing.load import balanced as balanced
    from weftrace.moe.routing.load import from_loads as from_loads
    from weftrace.moe.routing.random_draw import drawn as drawn
    from weftrace.moe.setting import Setting as Setting
    from weftrace.moe.sweeps.break_even import Pays as Pays
    from weftrace.moe.sweeps.break_even import pays as pays
    from weftrace.moe.sweeps.many_settings import Sweep as Sweep
    from weftrace.moe.sweeps.many_settings import sweep as sweep
    from weftrace.moe.validation.comparison import Validation as Validation
    from weftrace.moe.validation.comparison import validate as validate
    from weftrace.moe.validation.held_out import calibrate_and_test as calibrate_and_test

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
