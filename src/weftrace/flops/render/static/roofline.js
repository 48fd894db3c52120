// The roofline: work done for each byte against work done in a second, both on scales of powers of ten. The roofs are the
// named device's; a point is what one module does itself in one phase, or all operators of a kind.

import { byId, fill, h } from "render/dom.js";
import { duration } from "render/format.js";
import { drawnToWidth, svg } from "render/svg.js";
import { median } from "./model.js";
import { phaseClass, si, siTick } from "./words.js";
import { hideTip, showTip, tipRows } from "render/tooltip.js";

const LEFT = 62;
const RIGHT = 20;
const TOP = 14;
const BOTTOM = 44;
const HEIGHT = 430;
const MOST = 300;

export function showRoofline(model) {
  const { doc } = model;
  const roofs = doc.roofs;
  const { points, left } = modulePoints(model);
  const kinds = kindPoints(doc);
  if (!points.length) {
    byId("roofline-lead").textContent =
      doc.timed || roofs
        ? "No module does arithmetic, so there is nothing to place under a roof."
        : "Nothing was timed and no device is named, so no rates are known: name one (for instance --hardware h100) to see what it would allow.";
    return;
  }
  const words = doc.timed
    ? `Filled points are measured: what a module does itself in one phase, over its median time. A point's area is its time.`
    : "Nothing was timed: hollow points stand where the device's limits put them, not where they were measured.";
  byId("roofline-lead").textContent =
    `${words} ${roofs ? `The roofs are those of ${roofs.name}; under the slanted part memory holds a module back, under the flat part arithmetic does.` : "No device is named, so there are no roofs: name one, for instance with --hardware h100."} Work is executed matrix FLOPs and vector FLOPs together.`;
  fill(
    byId("roofline-legend"),
    model.phases.map((phase) =>
      h("span", { class: "key" }, h("i", { class: `swatch round ${phaseClass(phase)}` }), phase),
    ),
    doc.timed ? null : h("span", { class: "key" }, h("i", { class: "swatch hollow" }), "at its bound, not measured"),
    kinds.length
      ? h("span", { class: "key" }, h("i", { class: "swatch diamond" }), "all operators of a kind, at their bound")
      : null,
    left ? h("span", { class: "key", text: `${left} smaller points are left out` }) : null,
  );
  drawnToWidth(byId("roofline-chart"), (width) => draw(width));

  function draw(width) {
    const all = [...points, ...kinds];
    const lowX = 10 ** Math.floor(Math.log10(Math.min(...all.map((p) => p.x))) - 0.1);
    const highX =
      10 **
      Math.ceil(
        Math.log10(Math.max(...all.map((p) => p.x), roofs ? roofs.compute[0][1] / roofs.bytes_per_s : 1)) + 0.25,
      );
    const tops = roofs ? roofs.compute.map(([, rate]) => rate) : [];
    const lowY = 10 ** Math.floor(Math.log10(Math.min(...all.map((p) => p.y))) - 0.1);
    const highY = 10 ** Math.ceil(Math.log10(Math.max(...all.map((p) => p.y), ...tops)) + 0.1);
    const x = (value) => LEFT + (Math.log10(value / lowX) / Math.log10(highX / lowX)) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - Math.log10(value / lowY) / Math.log10(highY / lowY)) * (HEIGHT - TOP - BOTTOM);
    const largest = Math.max(...points.map((p) => p.weight), 1e-30);
    return svg(
      "svg",
      {
        class: "chart",
        width,
        height: HEIGHT,
        role: "group",
        "aria-label": "Roofline: FLOP a second against FLOP a byte",
      },
      [
        powers(lowX, highX, (width - LEFT - RIGHT) / 46).map((value) => [
          svg("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: HEIGHT - BOTTOM }),
          svg("text", { x: x(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle", text: siTick(value) }),
        ]),
        powers(lowY, highY, 8).map((value) => [
          svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
          svg("text", {
            x: LEFT - 7,
            y: y(value),
            "text-anchor": "end",
            "dominant-baseline": "central",
            text: siTick(value),
          }),
        ]),
        svg("text", {
          x: width - RIGHT,
          y: HEIGHT - 8,
          "text-anchor": "end",
          text: "intensity: FLOP for each byte moved →",
        }),
        svg("text", { x: LEFT + 6, y: TOP + 10, text: "↑ FLOP a second" }),
        roofs ? roofLines(x, y, lowX, lowY, width) : null,
        [...points]
          .sort((a, b) => b.weight - a.weight)
          .map((p) => dot(p, x(p.x), y(p.y), doc.timed ? 3 + 11 * Math.sqrt(p.weight / largest) : 4.5)),
        kinds.map((p) => kindDot(p, x(p.x), y(p.y), width)),
      ],
    );
  }

  function roofLines(x, y, lowX, lowY, width) {
    const memory = roofs.bytes_per_s;
    const peak = roofs.compute[0][1]; // highest first
    const from = Math.max(lowX, lowY / memory);
    const ridge = peak / memory;
    const names = [];
    const flat = roofs.compute.map(([name, rate], at) => {
      const start = Math.max(lowX, rate / memory);
      const above = y(rate) - 6;
      names.push(
        svg("text", {
          class: "roof-word",
          x: width - RIGHT - 4,
          y: names.length && at && Math.abs(y(rate) - y(roofs.compute[at - 1][1])) < 15 ? y(rate) + 14 : above,
          "text-anchor": "end",
          text: `${name}: ${si(rate, "FLOP/s")}`,
        }),
      );
      return svg("path", {
        class: "roof",
        "stroke-dasharray": at ? "5 4" : null,
        d: `M${x(start)} ${y(rate)}H${width - RIGHT}`,
      });
    });
    const slope = svg("path", { class: "roof memory", d: `M${x(from)} ${y(from * memory)}L${x(ridge)} ${y(peak)}` });
    const middle = Math.sqrt(from * ridge);
    const angle = (Math.atan2(y(peak) - y(from * memory), x(ridge) - x(from)) * 180) / Math.PI;
    names.push(
      svg("text", {
        class: "roof-word",
        x: x(middle),
        y: y(middle * memory) - 8,
        "text-anchor": "middle",
        transform: `rotate(${angle.toFixed(1)} ${x(middle).toFixed(1)} ${(y(middle * memory) - 8).toFixed(1)})`,
        text: `memory: ${si(memory, "B/s")}`,
      }),
    );
    return [slope, flat, names];
  }

  function dot(p, cx, cy, r) {
    const rows = [
      ["phase", p.phase],
      ["class", p.node.className || "–"],
      ["intensity", `${si(p.x)} FLOP/B`],
      [p.measured ? "measured" : "at its bound", si(p.y, "FLOP/s")],
      p.measured ? ["time", duration(p.time)] : null,
      p.bound ? ["bound", `${duration(p.bound)}, by ${p.kind}`] : null,
    ];
    return mark(svg("circle", { cx, cy, r }), `dot f-${p.phase} ${p.measured ? "" : "at-bound"}`, p.name, rows, cx, cy);
  }

  function kindDot(p, cx, cy, width) {
    const shape = svg("path", { d: `M${cx - 6} ${cy}L${cx} ${cy - 6}L${cx + 6} ${cy}L${cx} ${cy + 6}Z` });
    const right = cx < width - 120;
    const left = right ? 6 : -6;
    return [
      mark(shape, "dot f-kind", `${p.name}: all operators`, [
        ["calls", si(p.calls)],
        ["intensity", `${si(p.x)} FLOP/B`],
        ["at its bound", si(p.y, "FLOP/s")],
      ]),
      svg("text", {
        class: "kind-word",
        x: cx + left,
        y: cy + 19,
        "text-anchor": right ? "start" : "end",
        text: p.name,
      }),
    ];
  }

  function mark(shape, className, name, rows) {
    const tell = (event) => {
      const box = g.getBoundingClientRect();
      showTip(event.clientX || box.right, event.clientY || box.top, ...tipRows(name, null, rows));
    };
    const g = svg(
      "g",
      {
        class: className,
        tabindex: "0",
        role: "img",
        "aria-label": `${name}: ${rows
          .filter(Boolean)
          .map(([a, b]) => `${a} ${b}`)
          .join(", ")}`,
        on: { pointermove: tell, pointerleave: hideTip, focus: tell, blur: hideTip },
      },
      shape,
    );
    return g;
  }
}

/** A point for each set of equal modules and phase, those with most time (or work) first; and how many were left out. */
function modulePoints(model) {
  const sets = new Map();
  for (const node of model.nodes)
    for (const phase of model.phases) {
      const own = node.own[phase];
      const amount = own.executed + own.vector;
      if (!amount || !own.bytes) continue;
      const key = `${phase} ${node.name} ${node.className} ${amount} ${own.bytes}`;
      if (!sets.has(key))
        sets.set(key, {
          phase,
          nodes: [],
          amount,
          bytes: own.bytes,
          bound: own.bound,
          kind: { c: "compute", m: "memory" }[own.kind],
        });
      sets.get(key).nodes.push(node);
    }
  const points = [];
  for (const { phase, nodes, amount, bytes, bound, kind } of sets.values()) {
    const time = median(nodes.map((node) => node.ownTime[phase]));
    const measured = time > 0;
    if (!measured && !bound) continue;
    const name =
      nodes.length > 1
        ? `${nodes[0].path || model.doc.name} and ${nodes.length - 1} alike`
        : nodes[0].path || model.doc.name;
    points.push({
      phase,
      node: nodes[0],
      name,
      x: amount / bytes,
      y: (amount * 1e9) / (model.doc.ranks * (measured ? time : bound)),
      time,
      bound,
      kind,
      measured,
      weight: (measured ? time : bound) * nodes.length,
    });
  }
  points.sort((a, b) => b.weight - a.weight);
  return { points: points.slice(0, MOST), left: Math.max(0, points.length - MOST) };
}

/** Operators by kind, at the rate that the roofs allow: operators are not timed. */
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

function powers(low, high, most) {
  const from = Math.round(Math.log10(low));
  const to = Math.round(Math.log10(high));
  const step = Math.max(1, Math.ceil((to - from) / Math.max(2, most)));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => 10 ** (from + i * step));
}
