// Which GPU does how much in which layer? Layers down, GPUs across, before and after on one scale.

import { answeringCells } from "render/cells.js";
import { choiceButtons, byId, fill, h, oncePerFrame } from "render/dom.js";
import { percent } from "render/format.js";
import { onTheme } from "render/theme.js";
import { defined, tipRows } from "render/tooltip.js";
import { loadColor, mapGeometry, paintMap, TOP } from "./heatmap_paint.js";
import { amount, balance, mean, times } from "./words.js";

/**
 * @typedef {import("render/tooltip.js").TipRow} TipRow
 * @typedef {import("./heatmap_paint.js").Cell} Cell
 * @typedef {import("./heatmap_paint.js").HeatMap} HeatMap
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 * @typedef {import("./placement_model.js").Which} Which
 */

/** How far from the mean the colours reach. The same scale serves both pictures, so that they can be compared. */
const REACHES = [
  { half: 1, label: "0 to 2×", low: "0", high: "2× the mean and more" },
  { half: 0.2, label: "± 20 %", low: "−20 % and less", high: "+20 % and more" },
  { half: 0.02, label: "± 2 %", low: "−2 % and less", high: "+2 % and more" },
];

/**
 * The heat maps. onCell(layer, gpu) when one is clicked. Returns {choose(layer)}; {place(which, layer, gpu)} for tests.
 * @param {PlacementModel} model
 * @param {(layer: number, gpu: number) => void} onCell
 */
export function heatMaps(model, onCell) {
  let reach = 0;
  let chosen = -1;
  /** @type {Cell | null} */
  let hover = null;
  const maps = emptyMaps(model);
  const draw = oncePerFrame(() => {
    for (const map of maps) paintMap(model, map, { reach: REACHES[reach].half, chosen, hover });
  });
  maps.forEach(listen);
  fill(
    byId("maps"),
    maps.map((map) => map.box),
  );
  byId("maps").classList.toggle("single", maps.length === 1);
  legend();
  onTheme(() => {
    legend();
    draw();
  });
  new ResizeObserver(draw).observe(byId("maps"));
  draw();

  function legend() {
    fill(
      byId("map-legend"),
      scaleLegend(reach, (next) => {
        reach = next;
        legend();
        draw();
      }),
    );
  }

  /** @param {HeatMap} map */
  function listen(map) {
    answeringCells(map.canvas, byId("map-live"), {
      at: (x, y) => cellAt(model, map, x, y),
      beside: (down, right) => {
        const { layer, gpu } = hover ?? { layer: Math.max(0, chosen) - down, gpu: -right };
        return { layer: clamp(layer + down, model.numLayers), gpu: clamp(gpu + right, model.numGpus) };
      },
      place: ({ layer, gpu }) => place(map.which, layer, gpu),
      tip: ({ layer, gpu }) => cellTip(model, map.which, layer, gpu),
      point: (cell) => {
        hover = cell;
        draw();
      },
      pick: ({ layer, gpu }) => onCell(layer, gpu),
    });
  }

  /**
   * Middle of a cell in the window.
   * @param {Which} which
   * @param {number} layer
   * @param {number} gpu
   */
  function place(which, layer, gpu) {
    const map = maps.find((candidate) => candidate.which === which) ?? maps[0];
    const { cell, row, x } = mapGeometry(model, map.box.clientWidth);
    const box = map.canvas.getBoundingClientRect();
    return { x: box.left + x(gpu) + cell / 2, y: box.top + TOP + (layer + 0.5) * row };
  }

  return {
    /** @param {number} layer */
    choose: (layer) => {
      chosen = layer;
      draw();
    },
    place,
    reach: () => REACHES[reach].half,
  };
}

/**
 * A map for each placement that the document holds, with its title and nothing painted.
 * @param {PlacementModel} model
 * @returns {HeatMap[]}
 */
function emptyMaps(model) {
  /** @type {Which[]} */
  const both = ["before", "after"];
  return both.flatMap((which) => {
    const loads = model.document.gpu_load[which];
    if (!loads) return [];
    const canvas = h("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": `Load of every GPU in every layer, ${loads.label}. Arrow keys move, Enter chooses a layer.`,
      data: { map: which },
    });
    const value = balance(mean(loads.balancedness));
    const title = h(
      "div",
      { class: "map-title" },
      h("b", { text: model.document.words[which] }),
      h("span", { class: "muted", text: model.document.words[`${which}_more`] }),
      h("span", { class: "map-value" }, defined("balancedness", "balancedness"), h("b", { text: ` ${value}` })),
    );
    return [{ which, canvas, cells: h("canvas"), look: "", box: h("div", { class: "map" }, title, canvas) }];
  });
}

/**
 * @param {PlacementModel} model
 * @param {HeatMap} map
 * @param {number} from
 * @param {number} down
 * @returns {Cell | null}
 */
function cellAt(model, map, from, down) {
  const { cell, row, x } = mapGeometry(model, map.box.clientWidth);
  const layer = Math.floor((down - TOP) / row);
  if (layer < 0 || layer >= model.numLayers) return null;
  for (let gpu = 0; gpu < model.numGpus; gpu += 1) {
    if (from >= x(gpu) && from < x(gpu) + cell) return { layer, gpu };
  }
  return null;
}

/**
 * What a cell says: layer, GPU, node, load, and for the placement itself the experts that stand there.
 * @param {PlacementModel} model
 * @param {Which} which
 * @param {number} layer
 * @param {number} gpu
 */
export function cellTip(model, which, layer, gpu) {
  const { document: doc } = model;
  const load = doc.gpu_load[which]?.load[layer][gpu] ?? 0;
  const speed = doc.cluster.speed_of_gpu[gpu];
  const there = which === "after" ? model.contents(layer, gpu) : [];
  const most = 8;
  /** @type {TipRow[]} */
  const experts = there
    .slice(0, most)
    .map((slot) => [
      `expert ${slot.expert}`,
      `${times(slot.ratio)}${slot.copies > 1 ? `, ${percent(slot.share)} of it (${slot.copies} copies)` : ""}`,
    ]);
  const state = model.state(gpu);
  return tipRows(
    `Layer ${model.numberOf(layer)}, GPU ${gpu}, node ${model.nodeOf(gpu)}${state ? `: ${state}` : ""}`,
    loadColor(model.ratio(which, layer, gpu), 1),
    [
      [doc.words[which], `${times(model.ratio(which, layer, gpu))} the mean, load ${amount(load)}`],
      speed === 1 ? null : ["speed", `${speed}, so its time is ${amount(load / speed)}`],
      ...experts,
      there.length > most ? ["", `and ${there.length - most} more`] : null,
    ],
  );
}

/**
 * @param {number} value
 * @param {number} count
 */
function clamp(value, count) {
  return Math.max(0, Math.min(count - 1, value));
}

/**
 * Gradient with its three numbers, and buttons to choose the reach.
 * @param {number} current
 * @param {(reach: number) => void} onChoose
 */
function scaleLegend(current, onChoose) {
  const { half, low, high } = REACHES[current];
  const stops = Array.from({ length: 17 }, (_, i) => loadColor(1 + half * (i / 8 - 1), half)).join(", ");
  return h(
    "div",
    { class: "scale" },
    h(
      "div",
      {
        class: "scale-bar",
        role: "img",
        "aria-label": `colours from ${low} (blue) over the mean (neutral) to ${high} (orange)`,
      },
      h("div", { class: "scale-colors", style: { background: `linear-gradient(to right, ${stops})` } }),
      h(
        "div",
        { class: "scale-words" },
        h("span", { text: low }),
        h("span", { text: "mean" }),
        h("span", { text: high }),
      ),
    ),
    h(
      "div",
      { class: "choices", role: "group", "aria-label": "Reach of the colours" },
      choiceButtons(
        REACHES,
        ({ label }) => label,
        (_, at) => at === current,
        (_, at) => onChoose(at),
        (_, at) => ({ reach: at }),
      ),
    ),
  );
}
