"""What can be done with calibrations and validations: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.kinds import Kind, text_writer
from weftrace.moe.calibration.document import CALIBRATION_SCHEMA, calibration_document, calibration_of
from weftrace.moe.calibration.values import Calibration
from weftrace.moe.render.calibration_terminal import print_calibration
from weftrace.moe.render.figures import validation_figure
from weftrace.moe.render.pages import render_validation_html
from weftrace.moe.render.validation_terminal import print_validation
from weftrace.moe.validation.comparison import Validation
from weftrace.moe.validation.document import (
    VALIDATION_SCHEMA,
    validation_document,
    validation_of,
    validation_table,
)

MEASURED_SCHEMAS = (CALIBRATION_SCHEMA, VALIDATION_SCHEMA)

VALIDATION = Kind(
    value=Validation,
    schema=VALIDATION_SCHEMA.schema,
    document=validation_document,
    load=lambda document, what: validation_of(document, what=what),
    show=lambda found, console: print_validation(validation_document(found), console),
    save={
        ".html": text_writer(lambda found: render_validation_html(validation_document(found))),
        ".csv": text_writer(lambda found: validation_table(found).write_csv()),
    },
    figures={"validation": validation_figure},
)

CALIBRATION = Kind(
    value=Calibration,
    schema=CALIBRATION_SCHEMA.schema,
    document=calibration_document,
    load=lambda document, what: calibration_of(document, what=what),
    show=lambda found, console: print_calibration(calibration_document(found), console),
)

MEASURED_KINDS = (VALIDATION, CALIBRATION)
