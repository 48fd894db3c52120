// Painting the timeline of a job: a row a rank. The upper part of a row is as full as it computed, the lower one as it
// communicated, of which waiting for others in its own colour; what is empty was idle.

import { drawAxis } from "render/axis.js";
import { columnShares } from "render/fills.js";
import { paintCallouts } from "render/lanes_paint.js";
import { channels, palette, SANS } from "render/theme.js";

/**
 * @typedef {import("render/fills.js").Fill} Fill
 * @typedef {import("render/theme.js").Palette} Palette
 * @typedef {import("./job.js").JobRank} JobRank
 *
 * A rank and how busy it was, in its own time. waitsWithin: its waits are a part of its communication.
 * @typedef {Record<"compute" | "communication" | "exposed" | "busy" | "waits", Fill>} Fills
 * @typedef {JobRank & Fills & { waitsWithin: boolean }} Row
 *
 * Shares of one stretch of a rank's time.
 * @typedef {Record<"compute" | "copies" | "communication" | "waiting", Float64Array>} Shares
 *
 * Heights of a row in pixels: of all of it, of its two bands, and the rest is the gap to the next.
 * @typedef {{ row: number, upper: number, lower: number }} Heights
 *
 * A collective that a rank came last to: who, and what it says.
 * @typedef {{ time: number, place: number, text: string }} Mark
 *
 * What is seen now. rows: in the order of drawing; chosen: the place of the rank that is open, hovered: of the one
 * under the pointer or the keys, -1 for none.
 * @typedef {object} Scene
 * @property {Row[]} rows
 * @property {import("render/viewport.js").Viewport} view
 * @property {number} width
 * @property {number} left
 * @property {number} height
 * @property {number} scrolled
 * @property {Heights} at
 * @property {Mark[]} marks
 * @property {number} chosen
 * @property {number} hovered
 */

/** What stands above the rows: the axis, and who came last. */
export const HEAD = 46;
const AXIS = 24;
const ROOM = 520; // pixels that rows share, as long as each has its least
const LEAST_ROW = 3;
const NAME_HIGH = 13;
const MOST_ROW = 40;
const LOWER = 0.5; // of a row: communication
export const FONT = `12px ${SANS}`;

/**
 * @param {number} count
 * @returns {Heights}
 */
export function heightsOf(count) {
  const row = Math.max(LEAST_ROW, Math.min(MOST_ROW, Math.floor(ROOM / count)));
  const inner = row - (row >= 12 ? 3 : row >= 5 ? 1 : 0);
  const lower = Math.max(1, Math.round(LOWER * inner));
  return { row, upper: inner - lower, lower };
}

/**
 * A rank's shares in as many equal columns of a stretch of the job's time.
 * @param {Row} row
 * @param {{ start: number, length: number }} view
 * @param {number} columns
 * @returns {Shares}
 */
export function sharesOf(row, view, columns) {
  const own = { start: view.start - row.shift, length: view.length };
  const [compute, communication, exposed, busy, waiting] = [
    row.compute,
    row.communication,
    row.exposed,
    row.busy,
    row.waits,
  ].map((fill) => columnShares(fill, own, columns));
  // |busy| = |compute| + |exposed communication| + |exposed memory|
  const copies = busy.map((share, i) => Math.max(0, share - compute[i] - exposed[i]));
  return { compute, copies, communication, waiting };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 */
export function paintJob(context, scene) {
  const { view, width, left, height } = scene;
  const colors = palette();
  context.clearRect(0, 0, left + width, height);
  paintRows(context, scene, colors);
  paintNames(context, scene, colors);
  context.fillStyle = colors.panel;
  context.fillRect(left, 0, width, HEAD);
  context.fillRect(0, 0, left, HEAD - NAME_HIGH / 2); // the name of a thin first row rises above it
  drawAxis(context, { view, left, width, height: AXIS, bottom: AXIS, colors, font: `11px ${SANS}` });
  paintMarks(context, scene, colors);
}

/**
 * The rows in view, pixel by pixel: a pixel that is half filled has half the colour.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintRows(context, scene, colors) {
  const { rows, view, width, left, at, scrolled } = scene;
  const ratio = window.devicePixelRatio || 1;
  const columns = Math.max(1, Math.round(width * ratio));
  const inks = Object.fromEntries(
    ["compute", "memory", "communication", "waiting", "raised"].map((role) => [role, channels(colors[role])]),
  );
  eachRowInView(scene, (place) => {
    const shares = sharesOf(rows[place], view, columns);
    const upper = Math.max(1, Math.round(at.upper * ratio));
    const lower = Math.max(1, Math.round(at.lower * ratio));
    const image = context.createImageData(columns, upper + lower);
    fillBand(image, 0, upper, [shares.compute, inks.compute], [shares.copies, inks.memory], inks.raised);
    const { communication, waiting } = shares;
    const moving = rows[place].waitsWithin
      ? communication.map((share, i) => Math.max(0, share - waiting[i]))
      : communication;
    fillBand(image, upper, lower, [moving, inks.communication], [shares.waiting, inks.waiting], inks.raised);
    context.putImageData(image, Math.round(left * ratio), Math.round((HEAD + place * at.row - scrolled) * ratio));
  });
}

/**
 * Fills a band of an image from its foot: in each column one share of its height, on it another.
 * @param {ImageData} image
 * @param {number} top
 * @param {number} high
 * @param {[shares: Float64Array, ink: number[]]} first
 * @param {[shares: Float64Array, ink: number[]]} second
 * @param {number[]} ground
 */
function fillBand({ data, width }, top, high, [first, firstInk], [second, secondInk], ground) {
  for (let x = 0; x < width; x += 1) {
    const one = first[x] * high;
    const both = one + second[x] * high;
    for (let y = 0; y < high; y += 1) {
      const a = Math.min(1, Math.max(0, one - y));
      const b = Math.min(1, Math.max(0, both - y)) - a;
      const pixel = 4 * ((top + high - 1 - y) * width + x);
      for (let c = 0; c < 3; c += 1) data[pixel + c] = a * firstInk[c] + b * secondInk[c] + (1 - a - b) * ground[c];
      data[pixel + 3] = 255;
    }
  }
}

/**
 * @param {Scene} scene
 * @param {(place: number) => void} draw
 */
function eachRowInView({ rows, at, scrolled, height }, draw) {
  const first = Math.max(0, Math.floor(scrolled / at.row));
  for (let place = first; place < rows.length && HEAD + place * at.row - scrolled < height; place += 1) draw(place);
}

/**
 * Names of ranks at the left: all, or as many as stand apart; the open one and the one pointed at always.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintNames(context, scene, colors) {
  const { rows, at, left, width, scrolled, chosen, hovered } = scene;
  const every = Math.ceil(NAME_HIGH / at.row);
  context.textAlign = "right";
  context.textBaseline = "middle";
  /** @param {number} place */
  const middle = (place) => HEAD + place * at.row - scrolled + (at.upper + at.lower) / 2;
  eachRowInView(scene, (place) => {
    const marked = place === chosen || place === hovered;
    const near = [chosen, hovered].some((other) => other >= 0 && Math.abs(place - other) * at.row < NAME_HIGH);
    if (!marked && (near || place % every !== 0)) return;
    context.font = marked ? `600 ${FONT}` : FONT;
    context.fillStyle = place === chosen ? colors.accent : marked ? colors.text : colors.muted;
    context.fillText(rows[place].name, left - 10, middle(place), left - 12);
  });
  for (const [place, color] of /** @type {const} */ ([
    [hovered, colors.text],
    [chosen, colors.accent],
  ])) {
    if (place < 0) continue;
    context.strokeStyle = color;
    context.strokeRect(left - 2.5, middle(place) - (at.upper + at.lower) / 2 - 0.5, 2, at.upper + at.lower + 1);
    context.strokeRect(left + width - 0.5, middle(place) - (at.upper + at.lower) / 2 - 0.5, 1, at.upper + at.lower + 1);
  }
}

/**
 * A thin line where the last rank came to a collective, a dot on its row, and above it who it was.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintMarks(context, { rows, view, left, width, height, at, scrolled, marks }, colors) {
  const foot = Math.min(height, HEAD + rows.length * at.row - scrolled);
  const placed = marks.map((mark) => ({ ...mark, x: left + ((mark.time - view.start) / view.length) * width }));
  for (const { x, place } of placed) {
    context.fillStyle = colors.text;
    context.globalAlpha = 0.55;
    context.fillRect(x - 0.5, HEAD - 6, 1, foot - HEAD + 6);
    context.globalAlpha = 1;
    const y = HEAD + place * at.row - scrolled + (at.upper + at.lower) / 2;
    if (y < HEAD) continue;
    context.beginPath();
    context.arc(x, y, Math.max(2, Math.min(4, at.row / 3)), 0, 2 * Math.PI);
    context.fillStyle = colors.panel;
    context.strokeStyle = colors.text;
    context.fill();
    context.stroke();
  }
  paintCallouts(context, placed, { left, right: left + width, top: AXIS + 1, color: colors.text });
}
