"""Numbers that stand in one place have one precision: a column's decimals, a tile and the list beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser import Open
from tests.render.extreme_pages import PAGES, strained
from weftrace.report import render_html

#: Columns of tables whose plain numbers (no unit of their own) differ in how many decimals they have.
UNEVEN = """() => {
  const found = [];
  let seen = 0;
  for (const table of document.querySelectorAll(".table-box table")) {
    const columns = new Map();
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, at) => {
        const number = /^[−+-]?[0-9][0-9,]*(?:[.]([0-9]+))?(?: %)?$/.exec(cell.textContent.trim());
        if (cell.classList.contains("num") && number)
          columns.set(at, (columns.get(at) ?? new Set()).add((number[1] ?? "").length));
      });
    seen += columns.size;
    for (const [at, digits] of columns)
      if (digits.size > 1) found.push(`${table.closest("[id]").id}, column ${at}: ${[...digits]} decimals`);
  }
  return { found, seen };
}"""


def test_a_column_has_one_number_of_decimals(open_html: Open, tmp_path: Path) -> None:
    for name in ("one rank", "many ranks", "replay"):
        uneven: Any = open_html(PAGES[name](tmp_path)).evaluate(UNEVEN)
        assert uneven["seen"] >= 5
        assert not uneven["found"], name


def test_a_tile_says_what_the_list_beside_it_says(open_html: Open, tmp_path: Path) -> None:
    report = strained(tmp_path)
    page = open_html(render_html(report.document, []))
    for part in ("exposed", "idle"):
        listed = page.locator(f'#account [data-part="{part}"] b').inner_text()
        assert page.locator(f'#cards [data-card="{part}"] .card-value').inner_text() == listed
        assert listed in (page.locator(f"#account .stack.tall .part.{part}").get_attribute("title") or "")
