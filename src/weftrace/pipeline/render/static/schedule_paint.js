// Painting a simulated schedule: a row a rank, a cell an action, nothing where a rank is idle; under the rows what the
// ranks hold in memory. Edges lie on whole pixels, rounded alike for all cells, so that what is painted of a row is as
// much of it as its rank is busy, at every zoom.

import { tickLabel } from "render/format.js";
import { bisect } from "render/intervals.js";
import { FONT, Sheet } from "render/scene.js";
import { inkOn, mix, palette, SANS } from "render/theme.js";
import { timeText } from "./schedule_text.js";

/**
 * @typedef {import("render/viewport.js").Viewport} Viewport
 * @typedef {{ fill: string, edge: string, ink: string }} Look
 *
 * Where things are, in pixels from the picture's top. bar: the height of a cell in its row; memory: where its curve is.
 * @typedef {{ row: number, bar: number, memory: number, height: number }} Geometry
 *
 * What is seen now. hovered: a cell's number, -1 for none; row: the one whose memory is drawn as a line.
 * @typedef {object} Scene
 * @property {page.Schedule} block
 * @property {Geometry} at
 * @property {Viewport} view
 * @property {number} width
 * @property {number} hovered
 * @property {number} row
 */

export const AXIS = 22;
/** The height of the memory curve. */
export const MEMORY = 74;
const MEMORY_HEAD = 20;
const FOOT = 6;
const ROW = 24;
const LEAST_ROW = 7;
const ROOM = 800; // pixels of all rows: those of more ranks are lower
const PALEST = 0.5; // as colours.py has it
const DIGIT = 6.1; // pixels, at 10.5 px
const SMALL_DIGIT = 5.4; // at 9.2 px
const EDGED = 4; // pixels: wider cells have an edge
const FRAMED = 10; // wider F&B in rows that are high enough a frame: a narrower one would be all frame
const NUMBERED = 17; // rows at least so high have numbers
/** @type {Record<string, string>} */
export const ROLES = { F: "forward", B: "backward", I: "input", W: "weight" };

/**
 * @param {number} numRanks
 * @returns {Geometry}
 */
export function scheduleGeometry(numRanks) {
  const row = Math.max(LEAST_ROW, Math.min(ROW, Math.floor(ROOM / numRanks)));
  const memory = AXIS + row * numRanks + MEMORY_HEAD;
  return { row, bar: row > 12 ? 2 * Math.floor((row - 3) / 2) : row - 1, memory, height: memory + MEMORY + FOOT };
}

/**
 * The colour of a kind in one of its shades.
 * @param {string} kind
 * @param {number} shade
 * @param {number} numShades
 */
export function cellColor(kind, shade, numShades) {
  const colors = palette();
  const share = numShades > 1 ? (PALEST * shade) / (numShades - 1) : 0;
  return mix(colors[ROLES[kind]], colors.panel, share);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Scene} scene
 */
export function paintSchedule(canvas, scene) {
  const { block, at, width, view } = scene;
  const sheet = new Sheet(canvas, view, width, at.height);
  paintAxis(sheet, scene);
  const looks = allLooks(block.shades.length);
  block.ranks.forEach((_, row) => {
    if (at.row > 12) sheet.rect(sheet.colors.line, 0, AXIS + at.row * (row + 1) - 2, width, 1);
    paintRow(sheet, scene, row, looks);
  });
  paintMemory(sheet, scene);
  if (scene.hovered >= 0) paintHovered(sheet, scene);
}

/**
 * Kind -> the look of each of its shades.
 * @param {number} numShades
 */
function allLooks(numShades) {
  /** @type {Record<string, Look[]>} */
  const looks = {};
  for (const kind of Object.keys(ROLES)) {
    looks[kind] = Array.from({ length: numShades }, (_, shade) => {
      const fill = cellColor(kind, shade, numShades);
      return { fill, edge: mix(fill, "#000000", 0.28), ink: inkOn(fill) };
    });
  }
  return looks;
}

/**
 * Calls draw(cell, x0, x1) for the cells of a row that are in view and reach over a pixel's middle.
 * @param {Scene} scene
 * @param {number} row
 * @param {(cell: number, x0: number, x1: number) => void} draw
 */
export function eachCell({ block, view, width }, row, draw) {
  const { start_ns, end_ns } = block.cells;
  const [first, last] = block.ranks[row].cells;
  const pixels = window.devicePixelRatio || 1;
  const scale = (width * pixels) / view.length;
  for (let cell = firstAfter(end_ns, first, last, view.start); cell < last && start_ns[cell] < view.end; cell += 1) {
    const x0 = Math.round((start_ns[cell] - view.start) * scale);
    const x1 = Math.round((end_ns[cell] - view.start) * scale);
    if (x1 > x0) draw(cell, x0 / pixels, x1 / pixels);
  }
}

/**
 * The first of the ascending values from `low` to `high` that is above `value`.
 * @param {number[]} values
 * @param {number} low
 * @param {number} high
 * @param {number} value
 */
export function firstAfter(values, low, high, value) {
  return bisect(low, high, (at) => values[at] > value);
}

/**
 * @param {Sheet} sheet
 * @param {Scene} scene
 * @param {number} row
 * @param {Record<string, Look[]>} looks
 */
function paintRow(sheet, scene, row, looks) {
  const { block, at } = scene;
  const { kind, shade, back_shade, micro_batch, back_micro_batch } = block.cells;
  const y = AXIS + at.row * row;
  const half = at.bar / 2;
  eachCell(scene, row, (cell, x0, x1) => {
    if (kind[cell] !== "F&B") {
      paintBar(sheet, looks[kind[cell]][shade[cell]], x0, x1, y, at.bar, micro_batch[cell], at);
      return;
    }
    paintBar(sheet, looks.F[shade[cell]], x0, x1, y, half, micro_batch[cell], at);
    paintBar(sheet, looks.B[back_shade[cell] ?? 0], x0, x1, y + half, half, back_micro_batch[cell] ?? 0, at);
    // Its frame, on whole pixels.
    if (x1 - x0 > FRAMED && at.bar >= 14) {
      sheet.outline(sheet.colors.text, 1, x0 + 0.5, y + 0.5, x1 - x0 - 1, at.bar - 1);
    }
  });
}

/**
 * A cell, and its micro-batch's number, whole or not at all.
 * @param {Sheet} sheet
 * @param {Look} look
 * @param {number} x0
 * @param {number} x1
 * @param {number} y
 * @param {number} height
 * @param {number} number
 * @param {Geometry} at
 */
function paintBar(sheet, { fill, edge, ink }, x0, x1, y, height, number, at) {
  sheet.rect(fill, x0, y, x1 - x0, height);
  if (x1 - x0 <= EDGED) return;
  sheet.rect(edge, x1 - 1, y, 1, height);
  const text = String(number);
  const room = x1 - x0 - 2;
  const large = height > 14 && text.length * DIGIT <= room;
  if (at.row < NUMBERED || (!large && text.length * SMALL_DIGIT > room)) return;
  sheet.text(ink, text, (x0 + x1 - 1) / 2, y + height / 2 + 0.5, { font: `${large ? 10.5 : 9.2}px ${SANS}` });
}

/**
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
function paintAxis(sheet, { block, view, width, at }) {
  const unit = block.unit_ns || 1;
  const rough = ((view.length / unit) * 84) / width;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? 10 * power);
  for (let number = Math.ceil(view.start / step); number * step <= view.end; number += 1) {
    const x = Math.round(sheet.x(number * step));
    sheet.rect(sheet.colors.line, x, AXIS - 6, 1, at.height - AXIS);
    const label = block.unit_ns ? timeText(block, number * step) : tickLabel(number * step, step, view.length);
    if (x + 4 + sheet.widthOf(label, FONT) > width) continue;
    sheet.text(sheet.colors.muted, label, x + 4, AXIS / 2, { align: "left" });
  }
}

/**
 * The band between the rank that holds least and the one that holds most, column by column; and one rank's line.
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
function paintMemory(sheet, { block, view, width, at, row }) {
  const { colors } = sheet;
  const base = at.memory + MEMORY;
  const high = MEMORY / Math.max(block.peak, 1);
  const columns = Math.max(0, Math.min(width, Math.round(sheet.x(block.makespan_ns))));
  const curves = block.ranks.map((one) => extremes(one, columns, view, width));
  const band = mix(colors.memory, colors.panel, 0.7);
  for (let column = 0; column < columns; column += 1) {
    let least = Number.POSITIVE_INFINITY;
    let most = 0;
    for (const curve of curves) {
      least = Math.min(least, curve.low[column]);
      most = Math.max(most, curve.high[column]);
    }
    sheet.rect(band, column, base - most * high, 1, (most - least) * high);
  }
  const own = curves[row];
  for (let column = 0; own && column < columns; column += 1) {
    const tall = (own.high[column] - own.low[column]) * high;
    sheet.rect(colors.memory, column, base - own.high[column] * high - 1, 1, tall + 2);
  }
  sheet.rect(colors.line, 0, base, width, 1);
}

/**
 * The least and the most that a rank holds in each column.
 * @param {page.Schedule["ranks"][number]} one
 * @param {number} columns
 * @param {Viewport} view
 * @param {number} width
 */
function extremes({ time_ns, held }, columns, view, width) {
  const low = new Float64Array(columns);
  const high = new Float64Array(columns);
  let next = firstAfter(time_ns, 0, time_ns.length, view.start);
  let now = next ? held[next - 1] : 0;
  for (let column = 0; column < columns; column += 1) {
    const until = view.start + ((column + 1) / width) * view.length;
    low[column] = now;
    high[column] = now;
    while (next < time_ns.length && time_ns[next] < until) {
      now = held[next];
      low[column] = Math.min(low[column], now);
      high[column] = Math.max(high[column], now);
      next += 1;
    }
  }
  return { low, high };
}

/**
 * An outline around the cell under the pointer, thin ones around the others of its micro-batch, and a line from what it
 * waited for.
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
function paintHovered(sheet, scene) {
  const { block, at, hovered } = scene;
  const { micro_batch, back_micro_batch, start_ns, end_ns, cause } = block.cells;
  block.ranks.forEach((_, row) => {
    eachCell(scene, row, (cell, x0, x1) => {
      const same = micro_batch[cell] === micro_batch[hovered] || back_micro_batch[cell] === micro_batch[hovered];
      if (cell !== hovered && !same) return;
      sheet.outline(sheet.colors.text, cell === hovered ? 3 : 1.6, x0, AXIS + at.row * row, x1 - x0, at.bar);
    });
  });
  const from = cause[hovered];
  if (from === null) return;
  const [y0, y1] = [from, hovered].map((cell) => AXIS + at.row * rowOf(block, cell) + at.bar / 2);
  const x1 = sheet.x(start_ns[hovered]);
  sheet.path(sheet.colors.exposed, 2, `M${sheet.x(end_ns[from])} ${y0}L${x1} ${y1}`);
  sheet.dot(sheet.colors.exposed, x1, y1, 4);
}

/**
 * The row of a cell.
 * @param {page.Schedule} block
 * @param {number} cell
 */
export function rowOf(block, cell) {
  return block.ranks.findIndex(({ cells: [first, last] }) => cell >= first && cell < last);
}
