// How changes are told: with their sign, and by what.

import { duration } from "render/format.js";

/** @typedef {"number" | "duration" | "overlap" | "kernel"} Effect */

/** What each effect is called. */
export const EFFECTS = /** @type {const} */ ([
  ["by_number_ns", "number"],
  ["by_duration_ns", "duration"],
  ["by_overlap_ns", "overlap"],
  ["by_kernel_ns", "other kernels"],
]);

/**
 * A change with its sign: +90.0 µs.
 * @param {number} ns
 * @param {number} [digits]
 */
export function changed(ns, digits = 3) {
  return ns ? `${ns < 0 ? "−" : "+"}${duration(Math.abs(ns), digits)}` : "±0";
}
