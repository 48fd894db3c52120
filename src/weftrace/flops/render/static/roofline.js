// The roofline: work done for each byte against work done in a second, both on scales of powers of ten. The roofs are
// the named device's; a point is what one module does itself in one phase, or all operators of a kind.

import { byId, fill, h } from "render/dom.js";
import { duration, si } from "render/format.js";
import { key } from "render/legends.js";
import { HEIGHT, plotOf, roofline } from "render/roofline_plot.js";
import { answering, drawnToWidth, svg, svgChart, svgText } from "render/svg.js";
import { sum } from "./model.js";
import { phaseClass } from "./words.js";

const MOST = 300;

/**
 * @typedef {import("render/tooltip.js").TipRow} TipRow
 * @typedef {import("./model.js").FlopsModel} FlopsModel
 * @typedef {import("./model.js").Module} Module
 *
 * What modules that are alike do themselves in a phase. x: FLOP a byte, y: FLOP a second; time and bound in ns.
 * @typedef {object} Point
 * @property {string} name
 * @property {page.PhaseName} phase
 * @property {Module} node the first of them
 * @property {number} x
 * @property {number} y
 * @property {number} time 0 where not timed
 * @property {number} bound
 * @property {string} kind what holds them
 * @property {number} weight time of all of them
 *
 * All operators of a kind, at the rate that the roofs allow.
 * @typedef {{ name: string, calls: number, x: number, y: number }} KindPoint
 */

/** @param {FlopsModel} model */
export function showRoofline(model) {
  const { doc } = model;
  const { points, left } = modulePoints(model);
  const kinds = kindPoints(doc);
  if (!points.length) {
    byId("roofline-lead").textContent = nothingWords(doc);
    return;
  }
  byId("roofline-lead").textContent = leadWords(doc);
  fill(
    byId("roofline-legend"),
    model.phases.map((phase) => key({ class: `swatch round ${phaseClass(phase)}` }, phase)),
    doc.timed ? null : key({ class: "swatch hollow" }, "at its bound, not measured"),
    kinds.length ? key({ class: "swatch diamond" }, "all operators of a kind, at their bound") : null,
    doc.roofs ? key({ class: "swatch memory-roof" }, "held back by memory") : null,
    left ? h("span", { class: "key", text: `${left} smaller points are left out` }) : null,
  );
  drawnToWidth(byId("roofline-chart"), (width) => draw(doc, points, kinds, width));
}

/** @param {page.Flops} doc */
function nothingWords(doc) {
  if (doc.timed || doc.roofs) return "No module does arithmetic, so there is nothing to place under a roof.";
  const advice = "name one (for instance --hardware h100) to see what it would allow.";
  return `Nothing was timed and no device is named, so no rates are known: ${advice}`;
}

/** @param {page.Flops} doc */
function leadWords({ timed, roofs }) {
  const what = timed
    ? "Filled points are measured: what a module does itself in one phase, over its time. " +
      "A point's area is its time."
    : "Nothing was timed: hollow points are at the device's limits, not measured.";
  const held = "under the slanted part memory holds a module back, under the flat part arithmetic does.";
  const above = roofs
    ? `The roofs are those of ${roofs.name}; ${held}`
    : "No device is named, so there are no roofs: name one, for instance with --hardware h100.";
  return `${what} ${above} Work is executed matrix FLOPs and vector FLOPs together.`;
}

/**
 * @param {page.Flops} doc
 * @param {Point[]} points
 * @param {KindPoint[]} kinds
 * @param {number} width
 */
function draw({ roofs, timed }, points, kinds, width) {
  const plot = plotOf([...points, ...kinds], roofs, width);
  const { x, y } = plot;
  const largest = Math.max(...points.map((p) => p.weight), 1e-30);
  const radius = (/** @type {Point} */ p) => (timed ? 3 + 11 * Math.sqrt(p.weight / largest) : 4.5);
  return svgChart(
    width,
    HEIGHT,
    "Roofline: FLOP a second against FLOP a byte",
    [
      roofline(plot, roofs),
      [...points].sort((a, b) => b.weight - a.weight).map((p) => dot(p, x(p.x), y(p.y), radius(p))),
      kinds.map((p) => kindDot(p, x(p.x), y(p.y), width)),
    ],
    { role: "group" },
  );
}

/**
 * @param {Point} p
 * @param {number} cx
 * @param {number} cy
 * @param {number} r
 */
function dot(p, cx, cy, r) {
  const measured = p.time > 0;
  return mark(svg("circle", { cx, cy, r }), `dot f-${p.phase} ${measured ? "" : "at-bound"}`, p.name, [
    ["phase", p.phase],
    ["class", p.node.className || "–"],
    ["intensity", `${si(p.x)} FLOP/B`],
    [measured ? "measured" : "at its bound", si(p.y, "FLOP/s")],
    measured ? ["time", duration(p.time)] : null,
    p.bound ? ["bound", `${duration(p.bound)}, by ${p.kind}`] : null,
  ]);
}

/**
 * @param {KindPoint} p
 * @param {number} cx
 * @param {number} cy
 * @param {number} width
 */
function kindDot(p, cx, cy, width) {
  const shape = svg("path", { d: `M${cx - 6} ${cy}L${cx} ${cy - 6}L${cx + 6} ${cy}L${cx} ${cy + 6}Z` });
  const right = cx < width - 120;
  return [
    mark(shape, "dot f-kind", `${p.name}: all operators`, [
      ["calls", si(p.calls)],
      ["intensity", `${si(p.x)} FLOP/B`],
      ["at its bound", si(p.y, "FLOP/s")],
    ]),
    svgText("kind-word", cx + (right ? 6 : -6), cy + 19, p.name, right ? "start" : "end"),
  ];
}

/**
 * A shape that answers to the pointer and to the focus.
 * @param {SVGElement} shape
 * @param {string} className
 * @param {string} name
 * @param {(TipRow | null)[]} rows
 */
function mark(shape, className, name, rows) {
  const told = rows.flatMap((row) => (row ? [row.join(" ")] : [])).join(", ");
  return answering({ class: className, "aria-label": `${name}: ${told}` }, () => [name, rows], null, shape);
}

/**
 * A point for each set of equal modules and phase, those with most time (or work) first; and how many were left out.
 * @param {FlopsModel} model
 */
function modulePoints(model) {
  /** @type {Map<string, { phase: page.PhaseName, nodes: Module[] }>} */
  const sets = new Map();
  for (const node of model.nodes) {
    for (const phase of model.phases) {
      const own = node.own[phase];
      const amount = own.executed + own.vector;
      if (!amount || !own.bytes) continue;
      const key = `${phase} ${node.name} ${node.className} ${amount} ${own.bytes}`;
      const alike = sets.get(key) ?? { phase, nodes: [] };
      sets.set(key, alike);
      alike.nodes.push(node);
    }
  }
  const points = [...sets.values()]
    .map(({ phase, nodes }) => pointOf(model, phase, nodes))
    .filter((point) => point !== null)
    .sort((a, b) => b.weight - a.weight);
  return { points: points.slice(0, MOST), left: Math.max(0, points.length - MOST) };
}

/**
 * The point of modules that are alike; null where there is neither a time nor a bound.
 * @param {FlopsModel} model
 * @param {page.PhaseName} phase
 * @param {Module[]} nodes
 * @returns {Point | null}
 */
function pointOf(model, phase, nodes) {
  const [node] = nodes;
  const { executed, vector, bytes, bound } = node.own[phase];
  const time = sum(nodes, (each) => each.ownTime[phase] ?? 0) / nodes.length;
  const took = time > 0 ? time : bound;
  if (!took) return null;
  const path = node.path || model.doc.name;
  return {
    name: nodes.length > 1 ? `${path} and ${nodes.length - 1} alike` : path,
    phase,
    node,
    x: (executed + vector) / bytes,
    y: ((executed + vector) * 1e9) / (model.doc.ranks * took),
    time,
    bound,
    kind: { c: "compute", m: "memory", "-": "" }[node.kind[phase]],
    weight: took * nodes.length,
  };
}

/**
 * Operators by kind, at the rate that the roofs allow: operators are not timed.
 * @param {page.Flops} doc
 * @returns {KindPoint[]}
 */
function kindPoints(doc) {
  return doc.kinds
    .filter((kind) => kind.work && kind.bytes && kind.bound_ns)
    .map((kind) => ({
      name: kind.kind,
      calls: kind.calls,
      x: kind.work / kind.bytes,
      y: (kind.work * 1e9) / kind.bound_ns,
    }));
}
