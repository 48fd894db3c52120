// Which operator became slower at the same work, and which does other work?

import { byId, fill, h, items } from "render/dom.js";
import { duration, grouped } from "render/format.js";
import { columnsOf, showTable } from "render/tables.js";

/**
 * @typedef {page.DiffBlock["document"]} Diff
 * @typedef {NonNullable<Diff["shapes"]>[number]} ShapeChange
 */

/** @param {Diff} found */
export function showShapes({ shapes = [], shape_sentences: sentences = [], verdict }) {
  const isTold = shapes.length > 0 && verdict.word !== "not comparable";
  byId("shapes").hidden = !isTold;
  if (!isTold) return;
  fill(byId("shape-sentences"), items(sentences));
  const most = Math.max(1, ...shapes.map((row) => Math.abs(row.change_ns)));
  /** @param {number} num */
  const count = (num) => grouped(num, Number.isInteger(num) ? 0 : 1);
  showTable("shape-table", {
    name: "shape-changes",
    rows: shapes,
    limit: 15,
    sort: { key: "", down: false }, // as the document has them: the largest change first, whatever its sign
    columns: columnsOf(
      "shape-changes",
      "operator shapes dtype change_ns before_ns after_ns calls a_call by_duration_ns",
      {
        operator: { node: nameOf },
        shapes: { node: (row) => h("span", { class: "kernel", text: row.shapes || "–", title: row.shapes }) },
        change_ns: { bar: (row) => Math.abs(row.change_ns) / most },
        calls: {
          kind: "count",
          value: (row) => row.after_num - row.before_num,
          text: (row) => `${count(row.before_num)} → ${count(row.after_num)}`,
        },
        a_call: {
          label: "a call",
          kind: "count",
          value: (row) => (row.after_call_ns ?? 0) - (row.before_call_ns ?? 0),
          text: (row) => `${duration(row.before_call_ns)} → ${duration(row.after_call_ns)}`,
        },
      },
    ),
    rowClass: (row) => (row.is_noise ? "noise" : ""),
  });
}

/** @param {ShapeChange} row */
function nameOf(row) {
  return h(
    "span",
    { class: "mover" },
    h("b", { text: row.operator, title: row.operator }),
    row.status === "both" ? null : h("span", { class: "chip warn", text: row.status }),
    row.is_noise ? h("span", { class: "chip plain", text: "noise" }) : null,
  );
}
