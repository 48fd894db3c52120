// Where does it go? The tree as an icicle: a module's width is its part, its children lie under it; a click goes into it.

import { byId, fill, h } from "render/dom.js";
import { duration, percent } from "render/format.js";
import { drawnToWidth, svg } from "render/svg.js";
import { overPhases } from "./model.js";
import { si } from "./words.js";
import { hideTip, showTip, tipRows } from "render/tooltip.js";

const ROW = 30;
const MOST_ROWS = 9;
const LETTER = 6.9;

export function showMap(model) {
  const metrics = [
    model.timed
      ? {
          key: "time",
          label: "Time",
          of: (node) => node.area,
          own: (node) => model.phases.reduce((all, phase) => all + (node.ownTime[phase] ?? 0), 0),
          text: (value) => duration(value),
          lead: "Width: a module's time in a step, forward, backward and recomputation together (sums of medians). The pale part is its own, outside its children.",
        }
      : null,
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
  ].filter(Boolean);
  let metric = metrics[0];
  let at = null; // at: the node that fills the width; null for all
  const colors = classColors(model);
  const again = drawnToWidth(byId("map-chart"), draw);
  tools();

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
    const path = [];
    for (let node = at; node; node = node.parent < 0 ? null : model.nodes[node.parent]) path.unshift(node);
    fill(
      byId("map-path"),
      at
        ? [
            h("button", { type: "button", text: "all", on: { click: () => go(null) } }),
            ...path.flatMap((node, index) => [
              " › ",
              index === path.length - 1
                ? h("b", { text: title(node) })
                : h("button", { type: "button", text: title(node), on: { click: () => go(node) } }),
            ]),
          ]
        : [],
    );
    fill(
      byId("map-legend"),
      [...colors.legend].map(([word, index]) =>
        h("span", { class: "key" }, h("i", { class: `swatch c${index}` }), word),
      ),
    );
  }

  function go(node) {
    at = node;
    hideTip();
    tools();
    again();
  }

  function title(node) {
    return node.name || model.doc.name;
  }

  function draw(width) {
    const whole = at ? metric.of(at) : model.roots.reduce((all, node) => all + metric.of(node), 0);
    const boxes = [];
    const ancestors = [];
    for (
      let node = at && at.parent >= 0 ? model.nodes[at.parent] : null;
      node;
      node = node.parent < 0 ? null : model.nodes[node.parent]
    )
      ancestors.unshift(node);
    ancestors.forEach((node, row) => boxes.push({ node, row, x: 0, w: width, above: true }));
    let deepest = ancestors.length;
    const place = (node, x, scale, row) => {
      const w = metric.of(node) * scale;
      if (w < 0.7 || row > ancestors.length + MOST_ROWS) return w;
      deepest = Math.max(deepest, row);
      boxes.push({ node, row, x, w });
      let left = x;
      for (const child of node.children) left += place(child, left, scale, row + 1);
      const own = metric.own(node) * scale;
      if (node.children.length && own >= 2 && own < w) boxes.push({ node, row: row + 1, x: left, w: own, own: true });
      return w;
    };
    let x = 0;
    if (whole > 0) for (const node of at ? [at] : model.roots) x += place(node, x, width / whole, ancestors.length);
    if (!boxes.length) return h("p", { class: "notice", text: "Nothing to draw: every module has 0 of it." });
    return svg(
      "svg",
      {
        class: "chart icicle",
        width,
        height: (deepest + 2) * ROW,
        role: "group",
        "aria-label": `Modules by ${metric.label.toLowerCase()}`,
      },
      boxes.map((box) => draw1(box, whole)),
    );
  }

  function draw1({ node, row, x, w, own, above }, whole) {
    const value = own ? metric.own(node) : metric.of(node);
    const share = whole > 0 ? value / whole : 0;
    const word = own ? "own" : title(node);
    const told = `${word} · ${percent(share)}`;
    const text = above
      ? word
      : told.length * LETTER < w - 10
        ? told
        : word.length * LETTER < w - 8
          ? word
          : w > 44
            ? `${word.slice(0, Math.floor((w - 16) / LETTER))}…`
            : "";
    const tell = (event) => {
      const box = g.getBoundingClientRect();
      showTip(
        event.clientX || box.left + 20,
        event.clientY || box.bottom,
        ...tipRows(own ? `${node.path || title(node)}, own` : node.path || title(node), null, [
          ["class", node.className || "–"],
          node.detail ? ["made with", node.detail] : null,
          [
            metric.label.toLowerCase(),
            above ? metric.text(value) : `${metric.text(value)}, ${percent(share)}${at ? ` of ${title(at)}` : ""}`,
          ],
          metric.key === "flops" ? null : ["FLOPs", si(overPhases(model, node, "flops"), "FLOP")],
          metric.key === "params" ? null : ["parameters", si(node.params)],
        ]),
      );
    };
    const into = () =>
      go(
        node.parent < 0 && model.roots.length === 1
          ? null
          : at === node
            ? node.parent < 0
              ? null
              : model.nodes[node.parent]
            : node,
      );
    const g = svg(
      "g",
      {
        class: own ? "own" : above ? "above" : "",
        tabindex: "0",
        role: "button",
        "aria-label": `${node.path || title(node)}: ${metric.text(value)}`,
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

/** The seven classes with the most own work get a colour each; the rest share one. */
function classColors(model) {
  const weight = new Map();
  for (const node of model.nodes) {
    const own = model.timed
      ? model.phases.reduce((all, phase) => all + (node.ownTime[phase] ?? 0), 0)
      : overPhases(model, node, "flops", "own") + overPhases(model, node, "vector", "own") + 1;
    weight.set(node.className, (weight.get(node.className) ?? 0) + own);
  }
  const ranked = [...weight]
    .filter(([name]) => name)
    .sort((a, b) => b[1] - a[1])
    .map(([name]) => name);
  const index = new Map(ranked.slice(0, 7).map((name, at) => [name, at]));
  const legend = [...index];
  if (ranked.length > 7 || weight.has(""))
    legend.push([ranked.length > 7 ? `${ranked.length - 7} other classes` : "outside the model", 7]);
  return { of: (node) => index.get(node.className) ?? 7, legend };
}
