"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from weftrace.moe.calibration.values import SCHEMA as CALIBRATION_SCHEMA
from weftrace.moe.calibration.values import Calibration
from weftrace.moe.document import SavedProfile, load_profile, profile_document
from weftrace.moe.profiles import Profile
from weftrace.moe.render.calibration_terminal import print_calibration
from weftrace.moe.render.figures import lanes_figure, pays_figure, sweep_figure, validation_figure
from weftrace.moe.render.page import profile_svg, render_profile_html
from weftrace.moe.render.pages import render_pays_html, render_sweep_html, render_validation_html
from weftrace.moe.render.pays_terminal import print_pays
from weftrace.moe.render.sweep_terminal import print_sweep
from weftrace.moe.render.terminal import print_profile
from weftrace.moe.render.validation_terminal import print_validation
from weftrace.moe.sweeps.break_even import Pays, pays_table
from weftrace.moe.sweeps.many_settings import Sweep, sweep_table
from weftrace.moe.validation.comparison import Validation, validation_table
from weftrace.outputs import Output, text_writer

PROFILE = Output(
    value=Profile,
    kind=SavedProfile,
    schema="weftrace.profile/1",
    title="A simulated profile of mixture-of-experts layers",
    document=profile_document,
    load=load_profile,
    show=print_profile,
    page=render_profile_html,
    save={".svg": text_writer(profile_svg)},
    figures={"lanes": lanes_figure},
)

SWEEP = Output(
    value=Sweep,
    schema="weftrace.profile.sweep/1",
    title="A sweep over settings of a profile",
    show=print_sweep,
    page=render_sweep_html,
    table=sweep_table,
    figures={"sweep": sweep_figure},
)

PAYS = Output(
    value=Pays,
    schema="weftrace.profile.pays/1",
    title="The smallest batch for which overlapping pays",
    show=print_pays,
    page=render_pays_html,
    table=pays_table,
    figures={"pays": pays_figure},
)

VALIDATION = Output(
    value=Validation,
    schema="weftrace.profile.validation/1",
    title="A predicted profile beside a measured one",
    show=print_validation,
    page=render_validation_html,
    table=validation_table,
    figures={"validation": validation_figure},
)

CALIBRATION = Output(
    value=Calibration,
    schema=CALIBRATION_SCHEMA,
    title="Costs of a mixture-of-experts layer, calibrated from a trace",
    show=print_calibration,
)

OUTPUTS: tuple[Output, ...] = (PROFILE, SWEEP, PAYS, VALIDATION, CALIBRATION)
