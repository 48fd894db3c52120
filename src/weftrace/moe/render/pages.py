"""HTML of what is made of many profiles: a sweep, from which batch on overlapping pays, and a validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weftrace.moe.render.page import HOME, STYLES
from weftrace.moe.render.words import PAYS_TERMS, SWEEP_TERMS, VALIDATION_TERMS
from weftrace.moe.sweeps.document import PaysDocument, SweepDocument
from weftrace.moe.validation.document import ValidationDocument
from weftrace.render.configuration import configured_terms
from weftrace.render.page import render_page


def render_sweep_html(document: SweepDocument) -> str:
    """One self-contained page of a sweep (`weftrace.profile.sweep/1`), as text."""
    swept = ", ".join(document["axes"])
    return _page("sweep", document, SWEEP_TERMS, f"sweep over {swept}", shared=document["shared"])


def render_pays_html(document: PaysDocument) -> str:
    """One self-contained page of what pays (`weftrace.profile.pays/1`), as text."""
    return _page("pays", document, PAYS_TERMS, "does overlapping pay?", shared=document["shared"])


def render_validation_html(document: ValidationDocument) -> str:
    """One self-contained page of a validation (`weftrace.profile.validation/1`), as text."""
    title = f"{document['predicted']['source']} against {document['measured']['source']}"
    return _page("validation", document, VALIDATION_TERMS, title)


def _page(
    name: str,
    document: Any,
    terms: Mapping[str, tuple[str, str]],
    title: str,
    shared: Mapping[str, str] | None = None,
) -> str:
    headline = document["headline"]
    first = headline.partition(" ")[0]  # "ep=32" and "mlp(F)" stay as they are written
    return render_page(
        f"{name}.html",
        home=HOME,
        entry=name,
        styles=STYLES,
        blocks=[(f"weftrace-profile-{name}", document)],
        terms={**terms, **configured_terms(f"profile.{each}" for each in shared or ())},
        title=title,
        headline=(first.capitalize() if first.isalpha() else first)
        + headline[len(first) :]
        + ("" if headline.endswith(".") else "."),
        version=document["weftrace"],
    )
