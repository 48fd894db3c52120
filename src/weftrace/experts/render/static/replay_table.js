// Every row that was tried, sortable; a click puts it on the pictures or takes it off.

import { h } from "render/dom.js";
import { grouped, percent } from "render/format.js";
import { balance } from "./words.js";
import { showTable } from "render/tables.js";
import { moves } from "./trade_off.js";

/** @typedef {import("./replay_model.js").ReplayModel} ReplayModel */

/**
 * Returns a function that draws again.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
export function rowTable(model, shown, onRow) {
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
    columns: [
      {
        key: "solver",
        label: "solver",
        kind: "text",
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
      { key: "estimator", label: "estimator", kind: "text", def: "estimator" },
      { key: "window", label: "look-back", kind: "count", def: "look_back" },
      {
        key: "interval",
        label: "interval",
        kind: "count",
        def: "interval",
        text: (row) => (row.interval === null ? "once" : grouped(row.interval)),
      },
      {
        key: "balancedness",
        label: "balancedness",
        kind: "count",
        def: "balancedness",
        text: (row) => balance(row.balancedness),
      },
      {
        key: "low",
        label: "95 % band",
        kind: "count",
        def: "band",
        text: (row) => `${balance(row.low)} – ${balance(row.high)}`,
      },
      {
        key: "range",
        label: `${least.toFixed(2)} to 1`,
        kind: "text",
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
      {
        key: "moved_fraction",
        label: "moved a re-plan",
        kind: "count",
        def: "moved",
        text: percents(
          rows.map((row) => row.moved_fraction),
          (row) => row.moved_fraction,
        ),
      },
      {
        key: "every",
        label: "moved a window",
        kind: "count",
        text: percents(
          rows.map((row) => row.every),
          (row) => row.every,
        ),
      },
      { key: "num_plans", label: "plans", kind: "count" },
      {
        key: "plan_ms",
        label: "plan ms",
        kind: "count",
        def: "plan_time",
        text: (row) => (row.plan_ms === null ? "–" : grouped(row.plan_ms, 1)),
      },
    ],
  });
  return () => table.setRows(rows);
}

/**
 * A column of shares with one number of decimals: two where any is below 1 %, else one.
 * @template Row
 * @param {(number | null)[]} values
 * @param {(row: Row) => number | null} value
 * @returns {(row: Row) => string}
 */
function percents(values, value) {
  const digits = values.some((share) => share && share < 0.01) ? 2 : 1;
  return (row) => percent(value(row), digits);
}
