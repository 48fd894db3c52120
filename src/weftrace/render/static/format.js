// Numbers as text. Inside the page time is integer nanoseconds; only this module turns it into words.

/** @typedef {{ name: string, size: number, below: number }} Unit */

const UNITS = [
  { name: "ns", size: 1, below: 1e3 },
  { name: "µs", size: 1e3, below: 1e6 },
  { name: "ms", size: 1e6, below: 1e10 },
  { name: "s", size: 1e9, below: Infinity },
];

/**
 * Nanoseconds in the unit a person would choose: 850 ns, 12.4 µs, 129.0 ms, 12.31 s. A dash where there is no number.
 * @param {number | null | undefined} ns
 * @param {number} [digits]
 */
export function duration(ns, digits = 3) {
  if (ns === null || ns === undefined) return "–";
  const unit = unitFor(Math.abs(ns));
  return `${significant(ns / unit.size, unit.name === "ns" ? 0 : digits)} ${unit.name}`;
}

/**
 * Nanoseconds as sentences have them, the headline's: 850 ns, 12.4 µs, 1,129.0 ms, 12.31 s. Beside a sentence a number
 * reads as it does there.
 * @param {number} ns
 */
export function sentence(ns) {
  const unit = unitFor(Math.abs(ns));
  return `${grouped(ns / unit.size, unit.name === "ns" ? 0 : unit.name === "s" ? 2 : 1)} ${unit.name}`;
}

/**
 * A part and its whole, in one unit: 12.6 of 98.0 ms.
 * @param {number} part
 * @param {number} whole
 */
export function ofWhole(part, whole) {
  const unit = unitFor(whole);
  if (part > 0 && part < unit.size / 10) return `${duration(part)} of ${duration(whole)}`;
  const digits = unit.name === "ns" ? 0 : 1;
  return `${grouped(part / unit.size, digits)} of ${grouped(whole / unit.size, digits)} ${unit.name}`;
}

/**
 * Exact microseconds: whole ones without decimals, others with their nanoseconds. 129,012 or 0.512.
 * @param {number} ns
 */
export function microseconds(ns) {
  const whole = ns % 1000 === 0;
  return grouped(ns / 1000, whole ? 0 : 3);
}

/**
 * The unit in which a whole column of times reads best, chosen by its largest value.
 * @param {number} ns
 * @returns {Unit}
 */
export function unitFor(ns) {
  return UNITS.find((unit) => ns < unit.below) ?? UNITS[0];
}

/**
 * 1234567.8 as 1,234,567.80 (digits fixed). Ours rather than toLocaleString, so that every reader sees the same page.
 * @param {number} value
 * @param {number} [digits]
 */
export function grouped(value, digits = 0) {
  const [whole, part] = fixed(Math.abs(value), digits).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
  return value < 0 ? `−${text}` : text;
}

/** @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : grouped(value);
}

/**
 * 0.963 as "96.3 %"; a dash where it is undefined.
 * @param {number | null | undefined} fraction
 * @param {number} [digits]
 */
export function percent(fraction, digits = 1) {
  return fraction === null || fraction === undefined ? "–" : `${fixed(100 * fraction, digits)} %`;
}

/**
 * toFixed, but what lies exactly between two goes to the even one, as Python writes it: the page's 6.25 % is the
 * headline's, and the terminal's.
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
 * Bytes in binary units.
 * @param {number | null | undefined} value
 */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < names.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${index ? value.toFixed(1) : value} ${names[index]}`;
}

/**
 * "1 event", "2 events".
 * @param {number} number
 * @param {string} word
 */
export function plural(number, word) {
  return `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;
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
 * At least `digits` significant figures, but never fewer than the whole part has.
 * @param {number} value
 * @param {number} digits
 */
function significant(value, digits) {
  const whole = Math.max(1, Math.floor(Math.log10(Math.max(Math.abs(value), 1))) + 1);
  return grouped(value, Math.max(0, digits - whole));
}
