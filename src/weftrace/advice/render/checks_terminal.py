"""How far replays of many files are off, in a terminal and as Markdown; drawn from the value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.advice.render.words import SOURCE_HEADS
from weftrace.advice.replay_checks import ReplayCheck, ReplayChecks
from weftrace.plan.inference.replaying import LATE_NS
from weftrace.plan.inference.values import SOURCES
from weftrace.render.console_parts import BOLD, DIM, print_blocks, section, table
from weftrace.render.console_text import clean, joined, shorten_start
from weftrace.render.markdown import markdown_table, markdown_text
from weftrace.units import counted, duration, percent, signed, signed_duration
from weftrace.version import __version__

MAX_WIDTH = 140
HEADS = ("file", "span", "replayed", "error", "worst phase end", "trusted")
BASIS_HEADS = ("events", "ops", "late starts", "unexplained")


def print_checks(report: ReplayChecks, console: Console) -> None:
    """Print a `weftrace.replay_checks/1` report: each file's replay, and what it rests on."""
    width = min(console.width, MAX_WIDTH)
    files = _replayed(report)
    title = joined([Text("weftrace critical-path --check", style=BOLD), counted(len(report.files), "file")], " · ")
    blocks: list[RenderableType] = [title, Text(headline(report), style=BOLD)]
    if files:
        names, sources = _names(files), _sources(files)
        replays = [[name, *_replay(file)] for name, file in zip(names, files, strict=True)]
        basis = [[name, *_basis(file)] for name, file in zip(names, files, strict=True)]
        waits = [[name, *_waits(file, sources)] for name, file in zip(names, files, strict=True)]
        late = f"late: over {duration(LATE_NS)} after stream and launch let it start"
        blocks += [
            Group(
                section("Replays", "trusted: span and phases within 3 %, most lateness explained"),
                table(HEADS, replays, width, left=HEADS[:1], shorten=shorten_start),
            ),
            Group(
                section("Late starts", late),
                table(("file", *BASIS_HEADS), basis, width, left=HEADS[:1], shorten=shorten_start),
            ),
            Group(
                section("Waits", "by where they come from"),
                table(("file", *_heads(sources)), waits, width, left=HEADS[:1], shorten=shorten_start),
            ),
        ]
    if doubts := [(name, file.replay) for name, file in zip(_names(files), files, strict=True) if file.replay]:
        summary = [Text(f"{name}: {'; '.join(map(clean, replay.doubts))}") for name, replay in doubts if replay.doubts]
        blocks += [Group(section("Not reliable"), *summary)] if summary else []
    if reasons := [file for file in report.files if file.replay is None]:
        summary = [Text(clean(f"{file.name}: {file.reason}"), style=DIM) for file in reasons]
        blocks.append(Group(section("No plan"), *summary))
    print_blocks(blocks, console, width)


def checks_markdown(report: ReplayChecks) -> str:
    """The same as one table to paste."""
    files = _replayed(report)
    sources = _sources(files)
    lines = [
        [name, *_replay(file), *_basis(file), *_waits(file, sources)]
        for name, file in zip(_names(files), files, strict=True)
    ]
    reasons = [
        f"- {markdown_text(file.name)}: {markdown_text(file.reason or '')}"
        for file in report.files
        if file.replay is None
    ]
    parts = [headline(report), markdown_table([*HEADS, *BASIS_HEADS, *_heads(sources)], lines), "\n".join(reasons)]
    return "\n\n".join([*filter(None, parts), f"weftrace {__version__}"]) + "\n"


def headline(report: ReplayChecks) -> str:
    """How many replays can be trusted."""
    replays = [file.replay for file in _replayed(report) if file.replay is not None]
    if not replays:
        return "No file gives a plan."
    worst = max(replays, key=lambda replay: abs(replay.error))
    if len(replays) == 1:
        which = "it can be trusted" if worst.is_trustworthy else "it is not to be trusted"
        return f"The replay is off by {signed(worst.error, 2)} of the measured span; {which}."
    good = sum(replay.is_trustworthy for replay in replays)
    return (
        f"{good} of {len(replays)} replays can be trusted; the worst is off by {signed(worst.error, 2)} of the "
        "measured span."
    )


def _replayed(report: ReplayChecks) -> list[ReplayCheck]:
    return [file for file in report.files if file.replay is not None]


def _replay(file: ReplayCheck) -> list[str]:
    """Cells under `HEADS`, but the file's name."""
    replay = file.replay
    assert replay is not None, file.name
    return [
        duration(replay.span_ns),
        duration(replay.replayed_ns),
        signed(replay.error, 2),
        "–" if replay.worst_phase is None else signed_duration(replay.worst_phase_ns),
        "yes" if replay.is_trustworthy else "no",
    ]


def _basis(file: ReplayCheck) -> list[str]:
    """Cells under `BASIS_HEADS`."""
    replay = file.replay
    assert replay is not None, file.name
    share = "–" if not replay.late_ns else percent(replay.unexplained_ns / replay.late_ns, 0)
    return [f"{file.num_events:,}", f"{file.num_ops:,}", f"{replay.late_starts:,}", share]


def _waits(file: ReplayCheck, sources: Sequence[str]) -> list[str]:
    counts = {row["source"]: row["count"] for row in file.waits}
    return [f"{counts[source]:,}" if source in counts else "–" for source in sources]


def _heads(sources: Sequence[str]) -> list[str]:
    return [SOURCE_HEADS.get(source, source) for source in sources]


def _sources(files: Sequence[ReplayCheck]) -> list[str]:
    """Sources that some plan has a wait from, in their order."""
    found = {row["source"] for file in files for row in file.waits}
    return [source for source in SOURCES if source in found]


def _names(files: Sequence[ReplayCheck]) -> list[str]:
    """The files' own names, where these tell them apart, without what all traces end in; else as they were given."""
    paths = [file.name for file in files]
    short = [re.sub(r"\.json(\.gz|\.zst)?$", "", PurePath(path).name) for path in paths]
    return [clean(name) for name in (short if len(set(short)) == len(short) else paths)]
