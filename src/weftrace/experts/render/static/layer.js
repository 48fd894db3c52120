// What stands where in one layer? A bar a GPU, a segment a slot, the mean across; and the layer's hottest experts.

import { byId, fill, h, actionButton } from "render/dom.js";
import { percent, plural, smallPercent } from "render/format.js";
import { cellTip } from "./heatmap.js";
import { drawnToWidth, grid, labelEvery, roundTicks, svg, svgChart, svgLine, svgRect, svgText } from "render/svg.js";
import { amount, balance, times } from "./words.js";
import { showTable } from "render/tables.js";
import { hideTip, showTip } from "render/tooltip.js";

/**
 * @typedef {import("render/svg.js").Nodes} Nodes
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 */

const LEFT = 46;
const TOP = 26;
const BOTTOM = 34;
const RIGHT = 10;
const HEIGHT = 330;
const MOST_BEFORE = 2.5; // × mean; taller bars before are cut, and an arrow says so

/**
 * The section of one layer. Returns show(layer).
 * @param {PlacementModel} model
 * @returns {(layer: number) => void}
 */
export function layerSection(model) {
  let layer = 0;
  let marked = -1;
  const chart = byId("layer-chart");
  const again = drawnToWidth(chart, (width) => profile(model, layer, width, mark));
  const table = showTable("hot-table", {
    name: "hot",
    /** @type {ReturnType<typeof hottest>} */
    rows: [],
    limit: 12,
    sort: { key: "ratio", down: true },
    columns: [
      {
        key: "expert",
        label: "expert",
        kind: "count",
        node: (row) =>
          actionButton(String(row.expert), () => mark(row.expert === marked ? -1 : row.expert), {
            class: "link",
            title: "Mark its copies in the picture",
          }),
      },
      {
        key: "ratio",
        label: "load / mean GPU",
        kind: "count",
        def: "load",
        text: (row) => times(row.ratio),
        bar: (row) => row.ratio / row.most,
      },
      { key: "part", label: "of the layer", kind: "percent", text: (row) => percent(row.part) },
      { key: "copies", label: "copies", kind: "count", def: "copies" },
      { key: "each", label: "hottest copy", kind: "count", text: (row) => times(row.each) },
      {
        key: "gpus",
        label: "on GPUs",
        kind: "text",
        value: (row) => row.slots.length,
        node: (row) => h("span", { class: "gpu-list", text: row.gpus, title: row.gpus }),
      },
    ],
  });

  /** @param {number} expert */
  function mark(expert) {
    marked = expert;
    /** @type {NodeListOf<SVGElement>} */
    const parts = chart.querySelectorAll("[data-expert]");
    for (const part of parts) part.classList.toggle("marked", Number(part.dataset.expert) === expert);
    chart.classList.toggle("marking", expert >= 0);
  }

  return (next) => {
    layer = next;
    marked = -1;
    chart.classList.remove("marking");
    again();
    const doc = model.document;
    const before = model.balancedness("before", layer);
    const bound = model.balancedness("bound", layer);
    const extra = [
      before === null ? null : `${doc.words.before} ${balance(before)}`,
      bound === null ? null : `at most ${balance(bound)} possible`,
      doc.certificate && doc.certificate.binding[layer] !== "none"
        ? `held back by ${doc.certificate.binding[layer]}`
        : null,
      doc.solver_of_layer[layer] ? `found by ${doc.solver_of_layer[layer]}` : null,
    ].filter(Boolean);
    fill(byId("layer-title"), `Layer ${model.numberOf(layer)}`);
    fill(
      byId("layer-facts"),
      h("b", { text: `Balancedness ${balance(model.balancedness("after", layer))}` }),
      extra.length ? `; ${extra.join("; ")}.` : ".",
    );
    table.setRows(hottest(model, layer));
  };
}

/**
 * @param {PlacementModel} model
 * @param {number} layer
 * @param {number} width
 * @param {(expert: number) => void} mark
 */
function profile(model, layer, width, mark) {
  const { numGpus, document: doc } = model;
  const bound = doc.certificate && model.means[layer] > 0 ? doc.certificate.bound[layer] / model.means[layer] : 1;
  const after = model.most("after", layer);
  const before = model.hasBefore ? model.most("before", layer) : 0;
  const top = Math.max(1.15, 1.06 * after, Math.min(1.06 * before, MOST_BEFORE), 1.06 * bound);
  /** @param {number} value */
  const y = (value) => TOP + (1 - Math.min(value, top) / top) * (HEIGHT - TOP - BOTTOM);
  const gap = doc.cluster.num_nodes > 1 ? 5 : 0;
  const cell = (width - LEFT - RIGHT - gap * (doc.cluster.num_nodes - 1)) / numGpus;
  /** @param {number} gpu */
  const x = (gpu) => LEFT + gpu * cell + model.nodeOf(gpu) * gap;
  const bar = Math.max(0.5, cell >= 6 ? Math.min(cell - 2, 46) : cell - 0.4);
  const inset = (cell - bar) / 2;
  const ticks = roundTicks(0, top, 5);
  /** @type {Nodes[]} */
  const parts = [grid({ ...ticks, y, left: LEFT, right: width - RIGHT, unit: "×" })];
  for (let gpu = 0; gpu < numGpus; gpu += 1) parts.push(gpuBar(model, layer, gpu, { x: x(gpu) + inset, bar, y, top }));
  parts.push(
    svgLine("mean", LEFT, y(1), width - RIGHT, y(1)),
    bound > 1.001
      ? [
          svgLine("bound", LEFT, y(bound), width - RIGHT, y(bound)),
          svgText("bound-word", width - RIGHT, y(bound) - 5, `bound ${times(bound)}`, "end"),
        ]
      : svgText("mean-word", width - RIGHT, y(1) - 5, "mean", "end"),
    nodeAxis(model, { x, cell }),
  );
  const label = `Load of each GPU in layer ${model.numberOf(layer)}: the busiest is at ${times(after)} the mean`;
  return svgChart(width, HEIGHT, label, parts, {
    on: {
      pointermove: (event) => point(model, layer, event, mark),
      pointerleave: () => {
        hideTip();
        mark(-1);
      },
    },
  });
}

/**
 * One GPU: its slots stacked, the largest at the bottom; before, as a short line or an arrow where it is off the
 * picture.
 * @param {PlacementModel} model
 * @param {number} layer
 * @param {number} gpu
 * @param {{ x: number, bar: number, y: (value: number) => number, top: number }} place
 */
function gpuBar(model, layer, gpu, { x, bar, y, top }) {
  let from = 0;
  const group = svg("g", { data: { gpu } });
  // A field as high as the chart, so that the pointer finds thin bars.
  group.append(svgRect("field", x, TOP, bar, HEIGHT - TOP - BOTTOM));
  for (const slot of model.contents(layer, gpu)) {
    const low = y(from);
    const high = y(from + slot.ratio);
    from += slot.ratio;
    const line = low - high > 3 && bar > 3 ? 1 : 0;
    group.append(
      svg("rect", {
        class: slot.copies > 1 ? "slot copied" : "slot",
        x,
        y: high,
        width: bar,
        height: Math.max(0, low - high - line),
        data: { expert: slot.expert },
      }),
    );
  }
  if (model.hasBefore) {
    const before = model.ratio("before", layer, gpu);
    if (before > top)
      group.append(svg("path", { class: "before-off", d: `M${x + bar / 2 - 4} ${TOP + 1} l4 -7 l4 7 z` }));
    else group.append(svgLine("before", x - 1, y(before), x + bar + 1, y(before)));
  }
  return group;
}

/**
 * @param {PlacementModel} model
 * @param {{ x: (gpu: number) => number, cell: number }} place
 */
function nodeAxis(model, { x, cell }) {
  const { numGpus, document: doc, perNode } = model;
  const floor = HEIGHT - BOTTOM;
  const step = labelEvery(numGpus, cell, 24);
  const some = labelEvery(doc.cluster.num_nodes, cell * perNode, 50);
  const gpus = Array.from({ length: Math.ceil(numGpus / step) }, (_, i) => i * step);
  const nodes = Array.from({ length: Math.ceil(doc.cluster.num_nodes / some) }, (_, i) => i * some);
  return [
    gpus.map((gpu) => svgText(`tick ${model.state(gpu)}`, x(gpu) + cell / 2, floor + 13, String(gpu), "middle")),
    nodes.map((node) => svgText("tick", x(node * perNode), floor + 29, `node ${node}`)),
    nodes.map((node) =>
      svgLine(
        "node-line",
        x(node * perNode),
        floor + 19,
        x(Math.min(numGpus, (node + 1) * perNode) - 1) + cell,
        floor + 19,
      ),
    ),
    svgText("tick", LEFT - 6, floor + 16, "GPU", "end"),
  ];
}

/**
 * @param {PlacementModel} model
 * @param {number} layer
 * @param {PointerEvent} event
 * @param {(expert: number) => void} mark
 */
function point(model, layer, event, mark) {
  const target = event.target instanceof SVGElement ? event.target : null;
  /** @type {SVGElement | null | undefined} */
  const group = target?.closest("[data-gpu]");
  if (!target || !group) {
    hideTip();
    mark(-1);
    return;
  }
  mark(target.dataset.expert === undefined ? -1 : Number(target.dataset.expert));
  const gpu = Number(group.dataset.gpu);
  const head = target.dataset.expert;
  const note = model.hasBefore
    ? h("p", { text: `${model.document.words.before}: ${times(model.ratio("before", layer, gpu))} the mean` })
    : null;
  const here =
    head === undefined
      ? null
      : h("p", {
          text: `Pointing at expert ${head}: ${plural(model.slotsOf(layer)[Number(head)].length, "slot")}.`.replace(
            "slots.",
            "slots, all marked.",
          ),
        });
  showTip(event.clientX, event.clientY, ...cellTip(model, "after", layer, gpu), note, here);
}

/**
 * @param {PlacementModel} model
 * @param {number} layer
 */
function hottest(model, layer) {
  const { loads, num_experts: count } = model.document;
  const mean = model.means[layer] || 1;
  const sum = loads[layer].reduce((total, load) => total + load, 0) || 1;
  const rows = Array.from({ length: count }, (_, expert) => {
    const slots = model.slotsOf(layer)[expert];
    const load = loads[layer][expert];
    const each = Math.max(
      0,
      ...slots.map(
        (slot) => (load * model.shareOf(layer, slot)) / model.document.cluster.speed_of_gpu[model.gpuOf(slot)] / mean,
      ),
    );
    const uneven = model.document.share_of_slot && slots.length > 1;
    const shareOf = (/** @type {number} */ slot) => (uneven ? ` (${smallPercent(model.shareOf(layer, slot))})` : "");
    const gpus = slots.map((slot) => `${model.gpuOf(slot)}${shareOf(slot)}`).join(", ");
    return {
      expert,
      ratio: load / mean,
      part: load / sum,
      copies: slots.length,
      each,
      slots,
      gpus,
      load: amount(load),
    };
  });
  const most = Math.max(...rows.map((row) => row.ratio), 1e-12);
  return rows.map((row) => ({ ...row, most }));
}
