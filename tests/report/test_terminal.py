"""What the terminal shows, against readable goldens and against what no terminal may be sent.

Goldens are in golden/. After a wanted change: WEFTRACE_UPDATE_GOLDENS=1 pytest tests/report/test_terminal.py, then read
the difference.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import time
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.fuzz import few
from tests.report import documents
from tests.report.job_documents import late_job
from tests.tracefile import GEMM, TraceFile
from weftrace.render.console_text import ascii_text, clean, kernel_label, shorten_middle
from weftrace.render.lanes_layout import MAX_ROWS, TextPicture, coverage, lane_picture
from weftrace.render.lanes_text import MARGIN, levels, print_lanes
from weftrace.report import analyze
from weftrace.report.render.terminal import print_rank, print_report

GOLDEN = Path(__file__).parent / "golden"
DOCUMENTS: dict[str, Callable[[], Any]] = {
    "train": documents.document,
    "job": documents.job,
    "late-job": late_job,
    "partial": documents.partial,
    "cpu-only": documents.cpu_only,
    "no-communication": documents.no_communication,
    "nothing": documents.nothing,
    "no-phases": documents.no_phases,
    "many-layers": documents.many_layers,
    "hostile": documents.hostile,
}
ESCAPE = "\x1b"


def drawn(
    draw: Callable[[Any, Console], None], value: Any, *, width: int, encoding: str = "utf-8", colour: bool = False
) -> str:
    """What `draw` sends to a pipe, or to a terminal with colours, in an encoding (an error if it cannot encode)."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n", write_through=True) as file:
        system: Literal["truecolor"] | None = "truecolor" if colour else None
        draw(value, Console(file=file, width=width, force_terminal=colour, color_system=system))
        return raw.getvalue().decode(encoding)


def report(document: Any, console: Console) -> None:
    print_report(document, console)


def lanes(document: dict[str, Any], console: Console) -> None:
    print_lanes(document["ranks"][0], console)


def check_golden(name: str, text: str) -> None:
    """Compare with a golden; blanks at the ends of lines do not count."""
    lines = [line.rstrip() for line in text.splitlines()]
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WEFTRACE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines(), f"differs from {path}; see the head of this file"


@pytest.mark.parametrize("name", ["train", "job", "late-job", "partial", "cpu-only", "no-communication", "nothing"])
def test_report_golden(name: str) -> None:
    check_golden(f"report-{name}-80", drawn(report, DOCUMENTS[name](), width=80))


@pytest.mark.parametrize("name", ["train", "no-communication", "no-phases", "many-layers"])
def test_lanes_golden(name: str) -> None:
    check_golden(f"lanes-{name}-80", drawn(lanes, DOCUMENTS[name](), width=80))


def test_ascii_goldens() -> None:
    check_golden("report-train-80-ascii", drawn(report, documents.document(), width=80, encoding="ascii"))
    check_golden("lanes-train-80-ascii", drawn(lanes, documents.document(), width=80, encoding="ascii"))


# ---- what holds for every document


@pytest.mark.parametrize("draw", [report, lanes])
@pytest.mark.parametrize("name", few(DOCUMENTS, 5))
def test_no_line_is_wider_than_the_console(name: str, draw: Callable[..., None]) -> None:
    document = DOCUMENTS[name]()
    for width in (60, 80, 93, 120, 140, 250):
        for line in drawn(draw, document, width=width).splitlines():
            assert cell_len(line) <= width, line


@pytest.mark.parametrize("draw", [report, lanes])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_pipe_gets_no_escapes(name: str, draw: Callable[..., None]) -> None:
    assert ESCAPE not in drawn(draw, DOCUMENTS[name](), width=100)


@pytest.mark.parametrize("draw", [report, lanes])
@pytest.mark.parametrize("name", few(DOCUMENTS, 4))
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_console_without_unicode_gets_ascii_of_the_same_shape(
    name: str, draw: Callable[..., None], encoding: str
) -> None:
    document = DOCUMENTS[name]()
    plain = drawn(draw, document, width=80, encoding=encoding)
    assert plain.isascii()
    unicode = drawn(draw, document, width=80)
    assert [cell_len(line) for line in plain.splitlines()] == [cell_len(line) for line in unicode.splitlines()]


@pytest.mark.parametrize("draw", [report, lanes])
@pytest.mark.parametrize("name", few(DOCUMENTS, 4))
def test_a_saved_document_draws_the_same(name: str, draw: Callable[..., None]) -> None:
    document = DOCUMENTS[name]()
    assert drawn(draw, json.loads(json.dumps(document)), width=80) == drawn(draw, document, width=80)


@pytest.mark.parametrize("draw", [report, lanes])
def test_colours_say_nothing_that_characters_do_not(draw: Callable[..., None]) -> None:
    coloured = drawn(draw, documents.document(), width=100, colour=True)
    assert ESCAPE in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == drawn(draw, documents.document(), width=100)


@pytest.mark.parametrize("draw", [report, lanes])
def test_names_can_neither_colour_nor_forge_what_is_printed(draw: Callable[..., None]) -> None:
    text = drawn(draw, documents.hostile(), width=140)
    assert "[red]x[/red]\\x1b[31m" in text  # shown as it is, markup and all
    assert ESCAPE not in text and "\u202e" not in text
    assert ":smile:" in text  # not an emoji
    coloured = drawn(draw, documents.hostile(), width=140, colour=True)
    assert "\x1b[31m" not in coloured  # the sequence in the name; weftrace's own colours are 24 bit


# ---- the report


def squeezed(text: str) -> str:
    """Text on one line, as a reader takes it in: frames and line breaks left out."""
    return " ".join(re.sub(r"[┃┏┓┗┛━]", " ", text).split())


def test_the_parts_add_up_to_the_span() -> None:
    """As they are shown, too: each is rounded so that they do."""
    document = documents.document()
    # 20,500 = 18,200 + 2,000 + 200 + 100 µs: the head of documents.py counts them by hand.
    assert _account(document) == {
        "compute": 18_200, "exposed communication": 2_000, "exposed memory": 200, "idle": 100, "span": 20_500,
    }  # fmt: skip
    rank = document["ranks"][0]
    rank |= {"compute_ns": 18_204_400, "exposed_memory_ns": 204_400, "span_ns": 20_508_800}
    shown = _account(document)
    assert shown.pop("span") == sum(shown.values()) == 20_510


def _account(document: Any) -> dict[str, int]:
    """The parts of the span as they are shown, in µs."""
    lines = drawn(report, document, width=80).splitlines()
    parts = (
        re.match(r"\S*\s+(compute|exposed communication|exposed memory|idle|span)\s+(\d+)\.(\d\d) ms", line)
        for line in lines
    )
    return {part[1]: int(part[2]) * 1000 + int(part[3]) * 10 for part in parts if part}


def test_the_bar_is_as_wide_as_the_console_and_in_proportion() -> None:
    lines = drawn(report, documents.document(), width=82).splitlines()
    bar = next(line for line in lines if len(line) == 82 and set(line) <= set("█▒▞░"))
    # 82 columns of 250 µs: compute ends at 72.8, exposed communication at 80.8, memory at 81.6.
    assert bar == "█" * 73 + "▒" * 8 + "▞"


def test_the_hidden_share_is_undefined_without_communication() -> None:
    text = drawn(report, documents.no_communication(), width=80)
    assert "none ran, so there is no hidden share" in text
    for absent in ("exposed communication", "Collectives", "What hides what", "moves data"):
        assert absent not in text


def test_a_file_without_device_work_says_so_before_any_number() -> None:
    text = squeezed(drawn(report, documents.cpu_only(), width=80))
    assert text.index("host operators instead of device work") < text.index("Where the time went")
    assert "SMs" not in text and "Launches" not in text


def test_what_is_partial_stands_in_a_frame_before_the_numbers() -> None:
    text = drawn(report, documents.partial(), width=80)
    frame = text[text.index("┏") : text.index("┛")]
    for said in ("doubtful", "simulated", "file cut short", "1,204 dropped", "7 outside", "event 9,120"):
        assert said in squeezed(frame), said
    assert text.index("┛") < text.index("Where the time went")
    assert "nothing was dropped" not in text


def test_a_good_file_gets_one_quiet_line() -> None:
    text = drawn(report, documents.document(), width=80)
    assert "┏" not in text
    assert "Data quality: good" in text and "1,385 python_function" in text


def test_of_a_job_the_longest_rank_comes_first_and_in_full_where_none_is_late() -> None:
    text = drawn(report, documents.job(), width=80)
    ranks = re.findall(r"^(\d)  +2\d\.\d\d .*?(longest|partial|)\s*$", text, flags=re.MULTILINE)
    assert ranks == [("3", "longest"), ("2", ""), ("1", "partial"), ("0", "")]
    assert "Details: rank 3" in text
    assert "2 of 6 files could not be used" in text and "rank8.json.gz: not a trace" in text


def test_the_late_rank_is_shown_in_full_and_who_waited_for_it() -> None:
    text = drawn(report, late_job(), width=80)
    assert "Details: rank 1, because the others waited for it most." in text
    assert re.search(r"^rank 1 +18\.00 +6\.00 +0\.00 +3\.00 +2 of 3 +late$", text, flags=re.MULTILINE)
    assert re.search(r"^rank 3 +· +6,000\.0 +· +·$", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("number", "times"), [(8, 1), (64, 1), (64, 100_000)])
def test_no_number_of_a_job_is_cut_at_80_columns(number: int, times: int) -> None:
    """Many ranks, and times up to days: what gives way is a name, or a mark."""
    made = late_job(number, late=5, steps=40)
    for row in made["lateness"]["ranks"]:
        row |= {key: row[key] * times for key in ("caused_ns", "origin_ns", "suffered_ns", "transfer_ns")}
    for rank in made["ranks"]:
        rank["quality"] |= {"verdict": "usable", "dropped": 3}
    text = drawn(report, made, width=80)
    job = text[text.index("Ranks") : text.index("Details")]
    assert not re.search(r"\d…|…\d", job)
    assert "Lateness" in job and (number > 8) == ("largest of" in job)


def test_of_many_ranks_the_slowest_and_the_fastest_are_listed() -> None:
    text = drawn(
        report, documents.document(*[documents.rank(number=r, extra_idle_ns=400_000 * r) for r in range(64)]), width=80
    )
    table = text[text.index("Ranks") : text.index("Details")]
    assert "63 " in table and "\n0 " in table and "40 more" in table and "\n20 " not in table


def test_devices_of_one_rank_are_told_apart() -> None:
    two = [documents.rank(), documents.rank()]
    two[1]["device"] = 1
    text = drawn(report, documents.document(*two), width=80)
    assert "0, device 0" in text and "0, device 1" in text


def test_one_file_of_two_devices_is_told_as_devices(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 100, 50).kernel(GEMM, 120, 60, device=1).trace(tmp_path)
    text = drawn(report, analyze(trace).document, width=200)
    assert "Over 2 devices, computation fills 100.0 % of the time" in text and "(device 1); the mean is" in text
    assert re.search("Details: [^,]+, device 1, because", text)
    assert "2 devices of 1 of 1 ranks" in text.splitlines()[0]
    assert "Incomplete job" not in text


def test_lanes_name_the_device_where_asked() -> None:
    text = drawn(
        lambda document, console: print_lanes(document["ranks"][0], console, with_device=True),
        documents.document(),
        width=80,
    )
    assert "device 0" in text.splitlines()[0]


def test_sections_that_a_document_has_nothing_for_are_left_out() -> None:
    document = documents.document()
    rank = document["ranks"][0]
    for key in ("collectives", "phase_means", "kernels", "unnamed", "steps"):
        rank[key] = []
    rank["overlap_matrix"] = {part: [] for part in ("communication", "compute", "ns", "hidden_ns", "exposed_ns")}
    rank["idle_causes"]["by_stream"] = []
    rank["launch"]["num_linked"] = 0
    text = drawn(report, document, width=80)
    for absent in ("Collectives", "Phases", "What hides", "Kernels", "No rule", "Why streams", "Launches", "Steps"):
        assert absent not in text


def test_a_wide_matrix_keeps_the_columns_of_most_time_and_sums_the_rest() -> None:
    document = documents.document()
    # 30 columns of 1, 2, ... 30 ms in one row.
    document["ranks"][0]["overlap_matrix"] = {
        "communication": ["all"],
        "compute": [f"compute phase {n:02d}" for n in range(1, 31)],
        "ns": [[n * 1_000_000 for n in range(1, 31)]],
        "hidden_ns": [465_000_000],
        "exposed_ns": [0],
    }
    text = drawn(report, document, width=80)
    table = text[text.index("What hides what") : text.index("Kernels")]
    row = next(line for line in table.splitlines() if line.startswith("all"))
    shown = [float(number) for number in row.split()[1:-2]]
    assert shown[-2] == 30.0  # the last column before the sum of the rest
    assert sum(shown) == 465.0
    assert f"{30 - len(shown) + 1} more" in table


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_table_of_steps_tells_other_steps_work_apart_and_what_lies_outside(width: int) -> None:
    document = DOCUMENTS["train"]()
    rank = document["ranks"][0]
    first, second = rank["steps"]
    first |= {"from_other_steps_ns": 1_230_000, "spilled_ns": 4_560_000}
    outside = {key: value for key, value in second.items() if key not in ("step", "start_ns")}
    rank["outside_steps"] = [{**outside, "place": "before", "span_ns": 7_000_000}, {**outside, "place": "after"}]
    summary = drawn(report, document, width=width)
    lines = summary[summary.index("\nSteps") :].splitlines()
    shown = 2 if width >= 120 else 1  # a narrow console has room for one
    assert lines[2].split()[-shown:] == ["others'", "spilled"][:shown]
    assert lines[3].split()[:2] == ["before", "7.00"]
    assert lines[4].split()[0] == "0" and lines[4].split()[-shown:] == ["1.23", "4.56"][:shown]
    assert lines[5].split()[0] == "1" and lines[5].split()[-1 - shown :] == [*["0.00"] * shown, "slowest"]
    assert lines[6].split()[0] == "after"
    assert "…" not in "".join(lines[2:9])


def test_one_rank_can_be_printed_alone() -> None:
    text = drawn(print_rank, documents.rank(), width=80)
    assert text.startswith("Where the time went")


# ---- the lanes


def picture(document: dict[str, Any], num_columns: int, **window: int) -> TextPicture:
    return lane_picture(document["ranks"][0], num_columns=num_columns, **window)


def test_boxes_are_as_wide_as_their_phases_are_long() -> None:
    # 10 ms in 100 columns: a column is 100 µs, and every phase begins and ends on one.
    made = picture(documents.document(), 100, end_ns=10_000_000)
    assert made.ns_per_column == 100_000
    first = made.rows[0]
    compute, communication = (band.tracks[0] for band in first.bands)
    assert [(box.name, box.left, box.right) for box in compute] == [
        ("attn(F)", 0, 20),
        ("mlp(B)", 20, 50),
        ("mlp(F)", 50, 70),
        ("attn(W)", 80, 100),
    ]
    assert [(box.name, box.left, box.right) for box in communication] == [
        ("combine(B)", 5, 18),
        ("dispatch(F)", 20, 48),
        ("combine(F)", 65, 80),
    ]
    assert [column for column, part in enumerate(first.exposed) if part] == list(range(70, 80))


def test_a_row_is_a_layer_and_all_rows_have_one_scale() -> None:
    made = picture(documents.document(), 68)
    assert [(row.start_ns, row.end_ns) for row in made.rows] == [(0, 10_000_000), (10_000_000, 20_500_000)]
    assert [row.num_columns for row in made.rows] == [65, 68]


def test_a_phase_that_crosses_rows_is_drawn_in_both() -> None:
    document = documents.document()
    communication = document["ranks"][0]["lanes"][1]["boxes"]
    communication[2] |= {"end_ns": 11_000_000}
    documents.fill_lanes(document["ranks"][0])
    # The longer row, 10.5 ms, takes all 70 columns: a column is 150 µs, the first row ends in column 67 (10.0 ms).
    first, second = (row.bands[1].tracks[0] for row in picture(document, 70).rows)
    assert (first[-1].name, first[-1].left, first[-1].right, first[-1].after) == ("combine(F)", 43, 67, True)
    assert (second[0].name, second[0].left, second[0].right, second[0].before) == ("combine(F)", 0, 7, True)


def test_phases_that_run_at_once_get_tracks_of_their_own() -> None:
    document = documents.document()
    boxes = document["ranks"][0]["lanes"][1]["boxes"]
    boxes.append({**boxes[0], "name": "all-reduce", "direction": None, "start_ns": 0, "end_ns": 4_000_000})
    tracks = picture(document, 70).rows[0].bands[1].tracks
    assert [[box.name for box in track] for track in tracks] == [
        ["all-reduce", "combine(F)"],
        ["combine(B)", "dispatch(F)"],
    ]


def test_a_stretch_can_be_chosen() -> None:
    made = picture(documents.document(), 100, start_ns=2_000_000, end_ns=5_000_000)
    assert len(made.rows) == 1
    compute, communication = (band.tracks[0] for band in made.rows[0].bands)
    assert [(box.name, box.left, box.right) for box in compute] == [("mlp(B)", 0, 100)]
    assert [(box.name, box.left, box.right) for box in communication] == [("dispatch(F)", 0, 93)]


@pytest.mark.parametrize("window", [(5_000_000, 5_000_000), (9_000_000, 1_000_000), (10**12, 10**13)])
def test_an_empty_stretch_draws_nothing_and_says_so(window: tuple[int, int]) -> None:
    def draw(document: dict[str, Any], console: Console) -> None:
        print_lanes(document["ranks"][0], console, start_ns=window[0], end_ns=window[1])

    assert "Nothing ran in this interval" in drawn(draw, documents.document(), width=80)


def test_what_was_not_drawn_is_said() -> None:
    text = squeezed(drawn(lanes, documents.many_layers(), width=80))
    assert f"Not drawn: 280 ms after 120 ms (at most {MAX_ROWS} rows are drawn)" in text
    made = picture(documents.no_phases(), 68)
    assert made.num_narrow and f"{made.num_narrow:,} boxes;" in squeezed(drawn(lanes, documents.no_phases(), width=80))


def test_the_width_asked_for_is_used_also_beyond_that_of_the_console() -> None:
    def draw(document: dict[str, Any], console: Console) -> None:
        print_lanes(document["ranks"][0], console, 150)

    text = drawn(draw, documents.document(), width=80)
    assert max(len(line.rstrip()) for line in text.splitlines()) in range(140, 151)
    assert len(drawn(lanes, documents.document(), width=150).splitlines()) == len(text.splitlines())


interval = st.tuples(st.integers(0, 20_000), st.integers(1, 8_000)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(
    st.lists(interval, max_size=40),
    st.lists(interval, max_size=40),
    st.integers(48, 150),
    st.booleans(),
)
@example([], [(1_938, 2_001)], 48, False)  # a box of one column at the end of a row, which goes on in the next
def test_any_boxes_can_be_drawn(
    compute: list[tuple[int, int]], communication: list[tuple[int, int]], num_columns: int, phased: bool
) -> None:
    document = documents.document()
    rank = document["ranks"][0]
    for lane, intervals in zip(rank["lanes"], (compute, communication), strict=True):
        lane["boxes"] = [
            {
                "name": f"p{n % 5}({'FBW'[n % 3]})",
                "index": n,
                "start_ns": start * 1000,
                "end_ns": end * 1000,
                "busy_ns": 0,
                "sms": None,
                "direction": "FBW"[n % 3],
                "phase": n if phased else None,
                "layer": None,
                "micro_batch": None,
            }
            for n, (start, end) in enumerate(sorted(intervals))
        ]
    documents.fill_lanes(rank)
    made = picture(document, num_columns)
    for row in made.rows:
        assert row.num_columns <= num_columns
        assert len(row.exposed) == len(row.idle) == row.num_columns
        for band in row.bands:
            for track in band.tracks:
                edges = [column for box in track for column in (box.left, box.right)]
                assert edges == sorted(edges) and all(box.left < box.right for box in track)
                assert all(0 <= column <= row.num_columns for column in edges)
    assert [row.end_ns for row in made.rows[:-1]] == [row.start_ns for row in made.rows[1:]]
    for line in drawn(lanes, document, width=num_columns + MARGIN).splitlines():
        assert cell_len(line) <= num_columns + MARGIN


@st.composite
def busy_stretches(draw: st.DrawFn) -> list[list[int]]:
    """Apart and in order; all of it busy, or a part where several were merged."""
    edges = sorted(draw(st.sets(st.integers(0, 3_000), max_size=60)))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    return [[a, b, draw(st.integers(1, b - a)) if draw(st.booleans()) else b - a] for a, b in pairs]


@given(busy_stretches(), st.integers(0, 2_000), st.integers(1, 90), st.sampled_from([1.0, 2.5, 7.0, 40.0]))
def test_each_column_is_as_full_as_the_lane_was_busy_in_it(
    busy: list[list[int]], start: int, num_columns: int, scale: float
) -> None:
    # By a method of its own: each half nanosecond is full, or as full as its stretch.
    ticks = np.zeros(2 * (start + math.ceil(num_columns * scale) + 3_001))
    for a, b, ran in busy:
        ticks[2 * a : 2 * b] = ran / (b - a)
    width = round(2 * scale)
    wanted = ticks[2 * start : 2 * start + num_columns * width].reshape(num_columns, width).mean(axis=1)
    assert coverage(busy, start, num_columns, scale) == pytest.approx(wanted, abs=1e-9)


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 1.0]), max_size=200))
def test_the_bars_of_a_lane_show_its_busy_share(busy: list[float]) -> None:
    """Within half an eighth of a column over any stretch, not only in each column: nothing adds up."""
    heights = [" ▁▂▃▄▅▆▇█".find(bar) / 8 if bar != "·" else 0 for bar in levels(busy)]
    assert all(0 <= height <= 1 for height in heights)
    assert all(height == 0 for height, part in zip(heights, busy, strict=True) if not part)
    owed = np.cumsum(np.subtract(busy, heights))
    assert (np.abs(owed) <= 1 / 16 + 1e-9).all()


def test_a_phase_that_was_mostly_idle_says_so_and_is_not_filled() -> None:
    """1 µs of work every 29 µs: one box by name, which says how little of it ran, and bars of an eighth at most."""
    document = documents.document()
    rank = document["ranks"][0]
    box = {**rank["lanes"][0]["boxes"][0], "end_ns": 9_001_000, "busy_ns": 301_000}
    rank["lanes"][0] |= {"boxes": [box], "busy": [[at, at + 1_000, 1_000] for at in range(0, 9_001_000, 30_000)]}
    text = drawn(lanes, document, width=100)
    boxes, bars = next((line, after) for line, after in pairwise(text.splitlines()) if line.startswith("compute  "))
    assert "attn(F) 0  301 µs of 9.00 ms" in boxes and "░" not in boxes
    assert set(bars[MARGIN:]) <= {" ", "·", "▁"} and bars.count("▁") in range(9, 13)  # 301 of 9,001 in 85 columns


def test_a_stretch_of_copies_is_not_said_to_be_empty() -> None:
    def draw(document: dict[str, Any], console: Console) -> None:
        print_lanes(document["ranks"][0], console, start_ns=20_000_000, end_ns=20_200_000)

    rank = documents.rank([event for event in documents.layers() if event.kind == "memory"])
    text = drawn(draw, documents.document(rank), width=80)
    assert "Only memory copies ran in this interval." in text


def test_phases_that_take_turns_on_two_streams_are_both_drawn() -> None:
    """A and B alternate every 480 µs, half a column, on streams of their own, each under the other's start."""
    document = documents.document()
    rank = document["ranks"][0]
    box = rank["lanes"][0]["boxes"][0]
    rank["lanes"][0]["boxes"] = [
        {**box, "name": name, "phase": phase, "start_ns": at, "end_ns": at + 100_000, "busy_ns": 100_000}
        for at in range(0, 20_000_000, 90_000)
        for phase, name in [((at // 90_000) % 2, "AB"[(at // 90_000) % 2])]
    ]
    documents.fill_lanes(rank)
    tracks = picture(document, 40).rows[0].bands[0].tracks
    assert [[box.name for box in track] for track in tracks] == [["A"], ["B"]]


def test_exposed_marks_add_up_and_leave_idle_columns_their_own() -> None:
    """1,500 stretches, all over the span: none of them goes missing."""
    document = documents.document()
    rank = document["ranks"][0]
    rank["exposed"] = [[at, at + 3_000, 3_000] for at in range(0, 15_000_000, 10_000)]
    rank["num_exposed"] = len(rank["exposed"])
    made = picture(document, 80)
    total = sum(part for row in made.rows for part in row.exposed) * made.ns_per_column
    assert total == pytest.approx(1_500 * 3_000, abs=made.ns_per_column)  # a row ends within a column
    line = next(line for line in drawn(lanes, document, width=92).splitlines() if line.startswith("exposed"))
    assert sum(" ▁▂▃▄▅▆▇█".index(mark) for mark in line[MARGIN:].rstrip()) / 8 == pytest.approx(
        sum(made.rows[0].exposed), abs=1 / 8
    )


# ---- names


def test_kernel_names_are_shortened_where_it_hurts_least() -> None:
    name = "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)"
    assert kernel_label(name) == "dpsk::ep::internode::dispatch<false, 8, true, 8>"
    assert kernel_label(name, 30) == "dispatch<false, 8, true, 8>"
    assert kernel_label(name, 20) == "dispatch<fals…ue, 8>"
    assert kernel_label("Memcpy DtoH (Device -> Pinned)") == "Memcpy DtoH (Device -> Pinned)"
    assert (
        kernel_label("at::(anonymous namespace)::softmax<float>(float*, int)")
        == "at::(anonymous namespace)::softmax<float>"
    )
    assert kernel_label("(anonymous namespace)::f") == "(anonymous namespace)::f"
    assert kernel_label("()") == "()"
    assert kernel_label("triton_poi_fused_0") == "triton_poi_fused_0"


@pytest.mark.parametrize(
    "part", ["a", "1_", "a::", "a::b", "::", "(anonymous namespace)", "void ", "f<", "g(", ")", " "]
)
def test_shortening_a_long_name_takes_time_in_proportion_to_its_length(part: str) -> None:
    """What tries every letter of a name as the start of a namespace takes minutes for 100 kB; else, a millisecond."""
    name = part * (100_000 // len(part))
    started = time.process_time()
    for width in (None, 12, 60):
        label = kernel_label(name + "x", width)
        assert width is None or cell_len(label) <= width
    assert time.process_time() - started < 5


@given(st.text(), st.integers(0, 40))
def test_any_name_becomes_printable_and_fits(name: str, width: int) -> None:
    cleaned = clean(name)
    cleaned.encode("utf-8")
    assert not {unicodedata.category(character) for character in cleaned} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert clean(cleaned) == cleaned
    assert cell_len(shorten_middle(cleaned, width)) <= width
    assert cell_len(kernel_label(name, width)) <= width
    assert ascii_text(cleaned).isascii() and cell_len(ascii_text(cleaned)) == cell_len(cleaned)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_a_picture_has_a_band_for_each_lane_in_their_order(number: int) -> None:
    document = documents.bands(number)
    made = picture(document, 100)
    colours = [band.colour for band in made.rows[0].bands]
    for row in made.rows:
        assert [band.lane for band in row.bands] == [f"rank {n}, stream 7" for n in range(number)]
        assert all(any(box for track in band.tracks for box in track) for band in row.bands)
    assert len(set(colours)) == min(number, 6), "neighbours differ; after six bands colours come again"
    text = drawn(lanes, document, width=120)
    above, *rows = text.split("┬0 ms")
    heads = [line for line in above.splitlines() if line.startswith("rank ")]
    assert [line.partition(":")[0] for line in heads] == [f"rank {n}, stream 7" for n in range(number)]
    body = rows[0].splitlines()
    places = [next(at for at, line in enumerate(body) if line.startswith(f"{100 + n} SMs")) for n in range(number)]
    assert places == sorted(places)
    for n, at in enumerate(places):
        assert body[at - 1].startswith(f"rank {n}") and ("attn(F) 0", "dispatch(F) 0")[n % 2] in body[at - 1]
    assert re.search(r"^exposed .*█", text, re.MULTILINE)
    assert "neither" not in text


def test_a_box_is_numbered_by_layer_and_micro_batch_where_a_plan_told_them() -> None:
    document = documents.document()
    for box in document["ranks"][0]["lanes"][0]["boxes"]:
        box |= {"layer": 7, "micro_batch": 3 if box["name"] == "mlp(B)" else None}
    text = drawn(lanes, document, width=120)
    assert "mlp(B) 7.3" in text and "attn(F) 7 " in text and "dispatch(F) 0" in text
