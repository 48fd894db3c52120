"""HTML of what is made of many profiles: a sweep, from which batch on overlapping pays, and a validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weftrace.files.values import to_document
from weftrace.moe.render.page import HOME, STYLES
from weftrace.moe.render.words import PAYS_TERMS, SWEEP_TERMS, VALIDATION_TERMS
from weftrace.moe.sweeps.break_even import Curve, Pays
from weftrace.moe.sweeps.many_settings import Sweep
from weftrace.moe.sweeps.summaries import Summary
from weftrace.moe.validation.comparison import ComparedPhase, PhaseOfOneSide, Validation
from weftrace.render.configuration import configured_terms
from weftrace.render.page import render_page
from weftrace.version import __version__


def render_sweep_html(sweep: Sweep) -> str:
    """One self-contained page of a sweep, as text."""
    return _page(
        "sweep", sweep, SWEEP_TERMS, f"sweep over {', '.join(sweep.axes)}", {"combinations": Summary}, sweep.shared
    )


def render_pays_html(pays: Pays) -> str:
    """One self-contained page of what pays, as text."""
    return _page("pays", pays, PAYS_TERMS, "does overlapping pay?", {"lists": Curve}, pays.shared)


def render_validation_html(found: Validation) -> str:
    """One self-contained page of a validation, as text."""
    title = f"{found.predicted.source} against {found.measured.source}"
    tables = {"phases": ComparedPhase, "alone": PhaseOfOneSide}
    return _page("validation", found, VALIDATION_TERMS, title, tables)


def _page(
    name: str,
    found: Sweep | Pays | Validation,
    terms: Mapping[str, tuple[str, str]],
    title: str,
    tables: Mapping[str, type],
    shared: Iterable[str] = (),
) -> str:
    headline = found.headline
    first = headline.partition(" ")[0]  # "ep=32" and "mlp(F)" stay as they are written
    return render_page(
        f"{name}.html",
        home=HOME,
        entry=name,
        styles=STYLES,
        blocks=[(f"weftrace-profile-{name}", to_document(found))],
        terms={**terms, **configured_terms(f"profile.{each}" for each in shared)},
        tables=tables,
        title=title,
        headline=(first.capitalize() if first.isalpha() else first)
        + headline[len(first) :]
        + ("" if headline.endswith(".") else "."),
        version=__version__,
    )
