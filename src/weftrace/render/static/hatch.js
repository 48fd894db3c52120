// Hatching and thin intervals: how "exposed" and "idle" look in every picture.

import { firstEndingAfter } from "./intervals.js";

const tiles = new Map();

/** A diagonal hatch in one colour, as a canvas pattern. */
export function hatch(context, color) {
  const ratio = window.devicePixelRatio || 1;
  const key = `${color} ${ratio}`;
  if (!tiles.has(key)) {
    const size = Math.round(6 * ratio);
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const draw = tile.getContext("2d");
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
  const pattern = context.createPattern(tiles.get(key), "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/**
 * Calls draw(x, width, coverage) for the pixels that intervals cover in a window. Intervals thinner than a pixel are
 * gathered pixel by pixel, and their coverage in (0, 1] says how much of it they fill: a thousand gaps of 2 µs neither
 * vanish nor look like one long gap.
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

/** Intervals with gaps below `gap` closed: for pictures, not for measuring. */
export function joined(flat, gap) {
  const out = [];
  for (let i = 0; i < flat.length; i += 2) {
    if (out.length && flat[i] - out[out.length - 1] < gap) out[out.length - 1] = flat[i + 1];
    else out.push(flat[i], flat[i + 1]);
  }
  return out;
}

/** The strip that says what became of the communication: {hidden, idle, exposed}, each a flat list of intervals. */
export function paintFates(context, { hidden, idle, exposed }, view, width, y, height, colors) {
  // Gaps of less than a pixel are closed in `hidden`; what fills them is painted over it, as faint as it is short.
  const closed = joined(hidden, (0.8 * view.length) / width);
  for (const [flat, color] of [
    [closed, colors.hidden],
    [idle, colors.idle],
    [exposed, colors.exposed],
  ]) {
    context.fillStyle = color;
    eachStretch(flat, view, 0, width, (x, w, coverage) => {
      context.globalAlpha = coverage;
      context.fillRect(x, y, w, height);
    });
    context.globalAlpha = 1;
  }
}
