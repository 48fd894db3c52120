// The page of a validation: how far off is each phase that was predicted?

import { byId, fill, h, items } from "render/dom.js";
import { duration, plural, signed } from "render/format.js";
import { startPage } from "render/start.js";
import { svgChart, drawnToWidth, svg, svgRect, svgText } from "render/svg.js";
import { columnsOf, kindChip, showTable } from "render/tables.js";
import { fitted } from "render/curves.js";

/**
 * @typedef {page.Validation["phases"][number]} Phase
 * @typedef {page.Validation["whole"][number]} Whole
 * @typedef {Phase["measured"]} Times
 */

const ROW = 24;
const TOP = 20;
const RIGHT = 74;
/** @type {Record<Phase["by"], string>} */
const BY = { busy: "all its kernels", data: "kernels that move data" };

startPage("weftrace-profile-validation", (/** @type {page.Validation} */ block) => {
  byId("facts").textContent = [`predicted: ${sideOf(block.predicted)}`, `measured: ${sideOf(block.measured)}`].join(
    " · ",
  );
  fill(byId("notes"), items(block.notes));
  showPhases(block);
  showRun(block);
  showOrders(block);
  showMade(block);
  return { block };
});

/** @param {page.Validation["predicted"]} side */
function sideOf(side) {
  return [
    side.source,
    side.simulated ? "simulated" : "recorded",
    plural(side.num_ranks, "rank"),
    plural(side.num_steps, "step"),
    plural(side.num_layers, "layer"),
  ].join(", ");
}

/** @param {number | null} ratio */
function errorText(ratio) {
  return signed(ratio === null ? null : ratio - 1);
}

/** @param {Times} times */
function spread({ low_ns: low, high_ns: high }) {
  return low === high ? "–" : `${duration(low)} to ${duration(high)}`;
}

/** @param {Phase} row */
function nameOf(row) {
  return row.micro_batch === null ? row.phase : `${row.phase}, micro-batch ${row.micro_batch}`;
}

/** @param {page.Validation} block */
function showPhases({ phases, alone, measured }) {
  const over = measured.num_ranks > 1 ? "ranks" : "layers and steps";
  byId("phase-lead").textContent = phases.length
    ? `Medians of a layer, in order of start. Bars: measured, and its spread over ${over}; red marks: predicted.`
    : "The two have no phase in common.";
  byId("chart").hidden = phases.length === 0;
  if (phases.length) drawnToWidth(byId("chart"), (width) => bars(phases, width));
  /** @type {import("render/tables.js").Column<Phase>[]} */
  const columns = [
    ...columnsOf("phases", ["phase", "lane", "by"], {
      phase: {
        wide: false,
        node: (/** @type {Phase} */ row) => h("b", { class: "phase-name", text: nameOf(row), title: nameOf(row) }),
      },
      lane: { node: (row) => kindChip(row.lane) },
      by: { text: (row) => BY[row.by] },
    }),
    ...timeColumns(),
  ];
  showTable("phase-table", { name: "phases", columns, rows: phases });
  byId("alone-box").hidden = alone.length === 0;
  showTable("alone-table", {
    name: "alone",
    rows: alone,
    columns: columnsOf("alone", ["name", "side", "median_ns", "num_samples"], { name: { wide: false } }),
  });
}

/** @returns {import("render/tables.js").Column<Phase | Whole>[]} */
function timeColumns() {
  return [
    { key: "predicted", label: "predicted", kind: "time", value: (row) => row.predicted.median_ns },
    { key: "measured", label: "measured", kind: "time", value: (row) => row.measured.median_ns },
    { key: "spread", label: "from, to", kind: "text", def: "spread", text: (row) => spread(row.measured) },
    { key: "ratio", label: "ratio", kind: "count", def: "ratio", text: (row) => row.ratio?.toFixed(3) ?? "–" },
    {
      key: "error",
      label: "error",
      kind: "percent",
      value: (row) => row.ratio && row.ratio - 1,
      text: (row) => errorText(row.ratio),
    },
  ];
}

/**
 * A bar as long as a phase was measured, its spread, and a mark where it was predicted.
 * @param {Phase[]} phases
 * @param {number} width
 */
function bars(phases, width) {
  const longest = Math.max(...phases.map((row) => nameOf(row).length));
  const left = Math.min(7.5 * longest + 14, width * 0.4);
  const most = Math.max(
    1,
    ...phases.flatMap((row) => [row.predicted.median_ns, row.measured.median_ns, row.measured.high_ns]),
  );
  /** @param {number} ns */
  const x = (ns) => left + (ns / most) * (width - left - RIGHT);
  const height = TOP + phases.length * ROW;
  return svgChart(width, height, "Predicted and measured time of each phase", [
    svgText("tick", width, 12, "error", "end"),
    phases.map((row, at) => {
      const y = TOP + at * ROW;
      const [low, high] = [x(row.measured.low_ns), x(row.measured.high_ns)];
      const role = row.lane === "communication" ? "communication" : "compute";
      return [
        svgText("tick", left - 8, y + 14, fitted(nameOf(row), left - 14), "end"),
        svgRect(`bar-of ${role}`, left, y + 4, x(row.measured.median_ns) - left, 14),
        svg("path", { class: "whisker", d: `M${low} ${y + 11}H${high}M${low} ${y + 7}v8M${high} ${y + 7}v8` }),
        svg("path", { class: "predicted", d: `M${x(row.predicted.median_ns)} ${y + 1}v20` }),
        svgText("tick", width, y + 15, errorText(row.ratio), "end"),
      ];
    }),
  ]);
}

/** @param {page.Validation} block */
function showRun({ whole, per_layer: perLayer }) {
  byId("run-lead").textContent = perLayer
    ? "Of one layer: the two have different numbers of layers."
    : "Of a step of a rank.";
  /** @type {import("render/tables.js").Column<Whole>[]} */
  const columns = [
    { key: "what", label: "what", kind: "text", node: (row) => h("b", { text: row.what }) },
    ...timeColumns(),
  ];
  showTable("run-table", { name: "run", columns, rows: whole });
}

/** @param {page.Validation} block */
function showOrders({ orders }) {
  fill(
    byId("orders"),
    orders.map(({ lane, predicted, measured, is_same: same }) =>
      h(
        "div",
        {},
        h("dt", { text: `${lane}: ${same ? "the same in both" : "not the same"}` }),
        same ? null : h("dd", { text: `predicted: ${predicted.join(" ")}` }),
        h("dd", { text: `${same ? "" : "measured: "}${measured.join(" ")}` }),
      ),
    ),
  );
}

/** @param {page.Validation} block */
function showMade({ predicted, measured }) {
  const sides = [predicted, measured].map((side) => new Map(side.info));
  const names = new Set(sides.flatMap((side) => [...side.keys()].filter((key) => /^(profile|capture)\./.test(key))));
  const rows = [...names]
    .map((name) => ({ name, predicted: sides[0].get(name) ?? "–", measured: sides[1].get(name) ?? "–" }))
    .filter((row) => row.predicted !== row.measured);
  byId("made-box").hidden = rows.length === 0;
  showTable("made-table", {
    name: "made",
    rows,
    columns: [
      { key: "name", label: "setting", kind: "text" },
      { key: "predicted", label: "predicted", kind: "text", wide: true },
      { key: "measured", label: "measured", kind: "text", wide: true },
    ],
  });
}
