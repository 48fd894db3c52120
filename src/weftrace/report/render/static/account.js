// Where did a stretch of time go? The report's own accounting, for any range: the four parts add up to the range
// exactly.

import { classUnions } from "./data.js";
import { difference, intersection, lengthWithin, merged } from "render/intervals.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 * @typedef {import("./parts.js").Parts} Parts
 *
 * Unions of intervals.
 * @typedef {object} Accounts
 * @property {number[]} compute
 * @property {number[]} communication
 * @property {number[]} hidden
 * @property {number[]} exposed
 * @property {number[]} exposedMemory
 * @property {number[]} busy
 *
 * @typedef {{ name: string, kind: string, num_events: number, total_ns: number }} KernelTime
 */

/** @type {WeakMap<Timeline, Accounts>} */
const found = new WeakMap();

const COUNTED = new Set(["compute", "communication", "barrier", "memory", "fused"]);

/**
 * Unions that every question about a range needs: exposed and hidden communication, exposed memory, idle's complement.
 * @param {Timeline} timeline
 * @returns {Accounts}
 */
export function accounts(timeline) {
  const known = found.get(timeline);
  if (known) return known;
  const { compute, communication, memory } = classUnions(timeline);
  const working = merged(compute, communication);
  const of = {
    compute,
    communication,
    hidden: intersection(communication, compute),
    exposed: difference(communication, compute),
    exposedMemory: difference(memory, working),
    busy: merged(working, memory),
  };
  found.set(timeline, of);
  return of;
}

/**
 * Nanoseconds of [from, to) by part. compute + exposed + exposed_memory + unrecorded + idle = to - from.
 * @param {Timeline} timeline
 * @param {number} from
 * @param {number} to
 * @returns {Parts}
 */
export function breakdown(timeline, from, to) {
  const of = accounts(timeline);
  const unrecorded = lengthWithin(timeline.unrecorded, from, to);
  return {
    span: to - from,
    compute: lengthWithin(of.compute, from, to),
    exposed: lengthWithin(of.exposed, from, to),
    exposed_memory: lengthWithin(of.exposedMemory, from, to),
    unrecorded,
    idle: to - from - lengthWithin(of.busy, from, to) - unrecorded,
    communication: lengthWithin(of.communication, from, to),
    hidden: lengthWithin(of.hidden, from, to),
  };
}

/**
 * Counted events (kernels, copies; host operators where they stand in) that ran in [from, to), by name: [{name, kind,
 * num_events, total_ns}], most time first. Clipped to the range.
 * @param {Timeline} timeline
 * @param {number} from
 * @param {number} to
 * @returns {KernelTime[]}
 */
export function kernelsWithin(timeline, from, to) {
  /** @type {Map<number, KernelTime>} */
  const totals = new Map();
  for (let i = 0; i < timeline.num; i += 1) {
    if (!COUNTED.has(timeline.className[timeline.kind[i]])) continue;
    const start = timeline.start[i];
    const end = start + timeline.dur[i];
    if (end <= from || start >= to) continue;
    const key = timeline.name[i] * 16 + timeline.kind[i];
    const entry = totals.get(key) ?? {
      name: timeline.names[timeline.name[i]],
      kind: timeline.className[timeline.kind[i]],
      num_events: 0,
      total_ns: 0,
    };
    entry.num_events += 1;
    entry.total_ns += Math.min(end, to) - Math.max(start, from);
    totals.set(key, entry);
  }
  return [...totals.values()].sort((a, b) => b.total_ns - a.total_ns);
}
