// How good can it be, layer by layer? Balancedness before and after against the bound; below, what is left to the
// bound.

import { byId, fill, h } from "render/dom.js";
import { plural, smallPercent } from "render/format.js";
import { columnPicker, digitsFor, drawnToWidth, grid, labelEvery, roundTicks, svg } from "render/svg.js";
import { balance, ranges } from "./words.js";
import { sortableTable } from "render/tables.js";
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
  fill(
    byId("binding-table"),
    sortableTable({
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
    }).element,
  );
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
  /** @param {number} layer */
  const x = (layer) => LEFT + layer * cell;
  /** @param {number} value */
  const y = (value) => TOP + (1 - value) * MAIN;
  const restTop = TOP + MAIN + SPACE;
  const floor = certificate ? restTop + REST : TOP + MAIN;
  const height = floor + BOTTOM;
  const thick = Math.max(1, Math.min(cell - (cell > 4 ? 2 : 0.5), 26));
  const inset = (cell - thick) / 2;
  const layers = Array.from({ length: numLayers }, (_, layer) => layer);
  /** @param {Which} which */
  const bars = (which) =>
    layers.map((layer) => {
      const value = model.balancedness(which, layer) ?? 0;
      return svg("rect", { class: which, x: x(layer) + inset, y: y(value), width: thick, height: value * MAIN });
    });
  const bounds = layers.map((layer) => {
    const at = y(model.balancedness("bound", layer) ?? 0);
    const left = x(layer) + inset - 1;
    return svg("line", { class: "bound", x1: left, x2: left + thick + 2, y1: at, y2: at });
  });
  const mark = svg("rect", { class: "column", x: 0, y: TOP, width: 1, height: floor - TOP });
  const parts = [
    grid({ values: [0, 0.25, 0.5, 0.75, 1], y, left: LEFT, right: width - RIGHT, text: (v) => v.toFixed(2) }),
    mark,
    bars("after"),
    model.hasBefore ? bars("before") : null,
    certificate ? bounds : null,
    certificate ? gapPanel(certificate, layers, { x, inset, thick, restTop, width }) : null,
    axis(model, { x, cell, floor }),
  ];
  const chart = svg(
    "svg",
    {
      class: "chart picks",
      width,
      height,
      role: "img",
      "aria-label":
        "Balancedness by layer: baseline, this placement and at best. Arrow keys move, Enter chooses a layer.",
    },
    parts,
  );
  columnPicker(chart, {
    count: numLayers,
    indexAt: (at) => Math.floor((at - LEFT) / cell),
    from: x,
    to: (layer) => x(layer + 1),
    mark,
    onPick: onLayer,
    tip: (layer) => layerTip(model, layer),
  });
  return chart;
}

/**
 * @param {PlacementModel} model
 * @param {number} layer
 */
function layerTip(model, layer) {
  const { certificate, words } = model.document;
  const told = (/** @type {Which | "bound"} */ which) => balance(model.balancedness(which, layer));
  const binding = certificate?.binding[layer];
  const gap = certificate?.is_optimal[layer] ? "none: proved optimal" : null;
  return tipRows(`Layer ${model.numberOf(layer)}`, null, [
    model.hasBefore ? [words.before, told("before")] : null,
    [words.after, told("after")],
    certificate ? ["bound", told("bound")] : null,
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
  const words = svg("text", {
    class: "panel-word",
    x: LEFT,
    y: restTop - 9,
    text: most < 1e-7 ? "gap to the bound: none in any layer" : "gap to the bound, %",
  });
  if (most < 1e-7)
    return [
      words,
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: restTop + REST + 0.5, y2: restTop + REST + 0.5 }),
    ];
  const ticks = roundTicks(0, most * 1.05, 3);
  /** @param {number} value */
  const y = (value) => restTop + (1 - value / (most * 1.05)) * REST;
  return [
    words,
    grid({
      values: ticks.values,
      y,
      left: LEFT,
      right: width - RIGHT,
      text: (value) => value.toFixed(digitsFor(ticks.step)),
    }),
    layers.map((layer) =>
      svg("rect", {
        class: "gap",
        x: x(layer) + inset,
        y: y(gaps[layer]),
        width: thick,
        height: Math.max(0, restTop + REST - y(gaps[layer])),
      }),
    ),
  ];
}

/**
 * @param {PlacementModel} model
 * @param {{ x: (layer: number) => number, cell: number, floor: number }} place
 */
function axis({ numLayers: count, numberOf }, { x, cell, floor }) {
  const step = labelEvery(count, cell, 26);
  const shown = Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
  return [
    shown.map((layer) =>
      svg("text", {
        class: "tick",
        x: x(layer) + cell / 2,
        y: floor + 15,
        "text-anchor": "middle",
        text: String(numberOf(layer)),
      }),
    ),
    svg("text", { class: "tick", x: LEFT - 6, y: floor + 15, "text-anchor": "end", text: "layer" }),
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
