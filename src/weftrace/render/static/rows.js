// Painting one row of events at any zoom. A row is sorted by start, so a window is a binary search, and what is thinner
// than a pixel is gathered: the cost of a row is the pixels it is wide, not the events it holds.

import { shortName } from "./format.js";
import { bisect } from "./intervals.js";
import { inkOn, mix } from "./theme.js";

/**
 * @typedef {import("./theme.js").Palette} Palette
 * @typedef {import("./axis.js").View} View
 * @typedef {import("./packed.js").Numbers} Numbers
 *
 * What rows are painted of, a number for each event. start, dur: in ns; name: position in `names`; kind: position in
 * `className`, the names of colours.
 * @typedef {object} Events
 * @property {number} num
 * @property {Float64Array} start
 * @property {Numbers} dur
 * @property {Numbers} name
 * @property {Numbers} kind
 * @property {string[]} names
 * @property {string[]} className
 *
 * A row: its events, ordered by start.
 * @typedef {{ first: number, count: number }} Row
 *
 * @typedef {ReturnType<typeof shadesFor>} Look
 * @typedef {(name: number, left: number, right: number, y: number, height: number, ink: string) => void} NameWriter
 *
 * How a row is painted. hits: matches summed up to each event; label: writes the names of its events.
 * @typedef {object} RowOptions
 * @property {View} view
 * @property {number} width
 * @property {number} y
 * @property {number} height
 * @property {Look} look
 * @property {Float64Array} sums
 * @property {Uint32Array | null} hits
 * @property {NameWriter | null} label
 */

const SHADES = 6; // how finely a pixel's shade tells the share of it that is covered
const SAMPLE = 8; // events looked at to colour a gathered pixel

/**
 * Colours by class and coverage, for the theme in force: shades[class][0..SHADES], dimmed[class], ink[class].
 * @param {Events} timeline
 * @param {Palette} colors
 */
export function shadesFor(timeline, colors) {
  const base = timeline.className.map((name) => colors[name]);
  return {
    full: base,
    shades: base.map((color) =>
      Array.from({ length: SHADES + 1 }, (_, i) => mix(colors.panel, color, 0.28 + (0.72 * i) / SHADES)),
    ),
    dimmed: base.map((color) => mix(colors.panel, color, 0.2)),
    ink: base.map(inkOn),
    mark: colors.mark,
    markInk: colors["mark-ink"],
    faint: colors.faint,
  };
}

/**
 * durations summed up to each event: coverage of a pixel in two look-ups. Shape [num + 1].
 * @param {Events} timeline
 */
export function durationSums(timeline) {
  const sums = new Float64Array(timeline.num + 1);
  for (let i = 0; i < timeline.num; i += 1) sums[i + 1] = sums[i] + timeline.dur[i];
  return sums;
}

/**
 * First event of the row [first, first + count) whose start is at least `time`.
 * @param {Float64Array} start
 * @param {number} from
 * @param {number} to
 * @param {number} time
 */
export function firstStartingAt(start, from, to, time) {
  return bisect(from, to, (at) => start[at] >= time);
}

/**
 * Paints a row into [x of view.start = 0, width) at y. `hits` (matches summed up to each event, or null) dims the rest.
 * Pixels are aligned to time, not to the window, so that panning does not make gathered pixels flicker.
 * @param {CanvasRenderingContext2D} context
 * @param {Events} timeline
 * @param {Row} row
 * @param {RowOptions} options
 */
export function paintRow(context, timeline, row, { view, width, y, height, look, sums, hits, label }) {
  const { start, dur, kind } = timeline;
  const scale = width / view.length;
  const pixelNs = view.length / width;
  const last = row.first + row.count;
  let i = Math.max(row.first, firstStartingAt(start, row.first, last, view.start) - 2);
  /** @type {string | null} */
  let style = null;
  /**
   * @param {string} color
   * @param {number} x
   * @param {number} w
   */
  const rect = (color, x, w) => {
    if (color !== style) {
      context.fillStyle = color;
      style = color;
    }
    context.fillRect(x, y, w, height);
  };
  while (i < last && start[i] < view.end) {
    const x0 = (start[i] - view.start) * scale;
    const w = dur[i] * scale;
    if (w >= 1) {
      if (x0 + w > 0) {
        const left = Math.max(0, x0);
        const right = Math.min(width, x0 + w);
        const hit = hits && hits[i + 1] > hits[i];
        const color = hits ? (hit ? look.mark : look.dimmed[kind[i]]) : look.full[kind[i]];
        rect(color, left, Math.max(1, right - left - (w > 3 ? 0.75 : 0)));
        if (label && right - left > 26) {
          label(timeline.name[i], left, right, y, height, hits ? (hit ? look.markInk : look.faint) : look.ink[kind[i]]);
          style = null;
        }
      }
      i += 1;
      continue;
    }
    const bucket = Math.floor(start[i] / pixelNs);
    let next = firstStartingAt(start, i + 1, last, (bucket + 1) * pixelNs);
    if (next - 1 > i && dur[next - 1] * scale >= 1) next -= 1; // a wide one starts in this pixel: it is drawn by itself
    const coverage = Math.min(1, (sums[next] - sums[i]) / pixelNs);
    let longest = i;
    for (let k = i + 1; k < Math.min(next, i + SAMPLE); k += 1) if (dur[k] > dur[longest]) longest = k;
    const hit = hits && hits[next] > hits[i];
    const color = hits
      ? hit
        ? look.mark
        : look.dimmed[kind[longest]]
      : look.shades[kind[longest]][Math.round(coverage * SHADES)];
    rect(color, bucket - view.start * scale, hit ? 1.5 : 1);
    i = next;
  }
}

/**
 * The event of a row at a time, within `slack` ns; the nearest where several are that close, -1 where none is.
 * @param {Events} timeline
 * @param {Row} row
 * @param {number} time
 * @param {number} slack
 */
export function eventAt(timeline, row, time, slack) {
  const { start, dur } = timeline;
  const last = row.first + row.count;
  const after = firstStartingAt(start, row.first, last, time + slack + 1);
  let best = -1;
  let distance = Infinity;
  for (let i = after - 1; i >= row.first && i >= after - 12; i -= 1) {
    const away = time < start[i] ? start[i] - time : Math.max(0, time - start[i] - dur[i]);
    if (away <= slack && away < distance) {
      best = i;
      distance = away;
    }
  }
  return best;
}

/**
 * Writes names into boxes, as much of each as fits; measures each name once.
 * @param {CanvasRenderingContext2D} context
 * @param {Events} timeline
 * @param {string} font
 * @returns {NameWriter}
 */
export function nameWriter(context, timeline, font) {
  /** @type {Map<number, { text: string, width: number, tail: string, tailWidth: number }>} */
  const known = new Map();
  return (name, left, right, y, height, ink) => {
    let entry = known.get(name);
    context.font = font;
    if (!entry) {
      const text = shortName(timeline.names[name]);
      const tail = text.includes("::") ? text.slice(text.lastIndexOf("::") + 2) : text;
      entry = { text, width: context.measureText(text).width, tail, tailWidth: context.measureText(tail).width };
      known.set(name, entry);
    }
    const room = right - left - 8;
    const fits = entry.width <= room;
    let text = fits ? entry.text : entry.tail;
    const width = fits ? entry.width : entry.tailWidth;
    if (width > room) {
      const letters = Math.floor((text.length * room) / width) - 1;
      if (letters < 2) return;
      text = `${text.slice(0, letters)}…`;
    }
    context.fillStyle = ink;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, left + 4, y + height / 2 + 0.5);
  };
}
