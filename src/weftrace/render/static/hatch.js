// Hatching and thin intervals: how "exposed" and "idle" look in every picture.

import { contextOf } from "./dom.js";
import { firstEndingAfter } from "./intervals.js";

/**
 * @typedef {import("./axis.js").View} View
 * @typedef {import("./theme.js").Palette} Palette
 * @typedef {{ hidden: number[], exposed: number[], idle: number[], unrecorded: number[] }} Fates
 */

/** @type {Map<string, HTMLCanvasElement>} */
const tiles = new Map();

/**
 * A diagonal hatch in one colour, as a canvas pattern.
 * @param {CanvasRenderingContext2D} context
 * @param {string} color
 * @returns {CanvasPattern}
 */
export function hatch(context, color) {
  const ratio = window.devicePixelRatio || 1;
  const key = `${color} ${ratio}`;
  let tile = tiles.get(key);
  if (!tile) {
    const size = Math.round(6 * ratio);
    tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const draw = contextOf(tile);
    draw.strokeStyle = color;
    draw.lineWidth = 1.6 * ratio;
    for (const shift of [-size, 0, size]) {
      draw.beginPath();
      draw.moveTo(shift, size);
      draw.lineTo(shift + size, 0);
      draw.stroke();
    }
    tiles.set(key, tile);
  }
  const pattern = context.createPattern(tile, "repeat");
  if (!pattern) throw new Error("this browser cannot draw patterns");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/**
 * Calls draw(x, width, coverage) for the pixels that intervals cover in a window. Intervals thinner than a pixel are
 * gathered pixel by pixel, and their coverage in (0, 1] says how much of it they fill: a thousand gaps of 2 µs neither
 * vanish nor look like one long gap.
 * @param {number[]} flat
 * @param {View} view
 * @param {number} left
 * @param {number} width
 * @param {(x: number, width: number, coverage: number) => void} draw
 */
export function eachStretch(flat, view, left, width, draw) {
  const scale = width / view.length;
  let pixel = -1;
  let covered = 0;
  const flush = () => {
    if (covered > 0) draw(left + pixel, 1, Math.min(1, covered));
    covered = 0;
  };
  for (let i = firstEndingAfter(flat, view.start); i < flat.length && flat[i] < view.end; i += 2) {
    const x0 = Math.max(0, (flat[i] - view.start) * scale);
    const x1 = Math.min(width, (flat[i + 1] - view.start) * scale);
    if (x1 - x0 >= 1) {
      flush();
      draw(left + x0, x1 - x0, 1);
      continue;
    }
    const at = Math.floor(x0);
    if (at !== pixel) {
      flush();
      pixel = at;
    }
    covered += x1 - x0;
  }
  flush();
}

/**
 * Intervals with gaps below `gap` closed: for pictures, not for measuring.
 * @param {number[]} flat
 * @param {number} gap
 */
export function joined(flat, gap) {
  /** @type {number[]} */
  const out = [];
  for (let i = 0; i < flat.length; i += 2) {
    if (out.length && flat[i] - out[out.length - 1] < gap) out[out.length - 1] = flat[i + 1];
    else out.push(flat[i], flat[i + 1]);
  }
  return out;
}

/**
 * The strip that says what became of the communication: {hidden, idle, exposed, unrecorded}, each a list of intervals.
 * @param {CanvasRenderingContext2D} context
 * @param {Fates} fates
 * @param {View} view
 * @param {number} width
 * @param {number} y
 * @param {number} height
 * @param {Palette} colors
 */
export function paintFates(context, { hidden, idle, exposed, unrecorded }, view, width, y, height, colors) {
  // Gaps of less than a pixel are closed in `hidden`; what fills them is painted over it, as faint as it is short.
  const closed = joined(hidden, (0.8 * view.length) / width);
  /** @type {[number[], string][]} */
  const painted = [
    [closed, colors.hidden],
    [idle, colors.idle],
    [unrecorded, colors.unrecorded],
    [exposed, colors.exposed],
  ];
  for (const [flat, color] of painted) {
    context.fillStyle = color;
    eachStretch(flat, view, 0, width, (x, w, coverage) => {
      context.globalAlpha = coverage;
      context.fillRect(x, y, w, height);
    });
    context.globalAlpha = 1;
  }
}
