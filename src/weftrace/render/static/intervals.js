// Interval algebra on sorted, disjoint intervals, held flat: [start0, end0, start1, end1, ...]. All integers, so all
// exact.

/**
 * Union of intervals given as pairs, or more of which only the first two count, in any order.
 * @param {number[][]} pairs
 */
export function union(pairs) {
  const sorted = pairs.filter(([start, end]) => end > start).sort((a, b) => a[0] - b[0]);
  /** @type {number[]} */
  const out = [];
  for (const [start, end] of sorted) {
    if (out.length && start <= out[out.length - 1]) out[out.length - 1] = Math.max(out[out.length - 1], end);
    else out.push(start, end);
  }
  return out;
}

/**
 * Union of several unions.
 * @param {...number[]} unions
 */
export function merged(...unions) {
  /** @type {[number, number][]} */
  const pairs = [];
  for (const flat of unions) for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]]);
  return union(pairs);
}

/**
 * @param {number[]} a
 * @param {number[]} b
 */
export function intersection(a, b) {
  /** @type {number[]} */
  const out = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const start = Math.max(a[i], b[j]);
    const end = Math.min(a[i + 1], b[j + 1]);
    if (start < end) out.push(start, end);
    if (a[i + 1] < b[j + 1]) i += 2;
    else j += 2;
  }
  return out;
}

/**
 * @param {number[]} a
 * @param {number[]} b
 */
export function difference(a, b) {
  /** @type {number[]} */
  const out = [];
  let j = 0;
  for (let i = 0; i < a.length; i += 2) {
    let start = a[i];
    const end = a[i + 1];
    while (j < b.length && b[j + 1] <= start) j += 2;
    for (let k = j; k < b.length && b[k] < end; k += 2) {
      if (b[k] > start) out.push(start, b[k]);
      start = Math.max(start, b[k + 1]);
    }
    if (start < end) out.push(start, end);
  }
  return out;
}

/**
 * Length inside [from, to).
 * @param {number[]} flat
 * @param {number} from
 * @param {number} to
 */
export function lengthWithin(flat, from, to) {
  let total = 0;
  for (let i = firstEndingAfter(flat, from); i < flat.length && flat[i] < to; i += 2) {
    total += Math.min(flat[i + 1], to) - Math.max(flat[i], from);
  }
  return total;
}

/**
 * Offset of the first interval that ends after a time: where drawing a window begins.
 * @param {number[]} flat
 * @param {number} time
 */
export function firstEndingAfter(flat, time) {
  return 2 * bisect(0, flat.length / 2, (at) => flat[2 * at + 1] > time);
}

/**
 * The first number from `low` on at which something is so, and stays so until `high`; `high` where it never is.
 * @param {number} low
 * @param {number} high
 * @param {(at: number) => boolean} isSo
 */
export function bisect(low, high, isSo) {
  let [from, to] = [low, high];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (isSo(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
