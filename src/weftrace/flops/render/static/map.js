// Where does it go? The module tree as an icicle, by time, FLOPs, parameters or bytes.

import { byId, fill, choiceButtons } from "render/dom.js";
import { duration, si } from "render/format.js";
import { classColors, icicle, legendKeys } from "render/icicle.js";
import { overPhases, ownTimeOf, parentOf } from "./model.js";

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
 */

/** @param {FlopsModel} model */
export function showMap(model) {
  const metrics = metricsOf(model);
  const colors = colorsOf(model);
  let metric = metrics[0];
  const { again } = icicle(byId("map-chart"), byId("map-path"), () => ({
    label: `Modules by ${metric.label.toLowerCase()}`,
    all: "all",
    roots: model.roots,
    children: (node) => node.children,
    parent: (node) => parentOf(model, node),
    of: metric.of,
    own: metric.own,
    text: metric.text,
    title,
    name: (node) => node.path || title(node),
    color: (node) => colors.of(node.className),
    facts: (node, value, share) => [
      ["class", node.className || "–"],
      node.detail ? ["made with", node.detail] : null,
      [metric.label.toLowerCase(), `${metric.text(value)}${share}`],
      metric.key === "flops" ? null : ["FLOPs", si(overPhases(model, node, "flops"), "FLOP")],
      metric.key === "params" ? null : ["parameters", si(node.params)],
    ],
  }));
  tools();
  fill(byId("map-legend"), legendKeys(colors.legend));

  function tools() {
    fill(
      byId("map-tools"),
      choiceButtons(
        metrics,
        (one) => one.label,
        (one) => one === metric,
        (one) => {
          metric = one;
          tools();
          again();
        },
        (one) => ({ metric: one.key }),
      ),
    );
    byId("map-lead").textContent = `${metric.lead} Click a module to go into it.`;
  }

  /** @param {Module} node */
  function title(node) {
    return node.name || model.doc.name;
  }
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
      lead: "Width: a module's part of the parameters; shared ones are at their first place.",
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
function colorsOf(model) {
  /** @type {Map<string, number>} */
  const weight = new Map();
  for (const node of model.nodes) {
    const work = overPhases(model, node, "flops", "own") + overPhases(model, node, "vector", "own") + 1;
    const own = model.timed ? ownTimeOf(model, node) : work;
    weight.set(node.className, (weight.get(node.className) ?? 0) + own);
  }
  return classColors(weight, [0, 1, 2, 3, 4, 5, 6], "outside the model");
}
