// Numbers as text, as `weftrace.units` writes them: tests/units.json holds for both. Inside the page time is integer
// nanoseconds; only this module turns it into words.

const NOTHING = "–"; // where there is no number

/** @typedef {{ name: string, size: number, decimals: number }} Unit */
/** @typedef {number | null | undefined} Known */

/** @type {[string, number, number][]} a unit of time, its nanoseconds, and where the next one begins */
const TIMES = [
  ["ns", 1, 1000],
  ["µs", 1e3, 1000],
  ["ms", 1e6, 1000],
  ["s", 1e9, 1000],
  ["min", 6e10, 60],
  ["h", 3.6e12, Infinity],
];
const POWERS = ["", "k", "M", "G", "T", "P", "E", "Z"];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @type {Unit[]} */
const UNITS = [0, 1, 2, 2].map((decimals, at) => ({ name: TIMES[at][0], size: TIMES[at][1], decimals }));

/**
 * The unit of a table, one for all its times: the smallest in which the largest is below 10,000.
 * @param {number} largest
 */
export function unitFor(largest) {
  return UNITS.find((unit) => Math.abs(largest) < 1e4 * unit.size) ?? UNITS[UNITS.length - 1];
}

/**
 * A time in a table's unit.
 * @param {number} ns
 * @param {Unit} unit
 */
export function inUnit(ns, { size, decimals }) {
  return grouped(ns / size, decimals);
}

/**
 * Times in a unit, rounded so that they still add up to their sum.
 * @param {number[]} times
 * @param {Unit} unit
 */
export function addingUp(times, unit) {
  const least = unit.size / 10 ** unit.decimals;
  const ends = [0];
  let sum = 0;
  for (const ns of times) {
    sum += ns;
    ends.push(Number(fixed(sum / least, 0)));
  }
  return times.map((_, at) => inUnit((ends[at + 1] - ends[at]) * least, unit));
}

/**
 * A time on an axis, with the digits that tell ticks apart: 0.5 ms. All ticks of an axis have the unit that its span
 * reaches, or a smaller one where a step would need more than two decimals.
 * @param {number} ns
 * @param {number} step
 * @param {number} span
 */
export function tickLabel(ns, step, span) {
  const unit = UNITS.findLast(({ size }) => size <= span && size <= 100 * step) ?? UNITS[0];
  return `${grouped(ns / unit.size, Math.max(0, Math.ceil(Math.log10(unit.size / step) - 1e-9)))} ${unit.name}`;
}

/**
 * A time in the unit that a person would choose, with three significant digits: 850 ns, 12.4 µs, 1.00 ms, 129 ms,
 * 3.21 s, 16.7 min, 4.12 h. A whole part is never cut, and nanoseconds have no decimals, but for less than ten of them.
 * @param {Known} ns
 * @param {number} [digits]
 */
export function duration(ns, digits = 3) {
  return isKnown(ns) ? scaled(ns, digits).join(" ") : NOTHING;
}

/**
 * A time, or the two that it lies between: 1.20 ms to 3.40 ms.
 * @param {number} lowNs
 * @param {number} highNs
 */
export function range(lowNs, highNs) {
  return lowNs === highNs ? duration(lowNs) : `${duration(lowNs)} to ${duration(highNs)}`;
}

/**
 * A change: +90.0 µs, −1.20 ms, 0 ns.
 * @param {Known} ns
 * @param {number} [digits]
 */
export function signedDuration(ns, digits = 3) {
  return withPlus(ns, duration(ns, digits));
}

/**
 * A part and its whole, in one unit where both have it: 4.70 of 129 ms, 25.5 µs of 10.7 ms.
 * @param {number} partNs
 * @param {number} wholeNs
 */
export function ofWhole(partNs, wholeNs) {
  const [part, unit] = scaled(partNs, 3);
  const [whole, name] = scaled(wholeNs, 3);
  return `${part}${unit === name || !partNs ? "" : ` ${unit}`} of ${whole} ${name}`;
}

/**
 * A large number in powers of 1000, with three significant digits: 1234567 is 1.23 M.
 * @param {Known} value
 * @param {string} [unit]
 * @param {number} [digits]
 */
export function si(value, unit = "", digits = 3) {
  if (!isKnown(value)) return NOTHING;
  if (value && Math.abs(value) < 0.01) {
    const [mantissa, power] = value.toExponential(1).split("e");
    return `${grouped(Number(mantissa), 1)}e${Number(power)} ${unit}`.trimEnd();
  }
  let at = 0;
  while (at < POWERS.length - 1 && Math.abs(Number(value.toExponential(Math.max(digits, 3) - 1))) >= 1000) {
    value /= 1000;
    at += 1;
  }
  const text = at || value % 1 ? grouped(value, decimalsOf(value, digits)) : grouped(value);
  return `${text} ${POWERS[at]}${unit}`.trimEnd();
}

/**
 * Bytes in powers of 1024, with one decimal: 14.3 MiB.
 * @param {Known} value
 */
export function bytes(value) {
  if (!isKnown(value)) return NOTHING;
  let at = 0;
  while (at < SIZES.length - 1 && Math.abs(value) >= (at ? 1023.95 : 1023.5)) {
    value /= 1024;
    at += 1;
  }
  return `${grouped(value, at ? 1 : 0)} ${SIZES[at]}`;
}

/**
 * A fraction as a percentage: 96.3 %.
 * @param {Known} fraction
 * @param {number} [digits]
 */
export function percent(fraction, digits = 1) {
  return isKnown(fraction) ? `${grouped(100 * fraction, digits)} %` : NOTHING;
}

/**
 * The same, but of less than 0.1 % two significant digits: 96.3 %, 0.0042 %.
 * @param {Known} fraction
 */
export function smallPercent(fraction) {
  const isSmall = isKnown(fraction) && Math.abs(fraction) >= 5e-9 && Math.abs(fraction) < 0.001;
  return percent(fraction, isSmall ? 1 - powerOf(100 * fraction, 2) : 1);
}

/**
 * A change as a percentage: +3.1 %, −0.4 %, 0.0 %.
 * @param {Known} fraction
 * @param {number} [digits]
 */
export function signed(fraction, digits = 1) {
  return withPlus(fraction, percent(fraction, digits));
}

/** @param {Known} value */
export function count(value) {
  return isKnown(value) ? grouped(value) : NOTHING;
}

/**
 * 1234567.8 as 1,234,567.80: a true minus, but none before zeros. Ours rather than toLocaleString, so that every reader
 * sees the same page.
 * @param {number} value
 * @param {number} [decimals]
 */
export function grouped(value, decimals = 0) {
  const [whole, part] = fixed(Math.abs(value), decimals).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
  return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}

/**
 * toFixed, but what lies exactly between two goes to the even one, as Python writes it.
 * @param {number} value
 * @param {number} digits
 */
function fixed(value, digits) {
  const text = value.toFixed(digits);
  if (!/5$/.test(value.toFixed(digits + 1))) return text;
  const exact = value.toFixed(Math.min(100, digits + 50));
  const kept = exact.slice(0, digits ? exact.length - 50 : exact.length - 51);
  return /^50*$/.test(exact.slice(-50)) && /[02468]$/.test(kept) ? kept : text;
}

/**
 * A time as a number and the name of its unit.
 * @param {number} ns
 * @param {number} digits
 */
function scaled(ns, digits) {
  if (Math.abs(ns) < 9.95 && ns % 1) return [grouped(ns, Math.min(2, 1 - powerOf(ns, 2))).replace(/\.?0+$/, ""), "ns"];
  for (const [name, size, limit] of TIMES) {
    const decimals = size > 1 ? decimalsOf(ns / size, digits) : 0;
    if (Math.abs(Number(fixed(ns / size, decimals))) < limit) return [grouped(ns / size, decimals), name];
  }
  return [];
}

/**
 * So many that a number from 1 on has `digits` significant ones.
 * @param {number} value
 * @param {number} digits
 */
function decimalsOf(value, digits) {
  return Math.max(0, digits - 1 - Math.max(0, powerOf(value, digits)));
}

/**
 * The power of ten of a number that is rounded to `digits` significant ones.
 * @param {number} value
 * @param {number} digits
 */
function powerOf(value, digits) {
  return Number(value.toExponential(digits - 1).split("e")[1]);
}

/**
 * A plus before what is more than zeros.
 * @param {Known} value
 * @param {string} text
 */
function withPlus(value, text) {
  return value && value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/**
 * @param {Known} value
 * @returns {value is number}
 */
function isKnown(value) {
  return Number.isFinite(value);
}

/**
 * 1 event, 2 events, 3 batches, 4 copies.
 * @param {number} number
 * @param {string} word
 */
export function plural(number, word) {
  const ending = /(ch|sh|x|ss)$/.test(word) ? "es" : "s";
  const many = /[^aeiou]y$/.test(word) ? `${word.slice(0, -1)}ies` : `${word}${ending}`;
  return `${grouped(number)} ${number === 1 ? word : many}`;
}

/**
 * A kernel's name without its return type, and of CUTLASS's wrapper only what it wraps: sorting and reading want what
 * differs.
 * @param {string} name
 */
export function bareName(name) {
  return name.replace(/^void\s+/, "").replace(/^cutlass::device_kernel<(.+)>\(.*$/, "$1");
}

// Kernels that only wrap another one, which their first template argument names.
const WRAPPERS = /^(?:cutlass::)?(?:device_kernel|Kernel2?)<(?:enable_\w+<)?/;

// What some frameworks put around the names of their ranges: ## forward ##
const FRAME = /^[#*\s]+|[#*\s]+$/g;

/**
 * A kernel's name without its return type, template arguments and parameters: what an engineer calls it.
 * @param {string} name
 */
export function shortName(name) {
  const bare = bareName(name).replace(WRAPPERS, "").replace(FRAME, "");
  const end = bare.search(/[<(,>]/);
  const head = end > 0 ? bare.slice(0, end) : bare;
  // "(F)" and the like are part of a phase's name, not parameters.
  return bare.length - head.length <= 4 ? bare : head;
}

/**
 * A Python function without the folders of its file: "models/bert.py(7): forward" is "bert.py(7): forward".
 * @param {string} name
 */
export function withoutFolders(name) {
  return name.replace(/^[^():]*\//, "");
}
