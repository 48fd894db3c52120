// Times, amounts and actions of a simulated schedule in words.

import { bytes, duration, grouped } from "render/format.js";

/** @type {Record<string, string>} */
export const KINDS = {
  F: "forward",
  B: "backward",
  I: "input gradient",
  W: "weight gradient",
};

/**
 * A time: in units where costs are units, else in seconds and their parts.
 * @param {{ unit_ns: number }} block
 * @param {number} ns
 */
export function timeText({ unit_ns }, ns) {
  if (!unit_ns) return duration(ns, 4);
  const units = ns / unit_ns;
  const digits = [0, 1, 2].find((d) => Math.abs(units * 10 ** d - Math.round(units * 10 ** d)) < 1e-6);
  return grouped(units, digits ?? 3);
}

/**
 * An amount of memory.
 * @param {{ held_in: string }} block
 * @param {number} held
 */
export function heldText({ held_in }, held) {
  return held_in === "bytes" ? bytes(held) : grouped(held);
}

/**
 * An action: "forward of micro-batch 4, stage 0".
 * @param {page.Schedule} block
 * @param {number} cell
 */
export function actionText({ cells }, cell) {
  const { kind, stage, micro_batch, back_stage, back_micro_batch } = cells;
  const first = `micro-batch ${micro_batch[cell]}, stage ${stage[cell]}`;
  if (kind[cell] !== "F&B") return `${KINDS[kind[cell]]} of ${first}`;
  const second = `micro-batch ${back_micro_batch[cell]}, stage ${back_stage[cell]}`;
  return `forward of ${first}, overlapped with backward of ${second}`;
}
