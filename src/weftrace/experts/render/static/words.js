// Numbers of balancing as text: balancedness, multiples of the mean, bytes as links count them, lists of layers.

import { grouped } from "render/format.js";

/**
 * 0.9957; as many digits as keep what is not perfect from looking perfect (0.99996), and a dash where there is none.
 * @param {number | null | undefined} value
 */
export function balance(value) {
  if (value === null || value === undefined) return "–";
  let digits = 4;
  while (digits < 7 && value < 1 - 1e-9 && value.toFixed(digits).startsWith("1")) digits += 1;
  return value.toFixed(value >= 1 - 1e-9 ? 4 : digits);
}

/**
 * The same as per cent: 99.57 %, and 100 % for what is perfect only.
 * @param {number} value
 */
export function balancePercent(value) {
  if (value >= 1 - 1e-9) return "100 %";
  const text = balance(value);
  return `${(100 * value).toFixed(Math.max(1, text.length - 4 - (value < 0.995 ? 1 : 0)))} %`;
}

/**
 * 1.043×; "0" for nothing at all.
 * @param {number} ratio
 */
export function times(ratio) {
  return ratio === 0 ? "0×" : `${ratio >= 10 ? ratio.toFixed(1) : ratio.toFixed(ratio >= 2 ? 2 : 3)}×`;
}

/**
 * A load in its own units: whole if large, four significant digits otherwise.
 * @param {number} value
 */
export function amount(value) {
  if (value === 0) return "0";
  return Math.abs(value) >= 1000 ? grouped(value) : String(Number(value.toPrecision(4)));
}

/**
 * [0, 1, 2, 5] as "0–2, 5", cut after a few.
 * @param {number[]} numbers
 * @param {number} [most]
 */
export function ranges(numbers, most = 8) {
  /** @type {string[]} */
  const parts = [];
  for (let at = 0; at < numbers.length; ) {
    let last = at;
    while (numbers[last + 1] === numbers[last] + 1) last += 1;
    parts.push(last > at ? `${numbers[at]}–${numbers[last]}` : `${numbers[at]}`);
    at = last + 1;
  }
  return parts.length > most ? `${parts.slice(0, most).join(", ")} …` : parts.join(", ");
}

/** @param {(number | null | undefined)[]} values */
export function mean(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
