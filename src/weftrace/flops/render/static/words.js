// Numbers of a model's cost as text: powers of 1000 with three digits, rates, intensities.

const NAMES = ["", "k", "M", "G", "T", "P", "E", "Z"];

/**
 * 1234567 -> "1.23 M"; a dash where there is no number.
 * @param {number | null | undefined} value
 * @param {string} [unit]
 * @param {number} [digits]
 */
export function si(value, unit = "", digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let size = value;
  let at = 0;
  while (Math.abs(size) >= 999.5 && at < NAMES.length - 1) {
    size /= 1000;
    at += 1;
  }
  if (at === 0 && Number.isInteger(size)) return `${size} ${unit}`.trimEnd();
  if (size !== 0 && Math.abs(size) < 0.01) return `${size.toExponential(1)} ${unit}`.trimEnd();
  const whole = String(Math.trunc(Math.abs(size))).length;
  return `${size.toFixed(Math.max(0, digits - whole))} ${NAMES[at]}${unit}`.trimEnd();
}

/**
 * An axis value that is a power of ten: "1", "10 k", "1 T".
 * @param {number} value
 * @param {string} [unit]
 */
export function siTick(value, unit = "") {
  return value < 1 ? `${Number(value.toPrecision(2))}${unit ? ` ${unit}` : ""}` : si(value, unit, 1);
}

/**
 * The class of a colour for a phase.
 * @param {page.PhaseName} phase
 */
export function phaseClass(phase) {
  return `ph-${phase}`;
}

/** @type {page.PhaseName[]} */
export const PHASES = ["forward", "backward", "recompute", "optimizer"];
