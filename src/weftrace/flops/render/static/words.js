import { si } from "render/format.js";
// Numbers of a model's cost as text: powers of 1000 with three digits, rates, intensities.

/**
 * An axis value that is a power of ten: "0.1", "10 k", "1 T".
 * @param {number} value
 */
export function siTick(value) {
  return value < 1 ? String(Number(value.toPrecision(2))) : si(value, "", 1);
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
