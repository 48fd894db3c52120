// Tables of the cost page: what is furthest above its roofline, the operators, those without a formula, and the
// remarks.

import { byId, fill, h, items } from "render/dom.js";
import { count, percent, si } from "render/format.js";
import { showTable } from "render/tables.js";
import { defined } from "render/tooltip.js";

/** @typedef {import("./model.js").FlopsModel} FlopsModel */

/** @param {FlopsModel} model */
export function showWorst({ doc }) {
  byId("worst-box").hidden = !doc.worst.length;
  if (!doc.worst.length) return;
  byId("worst-head").textContent = "Most time above the roofline, equal modules together";
  showTable("worst-table", {
    name: "worst",
    rows: doc.worst,
    sort: { key: "above_ns", down: true },
    limit: 12,
    columns: [
      { key: "path", label: "Module", kind: "text", value: (row) => row.path || doc.name },
      { key: "phase", label: "Phase", kind: "text" },
      { key: "measured_ns", label: "Measured", kind: "time", def: "time" },
      { key: "bound_ns", label: "Bound", kind: "time", def: "bound" },
      {
        key: "above_ns",
        label: "Above",
        kind: "time",
        def: "above",
        bar: (row) => row.above_ns / Math.max(...doc.worst.map((other) => other.above_ns), 1),
      },
      {
        key: "times",
        label: "Times",
        kind: "count",
        value: (row) => (row.bound_ns ? row.measured_ns / row.bound_ns : null),
        text: (row) => (row.bound_ns ? `${si(row.measured_ns / row.bound_ns)}×` : "–"),
      },
      {
        key: "kind",
        label: "Held by",
        kind: "text",
        value: (row) => row.kind ?? "–",
        node: (row) =>
          row.kind ? h("span", { class: `bound-word ${row.kind}`, text: row.kind }) : h("span", { text: "–" }),
      },
    ],
  });
}

/**
 * A part as per cent, rounded down: what is not all of it does not look like all of it.
 * @param {number | null} fraction
 */
function covered(fraction) {
  return percent(fraction === null ? null : Math.floor(1000 * fraction + 1e-9) / 1000);
}

/** @param {FlopsModel} model */
export function showOperators({ doc }) {
  const { coverage } = doc;
  const calls = covered(coverage.calls);
  const time = coverage.time === null ? "" : ` and, as an estimate, ${covered(coverage.time)} of the time`;
  fill(
    byId("unknown-box"),
    h(
      "p",
      { class: `notice ${doc.unknown.length ? "warn" : "ok"}` },
      defined("coverage", "Coverage"),
      `: a formula for ${calls} of the operator calls, ${covered(coverage.moved_bytes)} of the bytes${time}.`,
      doc.unknown.length
        ? ` Without one: ${doc.unknown.map(unknownWords).join(", ")}. They add nothing to any total.`
        : " No operator is missing.",
    ),
  );
  const most = Math.max(...doc.ops.map((row) => row.executed), 1);
  showTable("operator-table", {
    name: "operators",
    rows: doc.ops,
    sort: { key: "executed", down: true },
    limit: 20,
    empty: "No operator ran.",
    columns: [
      { key: "op", label: "Operator", kind: "text", node: (row) => h("span", { class: "kernel", text: row.op }) },
      { key: "phase", label: "Phase", kind: "text" },
      { key: "kind", label: "Kind", kind: "text" },
      { key: "calls", label: "Calls", kind: "count" },
      {
        key: "executed",
        label: "FLOP",
        kind: "count",
        def: "executed_flops",
        text: (row) => (row.status === "unknown" ? "?" : si(row.executed)),
        bar: (row) => row.executed / most,
      },
      {
        key: "vector",
        label: "Vector FLOP",
        kind: "count",
        def: "vector_flops",
        text: (row) => (row.status === "unknown" ? "?" : si(row.vector)),
      },
      { key: "bytes", label: "Bytes", kind: "count", def: "bytes", text: (row) => si(row.bytes, "B") },
      {
        key: "intensity",
        label: "FLOP/B",
        kind: "count",
        def: "intensity",
        value: (row) => (row.bytes ? (row.executed + row.vector) / row.bytes : null),
        text: (row) => (row.bytes && row.status !== "unknown" ? si((row.executed + row.vector) / row.bytes) : "–"),
      },
      {
        key: "status",
        label: "Status",
        kind: "text",
        def: "status",
        node: (row) => h("span", { class: `status ${row.status.replace(" ", "-")}`, text: row.status }),
      },
      {
        key: "note",
        label: "Note",
        kind: "text",
        node: (row) => h("span", { class: "note-cell", text: row.note, title: row.note }),
      },
    ],
  });
}

/** @param {page.Flops["unknown"][number]} row */
function unknownWords(row) {
  return `${row.op} (${row.calls === 1 ? "1 call" : `${count(row.calls)} calls`})`;
}

/** @param {FlopsModel} model */
export function showRemarks({ doc }) {
  const parts = doc.remarks.filter(([, lines]) => lines.length);
  fill(
    byId("remark-list"),
    parts.length
      ? parts.flatMap(([title, lines]) => [h("h3", { text: title }), h("ul", { class: "notes" }, items(lines))])
      : h("p", { class: "muted", text: "None." }),
  );
}
