// Which GPU does how much in which layer? Layers down, GPUs across, before and after on one scale.

import { byId, fill, h, oncePerFrame, sizedContext } from "render/dom.js";
import { percent } from "render/format.js";
import { amount, balance, mean, times } from "./words.js";
import { labelEvery } from "render/svg.js";
import { hatch } from "render/hatch.js";
import { mix, onTheme, palette, SANS } from "render/theme.js";
import { defined, hideTip, showTip, tipRows } from "render/tooltip.js";

/**
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 * @typedef {import("./placement_model.js").Which} Which
 * @typedef {import("render/theme.js").Palette} Palette
 * @typedef {import("render/tooltip.js").TipRow} TipRow
 * @typedef {{ layer: number, gpu: number }} Cell
 * @typedef {{ which: Which, canvas: HTMLCanvasElement, cells: HTMLCanvasElement, look: string, box: HTMLElement }} HeatMap
 */

const LEFT = 38;
const TOP = 22;
const BOTTOM = 20;
const RIGHT = 2;
const MAX_CELL = 30;
const MAP_HEIGHT = 480;
const MIN_ROW = 2; // pixels; rows are as high as fit the map's height
const FONT = `11.5px ${SANS}`;

/** How far from the mean the colours reach. The same scale serves both pictures, so that they can be compared. */
const REACHES = [
  { half: 1, label: "0 to 2×", low: "0", high: "2× the mean and more" },
  { half: 0.2, label: "± 20 %", low: "−20 % and less", high: "+20 % and more" },
  { half: 0.02, label: "± 2 %", low: "−2 % and less", high: "+2 % and more" },
];

/**
 * The heat maps. onCell(layer, gpu) when one is clicked. Returns {choose(layer)}, {place(which, layer, gpu)} for tests.
 * @param {PlacementModel} model
 * @param {(layer: number, gpu: number) => void} onCell
 */
export function heatMaps(model, onCell) {
  const { document: doc, numLayers, numGpus } = model;
  let reach = 0;
  let chosen = -1;
  /** @type {Cell | null} */
  let hover = null;
  const draw = oncePerFrame(() => maps.forEach(paint));
  /** @type {Which[]} */
  const both = ["before", "after"];
  const maps = both
    .map((which) => ({ which, told: doc.gpu_load[which] }))
    .filter((map) => map.told)
    .map(({ which, told }) => {
      const canvas = h("canvas", {
        tabindex: 0,
        role: "img",
        "aria-label": `Load of every GPU in every layer, ${told?.label}. Arrow keys move, Enter chooses a layer.`,
        data: { map: which },
      });
      const value = mean(told?.balancedness ?? []);
      const title = h(
        "div",
        { class: "map-title" },
        h("b", { text: which === "before" ? "Before" : "After" }),
        h("span", { class: "muted", text: words(told?.label ?? "", which) }),
        h(
          "span",
          { class: "map-value" },
          defined("balancedness", "balancedness"),
          h("b", { text: ` ${balance(value)}` }),
        ),
      );
      const map = { which, canvas, cells: h("canvas"), look: "", box: h("div", { class: "map" }, title, canvas) };
      listen(map);
      return map;
    });
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
  function geometry({ box }) {
    const width = box.clientWidth;
    const gap = doc.cluster.num_nodes > 1 ? (numGpus > 128 ? 2 : 4) : 0;
    const room = width - LEFT - RIGHT - gap * (doc.cluster.num_nodes - 1);
    const cell = room / numGpus;
    const row = Math.max(MIN_ROW, Math.min(MAX_CELL, Math.floor(MAP_HEIGHT / numLayers)));
    /** @param {number} gpu */
    const x = (gpu) => LEFT + gpu * cell + model.nodeOf(gpu) * gap;
    return { width, height: TOP + row * numLayers + BOTTOM, cell, row, x };
  }

  /** @param {HeatMap} map */
  function paint(map) {
    const { width, height, cell, row, x } = geometry(map);
    if (width <= 0) return;
    const context = sizedContext(map.canvas, width, height);
    const colors = palette();
    context.clearRect(0, 0, width, height);
    // Tens of thousands of cells stay as they are while the pointer moves over them.
    const look = [width, reach, colors.level, devicePixelRatio].join();
    if (map.look !== look) {
      map.look = look;
      cells(map, sizedContext(map.cells, width, height), colors);
    }
    context.drawImage(map.cells, 0, 0, width, height);
    axes(context, colors, { height, cell, row, x });
    if (chosen >= 0) {
      context.strokeStyle = colors.accent;
      context.lineWidth = 2;
      context.strokeRect(LEFT - 2, TOP + chosen * row - 1.5, width - LEFT, row + 2);
    }
    if (hover) {
      context.strokeStyle = colors.text;
      context.lineWidth = 1.5;
      context.strokeRect(x(hover.gpu) - 1, TOP + hover.layer * row - 1, cell + 1, row + 1);
    }
  }

  /**
   * @param {HeatMap} map
   * @param {CanvasRenderingContext2D} context
   * @param {Palette} colors
   */
  function cells(map, context, colors) {
    const { width, height, cell, row, x } = geometry(map);
    const { half } = REACHES[reach];
    const lineX = cell >= 5 ? 1 : 0;
    const lineY = row >= 5 ? 1 : 0;
    context.clearRect(0, 0, width, height);
    const unused = hatch(context, colors.faint);
    for (let gpu = 0; gpu < numGpus; gpu += 1) {
      const left = x(gpu);
      const wide = Math.max(0.5, cell - lineX);
      for (let layer = 0; layer < numLayers; layer += 1) {
        const nothing = model.isOut(gpu) && doc.gpu_load[map.which]?.load[layer][gpu] === 0;
        context.fillStyle = nothing ? unused : loadColor(model.ratio(map.which, layer, gpu), half);
        context.fillRect(left, TOP + layer * row, wide, row - lineY);
      }
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Palette} colors
   * @param {{ height: number, cell: number, row: number, x: (gpu: number) => number }} place
   */
  function axes(context, colors, { height, cell, row, x }) {
    context.font = FONT;
    context.fillStyle = colors.muted;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = labelEvery(numLayers, row, 13);
    for (let layer = 0; layer < numLayers; layer += every) {
      if (Math.abs(layer - chosen) * row < 13 && chosen >= 0) continue;
      context.fillText(String(layer), LEFT - 7, TOP + (layer + 0.5) * row);
    }
    context.textAlign = "left";
    const nodes = doc.cluster.num_nodes;
    const wide = cell * model.perNode;
    const some = labelEvery(nodes, wide, 46);
    for (let node = 0; node < nodes && nodes > 1; node += some)
      context.fillText(`node ${node}`, x(node * model.perNode), TOP - 11);
    if (nodes === 1) context.fillText("one node", LEFT, TOP - 11);
    context.textAlign = "center";
    const step = labelEvery(numGpus, cell, 24);
    for (let gpu = 0; gpu < numGpus; gpu += step)
      context.fillText(String(gpu), x(gpu) + cell / 2, height - BOTTOM + 12);
    if (chosen >= 0) {
      context.fillStyle = colors.accent;
      context.font = `bold ${FONT}`;
      context.textAlign = "right";
      context.fillText(String(chosen), LEFT - 7, TOP + (chosen + 0.5) * row);
    }
  }

  /**
   * @param {HeatMap} map
   * @param {MouseEvent} event
   * @returns {Cell | null}
   */
  function cellAt(map, event) {
    const { cell, row, x } = geometry(map);
    const box = map.canvas.getBoundingClientRect();
    const layer = Math.floor((event.clientY - box.top - TOP) / row);
    const from = event.clientX - box.left;
    for (let gpu = 0; gpu < numGpus; gpu += 1) {
      if (from >= x(gpu) && from < x(gpu) + cell && layer >= 0 && layer < numLayers) return { layer, gpu };
    }
    return null;
  }

  /** @param {HeatMap} map */
  function listen(map) {
    /**
     * @param {number} x
     * @param {number} y
     */
    const tell = (x, y) => {
      draw();
      if (hover) showTip(x, y, ...cellTip(model, map.which, hover.layer, hover.gpu));
      else hideTip();
    };
    map.canvas.addEventListener("pointermove", (event) => {
      hover = cellAt(map, event);
      tell(event.clientX, event.clientY);
    });
    map.canvas.addEventListener("pointerleave", () => {
      hover = null;
      hideTip();
      draw();
    });
    map.canvas.addEventListener("blur", () => {
      hover = null;
      hideTip();
      draw();
    });
    map.canvas.addEventListener("click", (event) => {
      const cell = cellAt(map, event);
      if (cell) onCell(cell.layer, cell.gpu);
    });
    map.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Enter" && hover) {
        onCell(hover.layer, hover.gpu);
        return;
      }
      if (!step) return;
      event.preventDefault();
      const from = hover ?? { layer: Math.max(0, chosen) - step[0], gpu: -step[1] };
      hover = { layer: clamp(from.layer + step[0], numLayers), gpu: clamp(from.gpu + step[1], numGpus) };
      const { x, y } = place(map.which, hover.layer, hover.gpu);
      tell(x, y);
      byId("map-live").textContent = cellTip(model, map.which, hover.layer, hover.gpu)
        .map((node) => node.textContent)
        .join(", ");
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
    const { cell, row, x } = geometry(map);
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
  return tipRows(
    `Layer ${layer}, GPU ${gpu}, node ${model.nodeOf(gpu)}${model.state(gpu) ? `: ${model.state(gpu)}` : ""}`,
    loadColor(model.ratio(which, layer, gpu), 1),
    [
      [which, `${times(model.ratio(which, layer, gpu))} the mean, load ${amount(load)}`],
      speed === 1 ? null : ["speed", `${speed}, so its time is ${amount(load / speed)}`],
      ...experts,
      there.length > most ? ["", `and ${there.length - most} more`] : null,
    ],
  );
}

/**
 * @param {string} label
 * @param {Which} which
 */
function words(label, which) {
  return label && label !== which ? label : "";
}

/**
 * @param {number} value
 * @param {number} count
 */
function clamp(value, count) {
  return Math.max(0, Math.min(count - 1, value));
}

/**
 * A load as a multiple of the mean -> "#rrggbb", for a reach and the theme in force.
 * @param {number} ratio
 * @param {number} half
 */
function loadColor(ratio, half) {
  const colors = palette();
  const at = Math.max(-1, Math.min(1, (ratio - 1) / half));
  return mix(colors.level, at < 0 ? colors.under : colors.over, Math.abs(at));
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
      REACHES.map((reach, at) =>
        h("button", {
          type: "button",
          "aria-pressed": String(at === current),
          text: reach.label,
          data: { reach: at },
          on: { click: () => onChoose(at) },
        }),
      ),
    ),
  );
}
