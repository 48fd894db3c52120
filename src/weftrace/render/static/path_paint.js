// Painting a critical path: a band that says what it was made of, as much of each class as there was in each column;
// under it streams and threads, all ops faint, those of the path in full; lines where it passes from one to another.

import { drawAxis } from "./axis.js";
import { sizedContext } from "./dom.js";
import { columnShares } from "./fills.js";
import { durationSums, nameWriter, paintRow, shadesFor } from "./rows.js";
import { mix, palette, SANS } from "./theme.js";

/**
 * @typedef {import("./path_data.js").PathData} PathData
 * @typedef {import("./theme.js").Palette} Palette
 * @typedef {import("./viewport.js").Viewport} Viewport
 *
 * Where things are, in pixels from the picture's top.
 * @typedef {{ band: number, tops: number[], heights: number[], height: number }} Geometry
 *
 * What paints the rows of one theme. writers: for the band, the ops and the path.
 * @typedef {object} Look
 * @property {import("./rows.js").Look} full
 * @property {import("./rows.js").Look} faint
 * @property {Float64Array} sumsOfOps
 * @property {Float64Array} sumsOfPath
 * @property {Float64Array} sumsOfParts
 *
 * What is seen now. outlined: an op, as a row and its times; null for none.
 * @typedef {object} Scene
 * @property {PathData} data
 * @property {Geometry} at
 * @property {Viewport} view
 * @property {number} width
 * @property {Look} look
 * @property {{ row: number, start: number, end: number } | null} outlined
 */

const AXIS = 24;
const GAP = 4;
const DEVICE = 24;
const HOST = 18;
const FOOT = 4;
const FAINT = 0.74; // how much of the ground is in the colour of what is not on the path
const HOP_ROOM = 3; // pixels of width for each passage: where there are more, none is drawn
const FONT = `11px ${SANS}`;
/** The height of the band of classes. */
export const BAND = 34;

/**
 * @param {page.PathPicture} block
 * @returns {Geometry}
 */
export function pathGeometry({ rows }) {
  const heights = rows.map((row) => (row.on_device ? DEVICE : HOST));
  let y = AXIS + BAND + 3 * GAP;
  const tops = heights.map((height) => {
    const top = y;
    y += height + GAP;
    return top;
  });
  return { band: AXIS, tops, heights, height: y + FOOT };
}

/**
 * @param {PathData} data
 * @returns {Look}
 */
export function pathLook({ ops, path, parts }) {
  const colors = palette();
  const faint = Object.fromEntries(ops.className.map((role) => [role, mix(colors[role], colors.panel, FAINT)]));
  return {
    full: shadesFor(path, colors),
    faint: shadesFor(ops, { ...colors, ...faint }),
    sumsOfOps: durationSums(ops),
    sumsOfPath: durationSums(path),
    sumsOfParts: durationSums(parts),
  };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Scene} scene
 */
export function paintPath(canvas, scene) {
  const { data, at, view, width, look } = scene;
  const { block, ops, path } = data;
  const colors = palette();
  const context = sizedContext(canvas, width, at.height);
  context.clearRect(0, 0, width, at.height);
  drawAxis(context, { view, left: 0, width, height: AXIS, bottom: at.height - FOOT, colors, font: FONT });
  paintBand(context, scene, colors);
  const writers = [nameWriter(context, ops, FONT), nameWriter(context, path, FONT)];
  block.rows.forEach((row, i) => {
    const place = { view, width, y: at.tops[i], height: at.heights[i], hits: null };
    context.fillStyle = colors.raised;
    context.fillRect(0, at.tops[i], width, at.heights[i]);
    paintRow(context, ops, row, { ...place, look: look.faint, sums: look.sumsOfOps, label: writers[0] });
    const own = { first: row.path_first, count: row.path_count };
    paintRow(context, path, own, { ...place, look: look.full, sums: look.sumsOfPath, label: writers[1] });
  });
  paintHops(context, scene, colors);
  paintOutline(context, scene, colors);
  canvas.dataset.start = String(view.start);
  canvas.dataset.end = String(view.end);
}

/**
 * Each column of the band is filled by classes in proportion to their time in it; the names of wide parts over it.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintBand(context, { data, at, view, width, look }, colors) {
  const pixels = window.devicePixelRatio || 1;
  const columns = Math.max(1, Math.round(width * pixels));
  const below = new Float64Array(columns);
  data.fills.forEach((fill, kind) => {
    if (!fill.times.length) return;
    const shares = columnShares(fill, view, columns);
    context.fillStyle = colors[data.block.roles[kind]];
    for (let from = 0; from < columns; ) {
      let to = from + 1;
      while (to < columns && shares[to] === shares[from] && below[to] === below[from]) to += 1;
      if (shares[from] > 0) {
        const y = at.band + BAND * (1 - below[from] - shares[from]);
        context.fillRect(from / pixels, y, (to - from) / pixels, BAND * shares[from]);
      }
      from = to;
    }
    for (let column = 0; column < columns; column += 1) below[column] += shares[column];
  });
  nameParts(context, { data, at, view, width, look });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Pick<Scene, "data" | "at" | "view" | "width" | "look">} scene
 */
function nameParts(context, { data: { parts }, at, view, width, look }) {
  const write = nameWriter(context, parts, FONT);
  const scale = width / view.length;
  let i = firstInView(parts, view.start);
  for (; i < parts.num && parts.start[i] < view.end; i += 1) {
    const x0 = Math.max(0, (parts.start[i] - view.start) * scale);
    const x1 = Math.min(width, (parts.start[i] + parts.dur[i] - view.start) * scale);
    if (x1 - x0 > 26) write(parts.name[i], x0, x1, at.band, BAND, look.full.ink[parts.kind[i]]);
  }
}

/**
 * The first part that ends after a time: parts lie end to end.
 * @param {import("./rows.js").Events} parts
 * @param {number} time
 */
export function firstInView({ start, dur, num }, time) {
  let low = 0;
  let high = num;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[middle] + dur[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Where the path passes from one row to another; nothing where there are too many to be told apart.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintHops(context, { data, at, view, width }, colors) {
  const seen = hopsIn(data, view);
  if (seen.length > width / HOP_ROOM) return;
  const { from_row, from_ns, to_row, to_ns } = data.block.hops;
  const scale = width / view.length;
  context.strokeStyle = colors.text;
  context.lineWidth = 1.25;
  context.beginPath();
  for (const hop of seen) {
    const down = to_row[hop] > from_row[hop];
    const y0 = at.tops[from_row[hop]] + (down ? at.heights[from_row[hop]] : 0);
    const y1 = at.tops[to_row[hop]] + (down ? 0 : at.heights[to_row[hop]]);
    context.moveTo((from_ns[hop] - view.start) * scale, y0);
    context.lineTo((to_ns[hop] - view.start) * scale, y1);
  }
  context.stroke();
  context.lineWidth = 1;
}

/**
 * The passages in view, by number.
 * @param {PathData} data
 * @param {Viewport} view
 */
function hopsIn({ block: { hops } }, view) {
  const seen = [];
  for (let i = 0; i < hops.to_ns.length; i += 1) {
    if (hops.to_ns[i] >= view.start && hops.from_ns[i] <= view.end) seen.push(i);
  }
  return seen;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintOutline(context, { at, view, width, outlined }, colors) {
  if (!outlined) return;
  const [x0, x1] = [outlined.start, outlined.end].map((ns) => ((ns - view.start) / view.length) * width);
  context.strokeStyle = colors.text;
  context.lineWidth = 2;
  context.strokeRect(x0, at.tops[outlined.row], Math.max(2, x1 - x0), at.heights[outlined.row]);
  context.lineWidth = 1;
}
