// Every row that was tried, sortable; a click puts it on the pictures or takes it off.

import { h } from "render/dom.js";
import { grouped, percent } from "render/format.js";
import { balance } from "./words.js";
import { columnsOf, showTable } from "render/tables.js";
import { moves } from "./trade_off.js";

/**
 * @typedef {import("./replay_model.js").ReplayModel} ReplayModel
 * @typedef {page.ReplayRow & { at: number, every: number }} Row
 */

const KEYS = "solver estimator window interval balancedness low range moved_fraction every num_plans plan_ms".split(
  " ",
);

/**
 * Returns a function that draws again.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
export function rowTable(model, shown, onRow) {
  /** @type {Row[]} */
  const rows = model.rows.map((row, at) => ({ ...row, at, every: moves(row) }));
  const least = Math.min(...rows.map((row) => row.low));
  const span = 1 - least || 1;
  const table = showTable("row-table", {
    name: "rows",
    rows,
    limit: 40,
    sort: { key: "balancedness", down: true },
    onRow: (row) => onRow(row.at),
    rowClass: (row) => (shown.has(row.at) ? "current" : ""),
    columns: columnsOf("rows", KEYS, {
      solver: {
        node: (row) =>
          h(
            "span",
            {},
            h("i", { class: `row-mark look-${shown.has(row.at) ? model.look(row.at) : "none"}` }),
            h("b", { text: row.solver }),
            " ",
            model.partOf(row.at) ? h("span", { class: "chip taken", text: model.partOf(row.at)?.word }) : null,
          ),
      },
      interval: { text: (row) => (row.interval === null ? "once" : grouped(row.interval)) },
      balancedness: { text: (row) => balance(row.balancedness) },
      low: { text: (row) => `${balance(row.low)} – ${balance(row.high)}` },
      range: {
        label: `${least.toFixed(2)} to 1`,
        value: (row) => row.balancedness,
        node: (row) =>
          h(
            "div",
            { class: "band-bar small" },
            h("div", {
              class: "band-range",
              style: {
                left: `${(100 * (row.low - least)) / span}%`,
                width: `${Math.max(0.6, (100 * (row.high - row.low)) / span)}%`,
              },
            }),
          ),
      },
      moved_fraction: { text: percents(rows, (row) => row.moved_fraction) },
      every: { label: "moved a window", kind: "count", text: percents(rows, (row) => row.every) },
      plan_ms: { text: (row) => (row.plan_ms === null ? "–" : grouped(row.plan_ms, 1)) },
    }),
  });
  return () => table.setRows(rows);
}

/**
 * A column of shares with one number of decimals: two where any is below 1 %, else one.
 * @template Row
 * @param {Row[]} rows
 * @param {(row: Row) => number} value
 * @returns {(row: Row) => string}
 */
function percents(rows, value) {
  const digits = rows.some((row) => value(row) && value(row) < 0.01) ? 2 : 1;
  return (row) => percent(value(row), digits);
}
