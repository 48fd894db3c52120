// Painting a critical path: a band that says what it was made of; under it streams and threads, all ops faint, those of
// the path in full; lines where it passes from one to another. A column is as full of a class as it was in its time, at
// every zoom.

import { columnShares } from "./fills.js";
import { bisect } from "./intervals.js";
import { firstStartingAt, nameWriter } from "./rows.js";
import { FONT, Sheet } from "./scene.js";
import { inkOn, mix, palette } from "./theme.js";

/**
 * @typedef {import("./path_data.js").PathData} PathData
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
export function paintPath(canvas, { data, at, view, width, look, outlined }) {
  const { block, ops, path, parts } = data;
  const sheet = new Sheet(canvas, view, width, at.height);
  sheet.axis(AXIS, at.height - FOOT);
  const band = { y: at.band, height: BAND };
  paintFills(sheet, data.fills, look.full, band);
  paintEdges(sheet, parts, 0, parts.num, look.full, band);
  block.rows.forEach((row, i) => {
    const place = { y: at.tops[i], height: at.heights[i] };
    sheet.rect(sheet.colors.raised, 0, place.y, width, place.height);
    paintFills(sheet, data.rows[i].ops, look.faint, place);
    paintEdges(sheet, ops, row.first, row.first + row.count, look.faint, place);
    paintFills(sheet, data.rows[i].path, look.full, place);
    paintEdges(sheet, path, row.path_first, row.path_first + row.path_count, look.full, place);
  });
  paintHops(sheet, data, at);
  if (!outlined) return;
  const x = sheet.x(outlined.start);
  const wide = Math.max(2, sheet.x(outlined.end) - x);
  sheet.outline(sheet.colors.text, 2, x, at.tops[outlined.row], wide, at.heights[outlined.row]);
}

/**
 * Fills each column by classes in proportion to their time in it, from below.
 * @param {Sheet} sheet
 * @param {import("./fills.js").Fill[]} fills of each class
 * @param {string[]} colors
 * @param {Place} place
 */
function paintFills(sheet, fills, colors, { y, height }) {
  const pixels = window.devicePixelRatio || 1;
  const columns = Math.max(1, Math.round(sheet.width * pixels));
  const below = new Float64Array(columns);
  fills.forEach((fill, kind) => {
    if (!fill.times.length) return;
    const shares = columnShares(fill, sheet.view, columns);
    for (let from = 0; from < columns; ) {
      let to = from + 1;
      while (to < columns && shares[to] === shares[from] && below[to] === below[from]) to += 1;
      const top = y + height * (1 - below[from] - shares[from]);
      const [x, w] = [from / pixels, (to - from) / pixels];
      if (shares[from] > 0) sheet.rect(colors[kind], x, top, w, height * shares[from]);
      from = to;
    }
    for (let column = 0; column < columns; column += 1) below[column] += shares[column];
  });
}

/**
 * The ends of what is wide, and its name.
 * @param {Sheet} sheet
 * @param {import("./rows.js").Events} events
 * @param {number} first
 * @param {number} last
 * @param {string[]} colors
 * @param {Place} place
 */
function paintEdges(sheet, events, first, last, colors, { y, height }) {
  const write = nameWriter(sheet.context, events, FONT);
  const { view, scale, width } = sheet;
  const { start, dur, kind, name } = events;
  let i = Math.max(first, firstStartingAt(start, first, last, view.start) - 1);
  for (; i < last && start[i] < view.end; i += 1) {
    if (dur[i] * scale <= EDGED) continue;
    const [x0, x1] = [Math.max(0, sheet.x(start[i])), Math.min(width, sheet.x(start[i] + dur[i]))];
    sheet.rect(mix(colors[kind[i]], sheet.colors.panel, 0.5), x1 - 0.75, y, 0.75, height);
    if (x1 - x0 > NAMED) write(name[i], x0, x1, y, height, inkOn(colors[kind[i]]));
  }
}

/**
 * The first part that ends after a time: parts lie end to end.
 * @param {import("./rows.js").Events} parts
 * @param {number} time
 */
export function firstInView({ start, dur, num }, time) {
  return bisect(0, num, (at) => start[at] + dur[at] > time);
}

/**
 * Where the path passes from one row to another; nothing where there are too many to be told apart.
 * @param {Sheet} sheet
 * @param {PathData} data
 * @param {Geometry} at
 */
function paintHops(sheet, { block: { hops } }, at) {
  const { from_row, from_ns, to_row, to_ns } = hops;
  const { view, width } = sheet;
  const seen = [...to_ns.keys()].filter((i) => to_ns[i] >= view.start && from_ns[i] <= view.end);
  if (seen.length > width / HOP_ROOM) return;
  const lines = seen.map((hop) => {
    const down = to_row[hop] > from_row[hop];
    const y0 = at.tops[from_row[hop]] + (down ? at.heights[from_row[hop]] : 0);
    const y1 = at.tops[to_row[hop]] + (down ? 0 : at.heights[to_row[hop]]);
    return `M${sheet.x(from_ns[hop])} ${y0}L${sheet.x(to_ns[hop])} ${y1}`;
  });
  sheet.path(sheet.colors.text, 1.25, lines.join(""));
}
