// Which communication phase is hidden behind which compute phase? A heat map of the overlap, rows and columns as the
// report has them.

import { byId, fill, h } from "render/dom.js";
import { exportTools } from "render/exports.js";
import { inUnit, percent, unitFor } from "render/format.js";
import { cardsWhereNarrow } from "render/tables.js";
import { palette, inkOn, mix } from "render/theme.js";
import { defined } from "render/tooltip.js";

/** @param {page.Rank} rank */
export function showMatrix(rank) {
  const { communication, hidden_ns: hidden, exposed_ns: exposed } = rank.overlap_matrix;
  // Phases that hide nothing at all would only be empty columns.
  const used = rank.overlap_matrix.compute
    .map((_, column) => column)
    .filter((column) => rank.overlap_matrix.ns.some((row) => row[column] > 0));
  const compute = used.map((column) => rank.overlap_matrix.compute[column]);
  const ns = rank.overlap_matrix.ns.map((row) => used.map((column) => row[column]));
  byId("overlap").hidden = communication.length === 0;
  if (communication.length === 0) return;
  const colors = palette();
  const peak = Math.max(1, ...ns.flat());
  const unit = unitFor(Math.max(peak, ...hidden, ...exposed));
  /** @param {number} value */
  const shown = (value) => (value === 0 ? "·" : inUnit(value, unit));
  /** @param {number} row */
  const rowTotal = (row) => hidden[row] + exposed[row];
  /**
   * @param {number} row
   * @param {number} column
   */
  const cell = (row, column) => {
    const value = ns[row][column];
    const color = mix(colors.panel, colors.communication, value === 0 ? 0 : 0.08 + 0.82 * (value / peak));
    const share = `${percent(value / (rowTotal(row) || 1))} of ${communication[row]}`;
    return h("td", {
      class: value === 0 ? "zero" : "",
      text: shown(value),
      data: { label: compute[column] },
      title: `${communication[row]} while ${compute[column]} ran: ${shown(value)} ${unit.name}, ${share}`,
      style: value === 0 ? {} : { background: color, color: inkOn(color) },
    });
  };
  /** @type {(label: string, text: string, look: string) => Node} */
  const total = (label, text, look) => h("td", { class: `total ${look}`, text, data: { label } });
  /** A row for each communication phase, a column for each compute phase. */
  const rows = () =>
    communication.map((name, row) => ({
      communication: name,
      ...Object.fromEntries(compute.map((other, column) => [other, ns[row][column]])),
      hidden_ns: hidden[row],
      exposed_ns: exposed[row],
    }));
  const scroll = h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "matrix" },
      h(
        "caption",
        { class: "muted" },
        `${unit.name} in which the communication phase (row) and the compute phase (column) `,
        defined("overlap_matrix", "both ran"),
        ". Darker is more.",
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col", class: "corner", text: "communication ↓  behind compute →" }),
          compute.map((name) => h("th", { scope: "col", class: "phase-name", text: name, title: name })),
          h("th", { scope: "col", class: "edge" }, defined("hidden", "hidden")),
          h("th", { scope: "col" }, defined("exposed", "exposed")),
          h("th", { scope: "col" }, defined("hidden", "hidden %")),
        ),
      ),
      h(
        "tbody",
        {},
        communication.map((name, row) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", class: "phase-name", text: name, title: name }),
            compute.map((_, column) => cell(row, column)),
            total("hidden", shown(hidden[row]), "edge"),
            total("exposed", shown(exposed[row]), exposed[row] > 0.02 * rowTotal(row) ? "bad" : ""),
            total("hidden %", percent(rowTotal(row) ? hidden[row] / rowTotal(row) : null), ""),
          ),
        ),
      ),
    ),
  );
  fill(byId("matrix"), exportTools("overlap", rows), scroll);
  cardsWhereNarrow(scroll)();
}
