// Where does it go? The tree as an icicle: a module's width is its part, its children lie under it; a click goes into
// it.

import { byId, fill, h } from "render/dom.js";
import { duration, percent } from "render/format.js";
import { drawnToWidth, svg } from "render/svg.js";
import { overPhases, ownTimeOf, parentOf, pathTo, sum } from "./model.js";
import { si } from "./words.js";
import { hideTip, showTip, tipPlace, tipRows } from "render/tooltip.js";

const ROW = 30;
const MOST_ROWS = 9;
const LETTER = 6.9;

/**
 * @typedef {import("./model.js").FlopsModel} FlopsModel
 * @typedef {import("./model.js").Module} Module
 *
 * What widths show. of: a module with all below it; own: what it does itself.
 * @typedef {object} Metric
 * @property {string} key
 * @property {string} label
 * @property {(node: Module) => number} of
 * @property {(node: Module) => number} own
 * @property {(value: number) => string} text
 * @property {string} lead
 *
 * A rectangle, in rows and pixels: a module, what it does itself, or one above the module that fills the width.
 * @typedef {{ node: Module, row: number, x: number, w: number, look: "" | "own" | "above" }} Box
 */

/** @param {FlopsModel} model */
export function showMap(model) {
  const metrics = metricsOf(model);
  const colors = classColors(model);
  let metric = metrics[0];
  /** @type {Module | null} The module that fills the width; null for all. */
  let at = null;
  const again = drawnToWidth(byId("map-chart"), draw);
  tools();
  fill(
    byId("map-legend"),
    colors.legend.map(([word, index]) => h("span", { class: "key" }, h("i", { class: `swatch c${index}` }), word)),
  );

  function tools() {
    fill(
      byId("map-tools"),
      metrics.map((one) =>
        h("button", {
          type: "button",
          "aria-pressed": String(one === metric),
          text: one.label,
          data: { metric: one.key },
          on: {
            click: () => {
              metric = one;
              tools();
              again();
            },
          },
        }),
      ),
    );
    byId("map-lead").textContent = `${metric.lead} Click a module to go into it.`;
    const path = pathTo(model, at);
    const steps = path.flatMap((node) => [
      " › ",
      node === at
        ? h("b", { text: title(node) })
        : h("button", { type: "button", text: title(node), on: { click: () => go(node) } }),
    ]);
    const all = h("button", { type: "button", text: "all", on: { click: () => go(null) } });
    fill(byId("map-path"), at ? [all, ...steps] : []);
  }

  /** @param {Module | null} node */
  function go(node) {
    at = node;
    hideTip();
    tools();
    again();
  }

  /** @param {Module} node */
  function title(node) {
    return node.name || model.doc.name;
  }

  /** @param {number} width */
  function draw(width) {
    const roots = at ? [at] : model.roots;
    const whole = sum(roots, metric.of);
    const boxes = placed(model, metric, at, width);
    if (!boxes.length) return h("p", { class: "notice", text: "Nothing to draw: every module has 0 of it." });
    const rows = boxes.filter((box) => box.look !== "own").map((box) => box.row);
    const deepest = Math.max(pathTo(model, at).length - 1, ...rows);
    return svg(
      "svg",
      {
        class: "chart icicle",
        width,
        height: (deepest + 2) * ROW,
        role: "group",
        "aria-label": `Modules by ${metric.label.toLowerCase()}`,
      },
      boxes.map((box) => drawn(box, whole)),
    );
  }

  /**
   * @param {Box} box
   * @param {number} whole
   */
  function drawn({ node, row, x, w, look }, whole) {
    const value = look === "own" ? metric.own(node) : metric.of(node);
    const share = whole > 0 ? value / whole : 0;
    const text = fitting(look === "own" ? "own" : title(node), look === "above" ? "" : ` · ${percent(share)}`, w);
    const path = node.path || title(node);
    /** @param {Event} event */
    const tell = (event) => {
      const box = g.getBoundingClientRect();
      const part = look === "above" ? "" : `, ${percent(share)}${at ? ` of ${title(at)}` : ""}`;
      const rows = tipRows(look === "own" ? `${path}, own` : path, null, [
        ["class", node.className || "–"],
        node.detail ? ["made with", node.detail] : null,
        [metric.label.toLowerCase(), `${metric.text(value)}${part}`],
        metric.key === "flops" ? null : ["FLOPs", si(overPhases(model, node, "flops"), "FLOP")],
        metric.key === "params" ? null : ["parameters", si(node.params)],
      ]);
      showTip(...tipPlace(event, box.left + 20, box.bottom), ...rows);
    };
    const onlyRoot = node.parent < 0 && model.roots.length === 1;
    const into = () => go(onlyRoot ? null : at === node ? parentOf(model, node) : node);
    const g = svg(
      "g",
      {
        class: look,
        tabindex: "0",
        role: "button",
        "aria-label": `${path}: ${metric.text(value)}`,
        on: {
          pointermove: tell,
          pointerleave: hideTip,
          focus: tell,
          blur: hideTip,
          click: into,
          keydown: (event) => {
            if (event.key === "Enter") into();
          },
        },
      },
      svg("rect", { class: `c${colors.of(node)}`, x, y: row * ROW, width: Math.max(w, 1), height: ROW - 2, rx: 2 }),
      text ? svg("text", { x: x + 6, y: row * ROW + ROW / 2, "dominant-baseline": "central", text }) : null,
    );
    return g;
  }
}

/**
 * As much of a name as fits a width: with its part, without it, cut, or nothing. Without a part it is never cut.
 * @param {string} word
 * @param {string} part
 * @param {number} width
 */
function fitting(word, part, width) {
  if (!part) return word;
  if ((word.length + part.length) * LETTER < width - 10) return word + part;
  if (word.length * LETTER < width - 8) return word;
  return width > 44 ? `${word.slice(0, Math.floor((width - 16) / LETTER))}…` : "";
}

/**
 * Where every module stands: what is above `at`, then it (or every root) with all below it.
 * @param {FlopsModel} model
 * @param {Metric} metric
 * @param {Module | null} at
 * @param {number} width
 */
function placed(model, metric, at, width) {
  const above = at ? pathTo(model, parentOf(model, at)) : [];
  /** @type {Box[]} */
  const boxes = above.map((node, row) => ({ node, row, x: 0, w: width, look: "above" }));
  const roots = at ? [at] : model.roots;
  const whole = sum(roots, metric.of);
  const scale = width / whole;
  /**
   * @param {Module} node
   * @param {number} x
   * @param {number} row
   */
  const place = (node, x, row) => {
    const w = metric.of(node) * scale;
    if (w < 0.7 || row > above.length + MOST_ROWS) return w;
    boxes.push({ node, row, x, w, look: "" });
    let left = x;
    for (const child of node.children) left += place(child, left, row + 1);
    const own = metric.own(node) * scale;
    if (node.children.length && own >= 2 && own < w) boxes.push({ node, row: row + 1, x: left, w: own, look: "own" });
    return w;
  };
  let x = 0;
  if (whole > 0) for (const node of roots) x += place(node, x, above.length);
  return boxes;
}

/**
 * @param {FlopsModel} model
 * @returns {Metric[]}
 */
function metricsOf(model) {
  /** @type {Metric} */
  const time = {
    key: "time",
    label: "Time",
    of: (node) => node.totalTime,
    own: (node) => ownTimeOf(model, node),
    text: (value) => duration(value),
    lead:
      "Width: a module's time in a step (the timed one of median length), forward, backward and recomputation " +
      "together. The pale part is its own, outside its children.",
  };
  return [
    ...(model.timed ? [time] : []),
    {
      key: "flops",
      label: "FLOPs",
      of: (node) => overPhases(model, node, "flops"),
      own: (node) => overPhases(model, node, "flops", "own"),
      text: (value) => si(value, "FLOP"),
      lead: "Width: a module's part of the model FLOPs, forward and backward together.",
    },
    {
      key: "params",
      label: "Parameters",
      of: (node) => node.params,
      own: (node) => node.ownParams,
      text: (value) => si(value),
      lead: "Width: a module's part of the parameters; shared ones stand at their first place.",
    },
    {
      key: "bytes",
      label: "Bytes",
      of: (node) => overPhases(model, node, "bytes"),
      own: (node) => overPhases(model, node, "bytes", "own"),
      text: (value) => si(value, "B"),
      lead: "Width: a module's part of the bytes that operators read and write.",
    },
  ];
}

/**
 * The seven classes with the most own work get a colour each; the rest share one.
 * @param {FlopsModel} model
 */
function classColors(model) {
  /** @type {Map<string, number>} */
  const weight = new Map();
  for (const node of model.nodes) {
    const work = overPhases(model, node, "flops", "own") + overPhases(model, node, "vector", "own") + 1;
    const own = model.timed ? ownTimeOf(model, node) : work;
    weight.set(node.className, (weight.get(node.className) ?? 0) + own);
  }
  const ranked = [...weight]
    .filter(([name]) => name)
    .sort((a, b) => b[1] - a[1])
    .map(([name]) => name);
  /** @type {[name: string, index: number][]} */
  const legend = ranked.slice(0, 7).map((name, at) => [name, at]);
  const index = new Map(legend);
  const others = ranked.length > 7 ? `${ranked.length - 7} other classes` : "outside the model";
  if (ranked.length > 7 || weight.has("")) legend.push([others, 7]);
  return { of: (/** @type {Module} */ node) => index.get(node.className) ?? 7, legend };
}
