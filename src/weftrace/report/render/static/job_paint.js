// Painting the timeline of a job: a row a rank. The upper part of a row is as full as it computed, the lower one as it
// communicated, of which waiting for others in its own colour; what is empty was idle.

import { columnShares } from "render/fills.js";
import { channels, SANS } from "render/theme.js";

/**
 * @typedef {import("render/fills.js").Fill} Fill
 * @typedef {import("render/scene.js").Sheet} Sheet
 * @typedef {import("./job.js").JobRank} JobRank
 *
 * A rank and how busy it was, in its own time. waitsWithin: its waits are a part of its communication. alone: S_w.
 * @typedef {Record<"compute" | "communication" | "exposed" | "busy" | "waits", Fill>} Fills
 * @typedef {JobRank & Fills & { waitsWithin: boolean, alone: number | null }} Row
 *
 * Shares of one stretch of a rank's time.
 * @typedef {Record<"compute" | "copies" | "communication" | "waiting", Float64Array>} Shares
 *
 * Heights of a row in pixels: of all of it, of its two bands, and the rest is the gap to the next.
 * @typedef {{ row: number, upper: number, lower: number }} Heights
 *
 * A step, or a collective, and the rank that made others wait there: who, and what it says.
 * @typedef {{ time: number, place: number, text: string }} Mark
 *
 * What is seen now. rows: in the order of drawing; chosen: the place of the rank that is open, hovered: of the one
 * under the pointer or the keys, -1 for none.
 * @typedef {object} Scene
 * @property {Row[]} rows
 * @property {number} scrolled
 * @property {Heights} at
 * @property {Mark[]} marks
 * @property {number} chosen
 * @property {number} hovered
 */

/** What stands above the rows: the axis, and who made others wait. */
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
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
export function paintJob(sheet, scene) {
  const { colors, left, width } = sheet;
  paintRows(sheet, scene);
  paintNames(sheet, scene);
  sheet.rect(colors.panel, left, 0, width, HEAD);
  sheet.rect(colors.panel, 0, 0, left, HEAD - NAME_HIGH / 2); // the name of a thin first row rises above it
  sheet.axis(AXIS, AXIS);
  paintMarks(sheet, scene);
}

/**
 * The rows in view, pixel by pixel: a pixel that is half filled has half the colour.
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
function paintRows(sheet, scene) {
  const { rows, at, scrolled } = scene;
  const { context, colors } = sheet;
  const ratio = window.devicePixelRatio || 1;
  const columns = Math.max(1, Math.round(sheet.width * ratio));
  const inks = Object.fromEntries(
    ["compute", "memory", "communication", "waiting", "raised"].map((role) => [role, channels(colors[role])]),
  );
  eachRowInView(sheet, scene, (place) => {
    const shares = sharesOf(rows[place], sheet.view, columns);
    const upper = Math.max(1, Math.round(at.upper * ratio));
    const lower = Math.max(1, Math.round(at.lower * ratio));
    const image = context.createImageData(columns, upper + lower);
    fillBand(image, 0, upper, [shares.compute, inks.compute], [shares.copies, inks.memory], inks.raised);
    const { communication, waiting } = shares;
    const moving = rows[place].waitsWithin
      ? communication.map((share, i) => Math.max(0, share - waiting[i]))
      : communication;
    fillBand(image, upper, lower, [moving, inks.communication], [shares.waiting, inks.waiting], inks.raised);
    context.putImageData(image, Math.round(sheet.left * ratio), Math.round((HEAD + place * at.row - scrolled) * ratio));
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
 * @param {Sheet} sheet
 * @param {Scene} scene
 * @param {(place: number) => void} draw
 */
function eachRowInView({ height }, { rows, at, scrolled }, draw) {
  const first = Math.max(0, Math.floor(scrolled / at.row));
  for (let place = first; place < rows.length && HEAD + place * at.row - scrolled < height; place += 1) draw(place);
}

/**
 * Names of ranks at the left: all, or as many as stand apart; the open one and the one pointed at always.
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
function paintNames(sheet, scene) {
  const { rows, at, scrolled, chosen, hovered } = scene;
  const { colors, left, width } = sheet;
  const every = Math.ceil(NAME_HIGH / at.row);
  const high = at.upper + at.lower;
  /** @param {number} place */
  const topOf = (place) => HEAD + place * at.row - scrolled;
  eachRowInView(sheet, scene, (place) => {
    const marked = place === chosen || place === hovered;
    const near = [chosen, hovered].some((other) => other >= 0 && Math.abs(place - other) * at.row < NAME_HIGH);
    if (!marked && (near || place % every !== 0)) return;
    const color = place === chosen ? colors.accent : marked ? colors.text : colors.muted;
    const font = marked ? `600 ${FONT}` : FONT;
    sheet.text(color, rows[place].name, left - 10, topOf(place) + high / 2, { font, align: "right", most: left - 12 });
  });
  for (const [place, color] of /** @type {const} */ ([
    [hovered, colors.text],
    [chosen, colors.accent],
  ])) {
    if (place < 0) continue;
    sheet.outline(color, 1, left - 2.5, topOf(place) - 0.5, 2, high + 1);
    sheet.outline(color, 1, left + width - 0.5, topOf(place) - 0.5, 1, high + 1);
  }
}

/**
 * A thin line where a step, or the waiting in a collective, ended, a dot on the row of who made it last, and its name.
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
function paintMarks(sheet, { rows, at, scrolled, marks }) {
  const { colors } = sheet;
  const foot = Math.min(sheet.height, HEAD + rows.length * at.row - scrolled);
  const placed = marks.map((mark) => ({ ...mark, x: sheet.x(mark.time) }));
  for (const { x, place } of placed) {
    sheet.rect(colors.text, x - 0.5, HEAD - 6, 1, foot - HEAD + 6, 0.55);
    const y = HEAD + place * at.row - scrolled + (at.upper + at.lower) / 2;
    const r = Math.max(2, Math.min(4, at.row / 3));
    if (y < HEAD) continue;
    sheet.dot(colors.text, x, y, r + 0.5);
    sheet.dot(colors.panel, x, y, r - 0.5);
  }
  sheet.callouts(placed, AXIS + 1, colors.text);
}
