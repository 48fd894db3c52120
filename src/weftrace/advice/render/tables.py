"""The wing's documents as Markdown, to paste into an issue or a page: the sentence, the replay's error, tables."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.advice.document import Advice, CriticalPathReport, PartRow
from weftrace.advice.render.words import contention_words, range_words, replay_words, weakest_words
from weftrace.advice.whatif_document import SensitivityReport, WhatIfReport, before_and_after
from weftrace.render.markdown import markdown_table, markdown_text
from weftrace.units import duration, percent, signed
from weftrace.version import __version__

_TOP = 12


def path_markdown(report: CriticalPathReport) -> str:
    """The headline, the waterfall, and the path by phase, kernel and cause."""
    bars = [
        [bar["name"], duration(bar["time_ns"]), percent(bar["share"]),
         "–" if bar["alone_ns"] is None else range_words(bar["least_ns"] or 0, bar["most_ns"] or 0, duration)]
        for bar in report.waterfall
    ]  # fmt: skip
    return _page(
        report,
        markdown_text(replay_words(report.replay)),
        markdown_table(("class", "on the path", "share", "saved with none of it"), bars),
        _parts("phase", report.by_phase),
        _parts("kernel", report.by_kernel),
        _parts("cause", report.by_cause),
        markdown_text(weakest_words(report.weakest)),
    )


def what_if_markdown(report: WhatIfReport) -> str:
    """The headline, the spans, the path before and after, and where the answer stops being valid."""
    spans = [
        ["measured", duration(report.replay.span_ns)],
        ["replayed", duration(report.replayed_ns)],
        ["with the change", range_words(report.low_ns, report.high_ns, duration)],
        ["saved", range_words(report.replayed_ns - report.high_ns, report.replayed_ns - report.low_ns, duration)],
    ]
    both = before_and_after(report.before, report.after)
    classes = [[name, duration(old), duration(new)] for name, (old, new) in both.items()]
    return _page(
        report,
        markdown_text(replay_words(report.replay)),
        markdown_table(("span", ""), spans),
        markdown_table(("on the path", "before", "after"), classes),
        "\n".join(f"- {markdown_text(limit)}" for limit in report.limits),
    )


def sensitivity_markdown(report: SensitivityReport) -> str:
    """The headline, the table of all selections, the curves."""
    rows = [
        [row["kind"], row["selector"], signed(-row["share"], 3),
         range_words(row["least_ns"], row["most_ns"], duration), duration(row["critical_ns"]),
         duration(row["time_ns"])]
        for row in report.rows
    ]  # fmt: skip
    curves = []
    for curve in report.curves:
        points = [
            [f"×{at['factor']:g}", range_words(at["low_ns"], at["high_ns"], duration), signed(at["change"], 2)]
            for at in curve.points
        ]
        curves += [
            markdown_table((curve.selector, "span", "change"), points),
            markdown_text(curve.sentence),
        ]
    heads = ("", "selector", f"span, {100 * report.by:g} % faster", "saves", "on the path", "of all")
    return _page(
        report,
        markdown_text(replay_words(report.replay)),
        markdown_table(heads, rows),
        *curves,
    )


def _page(report: Advice, *parts: str) -> str:
    head = [f"**{markdown_text(report.headline)}**", f"weftrace {__version__} of {markdown_text(report.source)}"]
    head.append(markdown_text(contention_words(report.contention)))
    return "\n\n".join([*head, *filter(None, parts), *(f"- {markdown_text(note)}" for note in report.notes)]) + "\n"


def _parts(head: str, rows: Sequence[PartRow]) -> str:
    shown = rows[:_TOP]
    lines = [[row["name"], duration(row["time_ns"]), percent(row["share"])] for row in shown]
    if left := rows[_TOP:]:
        lines.append([f"{len(left):,} more", duration(sum(row["time_ns"] for row in left)), ""])
    return markdown_table((head, "on the path", "share"), lines)
