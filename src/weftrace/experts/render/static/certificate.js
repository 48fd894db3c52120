// How good can it be, layer by layer? Balancedness before and after against the bound; below, what is left to the
// bound.

import { byId, h } from "render/dom.js";
import { plural, smallPercent } from "render/format.js";
import {
  columnPicker,
  drawnToWidth,
  evenColumns,
  grid,
  roundTicks,
  barIn,
  svgChart,
  columnNames,
  svgLine,
  svgRect,
  svgText,
} from "render/svg.js";
import { balance, ranges } from "./words.js";
import { showTable } from "render/tables.js";
import { tipRows } from "render/tooltip.js";

/**
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 * @typedef {import("./placement_model.js").Which} Which
 */

const LEFT = 58;
const RIGHT = 10;
const TOP = 10;
const MAIN = 200;
const REST = 78;
const SPACE = 30;
const BOTTOM = 22;

/**
 * @param {PlacementModel} model
 * @param {(layer: number) => void} onLayer
 */
export function certificateSection(model, onLayer) {
  const { certificate } = model.document;
  drawnToWidth(byId("certificate-chart"), (width) => picture(model, width, onLayer));
  byId("binding-box").hidden = !certificate;
  if (!certificate) return;
  /** @type {Map<string, number[]>} */
  const layers = new Map();
  certificate.binding.forEach((binding, layer) => layers.set(binding, [...(layers.get(binding) ?? []), layer]));
  showTable("binding-table", {
    name: "binding",
    rows: [...layers].map(([binding, list]) => ({
      binding,
      count: list.length,
      worst: Math.max(...list.map((layer) => gapOf(certificate, layer))),
      which: ranges(list.map(model.numberOf)),
      meaning: model.document.meanings[binding] ?? "",
    })),
    sort: { key: "count", down: true },
    columns: [
      {
        key: "binding",
        label: "held back by",
        kind: "text",
        def: "binding",
        node: (row) => h("b", { text: row.binding === "none" ? "nothing" : row.binding }),
      },
      { key: "count", label: "layers", kind: "count", bar: (row) => row.count / model.numLayers },
      { key: "worst", label: "largest gap", kind: "percent", def: "gap", text: (row) => smallPercent(row.worst) },
      { key: "which", label: "which", kind: "text" },
      {
        key: "meaning",
        label: "meaning",
        kind: "text",
        node: (row) => h("span", { class: "wrap", text: row.meaning }),
      },
    ],
  });
}

/**
 * @param {page.Certificate} certificate
 * @param {number} layer
 */
export function gapOf(certificate, layer) {
  return certificate.bound[layer] > 0 ? Math.max(0, certificate.achieved[layer] / certificate.bound[layer] - 1) : 0;
}

/**
 * @param {PlacementModel} model
 * @param {number} width
 * @param {(layer: number) => void} onLayer
 */
function picture(model, width, onLayer) {
  const {
    numLayers,
    document: { certificate },
  } = model;
  const cell = (width - LEFT - RIGHT) / numLayers;
  const columns = evenColumns(numLayers, LEFT, cell);
  const x = columns.from;
  /** @param {number} value */
  const y = (value) => TOP + (1 - value) * MAIN;
  const restTop = TOP + MAIN + SPACE;
  const floor = certificate ? restTop + REST : TOP + MAIN;
  const height = floor + BOTTOM;
  const { thick, inset } = barIn(cell, 26);
  const layers = Array.from({ length: numLayers }, (_, layer) => layer);
  /** @param {Which} which */
  const bars = (which) =>
    layers.map((layer) => {
      const value = model.balancedness(which, layer) ?? 0;
      return svgRect(which, x(layer) + inset, y(value), thick, value * MAIN);
    });
  const bounds = layers.map((layer) => {
    const at = y(model.balancedness("bound", layer) ?? 0);
    const left = x(layer) + inset - 1;
    return svgLine("bound", left, at, left + thick + 2, at);
  });
  const mark = svgRect("column", 0, TOP, 1, floor - TOP);
  const parts = [
    grid({ values: [0, 0.25, 0.5, 0.75, 1], y, left: LEFT, right: width - RIGHT, text: (v) => v.toFixed(2) }),
    mark,
    bars("after"),
    model.hasBefore ? bars("before") : null,
    certificate ? bounds : null,
    certificate ? gapPanel(certificate, layers, { x, inset, thick, restTop, width }) : null,
    columnNames({ count: numLayers, cell, x, floor, left: LEFT }, "layer", model.numberOf),
  ];
  const label = "Balancedness by layer: baseline, this placement and at best. Arrow keys move, Enter chooses a layer.";
  const drawn = svgChart(width, height, label, parts, { class: "chart picks" });
  columnPicker(drawn, {
    ...columns,
    mark,
    onPick: onLayer,
    tip: (layer) => layerTip(model, layer),
  });
  return drawn;
}

/**
 * @param {PlacementModel} model
 * @param {number} layer
 */
function layerTip(model, layer) {
  const { certificate, words } = model.document;
  const text = (/** @type {Which | "bound"} */ which) => balance(model.balancedness(which, layer));
  const binding = certificate?.binding[layer];
  const gap = certificate?.is_optimal[layer] ? "none: proved optimal" : null;
  return tipRows(`Layer ${model.numberOf(layer)}`, null, [
    model.hasBefore ? [words.before, text("before")] : null,
    [words.after, text("after")],
    certificate ? ["bound", text("bound")] : null,
    certificate ? ["gap to the bound", gap ?? smallPercent(gapOf(certificate, layer))] : null,
    binding ? ["held back by", binding === "none" ? "nothing" : binding] : null,
  ]);
}

/**
 * Maximum over bound − 1 by layer, on a scale of its own: differences that the picture above is too coarse for.
 * @param {page.Certificate} certificate
 * @param {number[]} layers
 * @param {{ x: (layer: number) => number, inset: number, thick: number, restTop: number, width: number }} place
 */
function gapPanel(certificate, layers, { x, inset, thick, restTop, width }) {
  const gaps = layers.map((layer) => 100 * gapOf(certificate, layer));
  const most = Math.max(...gaps);
  const words = svgText(
    "panel-word",
    LEFT,
    restTop - 9,
    most < 1e-7 ? "gap to the bound: none in any layer" : "gap to the bound, %",
  );
  if (most < 1e-7) return [words, svgLine("grid", LEFT, restTop + REST + 0.5, width - RIGHT, restTop + REST + 0.5)];
  const ticks = roundTicks(0, most * 1.05, 3);
  /** @param {number} value */
  const y = (value) => restTop + (1 - value / (most * 1.05)) * REST;
  return [
    words,
    grid({ ...ticks, y, left: LEFT, right: width - RIGHT }),
    layers.map((layer) =>
      svgRect("gap", x(layer) + inset, y(gaps[layer]), thick, Math.max(0, restTop + REST - y(gaps[layer]))),
    ),
  ];
}

/**
 * "the node partition in 40 layers" for the first screen; null without a certificate.
 * @param {page.Certificate | null} certificate
 */
export function mainBinding(certificate) {
  if (!certificate) return null;
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const binding of certificate.binding) counts.set(binding, (counts.get(binding) ?? 0) + 1);
  const held = [...counts].filter(([binding]) => binding !== "none").sort((a, b) => b[1] - a[1]);
  if (!held.length) return { word: "nothing", note: "every layer is at its mean" };
  const [word, count] = held[0];
  const then = held.length > 1 ? `; then ${held[1][0]} in ${held[1][1]}` : "";
  return { word, note: `in ${count} of ${plural(certificate.binding.length, "layer")}${then}` };
}
