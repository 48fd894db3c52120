// How busy something was: until a time, and in each column of a picture. Exact where the report lists every stretch;
// where neighbours are merged, a stretch is as dense throughout as it was on average.

import { bisect } from "./intervals.js";

/**
 * @typedef {import("./axis.js").View} View
 *
 * How long it was busy until each of its times, which are the ends of its stretches: `busyUntil` asks it.
 * @typedef {{ times: Float64Array, busy: Float64Array }} Fill
 */

/**
 * @param {number[][]} stretches [start, end, busy], in order and apart
 * @returns {Fill}
 */
export function fillOf(stretches) {
  const times = new Float64Array(2 * stretches.length);
  const busy = new Float64Array(2 * stretches.length);
  let sum = 0;
  stretches.forEach(([start, end, ran], i) => {
    times[2 * i] = start;
    times[2 * i + 1] = end;
    busy[2 * i] = sum;
    sum += ran;
    busy[2 * i + 1] = sum;
  });
  return { times, busy };
}

/**
 * How long it was busy until a time.
 * @param {Fill} fill
 * @param {number} time
 */
export function busyUntil(fill, time) {
  return busyAt(fill, firstAfter(fill.times, time), time);
}

/**
 * The share of each column's time in which it was busy. Columns are as many equal parts of the view.
 * @param {Fill} fill
 * @param {{ start: number, length: number }} view
 * @param {number} columns
 */
export function columnShares(fill, view, columns) {
  const shares = new Float64Array(columns);
  const { times } = fill;
  if (!times.length) return shares;
  const ns = view.length / columns;
  let at = firstAfter(times, view.start);
  let before = busyAt(fill, at, view.start);
  for (let column = 0; column < columns; column += 1) {
    const end = view.start + (column + 1) * ns;
    while (at < times.length && times[at] <= end) at += 1;
    const until = busyAt(fill, at, end);
    shares[column] = (until - before) / ns;
    before = until;
  }
  return shares;
}

/**
 * @param {Fill} fill
 * @param {number} at the first of its times after `time`
 * @param {number} time
 */
function busyAt({ times, busy }, at, time) {
  if (at === 0) return 0;
  if (at === times.length) return busy[at - 1];
  const part = (time - times[at - 1]) / (times[at] - times[at - 1]);
  return busy[at - 1] + part * (busy[at] - busy[at - 1]);
}

/**
 * @param {Float64Array} times
 * @param {number} time
 */
function firstAfter(times, time) {
  return bisect(0, times.length, (at) => times[at] > time);
}
