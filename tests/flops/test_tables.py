"""CSV and Markdown: every row there, every column's unit named, values those of the functions."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from tests.flops.small_reports import MODULES, TINY, UNTIMED
from weftrace.facts import hardware
from weftrace.flops.tables import CSV_COLUMNS, to_csv, to_markdown
from weftrace.units import si


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_by_pencil() -> None:
    rows = {(row["path"], row["phase"]): row for row in read(to_csv(TINY))}
    assert set(rows) == {
        *((path, phase) for path in ("", "fc1", "act", "fc2") for phase in ("forward", "backward")),
        ("(outside)", "forward"),
        ("(outside)", "optimizer"),
    }
    root = rows["", "forward"]
    assert (root["flops"], root["own_flops"], root["params"], root["param_bytes"]) == ("288", "0", "48", "192")
    assert (root["time_median_ns"], root["own_time_median_ns"]) == ("202", "11")
    assert rows["", "backward"]["own_time_median_ns"] == ""  # not timed there: empty, not 0
    assert rows["fc2", "backward"]["calls"] == "2"
    assert rows["(outside)", "forward"]["unknown_calls"] == "1"
    assert root["roofline_ns"] == root["bound"] == ""


def test_csv_with_a_device() -> None:
    rows = {(row["path"], row["phase"]): row for row in read(to_csv(TINY, hardware("h200")))}
    assert float(rows["fc1", "forward"]["roofline_ns"]) > 0
    assert rows["fc1", "forward"]["bound"] == "memory"
    assert rows["", "forward"]["own_roofline_ns"] == ""


def test_csv_is_quoted_where_it_must_be() -> None:
    odd = replace(TINY, modules=(MODULES[0], replace(MODULES[1], class_name='A "quoted", B'), *MODULES[2:]))
    text = to_csv(odd)
    assert text.startswith(",".join(CSV_COLUMNS) + "\n")
    assert any(row["class"] == 'A "quoted", B' for row in read(text))
    assert len({*CSV_COLUMNS}) == len(CSV_COLUMNS)
    assert all(name.endswith("_ns") for name in CSV_COLUMNS if "time" in name or "roofline" in name)


def test_markdown() -> None:
    text = to_markdown(TINY, hardware("h200"))
    for line in (
        "| Model FLOPs | 672 (336 MACs) |",
        "| Vector FLOPs | 144 |",
        "| Operator calls with a formula | 90.0 % |",
        "| Step | 490 ns (480 ns to 500 ns) |",
        "| `fc1` | Linear | 32 | 192 | 110 ns | 192 | 110 ns | – | – |",
        "Without a formula, in no FLOP total: `mylib.loss.default` (1 calls).",
        "- made by hand",
    ):
        assert line in text.splitlines()
    assert "MFU on H200 SXM" in text


def test_markdown_to_a_depth_and_without_times() -> None:
    assert "`fc1`" not in to_markdown(TINY, depth=0)
    assert "`fc1`" in to_markdown(TINY, depth=None)
    plain = to_markdown(UNTIMED, hardware("h200"))
    assert "time forward" not in plain
    assert "MFU" not in plain
    assert "| Time with a formula (estimate) | – |" in plain


def test_a_table_survives_bars_in_names() -> None:
    odd = replace(TINY, modules=(MODULES[0], replace(MODULES[1], class_name="A|B"), *MODULES[2:]))
    assert "A\\|B" in to_markdown(odd)


def test_counts_for_a_person() -> None:
    assert [si(n) for n in (0, 850, 12_900_000_000, 6_279_860_000_000)] == ["0", "850", "12.9 G", "6.28 T"]
