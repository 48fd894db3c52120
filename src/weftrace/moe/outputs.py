"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from weftrace.moe.calibration.document import CALIBRATION_SCHEMA, calibration_document, calibration_of
from weftrace.moe.calibration.values import Calibration
from weftrace.moe.document import PROFILE_SCHEMA, profile_document, profile_from
from weftrace.moe.profiles import Profile
from weftrace.moe.render.calibration_terminal import print_calibration
from weftrace.moe.render.figures import lanes_figure, pays_figure, sweep_figure, validation_figure
from weftrace.moe.render.page import profile_svg, render_profile_html
from weftrace.moe.render.pages import render_pays_html, render_sweep_html, render_validation_html
from weftrace.moe.render.pays_terminal import print_pays
from weftrace.moe.render.sweep_terminal import print_sweep
from weftrace.moe.render.terminal import print_profile
from weftrace.moe.render.validation_terminal import print_validation
from weftrace.moe.sweeps.crossings import Pays
from weftrace.moe.sweeps.document import (
    PAYS_SCHEMA,
    SWEEP_SCHEMA,
    pays_document,
    pays_from,
    pays_table,
    sweep_document,
    sweep_from,
    sweep_table,
)
from weftrace.moe.sweeps.many_settings import Sweep
from weftrace.moe.validation.comparison import Validation
from weftrace.moe.validation.document import (
    VALIDATION_SCHEMA,
    validation_document,
    validation_of,
    validation_table,
)
from weftrace.outputs import Output, text_writer

SCHEMAS = (PROFILE_SCHEMA, SWEEP_SCHEMA, PAYS_SCHEMA, CALIBRATION_SCHEMA, VALIDATION_SCHEMA)

PROFILE = Output(
    value=Profile,
    schema=PROFILE_SCHEMA.schema,
    document=profile_document,
    load=profile_from,
    show=print_profile,
    save={".html": text_writer(render_profile_html), ".svg": text_writer(profile_svg)},
    figures={"lanes": lanes_figure},
)

SWEEP = Output(
    value=Sweep,
    schema=SWEEP_SCHEMA.schema,
    document=sweep_document,
    load=sweep_from,
    show=lambda sweep, console: print_sweep(sweep_document(sweep), console),
    save={
        ".html": text_writer(lambda sweep: render_sweep_html(sweep_document(sweep))),
        ".csv": text_writer(lambda sweep: sweep_table(sweep).write_csv()),
    },
    figures={"sweep": sweep_figure},
)

PAYS = Output(
    value=Pays,
    schema=PAYS_SCHEMA.schema,
    document=pays_document,
    load=pays_from,
    show=lambda pays, console: print_pays(pays_document(pays), console),
    save={
        ".html": text_writer(lambda pays: render_pays_html(pays_document(pays))),
        ".csv": text_writer(lambda pays: pays_table(pays).write_csv()),
    },
    figures={"pays": pays_figure},
)

VALIDATION = Output(
    value=Validation,
    schema=VALIDATION_SCHEMA.schema,
    document=validation_document,
    load=validation_of,
    show=lambda found, console: print_validation(validation_document(found), console),
    save={
        ".html": text_writer(lambda found: render_validation_html(validation_document(found))),
        ".csv": text_writer(lambda found: validation_table(found).write_csv()),
    },
    figures={"validation": validation_figure},
)

CALIBRATION = Output(
    value=Calibration,
    schema=CALIBRATION_SCHEMA.schema,
    document=calibration_document,
    load=calibration_of,
    show=lambda found, console: print_calibration(calibration_document(found), console),
)

OUTPUTS: tuple[Output, ...] = (PROFILE, SWEEP, PAYS, VALIDATION, CALIBRATION)
