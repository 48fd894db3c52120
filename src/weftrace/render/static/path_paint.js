// Painting a critical path: a band that says what it was made of; under it streams and threads, all ops faint, those of
// the path in full; lines where it passes from one to another. A column is as full of a class as it was in its time, at
// every zoom.

import { drawAxis } from "./axis.js";
import { sizedContext } from "./dom.js";
import { columnShares } from "./fills.js";
import { firstStartingAt, nameWriter } from "./rows.js";
import { inkOn, mix, palette, SANS } from "./theme.js";

/**
 * @typedef {import("./path_data.js").PathData} PathData
 * @typedef {import("./theme.js").Palette} Palette
 * @typedef {import("./viewport.js").Viewport} Viewport
 *
 * Where things are, in pixels from the picture's top.
 * @typedef {{ band: number, tops: number[], heights: number[], height: number }} Geometry
 *
 * Colours of classes on the path, and off it.
 * @typedef {{ full: string[], faint: string[] }} Look
 *
 * A part of the picture.
 * @typedef {{ y: number, height: number }} Place
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
const EDGED = 16; // pixels: what is wider has an edge, so that neighbours can be told apart
const NAMED = 26; // wider has a name
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
export function pathLook({ block }) {
  const colors = palette();
  const full = block.roles.map((role) => colors[role]);
  return { full, faint: full.map((color) => mix(color, colors.panel, FAINT)) };
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
  const band = { y: at.band, height: BAND };
  paintFills(context, scene, data.fills, look.full, band);
  paintEdges(context, scene, { events: data.parts, first: 0, last: data.parts.num }, look.full, band);
  block.rows.forEach((row, i) => {
    const place = { y: at.tops[i], height: at.heights[i] };
    context.fillStyle = colors.raised;
    context.fillRect(0, place.y, width, place.height);
    paintFills(context, scene, data.rows[i].ops, look.faint, place);
    paintEdges(context, scene, { events: ops, first: row.first, last: row.first + row.count }, look.faint, place);
    const [first, last] = [row.path_first, row.path_first + row.path_count];
    paintFills(context, scene, data.rows[i].path, look.full, place);
    paintEdges(context, scene, { events: path, first, last }, look.full, place);
  });
  paintHops(context, scene, colors);
  paintOutline(context, scene, colors);
  canvas.dataset.start = String(view.start);
  canvas.dataset.end = String(view.end);
}

/**
 * Fills each column by classes in proportion to their time in it, from below.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {import("./fills.js").Fill[]} fills of each class
 * @param {string[]} colors
 * @param {Place} place
 */
function paintFills(context, { view, width }, fills, colors, { y, height }) {
  const pixels = window.devicePixelRatio || 1;
  const columns = Math.max(1, Math.round(width * pixels));
  const below = new Float64Array(columns);
  fills.forEach((fill, kind) => {
    if (!fill.times.length) return;
    const shares = columnShares(fill, view, columns);
    context.fillStyle = colors[kind];
    for (let from = 0; from < columns; ) {
      let to = from + 1;
      while (to < columns && shares[to] === shares[from] && below[to] === below[from]) to += 1;
      const top = y + height * (1 - below[from] - shares[from]);
      if (shares[from] > 0) context.fillRect(from / pixels, top, (to - from) / pixels, height * shares[from]);
      from = to;
    }
    for (let column = 0; column < columns; column += 1) below[column] += shares[column];
  });
}

/**
 * The ends of what is wide, and its name.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {{ events: import("./rows.js").Events, first: number, last: number }} row
 * @param {string[]} colors
 * @param {Place} place
 */
function paintEdges(context, { view, width }, { events, first, last }, colors, { y, height }) {
  const write = nameWriter(context, events, FONT);
  const scale = width / view.length;
  const { start, dur, kind, name } = events;
  const ground = palette().panel;
  for (
    let i = Math.max(first, firstStartingAt(start, first, last, view.start) - 1);
    i < last && start[i] < view.end;
    i += 1
  ) {
    if (dur[i] * scale <= EDGED) continue;
    const x0 = Math.max(0, (start[i] - view.start) * scale);
    const x1 = Math.min(width, (start[i] + dur[i] - view.start) * scale);
    context.fillStyle = mix(colors[kind[i]], ground, 0.5);
    context.fillRect(x1 - 0.75, y, 0.75, height);
    if (x1 - x0 > NAMED) write(name[i], x0, x1, y, height, inkOn(colors[kind[i]]));
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
