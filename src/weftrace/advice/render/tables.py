"""The wing's documents as Markdown, to paste into an issue or a page: the sentence, the replay's error, tables."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.advice.document import CriticalPathDocument, PartRow
from weftrace.advice.render.words import off, replay_words, saved_words, weakest_words
from weftrace.advice.whatif_document import SensitivityDocument, WhatIfDocument, before_and_after
from weftrace.render.markdown import markdown_cell, markdown_table
from weftrace.units import duration, percent

_TOP = 12


def path_markdown(document: CriticalPathDocument) -> str:
    """The headline, the waterfall, and the path by phase, kernel and cause."""
    bars = [
        [bar["name"], duration(bar["time_ns"]), percent(bar["share"]),
         "–" if bar["alone_ns"] is None else duration(bar["alone_ns"])]
        for bar in document["waterfall"]
    ]  # fmt: skip
    return _page(
        document["headline"],
        replay_words(document["replay"]),
        markdown_table(("class", "on the path", "share", "saved with none of it"), bars),
        _parts("phase", document["by_phase"]),
        _parts("kernel", document["by_kernel"]),
        _parts("cause", document["by_cause"]),
        markdown_cell(weakest_words(document["weakest"])),
        version=document["weftrace"],
        source=document["source"],
        notes=document["notes"],
    )


def what_if_markdown(document: WhatIfDocument) -> str:
    """The headline, the spans, the path before and after, and where the answer stops being valid."""
    spans = [
        ["measured", duration(document["replay"]["span_ns"])],
        ["replayed", duration(document["replayed_ns"])],
        ["with the change", duration(document["after_ns"])],
        ["saved", duration(document["saved_ns"])],
    ]
    both = before_and_after(document["before"], document["after"])
    classes = [[name, duration(old), duration(new)] for name, (old, new) in both.items()]
    return _page(
        document["headline"],
        replay_words(document["replay"]),
        markdown_table(("span", ""), spans),
        markdown_table(("on the path", "before", "after"), classes),
        "\n".join(f"- {markdown_cell(limit)}" for limit in document["limits"]),
        version=document["weftrace"],
        source=document["source"],
        notes=document["notes"],
    )


def sensitivity_markdown(document: SensitivityDocument) -> str:
    """The headline, the table of all selections, the curves."""
    rows = [
        [row["kind"], markdown_cell(row["selector"]), saved_words(row["share"]), duration(row["critical_ns"]),
         duration(row["time_ns"])]
        for row in document["rows"]
    ]  # fmt: skip
    curves = []
    for curve in document["curves"]:
        points = [[f"×{at['factor']:g}", duration(at["span_ns"]), off(at["change"])] for at in curve["points"]]
        curves += [
            markdown_table((markdown_cell(curve["selector"]), "span", "change"), points),
            markdown_cell(curve["sentence"]),
        ]
    heads = ("", "selector", f"span, {100 * document['by']:g} % faster", "on the path", "of all")
    return _page(
        document["headline"],
        replay_words(document["replay"]),
        markdown_table(heads, rows),
        *curves,
        version=document["weftrace"],
        source=document["source"],
        notes=document["notes"],
    )


def _page(headline: str, *parts: str, version: str, source: str, notes: Sequence[str]) -> str:
    told = [f"**{markdown_cell(headline)}**", f"weftrace {version} of {markdown_cell(source)}", *filter(None, parts)]
    return "\n\n".join([*told, *(f"- {markdown_cell(note)}" for note in notes)]) + "\n"


def _parts(head: str, rows: Sequence[PartRow]) -> str:
    shown = rows[:_TOP]
    lines = [[markdown_cell(row["name"]), duration(row["time_ns"]), percent(row["share"])] for row in shown]
    if left := rows[_TOP:]:
        lines.append([f"{len(left):,} more", duration(sum(row["time_ns"] for row in left)), ""])
    return markdown_table((head, "on the path", "share"), lines)
