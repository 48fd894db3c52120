// How changes are told: with their sign.

import { duration } from "render/format.js";

/**
 * A change with its sign: +90.0 µs.
 * @param {number} ns
 * @param {number} [digits]
 */
export function changed(ns, digits = 3) {
  return ns ? `${ns < 0 ? "−" : "+"}${duration(Math.abs(ns), digits)}` : "±0";
}
