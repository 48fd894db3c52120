// Which start of a phase before is which after, and the lines that join the two lane pictures there.

import { FONT, Sheet } from "render/scene.js";

/**
 * The start of the same occurrence of a phase in both steps. nth: from 0, within the step.
 * @typedef {{ name: string, nth: number, before_ns: number, after_ns: number }} Join
 *
 * What both steps have as often, in order of time; and names that one has more often than the other, which are not
 * joined: which is which would be a guess.
 * @typedef {{ joins: Join[], apart: { name: string, before: number, after: number }[] }} Joins
 *
 * Where lines are drawn, in pixels of the box that holds both pictures.
 * @typedef {{ left: number, width: number, height: number, top: number, bottom: number }} Place
 *
 * @typedef {import("render/axis.js").View} View
 */

const ROOM = 12; // pixels of width for each line: of lines that are nearer to each other, the first is drawn

/**
 * @param {page.Lane[]} before
 * @param {page.Lane[]} after
 * @returns {Joins}
 */
export function joinsOf(before, after) {
  const phased = [before, after].map((lanes) => lanes.some((lane) => lane.boxes.some((box) => box.phase !== null)));
  const own = phased.some(Boolean); // of files without phases, whatever has a name
  const [one, other] = [startsOf(before, own), startsOf(after, own)];
  /** @type {Joins} */
  const found = { joins: [], apart: [] };
  for (const name of new Set([...one.keys(), ...other.keys()])) {
    const [a, b] = [one.get(name) ?? [], other.get(name) ?? []];
    if (a.length !== b.length) found.apart.push({ name, before: a.length, after: b.length });
    else a.forEach((before_ns, nth) => found.joins.push({ name, nth, before_ns, after_ns: b[nth] }));
  }
  found.joins.sort((a, b) => a.before_ns - b.before_ns);
  return found;
}

/**
 * When each occurrence of each phase begins; of what is in no phase, each box.
 * @param {page.Lane[]} lanes
 * @param {boolean} [phased] phases alone
 * @returns {Map<string, number[]>}
 */
export function startsOf(lanes, phased = false) {
  /** @type {Map<string | number, { name: string, start_ns: number }>} */
  const first = new Map();
  const boxes = lanes.flatMap((lane) => lane.boxes);
  boxes.forEach(({ name, phase, start_ns }, at) => {
    if (phased && phase === null) return;
    const key = phase ?? `box ${at}`;
    const seen = first.get(key);
    if (!seen || start_ns < seen.start_ns) first.set(key, { name, start_ns });
  });
  /** @type {Map<string, number[]>} */
  const starts = new Map();
  for (const { name, start_ns } of first.values()) starts.set(name, [...(starts.get(name) ?? []), start_ns]);
  for (const times of starts.values()) times.sort((a, b) => a - b);
  return starts;
}

/**
 * The joins of which any end is in view, as far as there is room; and the ends of the steps.
 * @param {Join[]} joins
 * @param {{ before: View, after: View }} views
 * @param {number} width
 */
export function joinsInView(joins, views, width) {
  const [at, to] = [pixelsOf(views.before, width), pixelsOf(views.after, width)];
  let last = -Infinity;
  return joins.filter(({ before_ns, after_ns }) => {
    const [x0, x1] = [at(before_ns), to(after_ns)];
    const seen = Math.max(x0, x1) >= 0 && Math.min(x0, x1) <= width && x0 - last >= ROOM;
    if (seen) last = x0;
    return seen;
  });
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Join[]} seen
 * @param {{ before: number, after: number }} ends of the steps
 * @param {{ before: View, after: View }} views
 * @param {Place} place
 * @param {string} late what stands at the line of the ends
 */
export function paintJoins(canvas, seen, ends, views, place, late) {
  const { left, width, height, top, bottom } = place;
  const sheet = new Sheet(canvas, views.before, width, height, left);
  const { context, colors } = sheet;
  const [at, to] = [pixelsOf(views.before, width), pixelsOf(views.after, width)];
  /**
   * @param {number} before
   * @param {number} after
   */
  const line = (before, after) => `M${left + at(before)} ${top}L${left + to(after)} ${bottom}`;
  context.save();
  context.beginPath();
  context.rect(left, 0, width, height);
  context.clip();
  for (const { before_ns, after_ns } of seen) sheet.path(colors.text, 1, line(before_ns, after_ns), { alpha: 0.45 });
  sheet.path(colors.accent, 2, line(ends.before, ends.after));
  context.restore();
  const [x0, x1] = [at(ends.before), to(ends.after)];
  if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > width) return;
  const font = `600 ${FONT}`;
  const room = sheet.widthOf(late, font) + 10;
  const before = x1 >= x0 ? x0 >= room : x0 + room > width; // beside the line, on the side from which it leans away
  const x = Math.min(Math.max(x0 + (before ? -8 : 8), before ? room : 0), before ? width : width - room);
  const align = before ? "right" : "left";
  sheet.text(colors.accent, late, left + x, top + 9, { font, align, rim: colors.panel });
}

/**
 * @param {View} view
 * @param {number} width
 * @returns {(ns: number) => number}
 */
function pixelsOf(view, width) {
  return (ns) => ((ns - view.start) / view.length) * width;
}
