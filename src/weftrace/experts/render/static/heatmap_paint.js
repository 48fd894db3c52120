// Painting a heat map of loads: blue does less than the mean, orange more, and what does its part is grey.

import { sizedContext } from "render/dom.js";
import { hatch } from "render/hatch.js";
import { labelEvery } from "render/svg.js";
import { mix, palette, SANS } from "render/theme.js";

/**
 * @typedef {import("render/theme.js").Palette} Palette
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 * @typedef {import("./placement_model.js").Which} Which
 * @typedef {{ layer: number, gpu: number }} Cell
 *
 * A heat map. cells: its cells as last painted, with `look`.
 * @typedef {object} HeatMap
 * @property {Which} which
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLCanvasElement} cells
 * @property {string} look
 * @property {HTMLElement} box
 *
 * Where the cells are, in pixels of the map. x: a GPU's left edge.
 * @typedef {{ width: number, height: number, cell: number, row: number, x: (gpu: number) => number }} Geometry
 *
 * What is seen now. reach: how far from the mean the colours reach; chosen: the layer that is open, -1 for none.
 * @typedef {{ reach: number, chosen: number, hover: Cell | null }} Scene
 */

export const TOP = 22;

const LEFT = 38;
const BOTTOM = 20;
const RIGHT = 2;
const MAX_CELL = 30;
const MAP_HEIGHT = 480;
const MIN_ROW = 2; // pixels; rows are as high as fit the map's height
const FONT = `11.5px ${SANS}`;

/**
 * @param {PlacementModel} model
 * @param {number} width
 * @returns {Geometry}
 */
export function mapGeometry(model, width) {
  const { numGpus, numLayers } = model;
  const nodes = model.document.cluster.num_nodes;
  const gap = nodes > 1 ? (numGpus > 128 ? 2 : 4) : 0;
  const cell = (width - LEFT - RIGHT - gap * (nodes - 1)) / numGpus;
  const row = Math.max(MIN_ROW, Math.min(MAX_CELL, Math.floor(MAP_HEIGHT / numLayers)));
  return {
    width,
    height: TOP + row * numLayers + BOTTOM,
    cell,
    row,
    x: (gpu) => LEFT + gpu * cell + model.nodeOf(gpu) * gap,
  };
}

/**
 * @param {PlacementModel} model
 * @param {HeatMap} map
 * @param {Scene} scene
 */
export function paintMap(model, map, { reach, chosen, hover }) {
  const place = mapGeometry(model, map.box.clientWidth);
  const { width, height, cell, row, x } = place;
  if (width <= 0) return;
  const context = sizedContext(map.canvas, width, height);
  const colors = palette();
  context.clearRect(0, 0, width, height);
  // Tens of thousands of cells stay as they are while the pointer moves over them.
  const look = [width, reach, colors.level, devicePixelRatio].join();
  if (map.look !== look) {
    map.look = look;
    paintCells(model, map, place, reach);
  }
  context.drawImage(map.cells, 0, 0, width, height);
  paintAxes(context, model, place, chosen, colors);
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
 * @param {PlacementModel} model
 * @param {HeatMap} map
 * @param {Geometry} place
 * @param {number} reach
 */
function paintCells(model, map, { width, height, cell, row, x }, reach) {
  const context = sizedContext(map.cells, width, height);
  const lineX = cell >= 5 ? 1 : 0;
  const lineY = row >= 5 ? 1 : 0;
  context.clearRect(0, 0, width, height);
  const unused = hatch(context, palette().faint);
  const loads = model.document.gpu_load[map.which]?.load ?? [];
  for (let gpu = 0; gpu < model.numGpus; gpu += 1) {
    const left = x(gpu);
    const wide = Math.max(0.5, cell - lineX);
    for (let layer = 0; layer < model.numLayers; layer += 1) {
      const nothing = model.isOut(gpu) && loads[layer][gpu] === 0;
      context.fillStyle = nothing ? unused : loadColor(model.ratio(map.which, layer, gpu), reach);
      context.fillRect(left, TOP + layer * row, wide, row - lineY);
    }
  }
}

/**
 * Numbers of layers, nodes and GPUs; the open layer's in colour.
 * @param {CanvasRenderingContext2D} context
 * @param {PlacementModel} model
 * @param {Geometry} place
 * @param {number} chosen
 * @param {Palette} colors
 */
function paintAxes(context, model, { height, cell, row, x }, chosen, colors) {
  const { numLayers, numGpus } = model;
  context.font = FONT;
  context.fillStyle = colors.muted;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const every = labelEvery(numLayers, row, 13);
  for (let layer = 0; layer < numLayers; layer += every) {
    if (Math.abs(layer - chosen) * row < 13 && chosen >= 0) continue;
    context.fillText(String(model.numberOf(layer)), LEFT - 7, TOP + (layer + 0.5) * row);
  }
  context.textAlign = "left";
  const nodes = model.document.cluster.num_nodes;
  const some = labelEvery(nodes, cell * model.perNode, 46);
  if (nodes === 1) context.fillText("one node", LEFT, TOP - 11);
  for (let node = 0; node < nodes && nodes > 1; node += some) {
    context.fillText(`node ${node}`, x(node * model.perNode), TOP - 11);
  }
  context.textAlign = "center";
  const step = labelEvery(numGpus, cell, 24);
  for (let gpu = 0; gpu < numGpus; gpu += step) {
    context.fillText(String(gpu), x(gpu) + cell / 2, height - BOTTOM + 12);
  }
  if (chosen < 0) return;
  context.fillStyle = colors.accent;
  context.font = `bold ${FONT}`;
  context.textAlign = "right";
  context.fillText(String(model.numberOf(chosen)), LEFT - 7, TOP + (chosen + 0.5) * row);
}

/**
 * A load as a multiple of the mean -> "#rrggbb", for a reach and the theme in force.
 * @param {number} ratio
 * @param {number} half
 */
export function loadColor(ratio, half) {
  const colors = palette();
  const at = Math.max(-1, Math.min(1, (ratio - 1) / half));
  return mix(colors.level, at < 0 ? colors.under : colors.over, Math.abs(at));
}
